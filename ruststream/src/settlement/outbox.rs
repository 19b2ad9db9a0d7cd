//! What was sent on behalf of deliveries, and which of them wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use slab::Slab;

use super::Turn;
use crate::broker::Receipt;
use crate::{Confirmed, PublishError, Record};

/// The records of one partition's deliveries, from the outcome that asked for them to their confirmation.
///
/// A delivery whose handler is done, and that has records to be confirmed, is a *source*. Each of its records is in one of
/// three places: it waits for room at the publisher; it is under way, and only its receipt is here; or it failed and waits
/// to be sent again. A source ends when its last record is [confirmed](Self::confirm), or is [given up](Self::give_up).
///
/// `D` is what the driver keeps for a delivery, `R` a receipt.
#[derive(Debug)]
pub(crate) struct Outbox<D, R> {
    sources: Slab<Source<D>>,
    /// For room, in order.
    waiting: VecDeque<Waiting>,
    /// Oldest first.
    under_way: VecDeque<UnderWay<R>>,
    /// By the time when they are to be sent again; the counter keeps equal times apart.
    failed: BTreeMap<(Instant, u64), Waiting>,
    failures: u64,
    /// What a sweep found.
    resolved: VecDeque<(Sent, Resolved)>,
    /// How many records under way make a sweep worth it.
    sweep_at: usize,
}

/// What became of a record.
pub(crate) type Resolved = Result<Confirmed, PublishError>;

#[derive(Debug)]
struct Source<D> {
    turn: Turn,
    delivery: D,
    /// Records that are not confirmed.
    records: usize,
    dead_lettered: bool,
    given_up: bool,
}

/// Names a record that was sent, or is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    source: usize,
    pub(crate) role: Role,
    /// Which attempt to send it this is, from 1.
    pub(crate) attempt: u32,
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

/// A record that is to be sent.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) sent: Sent,
    pub(crate) record: Box<Record>,
}

#[derive(Debug)]
struct UnderWay<R> {
    sent: Sent,
    receipt: R,
}

/// One in 64 receipts under way wakes the task, the oldest among them. They resolve by the hundred and mostly in order; a
/// waker on each would cost 60 instructions a message. What the others miss is noticed with the next message, or at the
/// end of a drain.
const WAKING: usize = 64;

impl<D, R: Receipt> Outbox<D, R> {
    pub(crate) fn new() -> Self {
        Self {
            sources: Slab::new(),
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            failed: BTreeMap::new(),
            failures: 0,
            resolved: VecDeque::new(),
            sweep_at: WAKING,
        }
    }

    /// A new source with one record.
    #[inline]
    pub(crate) fn source(&mut self, turn: Turn, delivery: D, role: Role) -> Sent {
        let source = self.sources.insert(Source {
            turn,
            delivery,
            records: 1,
            dead_lettered: role == Role::DeadLetter,
            given_up: false,
        });
        Sent {
            source,
            role,
            attempt: 1,
        }
    }

    /// One more record of the source of `other`.
    pub(crate) fn another(&mut self, other: Sent, role: Role) -> Sent {
        if let Some(source) = self.sources.get_mut(other.source) {
            source.records += 1;
        }
        Sent {
            role,
            attempt: 1,
            ..other
        }
    }

    /// The dead letter that takes the place of a failed record; `None` when its source has one already.
    pub(crate) fn dead_letter(&mut self, failed: Sent) -> Option<(Sent, &D)> {
        let source = self.sources.get_mut(failed.source)?;
        if source.dead_lettered {
            return None;
        }
        source.dead_lettered = true;
        let sent = Sent {
            role: Role::DeadLetter,
            attempt: 1,
            ..failed
        };
        Some((sent, &source.delivery))
    }

    /// Whether the source of a record was dead-lettered.
    pub(crate) fn is_dead_lettered(&self, sent: Sent) -> bool {
        self.sources
            .get(sent.source)
            .is_some_and(|source| source.dead_lettered)
    }

    /// Where its source came from.
    pub(crate) fn turn(&self, sent: Sent) -> Option<Turn> {
        self.sources.get(sent.source).map(|source| source.turn)
    }

    /// The record was sent.
    #[inline]
    pub(crate) fn sent(&mut self, sent: Sent, receipt: R) {
        self.under_way.push_back(UnderWay { sent, receipt });
    }

