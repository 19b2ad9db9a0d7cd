//! One record at a time on an idle system: how long until it is known to be written.

use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use ruststream::BoxError;
use ruststream::broker::Publisher;
use ruststream_rdkafka::KafkaBroker;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use super::{Args, Records, Sent, Tally, equal_settings, measured};
use crate::statistics::percentile;

/// 200 records a second.
pub(crate) const PACE: Duration = Duration::from_millis(5);

/// Latencies, in microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// Of 100 records, 99 take no longer.
    pub p99: f64,
}

impl Latency {
    pub(crate) fn of(latencies: &[f64]) -> Self {
        Self {
            p50: percentile(latencies, 0.5),
            p99: percentile(latencies, 0.99),
        }
    }
}

/// Of the records that are measured.
fn measured_ones(latencies: &[f64], args: &Args) -> Latency {
    Latency::of(latencies.get(args.mode.warm_up() as usize..).unwrap_or_default())
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(super) async fn ours(args: &Args, records: &Records) -> Result<Sent, BoxError> {
    let publisher = KafkaBroker::new(&*args.servers).publisher()?;
    let (mut pace, mut latencies) = (pace(), Vec::new());
    let sent = measured(args, async |range, tally: &mut Tally| {
        for n in range {
            pace.tick().await;
            let record = records.record(n);
            let start = Instant::now();
            let confirmed = publisher.publish(record).await?;
            latencies.push(micros(start.elapsed()));
            tally.ours(&confirmed)?;
        }
        Ok(())
    })
    .await?;
    Ok(Sent {
        latency: Some(measured_ones(&latencies, args)),
        ..sent
    })
}

fn pace() -> tokio::time::Interval {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

/// Where a record landed, and when the callback said so.
type Landed = (i32, i64, Instant);

/// Its delivery callback runs on the thread that polls, and tells the sender.
struct Deliveries;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<oneshot::Sender<Landed>>;

    fn delivery(&self, result: &DeliveryResult<'_>, sender: Self::DeliveryOpaque) {
        let now = Instant::now();
        if let Ok(message) = result {
            let _ = sender.send((message.partition(), message.offset(), now));
        }
    }
}

/// `ThreadedProducer` is a `BaseProducer` with a thread that polls it.
pub(super) async fn raw(args: &Args, records: &Records) -> Result<Sent, BoxError> {
    let producer: ThreadedProducer<Deliveries> =
        equal_settings(&args.servers).create_with_context(Deliveries)?;
    let (mut pace, mut latencies, mut callbacks) = (pace(), Vec::new(), Vec::new());
    let sent = measured(args, async |range, tally: &mut Tally| {
        for n in range {
            pace.tick().await;
            let (key, payload) = records.parts(n);
            let start = Instant::now();
            let (told, landed) = oneshot::channel();
            let record = BaseRecord::with_opaque_to(records.topic, Box::new(told));
            let record = record.key(key).payload(payload);
            producer.send(record).map_err(|(error, _)| error)?;
            let (partition, offset, callback) = landed.await?;
            latencies.push(micros(start.elapsed()));
            callbacks.push(micros(callback - start));
            tally.confirmed(partition, offset)?;
        }
        Ok(())
    })
    .await?;
    Ok(Sent {
        latency: Some(measured_ones(&latencies, args)),
        callback: Some(measured_ones(&callbacks, args)),
        ..sent
    })
}
