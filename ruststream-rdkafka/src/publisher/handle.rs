//! The publisher that a service holds.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use ruststream::broker::Publisher;
use ruststream::{Error, ErrorKind, Problem, PublishError, Record};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::task::TaskTracker;

use super::failure::{self, Failure};
use super::places::{Addressee, Ticket};
use super::{Acks, KafkaReceipt, KafkaSender, Results, Settings};
use crate::blocking::{NoAnswer, blocking};
use crate::native::{Code, Producer, Topic};

/// Publishes to Kafka. Made by [`KafkaBroker::publisher`](crate::KafkaBroker::publisher).
///
/// ```no_run
/// # async fn run() -> Result<(), ruststream::Error> {
/// use std::time::Duration;
///
/// use ruststream::Record;
/// use ruststream::broker::Publisher;
/// use ruststream_rdkafka::KafkaBroker;
/// use tokio::time::Instant;
///
/// let publisher = KafkaBroker::new("localhost:9092").publisher()?;
/// let confirmed = publisher.publish(Record::new("orders", "{}").key("ada")).await?;
/// println!("at {}/{}", confirmed.partition, confirmed.offset);
/// // Before the process ends: what was sent and not awaited.
/// publisher.close(Instant::now() + Duration::from_secs(10)).await?;
/// # Ok(())
/// # }
/// ```
///
/// A clone is the same publisher. When the last one is dropped, records under way get 5 s in the background, then they
/// are given up; a process that ends does not wait for that, so [`flush`](Publisher::flush) or [`close`](Publisher::close)
/// first. Receipts may outlive it: each resolves.
///
/// Order: records to one partition are written in the order in which they were enqueued, over restarts of brokers too,
/// as long as `enable.idempotence` is on. A record that fails for good leaves a gap; later ones are written.
#[derive(Clone)]
pub struct KafkaPublisher {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    producer: Producer,
    pub(super) results: Arc<Results>,
    /// Whose turn it is among those who wait for room; first come, first served.
    turn: Semaphore,
    max_unconfirmed: usize,
    /// `Kafka at ..`
    subject: String,
}

/// Why a record was not enqueued.
pub(super) enum Refusal {
    /// Too many are unconfirmed.
    Full,
    /// librdkafka's own queue is full, by bytes.
    QueueFull,
    /// For good.
    Final(PublishError),
}

/// How often the client's own events are let out: its logs, and renewals of tokens, which come minutes early.
const TICK: Duration = Duration::from_secs(1);

/// How long to wait when the client's queue is full. A confirmation comes a moment before librdkafka frees its bytes, so
/// there is no event to wait for.
const FULL: Duration = Duration::from_millis(5);

/// How often to try when the client's queue is full and nothing is under way: half a second in all.
const TRIES: usize = 100;

/// How much longer than the call's own timeout its thread may take.
const SLACK: Duration = Duration::from_millis(250);

/// How long giving up may take: it took 1 ms with a dead cluster.
const PURGE: Duration = Duration::from_secs(5);

/// Makes a publisher; its dispatcher is owned by `tasks`.
pub(crate) fn start(
    settings: &Settings,
    subject: String,
    keep: Option<Arc<dyn Any + Send + Sync>>,
    tasks: &TaskTracker,
) -> Result<KafkaPublisher, Problem> {
    let problem = |message: String| Problem::new(&*subject, message);
    let runtime = Handle::try_current().map_err(|_| {
        problem("a publisher needs a tokio runtime: call `publisher()` in an async function".to_owned())
    })?;
    let results = Arc::new(Acks::new(settings.max_unconfirmed, warn_unseen));
    let producer = Producer::new(&settings.config, Arc::clone(&results), keep)
        .map_err(|text| problem(format!("librdkafka refuses the settings together: {text}")))?;
    let shared = Arc::new(Shared {
        producer,
        results: Arc::clone(&results),
        turn: Semaphore::const_new(1),
        max_unconfirmed: settings.max_unconfirmed,
        subject,
    });
    tasks.spawn_on(dispatch(results, Arc::downgrade(&shared)), &runtime);
    Ok(KafkaPublisher { shared })
}

fn warn_unseen(error: &PublishError) {
    tracing::error!(%error, "a record failed, and its receipt was dropped");
}

/// Hands results to receipts until the client ends.
async fn dispatch(results: Arc<Results>, shared: Weak<Shared>) {
    let served = results.serve();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    poll_fn(|cx| {
        while tick.poll_tick(cx).is_ready() {
            if let Some(shared) = shared.upgrade() {
                shared.producer.tick();
            }
        }
        served.poll(cx)
    })
    .await;
}

