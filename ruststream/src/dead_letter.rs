//! The wire format of dead letters.
//!
//! A dead letter is the delivery as it came: raw key, raw payload (a tombstone stays one), all headers in order, and the
//! timestamp. After them stand the headers below, which say where it came from and why it is here. Every value is UTF-8
//! text; numbers are decimal, times are milliseconds since 1970. A record that is dead-lettered twice has them twice: the
//! last ones are the newest, and are what [`Origin::of`] reads.
//!
//! | header | value |
//! |---|---|
//! | `ruststream.dlq.topic` | the topic it came from |
//! | `ruststream.dlq.partition` | the partition it came from |
//! | `ruststream.dlq.offset` | its offset there |
//! | `ruststream.dlq.timestamp` | its timestamp there; missing when it had none |
//! | `ruststream.dlq.group` | the consumer group |
//! | `ruststream.dlq.subscription` | the subscription's name |
//! | `ruststream.dlq.attempts` | how often the handler was called |
//! | `ruststream.dlq.error.kind` | `transient`, `permanent`, `undecodable`, `panic`, `timed-out`, `requested` (the handler returned `Outcome::DeadLetter`), `exhausted` (it asked for one more retry than there are) or `unpublished` (its reply was not confirmed) |
//! | `ruststream.dlq.error.message` | the error with its sources, at most 4,096 bytes |
//! | `ruststream.dlq.time` | when it was dead-lettered |
//!
//! The names and encodings are stable: they change with a major version only.

use std::error::Error as StdError;
use std::time::SystemTime;

use crate::broker::Delivery;
use crate::{Headers, Record};

/// The topic it came from.
pub const TOPIC: &str = "ruststream.dlq.topic";
/// The partition it came from.
pub const PARTITION: &str = "ruststream.dlq.partition";
/// Its offset there.
pub const OFFSET: &str = "ruststream.dlq.offset";
/// Its timestamp there, in milliseconds since 1970.
pub const TIMESTAMP: &str = "ruststream.dlq.timestamp";
/// The consumer group.
pub const GROUP: &str = "ruststream.dlq.group";
/// The subscription's name.
pub const SUBSCRIPTION: &str = "ruststream.dlq.subscription";
/// How often the handler was called.
pub const ATTEMPTS: &str = "ruststream.dlq.attempts";
/// Which kind of error it was.
pub const ERROR_KIND: &str = "ruststream.dlq.error.kind";
/// The error with its sources.
pub const ERROR_MESSAGE: &str = "ruststream.dlq.error.message";
/// When it was dead-lettered, in milliseconds since 1970.
pub const TIME: &str = "ruststream.dlq.time";

/// Where a dead letter came from and why, read from its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin<'m> {
    /// The topic it came from.
    pub topic: &'m str,
    /// The partition it came from.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// The consumer group.
    pub group: &'m str,
    /// The subscription's name.
    pub subscription: &'m str,
    /// How often the handler was called.
    pub attempts: u32,
    /// Which kind of error it was.
    pub error_kind: &'m str,
    /// The error with its sources.
    pub error_message: &'m str,
}

impl<'m> Origin<'m> {
    /// Reads the newest origin from the headers of a dead letter; `None` when they are not of one.
    pub fn of(headers: &Headers<'m>) -> Option<Self> {
        let text = |name| std::str::from_utf8(headers.all(name).last()??).ok();
        Some(Self {
            topic: text(TOPIC)?,
            partition: text(PARTITION)?.parse().ok()?,
            offset: text(OFFSET)?.parse().ok()?,
            group: text(GROUP)?,
            subscription: text(SUBSCRIPTION)?,
            attempts: text(ATTEMPTS)?.parse().ok()?,
            error_kind: text(ERROR_KIND)?,
            error_message: text(ERROR_MESSAGE)?,
        })
    }
}

/// Why a delivery is dead-lettered.
#[derive(Debug)]
pub(crate) struct Why {
    pub(crate) group: String,
    pub(crate) subscription: String,
    pub(crate) attempts: u32,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

/// The copy of `delivery` for the dead-letter topic.
#[cold]
pub(crate) fn copy<D: Delivery>(delivery: &D, topic: &str, why: Why) -> Record {
    let mut record = Record::tombstone(topic.to_owned());
    record.set_payload(delivery.payload().map(<[u8]>::to_vec));
    record.set_key(delivery.key().map(<[u8]>::to_vec));
    for (name, value) in delivery.headers().iter() {
        record.add_header(name.to_owned().into(), value.map(<[u8]>::to_vec));
    }
    // Before 1970 there is no timestamp that a producer could send.
    let timestamp = delivery.timestamp().filter(|timestamp| millis(*timestamp) > 0);
    if let Some(timestamp) = timestamp {
        record = record.at(timestamp);
    }
    let timestamp = timestamp.map(|timestamp| millis(timestamp).to_string());
    let Why {
        group,
        subscription,
        attempts,
        kind,
        message,
    } = why;
    let values = [
        (TOPIC, Some(delivery.topic().to_owned())),
        (PARTITION, Some(delivery.partition().to_string())),
        (OFFSET, Some(delivery.offset().to_string())),
        (TIMESTAMP, timestamp),
        (GROUP, Some(group)),
        (SUBSCRIPTION, Some(subscription)),
        (ATTEMPTS, Some(attempts.to_string())),
        (ERROR_KIND, Some(kind.to_owned())),
        (ERROR_MESSAGE, Some(shortened(message))),
        (TIME, Some(millis(SystemTime::now()).to_string())),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            record.add_header(name.into(), Some(value.into_bytes()));
        }
    }
    record
}

fn millis(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis())
}

/// An error may quote the payload that it is about; the copy must not become too large for its topic by that.
const LONGEST: usize = 4_096;

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
    }
    text
}

/// An error with its sources, in one line.
pub(crate) fn with_sources(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let text = shortened("\u{20ac}".repeat(2_000));
        assert_eq!(text.len(), 4_095);
        assert!(text.chars().all(|c| c == '\u{20ac}'));
    }

    #[test]
    fn an_error_is_told_with_its_sources() {
        let error = crate::Error::new(crate::ErrorKind::Broker, "a record was not published")
            .with_source(std::io::Error::other("no route"));
        assert_eq!(with_sources(&error), "a record was not published: no route");
    }
}
