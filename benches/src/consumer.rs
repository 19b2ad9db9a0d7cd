//! The consumers that are compared, each a process of its own.

mod raw_reply;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use ruststream::prelude::*;
use ruststream::{BoxError, Running, StopHandle};
use ruststream_rdkafka::KafkaBroker;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::meter::{Measured, Meter};
use crate::record::{BorrowedRecord, Record, SmallReply, checksum, checksum_of_last_digits};

/// What a consumer process is told.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// Who consumes.
    pub mode: Mode,
    /// The broker.
    #[arg(long)]
    pub servers: String,
    /// The topic.
    #[arg(long)]
    pub topic: String,
    /// How many records are in it.
    #[arg(long)]
    pub count: u64,
    /// The first record waits this long (ms), so that everything is fetched before it is drained.
    #[arg(long, default_value_t = 0)]
    pub hold: u64,
    /// `fetch.queue.backoff.ms`; with librdkafka's default, 1000, every other setting is librdkafka's too.
    #[arg(long, default_value_t = 10)]
    pub backoff: u32,
}

/// Who consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A `#[subscriber]` service, tracked, ack each, owned field.
    Service,
    /// As `service`, borrowing from the payload.
    ServiceBorrowed,
    /// As `service`, raw bytes.
    ServiceBytes,
    /// As `service`, each handler pending once.
    ServicePending,
    /// As `service-borrowed`, with a small JSON reply for each record to the topic's name and `-replies`; done when all are
    /// confirmed.
    ServiceReply,
    /// As `service-reply` for records that come one at a time: replies with `linger.ms=0`; done when the last one settles.
    ServiceReplyPaced,
    /// As `service`, `Commit::Auto`.
    ServiceAuto,
    /// The loop that people write: `StreamConsumer::recv`, each offset stored after its record.
    Raw,
    /// The same loop, auto-commit.
    RawAuto,
    /// The loop for the same replies: `StreamConsumer::recv`, `FutureProducer`, 4,096 on their way, offsets stored in order.
    RawReply,
    /// The loop that people write for them: each reply is sent, `linger.ms=0`, and awaited before the next record.
    RawReplyEach,
}

impl Mode {
    /// The checksum of the first `count` records.
    pub fn checksum(self, count: u64) -> u64 {
        match self {
            Self::ServiceBytes => checksum_of_last_digits(count),
            _ => checksum(count),
        }
    }

