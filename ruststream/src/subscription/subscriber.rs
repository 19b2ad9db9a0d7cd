//! A handler with the topic it consumes and its options.

use std::time::Duration;

use super::options::Options;
use super::{DeadLetterLimit, ProcessingOrder, RetryPolicy};
use crate::Handler;

/// A handler with the topic it consumes and its options: what [`mount`](crate::Mounts::mount) takes.
///
/// `#[subscriber("orders")] async fn bill(..)` makes a function `bill` that returns one; options can be set on the
/// function itself: `bill.concurrency(8)`. The options are the methods of [`IntoSubscriber`].
#[derive(Debug, Clone)]
#[must_use = "a subscriber consumes nothing until it is mounted: `kafka.mount(subscriber)`"]
pub struct Subscriber<H> {
    pub(crate) name: String,
    pub(crate) topic: String,
    pub(crate) options: Options,
    pub(crate) handler: H,
}

impl<H: Handler> Subscriber<H> {
    /// A subscriber of `topic`, named after the topic until [`name`](IntoSubscriber::name) says otherwise.
    pub fn new(topic: impl Into<String>, handler: H) -> Self {
        let topic = topic.into();
        Self {
            name: topic.clone(),
            topic,
            options: Options::default(),
            handler,
        }
    }
}

/// What can be mounted: a [`Subscriber`], or the function that `#[subscriber]` makes.
///
/// Every option works on both, so `mount(bill)`, `mount(bill.concurrency(8))` and
/// `mount(Subscriber::new("orders", handler).concurrency(8))` read alike.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be mounted",
    label = "not a subscriber",
    note = "annotate the function with `#[subscriber(\"topic\")]`, or mount `Subscriber::new(\"topic\", handler)`"
)]
pub trait IntoSubscriber: Sized {
    /// The handler.
    type Handler: Handler;

    /// The subscriber with the options set so far.
    fn into_subscriber(self) -> Subscriber<Self::Handler>;

    /// Names the subscription in errors, logs and reports; unique in the app. Default: the function's name.
    fn name(self, name: impl Into<String>) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.name = name.into();
        subscriber
    }

    /// Consumes `topic` instead of the one in the attribute.
    fn topic(self, topic: impl Into<String>) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.topic = topic.into();
        subscriber
    }

    /// Which deliveries of a partition wait for which. Default: one after another within a partition.
    fn ordering(self, ordering: ProcessingOrder) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.ordering = ordering;
        subscriber
    }

    /// How many handlers may be open at once in a partition (1 to 10,000, default 16), for the orders `Key` and
    /// `Unordered`.
    fn concurrency(self, handlers: usize) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.concurrency = Some(handlers);
        subscriber
    }

    /// When a failed delivery is tried again. Default: 10 attempts with back-off, then a dead letter if there is a topic for
    /// it, else the subscription stops.
    fn retry(self, policy: RetryPolicy) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.retry = policy;
        subscriber
    }

    /// How long one call of the handler may take before it is cancelled, which is a failure that is tried again. Default: as
    /// long as it takes.
    ///
    /// A handler that blocks its thread cannot be cancelled; it is noticed when it yields.
    fn timeout(self, limit: Duration) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.timeout = Some(limit);
        subscriber
    }

    /// The topic that the handler's replies go to. Only for handlers that reply: the attribute has it as `reply = ".."`.
    ///
    /// Replies are sent one after another and not waited for: the next delivery starts at once, and a delivery is settled
    /// when its reply is confirmed. Up to 4,096 of a partition are under way; that is what a crash repeats. A reply that
    /// fails is sent again by the [retry policy](Self::retry), and nothing new starts meanwhile; when that is in vain, the
    /// delivery is dead-lettered, or the subscription stops.
    fn reply(self, topic: impl Into<String>) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.reply = Some(topic.into());
        subscriber
    }

    /// The topic for copies of deliveries that could not be handled: attempts spent, or a failure that no attempt heals.
    /// Default: none, and the subscription stops instead.
    ///
    /// The copy is the raw record with headers that say where it came from and why ([`dead_letter`](crate::dead_letter)).
    /// The delivery is settled when the copy is confirmed; a copy that fails is sent again by the
    /// [retry policy](Self::retry), and when that is in vain the subscription stops.
    fn dead_letter(self, topic: impl Into<String>) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.dead_letter = Some(topic.into());
        subscriber
    }

    /// How many deliveries of a partition may be dead-lettered before the subscription stops instead. Default: 100 one
    /// after another, and 500 of 1,000.
    fn dead_letter_limit(self, limit: DeadLetterLimit) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.dead_letter_limit = limit;
        subscriber
    }

    /// How long running handlers of a revoked partition may go on before they are cancelled. Default: 5 s. The whole
    /// group waits meanwhile, so keep it well below the broker's rebalance timeout.
    fn drain_timeout(self, timeout: Duration) -> Subscriber<Self::Handler> {
        let mut subscriber = self.into_subscriber();
        subscriber.options.drain_timeout = Some(timeout);
        subscriber
    }
}

impl<H: Handler> IntoSubscriber for Subscriber<H> {
    type Handler = H;

    fn into_subscriber(self) -> Self {
        self
    }
}

impl<F: FnOnce() -> Subscriber<H>, H: Handler> IntoSubscriber for F {
    type Handler = H;

    fn into_subscriber(self) -> Subscriber<H> {
        self()
    }
}
