//! The lowest offset below which everything delivered is settled.

use std::collections::VecDeque;

/// Follows *delivered* offsets, never offset + 1: compaction and transaction markers leave gaps.
///
/// The common case, a delivery that is settled before the next one starts, touches only [`pass`](Self::pass): one
/// compare and one add. Everything else keeps an entry per delivery in `open`, ascending by offset.
///
/// Invariants: `open` is empty or its front is unsettled; when it is empty, nothing at or above `position` was
/// delivered.
#[derive(Debug)]
pub(crate) struct Watermark {
    /// What is safe to store; [`NOTHING`] before the first delivery.
    position: i64,
    /// The position that was taken last.
    taken: i64,
    open: VecDeque<Entry>,
    /// Goes up with every rebase, so that a ticket from before cannot settle what was delivered again after it.
    epoch: u64,
    late: u64,
}

/// Names one delivery of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) offset: i64,
    epoch: u64,
}

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    settled: bool,
}

/// Below any offset.
const NOTHING: i64 = i64::MIN;

impl Watermark {
    /// A watermark that has seen nothing. `epoch` differs for every assignment of a partition: tickets of an older one
    /// settle nothing here.
    pub(crate) fn new(epoch: u64) -> Self {
        // An assignment may rebase 2^32 times before its epochs could meet those of the next one.
        Self {
            position: NOTHING,
            taken: NOTHING,
            open: VecDeque::new(),
            epoch: epoch << 32,
            late: 0,
        }
    }

    /// Delivered: gives the ticket that [`pass`](Self::pass) or [`open`](Self::open) must get before the next delivery.
    ///
    /// An offset at or below one seen before is a redelivery, after which everything from there on comes again: what
    /// was known from `offset` on is forgotten (rebase), and older tickets for it are late.
    #[inline]
    pub(crate) fn deliver(&mut self, offset: i64) -> Ticket {
        if self
            .open
            .back()
            .map_or(self.position > offset, |last| last.ticket.offset >= offset)
        {
            self.rebase(offset);
        }
        Ticket {
            offset,
            epoch: self.epoch,
        }
    }

    /// Settled as soon as delivered: the position follows, unless an earlier delivery holds it.
    #[inline]
    pub(crate) fn pass(&mut self, ticket: Ticket) {
        if self.open.is_empty() {
            self.position = ticket.offset + 1;
        } else {
            self.open.push_back(Entry {
                ticket,
                settled: true,
            });
        }
    }

    /// Not settled yet: holds the position until [`settle`](Self::settle).
    #[inline]
    pub(crate) fn open(&mut self, ticket: Ticket) {
        self.open.push_back(Entry {
            ticket,
            settled: false,
        });
    }

    /// Settles a delivery. `false` when its ticket is late: of an older epoch, or settled before; that moves nothing.
    #[inline]
    pub(crate) fn settle(&mut self, ticket: Ticket) -> bool {
        if self.open.front().is_none_or(|front| front.ticket != ticket) {
            return self.settle_above(ticket);
        }
        let mut last = ticket.offset;
        self.open.pop_front();
        while let Some(front) = self.open.front()
            && front.settled
        {
            last = front.ticket.offset;
            self.open.pop_front();
        }
        self.position = self.open.front().map_or(last + 1, |front| front.ticket.offset);
        true
    }

    /// Settles what does not hold the position.
    fn settle_above(&mut self, ticket: Ticket) -> bool {
        let Some(entry) = self.find(ticket).filter(|entry| !entry.settled) else {
            self.late += 1;
            return false;
        };
        entry.settled = true;
        true
    }

    /// Whether a ticket still counts: delivered in its epoch, not forgotten by a rebase, not below the position.
    pub(crate) fn holds(&mut self, ticket: Ticket) -> bool {
        self.find(ticket).is_some()
    }

    fn find(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let at = self
            .open
            .binary_search_by_key(&ticket.offset, |entry| entry.ticket.offset)
            .ok()?;
        self.open.get_mut(at).filter(|entry| entry.ticket == ticket)
    }

    /// The position to store, if it moved since the last call.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<i64> {
        if self.position == self.taken {
            return None;
        }
        self.taken = self.position;
        Some(self.position)
    }

    /// How many deliveries are held open: unsettled, or settled above an unsettled one. The span that a restart repeats.
    #[inline]
    pub(crate) fn span(&self) -> usize {
        self.open.len()
    }

    /// The offset that holds the position.
    pub(crate) fn blocking(&self) -> Option<i64> {
        self.open.front().map(|entry| entry.ticket.offset)
    }

    /// How many settlements came too late.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// The position, taken or not.
    #[cfg(test)]
    pub(crate) fn position(&self) -> Option<i64> {
        (self.position != NOTHING).then_some(self.position)
    }

    #[cold]
    fn rebase(&mut self, offset: i64) {
        self.epoch += 1;
        while self.open.back().is_some_and(|last| last.ticket.offset >= offset) {
            self.open.pop_back();
        }
        if self.open.is_empty() {
            self.position = self.position.min(offset);
        }
    }
}
