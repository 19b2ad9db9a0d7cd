//! The smallest runtime that drives a subscription as the contract asks for.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::SystemTime;

use tokio::time::Instant;

use super::scene::Scene;
use super::{Fixture, TestHeader};
use crate::Error;
use crate::broker::{Committed, Delivery, End, Partition, Subscription};

/// More than any check publishes to a partition.
pub(super) const MANY: usize = 100;

pub(super) struct Consumer<S: Subscription> {
    pub(super) subscription: S,
    pub(super) partitions: Vec<S::Partition>,
}

/// What the next step of a [`Consumer`] came to.
pub(super) enum Event {
    Accepted(i32),
    Batch(Vec<Seen>),
    /// Comes again until the partition is taken out.
    Ended(i32, End),
    Failed(String),
}

/// A copy of a delivery, because a delivery must not outlive its partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) headers: Vec<TestHeader>,
    pub(super) timestamp: Option<SystemTime>,
}

impl<S: Subscription> Consumer<S> {
    pub(super) fn new(subscription: S) -> Self {
        Self {
            subscription,
            partitions: Vec::new(),
        }
    }

    /// Waits for the next event; cancel safe.
    pub(super) async fn next(&mut self, max: usize) -> Event {
        let Self {
            subscription,
            partitions,
        } = self;
        let mut accept = pin!(subscription.accept());
        poll_fn(|cx| {
            if let Poll::Ready(accepted) = accept.as_mut().poll(cx) {
                return Poll::Ready(accepted_event(accepted, partitions));
            }
            for partition in &mut *partitions {
                if let Poll::Ready(end) = partition.poll_end(cx) {
                    return Poll::Ready(Event::Ended(partition.index(), end));
                }
                let mut batch = VecDeque::new();
                if let Poll::Ready(read) = partition.poll_batch(cx, max, &mut batch) {
                    return Poll::Ready(batch_event(read, &batch, partition));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Reads until `count` deliveries came, while no assignment ends.
    pub(super) async fn read<F: Fixture>(&mut self, scene: &Scene<'_, F>, count: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        let reading = async {
            while seen.len() < count {
                match self.next(MANY).await {
                    Event::Batch(batch) => seen.extend(batch),
                    Event::Accepted(_) => {}
                    other => scene.fail(&format!(
                        "an assignment lasts while nobody joins or leaves, but: {other}"
                    )),
                }
            }
        };
        scene.within(&format!("{count} deliveries come"), reading).await;
        scene.check(seen.len() == count, "no more deliveries come than were published");
        seen
    }

    pub(super) fn store<F: Fixture>(&mut self, scene: &Scene<'_, F>, partition: i32, position: i64) {
        match self.partitions.iter_mut().find(|held| held.index() == partition) {
            Some(held) => scene.expect(held.store(position), "an owner can store"),
            None => scene.fail("deliveries come from partitions that were accepted"),
        }
    }

    pub(super) fn take(&mut self, partition: i32) -> Option<S::Partition> {
        let nth = self
            .partitions
            .iter()
            .position(|held| held.index() == partition)?;
        Some(self.partitions.swap_remove(nth))
    }

    pub(super) fn indices(&self) -> Vec<i32> {
        let mut indices: Vec<_> = self.partitions.iter().map(Partition::index).collect();
        indices.sort_unstable();
        indices
    }

    pub(super) async fn close(self, deadline: Instant) -> Result<Vec<Committed>, Error> {
        let Self {
            subscription,
            partitions,
        } = self;
        let drain = async {
            for mut partition in partitions {
                ended(&mut partition).await;
            }
        };
        let (closed, ()) = tokio::join!(subscription.close(deadline), drain);
        closed
    }
}

pub(super) async fn ended(partition: &mut impl Partition) -> End {
    poll_fn(|cx| partition.poll_end(cx)).await
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(index) => write!(f, "partition {index} was accepted"),
            Self::Batch(batch) => write!(f, "{} deliveries came", batch.len()),
            Self::Ended(index, end) => write!(f, "partition {index} ended with {end:?}"),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl Seen {
    pub(super) fn text(&self) -> String {
        self.payload
            .as_deref()
            .map(String::from_utf8_lossy)
            .unwrap_or_default()
            .into_owned()
    }
}

fn accepted_event<P: Partition>(accepted: Result<Option<P>, Error>, partitions: &mut Vec<P>) -> Event {
    match accepted {
        Ok(Some(partition)) => {
            let index = partition.index();
            partitions.push(partition);
            Event::Accepted(index)
        }
        Ok(None) => Event::Failed("`accept` said that there will be no more partitions".to_owned()),
        Err(error) => Event::Failed(format!("`accept` failed: {error:?}")),
    }
}

fn batch_event<P: Partition>(read: Result<(), Error>, batch: &VecDeque<P::Delivery>, partition: &P) -> Event {
    if let Err(error) = read {
        return Event::Failed(format!("`poll_batch` failed: {error:?}"));
    }
    if batch.is_empty() {
        return Event::Failed("`poll_batch` was ready without a delivery".to_owned());
    }
    let from_here = |d: &P::Delivery| d.topic() == partition.topic() && d.partition() == partition.index();
    if !batch.iter().all(from_here) {
        return Event::Failed("`poll_batch` yielded a delivery of another partition".to_owned());
    }
    Event::Batch(batch.iter().map(seen).collect())
}

pub(super) fn seen(delivery: &impl Delivery) -> Seen {
    let headers = delivery.headers();
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
        .collect();
    Seen {
        partition: delivery.partition(),
        offset: delivery.offset(),
        key: delivery.key().map(<[u8]>::to_vec),
        payload: delivery.payload().map(<[u8]>::to_vec),
        headers,
        timestamp: delivery.timestamp(),
    }
}
