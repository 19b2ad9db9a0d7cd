//! What librdkafka's codes mean for a record, and what to do.

use rdkafka::types::RDKafkaErrorCode as E;
use ruststream::{PublishError, PublishErrorKind as Kind, Record};

use crate::native::Code;

/// Why a record failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) may_be_persisted: bool,
}

impl Failure {
    /// Of a record that was not even enqueued.
    pub(super) fn refused(code: Code) -> Self {
        Self {
            code,
            may_be_persisted: false,
        }
    }

    /// The error, with the record.
    pub(crate) fn of(self, record: Record) -> PublishError {
        let error = self.without_record(&record);
        error.with_record(record)
    }

    pub(super) fn without_record(self, record: &Record) -> PublishError {
        let (kind, remedy) = meaning(self.code);
        let topic = record.topic();
        let mut message = format!("a record for topic {topic} was not confirmed: {}", self.code);
        if !remedy.is_empty() {
            message.push_str(": ");
            message.push_str(remedy);
        }
        let error = PublishError::new(kind, message);
        if self.may_be_persisted {
            error.possibly_persisted()
        } else {
            error
        }
    }
}

fn meaning(code: Code) -> (Kind, &'static str) {
    match code.known() {
        Some(E::MessageTimedOut | E::TimedOutQueue | E::RequestTimedOut) => (
            Kind::TimedOut,
            "check that the cluster can be reached, or raise `message.timeout.ms`",
        ),
        Some(E::UnknownTopic | E::UnknownTopicOrPartition) => (
            Kind::UnknownTopic,
            "create the topic, or call `KafkaBroker::create_topic` before",
        ),
        Some(E::UnknownPartition) => (
            Kind::UnknownPartition,
            "the topic has fewer partitions: leave the partition to the key, or add partitions",
        ),
        Some(E::MessageSizeTooLarge | E::InvalidMessageSize | E::MessageBatchTooLarge) => (
            Kind::TooLarge,
            "raise `message.max.bytes` of the publisher and `max.message.bytes` of the topic (a whole batch counts: or lower \
             `batch.size`), or send less",
        ),
        Some(
            E::TopicAuthorizationFailed
            | E::ClusterAuthorizationFailed
            | E::TransactionalIdAuthorizationFailed,
        ) => (
            Kind::Unauthorized,
            "grant this user `Write` on the topic, and `IdempotentWrite` on the cluster",
        ),
        Some(E::Fenced | E::InvalidProducerEpoch) => (Kind::Fenced, CANNOT_SEND),
        Some(E::Fatal) => (Kind::Fatal, CANNOT_SEND),
        Some(E::PurgeQueue | E::PurgeInflight | E::BrokerDestroy | E::DestroyBroker) => (
            Kind::Closed,
            "the publisher was closed before: flush it with a later deadline",
        ),
        Some(E::InvalidTopic | E::InvalidTimestamp | E::InvalidRecord | E::PolicyViolation) => {
            (Kind::Invalid, "")
        }
        _ => (Kind::Broker, ""),
    }
}

const CANNOT_SEND: &str = "this publisher cannot send any more: make another one";

/// The client has failed for good.
pub(super) fn fatal(record: &Record, reason: &str) -> PublishError {
    let topic = record.topic();
    let message = format!("a record for topic {topic} was refused: {reason}: {CANNOT_SEND}");
    PublishError::new(Kind::Fatal, message)
}

/// What makes a record impossible before any broker is asked.
pub(super) fn invalid(record: &Record, reason: &str) -> PublishError {
    let topic = record.topic();
    PublishError::new(
        Kind::Invalid,
        format!("a record for topic {topic:?} was refused: {reason}"),
    )
}

pub(super) fn closed(record: &Record) -> PublishError {
    let topic = record.topic();
    let message =
        format!("a record for topic {topic} was refused: the publisher was closed: make another one");
    PublishError::new(Kind::Closed, message)
}

pub(super) fn full(record: &Record, bound: usize) -> PublishError {
    let topic = record.topic();
    let message = format!(
        "a record for topic {topic} was not sent: {bound} records are unconfirmed, or others wait: await `send`"
    );
    PublishError::new(Kind::Full, message)
}

/// The client's queue is full although nothing is under way.
pub(super) fn never_fits(record: &Record) -> PublishError {
    let topic = record.topic();
    let message = format!(
        "a record for topic {topic} was refused: it is larger than the publisher's whole queue: raise \
         `queue.buffering.max.kbytes`, or send less"
    );
    PublishError::new(Kind::TooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: i32) -> PublishError {
        Failure::refused(Code::from_number(number)).of(Record::new("orders", "{}"))
    }

    #[test]
    fn codes_become_kinds() {
        let kinds =
            [-192, 3, -188, -190, 10, 29, 31, -150, 47, -152, -151, 44, 1].map(|code| of(code).kind());
        assert_eq!(
            kinds,
            [
                Kind::TimedOut,
                Kind::UnknownTopic,
                Kind::UnknownTopic,
                Kind::UnknownPartition,
                Kind::TooLarge,
                Kind::Unauthorized,
                Kind::Unauthorized,
                Kind::Fatal,
                Kind::Fenced,
                Kind::Closed,
                Kind::Closed,
                Kind::Invalid,
                Kind::Broker,
            ]
        );
    }

    #[test]
    fn the_text_names_the_topic_the_reason_and_the_remedy() {
        assert_eq!(
            of(3).to_string(),
            "a record for topic orders was not confirmed: Broker: Unknown topic or partition: create the topic, or call \
             `KafkaBroker::create_topic` before"
        );
        assert_eq!(of(3).into_record(), Some(Record::new("orders", "{}")));
    }
}