    fn is_service_reply(self) -> bool {
        matches!(self, Self::ServiceReply | Self::ServiceReplyPaced)
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// What the handlers share.
struct Bench {
    meter: Meter,
    stop: OnceCell<StopHandle>,
}

impl Bench {
    #[inline]
    fn hit(&self, id: u64) {
        if self.meter.hit(id) {
            self.end();
        }
    }

    #[cold]
    fn end(&self) {
        if let Some(stop) = self.stop.get() {
            stop.stop();
        }
    }
}

#[subscriber("bench")]
async fn owned(record: Record, State(bench): State<'_, Arc<Bench>>) {
    bench.hit(black_box(record).id);
}

#[subscriber("bench")]
async fn borrowed(record: BorrowedRecord<'_>, State(bench): State<'_, Arc<Bench>>) {
    bench.hit(black_box(record).id);
}

#[subscriber("bench", reply = "bench-replies")]
async fn reply(record: BorrowedRecord<'_>, State(bench): State<'_, Arc<Bench>>) -> SmallReply {
    let id = black_box(record).id;
    bench.hit(id);
    SmallReply::to(id)
}

#[subscriber("bench")]
async fn bytes(payload: &[u8], State(bench): State<'_, Arc<Bench>>) {
    // `{"id":1000000042,…`: the last digit of the id, so that there is a checksum without a decoder.
    bench.hit(
        black_box(payload)
            .get(15)
            .map_or(0, |digit| u64::from(digit - b'0')),
    );
}

#[subscriber("bench")]
async fn pending(record: Record, State(bench): State<'_, Arc<Bench>>) {
    tokio::task::yield_now().await;
    bench.hit(black_box(record).id);
}

/// Runs the consumer that the command line names, on a current-thread runtime, and prints what was measured.
///
/// # Errors
///
/// The consumer failed, or saw fewer records.
pub fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let measured = runtime.block_on(consume(&args))?;
    println_json(&measured)
}

#[allow(clippy::print_stdout, reason = "the line is the program's result")]
fn println_json(measured: &Measured) -> Result<(), BoxError> {
    println!("{}", serde_json::to_string(measured)?);
    Ok(())
}

async fn consume(args: &Args) -> Result<Measured, BoxError> {
    let meter = Meter::new(args.count, Duration::from_millis(args.hold));
    match args.mode {
        Mode::Raw | Mode::RawAuto => raw(args, meter).await,
        Mode::RawReply => raw_reply::pipelined(args, meter).await,
        Mode::RawReplyEach => raw_reply::each(args, meter).await,
        _ => service(args, meter).await,
    }
}

/// A group that nobody used before.
fn group(args: &Args) -> String {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{}-{}-{}", args.mode.name(), std::process::id(), since.as_nanos())
}

/// librdkafka's own `fetch.queue.backoff.ms`.
const CLIENT_DEFAULT_BACKOFF: u32 = 1_000;

/// The client settings that all have in common.
fn settings(args: &Args) -> Vec<(&'static str, String)> {
    if args.backoff == CLIENT_DEFAULT_BACKOFF {
        // The loop as people run it: the client's own defaults throughout.
        return Vec::new();
    }
    let mut settings = vec![
        ("fetch.queue.backoff.ms", args.backoff.to_string()),
        // The adapter's defaults, said to the raw loop too.
        ("auto.commit.interval.ms", "1000".to_owned()),
        ("partition.assignment.strategy", "cooperative-sticky".to_owned()),
        ("socket.keepalive.enable", "true".to_owned()),
    ];
    if args.hold == 0 {
        settings.push(("queued.min.messages", "20000".to_owned()));
    } else {
        settings.push(("queued.min.messages", "10000000".to_owned()));
        settings.push(("queued.max.messages.kbytes", "2097151".to_owned()));
    }
    settings
}

async fn service(args: &Args, meter: Meter) -> Result<Measured, BoxError> {
    let mut kafka = KafkaBroker::new(&*args.servers).group(group(args));
    for (key, value) in settings(args) {
        kafka = kafka.set(key, value);
    }
    if args.mode == Mode::ServiceAuto {
        kafka = kafka.commit(Commit::Auto);
    }
    if args.mode == Mode::ServiceReplyPaced {
        kafka = kafka.set_producer("linger.ms", "0");
    }
    let bench = Arc::new(Bench {
        meter,
        stop: OnceCell::new(),
    });
    let topic = &*args.topic;
    let app = RustStream::new("bench")
        .state(Arc::clone(&bench))
        .broker(kafka, |kafka| match args.mode {
            Mode::ServiceBorrowed => kafka.mount(borrowed.topic(topic)),
            Mode::ServiceBytes => kafka.mount(bytes.topic(topic)),
            mode if mode.is_service_reply() => kafka.mount(reply.topic(topic).reply(replies(topic))),
            Mode::ServicePending => kafka.mount(pending.topic(topic)),
            _ => kafka.mount(owned.topic(topic)),
        });
    let running = app.start().await?;
    if args.mode == Mode::ServiceReply && args.hold == 0 {
        confirmed(&running, args.count).await?;
        bench.meter.end();
        running.stop();
    } else {
        bench.stop.set(running.handle())?;
    }
    let report = running.wait().await?;
    let replied = replied(&report);
    if args.mode.is_service_reply() && args.count != replied {
        return Err(format!("{replied} replies were confirmed, not {}: no figure", args.count).into());
    }
    bench.meter.measured()
}

/// A service that confirms nothing for so long never will.
const STALLED: Duration = Duration::from_secs(20);

/// Waits until so many replies are confirmed. Looks every millisecond: a thousandth of the runs that it measures.
///
/// # Errors
///
/// No more are confirmed: what the service says of itself.
async fn confirmed(running: &Running, count: u64) -> Result<(), BoxError> {
    let (mut so_far, mut since) = (0, Instant::now());
    while so_far < count && !running.is_stopping() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = replied(&running.report());
        if now > so_far {
            (so_far, since) = (now, Instant::now());
        } else if since.elapsed() > STALLED {
            let report = running.report();
            return Err(format!("no reply was confirmed any more: no figure\n{report:#?}").into());
        }
    }
    Ok(())
}

fn replied(report: &Report) -> u64 {
    report
        .subscriptions
        .iter()
        .map(|subscription| subscription.replied)
        .sum()
}

/// Where the replies to a topic's records go.
pub fn replies(topic: &str) -> String {
    format!("{topic}-replies")
}

/// The consumer of the raw loops, subscribed.
fn raw_consumer(args: &Args, tracked: bool) -> Result<StreamConsumer, BoxError> {
    let mut config = rdkafka::ClientConfig::new();
    config
        .set("bootstrap.servers", &args.servers)
        .set("group.id", group(args))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.offset.store", (!tracked).to_string());
    for (key, value) in settings(args) {
        config.set(key, value);
    }
    let consumer: StreamConsumer = config.create()?;
    consumer.subscribe(&[&args.topic])?;
    Ok(consumer)
}

async fn raw(args: &Args, meter: Meter) -> Result<Measured, BoxError> {
    let tracked = args.mode == Mode::Raw;
    let consumer = raw_consumer(args, tracked)?;
    loop {
        let message = consumer.recv().await?;
        let record: Record = serde_json::from_slice(message.payload().ok_or("a record without payload")?)?;
        let last = meter.hit(black_box(record).id);
        if tracked {
            consumer.store_offset_from_message(&message)?;
        }
        if last {
            break;
        }
    }
    meter.measured()
}