    /// There is no room for the record: it waits, behind those that do.
    pub(crate) fn wait(&mut self, sent: Sent, record: Box<Record>) {
        self.waiting.push_back(Waiting { sent, record });
    }

    /// Whether a record waits for room: later ones must not overtake it.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The record that waits first.
    pub(crate) fn first_waiting(&self) -> Option<&Record> {
        self.waiting.front().map(|waiting| &*waiting.record)
    }

    pub(crate) fn take_waiting(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    #[inline]
    pub(crate) fn has_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether a record waits for room or to be sent again.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty() || !self.failed.is_empty()
    }

    /// The record failed, and is sent again when it is `due`.
    pub(crate) fn again(&mut self, sent: Sent, record: Box<Record>, due: Instant) {
        self.failures += 1;
        let sent = Sent {
            attempt: sent.attempt.saturating_add(1),
            ..sent
        };
        self.failed.insert((due, self.failures), Waiting { sent, record });
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

    /// The next record that has resolved: the oldest first, as long as they resolve in order.
    #[inline]
    pub(crate) fn resolved(&mut self) -> Option<(Sent, Resolved)> {
        if let Some(oldest) = self.under_way.front_mut()
            && let Some(resolved) = oldest.receipt.now()
        {
            let sent = oldest.sent;
            self.under_way.pop_front();
            return Some((sent, resolved));
        }
        if self.under_way.len() >= self.sweep_at {
            self.sweep();
        }
        self.resolved.pop_front()
    }

    /// Looks at every receipt. Worth it when as many records are under way as were left by the last sweep twice over, so
    /// that a record is looked at twice on average however old the oldest gets.
    pub(crate) fn sweep(&mut self) {
        let Self {
            under_way, resolved, ..
        } = self;
        under_way.retain_mut(|UnderWay { sent, receipt }| match receipt.now() {
            None => true,
            Some(result) => {
                resolved.push_back((*sent, result));
                false
            }
        });
        self.sweep_at = (2 * self.under_way.len()).max(WAKING);
    }

    /// Keeps the task's waker with some of the receipts. Ready: there is something to look at already.
    pub(crate) fn poll_resolved(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.resolved.is_empty() {
            return Poll::Ready(());
        }
        let mut at = 0;
        while let Some(UnderWay { sent, receipt }) = self.under_way.get_mut(at) {
            if let Poll::Ready(result) = Pin::new(receipt).poll(cx) {
                self.resolved.push_back((*sent, result));
                self.under_way.remove(at);
                return Poll::Ready(());
            }
            at += WAKING;
        }
        Poll::Pending
    }

    /// A record is confirmed. Its source, if that was the last one.
    #[inline]
    pub(crate) fn confirm(&mut self, sent: Sent) -> Option<Turn> {
        let source = self.sources.get_mut(sent.source)?;
        source.records -= 1;
        if source.records > 0 {
            return None;
        }
        let source = self.sources.remove(sent.source);
        (!source.given_up).then_some(source.turn)
    }

    /// A record will not be confirmed, and so its source not settled. `true` for the first such record of a source.
    pub(crate) fn give_up(&mut self, sent: Sent) -> bool {
        let Some(source) = self.sources.get_mut(sent.source) else {
            return false;
        };
        let first = !source.given_up;
        source.given_up = true;
        self.confirm(sent);
        first
    }

    /// No record is sent again; the number of sources that this gives up. What is under way, or waits for room, may still
    /// be confirmed.
    pub(crate) fn drain(&mut self) -> usize {
        let failed = std::mem::take(&mut self.failed);
        failed
            .into_values()
            .filter(|waiting| self.give_up(waiting.sent))
            .count()
    }

    /// How many records are not confirmed, or not looked at.
    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.under_way.len() + self.waiting.len() + self.failed.len() + self.resolved.len()
    }

    /// How many deliveries wait for records.
    #[cfg(test)]
    pub(crate) fn sources(&self) -> usize {
        self.sources.len()
    }

    #[cfg(test)]
    pub(crate) fn delivery(&self, sent: Sent) -> &D {
        &self.sources[sent.source].delivery
    }

    /// The records that wait to be sent again.
    #[cfg(test)]
    pub(crate) fn failed(&self) -> impl Iterator<Item = Sent> {
        self.failed.values().map(|waiting| waiting.sent)
    }
}
