//! The plain scheduler: a list of every delivery and what became of it.

use std::time::{Duration, Instant};

use super::plain::Plain;
use crate::broker::Commit;
use crate::settlement::{Limits, Scheduler, Verdict};
use crate::subscription::ProcessingOrder;

/// A retry is never due within the turn in which it was asked for.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Ledger {
    limits: Limits,
    entries: Vec<Entry>,
    plain: Plain,
    /// Drained or stopped: nothing may start any more.
    ended: bool,
    /// Records that are not on the wire: they wait for room, or to be sent again.
    held_up: usize,
}

#[derive(Debug)]
struct Entry {
    offset: i64,
    /// Entries of one group wait for each other; `None` waits for nothing.
    group: Option<u8>,
    /// How often it was handed to the handler.
    attempts: u32,
    state: State,
    /// Records that were sent for it, or are to be, and are not confirmed.
    records: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Behind its group, or for a handler place.
    Held,
    Running,
    /// For a retry, due then.
    Waiting(Instant),
    /// Its handler is done, its records are not confirmed.
    Unconfirmed,
    Settled,
    /// Never settled: its handler stopped the subscription, the end came first, or a newer copy counts.
    Abandoned,
}

impl State {
    /// Whether its group has to wait for it.
    fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::Running | Self::Waiting(_))
    }
}

