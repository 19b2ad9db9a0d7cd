//! Who should own which partition, and how it gets there.
//!
//! An assignment is *offered* to its member first and *held* from the moment a partition value exists. What is only
//! offered moves at once; what is held ends, and moves when the value was dropped or its deadline passed.

use std::collections::BTreeMap;
use std::task::Waker;

use tokio::time::Instant;

use super::group::{Assignment, Epoch, Group, MemberId, Presence};
use super::state::{TopicPartition, Wakers, keep};
use crate::broker::End;

impl Group {
    /// Holds what was offered to `member` first.
    pub(super) fn accept(&mut self, member: MemberId) -> Option<(Epoch, TopicPartition, i64)> {
        let mut offered = self
            .assignments
            .iter_mut()
            .filter(|(_, a)| a.member == member && !a.held);
        let (epoch, assignment) = offered.next()?;
        assignment.held = true;
        let position = self.positions.get(&assignment.at).copied().unwrap_or_default();
        Some((*epoch, assignment.at.clone(), position))
    }

    /// The partition value of `epoch` was dropped.
    pub(super) fn release(&mut self, epoch: Epoch, wakers: &mut Wakers) {
        let Some(assignment) = self.assignments.remove(&epoch) else {
            return;
        };
        if self.owned.get(&assignment.at) == Some(&epoch) {
            self.owned.remove(&assignment.at);
        }
        self.forget_abandoned();
        self.rebalance(wakers);
    }

    /// Ends the assignment of `at` as lost and hands the partition on.
    pub(super) fn lose_partition(&mut self, at: &TopicPartition, wakers: &mut Wakers) -> bool {
        let Some(epoch) = self.owned.get(at).copied() else {
            return false;
        };
        self.lose(epoch, wakers);
        self.rebalance(wakers);
        true
    }

    /// Hands on what was not dropped in time.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Wakers) {
        let passed = |a: &Assignment| a.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<_> = self
            .assignments
            .iter()
            .filter(|(_, a)| passed(a))
            .map(|(epoch, _)| *epoch)
            .collect();
        if late.is_empty() {
            return;
        }
        for epoch in late {
            self.lose(epoch, wakers);
        }
        self.rebalance(wakers);
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.assignments
            .values()
            .filter_map(|assignment| assignment.deadline)
            .min()
    }

    /// The assignment, unless it has ended.
    pub(super) fn current(&mut self, epoch: Epoch) -> Option<&mut Assignment> {
        self.assignments
            .get_mut(&epoch)
            .filter(|assignment| assignment.end.is_none())
    }

    /// The end, if there is one; keeps the waker in any case, because an end can get worse.
    pub(super) fn poll_end(&mut self, epoch: Epoch, waker: &Waker) -> Option<End> {
        let Some(assignment) = self.assignments.get_mut(&epoch) else {
            return Some(End::Lost);
        };
        assignment.wake_on_end(waker);
        assignment.end
    }

    /// Who owns what, by member name.
    pub(super) fn owners(&self) -> BTreeMap<(String, i32), String> {
        let owned = self
            .owned
            .iter()
            .filter_map(|(at, epoch)| Some((at, self.assignments.get(epoch)?)));
        owned
            .map(|(at, a)| ((at.topic.to_string(), at.partition), self.member_name(a.member)))
            .collect()
    }

    /// What `member` owns, in order.
    pub(super) fn owned_by(&self, member: MemberId) -> Vec<(String, i32)> {
        let owned = self
            .owned
            .iter()
            .filter(|(_, epoch)| self.belongs(**epoch, member));
        owned
            .map(|(at, _)| (at.topic.to_string(), at.partition))
            .collect()
    }

    /// What `member` has not dropped yet.
    pub(super) fn undropped(&self, member: MemberId) -> Vec<String> {
        let held = self.assignments.values().filter(|a| a.member == member && a.held);
        held.map(|a| format!("{}/{}", a.at.topic, a.at.partition))
            .collect()
    }

    /// Has `waker` woken at the next change of members or assignments.
    pub(super) fn wait(&mut self, waker: &Waker) {
        keep(&mut self.waiting, waker);
    }

    fn belongs(&self, epoch: Epoch, member: MemberId) -> bool {
        self.assignments.get(&epoch).is_some_and(|a| a.member == member)
    }

    pub(super) fn lose(&mut self, epoch: Epoch, wakers: &mut Wakers) {
        let Some(assignment) = self.assignments.get_mut(&epoch) else {
            return;
        };
        if self.owned.get(&assignment.at) == Some(&epoch) {
            self.owned.remove(&assignment.at);
        }
        if assignment.held {
            assignment.finish(End::Lost, None, wakers);
        } else {
            self.assignments.remove(&epoch);
        }
    }

    /// Ends what has to move, and offers what is free.
    pub(super) fn rebalance(&mut self, wakers: &mut Wakers) {
        let target = self.target();
        for epoch in self.misplaced(&target) {
            let member = self.assignments.get(&epoch).map(|a| a.member);
            let deadline = member.and_then(|member| self.drained_by(member));
            match self.assignments.get_mut(&epoch) {
                Some(assignment) if assignment.held => assignment.finish(End::Revoked, deadline, wakers),
                _ => self.lose(epoch, wakers),
            }
        }
        for (at, member) in target {
            if !self.owned.contains_key(&at) {
                self.last_epoch += 1;
                let epoch = Epoch(self.last_epoch);
                self.owned.insert(at.clone(), epoch);
                self.assignments.insert(epoch, Assignment::offered(at, member));
            }
        }
        wakers.all(&mut self.waiting);
        wakers.note_change();
    }

    /// The assignments without an end that belong to somebody else by now.
    fn misplaced(&self, target: &BTreeMap<TopicPartition, MemberId>) -> Vec<Epoch> {
        let going_on = self.assignments.iter().filter(|(_, a)| a.end.is_none());
        going_on
            .filter(|(_, a)| target.get(&a.at) != Some(&a.member))
            .map(|(epoch, _)| *epoch)
            .collect()
    }

    /// Who should own what: for each topic, ranges of nearly the same length, in join order.
    fn target(&self) -> BTreeMap<TopicPartition, MemberId> {
        let joined = || self.members.iter().filter(|m| m.presence == Presence::Joined);
        let topics: BTreeMap<_, _> = joined()
            .flat_map(|m| &m.topics)
            .map(|shape| (&shape.topic, shape.partitions))
            .collect();
        let mut target = BTreeMap::new();
        for (topic, partitions) in topics {
            let members: Vec<_> = joined()
                .filter(|m| m.topics.iter().any(|shape| shape.topic == *topic))
                .map(|m| m.id)
                .collect();
            let count = members.len() as i32;
            let (share, rest) = (partitions / count, partitions % count);
            let mut first = 0;
            for (nth, member) in (0..).zip(members) {
                let next = first + share + i32::from(nth < rest);
                target.extend((first..next).map(|index| (TopicPartition::new(topic, index), member)));
                first = next;
            }
        }
        target
    }
}
