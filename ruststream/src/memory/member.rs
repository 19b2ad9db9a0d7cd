//! A member that only takes its share.

use std::sync::Arc;

use super::group::MemberId;
use super::state::Shared;

/// A member of a group that a test adds with [`MemoryBroker::join`](super::MemoryBroker::join): it owns partitions,
/// reads nothing, and gives back at once what it has to.
///
/// Dropping it is leaving.
#[derive(Debug)]
#[must_use = "dropping a member leaves the group"]
pub struct MemoryMember {
    pub(super) shared: Arc<Shared>,
    pub(super) group: Arc<str>,
    pub(super) member: MemberId,
}

impl MemoryMember {
    /// The member's name in [`MemoryBroker::assignment`](super::MemoryBroker::assignment): `member-2`.
    pub fn member_id(&self) -> String {
        self.shared
            .with_group(&self.group, |group, _| group.member_name(self.member))
    }

    /// The topics and partitions that it owns now, in order: those that their former owners have dropped.
    pub fn partitions(&self) -> Vec<(String, i32)> {
        self.shared
            .with_group(&self.group, |group, _| group.owned_by(self.member))
    }

    /// Leaves the group: its partitions go to the other members.
    pub fn leave(self) {}
}

impl Drop for MemoryMember {
    fn drop(&mut self) {
        self.shared
            .with_group(&self.group, |group, wakers| group.abandon(self.member, wakers));
    }
}
