//! The contract between the runtime and a broker: a broker crate needs this page and nothing else.
//!
//! A [`Subscription`] is to partitions what a listener is to connections: [`accept`](Subscription::accept) hands out a
//! [`Partition`] when it is assigned to this process; the partition yields [`Delivery`]s in order until its assignment
//! [ends](Partition::poll_end); dropping it gives it back.
//!
//! ```text
//! Broker::subscribe ─▶ Subscription::accept ─▶ Partition ─▶ poll_batch: deliveries, in order
//!                                    │              ├─ store: everything below this offset is settled
//!                                    │              └─ poll_end: revoked, lost or closed ─▶ drain, store, drop
//!                                    └─ close: end all partitions, wait for their drop, commit, leave
//! ```
//!
//! A [`Publisher`] is the way out: a [`Record`](crate::Record) is enqueued in order, its [`Receipt`] resolves when the broker confirmed it.
//! The runtime opens one for a broker whose handlers reply, send, or have a dead-letter topic.
//!
//! What the runtime promises to a broker:
//! - one partition value is driven by one task, and never after it was dropped;
//! - deliveries that were not settled when a partition is dropped are not forgotten: the position that was stored last
//!   does not cover them, so the next owner gets them again;
//! - a delivery lives no longer than the partition that yielded it.
//!
//! What a broker promises to the runtime:
//! - deliveries of a partition come in ascending offset order, gaps allowed; an offset at or below an earlier one is a
//!   redelivery and means that everything from there on comes again;
//! - a partition is not handed to another member of the group before this one was dropped, or its drain deadline passed;
//! - no method blocks its thread. Waiting is done by returning [`Poll::Pending`] after keeping the waker.

mod publisher;
mod receipts;

use std::collections::VecDeque;
use std::future::Future;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

pub use publisher::{NoPublisher, NoReceipt, Publisher, Receipt, Sender};
pub use receipts::Receipts;

use crate::{Error, Headers, Problem};

/// A connection to a messaging system.
pub trait Broker: Send + Sync + 'static {
    /// What [`subscribe`](Self::subscribe) yields.
    type Subscription: Subscription;

    /// What [`open_publisher`](Self::open_publisher) yields; [`NoPublisher`] for a broker that is only read.
    type Publisher: Publisher;

    /// Names the broker for people, in errors and logs: `Kafka at localhost:9092`. No secrets.
    fn describe(&self) -> String;

    /// When deliveries of this broker count as settled, so that a test on the memory broker does the same.
    fn commit(&self) -> Commit {
        Commit::Tracked
    }

    /// Makes one subscription for each request, in the same order, or reports everything that is wrong.
    ///
    /// All requests come at once, so that a broker can serve several of them with one client. A broker must refuse two
    /// requests for one topic in one group, and a topic that does not exist.
    ///
    /// # Errors
    ///
    /// Every problem found, each with its remedy: unreachable broker, missing topics, contradicting settings.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future (the start-up deadline passed) leaves nothing behind that consumes.
    fn subscribe(
        &self,
        requests: Vec<SubscribeRequest>,
    ) -> impl Future<Output = Result<Vec<Self::Subscription>, Vec<Problem>>> + Send;

    /// Makes the publisher of replies, dead letters and what handlers send, or reports everything that is wrong.
    ///
    /// A destination that does not exist is a problem of its subscription. Handlers may send to other topics, too. By
    /// default, for a broker that is only read, there is none.
    ///
    /// # Errors
    ///
    /// Every problem found, each with its remedy.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    fn open_publisher(
        &self,
        destinations: Vec<Destination>,
    ) -> impl Future<Output = Result<Self::Publisher, Vec<Problem>>> + Send {
        let _ = destinations;
        let text = "is only read: replies, dead letters and what handlers send need another broker";
        let problem = Problem::new(self.describe(), text);
        async move { Err(vec![problem]) }
    }
}

/// Where the records of a subscription go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Destination {
    /// The subscription's name.
    pub subscription: String,
    /// The topic: of its replies, or of its dead letters.
    pub topic: String,
}

impl Destination {
    /// Records of `subscription` go to `topic`.
    pub fn new(subscription: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            subscription: subscription.into(),
            topic: topic.into(),
        }
    }
}

/// What a subscription asks of its broker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscribeRequest {
    /// The subscription's name, unique in the app: what errors and metrics call it.
    pub name: String,
    /// The topic to consume.
    pub topic: String,
    /// The group to join unless the broker was given another: the app's name.
    pub group: String,
    /// How long a revoked partition may take to drain. The broker waits this long, and a little more, for its drop.
    pub drain_timeout: Duration,
}

impl SubscribeRequest {
    /// A request for `topic` by the subscription `name`, in `group`, with the default drain timeout of 5 s.
    pub fn new(name: impl Into<String>, topic: impl Into<String>, group: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            topic: topic.into(),
            group: group.into(),
            drain_timeout: crate::subscription::DEFAULT_DRAIN_TIMEOUT,
        }
    }
}

