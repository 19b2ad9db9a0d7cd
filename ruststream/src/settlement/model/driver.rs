//! A copy of the partition loop, over a scripted broker, scripted handlers and a scripted publisher, with the ledger beside
//! the scheduler and the outbox.
//!
//! [`Driver::turn`] is `dispatch::partition::Driver::poll`, call by call, and what is sent goes the way of
//! `dispatch::outgoing`. What it leaves out has nothing to do with the core: counters, the timer, the drain deadline.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::ledger::{Ledger, retry_after};
use super::wire::{Wire, record};
use crate::settlement::{Job, Limits, Name, Outbox, Role, Scheduler, Turn, Verdict, View};

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
    Reply,
    /// Acknowledged, with so many records that the handler sent itself.
    Own(usize),
    DeadLetter,
    Stop,
}

/// Attempts of one delivery; the last one's retry settles instead, so that a history goes on.
const ATTEMPTS: u32 = 4;

/// Attempts to send one record.
const SENDS: u32 = 3;

/// Until a record that failed is sent again.
const AGAIN: Duration = Duration::from_millis(10);

pub(super) struct Driver {
    scheduler: Scheduler<Delivered>,
    outbox: Outbox<Delivered>,
    ledger: Ledger,
    wire: Wire,
    dead_letters: bool,
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
    pub(super) fn new(limits: Limits, log: Vec<Record>, batch_size: usize, dead_letters: bool) -> Self {
        Self {
            scheduler: Scheduler::new(limits, 7),
            outbox: Outbox::new(),
            ledger: Ledger::new(limits),
            wire: Wire::default(),
            dead_letters,
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

    pub(super) fn give_room(&mut self, records: usize) {
        self.wire.give_room(records);
    }

    pub(super) fn on_the_wire(&self) -> usize {
        self.wire.unresolved()
    }

    /// A record on the wire is confirmed, or fails; the loop sees it at its next turn, or later.
    pub(super) fn resolve(&mut self, record: usize, ok: bool) {
        self.wire.resolve(record, ok);
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
        if self.end_asked && !self.draining {
            self.begin_drain();
        }
        self.settle_confirmed();
        self.poll_woken();
        self.send_waiting();
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
        for number in self.failed_records() {
            self.ledger.waits(-1);
            self.ledger.gives_up(number);
        }
        for _ in 0..self.outbox.drain() {
            self.scheduler.give_up();
        }
        self.hold_up();
        self.batch.clear();
        self.draining = true;
        self.check();
    }

    /// The deliveries of the records that wait to be sent again, once for each.
    fn failed_records(&self) -> Vec<usize> {
        let failed = self.outbox.failed();
        failed.map(|name| self.number_of(name)).collect()
    }

    fn number_of(&self, name: Name) -> usize {
        self.outbox.view(name).unwrap().delivery.number
    }

    fn settle_confirmed(&mut self) {
        while let Some((name, ok)) = self.wire.next() {
            if ok {
                self.confirmed(name);
            } else {
                self.not_confirmed(name);
            }
            self.hold_up();
            self.check();
        }
    }

    fn confirmed(&mut self, name: Name) {
        self.ledger.confirmed(self.number_of(name));
        if let (_, Some(turn)) = self.outbox.confirm(name).unwrap() {
            self.scheduler.confirm(&turn);
        }
    }

    fn not_confirmed(&mut self, name: Name) {
        let View {
            role,
            attempt,
            dead_lettered,
            ..
        } = self.outbox.view(name).unwrap();
        if attempt < SENDS {
            if self.draining {
                return self.give_up(name);
            }
            self.ledger.waits(1);
            self.outbox.again(name, Box::new(record()), self.now + AGAIN);
        } else if role != Role::DeadLetter && dead_lettered {
            self.confirmed(name);
        } else if role != Role::DeadLetter && self.dead_letters {
            self.outbox.make_dead_letter(name);
            self.send(name);
        } else {
            self.give_up(name);
            self.scheduler.stop();
            if !self.draining {
                self.begin_drain();
            }
        }
    }

    fn give_up(&mut self, name: Name) {
        self.ledger.gives_up(self.number_of(name));
        if self.outbox.give_up(name) {
            self.scheduler.give_up();
        }
    }

    fn poll_woken(&mut self) {
        while let Some((job, answer)) = self.finished.pop_front() {
            self.complete(job, answer);
        }
    }

    fn send_waiting(&mut self) {
        let now = self.now;
        self.outbox.retry(|| now);
        while let Some((name, _)) = self.outbox.first_waiting()
            && self.wire.try_send(name)
        {
            drop(self.outbox.take_waiting().unwrap());
            self.ledger.waits(-1);
        }
        self.hold_up();
        self.check();
    }

    fn hold_up(&mut self) {
        self.scheduler.hold_up(self.outbox.is_held_up());
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
            Answer::Reply => {
                self.scheduler.pass_unconfirmed(&turn);
                self.reply(turn, job.delivery);
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
            Answer::Reply => {
                self.scheduler.finish_unconfirmed(&job.turn);
                return self.reply(job.turn, job.delivery);
            }
            Answer::Own(records) => {
                self.scheduler.finish_unconfirmed(&job.turn);
                return self.join(job.turn, job.delivery, records);
            }
            Answer::Retry(wait) if job.turn.attempt < ATTEMPTS => retry_after(wait),
            Answer::DeadLetter if self.dead_letters => Verdict::DeadLetter,
            Answer::DeadLetter | Answer::Stop => Verdict::Stop,
            Answer::Pending | Answer::Ack | Answer::Skip | Answer::Retry(_) => Verdict::Settle,
        };
        let (number, now) = (job.delivery.number, self.now);
        if matches!(verdict, Verdict::Stop) && !self.draining {
            self.begin_drain();
        }
        if matches!(verdict, Verdict::DeadLetter) {
            self.ledger.sends(number, 1);
        } else {
            self.ledger.complete(number, &verdict, now);
        }
        if let Some(Job { turn, delivery }) = self.scheduler.complete(job, &verdict, || now) {
            let name = self.outbox.only(turn, delivery, Role::DeadLetter);
            self.send(name);
        }
        self.check();
    }

    fn reply(&mut self, turn: Turn, delivery: Delivered) {
        self.ledger.sends(delivery.number, 1);
        let name = self.outbox.only(turn, delivery, Role::Reply);
        self.send(name);
        self.check();
    }

    /// What a handler sends itself has found room already.
    fn join(&mut self, turn: Turn, delivery: Delivered, records: usize) {
        self.ledger.sends(delivery.number, records);
        let source = self.outbox.several(turn, delivery);
        for _ in 0..records {
            let name = self.outbox.one_of(source, Role::Own);
            self.wire.send(name);
        }
        self.check();
    }

    fn send(&mut self, name: Name) {
        if !self.outbox.has_waiting() && self.wire.try_send(name) {
            return;
        }
        self.ledger.waits(1);
        self.outbox.wait(name, Box::new(record()));
        self.hold_up();
    }

    /// Lets everything that was published, and what is to come, be acknowledged, whatever it takes.
    pub(super) fn run_to_the_end(&mut self) {
        self.publish(self.log.len());
        self.give_room(usize::MAX / 2);
        // Every turn ends an attempt, or takes a record, or jumps to a due time: far fewer than this.
        for _ in 0..200 + 100 * self.log.len() {
            self.turn();
            while !self.open.is_empty() {
                self.finish(0, Answer::Ack);
            }
            let on_the_wire = self.on_the_wire();
            (0..on_the_wire).for_each(|_| self.resolve(0, true));
            if self.finished.is_empty() && on_the_wire == 0 {
                let due = [self.scheduler.next_due(), self.outbox.next_due()];
                match due.into_iter().flatten().min() {
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
            self.scheduler.running() + self.scheduler.held() + self.outbox.sources(),
            "deliveries leak"
        );
        assert_eq!(self.outbox.records(), self.ledger.records(), "records leak");
        self.ledger.check(&self.scheduler);
    }
}
