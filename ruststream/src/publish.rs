//! What became of a record that was sent.

use std::fmt;
use std::time::SystemTime;

use crate::{Error, ErrorKind, Record};

/// Where a record is, confirmed by the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Confirmed {
    /// The partition's number in its topic.
    pub partition: i32,
    /// The position in the partition; -1 where the broker did not say (it was asked for no acknowledgement, or it had the
    /// record already when the client sent it again).
    pub offset: i64,
    /// The record's timestamp, where the client has one.
    pub timestamp: Option<SystemTime>,
}

impl Confirmed {
    /// A confirmation of `offset` in `partition`.
    pub fn new(partition: i32, offset: i64, timestamp: Option<SystemTime>) -> Self {
        Self {
            partition,
            offset,
            timestamp,
        }
    }
}

/// A record that was not confirmed: why, whether it may be in the topic all the same, and the record itself.
///
/// ```
/// use ruststream::{PublishError, PublishErrorKind, Record};
///
/// let error = PublishError::new(PublishErrorKind::TimedOut, "a record for topic orders was not confirmed in time")
///     .possibly_persisted()
///     .with_record(Record::new("orders", "{}"));
/// assert_eq!(error.kind(), PublishErrorKind::TimedOut);
/// assert!(error.may_be_persisted());
/// let again = error.into_record();
/// assert_eq!(again, Some(Record::new("orders", "{}")));
/// ```
pub struct PublishError {
    // One pointer: results that carry it are small.
    inner: Box<Inner>,
}

struct Inner {
    kind: PublishErrorKind,
    message: String,
    may_be_persisted: bool,
    record: Option<Record>,
}

/// Why a record was not confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PublishErrorKind {
    /// There is no room now; only [`try_send`](crate::broker::Publisher::try_send) says so.
    Full,
    /// The publisher was closed, or its client is gone.
    Closed,
    /// The broker did not confirm it within the publisher's time limit.
    TimedOut,
    /// The topic does not exist.
    UnknownTopic,
    /// The topic has no such partition.
    UnknownPartition,
    /// It is larger than the client or the broker allows.
    TooLarge,
    /// This user may not write to the topic.
    Unauthorized,
    /// Another producer took this one's place: make another one.
    Fenced,
    /// The client failed in a way that would break its promises if it went on; it cannot send any more.
    Fatal,
    /// It cannot be a record: an impossible topic, header name, partition or timestamp.
    Invalid,
    /// Anything else that the broker or its client reported; the text says what.
    Broker,
}

impl PublishError {
    /// An error with a text of the form "what failed, on what, what to do"; the record is known not to be in the topic.
    pub fn new(kind: PublishErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                may_be_persisted: false,
                record: None,
            }),
        }
    }

    /// Whether sending the record again may help.
    pub(crate) fn is_retriable(&self) -> bool {
        use PublishErrorKind as Kind;
        match self.inner.kind {
            Kind::Full | Kind::TimedOut | Kind::UnknownTopic | Kind::Unauthorized | Kind::Broker => true,
            Kind::Closed
            | Kind::UnknownPartition
            | Kind::TooLarge
            | Kind::Fenced
            | Kind::Fatal
            | Kind::Invalid => false,
        }
    }

    /// Notes that the record may be in the topic all the same.
    #[must_use]
    pub fn possibly_persisted(mut self) -> Self {
        self.inner.may_be_persisted = true;
        self
    }

    /// Hands the record back with the error.
    #[must_use]
    pub fn with_record(mut self, record: Record) -> Self {
        self.inner.record = Some(record);
        self
    }

    /// Why.
    pub fn kind(&self) -> PublishErrorKind {
        self.inner.kind
    }

    /// Whether the record may be in the topic all the same: sending it again may then make a duplicate.
    pub fn may_be_persisted(&self) -> bool {
        self.inner.may_be_persisted
    }

    /// The record. `None` only when the client ended without giving it back.
    pub fn record(&self) -> Option<&Record> {
        self.inner.record.as_ref()
    }

    /// Takes the record, to send it again or to keep it.
    pub fn into_record(self) -> Option<Record> {
        self.inner.record
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)?;
        if self.inner.may_be_persisted {
            f.write_str("; it may have been written all the same")?;
        }
        Ok(())
    }
}

/// The same text as `Display`: what `unwrap` and `main` print.
impl fmt::Debug for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.inner.kind)
    }
}

impl std::error::Error for PublishError {}

/// [`ErrorKind::Broker`], with this as its source: for `main`, which returns an [`Error`].
impl From<PublishError> for Error {
    fn from(error: PublishError) -> Self {
        Self::new(ErrorKind::Broker, "a record was not published").with_source(error)
    }
}

/// What [`send_all`](crate::broker::Publisher::send_all) says when a record was not confirmed.
#[derive(Debug)]
#[non_exhaustive]
pub struct SendAllError {
    /// How many records were confirmed.
    pub confirmed: u64,
    /// Those that were not, in the order in which they were sent; at least one.
    pub failed: Vec<PublishError>,
}

impl fmt::Display for SendAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, confirmed) = (self.failed.len(), self.confirmed);
        write!(
            f,
            "{failed} records were not confirmed, after {confirmed} that were"
        )
    }
}

impl std::error::Error for SendAllError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failed.first().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_when_a_record_may_be_there_all_the_same() {
        let error = PublishError::new(PublishErrorKind::TimedOut, "no answer").possibly_persisted();
        assert_eq!(
            error.to_string(),
            "no answer; it may have been written all the same"
        );
    }

    #[test]
    fn an_error_is_one_pointer() {
        assert_eq!(size_of::<PublishError>(), size_of::<usize>());
    }
}
