//! A consumer group: who is in it, who owns which partition, and up to where it got.
//!
//! Wakes nobody itself: it hands out the wakers.
//!
//! An assignment is *offered* to its member first and *held* from the moment a partition value exists. What is only
//! offered moves at once; what is held ends, and moves when the value was dropped or its deadline passed.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::log::TopicShape;
use super::state::{TopicPartition, Wakers, keep};
use crate::broker::{Committed, End, StoreError};

/// How much longer than the drain timeout the memory broker waits for a revoked partition to be dropped: 1 s, ample
/// for storing and dropping, after the drain timeout was used up.
pub const DRAIN_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Group {
    /// In join order.
    members: Vec<Member>,
    assignments: BTreeMap<Epoch, Assignment>,
    /// The assignment in force. One that was lost is in `assignments` only, until its value is dropped.
    owned: BTreeMap<TopicPartition, Epoch>,
    positions: BTreeMap<TopicPartition, i64>,
    waiting: Vec<Waker>,
    last_member: u64,
    last_epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberId(u64);

/// Tells the assignments of a group apart, those of one partition to one member included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch(u64);

#[derive(Debug)]
struct Member {
    id: MemberId,
    name: String,
    topics: Vec<TopicShape>,
    drain_timeout: Duration,
    confirmed: BTreeMap<TopicPartition, i64>,
    presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Joined,
    /// Takes part in no assignment any more; what it held is being given back.
    Left,
    /// Left, and nobody will ask for its positions: forgotten with its last assignment.
    Abandoned,
}

#[derive(Debug)]
pub(super) struct Assignment {
    at: TopicPartition,
    member: MemberId,
    held: bool,
    end: Option<End>,
    deadline: Option<Instant>,
    seek: Option<i64>,
    batch_waker: Option<Waker>,
    end_waker: Option<Waker>,
}

/// Membership.
impl Group {
    pub(super) fn join(
        &mut self,
        name: &str,
        topics: Vec<TopicShape>,
        drain_timeout: Duration,
        wakers: &mut Wakers,
    ) -> MemberId {
        self.last_member += 1;
        let id = MemberId(self.last_member);
        self.members.push(Member {
            id,
            name: format!("{name}-{}", id.0),
            topics,
            drain_timeout,
            confirmed: BTreeMap::new(),
            presence: Presence::Joined,
        });
        self.rebalance(wakers);
        id
    }

    /// Ends what `member` has; it counts until it is dropped, or until `deadline`.
    pub(super) fn leave(&mut self, member: MemberId, deadline: Instant, wakers: &mut Wakers) {
        let Some(leaving) = self.members.iter_mut().find(|m| m.id == member) else {
            return;
        };
        if leaving.presence != Presence::Joined {
            return;
        }
        leaving.presence = Presence::Left;
        for assignment in self
            .assignments
            .values_mut()
            .filter(|a| a.member == member && a.held)
        {
            match assignment.end {
                None => assignment.finish(End::Closed, Some(deadline), wakers),
                Some(End::Revoked) => assignment.deadline = assignment.deadline.min(Some(deadline)),
                Some(_) => {}
            }
        }
        self.rebalance(wakers);
    }

    /// Leaves unless that is done, with the drain timeout as the deadline, and is forgotten when nothing is held.
    pub(super) fn abandon(&mut self, member: MemberId, wakers: &mut Wakers) {
        self.leave(member, self.drained_by(member), wakers);
        if let Some(left) = self.members.iter_mut().find(|m| m.id == member) {
            left.presence = Presence::Abandoned;
        }
        self.forget_abandoned();
    }

    /// Takes everything away from the member of that name at once, and has it join again, as the last one.
    pub(super) fn expel(&mut self, name: &str, wakers: &mut Wakers) -> bool {
        let joined = |m: &Member| m.name == name && m.presence == Presence::Joined;
        let Some(index) = self.members.iter().position(joined) else {
            return false;
        };
        let member = self.members.remove(index);
        let lost: Vec<_> = self
            .assignments
            .iter()
            .filter(|(_, a)| a.member == member.id)
            .map(|(epoch, _)| *epoch)
            .collect();
        self.members.push(member);
        for epoch in lost {
            self.lose(epoch, wakers);
        }
        self.rebalance(wakers);
        true
    }

    pub(super) fn member_name(&self, member: MemberId) -> String {
        self.members
            .iter()
            .find(|m| m.id == member)
            .map(|m| m.name.clone())
            .unwrap_or_default()
    }

    pub(super) fn confirmed(&self, member: MemberId) -> Vec<Committed> {
        let confirmed = self
            .members
            .iter()
            .filter(|m| m.id == member)
            .flat_map(|m| &m.confirmed);
        confirmed
            .map(|(at, offset)| Committed::new(&*at.topic, at.partition, *offset))
            .collect()
    }

    /// When a member that starts to drain now has to be done.
    fn drained_by(&self, member: MemberId) -> Instant {
        let member = self.members.iter().find(|m| m.id == member);
        Instant::now() + member.map(|m| m.drain_timeout).unwrap_or_default() + DRAIN_GRACE
    }

    fn forget_abandoned(&mut self) {
        let assignments = &self.assignments;
        self.members.retain(|member| {
            member.presence != Presence::Abandoned || assignments.values().any(|a| a.member == member.id)
        });
    }
}

/// Assignments.
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
        assignment
            .end_waker
            .get_or_insert_with(|| waker.clone())
            .clone_from(waker);
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

    fn lose(&mut self, epoch: Epoch, wakers: &mut Wakers) {
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
    fn rebalance(&mut self, wakers: &mut Wakers) {
        let target = self.target();
        for epoch in self.misplaced(&target) {
            let member = self.assignments.get(&epoch).map(|a| a.member);
            let deadline = member.map(|member| self.drained_by(member));
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

/// Positions.
impl Group {
    /// Stores and confirms `position`, unless the assignment was lost.
    pub(super) fn store(
        &mut self,
        epoch: Epoch,
        position: i64,
        wakers: &mut Wakers,
    ) -> Result<(), StoreError> {
        let assignment = self
            .assignments
            .get(&epoch)
            .filter(|a| a.end != Some(End::Lost))
            .ok_or(StoreError)?;
        let member = self
            .members
            .iter_mut()
            .find(|m| m.id == assignment.member)
            .ok_or(StoreError)?;
        member.confirmed.insert(assignment.at.clone(), position);
        self.positions.insert(assignment.at.clone(), position);
        wakers.note_change();
        Ok(())
    }

    pub(super) fn position(&self, at: &TopicPartition) -> Option<i64> {
        self.positions.get(at).copied()
    }

    /// Moves the position, and the owner's reading with it.
    pub(super) fn set_position(&mut self, at: TopicPartition, position: i64, wakers: &mut Wakers) {
        let owner = self
            .owned
            .get(&at)
            .and_then(|epoch| self.assignments.get_mut(epoch));
        if let Some(assignment) = owner {
            assignment.seek = Some(position).filter(|_| assignment.held);
            wakers.one(&mut assignment.batch_waker);
        }
        self.positions.insert(at, position);
        wakers.note_change();
    }

    /// A record was published to `at`.
    pub(super) fn wake_reader(&mut self, at: &TopicPartition, wakers: &mut Wakers) {
        let owner = self
            .owned
            .get(at)
            .and_then(|epoch| self.assignments.get_mut(epoch));
        if let Some(assignment) = owner {
            wakers.one(&mut assignment.batch_waker);
        }
    }
}

impl Assignment {
    fn offered(at: TopicPartition, member: MemberId) -> Self {
        Self {
            at,
            member,
            held: false,
            end: None,
            deadline: None,
            seek: None,
            batch_waker: None,
            end_waker: None,
        }
    }

    /// Where a test moved the reading to, once.
    pub(super) fn take_seek(&mut self) -> Option<i64> {
        self.seek.take()
    }

    pub(super) fn wake_on_record(&mut self, waker: &Waker) {
        self.batch_waker
            .get_or_insert_with(|| waker.clone())
            .clone_from(waker);
    }

    fn finish(&mut self, end: End, deadline: Option<Instant>, wakers: &mut Wakers) {
        self.end = Some(end);
        self.deadline = deadline;
        wakers.one(&mut self.batch_waker);
        wakers.one(&mut self.end_waker);
    }
}
