//! One record of the log, as a group gets it.

use std::sync::Arc;
use std::time::SystemTime;

use super::record::OwnedHeader;
use super::state::TopicPartition;
use crate::Headers;
use crate::broker::Delivery;

/// A record with its position, shared with the log: cloning copies nothing.
#[derive(Debug, Clone)]
pub struct MemoryDelivery {
    entry: Arc<Entry>,
}

/// What the log keeps of a record.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) at: TopicPartition,
    pub(super) offset: i64,
    /// Counts the records of the topic, over its partitions: the order in which they were published.
    pub(super) sequence: u64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) headers: Vec<OwnedHeader>,
    pub(super) timestamp: SystemTime,
}

impl MemoryDelivery {
    pub(super) fn new(entry: Entry) -> Self {
        Self {
            entry: Arc::new(entry),
        }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.entry.sequence
    }
}

impl Delivery for MemoryDelivery {
    fn topic(&self) -> &str {
        &self.entry.at.topic
    }

    fn partition(&self) -> i32 {
        self.entry.at.partition
    }

    fn offset(&self) -> i64 {
        self.entry.offset
    }

    fn key(&self) -> Option<&[u8]> {
        self.entry.key.as_deref()
    }

    fn payload(&self) -> Option<&[u8]> {
        self.entry.payload.as_deref()
    }

    fn timestamp(&self) -> Option<SystemTime> {
        Some(self.entry.timestamp)
    }

    fn headers(&self) -> Headers<'_> {
        self.entry
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect()
    }
}
