//! The records of a topic, and which partition a record goes to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use super::delivery::{Entry, MemoryDelivery};
use super::record::MemoryRecord;
use super::state::TopicPartition;
use crate::broker::Delivery as _;
use crate::{Error, ErrorKind};

#[derive(Debug)]
pub(super) struct Topic {
    name: Arc<str>,
    logs: Vec<Log>,
    published: u64,
    next_round_robin: usize,
}

/// What a group has to know of a topic.
#[derive(Debug)]
pub(super) struct TopicShape {
    pub(super) topic: Arc<str>,
    pub(super) partitions: i32,
}

#[derive(Debug, Default)]
struct Log {
    records: Vec<MemoryDelivery>,
    next_offset: i64,
}

impl Topic {
    pub(super) fn new(name: Arc<str>, partitions: i32) -> Self {
        let logs = (0..partitions).map(|_| Log::default()).collect();
        Self {
            name,
            logs,
            published: 0,
            next_round_robin: 0,
        }
    }

    pub(super) fn shape(&self) -> TopicShape {
        TopicShape {
            topic: self.name.clone(),
            partitions: self.partitions(),
        }
    }

    pub(super) fn partitions(&self) -> i32 {
        self.logs.len() as i32
    }

    /// Appends `record` to the partition it names, or that its key decides.
    pub(super) fn append(&mut self, record: MemoryRecord) -> Result<(TopicPartition, i64), Error> {
        let partition = record
            .partition
            .unwrap_or_else(|| self.place(record.key.as_deref()));
        let at = TopicPartition::new(&self.name, partition);
        let sequence = self.published;
        let log = self.log_mut(partition)?;
        let offset = log.next_offset;
        log.next_offset += 1;
        log.records.push(MemoryDelivery::new(Entry {
            at: at.clone(),
            offset,
            sequence,
            key: record.key,
            payload: record.payload,
            headers: record.headers,
            timestamp: record.timestamp.unwrap_or_else(SystemTime::now),
        }));
        self.published += 1;
        Ok((at, offset))
    }

    /// Leaves `count` offsets out.
    pub(super) fn skip(&mut self, partition: i32, count: i64) -> Result<(), Error> {
        self.log_mut(partition)?.next_offset += count;
        Ok(())
    }

    /// Appends up to `max` records from `position` on to `batch`; `None` when there are none, else where to go on.
    pub(super) fn read(
        &self,
        partition: i32,
        position: i64,
        max: usize,
        batch: &mut VecDeque<MemoryDelivery>,
    ) -> Option<i64> {
        let records = &self.logs.get(usize::try_from(partition).ok()?)?.records;
        let start = records.partition_point(|record| record.offset() < position);
        let mut last = None;
        for record in records.iter().skip(start).take(max) {
            last = Some(record.offset());
            batch.push_back(record.clone());
        }
        last.map(|offset| offset + 1)
    }

    /// Every record, in the order of publishing.
    pub(super) fn records(&self) -> Vec<MemoryDelivery> {
        let mut records: Vec<_> = self
            .logs
            .iter()
            .flat_map(|log| log.records.iter().cloned())
            .collect();
        records.sort_by_key(MemoryDelivery::sequence);
        records
    }

    fn log_mut(&mut self, partition: i32) -> Result<&mut Log, Error> {
        let partitions = self.logs.len();
        let log = usize::try_from(partition)
            .ok()
            .and_then(|index| self.logs.get_mut(index));
        log.ok_or_else(|| {
            let text = format!(
                "topic {} has no partition {partition}, only {partitions}",
                self.name
            );
            Error::new(ErrorKind::Broker, text)
        })
    }

    fn place(&mut self, key: Option<&[u8]>) -> i32 {
        let partitions = self.logs.len();
        let Some(key) = key else {
            let next = self.next_round_robin;
            self.next_round_robin = (next + 1) % partitions;
            return next as i32;
        };
        (fnv1a(key) as usize % partitions) as i32
    }
}

/// FNV-1a, 32 bits: short, and the same on every machine and in every version.
fn fnv1a(key: &[u8]) -> u32 {
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    key.iter().fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(PRIME)
    })
}
