//! The way into a memory broker's topics.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use tokio::time::Instant;

use super::log::Topic;
use super::state::keep;
use super::{MemoryBroker, MemoryRecord};
use crate::broker::{Publisher, Receipt};
use crate::{Confirmed, Error, PublishError, PublishErrorKind, Record};

/// Publishes to a [`MemoryBroker`]: never full; every record is confirmed or refused at once, unless a test
/// [holds](MemoryBroker::hold_confirmations) or [refuses](MemoryBroker::refuse) it.
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

/// Has resolved already, unless the test [holds](MemoryBroker::hold_confirmations) the topic's confirmations.
#[derive(Debug)]
#[must_use = "a receipt says whether the record was confirmed: await it"]
pub struct MemoryReceipt {
    broker: MemoryBroker,
    topic: String,
    held: bool,
    /// `None` once it was taken.
    result: Option<Result<Confirmed, PublishError>>,
}

/// What a test has done to a topic's confirmations.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    held: bool,
    /// Those who wait for them.
    waiting: Vec<Waker>,
    /// Why the next records fail.
    refusals: VecDeque<PublishErrorKind>,
}

impl MemoryBroker {
    /// A publisher to this broker's topics.
    pub fn publisher(&self) -> MemoryPublisher {
        MemoryPublisher { broker: self.clone() }
    }

    /// Leaves records that are published to `topic` from now on unconfirmed, until [`confirm`](Self::confirm). They are
    /// in the topic, as records of a broker whose answer is late.
    pub fn hold_confirmations(&self, topic: &str) {
        self.shared
            .with(|state, _| state.confirmations(topic).held = true);
    }

    /// Confirms what was held, and from now on again at once.
    pub fn confirm(&self, topic: &str) {
        self.shared.with(|state, wakers| {
            let confirmations = state.confirmations(topic);
            confirmations.held = false;
            wakers.all(&mut confirmations.waiting);
        });
    }

    /// Makes the next `records` for `topic` fail with `kind`: they are sent, and not written.
    pub fn refuse(&self, topic: &str, records: usize, kind: PublishErrorKind) {
        self.shared.with(|state, _| {
            let refusals = &mut state.confirmations(topic).refusals;
            refusals.extend(std::iter::repeat_n(kind, records));
        });
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
            let confirmations = state.confirmations(record.topic());
            let held = confirmations.held;
            if let Some(kind) = confirmations.refusals.pop_front() {
                let text = format!("the test has records for topic {} refused", record.topic());
                let topic = record.topic().to_owned();
                let error = PublishError::new(kind, text).with_record(record);
                return Ok(MemoryReceipt::new(broker, topic, held, Err(error)));
            }
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
            let confirmed = Confirmed::new(at.partition, offset, Some(timestamp));
            Ok(MemoryReceipt::new(
                broker,
                at.topic.to_string(),
                held,
                Ok(confirmed),
            ))
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

impl MemoryReceipt {
    fn new(
        broker: &MemoryBroker,
        topic: String,
        held: bool,
        result: Result<Confirmed, PublishError>,
    ) -> Self {
        Self {
            broker: broker.clone(),
            topic,
            held,
            result: Some(result),
        }
    }

    /// The result if it is not held; otherwise `waker` is kept, if given.
    fn take(&mut self, waker: Option<&Waker>) -> Option<Result<Confirmed, PublishError>> {
        if self.held {
            self.held = self.broker.shared.with(|state, _| {
                let confirmations = state.confirmations(&self.topic);
                if confirmations.held
                    && let Some(waker) = waker
                {
                    keep(&mut confirmations.waiting, waker);
                }
                confirmations.held
            });
        }
        if self.held { None } else { self.result.take() }
    }
}

impl Future for MemoryReceipt {
    type Output = Result<Confirmed, PublishError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.take(Some(cx.waker())) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

impl Receipt for MemoryReceipt {
    fn now(&mut self) -> Option<Result<Confirmed, PublishError>> {
        self.take(None)
    }
}
