//! A partition that a subscription owns for now.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::delivery::MemoryDelivery;
use super::group::Epoch;
use super::state::{Shared, TopicPartition};
use crate::Error;
use crate::broker::{Commit, End, Partition, StoreError};

/// Yields the records of one partition from the group's position on.
///
/// A store is committed at once. Dropped without an end, it is offered to its subscription again, from the position
/// that was stored last.
#[derive(Debug)]
#[must_use = "dropping a partition gives it back"]
pub struct MemoryPartition {
    pub(super) shared: Arc<Shared>,
    pub(super) group: Arc<str>,
    pub(super) at: TopicPartition,
    pub(super) epoch: Epoch,
    /// Where to read on.
    pub(super) next: i64,
    pub(super) commit: Commit,
}

impl Partition for MemoryPartition {
    type Delivery = MemoryDelivery;

    fn topic(&self) -> &str {
        &self.at.topic
    }

    fn index(&self) -> i32 {
        self.at.partition
    }

    fn group(&self) -> &str {
        &self.group
    }

    fn commit(&self) -> Commit {
        self.commit
    }

    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        batch: &mut VecDeque<MemoryDelivery>,
    ) -> Poll<Result<(), Error>> {
        let Self {
            shared,
            group,
            at,
            epoch,
            next,
            ..
        } = self;
        shared.with(|state, _| {
            // No deadline is looked at here: only an assignment that has ended has one.
            let assignment = state
                .groups
                .get_mut(group)
                .and_then(|group| group.current(*epoch));
            let Some(assignment) = assignment else {
                return Poll::Pending;
            };
            if let Some(position) = assignment.take_seek() {
                *next = position;
            }
            let topic = state.topics.get(&at.topic);
            let Some(read_to) = topic.and_then(|topic| topic.read(at.partition, *next, max, batch)) else {
                assignment.wake_on_record(cx.waker());
                return Poll::Pending;
            };
            *next = read_to;
            Poll::Ready(Ok(()))
        })
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let end = self
            .shared
            .with_group(&self.group, |group, _| group.poll_end(self.epoch, cx.waker()));
        end.map_or(Poll::Pending, Poll::Ready)
    }

    fn store(&mut self, position: i64) -> Result<(), StoreError> {
        self.shared.with_group(&self.group, |group, wakers| {
            group.store(self.epoch, position, wakers)
        })
    }
}

impl Drop for MemoryPartition {
    fn drop(&mut self) {
        self.shared
            .with_group(&self.group, |group, wakers| group.release(self.epoch, wakers));
    }
}
