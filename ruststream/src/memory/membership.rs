//! Joining a group and leaving it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::group::{Assignment, DRAIN_GRACE, Group, Member, MemberId, Presence};
use super::log::TopicShape;
use super::state::Wakers;
use crate::broker::{Committed, End};

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
    pub(super) fn leave(&mut self, member: MemberId, deadline: Option<Instant>, wakers: &mut Wakers) {
        let Some(leaving) = self.members.iter_mut().find(|m| m.id == member) else {
            return;
        };
        if leaving.presence != Presence::Joined {
            return;
        }
        leaving.presence = Presence::Left;
        let held = |a: &&mut Assignment| a.member == member && a.held;
        for assignment in self.assignments.values_mut().filter(held) {
            match assignment.end {
                None => assignment.finish(End::Closed, deadline, wakers),
                Some(End::Revoked) => assignment.hasten(deadline),
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

    /// When a member that starts to drain now has to be done; `None` is never.
    pub(super) fn drained_by(&self, member: MemberId) -> Option<Instant> {
        let member = self.members.iter().find(|m| m.id == member);
        let drain_timeout = member.map(|m| m.drain_timeout).unwrap_or_default();
        Instant::now().checked_add(drain_timeout.saturating_add(DRAIN_GRACE))
    }

    pub(super) fn forget_abandoned(&mut self) {
        let assignments = &self.assignments;
        self.members.retain(|member| {
            member.presence != Presence::Abandoned || assignments.values().any(|a| a.member == member.id)
        });
    }
}