impl Ledger {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: Vec::new(),
            plain: Plain::default(),
            ended: false,
            held_up: 0,
        }
    }

    /// Notes a delivery, held; its number, from 0.
    pub(super) fn deliver(&mut self, offset: i64, key: Option<u8>) -> usize {
        let group = match self.limits.ordering {
            ProcessingOrder::Partition => Some(0),
            ProcessingOrder::Key => key,
            ProcessingOrder::Unordered => None,
        };
        self.plain.deliver(offset);
        self.entries.push(Entry {
            offset,
            group,
            attempts: 0,
            state: State::Held,
            records: 0,
        });
        self.entries.len() - 1
    }

    /// Its handler is called: everything that allows it must hold.
    pub(super) fn start(&mut self, number: usize, attempt: u32, now: Instant) {
        assert!(!self.ended, "{number} started after the end");
        assert!(
            self.may_start(),
            "{number} started before a record was sent, or confirmed"
        );
        assert!(
            self.running() < self.limits.concurrency,
            "{number} started without a handler place"
        );
        assert!(
            self.first_of_groups().contains(&number),
            "{number} overtook one of its group: {self:?}"
        );
        if let State::Waiting(due) = self.entries[number].state {
            assert!(due <= now, "{number} started before it was due");
            assert_eq!(
                Some(due),
                self.earliest_due(),
                "{number} started before one that was due earlier"
            );
        }
        let entry = &mut self.entries[number];
        assert!(
            matches!(entry.state, State::Held | State::Waiting(_)),
            "{number} started from {:?}",
            entry.state
        );
        entry.state = State::Running;
        entry.attempts += 1;
        assert_eq!(entry.attempts, attempt);
        if self.limits.commit == Commit::Auto && attempt == 1 {
            self.plain.settle(number);
        }
    }

    /// Its handler is done.
    pub(super) fn complete(&mut self, number: usize, verdict: &Verdict, now: Instant) {
        assert_eq!(self.entries[number].state, State::Running);
        let tracked = self.limits.commit == Commit::Tracked;
        self.entries[number].state = match verdict {
            Verdict::Settle => State::Settled,
            Verdict::DeadLetter => unreachable!("it is sent: see `sends`"),
            Verdict::RetryAfter(_) if self.ended || (tracked && self.plain.is_forgotten(number)) => {
                State::Abandoned
            }
            Verdict::RetryAfter(wait) => State::Waiting(now + (*wait).max(SHORTEST_WAIT)),
            Verdict::Stop => State::Abandoned,
        };
        if matches!(verdict, Verdict::Settle) && tracked {
            self.plain.settle(number);
        }
        if matches!(verdict, Verdict::Stop) {
            self.end();
        }
    }

    /// Its handler is done; `records` are to be confirmed, the first `held_up` of them are not on the wire.
    pub(super) fn sends(&mut self, number: usize, records: usize) {
        let entry = &mut self.entries[number];
        assert_eq!(entry.state, State::Running);
        entry.state = State::Unconfirmed;
        entry.records = records;
    }

    /// A record waits, or does not any more.
    pub(super) fn waits(&mut self, records: isize) {
        self.held_up = self.held_up.checked_add_signed(records).unwrap();
    }

    /// One of its records is confirmed, or of no matter any more.
    pub(super) fn confirmed(&mut self, number: usize) {
        let entry = &mut self.entries[number];
        entry.records -= 1;
        if entry.records == 0 && entry.state == State::Unconfirmed {
            entry.state = State::Settled;
            if self.limits.commit == Commit::Tracked {
                self.plain.settle(number);
            }
        }
    }

    /// One of its records will never be confirmed.
    pub(super) fn gives_up(&mut self, number: usize) {
        let entry = &mut self.entries[number];
        entry.records -= 1;
        entry.state = State::Abandoned;
    }

    pub(super) fn records(&self) -> usize {
        self.entries.iter().map(|entry| entry.records).sum()
    }

    /// Nothing may start any more; what does not run is abandoned.
    pub(super) fn end(&mut self) {
        self.ended = true;
        for entry in &mut self.entries {
            if matches!(entry.state, State::Held | State::Waiting(_)) {
                entry.state = State::Abandoned;
            }
        }
    }

    pub(super) fn take_position(&mut self) -> Option<i64> {
        self.plain.take()
    }

    /// Whether a delivery, the newest one included, has nothing of its group before it.
    pub(super) fn is_first_of_its_group(&self, number: usize) -> bool {
        self.first_of_groups().contains(&number)
    }

    /// Whether something that was delivered may start now.
    pub(super) fn is_startable(&self, now: Instant) -> bool {
        self.may_start()
            && self.running() < self.limits.concurrency
            && (self.earliest_due().is_some_and(|due| due <= now) || self.is_runnable())
    }

    /// Whether something can still happen: a handler runs, a retry or a record waits, a delivery may come, or the end has.
    pub(super) fn is_alive(&self, admits: bool) -> bool {
        self.ended || admits || self.running() > 0 || self.unconfirmed() > 0 || self.earliest_due().is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        !self.is_busy() && self.records() == 0
    }

    fn is_busy(&self) -> bool {
        self.entries.iter().any(|entry| entry.state.is_live())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn last_offset(&self) -> Option<i64> {
        self.plain.last()
    }

    /// Compares everything that can be seen of `scheduler`, and checks the promises that stand above both.
    pub(super) fn check<D>(&self, scheduler: &Scheduler<D>) {
        assert_eq!(scheduler.running(), self.running());
        assert_eq!(scheduler.unconfirmed(), self.unconfirmed());
        assert_eq!(scheduler.is_idle(), self.running() + self.unconfirmed() == 0);
        assert_eq!(scheduler.held(), self.held());
        assert_eq!(scheduler.admits(), self.admits(), "{self:?}");
        let due = self
            .earliest_due()
            .filter(|_| self.may_start() && self.running() < self.limits.concurrency);
        assert_eq!(scheduler.next_due(), due);
        let watermark = scheduler.watermark();
        assert_eq!(watermark.position(), self.plain.position(), "{self:?}");
        assert_eq!(watermark.span(), self.plain.span());
        assert_eq!(
            scheduler.blocking().map(|blocking| blocking.offset),
            self.plain.blocking()
        );
        assert_eq!(scheduler.late(), self.plain.late());
        if !self.ended {
            assert_eq!(scheduler.busy_groups(), self.busy_groups(), "{self:?}");
        }
        self.check_bounds(scheduler);
        self.check_coverage(watermark.position());
    }

    fn check_bounds<D>(&self, scheduler: &Scheduler<D>) {
        let Limits {
            ordering,
            concurrency,
            backlog,
            span,
            window,
            ..
        } = self.limits;
        assert!(scheduler.running() <= concurrency);
        // A retry keeps the place of its delivery: only a delivery adds one, and only below both bounds.
        let most = if ordering == ProcessingOrder::Partition {
            1
        } else {
            backlog + concurrency - 1
        };
        assert!(scheduler.running() + scheduler.held() <= most);
        assert!(scheduler.watermark().span() <= span);
        // Handlers that run when the window is full may still answer.
        assert!(scheduler.unconfirmed() < window + concurrency);
    }

    /// The position covers nothing that a restart must see again.
    fn check_coverage(&self, position: Option<i64>) {
        let below = |entry: &Entry| position.is_some_and(|position| entry.offset < position);
        let counts = |number: usize| !self.plain.is_forgotten(number);
        for (_, entry) in self
            .entries
            .iter()
            .enumerate()
            .filter(|(at, entry)| counts(*at) && below(entry))
        {
            match self.limits.commit {
                Commit::Tracked => assert_eq!(
                    entry.state,
                    State::Settled,
                    "{entry:?} is covered by {position:?}"
                ),
                Commit::Auto => assert!(entry.attempts > 0, "{entry:?} is covered by {position:?}"),
            }
        }
    }

    fn admits(&self) -> bool {
        let place = match self.limits.ordering {
            ProcessingOrder::Partition => !self.is_busy(),
            ProcessingOrder::Key | ProcessingOrder::Unordered => {
                self.running() < self.limits.concurrency
                    && !self.is_runnable()
                    && self.held() < self.limits.backlog
                    && self.plain.span() < self.limits.span
            }
        };
        let span = self.unconfirmed() == 0 || self.plain.span() < self.limits.span;
        place && span && self.may_start() && !self.ended
    }

    /// Every record is on the wire, and not too many deliveries wait for theirs.
    fn may_start(&self) -> bool {
        self.held_up == 0 && self.unconfirmed() < self.limits.window
    }

    fn unconfirmed(&self) -> usize {
        let unconfirmed = |entry: &&Entry| entry.state == State::Unconfirmed;
        self.entries.iter().filter(unconfirmed).count()
    }

    /// Whether something waits for nothing but a handler place.
    fn is_runnable(&self) -> bool {
        self.first_of_groups()
            .iter()
            .any(|number| self.entries[*number].state == State::Held)
    }

    /// The live entries that have no live one of their group before them.
    fn first_of_groups(&self) -> Vec<usize> {
        let mut busy = Vec::new();
        let mut first = Vec::new();
        for (number, entry) in self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.state.is_live())
        {
            if entry.group.is_none_or(|group| !busy.contains(&group)) {
                first.push(number);
            }
            busy.extend(entry.group);
        }
        first
    }

    fn busy_groups(&self) -> usize {
        let grouped = |number: &&usize| self.entries[**number].group.is_some();
        match self.limits.ordering {
            // One group, which needs no name.
            ProcessingOrder::Partition => 0,
            ProcessingOrder::Key | ProcessingOrder::Unordered => {
                self.first_of_groups().iter().filter(grouped).count()
            }
        }
    }

    fn earliest_due(&self) -> Option<Instant> {
        let due = |entry: &Entry| match entry.state {
            State::Waiting(due) => Some(due),
            _ => None,
        };
        self.entries.iter().filter_map(due).min()
    }

    fn running(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.state == State::Running)
            .count()
    }

    /// Live without a handler place.
    fn held(&self) -> usize {
        self.entries.iter().filter(|entry| entry.state.is_live()).count() - self.running()
    }
}

/// The wait of a retry.
pub(super) fn retry_after(milliseconds: u64) -> Verdict {
    Verdict::RetryAfter(Duration::from_millis(milliseconds))
}
