//! Which delivery may start: order, concurrency, retry waits, drain.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::{Ticket, Verdict, Watermark};
use crate::broker::Commit;
use crate::subscription::ProcessingOrder;

/// One question, "which deliveries must wait for which?", and the watermark that follows from the answers.
///
/// A delivery is asked for when [`admits`](Self::admits) says so, and given to [`deliver`](Self::deliver), which either
/// returns it as a [`Job`] to start now or holds it behind its ordering group. A started job ends in exactly one of
/// - [`pass`](Self::pass): settled by its first poll (nothing was kept for it);
/// - [`open`](Self::open) at its first poll, and [`complete`](Self::complete) later;
/// - either of these with records that must be confirmed before it settles ([`pass_unconfirmed`](Self::pass_unconfirmed),
///   [`finish_unconfirmed`](Self::finish_unconfirmed)), and then [`confirm`](Self::confirm) or
///   [`give_up`](Self::give_up). It holds the position until then, and neither a handler place nor its ordering group.
///
/// [`next`](Self::next) yields jobs that may start because time passed or an ordering group became free; these are open
/// already. `D` is whatever the driver keeps for a delivery.
#[derive(Debug)]
pub(crate) struct Scheduler<D> {
    limits: Limits,
    watermark: Watermark,
    hasher: RandomState,
    /// Busy ordering groups, each with what waits behind it. A group that is not here is free.
    groups: HashMap<u64, VecDeque<Job<D>>>,
    /// May start as soon as there is a handler place.
    runnable: VecDeque<Job<D>>,
    /// Retries by due time; the counter keeps equal times apart.
    retries: BTreeMap<(Instant, u64), Job<D>>,
    retried: u64,
    /// Handlers open now.
    running: usize,
    /// Jobs held without a handler place: behind a group, runnable, or waiting for a retry.
    held: usize,
    /// Jobs whose handlers are done and whose records are not confirmed.
    unconfirmed: usize,
    /// A record could not be sent yet: nothing new may start.
    held_up: bool,
    draining: bool,
    stopped: bool,
}

/// A delivery on its way through its handler.
#[derive(Debug)]
pub(crate) struct Job<D> {
    pub(crate) turn: Turn,
    pub(crate) delivery: D,
}

/// What the scheduler knows of a delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) ticket: Ticket,
    /// From 1.
    pub(crate) attempt: u32,
    /// The ordering group; `None` waits for nothing.
    pub(crate) group: Option<u64>,
}

/// The bounds of one partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) ordering: ProcessingOrder,
    /// Handlers open at once.
    pub(crate) concurrency: usize,
    /// Deliveries held without a handler place.
    pub(crate) backlog: usize,
    /// Deliveries between the position and the newest one: what a restart repeats.
    pub(crate) span: usize,
    /// Deliveries whose handlers are done and whose records are not confirmed: what a crash repeats.
    pub(crate) window: usize,
    /// What moves the position: outcomes, or the start of a handler.
    pub(crate) commit: Commit,
}

/// The delivery that holds a partition's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocking {
    pub(crate) offset: i64,
    /// How many deliveries are settled or open above it, itself included.
    pub(crate) span: usize,
}

/// What fails at once and is due at once would start again for ever within one turn of the loop. 1 ms is the grain of the
/// runtime's timer.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// A year: longer than an assignment lasts, and the clock cannot overflow.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 86_400);

impl<D> Scheduler<D> {
    pub(crate) fn new(limits: Limits, epoch: u64) -> Self {
        Self {
            limits,
            watermark: Watermark::new(epoch),
            hasher: RandomState::new(),
            groups: HashMap::new(),
            runnable: VecDeque::new(),
            retries: BTreeMap::new(),
            retried: 0,
            running: 0,
            held: 0,
            unconfirmed: 0,
            held_up: false,
            draining: false,
            stopped: false,
        }
    }

