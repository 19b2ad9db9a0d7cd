//! The surroundings of one check: a topic and a group of its own, and deadlines that say what was waited for.

use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, timeout};

use super::consumer::{Consumer, Event, MANY};
use super::{Fixture, TestRecord};
use crate::broker::{Broker, Committed, SubscribeRequest};

pub(super) type SubscriptionOf<F> = <<F as Fixture>::Broker as Broker>::Subscription;

pub(super) struct Scene<'f, F> {
    pub(super) fixture: &'f F,
    pub(super) topic: String,
    pub(super) group: String,
    check: &'static str,
}

impl<'f, F: Fixture> Scene<'f, F> {
    /// A scene without a topic.
    pub(super) fn bare(fixture: &'f F, check: &'static str) -> Self {
        let name = unique(check);
        Self {
            fixture,
            topic: name.clone(),
            group: name,
            check,
        }
    }

    pub(super) async fn new(fixture: &'f F, check: &'static str, partitions: i32) -> Self {
        let scene = Self::bare(fixture, check);
        let created = fixture.create_topic(&scene.topic, partitions);
        scene.within("the topic is created", created).await;
        scene
    }

    pub(super) fn record(&self, partition: i32, payload: &str) -> TestRecord {
        TestRecord {
            payload: Some(payload.into()),
            ..self.tombstone(partition)
        }
    }

    pub(super) fn tombstone(&self, partition: i32) -> TestRecord {
        TestRecord {
            topic: self.topic.clone(),
            partition,
            ..TestRecord::default()
        }
    }

    pub(super) async fn publish(&self, record: TestRecord) {
        self.within("a record is published", self.fixture.publish(record))
            .await;
    }

    /// Publishes the numbers below `count` to `partition`.
    pub(super) async fn publish_numbers(&self, partition: i32, count: usize) {
        for number in 0..count {
            self.publish(self.record(partition, &number.to_string())).await;
        }
    }

    pub(super) fn request(&self) -> SubscribeRequest {
        SubscribeRequest::new("contract", &self.topic, &self.group)
    }

    /// Subscribes to the topic as a new member of the group.
    pub(super) async fn subscribe(&self) -> Consumer<SubscriptionOf<F>> {
        self.subscribe_with(self.request()).await
    }

    pub(super) async fn subscribe_with(&self, request: SubscribeRequest) -> Consumer<SubscriptionOf<F>> {
        let broker = self.fixture.broker().await;
        let subscribed = self
            .within("the subscription is made", broker.subscribe(vec![request]))
            .await;
        let mut subscriptions = self.expect(subscribed, "a subscription to an existing topic is made");
        match subscriptions.pop() {
            Some(subscription) if subscriptions.is_empty() => Consumer::new(subscription),
            _ => self.fail("one request makes one subscription"),
        }
    }

    /// Subscribes, and accepts the topic's only partition.
    pub(super) async fn subscribe_and_accept(&self) -> Consumer<SubscriptionOf<F>> {
        let mut consumer = self.subscribe().await;
        let event = self
            .within("the partition is accepted", consumer.next(MANY))
            .await;
        self.check(
            matches!(event, Event::Accepted(0)),
            &format!("the partition is accepted, but: {event}"),
        );
        consumer
    }

    /// Closes, dropping each partition when it ends.
    pub(super) async fn close(&self, consumer: Consumer<SubscriptionOf<F>>) -> Vec<Committed> {
        let closed = self
            .within("the subscription is closed", consumer.close(self.deadline()))
            .await;
        let mut committed = self.expect(closed, "close succeeds when all partitions are dropped");
        committed.sort();
        committed
    }

    /// For a close: later than [`within`](Self::within) gives up, so that a close that needs its deadline is noticed.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + 2 * self.fixture.patience()
    }

    pub(super) async fn within<T>(&self, what: &str, event: impl Future<Output = T>) -> T {
        let patience = self.fixture.patience();
        match timeout(patience, event).await {
            Ok(value) => value,
            Err(_) => self.fail(&format!("{what} within {patience:?}")),
        }
    }

    /// Makes sure that `event` does not happen for a moment: long enough for what is running already.
    pub(super) async fn not_yet<T>(&self, what: &str, event: impl Future<Output = T>) {
        const MOMENT: Duration = Duration::from_millis(300);
        if timeout(MOMENT, event).await.is_ok() {
            self.fail(what);
        }
    }

    pub(super) fn expect<T>(&self, result: Result<T, impl Debug>, what: &str) -> T {
        result.unwrap_or_else(|error| self.fail(&format!("{what}, but: {error:?}")))
    }

    pub(super) fn check(&self, holds: bool, what: &str) {
        if !holds {
            self.fail(what);
        }
    }

    pub(super) fn same<T: PartialEq + Debug>(&self, found: &T, expected: &T, what: &str) {
        if found != expected {
            self.fail(&format!("{what}:\n  expected {expected:?}\n     found {found:?}"));
        }
    }

    /// Ends the check; `what` is the sentence that does not hold.
    pub(super) fn fail(&self, what: &str) -> ! {
        panic!(
            "the broker breaks its contract in `{}`: not so: {what}",
            self.check
        )
    }
}

/// A name for a topic and a group that no other run has used.
fn unique(check: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nth = COUNT.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!(
        "{check}-{:x}-{:x}-{nth}",
        std::process::id(),
        since_epoch.as_nanos()
    )
}
