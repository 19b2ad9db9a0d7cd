//! What is said to people when a delivery or a record fails.

use crate::broker::Partition;
use crate::settlement::{Reason, Role, TooMany, Turn};
use crate::{BoxError, Error, ErrorKind, FailureKind, PublishError, PublishErrorKind, Record};

/// Names a delivery for people.
#[cold]
pub(super) fn at(partition: &impl Partition, turn: Turn) -> String {
    let (topic, index, offset) = (partition.topic(), partition.index(), turn.ticket.offset);
    format!("{topic}/{index} offset {offset}")
}

#[cold]
pub(super) fn stop_error(name: &str, at: &str, attempt: u32, reason: Reason) -> Error {
    let why = match &reason {
        Reason::Stop => "its handler asked for it".to_owned(),
        Reason::DeadLetter => "its handler asked for a dead letter, and there is no topic for it (add \
                               .dead_letter(\"topic\"))"
            .to_owned(),
        Reason::Exhausted => format!("its handler asked for a retry and all {attempt} attempts are spent"),
        Reason::Unpublished(_) => "a record that was sent for it was not confirmed".to_owned(),
        Reason::Failed(failure) => match failure.kind() {
            FailureKind::Panic => "its handler panicked".to_owned(),
            FailureKind::Undecodable => "the delivery could not be decoded".to_owned(),
            FailureKind::Permanent => "its handler failed for good".to_owned(),
            FailureKind::Transient if attempt == 1 => "its handler failed, and is not tried again".to_owned(),
            FailureKind::TimedOut => format!("its handler did not end in time, in {attempt} attempts"),
            FailureKind::Transient => format!("its handler failed {attempt} times"),
        },
    };
    let error = Error::new(
        ErrorKind::Stopped,
        format!(
            "subscription {name} stopped at {at}: {why}; the record is not committed and comes again: \
             fix the cause and restart, or return Outcome::Skip for it"
        ),
    );
    match reason {
        Reason::Failed(failure) => error.with_source(failure.into_error()),
        Reason::Unpublished(source) => error.with_source(source),
        Reason::Stop | Reason::DeadLetter | Reason::Exhausted => error,
    }
}

impl Reason {
    pub(super) fn into_source(self) -> BoxError {
        match self {
            Self::Failed(failure) => failure.into_error(),
            Self::Unpublished(error) => error.into(),
            Self::Stop | Self::DeadLetter | Self::Exhausted => "the handler asked for it".into(),
        }
    }
}

#[cold]
pub(super) fn no_publisher(record: &Record) -> PublishError {
    let topic = record.topic();
    let message = format!(
        "a record for topic {topic} was not sent, the subscription has no publisher: call `requirements.reply()` in \
         `Handler::requires`"
    );
    PublishError::new(PublishErrorKind::Invalid, message)
}

#[cold]
pub(super) fn limit_error(name: &str, at: &str, topic: &str, too_many: TooMany, message: &str) -> Error {
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
pub(super) fn unpublished_error(
    name: &str,
    at: &str,
    attempts: u32,
    role: Role,
    error: PublishError,
) -> Error {
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
