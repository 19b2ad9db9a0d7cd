//! A record on its way out.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use serde::Serialize;

use crate::{Error, ErrorKind};

/// A header's name and value.
type OwnedHeader = (Cow<'static, str>, Option<Vec<u8>>);

/// What a publisher sends: a topic, and what goes there.
///
/// Without a payload it is a tombstone, without [`key`](Self::key) its key is null.
///
/// ```
/// use ruststream::Record;
///
/// #[derive(serde::Serialize)]
/// struct Order {
///     id: u64,
/// }
///
/// let record = Record::json("orders", &Order { id: 7 })?.key("ada").header("trace", "a").null_header("trace");
/// assert_eq!(record.payload(), Some(&br#"{"id":7}"#[..]));
/// assert_eq!(record.key_bytes(), Some(&b"ada"[..]));
/// assert_eq!(record.headers().collect::<Vec<_>>(), [("trace", Some(&b"a"[..])), ("trace", None)]);
/// assert_eq!(Record::tombstone("orders").payload(), None);
/// # Ok::<(), ruststream::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a record does nothing until it is sent: `publisher.send(record).await`"]
pub struct Record {
    topic: Cow<'static, str>,
    partition: Option<i32>,
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: Vec<OwnedHeader>,
    timestamp: Option<SystemTime>,
}

impl Record {
    /// A record with these bytes as its payload. An empty payload is not a tombstone.
    pub fn new(topic: impl Into<Cow<'static, str>>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            payload: Some(payload.into()),
            ..Self::tombstone(topic)
        }
    }

    /// A record with `value` as JSON.
    ///
    /// # Errors
    ///
    /// The value cannot be JSON ([`ErrorKind::Encode`]): a map with keys that are not text, or its own `Serialize` failed.
    pub fn json(
        topic: impl Into<Cow<'static, str>>,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Self, Error> {
        let topic = topic.into();
        match serde_json::to_vec(value) {
            Ok(payload) => Ok(Self::new(topic, payload)),
            Err(error) => {
                let message = format!("a value for topic {topic} cannot be written as JSON");
                Err(Error::new(ErrorKind::Encode, message).with_source(error))
            }
        }
    }

    /// A record without payload: what deletes a key from a compacted topic.
    pub fn tombstone(topic: impl Into<Cow<'static, str>>) -> Self {
        Self {
            topic: topic.into(),
            partition: None,
            key: None,
            payload: None,
            headers: Vec::new(),
            timestamp: None,
        }
    }

    /// Sets the key, which decides the partition unless [`to_partition`](Self::to_partition) does.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header after those that are there; names may repeat.
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a header whose value is null, which is not the same as empty.
    pub fn null_header(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name.into(), None));
        self
    }

    /// Sets the timestamp instead of the time of sending. Brokers keep milliseconds since 1970.
    pub fn at(mut self, timestamp: SystemTime) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Sets the partition instead of having it chosen by the key.
    pub fn to_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Where it goes.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition, where it is explicit.
    pub fn partition(&self) -> Option<i32> {
        self.partition
    }

    /// The key; null and empty are different things.
    pub fn key_bytes(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// The payload; `None` is a tombstone.
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }

    /// The headers, in order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&str, Option<&[u8]>)> {
        self.headers
            .iter()
            .map(|(name, value)| (&**name, value.as_deref()))
    }

    /// The timestamp, where it is explicit.
    pub fn timestamp(&self) -> Option<SystemTime> {
        self.timestamp
    }

    /// Makes it a record for `topic` with nothing in it, and keeps its memory: a reply allocates nothing.
    #[inline]
    pub(crate) fn reuse(&mut self, topic: &str) {
        if self.topic != topic {
            self.topic = Cow::Owned(topic.to_owned());
        }
        self.partition = None;
        self.timestamp = None;
        self.headers.clear();
        if self
            .payload
            .as_ref()
            .is_some_and(|payload| payload.capacity() > KEPT)
        {
            self.payload = None;
        }
    }

    /// Sets the key, or none, into the memory of the one before.
    #[inline]
    pub(crate) fn copy_key(&mut self, key: Option<&[u8]>) {
        match (key, &mut self.key) {
            (Some(key), Some(own)) => {
                own.clear();
                own.extend_from_slice(key);
            }
            (Some(key), own) => *own = Some(key.to_vec()),
            (None, own) => *own = None,
        }
    }

    /// The payload, empty, in the memory of the one before.
    #[inline]
    pub(crate) fn payload_mut(&mut self) -> &mut Vec<u8> {
        let payload = self.payload.get_or_insert_default();
        payload.clear();
        payload
    }

    pub(crate) fn set_topic(&mut self, topic: Cow<'static, str>) {
        self.topic = topic;
    }

    pub(crate) fn set_payload(&mut self, payload: Option<Vec<u8>>) {
        self.payload = payload;
    }

    pub(crate) fn set_key(&mut self, key: Option<Vec<u8>>) {
        self.key = key;
    }

    pub(crate) fn set_partition(&mut self, partition: i32) {
        self.partition = Some(partition);
    }

    pub(crate) fn add_header(&mut self, name: Cow<'static, str>, value: Option<Vec<u8>>) {
        self.headers.push((name, value));
    }

    /// Takes it apart, for a broker that keeps its parts.
    pub(crate) fn into_parts(self) -> Parts {
        Parts {
            topic: self.topic.into_owned(),
            partition: self.partition,
            key: self.key,
            payload: self.payload,
            headers: self
                .headers
                .into_iter()
                .map(|(name, value)| (name.into_owned(), value))
                .collect(),
            timestamp: self.timestamp,
        }
    }
}

/// A record that is used again keeps a payload's memory up to this: 64 KiB hold any reply that is sent in numbers, and a
/// huge one now and then does not stay.
const KEPT: usize = 64 * 1024;

/// What a record is made of.
pub(crate) struct Parts {
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp: Option<SystemTime>,
}

/// Where it goes and how large it is, not what is in it: payloads may be secret.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("key_len", &self.key.as_ref().map(Vec::len))
            .field("payload_len", &self.payload.as_ref().map(Vec::len))
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn debug_shows_sizes_and_no_contents() {
        let record = Record::new("orders", "secret")
            .key("secret")
            .header("token", "secret");
        assert_eq!(
            format!("{record:?}"),
            "Record { topic: \"orders\", partition: None, key_len: Some(6), payload_len: Some(6), headers: 1, .. }"
        );
    }

    #[test]
    fn a_value_that_cannot_be_json_is_refused_with_its_topic() {
        let value = BTreeMap::from([(vec![1], 1)]);
        let error = Record::json("orders", &value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encode);
        assert_eq!(
            error.to_string(),
            "a value for topic orders cannot be written as JSON"
        );
    }

    #[test]
    fn an_empty_payload_is_not_a_tombstone() {
        assert_ne!(Record::new("orders", ""), Record::tombstone("orders"));
    }
}
