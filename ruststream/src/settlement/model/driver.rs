//! A copy of the partition loop, over a scripted broker and scripted handlers, with the ledger beside the scheduler.
//!
//! [`Driver::turn`] is `dispatch::partition::Driver::poll`, call by call. What it leaves out has nothing to do with
//! the scheduler: counters, the timer, the drain deadline.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, retry_after};
use crate::settlement::{Job, Limits, Scheduler, Verdict};

/// A record of the scripted partition.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) offset: i64,
    pub(super) key: Option<u8>,
    /// What the first poll of its handler answers, at the first attempt and at later ones.
    pub(super) polls: [Answer; 2],
}

/// What polling a handler gives.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Pending,
    Ack,
    Skip,
    /// After so many milliseconds.
    Retry(u64),
    Stop,
}

/// Attempts of one delivery; the last one's retry settles instead, so that a history goes on.
const ATTEMPTS: u32 = 4;

pub(super) struct Driver {
    scheduler: Scheduler<Delivered>,
    ledger: Ledger,
    log: Vec<Record>,
    /// Records that the broker has so far.
    published: usize,
    /// The record that the broker hands out next.
    cursor: usize,
    batch: VecDeque<usize>,
    /// How many records the broker hands out at once.
    batch_size: usize,
    /// Open handlers, and those that will be found finished at the next turn.
    open: Vec<Job<Delivered>>,
    finished: VecDeque<(Job<Delivered>, Answer)>,
    end_asked: bool,
    draining: bool,
    now: Instant,
    alive: Rc<()>,
}

#[derive(Debug)]
struct Delivered {
    /// In the log.
    record: usize,
    /// In the ledger.
    number: usize,
    /// One of the deliveries that were not dropped yet.
    _alive: Rc<()>,
}

impl Driver {
    pub(super) fn new(limits: Limits, log: Vec<Record>, batch_size: usize) -> Self {
        Self {
            scheduler: Scheduler::new(limits, 7),
            ledger: Ledger::new(limits),
            log,
            published: 0,
            cursor: 0,
            batch: VecDeque::new(),
            batch_size,
            open: Vec::new(),
            finished: VecDeque::new(),
            end_asked: false,
            draining: false,
            now: Instant::now(),
            alive: Rc::new(()),
        }
    }

    pub(super) fn publish(&mut self, records: usize) {
        self.published = self.log.len().min(self.published + records);
    }

    /// The broker delivers from an earlier record on again; what the loop took already stays taken.
    pub(super) fn rewind(&mut self, back: usize) {
        self.cursor = self.cursor.saturating_sub(back);
    }

    pub(super) fn open_handlers(&self) -> usize {
        self.open.len()
    }

    /// A handler becomes ready; the loop sees it at its next turn.
    pub(super) fn finish(&mut self, handler: usize, answer: Answer) {
        let job = self.open.remove(handler);
        self.finished.push_back((job, answer));
    }

