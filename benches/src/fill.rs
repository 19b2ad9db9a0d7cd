//! Fills topics, and says what is in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use ruststream::BoxError;

use crate::record::FullRecord;

/// Counts what was delivered.
#[derive(Clone, Default)]
struct Delivered(Arc<AtomicU64>);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes `count` records to the topic, to its partitions in turn, and waits until each is delivered.
///
/// # Errors
///
/// A record was not delivered within 5 minutes.
pub fn fill(servers: &str, topic: &str, partitions: i32, count: u64) -> Result<(), BoxError> {
    let delivered = Delivered::default();
    let producer: ThreadedProducer<Delivered> = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("linger.ms", "50")
        .set("batch.num.messages", "100000")
        .set("queue.buffering.max.messages", "1000000")
        .create_with_context(delivered.clone())?;
    for n in 0..count {
        let payload = FullRecord::payload(n);
        let partition = i32::try_from(n % u64::try_from(partitions)?)?;
        let mut record = BaseRecord::<(), [u8]>::to(topic)
            .payload(&payload)
            .partition(partition);
        while let Err((error, refused)) = producer.send(record) {
            if !matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) {
                return Err(error.into());
            }
            std::thread::park_timeout(Duration::from_millis(5));
            record = refused;
        }
    }
    producer.flush(Duration::from_secs(300))?;
    match delivered.0.load(Ordering::Relaxed) {
        all if all == count => Ok(()),
        some => Err(format!("only {some} of {count} records were delivered to {topic}").into()),
    }
}

/// How long the broker may take for one partition.
const ANSWER: Duration = Duration::from_secs(10);

/// The end offset of each partition of a topic from which nothing was removed.
///
/// # Errors
///
/// The broker did not answer, or the first records are gone.
pub fn ends(servers: &str, topic: &str, partitions: i32) -> Result<Vec<i64>, BoxError> {
    let consumer: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", servers)
        .create()?;
    let end = |partition| match consumer.fetch_watermarks(topic, partition, ANSWER)? {
        (0, end) => Ok(end),
        (first, _) => Err(format!("{topic}/{partition} begins at {first}: records are gone").into()),
    };
    (0..partitions).map(end).collect()
}
