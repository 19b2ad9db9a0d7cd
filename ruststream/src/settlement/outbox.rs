//! What was sent on behalf of deliveries, and which of them wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use slab::Slab;

use super::Turn;
use crate::Record;

/// The records of one partition's deliveries, from the outcome that asked for them to their confirmation.
///
/// A delivery whose handler is done, and that has records to be confirmed, is a *source*. Each of its records has a name,
/// and is in one of three places: it waits for room at the publisher; it is under way, and only its name is here; or it
/// failed and waits to be sent again. A source ends when its last record is [confirmed](Self::confirm), or is
/// [given up](Self::give_up).
///
/// `D` is what the driver keeps for a delivery.
#[derive(Debug)]
pub(crate) struct Outbox<D> {
    /// By name, from `first` on: names are given in turn, and mostly end in turn. A slab would cost 40 instructions more.
    records: VecDeque<Option<Sent<D>>>,
    first: Name,
    /// How many of them have not ended.
    live: usize,
    /// Those with more than one record.
    sources: Slab<Source<D>>,
    /// For room, in order.
    waiting: VecDeque<ToSend>,
    /// By the time when they are to be sent again; the counter keeps equal times apart.
    failed: BTreeMap<(Instant, u64), ToSend>,
    failures: u64,
}

/// A record that is to be sent.
type ToSend = (Name, Box<Record>);

/// Names a record until it is confirmed or given up.
pub(crate) type Name = u32;

#[derive(Debug)]
struct Sent<D> {
    of: Of<D>,
    role: Role,
    /// Which attempt to send it this is, from 1.
    attempt: u32,
}

/// Whose record it is.
#[derive(Debug)]
enum Of<D> {
    /// The only one of its source.
    Only(Turn, D),
    /// One of a source's.
    OneOf(usize),
}

#[derive(Debug)]
struct Source<D> {
    turn: Turn,
    delivery: D,
    /// Records that are not confirmed.
    records: usize,
    dead_lettered: bool,
    given_up: bool,
}

/// What a record is for its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// What the handler returned.
    Reply,
    /// What the handler sent itself.
    Own,
    /// The copy of a delivery that was not handled.
    DeadLetter,
}

/// A record and its source.
#[derive(Debug)]
pub(crate) struct View<'a, D> {
    pub(crate) role: Role,
    pub(crate) attempt: u32,
    pub(crate) turn: Turn,
    pub(crate) delivery: &'a D,
    /// Its source has a dead letter already.
    pub(crate) dead_lettered: bool,
}

impl<D> Outbox<D> {
    pub(crate) fn new() -> Self {
        Self {
            records: VecDeque::new(),
            first: 0,
            live: 0,
            sources: Slab::new(),
            waiting: VecDeque::new(),
            failed: BTreeMap::new(),
            failures: 0,
        }
    }

    /// A new source, and the name of its only record.
    #[inline]
    pub(crate) fn only(&mut self, turn: Turn, delivery: D, role: Role) -> Name {
        self.insert(Of::Only(turn, delivery), role)
    }

    /// A new source with several records, which [`one_of`](Self::one_of) names.
    pub(crate) fn several(&mut self, turn: Turn, delivery: D) -> usize {
        self.sources.insert(Source {
            turn,
            delivery,
            records: 0,
            dead_lettered: false,
            given_up: false,
        })
    }

    /// One more record of a source.
    pub(crate) fn one_of(&mut self, source: usize, role: Role) -> Name {
        if let Some(source) = self.sources.get_mut(source) {
            source.records += 1;
        }
        self.insert(Of::OneOf(source), role)
    }

    #[inline]
    fn insert(&mut self, of: Of<D>, role: Role) -> Name {
        let name = self.first.wrapping_add(self.records.len() as Name);
        self.records.push_back(Some(Sent { of, role, attempt: 1 }));
        self.live += 1;
        name
    }

    #[inline]
    fn at(&self, name: Name) -> usize {
        name.wrapping_sub(self.first) as usize
    }

    fn get_mut(&mut self, name: Name) -> Option<&mut Sent<D>> {
        let at = self.at(name);
        self.records.get_mut(at)?.as_mut()
    }

