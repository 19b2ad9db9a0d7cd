//! The production app, unchanged, on the memory broker.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::broker::Delivery;
use crate::memory::{MemoryBroker, MemoryDelivery, MemoryRecord};
use crate::{BoxError, Error, Report, Running, RustStream};

/// The production app, unchanged, with the memory broker in place of its brokers.
///
/// ```
/// use ruststream::prelude::*;
/// use ruststream::testing::TestApp;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Order { id: u64 }
///
/// #[subscriber("orders")]
/// async fn bill(order: Order) {
///     assert_eq!(order.id, 7);
/// }
///
/// // What `main` would run: with `KafkaBroker::new(..)` in place of the broker here.
/// fn app() -> RustStream {
///     RustStream::new("billing").broker(ruststream::memory::MemoryBroker::new(), |broker| broker.mount(bill))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ruststream::BoxError> {
/// let t = TestApp::start(app()).await?;
/// let (partition, offset) = t.publish("orders", &Order { id: 7 })?;
/// t.settled().await;
/// assert_eq!(t.position("orders", partition), Some(offset + 1));
/// let report = t.stop().await?;
/// assert_eq!(report.subscriptions[0].settled, 1);
/// # Ok(())
/// # }
/// ```
///
/// With tokio's paused clock (`#[tokio::test(start_paused = true)]`), retries and deadlines take no time.
#[derive(Debug)]
#[must_use = "dropping a test app aborts it"]
pub struct TestApp {
    running: Running,
    broker: MemoryBroker,
}

/// Partitions of a topic that is made on first use: more than one, so that a test notices what depends on order.
const PARTITIONS: i32 = 4;

/// Ends a test that waits in vain. Longer than all retries of the default policy together (51 s): with a paused clock
/// it would pass before them.
const DEADLINE: Duration = Duration::from_secs(120);

impl TestApp {
    /// Starts `app` on a memory broker whose topics are made on first use, with 4 partitions each.
    ///
    /// # Errors
    ///
    /// As [`RustStream::start`](crate::RustStream::start).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the start up.
    pub async fn start(app: RustStream) -> Result<Self, Error> {
        Self::start_on(app, MemoryBroker::new().auto_create(PARTITIONS)).await
    }

    /// Starts `app` on `broker`, for a test that sets up topics, positions or other members first.
    ///
    /// # Errors
    ///
    /// As [`RustStream::start`](crate::RustStream::start).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the start up.
    pub async fn start_on(app: RustStream, broker: MemoryBroker) -> Result<Self, Error> {
        let running = app.start_in_memory(broker.clone()).await?;
        Ok(Self { running, broker })
    }

    /// The broker: publish anything, look at everything, add and remove members.
    pub fn broker(&self) -> &MemoryBroker {
        &self.broker
    }

    /// Publishes `value` as JSON without a key; returns partition and offset.
    ///
    /// # Errors
    ///
    /// The value has no JSON form, or the topic does not exist.
    pub fn publish(&self, topic: &str, value: &impl Serialize) -> Result<(i32, i64), BoxError> {
        let record = MemoryRecord::new(topic).payload(serde_json::to_vec(value)?);
        Ok(self.broker.publish(record)?)
    }

    /// Publishes `value` as JSON with a key; returns partition and offset.
    ///
    /// # Errors
    ///
    /// The value has no JSON form, or the topic does not exist.
    pub fn publish_with_key(
        &self,
        topic: &str,
        key: &str,
        value: &impl Serialize,
    ) -> Result<(i32, i64), BoxError> {
        let record = MemoryRecord::new(topic)
            .key(key)
            .payload(serde_json::to_vec(value)?);
        Ok(self.broker.publish(record)?)
    }

    /// Every record of `topic`, decoded from JSON, in the order in which they were published; none if there is no such topic.
    /// What is not JSON, or a tombstone, is in [`broker().records(topic)`](MemoryBroker::records).
    ///
    /// # Errors
    ///
    /// A record does not decode.
    pub fn published<T: DeserializeOwned>(&self, topic: &str) -> Result<Vec<T>, BoxError> {
        let decode = |record: &MemoryDelivery| {
            let payload = record.payload().ok_or_else(|| {
                format!(
                    "{topic}/{} offset {} is a tombstone: look at it with broker().records(..)",
                    record.partition(),
                    record.offset()
                )
            })?;
            Ok(serde_json::from_slice(payload)?)
        };
        self.broker.records(topic).iter().map(decode).collect()
    }

    /// Waits until everything published so far is settled.
    ///
    /// # Panics
    ///
    /// After 120 s of tokio's time, naming the first position that does not move: a handler hangs, or the app stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn settled(&self) {
        let settled = self.broker.until(|_| self.unsettled().is_none());
        if timeout(DEADLINE, settled).await.is_err() {
            let what = self.unsettled().unwrap_or_default();
            panic!("after {DEADLINE:?}, {what}: its handler hangs, or the app has stopped");
        }
    }

    /// The position of the app's group: the offset of the first record that is not settled.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.broker.position(self.running.name(), topic, partition)
    }

    /// What the app has done so far.
    pub fn report(&self) -> Report {
        self.running.report()
    }

    /// Stops the app and waits for its end.
    ///
    /// # Errors
    ///
    /// As [`Running::wait`](crate::Running::wait).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the app.
    pub async fn stop(self) -> Result<Report, Error> {
        self.running.stop();
        self.running.wait().await
    }

    /// Waits until the app stops by itself.
    ///
    /// # Errors
    ///
    /// As [`Running::wait`](crate::Running::wait).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the app.
    pub async fn stopped(self) -> Result<Report, Error> {
        self.running.wait().await
    }

    /// Names the first partition whose last record is not settled.
    fn unsettled(&self) -> Option<String> {
        let report = self.running.report();
        report.subscriptions.iter().find_map(|subscription| {
            let topic = &*subscription.topic;
            self.broker.records(topic).iter().find_map(|record| {
                let (partition, offset) = (record.partition(), record.offset());
                let position = self.position(topic, partition);
                (position.is_none_or(|position| position <= offset)).then(|| {
                    format!("{topic}/{partition} offset {offset} is not settled (position {position:?})")
                })
            })
        })
    }
}
