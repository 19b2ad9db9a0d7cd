//! What a test can see and move, beyond what a broker does.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::broker::MemoryBroker;
use super::group::Group;
use super::member::MemoryMember;
use super::state::{TopicPartition, Wakers, keep};
use super::wait;
use crate::Error;

impl MemoryBroker {
    /// Adds a member to a group that takes its share of the partitions and reads nothing.
    ///
    /// Members get ranges of partitions, in join order. Only partitions that move are revoked from their owners, and
    /// move once they were dropped, or the drain timeout and [`DRAIN_GRACE`](super::DRAIN_GRACE) passed.
    ///
    /// # Errors
    ///
    /// A topic does not exist.
    pub fn join(&self, group: &str, topics: &[&str]) -> Result<MemoryMember, Error> {
        let name: Arc<str> = group.into();
        self.shared.with(|state, wakers| {
            let mut joined = Vec::new();
            for topic in topics {
                let topic = state.topic(topic, self.auto_create)?;
                joined.push(topic.shape());
            }
            let group = state.groups.entry(name.clone()).or_default();
            let member = group.join("member", joined, Duration::ZERO, wakers);
            Ok(MemoryMember {
                shared: self.shared.clone(),
                group: name,
                member,
            })
        })
    }

    /// Who owns which partition of which topic in `group`, by member id. A revoked partition belongs to its old owner
    /// until it is dropped.
    pub fn assignment(&self, group: &str) -> BTreeMap<(String, i32), String> {
        self.with_group(group, |group, _| group.owners())
    }

    /// Takes a partition away from its owner without asking, [`End::Lost`](crate::broker::End::Lost), as when its
    /// session timed out. Returns whether it had an owner.
    ///
    /// Its owner is still a member, so it gets the partition again, as a new assignment.
    pub fn lose(&self, group: &str, topic: &str, partition: i32) -> bool {
        self.with_group(group, |group, wakers| {
            group.lose_partition(&at(topic, partition), wakers)
        })
    }

    /// Takes everything away from a member without asking, as when its session timed out; it joins again as the last
    /// one. Returns whether there was such a member.
    pub fn expel(&self, group: &str, member_id: &str) -> bool {
        self.with_group(group, |group, wakers| group.expel(member_id, wakers))
    }

    /// The position that `group` committed: the offset of the first record that it has not settled. `None` if it has
    /// committed nothing.
    pub fn position(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.with_group(group, |group, _| group.position(&at(topic, partition)))
    }

    /// Moves a group's position. An owner reads on from there: records that it had already come again.
    pub fn set_position(&self, group: &str, topic: &str, partition: i32, position: i64) {
        self.with_group(group, |group, wakers| {
            group.set_position(at(topic, partition), position, wakers);
        });
    }

    /// Waits until `condition` holds. It is asked again after every change: a record was published, a position
    /// stored, a partition changed hands.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), ruststream::Error> {
    /// use ruststream::memory::{MemoryBroker, MemoryRecord};
    ///
    /// let broker = MemoryBroker::new().auto_create(1);
    /// let published = broker.until(|broker| broker.records("orders").len() == 1);
    /// let publish = async { broker.publish(MemoryRecord::new("orders")) };
    /// let ((), receipt) = tokio::join!(published, publish);
    /// assert_eq!(receipt?, (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool + Send) {
        wait::until(|waker| {
            // The waker first: a change after the condition was asked must not be missed.
            self.shared.with(|state, _| keep(&mut state.watchers, waker));
            if condition(self) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(self.shared.with(|state, _| state.next_deadline()))
        })
        .await;
    }

    fn with_group<T>(&self, group: &str, change: impl FnOnce(&mut Group, &mut Wakers) -> T) -> T {
        self.shared.with_group(&group.into(), change)
    }
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(&topic.into(), partition)
}