    /// Whether a further delivery may be taken from the broker: back-pressure is not taking it.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        let place = match self.limits.ordering {
            // One group: what waits, waits in the broker's own queue.
            ProcessingOrder::Partition => self.running == 0 && self.held == 0,
            ProcessingOrder::Key | ProcessingOrder::Unordered => {
                self.running < self.limits.concurrency
                    && self.runnable.is_empty()
                    && self.held < self.limits.backlog
                    && self.watermark.span() < self.limits.span
            }
        };
        place && self.may_start() && self.span_is_bounded() && !self.draining && !self.stopped
    }

    /// In partition order, only what is unconfirmed makes a span.
    #[inline]
    fn span_is_bounded(&self) -> bool {
        self.unconfirmed == 0 || self.watermark.span() < self.limits.span
    }

    /// Whether the way out allows another handler.
    #[inline]
    fn may_start(&self) -> bool {
        self.unconfirmed < self.limits.window && !self.held_up
    }

    /// Whether the ordering key of a delivery matters, so that the driver reads it only then.
    #[inline]
    pub(crate) fn needs_key(&self) -> bool {
        self.limits.ordering == ProcessingOrder::Key
    }

    /// The ordering group of a key. Two keys may share one: they only wait for each other.
    pub(crate) fn group(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Takes a delivery: returned to start now, or held behind its ordering group (`None`). No group waits for nothing.
    #[inline]
    pub(crate) fn deliver(&mut self, offset: i64, group: Option<u64>, delivery: D) -> Option<Job<D>> {
        let ticket = self.watermark.deliver(offset);
        let turn = Turn {
            ticket,
            attempt: 1,
            group,
        };
        let job = Job { turn, delivery };
        match group {
            Some(group) if self.groups.contains_key(&group) => {
                self.hold(group, job);
                None
            }
            _ => Some(job),
        }
    }

    fn hold(&mut self, group: u64, job: Job<D>) {
        self.watermark.open(job.turn.ticket);
        self.held += 1;
        self.groups.entry(group).or_default().push_back(job);
    }

    /// The first poll of a delivered job settled it.
    #[inline]
    pub(crate) fn pass(&mut self, ticket: Ticket) {
        self.watermark.pass(ticket);
    }

    /// The first poll of a delivered job did not settle it: it takes a handler place and its ordering group.
    #[inline]
    pub(crate) fn open(&mut self, turn: &Turn) {
        self.running += 1;
        if let Some(group) = turn.group {
            self.groups.entry(group).or_default();
        }
        match self.limits.commit {
            Commit::Tracked => self.watermark.open(turn.ticket),
            Commit::Auto => self.watermark.pass(turn.ticket),
        }
    }

    /// Ends an open job whose delivery is done with.
    pub(crate) fn settle(&mut self, turn: &Turn) {
        self.running -= 1;
        self.release(turn.group);
        if self.limits.commit == Commit::Tracked {
            self.watermark.settle(turn.ticket);
        }
    }

    /// The first poll of a delivered job ended it, but for the records that it sent.
    #[inline]
    pub(crate) fn pass_unconfirmed(&mut self, turn: &Turn) {
        self.unconfirmed += 1;
        match self.limits.commit {
            Commit::Tracked => self.watermark.open(turn.ticket),
            Commit::Auto => self.watermark.pass(turn.ticket),
        }
    }

    /// Ends an open job, but for the records that it sent.
    pub(crate) fn finish_unconfirmed(&mut self, turn: &Turn) {
        self.running -= 1;
        self.release(turn.group);
        self.unconfirmed += 1;
    }

    /// The records of a job are confirmed: its delivery is done with.
    #[inline]
    pub(crate) fn confirm(&mut self, turn: &Turn) {
        self.unconfirmed -= 1;
        if self.limits.commit == Commit::Tracked {
            self.watermark.settle(turn.ticket);
        }
    }

    /// The records of a job will not be confirmed: its delivery is never settled.
    pub(crate) fn give_up(&mut self) {
        self.unconfirmed -= 1;
    }

    /// Whether a record could not be sent yet. While it could not, nothing new starts.
    #[inline]
    pub(crate) fn hold_up(&mut self, held_up: bool) {
        self.held_up = held_up;
    }

    /// Stops: what is held is forgotten.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.forget_held();
    }

    /// Ends an open job by the policy's verdict. One that is to be dead-lettered comes back: it waits for its copy.
    pub(crate) fn complete(
        &mut self,
        job: Job<D>,
        verdict: &Verdict,
        now: impl FnOnce() -> Instant,
    ) -> Option<Job<D>> {
        match verdict {
            Verdict::Settle => self.settle(&job.turn),
            Verdict::RetryAfter(wait) => self.retry(job, *wait, now),
            Verdict::DeadLetter => {
                self.finish_unconfirmed(&job.turn);
                return Some(job);
            }
            Verdict::Stop => {
                self.running -= 1;
                self.stop();
            }
        }
        None
    }

    fn retry(&mut self, job: Job<D>, wait: Duration, now: impl FnOnce() -> Instant) {
        self.running -= 1;
        // Delivered again meanwhile: the newer copy is the one that counts.
        if self.is_superseded(job.turn.ticket) {
            return self.release(job.turn.group);
        }
        // Nothing is settled and the group stays taken: nothing behind it may overtake.
        if self.draining || self.stopped {
            return;
        }
        self.retried += 1;
        self.held += 1;
        let attempt = job.turn.attempt.saturating_add(1);
        let again = Job {
            turn: Turn { attempt, ..job.turn },
            ..job
        };
        let due = now() + wait.clamp(SHORTEST_WAIT, LONGEST_WAIT);
        self.retries.insert((due, self.retried), again);
    }

    fn is_superseded(&mut self, ticket: Ticket) -> bool {
        self.limits.commit == Commit::Tracked && !self.watermark.holds(ticket)
    }

    fn release(&mut self, group: Option<u64>) {
        let Some(group) = group else { return };
        let Some(waiting) = self.groups.get_mut(&group) else {
            return;
        };
        match waiting.pop_front() {
            Some(next) => self.runnable.push_back(next),
            None => {
                self.groups.remove(&group);
            }
        }
    }

    /// A held job that may start now; it is open from here on.
    #[inline]
    pub(crate) fn next(&mut self, now: impl FnOnce() -> Instant) -> Option<Job<D>> {
        if self.held == 0 || self.running >= self.limits.concurrency || !self.may_start() {
            return None;
        }
        let job = self.due(now).or_else(|| self.runnable.pop_front())?;
        self.held -= 1;
        self.running += 1;
        if self.limits.commit == Commit::Auto && job.turn.attempt == 1 {
            self.watermark.settle(job.turn.ticket);
        }
        Some(job)
    }

    fn due(&mut self, now: impl FnOnce() -> Instant) -> Option<Job<D>> {
        let first = self.retries.first_entry()?;
        (first.key().0 <= now()).then(|| first.remove())
    }

    /// When [`next`](Self::next) may have something to start because time passed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        if self.running >= self.limits.concurrency || !self.may_start() {
            return None;
        }
        self.retries.first_key_value().map(|((due, _), _)| *due)
    }

    /// No new starts: what is held is forgotten (and seen again by the next owner), what runs may finish.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        self.forget_held();
    }

    fn forget_held(&mut self) {
        self.retries.clear();
        self.runnable.clear();
        self.groups.values_mut().for_each(VecDeque::clear);
        self.held = 0;
    }

    /// Whether nothing runs any more, and every record is confirmed.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.running == 0 && self.unconfirmed == 0
    }

    /// How many jobs wait for their records to be confirmed.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }

    /// How many handlers are open.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// The position to store, if it moved since the last call.
    #[inline]
    pub(crate) fn take_position(&mut self) -> Option<i64> {
        self.watermark.take()
    }

    /// What holds the position, if anything does.
    pub(crate) fn blocking(&self) -> Option<Blocking> {
        let offset = self.watermark.blocking()?;
        Some(Blocking {
            offset,
            span: self.watermark.span(),
        })
    }

    #[cfg(test)]
    pub(crate) fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    /// How many deliveries are held without a handler place.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// How many ordering groups are taken: none once all is settled.
    #[cfg(test)]
    pub(crate) fn busy_groups(&self) -> usize {
        self.groups.len()
    }

    /// How many settlements came too late to count.
    pub(crate) fn late(&self) -> u64 {
        self.watermark.late()
    }
}