impl Publisher for KafkaPublisher {
    type Receipt = KafkaReceipt;
    type Sender = KafkaSender;

    fn sender(&self) -> KafkaSender {
        KafkaSender::new(Arc::clone(&self.shared))
    }

    async fn send(&self, record: Record) -> Result<KafkaReceipt, PublishError> {
        if !self.shared.results.has_line() {
            match self.shared.offer(&record) {
                Ok(receipt) => return Ok(receipt),
                Err(Refusal::Final(error)) => return Err(error.with_record(record)),
                Err(Refusal::Full | Refusal::QueueFull) => {}
            }
        }
        match self.shared.wait_and_send(&record).await {
            Ok(receipt) => Ok(receipt),
            Err(error) => Err(error.with_record(record)),
        }
    }

    fn try_send(&self, record: Record) -> Result<KafkaReceipt, PublishError> {
        let shared = &self.shared;
        let full = || failure::full(&record, shared.max_unconfirmed);
        let error = if shared.results.has_line() {
            full()
        } else {
            match shared.offer(&record) {
                Ok(receipt) => return Ok(receipt),
                Err(Refusal::Full | Refusal::QueueFull) => full(),
                Err(Refusal::Final(error)) => error,
            }
        };
        Err(error.with_record(record))
    }

    async fn flush(&self, deadline: Instant) -> Result<(), Error> {
        let results = &self.shared.results;
        let shared = Arc::clone(&self.shared);
        let left = deadline.saturating_duration_since(Instant::now());
        let flushed = blocking("flush", deadline + SLACK, move || shared.producer.flush(left)).await;
        self.hand_out().await;
        if flushed != Ok(true) {
            let (unconfirmed, subject) = (results.unconfirmed(), &self.shared.subject);
            let message = format!(
                "{unconfirmed} records were not confirmed by {subject} within the deadline: they are still on their way, \
                 wait longer or check the cluster"
            );
            return Err(Error::new(ErrorKind::Deadline, message));
        }
        let unseen = results.take_unseen();
        match unseen.first {
            None => Ok(()),
            Some(first) => {
                let count = unseen.count;
                let message = format!("{count} records whose receipts were dropped were not confirmed");
                Err(Error::new(ErrorKind::Broker, message).with_source(first))
            }
        }
    }

    /// Every receipt has resolved when this returns: with [`ErrorKind::Deadline`], those of the records that were given up
    /// have them.
    async fn close(&self, deadline: Instant) -> Result<(), Error> {
        self.shared.results.close();
        let flushed = self.flush(deadline).await;
        let given_up = self.shared.results.unconfirmed();
        let purged = self.give_up().await;
        let subject = &self.shared.subject;
        if let Err(error) = purged {
            let message = format!("records on their way to {subject} could not be given up");
            return Err(Error::new(ErrorKind::Internal, message).with_source(error));
        }
        match flushed {
            Err(error) if error.kind() == ErrorKind::Deadline => {
                let message = format!(
                    "{given_up} records were not confirmed by {subject} within the deadline and were given up: their \
                     receipts have them"
                );
                Err(Error::new(ErrorKind::Deadline, message))
            }
            flushed => flushed,
        }
    }
}

