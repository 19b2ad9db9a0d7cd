//! A consumer group: who is in it, who owns which partition, and up to where it got.
//!
//! [`membership`](super::membership) and [`rebalance`](super::rebalance) move it. It wakes nobody itself: it hands out
//! the wakers.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::log::TopicShape;
use super::state::{TopicPartition, Wakers};
use crate::broker::{End, StoreError};

/// How much longer than the drain timeout the memory broker waits for a revoked partition to be dropped: 1 s, ample
/// for storing and dropping, after the drain timeout was used up.
pub const DRAIN_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Group {
    /// In join order.
    pub(super) members: Vec<Member>,
    pub(super) assignments: BTreeMap<Epoch, Assignment>,
    /// The assignment in force. One that was lost is in `assignments` only, until its value is dropped.
    pub(super) owned: BTreeMap<TopicPartition, Epoch>,
    pub(super) positions: BTreeMap<TopicPartition, i64>,
    pub(super) waiting: Vec<Waker>,
    pub(super) last_member: u64,
    pub(super) last_epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberId(pub(super) u64);

/// Tells the assignments of a group apart, those of one partition to one member included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch(pub(super) u64);

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) name: String,
    pub(super) topics: Vec<TopicShape>,
    pub(super) drain_timeout: Duration,
    pub(super) confirmed: BTreeMap<TopicPartition, i64>,
    pub(super) presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Joined,
    /// Takes part in no assignment any more; what it held is being given back.
    Left,
    /// Left, and nobody will ask for its positions: forgotten with its last assignment.
    Abandoned,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) at: TopicPartition,
    pub(super) member: MemberId,
    /// Whether there is a partition value, or else only an offer.
    pub(super) held: bool,
    pub(super) end: Option<End>,
    pub(super) deadline: Option<Instant>,
    seek: Option<i64>,
    batch_waker: Option<Waker>,
    end_waker: Option<Waker>,
}

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
    pub(super) fn offered(at: TopicPartition, member: MemberId) -> Self {
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

    pub(super) fn wake_on_end(&mut self, waker: &Waker) {
        self.end_waker
            .get_or_insert_with(|| waker.clone())
            .clone_from(waker);
    }

    /// Moves the deadline forward if that makes it earlier.
    pub(super) fn hasten(&mut self, deadline: Option<Instant>) {
        self.deadline = self.deadline.into_iter().chain(deadline).min();
    }

    pub(super) fn finish(&mut self, end: End, deadline: Option<Instant>, wakers: &mut Wakers) {
        self.end = Some(end);
        self.deadline = deadline;
        wakers.one(&mut self.batch_waker);
        wakers.one(&mut self.end_waker);
    }
}
