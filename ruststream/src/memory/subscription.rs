//! A subscription's membership in a group.

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::time::Instant;

use super::group::{Group, MemberId};
use super::partition::MemoryPartition;
use super::state::Shared;
use super::wait;
use crate::broker::{Commit, Committed, Subscription};
use crate::{Error, ErrorKind};

/// A member of a group that consumes one topic.
///
/// Dropping it without [`close`](Subscription::close) leaves the group; its partitions end with
/// [`End::Closed`](crate::broker::End::Closed) and have the drain timeout to be dropped.
#[derive(Debug)]
#[must_use = "dropping a subscription leaves the group"]
pub struct MemorySubscription {
    pub(super) shared: Arc<Shared>,
    pub(super) group: Arc<str>,
    pub(super) member: MemberId,
    pub(super) name: String,
    pub(super) commit: Commit,
}

impl MemorySubscription {
    /// The member's name in [`MemoryBroker::assignment`](super::MemoryBroker::assignment): the subscription's name
    /// and a number, `bill-1`.
    pub fn member_id(&self) -> String {
        self.shared
            .with_group(&self.group, |group, _| group.member_name(self.member))
    }

    fn offer(&self, group: &mut Group) -> Option<MemoryPartition> {
        let (epoch, at, next) = group.accept(self.member)?;
        let (shared, group) = (self.shared.clone(), self.group.clone());
        Some(MemoryPartition {
            shared,
            group,
            at,
            epoch,
            next,
            commit: self.commit,
        })
    }

    fn undropped(&self, partitions: &[String]) -> Error {
        let (name, partitions) = (&self.name, partitions.join(", "));
        let text = format!(
            "subscription {name} was closed at its deadline without the drop of {partitions}: \
             what they did not store will be seen again"
        );
        Error::new(ErrorKind::Deadline, text)
    }
}

impl Subscription for MemorySubscription {
    type Partition = MemoryPartition;

    async fn accept(&mut self) -> Result<Option<MemoryPartition>, Error> {
        let offered = wait::until(|waker| {
            self.shared.with_group(&self.group, |group, _| {
                if let Some(partition) = self.offer(group) {
                    return ControlFlow::Break(partition);
                }
                group.wait(waker);
                ControlFlow::Continue(group.next_deadline())
            })
        });
        Ok(Some(offered.await))
    }

    async fn close(self, deadline: Instant) -> Result<Vec<Committed>, Error> {
        self.shared.with_group(&self.group, |group, wakers| {
            group.leave(self.member, Some(deadline), wakers);
        });
        wait::until(|waker| {
            self.shared.with_group(&self.group, |group, _| {
                let undropped = group.undropped(self.member);
                if undropped.is_empty() {
                    return ControlFlow::Break(Ok(group.confirmed(self.member)));
                }
                if Instant::now() >= deadline {
                    return ControlFlow::Break(Err(self.undropped(&undropped)));
                }
                group.wait(waker);
                ControlFlow::Continue(group.next_deadline().min(Some(deadline)).or(Some(deadline)))
            })
        })
        .await
    }
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        self.shared
            .with_group(&self.group, |group, wakers| group.abandon(self.member, wakers));
    }
}
