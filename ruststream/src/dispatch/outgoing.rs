//! The loop of one partition, its way out: replies, what handlers sent, dead letters.

use std::hash::BuildHasher;
use std::task::{self, Poll, ready};

use super::Counters;
use super::call::Ended;
use super::partition::{DeliveryOf, Driver, ReceiptOf, now};
use super::words::{at, limit_error, no_publisher, unpublished_error};
use crate::broker::{Broker, Partition, Publisher, Sender};
use crate::dead_letter::{self, Why};
use crate::handler::spare;
use crate::settlement::{Job, Name, Reason, Role, Turn, View};
use crate::{Error, PublishError, Record};

impl<'a, B, M, F> Driver<'a, B, M, F>
where
    B: Broker,
    M: Fn(DeliveryOf<B>, u32, u32) -> F,
    F: Future<Output = Ended<B>>,
{
    /// Sends the reply of a delivery that the scheduler holds as unconfirmed.
    #[inline]
    pub(super) fn reply(&mut self, turn: Turn, delivery: DeliveryOf<B>, record: Box<Record>) {
        self.handled += 1;
        let name = self.outbox.only(turn, delivery, Role::Reply);
        self.send(name, record);
    }

    /// Has a delivery that the scheduler holds as unconfirmed wait for what its handler sent, at least one record, and for
    /// its reply if there is one.
    #[cold]
    pub(super) fn join(
        &mut self,
        turn: Turn,
        delivery: DeliveryOf<B>,
        receipts: Vec<ReceiptOf<B>>,
        reply: Option<Box<Record>>,
    ) {
        self.handled += 1;
        let source = self.outbox.several(turn, delivery);
        for receipt in receipts {
            let name = self.outbox.one_of(source, Role::Own);
            self.receipts.push(name, receipt);
        }
        if let Some(record) = reply {
            let name = self.outbox.one_of(source, Role::Reply);
            self.send(name, record);
        }
    }

    /// Sends a copy of a delivery that the scheduler holds as unconfirmed to the dead-letter topic.
    #[cold]
    pub(super) fn dead_letter(&mut self, job: Job<DeliveryOf<B>>, reason: &Reason) {
        let Job { turn, delivery } = job;
        match self.count_letter(turn, reason) {
            Ok((topic, why)) => {
                let record = dead_letter::copy(&delivery, topic, why);
                let name = self.outbox.only(turn, delivery, Role::DeadLetter);
                self.send(name, Box::new(record));
            }
            Err(error) => {
                self.scheduler.give_up();
                self.stop(error);
            }
        }
    }

    /// The source of a record that finally failed goes to the dead-letter topic, once.
    fn dead_letter_unpublished(&mut self, failed: Name, turn: Turn, error: PublishError) {
        match self.count_letter(turn, &Reason::Unpublished(error)) {
            Ok((topic, why)) => {
                let Some(View { delivery, .. }) = self.outbox.view(failed) else {
                    return;
                };
                let record = dead_letter::copy(delivery, topic, why);
                self.outbox.make_dead_letter(failed);
                self.send(failed, Box::new(record));
            }
            Err(error) => {
                self.give_up(failed);
                self.stop(error);
            }
        }
    }

    /// Counts a dead letter; where it goes, and what it says.
    fn count_letter(&mut self, turn: Turn, reason: &Reason) -> Result<(&'a str, Why), Error> {
        let Some(topic) = self.settings.dead_letter.as_deref() else {
            unreachable!("without a topic the policy stops")
        };
        let (kind, message) = reason.describe();
        let (name, at, attempts) = (self.name, at(&self.partition, turn), turn.attempt);
        let counted = self.letters.count(self.handled + self.settled);
        counted.map_err(|too_many| limit_error(name, &at, topic, too_many, &message))?;
        tracing::warn!(
            subscription = name,
            at,
            attempts,
            kind,
            error = message,
            topic,
            "goes to the dead-letter topic"
        );
        let why = Why {
            group: self.partition.group().to_owned(),
            subscription: name.to_owned(),
            attempts,
            kind,
            message,
        };
        Ok((topic, why))
    }

    /// Sends a record, or has it wait for room.
    #[inline]
    fn send(&mut self, name: Name, record: Box<Record>) {
        if !self.outbox.has_waiting() {
            let Some(sender) = &mut self.sender else {
                return self.not_confirmed(name, no_publisher(&record));
            };
            match sender.try_send(&record, name) {
                Ok(true) => return spare::put(record),
                Ok(false) => {}
                Err(error) => return self.not_confirmed(name, error.with_record(*record)),
            }
        }
        self.outbox.wait(name, record);
        self.scheduler.hold_up(true);
    }

    /// Looks at what was confirmed.
    #[inline]
    pub(super) fn settle_confirmed(&mut self) {
        while let Some((name, result)) = self.sender.as_mut().and_then(Sender::next) {
            self.resolved(name, result);
        }
        while let Some((name, result)) = self.receipts.next() {
            self.resolved(name, result);
        }
    }

    #[inline]
    fn resolved(&mut self, name: Name, result: Result<(), PublishError>) {
        match result {
            Ok(()) => self.confirmed(name),
            Err(error) => self.not_confirmed(name, error),
        }
    }

    /// A record is confirmed, or of no matter any more.
    #[inline]
    fn confirmed(&mut self, name: Name) {
        let Some((role, source)) = self.outbox.confirm(name) else {
            return;
        };
        match role {
            Role::Reply => self.replied += 1,
            Role::DeadLetter => Counters::add(&self.counters.dead_lettered, 1),
            Role::Own => {}
        }
        if let Some(turn) = source {
            self.scheduler.confirm(&turn);
            self.confirmed += 1;
        }
    }

    /// Keeps the task's waker for results. Ready: there is something to look at already.
    pub(super) fn poll_results(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let sent = self
            .sender
            .as_mut()
            .map_or(Poll::Pending, |sender| sender.poll_next(cx));
        let received = self.receipts.poll_next(cx);
        if sent.is_ready() { sent } else { received }
    }

    /// A record was refused, or not confirmed: it is sent again, or its source is dead-lettered, or the subscription stops.
    #[cold]
    fn not_confirmed(&mut self, name: Name, error: PublishError) {
        let Some(View {
            role,
            attempt,
            turn,
            dead_lettered,
            ..
        }) = self.outbox.view(name)
        else {
            return;
        };
        let (subscription, at) = (self.name, at(&self.partition, turn));
        let random = self.jitter.hash_one((turn.ticket.offset, attempt));
        let wait = self.settings.retry.wait_after(attempt, random);
        let wait = wait.filter(|_| error.is_retriable() && error.record().is_some());
        if let Some(wait) = wait {
            tracing::warn!(subscription, at, attempt, ?wait, %error, "a record was not confirmed, it will be sent again");
            match error.into_record() {
                Some(record) if self.drain_by.is_none() => {
                    self.outbox.again(name, Box::new(record), now() + wait);
                    self.scheduler.hold_up(true);
                }
                _ => self.give_up(name),
            }
        } else if role != Role::DeadLetter && dead_lettered {
            tracing::error!(subscription, at, attempt, %error, "a record of a dead-lettered delivery was not confirmed");
            self.confirmed(name);
        } else if role != Role::DeadLetter && self.settings.dead_letter.is_some() {
            self.dead_letter_unpublished(name, turn, error);
        } else {
            self.give_up(name);
            self.stop(unpublished_error(subscription, &at, attempt, role, error));
        }
    }

    fn give_up(&mut self, name: Name) {
        if self.outbox.give_up(name) {
            self.scheduler.give_up();
        }
    }

    /// At the end of a drain: looks at every receipt once more, so that what is confirmed is settled.
    pub(super) fn confirm_late(&mut self) {
        self.receipts.sweep();
        self.settle_confirmed();
        self.flush();
    }

    /// Sends what waited for room, and what is due to be sent again.
    pub(super) fn send_waiting(&mut self, cx: &mut task::Context<'_>) {
        if !self.outbox.is_held_up() {
            return;
        }
        self.outbox.retry(now);
        while self.poll_send_first(cx).is_ready() {}
        self.scheduler.hold_up(self.outbox.is_held_up());
    }

    /// Whether a record found no room this turn, and nothing would wake this task when there is some: the records of other
    /// partitions took it, and none of its own is under way. Then [`send_waiting`](Self::send_waiting) stands in line.
    #[inline]
    pub(super) fn must_stand_in_line(&self) -> bool {
        self.outbox.has_waiting() && !self.outbox.has_under_way() && self.line.is_none()
    }

    /// Sends the record that waits first; pending when none does, or there is no room for it.
    fn poll_send_first(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Some((name, record)) = self.outbox.first_waiting() else {
            return Poll::Pending;
        };
        let sent = match (&mut self.line, &mut self.sender) {
            (Some(line), _) => {
                let sent = ready!(line.as_mut().poll(cx));
                self.line = None;
                sent.map(|receipt| self.receipts.push(name, receipt))
            }
            (None, None) => Err(no_publisher(record)),
            (None, Some(sender)) => match sender.try_send(record, name) {
                Ok(true) => Ok(()),
                Err(error) => Err(error),
                // Their results wake this task, by the hundred; standing in line costs an allocation.
                Ok(false) if self.outbox.has_under_way() => return Poll::Pending,
                Ok(false) => {
                    let Some(publisher) = self.publisher else {
                        return Poll::Pending;
                    };
                    self.line = Some(Box::pin(publisher.send(record.clone())));
                    return Poll::Ready(()); // and now it is polled
                }
            },
        };
        if let Some((name, record)) = self.outbox.take_waiting() {
            match sent {
                Ok(()) => spare::put(record),
                Err(error) => self.not_confirmed(name, error.with_record(*record)),
            }
        }
        Poll::Ready(())
    }
}
