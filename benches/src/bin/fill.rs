//! Fills a topic for a run by hand: `fill SERVERS TOPIC PARTITIONS COUNT` (the topic must exist or be creatable).

fn main() -> Result<(), ruststream::BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [servers, topic, partitions, count] = args.as_slice() else {
        return Err("usage: fill SERVERS TOPIC PARTITIONS COUNT".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let kafka = ruststream_rdkafka::KafkaBroker::new(servers);
    runtime.block_on(kafka.create_topic(topic, partitions.parse()?))?;
    ruststream_benches::fill::fill(servers, topic, partitions.parse()?, count.parse()?)
}