impl KafkaPublisher {
    /// Purges until nothing is unconfirmed: a sender may have been about to enqueue when the publisher was closed.
    async fn give_up(&self) -> Result<(), NoAnswer> {
        let deadline = Instant::now() + PURGE;
        loop {
            let shared = Arc::clone(&self.shared);
            blocking("purge", deadline, move || shared.producer.purge()).await?;
            self.hand_out().await;
            if self.unconfirmed() == 0 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// How many records are unconfirmed.
    pub fn unconfirmed(&self) -> usize {
        self.shared.results.unconfirmed()
    }

    /// Has every result that has arrived handed to its receipt.
    async fn hand_out(&self) {
        let results = &self.shared.results;
        results.drain();
        results.land_all();
        while results.is_draining() {
            tokio::task::yield_now().await; // another thread does it right now: microseconds
        }
    }
}

impl Shared {
    /// Enqueues the record if there is room.
    #[inline]
    fn offer(&self, record: &Record) -> Result<KafkaReceipt, Refusal> {
        let ticket = self.offer_to(record, None)?;
        Ok(KafkaReceipt::new(Arc::clone(&self.results), ticket))
    }

    /// Enqueues the record if there is room; `addressee` gets its result, or else a receipt.
    #[inline]
    pub(super) fn offer_to(&self, record: &Record, addressee: Option<Addressee>) -> Result<Ticket, Refusal> {
        let results = &self.results;
        if results.is_closed() {
            return Err(Refusal::Final(failure::closed(record)));
        }
        let timestamp = checked(record).map_err(Refusal::Final)?;
        let topic = self.topic(record).map_err(Refusal::Final)?;
        let partition = record.partition().unwrap_or(-1);
        let ticket = results
            .take(addressee, partition, timestamp)
            .ok_or(Refusal::Full)?;
        // Again: from here on `close` waits for this record, before it might have seen none.
        if results.is_closed() {
            results.give_back(ticket);
            return Err(Refusal::Final(failure::closed(record)));
        }
        let enqueued = self.producer.enqueue(topic, record, timestamp, ticket.opaque());
        match enqueued {
            // Refused and acknowledged: an unknown partition.
            Err(_) if results.has_result(ticket) => {}
            Ok(()) => {}
            Err(code) => {
                results.give_back(ticket);
                return Err(if code == Code::QUEUE_FULL {
                    Refusal::QueueFull
                } else {
                    Refusal::Final(self.refused(code, record))
                });
            }
        }
        Ok(ticket)
    }

    #[inline]
    fn topic(&self, record: &Record) -> Result<Topic, PublishError> {
        if let Some(topic) = self.producer.topic(record.topic()) {
            return Ok(topic);
        }
        if !is_topic(record.topic()) {
            let reason = "that cannot be the name of a topic: use ASCII letters, digits, `.`, `_` and `-`, at most 249";
            return Err(failure::invalid(record, reason));
        }
        self.producer
            .new_topic(record.topic())
            .map_err(|code| Failure::refused(code).without_record(record))
    }

    #[cold]
    fn refused(&self, code: Code, record: &Record) -> PublishError {
        let failure = match self.producer.fatal_error() {
            Some((cause, reason)) => Failure::of_client(cause, reason, false),
            None => Failure::refused(code),
        };
        failure.without_record(record)
    }

    /// Waits in line, then for room.
    #[cold]
    async fn wait_and_send(&self, record: &Record) -> Result<KafkaReceipt, PublishError> {
        let _in_line = self.results.join_line();
        // Only the first one waits for room: so records are enqueued in the order of the line, whoever is woken first.
        let _turn = self.turn.acquire().await.expect("nobody closes the semaphore");
        let mut tries = 0;
        loop {
            match poll_fn(|cx| self.poll_offer(cx, record)).await {
                Ok(receipt) => return Ok(receipt),
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Full | Refusal::QueueFull) => {
                    tries = if self.results.unconfirmed() == 0 {
                        tries + 1
                    } else {
                        0
                    };
                    if tries == TRIES {
                        return Err(failure::never_fits(record));
                    }
                    sleep(FULL).await;
                }
            }
        }
    }

    /// Ready unless too many are unconfirmed.
    fn poll_offer(&self, cx: &Context<'_>, record: &Record) -> Poll<Result<KafkaReceipt, Refusal>> {
        self.results.drain();
        self.results.land_all();
        let offered = self.offer(record);
        if !matches!(offered, Err(Refusal::Full)) {
            return Poll::Ready(offered);
        }
        self.results.wait_for_room(cx.waker());
        match self.offer(record) {
            Err(Refusal::Full) => Poll::Pending,
            offered => Poll::Ready(offered),
        }
    }
}

/// Refuses what no broker could take; returns the timestamp in milliseconds, 0 for now.
#[inline]
fn checked(record: &Record) -> Result<i64, PublishError> {
    if record.partition().is_some_and(|partition| partition < 0) {
        return Err(failure::invalid(record, "its partition is negative"));
    }
    if record.headers().any(|(name, _)| name.contains('\0')) {
        return Err(failure::invalid(
            record,
            "the name of a header holds a NUL, which librdkafka cannot send",
        ));
    }
    let Some(timestamp) = record.timestamp() else {
        return Ok(0);
    };
    let millis = timestamp
        .duration_since(SystemTime::UNIX_EPOCH)
        .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    match millis {
        Ok(millis) if millis > 0 => Ok(millis),
        _ => Err(failure::invalid(
            record,
            "its timestamp is not after the start of 1970",
        )),
    }
}

/// Kafka's rule.
fn is_topic(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(legal)
}

impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher")
            .field("cluster", &self.shared.subject)
            .field("unconfirmed", &self.unconfirmed())
            .finish_non_exhaustive()
    }
}
