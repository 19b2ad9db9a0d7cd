//! Where the result of a record waits for its receipt: reused places, in chunks that never move.

use super::chunks::Chunks;
use crate::sync::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, AtomicWaker, Ordering};

/// "No place", in links.
pub(super) const NIL: u32 = u32::MAX;

/// The result has arrived; whoever set this writes it.
pub(super) const RAN: usize = 1;
/// The result can be read.
pub(super) const DONE: usize = 1 << 1;
/// The receipt was dropped.
pub(super) const GONE: usize = 1 << 2;
/// The result is a failure.
pub(super) const FAILED: usize = 1 << 3;
/// A record has this place.
const USED: usize = 1 << 4;
const FLAGS: u32 = 5;

/// Bits of an index in a [`Ticket`]; the others are the generation.
const INDEX: u32 = 22;
const GENERATIONS: usize = usize::MAX >> INDEX;

/// What a record carries through the client, in one pointer: the place, and which use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(usize);

impl Ticket {
    fn new(index: u32, generation: usize) -> Self {
        Self((generation & GENERATIONS) << INDEX | index as usize)
    }

    pub(crate) fn from_opaque(opaque: usize) -> Self {
        Self(opaque)
    }

    pub(crate) fn opaque(self) -> usize {
        self.0
    }

    pub(super) fn index(self) -> u32 {
        (self.0 & ((1 << INDEX) - 1)) as u32
    }

    fn generation(self) -> usize {
        self.0 >> INDEX
    }
}

/// A confirmation, in the client's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Landed {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Milliseconds since 1970; negative: none.
    pub(crate) timestamp: i64,
}

/// One cache line.
#[repr(align(64))]
pub(super) struct Place {
    /// Flags, and above them the generation.
    state: AtomicUsize,
    pub(super) waker: AtomicWaker,
    /// The next one of the list that it is in: the free ones, or the acknowledged ones.
    pub(super) next: AtomicU32,
    partition: AtomicI32,
    offset: AtomicI64,
    timestamp: AtomicI64,
    /// Who gets the result: 0 for a receipt, or an [`Addressee`].
    addressee: AtomicU64,
}

/// A sender, and its name for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addressee {
    pub(crate) stack: u32,
    pub(crate) name: u32,
}

impl Addressee {
    fn to_word(self) -> u64 {
        (u64::from(self.stack) + 1) << 32 | u64::from(self.name)
    }

    fn from_word(word: u64) -> Option<Self> {
        let stack = ((word >> 32) as u32).checked_sub(1)?;
        Some(Self {
            stack,
            name: word as u32,
        })
    }
}

impl Place {
    fn new(next: u32) -> Self {
        Self {
            state: AtomicUsize::new(0),
            waker: AtomicWaker::new(),
            next: AtomicU32::new(next),
            partition: AtomicI32::new(0),
            offset: AtomicI64::new(0),
            timestamp: AtomicI64::new(0),
            addressee: AtomicU64::new(0),
        }
    }

    /// Who gets the result; set before the record is enqueued.
    #[inline]
    pub(super) fn address(&self, addressee: Option<Addressee>) {
        let word = addressee.map_or(0, Addressee::to_word);
        self.addressee.store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn addressee(&self) -> Option<Addressee> {
        Addressee::from_word(self.addressee.load(Ordering::Relaxed))
    }

    /// The flags; what was written before they were set can be read.
    #[inline]
    pub(super) fn flags(&self) -> usize {
        self.state.load(Ordering::Acquire)
    }

    /// Sets a flag, and returns those that were set before.
    #[inline]
    pub(super) fn set(&self, flag: usize) -> usize {
        self.state.fetch_or(flag, Ordering::AcqRel)
    }

    /// Makes the caller the one that writes the result: `false` when there is one already, or when the ticket belongs to
    /// an earlier use of the place.
    #[inline]
    pub(super) fn begin(&self, ticket: Ticket, flags: usize) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let current = (state >> FLAGS) & GENERATIONS == ticket.generation();
            if !current || state & USED == 0 || state & RAN != 0 {
                return false;
            }
            let next = state | RAN | flags;
            match self
                .state
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
    }

