//! Errors that arrive in place of records: which of them waiting can heal.

use rdkafka::types::RDKafkaErrorCode as E;

use crate::native::Code;

/// What an error of a partition means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Waiting will not help; the text is the remedy.
    Permanent(&'static str),
    /// What is stored at the offset cannot be read. It may have been damaged on its way: worth another try.
    Damaged,
    /// librdkafka goes on by itself.
    Transient,
}

/// The remedy for damaged records that stay damaged.
pub(super) const DAMAGED: &str =
    "the records there are damaged: restore them from a replica, or move the group's position past them";

pub(super) fn classify(code: Code) -> Fault {
    match code.known() {
        Some(E::UnknownTopic | E::UnknownTopicOrPartition | E::UnknownPartition) => {
            Fault::Permanent("it does not exist any more: create the topic again, or stop consuming it")
        }
        Some(E::TopicAuthorizationFailed) => Fault::Permanent("grant this user `Read` on the topic"),
        Some(E::GroupAuthorizationFailed) => Fault::Permanent("grant this user `Read` on the group"),
        Some(E::AutoOffsetReset) => Fault::Permanent(
            "the group's position is out of range, so records are gone, and `auto.offset.reset=error` says to stop: \
             move the group's position, or set `earliest` or `latest`",
        ),
        Some(E::MessageSizeTooLarge) => {
            Fault::Permanent("raise `receive.message.max.bytes` above the size of the record")
        }
        Some(E::BadCompression | E::NotImplemented | E::UnsupportedCompressionType) => Fault::Permanent(
            "the records there use a compression or format that this build cannot read: enable it in the features of \
             the `rdkafka` crate",
        ),
        Some(E::BadMessage | E::InvalidMessage | E::Underflow) => Fault::Damaged,
        _ => Fault::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_person_can_heal_is_permanent_and_the_rest_is_not() {
        // Numbers of Kafka's protocol, and librdkafka's negative ones.
        let of = |number| classify(Code::from_number(number));
        assert!(matches!(of(29), Fault::Permanent(remedy) if remedy.contains("Read")));
        assert!(matches!(of(3), Fault::Permanent(_)));
        assert!(matches!(of(-140), Fault::Permanent(remedy) if remedy.contains("auto.offset.reset")));
        assert_eq!(of(-199), Fault::Damaged);
        assert_eq!(of(-1), Fault::Transient);
        assert_eq!(of(-195), Fault::Transient);
        assert_eq!(of(31_999), Fault::Transient); // a code that no enum lists
    }
}
