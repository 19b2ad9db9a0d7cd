use rdkafka::ClientConfig;
use rdkafka::consumer::*;
use ruststream_kafka_cluster::Cluster;
use std::time::{Duration, Instant};
fn t<T>(w: &str, f: impl FnOnce() -> T) -> T {
    let b = Instant::now();
    let r = f();
    println!("{w} {:?}", b.elapsed());
    r
}
fn main() {
    let c = Cluster::start(3).unwrap();
    c.create_topic("a", 1, 3).unwrap();
    for k in 0..2 {
        let r: BaseConsumer = t("new", || {
            let mut x = ClientConfig::new();
            x.set("bootstrap.servers", c.node(1).unwrap().address());
            if k == 1 {
                x.set("reconnect.backoff.ms", "20")
                    .set("reconnect.backoff.max.ms", "100");
            }
            x.create().unwrap()
        });
        t("meta", || {
            r.fetch_metadata(Some("a"), Duration::from_secs(5))
                .map(|_| ())
                .unwrap()
        });
        t("meta", || {
            r.fetch_metadata(Some("a"), Duration::from_secs(5))
                .map(|_| ())
                .unwrap()
        });
        t("drop", || drop(r));
        let r: rdkafka::producer::BaseProducer = t("new p", || {
            let mut x = ClientConfig::new();
            x.set("bootstrap.servers", c.node(1).unwrap().address());
            x.create().unwrap()
        });
        use rdkafka::producer::Producer;
        t("meta", || {
            r.client()
                .fetch_metadata(Some("a"), Duration::from_secs(5))
                .map(|_| ())
                .unwrap()
        });
        t("drop", || drop(r));
    }
    for i in 0..60 {
        let n = i % 3 + 1;
        c.kill(n).unwrap();
        let e = t("topic", || c.create_topic(&format!("b{i}"), 4, 2));
        if e.is_err() {
            println!("{e:?}");
        }
        c.restart(n).unwrap();
    }
}