    /// Makes its tickets void: before the place is given back.
    #[inline]
    pub(super) fn void(&self) {
        let generation = (self.state.load(Ordering::Relaxed) >> FLAGS).wrapping_add(1) & GENERATIONS;
        self.state.store(generation << FLAGS, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn write(&self, landed: Landed) {
        self.partition.store(landed.partition, Ordering::Relaxed);
        self.offset.store(landed.offset, Ordering::Relaxed);
        self.timestamp.store(landed.timestamp, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn read(&self) -> Landed {
        Landed {
            partition: self.partition.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
            timestamp: self.timestamp.load(Ordering::Relaxed),
        }
    }
}

/// All places, and the list of the free ones.
pub(super) struct Places {
    chunks: Chunks<Place>,
    /// The first free place, and above it a count of changes: a list that went away and came back looks different.
    free: AtomicU64,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            chunks: Chunks::new(),
            free: AtomicU64::new(u64::from(NIL)),
        }
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&Place> {
        self.chunks.at(index)
    }

    /// Takes a free place, a new one if need be; `None` when there are 4 million in use.
    #[inline]
    pub(super) fn take(&self) -> Option<(Ticket, &Place)> {
        loop {
            let Some((index, place)) = self.pop() else {
                if self.grow() {
                    continue;
                }
                return None;
            };
            // Nobody else looks at a place that is free and was taken off the list.
            let state = place.state.load(Ordering::Relaxed);
            place.state.store(state | USED, Ordering::Relaxed);
            return Some((Ticket::new(index, state >> FLAGS), place));
        }
    }

    /// Gives a place back; its tickets are void from now on.
    #[inline]
    pub(super) fn give(&self, index: u32, place: &Place) {
        place.void();
        self.push(index, place);
    }

    /// The tickets of records whose result has not arrived.
    pub(super) fn missing(&self) -> Vec<Ticket> {
        (0..)
            .map_while(|index| Some((index, self.at(index)?)))
            .filter_map(|(index, place)| {
                let state = place.flags();
                (state & USED != 0 && state & RAN == 0).then(|| Ticket::new(index, state >> FLAGS))
            })
            .collect()
    }

    #[inline]
    fn pop(&self) -> Option<(u32, &Place)> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            let place = self.at(index)?; // NIL is no place
            let next = u64::from(place.next.load(Ordering::Relaxed));
            match self.free.compare_exchange_weak(
                head,
                changed(head) | next,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some((index, place)),
                Err(found) => head = found,
            }
        }
    }

    /// Puts a chain of free places, which begins with `first` and ends with `last`, on the list.
    #[inline]
    pub(super) fn push(&self, first: u32, last: &Place) {
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            last.next.store(head as u32, Ordering::Relaxed);
            let next = changed(head) | u64::from(first);
            match self
                .free
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// Makes the next chunk, unless somebody else just did; `false` when there will be no more.
    #[cold]
    fn grow(&self) -> bool {
        self.chunks.grow(
            || self.at(self.free.load(Ordering::Acquire) as u32).is_some(),
            |index| Place::new(index + 1),
            |indices| {
                if let Some(last) = self.at(indices.end - 1) {
                    self.push(indices.start, last);
                }
            },
        )
    }
}

/// The count of changes above `head`, one further; wraps.
#[inline]
fn changed(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::sync::FIRST_CHUNK;

    #[test]
    fn places_are_distinct_over_chunks_and_come_back() {
        let places = Places::new();
        let taken: Vec<Ticket> = (0..10 * FIRST_CHUNK).map(|_| places.take().unwrap().0).collect();
        let indices: HashSet<u32> = taken.iter().map(|ticket| ticket.index()).collect();
        assert_eq!(indices.len(), taken.len());
        assert_eq!(places.missing().len(), taken.len());
        for ticket in &taken {
            places.give(ticket.index(), places.at(ticket.index()).unwrap());
        }
        assert!(places.missing().is_empty());
        for _ in 0..taken.len() {
            let ticket = places.take().unwrap().0;
            assert!(indices.contains(&ticket.index()), "no new place was needed");
            assert!(!taken.contains(&ticket), "a ticket is never the same again");
        }
    }

    #[test]
    fn a_ticket_of_an_earlier_use_is_refused_and_a_result_comes_once() {
        let places = Places::new();
        let old = places.take().unwrap().0;
        let place = places.at(old.index()).unwrap();
        assert!(place.begin(old, 0));
        assert!(!place.begin(old, 0), "a second result");
        places.give(old.index(), place);
        assert!(!place.begin(old, 0), "nobody uses the place");
        let new = places.take().unwrap().0;
        assert_eq!(new.index(), old.index());
        assert!(!place.begin(old, 0), "another record uses the place");
        assert!(place.begin(new, 0));
    }

    #[test]
    fn an_index_that_is_no_place_is_refused() {
        let places = Places::new();
        places.take().unwrap();
        assert!(places.at(FIRST_CHUNK).is_none());
        assert!(places.at(NIL).is_none());
    }

    #[test]
    fn a_place_is_one_cache_line() {
        assert_eq!(size_of::<Place>(), 64);
    }
}
