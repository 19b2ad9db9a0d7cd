//! The loop of one partition, its way out: replies, what handlers sent, dead letters.

use std::hash::BuildHasher;
use std::task::{self, Poll, ready};

use super::Counters;
use super::partition::{DeliveryOf, Driver, Ended, ReceiptOf, at, now};
use crate::broker::{Broker, Partition, Publisher};
use crate::dead_letter::{self, Why};
use crate::settlement::{Job, Reason, Role, Sent, TooMany, Turn, Waiting};
use crate::{Error, ErrorKind, PublishError, PublishErrorKind, Record};

impl<'a, B, M, F> Driver<'a, B, M, F>
where
    B: Broker,
    M: Fn(DeliveryOf<B>, u32) -> F,
    F: Future<Output = Ended<B>>,
{
    /// Sends the reply of a delivery that the scheduler holds as unconfirmed.
    #[inline]
    pub(super) fn reply(&mut self, turn: Turn, delivery: DeliveryOf<B>, record: Box<Record>) {
        self.handled += 1;
        let sent = self.outbox.source(turn, delivery, Role::Reply);
        self.send(sent, record);
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
        let mut receipts = receipts.into_iter();
        let Some(first) = receipts.next() else {
            unreachable!("only a call with receipts is joined")
        };
        let source = self.outbox.source(turn, delivery, Role::Own);
        self.outbox.sent(source, first);
        for receipt in receipts {
            let sent = self.outbox.another(source, Role::Own);
            self.outbox.sent(sent, receipt);
        }
        if let Some(record) = reply {
            let sent = self.outbox.another(source, Role::Reply);
            self.send(sent, record);
        }
    }

    /// Sends a copy of a delivery that the scheduler holds as unconfirmed to the dead-letter topic.
    #[cold]
    pub(super) fn dead_letter(&mut self, job: Job<DeliveryOf<B>>, reason: &Reason) {
        let Job { turn, delivery } = job;
        match self.count_letter(turn, reason) {
            Ok((topic, why)) => {
                let record = dead_letter::copy(&delivery, topic, why);
                let sent = self.outbox.source(turn, delivery, Role::DeadLetter);
                self.send(sent, Box::new(record));
            }
            Err(error) => {
                self.scheduler.give_up();
                self.stop(error);
            }
        }
    }

    /// The source of a record that finally failed goes to the dead-letter topic, once.
    fn dead_letter_unpublished(&mut self, failed: Sent, turn: Turn, error: PublishError) {
        if self.outbox.is_dead_lettered(failed) {
            return self.done_with(failed);
        }
        match self.count_letter(turn, &Reason::Unpublished(error)) {
            Ok((topic, why)) => {
                let Some((sent, delivery)) = self.outbox.dead_letter(failed) else {
                    return;
                };
                let record = dead_letter::copy(delivery, topic, why);
                self.send(sent, Box::new(record));
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
    fn send(&mut self, sent: Sent, record: Box<Record>) {
        if !self.outbox.has_waiting() {
            match self.try_send(&record) {
                Ok(Some(receipt)) => {
                    self.outbox.sent(sent, receipt);
                    self.spare.put(record);
                    return;
                }
                Ok(None) => {}
                Err(error) => return self.not_confirmed(sent, error.with_record(*record)),
            }
        }
        self.outbox.wait(sent, record);
        self.scheduler.hold_up(true);
    }

    #[inline]
    fn try_send(&self, record: &Record) -> Result<Option<ReceiptOf<B>>, PublishError> {
        match self.publisher {
            Some(publisher) => publisher.try_send_copy(record),
            None => Err(no_publisher(record)),
        }
    }

    /// Looks at what was confirmed.
    #[inline]
    pub(super) fn settle_confirmed(&mut self) {
        while let Some((sent, resolved)) = self.outbox.resolved() {
            match resolved {
                Ok(_) => self.confirmed(sent),
                Err(error) => self.not_confirmed(sent, error),
            }
        }
    }

    #[inline]
    fn confirmed(&mut self, sent: Sent) {
        match sent.role {
            Role::Reply => self.replied += 1,
            Role::DeadLetter => Counters::add(&self.counters.dead_lettered, 1),
            Role::Own => {}
        }
        self.done_with(sent);
    }

    /// A record does not hold its source any more.
    #[inline]
    fn done_with(&mut self, sent: Sent) {
        if let Some(turn) = self.outbox.confirm(sent) {
            self.scheduler.confirm(&turn);
            self.confirmed += 1;
        }
    }

    /// A record was refused, or not confirmed: it is sent again, or its source is dead-lettered, or the subscription stops.
    #[cold]
    fn not_confirmed(&mut self, sent: Sent, error: PublishError) {
        let Some(turn) = self.outbox.turn(sent) else {
            return;
        };
        let at = at(&self.partition, turn);
        let (name, attempt) = (self.name, sent.attempt);
        let random = self.jitter.hash_one((turn.ticket.offset, attempt));
        let wait = self
            .settings
            .retry
            .wait_after(attempt, random)
            .filter(|_| error.is_retriable() && error.record().is_some());
        if let Some(wait) = wait {
            tracing::warn!(subscription = name, at, attempt, ?wait, %error, "a record was not confirmed, it will be sent again");
            if self.drain_by.is_some() {
                return self.give_up(sent);
            }
            if let Some(record) = error.into_record() {
                let due = now() + wait;
                self.outbox.again(sent, Box::new(record), due);
                self.scheduler.hold_up(true);
            }
            return;
        }
        if sent.role != Role::DeadLetter && self.settings.dead_letter.is_some() {
            return self.dead_letter_unpublished(sent, turn, error);
        }
        self.give_up(sent);
        self.stop(unpublished_error(name, &at, attempt, sent.role, error));
    }

    fn give_up(&mut self, sent: Sent) {
        if self.outbox.give_up(sent) {
            self.scheduler.give_up();
        }
    }

    /// At the end of a drain: looks at every receipt once more, so that what is confirmed is settled.
    pub(super) fn confirm_late(&mut self) {
        self.outbox.sweep();
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

    /// Sends the record that waits first; pending when none does, or there is no room for it.
    fn poll_send_first(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Some(record) = self.outbox.first_waiting() else {
            return Poll::Pending;
        };
        let sent = match (&mut self.line, self.publisher) {
            (Some(line), _) => ready!(line.as_mut().poll(cx)),
            (None, None) => Err(no_publisher(record)),
            (None, Some(publisher)) => match publisher.try_send_copy(record) {
                Ok(Some(receipt)) => Ok(receipt),
                Err(error) => Err(error),
                // Their receipts wake this task, by the hundred; standing in line would cost an allocation each time.
                Ok(None) if self.outbox.has_under_way() => return Poll::Pending,
                Ok(None) => {
                    self.line = Some(Box::pin(publisher.send(record.clone())));
                    return Poll::Ready(()); // and now it is polled
                }
            },
        };
        self.line = None;
        let Some(Waiting { sent: named, record }) = self.outbox.take_waiting() else {
            unreachable!("it was the first a moment ago")
        };
        match sent {
            Ok(receipt) => {
                self.outbox.sent(named, receipt);
                self.spare.put(record);
            }
            Err(error) => self.not_confirmed(named, error.with_record(*record)),
        }
        Poll::Ready(())
    }
}

#[cold]
fn no_publisher(record: &Record) -> PublishError {
    let topic = record.topic();
    let message = format!(
        "a record for topic {topic} was not sent, the subscription has no publisher: call `requirements.reply()` in \
         `Handler::requires`"
    );
    PublishError::new(PublishErrorKind::Invalid, message)
}

#[cold]
fn limit_error(name: &str, at: &str, topic: &str, too_many: TooMany, message: &str) -> Error {
    let many = match too_many {
        TooMany::Consecutive(deliveries) => format!("{deliveries} deliveries one after another"),
        TooMany::Share(most, of) => format!("{most} of {of} deliveries"),
    };
    let text = format!(
        "subscription {name} stopped at {at}: {many} were dead-lettered to {topic}, which is the limit, and this one failed, \
         too ({message}); the record is not committed and comes again: fix the cause and restart, or raise the limit with \
         .dead_letter_limit(..)"
    );
    Error::new(ErrorKind::Stopped, text)
}

#[cold]
fn unpublished_error(name: &str, at: &str, attempts: u32, role: Role, error: PublishError) -> Error {
    let what = match role {
        Role::Reply => "its reply",
        Role::Own => "a record that its handler sent",
        Role::DeadLetter => "its dead letter",
    };
    let text = format!(
        "subscription {name} stopped at {at}: {what} was not confirmed in {attempts} attempts; the record is not committed \
         and comes again: fix the cause and restart"
    );
    Error::new(ErrorKind::Stopped, text).with_source(error)
}
