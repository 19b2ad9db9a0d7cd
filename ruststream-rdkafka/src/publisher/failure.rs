//! What librdkafka's codes mean for a record, and what to do.

use rdkafka::types::RDKafkaErrorCode as E;
use ruststream::{PublishError, PublishErrorKind as Kind, Record};

use crate::native::Code;

/// Why a record failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    code: Code,
    may_be_persisted: bool,
    /// What the code leaves open.
    detail: Option<String>,
    /// The client cannot send any more.
    for_good: bool,
}

impl Failure {
    /// Of a record that was not even enqueued.
    pub(super) fn refused(code: Code) -> Self {
        Self::reported(code, false, None)
    }

    /// Of a record whose result has arrived; `detail` are the broker's own words, where it has any.
    pub(crate) fn reported(code: Code, may_be_persisted: bool, detail: Option<String>) -> Self {
        // When a batch has one invalid record, librdkafka 2.12 gives its code to interceptors for all of them.
        let other = detail
            .as_ref()
            .is_some_and(|detail| detail.starts_with(BESIDE_INVALID));
        let (code, detail) = if other {
            (Code::OTHER_INVALID, None)
        } else {
            (code, detail)
        };
        Self {
            code,
            may_be_persisted,
            detail,
            for_good: false,
        }
    }

    /// Of a record that was refused, or given up, because the client has failed for good.
    pub(crate) fn of_client(code: Code, reason: String, may_be_persisted: bool) -> Self {
        Self {
            for_good: true,
            ..Self::reported(code, may_be_persisted, Some(reason))
        }
    }

    /// The error, with the record.
    pub(crate) fn of(&self, record: Record) -> PublishError {
        let error = self.without_record(&record);
        error.with_record(record)
    }

    pub(super) fn without_record(&self, record: &Record) -> PublishError {
        let (kind, remedy) = meaning(self.code);
        let (kind, remedies) = match kind {
            kind if !self.for_good => (kind, ["", remedy]),
            Kind::Unauthorized => (kind, [remedy, CANNOT_SEND]),
            Kind::Fenced => (kind, ["", CANNOT_SEND]),
            _ => (Kind::Fatal, ["", CANNOT_SEND]),
        };
        let topic = record.topic();
        let mut message = format!("a record for topic {topic} was not confirmed: {}", self.code);
        let detail = self.detail.iter().map(|detail| detail.trim_end_matches('.'));
        for part in detail.chain(remedies).filter(|part| !part.is_empty()) {
            message.push_str(": ");
            message.push_str(part);
        }
        let error = PublishError::new(kind, message);
        if self.may_be_persisted {
            error.possibly_persisted()
        } else {
            error
        }
    }
}

/// What librdkafka says of the valid records of a batch that has an invalid one.
const BESIDE_INVALID: &str = "Failed to append record because it was part of a batch";

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
        Some(E::Fenced | E::InvalidProducerEpoch | E::ProducerFenced) => (
            Kind::Fenced,
            "another producer took this publisher's place: make another one",
        ),
        Some(E::Fatal) => (Kind::Fatal, CANNOT_SEND),
        Some(E::PurgeQueue | E::PurgeInflight | E::BrokerDestroy | E::DestroyBroker) => (
            Kind::Closed,
            "the publisher was closed before: flush it with a later deadline",
        ),
        Some(E::InvalidTopic | E::InvalidTimestamp | E::InvalidRecord | E::PolicyViolation) => {
            (Kind::Invalid, "change the record, or the settings of the topic")
        }
        Some(E::InvalidDifferentRecord) => (Kind::Broker, "this one is valid: send it again"),
        _ => (Kind::Broker, ""),
    }
}

const CANNOT_SEND: &str = "this publisher cannot send any more: make another one";

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
        let kinds = [
            -192, 3, -188, -190, 10, 29, 31, -150, 47, 90, -144, -152, -151, 44, -138, 1,
        ]
        .map(|code| of(code).kind());
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
                Kind::Fenced,
                Kind::Fenced,
                Kind::Closed,
                Kind::Closed,
                Kind::Invalid,
                Kind::Broker,
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

    #[test]
    fn a_client_that_failed_for_good_keeps_the_cause_that_has_a_kind() {
        let of_client = |number| {
            let failure = Failure::of_client(Code::from_number(number), "no id".to_owned(), false);
            let error = failure.of(Record::new("orders", "{}"));
            (error.kind(), error.to_string())
        };
        let (kind, text) = of_client(31);
        assert_eq!(kind, Kind::Unauthorized);
        assert_eq!(
            text,
            "a record for topic orders was not confirmed: Broker: Cluster authorization failed: no id: grant this user \
             `Write` on the topic, and `IdempotentWrite` on the cluster: this publisher cannot send any more: make another one"
        );
        let kinds = [-144, 45, -152].map(|number| of_client(number).0);
        assert_eq!(kinds, [Kind::Fenced, Kind::Fatal, Kind::Fatal]);
    }

    #[test]
    fn a_valid_record_beside_an_invalid_one_is_not_called_invalid() {
        let code = Code::from_number(87);
        let reported = |detail: &str| {
            let failure = Failure::reported(code, false, Some(detail.to_owned()));
            let error = failure.of(Record::new("orders", "{}"));
            (error.kind(), error.to_string())
        };
        let (kind, text) = reported("No key.");
        assert_eq!(kind, Kind::Invalid);
        assert!(
            text.ends_with(
                "failed to validate record: No key: change the record, or the settings of the topic"
            ),
            "{text}"
        );
        let (kind, text) = reported(
            "Failed to append record because it was part of a batch which had one more more invalid records",
        );
        assert_eq!(kind, Kind::Broker);
        assert!(text.ends_with("this one is valid: send it again"), "{text}");
    }
}
