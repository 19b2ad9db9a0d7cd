//! One record at a time for a consumer that replies, and how long until each reply is there.
//!
//! Who sends the records also reads the replies: one process, one monotonic clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use ruststream::BoxError;

use crate::consumer::replies;
use crate::fill;
use crate::meter::hold;
use crate::producer::{Latency, PACE, micros};
use crate::record::{self, FullRecord, SmallReply};

/// So many records are replied to before those that are measured. The first one waits for the consumer to join its group.
const WARM_UP: u64 = 100;

/// A reply that takes longer does not come.
const MISSING: Duration = Duration::from_secs(60);

/// Feeds `samples` records, and some to warm up, to a topic with one partition, one every 5 ms, while `consumer` runs, which
/// is told how many records there are. Each latency is from just before the record was sent until its reply arrived.
///
/// # Errors
///
/// The consumer failed, or the replies were not those to the records, each once and in order.
pub fn latency(
    servers: &str,
    topic: &str,
    samples: u64,
    consumer: impl FnOnce(u64) -> Result<(), BoxError>,
) -> Result<Latency, BoxError> {
    let count = WARM_UP + samples;
    let reader = reader(servers, &replies(topic))?;
    let arrived = AtomicU64::new(0);
    let (sent, arrivals) = thread::scope(|scope| {
        let read = scope.spawn(|| read(&reader, count, &arrived));
        let send = scope.spawn(|| send(servers, topic, count, &arrived));
        consumer(count)?;
        let sent = send.join().map_err(|_| "the sender panicked")??;
        let arrivals = read.join().map_err(|_| "the reader panicked")??;
        Ok::<_, BoxError>((sent, arrivals))
    })?;
    let latencies = sent.iter().zip(&arrivals).skip(WARM_UP as usize);
    let latencies: Vec<f64> = latencies
        .map(|(sent, arrival)| micros(*arrival - *sent))
        .collect();
    Ok(Latency::of(&latencies))
}

/// A consumer at the end of the topic.
fn reader(servers: &str, topic: &str) -> Result<BaseConsumer, BoxError> {
    let end = fill::ends(servers, topic, 1)?;
    let end = *end.first().ok_or("the topic has no partition")?;
    let reader: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", format!("{topic}-reader"))
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "10")
        .create()?;
    let mut place = TopicPartitionList::new();
    place.add_partition_offset(topic, 0, Offset::Offset(end))?;
    reader.assign(&place)?;
    Ok(reader)
}

/// When each reply arrived.
fn read(reader: &BaseConsumer, count: u64, arrived: &AtomicU64) -> Result<Vec<Instant>, BoxError> {
    let mut arrivals = Vec::with_capacity(count as usize);
    for n in 0..count {
        let reply = reader
            .poll(MISSING)
            .ok_or_else(|| format!("no reply to record {n}: no figure"))??;
        arrivals.push(Instant::now());
        check(&reply, n)?;
        arrived.store(n + 1, Ordering::Relaxed);
    }
    Ok(arrivals)
}

fn check(reply: &BorrowedMessage<'_>, n: u64) -> Result<(), BoxError> {
    let reply: SmallReply = serde_json::from_slice(reply.payload().ok_or("a reply without payload")?)?;
    let (id, expected) = (reply.id, record::id(n));
    if id == expected {
        return Ok(());
    }
    Err(format!("the reply is to record {id}, not to {expected}: no figure").into())
}

/// Sends the records at their pace; when each was sent.
fn send(servers: &str, topic: &str, count: u64, arrived: &AtomicU64) -> Result<Vec<Instant>, BoxError> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("linger.ms", "0")
        .create()?;
    let mut sent = Vec::with_capacity(count as usize);
    let mut next = Instant::now();
    for n in 0..count {
        let payload = FullRecord::payload(n);
        producer.poll(Duration::ZERO);
        hold(next.saturating_duration_since(Instant::now()));
        sent.push(Instant::now());
        let record = BaseRecord::<(), [u8]>::to(topic).payload(&payload);
        producer.send(record).map_err(|(error, _)| error)?;
        if n == 0 {
            first_reply(arrived)?;
        }
        // After a delay the pace is the same, not faster.
        next = Instant::now() + PACE;
    }
    producer.flush(MISSING)?;
    Ok(sent)
}

fn first_reply(arrived: &AtomicU64) -> Result<(), BoxError> {
    let since = Instant::now();
    while arrived.load(Ordering::Relaxed) == 0 {
        if since.elapsed() > MISSING {
            return Err("no reply to the first record: no figure".into());
        }
        hold(PACE);
    }
    Ok(())
}
