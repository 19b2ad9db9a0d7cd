//! The way into a memory broker's topics.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tokio::time::Instant;

use super::log::Topic;
use super::{MemoryBroker, MemoryRecord};
use crate::broker::{Publisher, Receipt};
use crate::{Confirmed, Error, PublishError, PublishErrorKind, Record};

/// Publishes to a [`MemoryBroker`]: never full, every record is confirmed or refused at once.
///
/// ```
/// use ruststream::broker::Publisher;
/// use ruststream::memory::MemoryBroker;
/// use ruststream::{PublishErrorKind, Record};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let broker = MemoryBroker::new();
/// let error = broker.publisher().publish(Record::new("orders", "{}")).await.unwrap_err();
/// assert_eq!(error.kind(), PublishErrorKind::UnknownTopic);
/// assert_eq!(error.into_record(), Some(Record::new("orders", "{}")));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MemoryPublisher {
    broker: MemoryBroker,
}

/// Has resolved already.
#[derive(Debug)]
#[must_use = "a receipt says whether the record was confirmed: await it"]
pub struct MemoryReceipt {
    /// `None` once it was taken.
    confirmed: Option<Confirmed>,
}

impl MemoryBroker {
    /// A publisher to this broker's topics.
    pub fn publisher(&self) -> MemoryPublisher {
        MemoryPublisher { broker: self.clone() }
    }
}

impl Publisher for MemoryPublisher {
    type Receipt = MemoryReceipt;

    async fn send(&self, record: Record) -> Result<MemoryReceipt, PublishError> {
        self.try_send(record)
    }

    fn try_send(&self, record: Record) -> Result<MemoryReceipt, PublishError> {
        let broker = &self.broker;
        broker.shared.with(|state, wakers| {
            let topic = match state.topic(record.topic(), broker.auto_create) {
                Ok(topic) => topic,
                Err(missing) => {
                    let error = PublishError::new(PublishErrorKind::UnknownTopic, missing.to_string());
                    return Err(error.with_record(record));
                }
            };
            if let Some(message) = no_such_partition(topic, &record) {
                let error = PublishError::new(PublishErrorKind::UnknownPartition, message);
                return Err(error.with_record(record));
            }
            let mut record = MemoryRecord::from(record);
            let timestamp = *record.timestamp.get_or_insert_with(SystemTime::now);
            let (at, offset) = topic
                .append(record)
                .map_err(|error| PublishError::new(PublishErrorKind::Broker, error.to_string()))?;
            for group in state.groups.values_mut() {
                group.wake_reader(&at, wakers);
            }
            wakers.note_change();
            Ok(MemoryReceipt {
                confirmed: Some(Confirmed::new(at.partition, offset, Some(timestamp))),
            })
        })
    }

    async fn flush(&self, _: Instant) -> Result<(), Error> {
        Ok(())
    }
}

fn no_such_partition(topic: &Topic, record: &Record) -> Option<String> {
    let (partition, partitions) = (record.partition()?, topic.partitions());
    let unknown = !(0..partitions).contains(&partition);
    unknown.then(|| {
        let name = record.topic();
        format!("topic {name} has no partition {partition}, only {partitions}")
    })
}

impl Future for MemoryReceipt {
    type Output = Result<Confirmed, PublishError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.now().expect("a receipt is not polled after it resolved"))
    }
}

impl Receipt for MemoryReceipt {
    fn now(&mut self) -> Option<Result<Confirmed, PublishError>> {
        self.confirmed.take().map(Ok)
    }
}
