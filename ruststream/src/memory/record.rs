//! What a test publishes.

use std::time::SystemTime;

use crate::Record;
use crate::record::Parts;

/// A header's name and value.
pub(super) type OwnedHeader = (String, Option<Vec<u8>>);

/// A record on its way into a [`MemoryBroker`](super::MemoryBroker).
///
/// Without [`payload`](Self::payload) it is a tombstone, without [`key`](Self::key) its key is null.
///
/// ```
/// use ruststream::broker::Delivery;
/// use ruststream::memory::{MemoryBroker, MemoryRecord};
///
/// let broker = MemoryBroker::new().auto_create(1);
/// broker.publish(MemoryRecord::new("orders").key("ada").header("trace", "a").null_header("trace"))?;
/// let records = broker.records("orders");
/// assert_eq!(records[0].key(), Some(&b"ada"[..]));
/// assert_eq!(records[0].payload(), None);
/// assert_eq!(records[0].headers().all("trace").collect::<Vec<_>>(), [Some(&b"a"[..]), None]);
/// # Ok::<(), ruststream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a record does nothing until it is published with `MemoryBroker::publish`"]
pub struct MemoryRecord {
    pub(super) topic: String,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) headers: Vec<OwnedHeader>,
    pub(super) timestamp: Option<SystemTime>,
}

impl MemoryRecord {
    /// A record for `topic`: key and payload null, no headers, stamped when it is published.
    pub fn new(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            partition: None,
            key: None,
            payload: None,
            headers: Vec::new(),
            timestamp: None,
        }
    }

    /// Sets the key, which decides the partition unless [`partition`](Self::partition) does.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the payload; an empty one is not a tombstone.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Adds a header after those that are there; names may repeat.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a header whose value is null.
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.headers.push((name.into(), None));
        self
    }

    /// Sets the timestamp instead of the time of publishing.
    pub fn timestamp(mut self, timestamp: SystemTime) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Sets the partition instead of having it chosen by the key.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }
}

impl From<Record> for MemoryRecord {
    fn from(record: Record) -> Self {
        let Parts {
            topic,
            partition,
            key,
            payload,
            headers,
            timestamp,
        } = record.into_parts();
        Self {
            topic,
            partition,
            key,
            payload,
            headers,
            timestamp,
        }
    }
}