    #[inline]
    fn remove(&mut self, name: Name) -> Option<Sent<D>> {
        if name != self.first {
            let at = self.at(name);
            let sent = self.records.get_mut(at)?.take()?;
            self.live -= 1;
            return Some(sent);
        }
        let sent = self.records.pop_front().flatten()?;
        self.live -= 1;
        self.first = self.first.wrapping_add(1);
        while let Some(None) = self.records.front() {
            self.records.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        Some(sent)
    }

    pub(crate) fn view(&self, name: Name) -> Option<View<'_, D>> {
        let Sent { of, role, attempt } = self.records.get(self.at(name))?.as_ref()?;
        let (turn, delivery, dead_lettered) = match of {
            Of::Only(turn, delivery) => (*turn, delivery, *role == Role::DeadLetter),
            Of::OneOf(source) => {
                let source = self.sources.get(*source)?;
                (source.turn, &source.delivery, source.dead_lettered)
            }
        };
        Some(View {
            role: *role,
            attempt: *attempt,
            turn,
            delivery,
            dead_lettered,
        })
    }

    /// Makes a record that failed the dead letter of its source.
    pub(crate) fn make_dead_letter(&mut self, name: Name) {
        let Some(sent) = self.get_mut(name) else {
            return;
        };
        (sent.role, sent.attempt) = (Role::DeadLetter, 1);
        if let Of::OneOf(source) = sent.of
            && let Some(source) = self.sources.get_mut(source)
        {
            source.dead_lettered = true;
        }
    }

    /// There is no room for the record: it waits, behind those that do.
    pub(crate) fn wait(&mut self, name: Name, record: Box<Record>) {
        self.waiting.push_back((name, record));
    }

    /// Whether a record waits for room: later ones must not overtake it.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The record that waits first.
    pub(crate) fn first_waiting(&self) -> Option<(Name, &Record)> {
        self.waiting.front().map(|(name, record)| (*name, &**record))
    }

    pub(crate) fn take_waiting(&mut self) -> Option<ToSend> {
        self.waiting.pop_front()
    }

    /// Whether a record is under way.
    pub(crate) fn has_under_way(&self) -> bool {
        self.live > self.waiting.len() + self.failed.len()
    }

    /// Whether a record waits for room or to be sent again.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty() || !self.failed.is_empty()
    }

    /// The record failed, and is sent again when it is `due`.
    pub(crate) fn again(&mut self, name: Name, record: Box<Record>, due: Instant) {
        if let Some(sent) = self.get_mut(name) {
            sent.attempt = sent.attempt.saturating_add(1);
        }
        self.failures += 1;
        self.failed.insert((due, self.failures), (name, record));
    }

    /// When the next failed record is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.failed.first_key_value().map(|((due, _), _)| *due)
    }

    /// Lets the failed records that are due wait for room.
    pub(crate) fn retry(&mut self, now: impl FnOnce() -> Instant) {
        if self.failed.is_empty() {
            return;
        }
        let now = now();
        while let Some(first) = self.failed.first_entry()
            && first.key().0 <= now
        {
            self.waiting.push_back(first.remove());
        }
    }

    /// A record is confirmed, or of no matter any more: what it was, and its source if that was the last one.
    #[inline]
    pub(crate) fn confirm(&mut self, name: Name) -> Option<(Role, Option<Turn>)> {
        let Sent { of, role, .. } = self.remove(name)?;
        let source = match of {
            Of::Only(turn, _) => Some(turn),
            Of::OneOf(source) => self.end_one_of(source),
        };
        Some((role, source))
    }

    #[cold]
    fn end_one_of(&mut self, key: usize) -> Option<Turn> {
        let source = self.sources.get_mut(key)?;
        source.records -= 1;
        if source.records > 0 {
            return None;
        }
        let source = self.sources.remove(key);
        (!source.given_up).then_some(source.turn)
    }

    /// A record will not be confirmed, and so its source not settled. `true` for the first such record of a source.
    pub(crate) fn give_up(&mut self, name: Name) -> bool {
        let of = self.remove(name).map(|sent| sent.of);
        let Some(Of::OneOf(key)) = of else {
            return of.is_some();
        };
        let Some(source) = self.sources.get_mut(key) else {
            return false;
        };
        let first = !source.given_up;
        source.given_up = true;
        self.end_one_of(key);
        first
    }

    /// No record is sent again; the number of sources that this gives up. What is under way, or waits for room, may still
    /// be confirmed.
    pub(crate) fn drain(&mut self) -> usize {
        let failed = std::mem::take(&mut self.failed);
        failed
            .into_values()
            .filter(|(name, _)| self.give_up(*name))
            .count()
    }

    /// How many records have a name.
    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.live
    }

    /// How many deliveries wait for records.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> usize {
        let records = self.records.iter().flatten();
        let only = records.filter(|sent| matches!(sent.of, Of::Only(..)));
        self.sources.len() + only.count()
    }

    /// The records that wait to be sent again.
    #[cfg(test)]
    pub(crate) fn failed(&self) -> impl Iterator<Item = Name> {
        self.failed.values().map(|(name, _)| *name)
    }
}
