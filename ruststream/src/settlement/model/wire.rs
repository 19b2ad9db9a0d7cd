//! A scripted publisher.

use std::collections::VecDeque;

use crate::Record;
use crate::settlement::Name;

/// What is under way, with room for so many more.
#[derive(Debug, Default)]
pub(super) struct Wire {
    room: usize,
    /// In the order in which they were sent.
    unresolved: Vec<Name>,
    resolved: VecDeque<(Name, bool)>,
}

impl Wire {
    pub(super) fn give_room(&mut self, records: usize) {
        self.room = self.room.saturating_add(records);
    }

    pub(super) fn try_send(&mut self, name: Name) -> bool {
        let Some(room) = self.room.checked_sub(1) else {
            return false;
        };
        self.room = room;
        self.send(name);
        true
    }

    /// Waits for room, no time.
    pub(super) fn send(&mut self, name: Name) {
        self.unresolved.push(name);
    }

    pub(super) fn unresolved(&self) -> usize {
        self.unresolved.len()
    }

    pub(super) fn resolve(&mut self, record: usize, ok: bool) {
        let name = self.unresolved.remove(record);
        self.resolved.push_back((name, ok));
    }

    pub(super) fn next(&mut self) -> Option<(Name, bool)> {
        self.resolved.pop_front()
    }
}

/// What is sent does not matter.
pub(super) fn record() -> Record {
    Record::tombstone("out")
}
