//! The producers that are compared, each a process of its own.
//!
//! All send the same records: 512 bytes of JSON and a key of 8 bytes, made beforehand. A record of ours owns its bytes, so
//! each is a clone of the payload and of the key: two heap blocks that are the user's. The raw producers borrow them.

mod future;
mod latency;
mod sent;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rdkafka::ClientConfig;
use ruststream::broker::Publisher;
use ruststream::{BoxError, Record};
use ruststream_rdkafka::{KafkaBroker, KafkaPublisher};
use tokio::time::Instant;

use crate::meter::{self, Mark};
use crate::record::FullRecord;

pub use latency::Latency;
pub(crate) use latency::{PACE, micros};
pub use sent::{Sent, Tally};

/// What a producer process is told.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// Who produces.
    pub mode: Mode,
    /// The broker.
    #[arg(long)]
    pub servers: String,
    /// The topic, which is empty.
    #[arg(long)]
    pub topic: String,
    /// How many records are measured.
    #[arg(long)]
    pub count: u64,
    /// How many records are unconfirmed at a time, where the sender decides that.
    #[arg(long, default_value_t = 1_000)]
    pub window: usize,
    /// Each time that so many were sent, wait so long (ms), blocking: until all are confirmed.
    #[arg(long, default_value_t = 0)]
    pub hold: u64,
}

/// `send_all` has so many under way.
const SEND_ALL: u64 = 4_096;

/// Who produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// `send`, a window of receipts, the oldest awaited.
    Send,
    /// `publish`, one record at a time.
    Publish,
    /// `send_all`.
    SendAll,
    /// rdkafka's `FutureProducer`, its defaults but for `linger.ms=0`; a window of futures, the oldest awaited.
    FutureDefault,
    /// The same, `KafkaBroker::publisher`'s settings.
    FutureEqual,
    /// The same, the futures in a `FuturesUnordered`.
    FutureUnordered,
    /// `publish`, 200 records a second, each timed.
    PublishPaced,
    /// A `BaseProducer` with a polling thread, the same.
    RawPaced,
}

impl Mode {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// How many records are sent before those that are measured: until connections, places and vectors are there.
    pub fn warm_up(self) -> u64 {
        match self {
            Self::PublishPaced | Self::RawPaced => 100,
            _ => 5_000,
        }
    }
}

/// What is sent, made beforehand.
struct Records {
    topic: &'static str,
    /// How long to wait before some, and before which.
    hold: Duration,
    every: u64,
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

/// So many keys that 12 partitions get about the same.
const KEYS: u64 = 1_000;

impl Records {
    fn new(args: &Args) -> Self {
        let part = |n| (format!("key-{n:04}").into_bytes(), FullRecord::payload(n));
        Self {
            // A service names its topics in its text: no allocation for a record.
            topic: args.topic.clone().leak(),
            hold: Duration::from_millis(args.hold),
            every: match args.mode {
                _ if args.hold == 0 => u64::MAX,
                Mode::SendAll => SEND_ALL,
                _ => args.window as u64,
            },
            parts: (0..KEYS).map(part).collect(),
        }
    }

    /// Key and payload of the record number `n`.
    #[inline]
    fn parts(&self, n: u64) -> (&[u8], &[u8]) {
        if n.is_multiple_of(self.every) {
            meter::hold(self.hold);
        }
        let (key, payload) = self
            .parts
            .get((n % KEYS) as usize)
            .expect("there are as many parts as keys");
        (key, payload)
    }

    #[inline]
    fn record(&self, n: u64) -> Record {
        let (key, payload) = self.parts(n);
        Record::new(self.topic, payload).key(key)
    }
}

/// Runs the producer that the command line names, on a current-thread runtime, and prints what was measured.
///
/// # Errors
///
/// The producer failed, or a record was confirmed where it should not be.
pub fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    println_json(&runtime.block_on(produce(&args))?)
}

#[allow(clippy::print_stdout, reason = "the line is the program's result")]
fn println_json(sent: &Sent) -> Result<(), BoxError> {
    println!("{}", serde_json::to_string(sent)?);
    Ok(())
}

async fn produce(args: &Args) -> Result<Sent, BoxError> {
    let records = Records::new(args);
    match args.mode {
        Mode::Send | Mode::Publish | Mode::SendAll => ours(args, &records).await,
        Mode::FutureDefault | Mode::FutureEqual | Mode::FutureUnordered => future::run(args, &records).await,
        Mode::PublishPaced => latency::ours(args, &records).await,
        Mode::RawPaced => latency::raw(args, &records).await,
    }
}

/// `FutureProducer`'s defaults, but for its 5 ms of linger, with which the window would decide the rate.
fn default_settings(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("linger.ms", "0");
    config
}

/// The settings of `KafkaBroker::publisher`: `ruststream-rdkafka/src/publisher/settings.rs`.
pub(crate) fn equal_settings(servers: &str) -> ClientConfig {
    let mut config = default_settings(servers);
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("partitioner", "murmur2_random")
        .set("max.in.flight.requests.per.connection", "5")
        .set("topic.metadata.propagation.max.ms", "10000")
        .set("reconnect.backoff.max.ms", "1000")
        .set("log.connection.close", "false")
        .set("socket.keepalive.enable", "true")
        .set("queue.buffering.max.messages", "8192");
    config
}

/// Sends the records that warm up, then those that are measured, each time to the last confirmation.
async fn measured(
    args: &Args,
    mut send: impl AsyncFnMut(Range<u64>, &mut Tally) -> Result<(), BoxError>,
) -> Result<Sent, BoxError> {
    let warm_up = args.mode.warm_up();
    let mut tally = Tally::default();
    send(0..warm_up, &mut tally).await?;
    let first = Mark::now();
    send(warm_up..warm_up + args.count, &mut tally).await?;
    let last = Mark::now();
    Ok(tally.sent(args.count, first.until(last)))
}

async fn ours(args: &Args, records: &Records) -> Result<Sent, BoxError> {
    let publisher = KafkaBroker::new(&*args.servers).publisher()?;
    let sent = measured(args, async |range, tally: &mut Tally| match args.mode {
        Mode::Publish => one_at_a_time(&publisher, records, range, tally).await,
        Mode::SendAll => all(&publisher, records, range, tally).await,
        _ => window(&publisher, records, range, tally, args.window).await,
    })
    .await?;
    publisher.close(Instant::now() + Duration::from_secs(10)).await?;
    Ok(sent)
}

async fn window(
    publisher: &KafkaPublisher,
    records: &Records,
    range: Range<u64>,
    tally: &mut Tally,
    window: usize,
) -> Result<(), BoxError> {
    let mut unconfirmed = VecDeque::with_capacity(window);
    for n in range {
        if unconfirmed.len() == window
            && let Some(oldest) = unconfirmed.pop_front()
        {
            tally.ours(&oldest.await?)?;
        }
        unconfirmed.push_back(publisher.send(records.record(n)).await?);
    }
    for receipt in unconfirmed {
        tally.ours(&receipt.await?)?;
    }
    Ok(())
}

async fn one_at_a_time(
    publisher: &KafkaPublisher,
    records: &Records,
    range: Range<u64>,
    tally: &mut Tally,
) -> Result<(), BoxError> {
    for n in range {
        tally.ours(&publisher.publish(records.record(n)).await?)?;
    }
    Ok(())
}

async fn all(
    publisher: &KafkaPublisher,
    records: &Records,
    range: Range<u64>,
    tally: &mut Tally,
) -> Result<(), BoxError> {
    let confirmed = publisher.send_all(range.map(|n| records.record(n))).await?;
    tally.unplaced(confirmed);
    Ok(())
}