    pub(super) fn advance(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// The assignment ends; the loop sees it at its next turn.
    pub(super) fn ask_for_the_end(&mut self) {
        self.end_asked = true;
    }

    /// One poll of the loop.
    pub(super) fn turn(&mut self) {
        if self.end_asked {
            self.begin_drain();
        }
        self.poll_woken();
        self.start_held();
        self.start_fresh();
        assert_eq!(self.scheduler.take_position(), self.ledger.take_position());
        let admits = self.scheduler.admits();
        assert!(
            self.ledger.is_alive(admits),
            "nothing will ever happen again: {:?}",
            self.ledger
        );
    }

    fn begin_drain(&mut self) {
        self.scheduler.drain();
        self.ledger.end();
        self.batch.clear();
        self.draining = true;
        self.check();
    }

    fn poll_woken(&mut self) {
        while let Some((job, answer)) = self.finished.pop_front() {
            self.complete(job, answer);
        }
    }

    fn start_held(&mut self) {
        let now = self.now;
        while let Some(job) = self.scheduler.next(|| now) {
            self.ledger.start(job.delivery.number, job.turn.attempt, now);
            self.check();
            match self.first_poll(&job) {
                Answer::Pending => self.open.push(job),
                answer => self.complete(job, answer),
            }
        }
        assert!(
            !self.ledger.is_startable(now),
            "something may start and does not: {:?}",
            self.ledger
        );
    }

    fn start_fresh(&mut self) {
        while self.scheduler.admits() {
            let Some(record) = self.batch.pop_front() else {
                let end = self.published.min(self.cursor + self.batch_size);
                self.batch.extend(self.cursor..end);
                self.cursor = end;
                if self.batch.is_empty() {
                    return;
                }
                continue;
            };
            self.start(record);
        }
    }

    fn start(&mut self, record: usize) {
        let Record { offset, key, .. } = self.log[record];
        let number = self.ledger.deliver(offset, key);
        let needs_key = self.scheduler.needs_key();
        let group = key.filter(|_| needs_key).map(|key| self.scheduler.group(&[key]));
        let delivered = Delivered {
            record,
            number,
            _alive: Rc::clone(&self.alive),
        };
        let job = self.scheduler.deliver(offset, group, delivered);
        assert_eq!(
            job.is_some(),
            self.ledger.is_first_of_its_group(number),
            "{:?}",
            self.ledger
        );
        let Some(job) = job else { return self.check() };
        let turn = job.turn;
        let ticket = turn.ticket;
        assert_eq!(ticket.offset, offset);
        self.ledger.start(number, job.turn.attempt, self.now);
        match self.first_poll(&job) {
            Answer::Ack => {
                drop(job);
                self.scheduler.pass(ticket);
                self.ledger.complete(number, &Verdict::Settle, self.now);
                self.check();
            }
            Answer::Pending => {
                self.scheduler.open(&turn);
                self.check();
                self.open.push(job);
            }
            answer => {
                self.scheduler.open(&turn);
                self.check();
                self.complete(job, answer);
            }
        }
    }

    fn first_poll(&self, job: &Job<Delivered>) -> Answer {
        let [first, again] = self.log[job.delivery.record].polls;
        if job.turn.attempt == 1 { first } else { again }
    }

    fn complete(&mut self, job: Job<Delivered>, answer: Answer) {
        let verdict = match answer {
            Answer::Retry(wait) if job.turn.attempt < ATTEMPTS => retry_after(wait),
            Answer::Stop => Verdict::Stop,
            Answer::Pending | Answer::Ack | Answer::Skip | Answer::Retry(_) => Verdict::Settle,
        };
        if matches!(verdict, Verdict::Stop) && !self.draining {
            self.begin_drain();
        }
        let now = self.now;
        self.ledger.complete(job.delivery.number, &verdict, now);
        self.scheduler.complete(job, &verdict, || now);
        self.check();
    }

    /// Lets everything that was published, and what is to come, be acknowledged, whatever it takes.
    pub(super) fn run_to_the_end(&mut self) {
        self.publish(self.log.len());
        // Every turn ends an attempt, or takes a record, or jumps to a due time: far fewer than this.
        for _ in 0..100 + 50 * self.log.len() {
            self.turn();
            while !self.open.is_empty() {
                self.finish(0, Answer::Ack);
            }
            if self.finished.is_empty() {
                match self.scheduler.next_due() {
                    Some(due) => self.now = self.now.max(due),
                    None => return self.check_the_end(),
                }
            }
        }
        panic!("no end in sight: {:?}", self.ledger);
    }

    fn check_the_end(&self) {
        assert!(
            self.ledger.is_done(),
            "something is left behind: {:?}",
            self.ledger
        );
        assert!(self.scheduler.is_idle());
        assert_eq!(self.scheduler.held(), 0);
        if self.ledger.has_ended() {
            return;
        }
        assert_eq!(self.cursor, self.log.len());
        assert!(self.batch.is_empty());
        assert_eq!(
            self.scheduler.watermark().position(),
            self.ledger.last_offset().map(|last| last + 1)
        );
        assert_eq!(self.scheduler.blocking(), None);
        assert_eq!(self.scheduler.busy_groups(), 0);
    }

    fn check(&self) {
        let alive = Rc::strong_count(&self.alive) - 1;
        assert_eq!(
            alive,
            self.scheduler.running() + self.scheduler.held(),
            "deliveries leak"
        );
        self.ledger.check(&self.scheduler);
    }
}