/// One handler's membership in a topic; yields partitions.
pub trait Subscription: Send + 'static {
    /// What [`accept`](Self::accept) yields.
    type Partition: Partition;

    /// Waits for the next partition that is assigned to this process; `None` when there will be no more.
    ///
    /// # Errors
    ///
    /// The client failed for good ([`ErrorKind::Broker`](crate::ErrorKind::Broker)): the app drains and stops.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a partition is either yielded or kept for the next call.
    fn accept(&mut self) -> impl Future<Output = Result<Option<Self::Partition>, Error>> + Send;

    /// Leaves: ends every partition with [`End::Closed`], waits until they are dropped, commits what was stored, and
    /// gives up the membership. Returns the positions that the broker confirmed during the subscription's life.
    ///
    /// Partitions that were accepted are drained by their own tasks meanwhile; one that was revoked before stays
    /// `Revoked`. At `deadline` the broker goes on without those that were not dropped.
    ///
    /// A subscription that is dropped without this call leaves as well, in the background and with the drain timeout as
    /// its deadline.
    ///
    /// # Errors
    ///
    /// The positions may not have been committed (the broker is down, or the deadline passed): records will be seen
    /// again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the wait; the broker still closes in the background.
    fn close(self, deadline: Instant) -> impl Future<Output = Result<Vec<Committed>, Error>> + Send;
}

/// A position that the broker confirmed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Committed {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// The offset of the first record that is not covered: where the next owner starts.
    pub offset: i64,
}

impl Committed {
    /// The position `offset` of `partition` in `topic`.
    pub fn new(topic: impl Into<String>, partition: i32, offset: i64) -> Self {
        Self {
            topic: topic.into(),
            partition,
            offset,
        }
    }
}

/// An ordered run of deliveries that this process owns for now.
///
/// Dropping a partition gives it back; do so after the last [`store`](Self::store). One that is dropped before its
/// assignment ended is not read any more by this value; a broker may hand it out again.
pub trait Partition: Send + 'static {
    /// What [`poll_batch`](Self::poll_batch) yields.
    type Delivery: Delivery;

    /// The topic.
    fn topic(&self) -> &str;

    /// The partition's number in its topic.
    fn index(&self) -> i32;

    /// The consumer group that it is assigned in.
    fn group(&self) -> &str;

    /// When a delivery counts as settled.
    fn commit(&self) -> Commit {
        Commit::Tracked
    }

    /// Appends at least one and at most `max` deliveries to `batch`, or keeps the waker and returns `Pending`.
    ///
    /// Not calling it is back-pressure: the broker fetches ahead only up to its own bound. Once the assignment has ended
    /// it is pending for ever. `max` is at least 1.
    ///
    /// # Errors
    ///
    /// The partition cannot be read any more, and waiting will not help: the subscription stops with this error.
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        batch: &mut VecDeque<Self::Delivery>,
    ) -> Poll<Result<(), Error>>;

    /// Ready once this process is about to lose, or has lost, the partition; otherwise keeps the waker.
    ///
    /// Ready again on every later call; an end may get worse (`Revoked`, then `Lost`), never better, and the waker is
    /// kept for that too.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<End>;

    /// Notes that every delivery below `position` is settled; the broker commits it on its own schedule, and before
    /// the partition goes to another member. Never waits for the network.
    ///
    /// # Errors
    ///
    /// The assignment is over. That is normal for a late call, and harmless: it moved nothing.
    fn store(&mut self, position: i64) -> Result<(), StoreError>;
}

/// Why a partition's assignment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A rebalance takes the partition away: drain within the drain timeout, store, drop.
    Revoked,
    /// The subscription is closing: drain within the shutdown deadline, store, drop.
    Closed,
    /// It is gone already, and another member may have it: cancel at once, store nothing, drop.
    Lost,
}

/// A [`store`](Partition::store) that came too late: this process does not own the partition any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreError;

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the partition is not assigned any more, nothing was stored")
    }
}

impl std::error::Error for StoreError {}

/// When a delivery counts as settled, and so what a crash does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Commit {
    /// When its handler's outcome settled it. At least once: after a crash, what was settled but not yet committed is
    /// seen again.
    #[default]
    Tracked,
    /// When it is handed to its handler, whatever the outcome. Records in flight may be lost in a crash, and the last
    /// commit interval may repeat: this is neither at least once nor at most once.
    Auto,
}

/// One received message, borrowed from the client's buffer or owned, with its position.
///
/// `Sync`, because a handler's future borrows it across awaits on a multi-thread runtime.
pub trait Delivery: Send + Sync + 'static {
    /// The topic.
    fn topic(&self) -> &str;

    /// The partition's number in its topic.
    fn partition(&self) -> i32;

    /// The position in the partition, ascending, gaps allowed.
    fn offset(&self) -> i64;

    /// The key; null and empty are different things.
    fn key(&self) -> Option<&[u8]>;

    /// The payload; `None` is a tombstone, which is not the same as empty.
    fn payload(&self) -> Option<&[u8]>;

    /// The record's timestamp, where the broker has one.
    fn timestamp(&self) -> Option<SystemTime> {
        None
    }

    /// The headers. Read lazily: nothing is parsed before this is called.
    fn headers(&self) -> Headers<'_>;
}
