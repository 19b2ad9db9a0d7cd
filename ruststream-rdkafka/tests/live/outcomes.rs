//! What became of records: their replies or dead letters, read by a client of our own, beside the committed positions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _, OwnedMessage};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use ruststream::Headers;
use ruststream::dead_letter::Origin;

use crate::support::*;

/// How many partitions the topics have.
pub(crate) const PARTITIONS: i32 = 4;

/// Where a record came from: its partition and offset.
pub(crate) type Source = (i32, i64);

/// Where replies to the records of `topic`, or their dead letters, go.
pub(crate) fn out(topic: &str) -> String {
    format!("{topic}-out")
}

/// All records of a partition, read by a client of our own.
fn read(bootstrap: &str, topic: &str, partition: i32) -> Vec<OwnedMessage> {
    let end = end_of(bootstrap, topic, partition);
    blocking(|| {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "reader")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
        consumer.assign(&list).unwrap();
        let next = || consumer.poll(SOON).expect("a record in time").unwrap();
        (0..end).map(|_| BorrowedMessage::detach(&next())).collect()
    })
}

pub(crate) fn answered(reply: &OwnedMessage) -> Source {
    serde_json::from_slice(reply.payload().unwrap()).unwrap()
}

pub(crate) fn dead_lettered(letter: &OwnedMessage) -> Source {
    let headers = letter.headers().unwrap();
    let headers: Headers<'_> = headers.iter().map(|header| (header.key, header.value)).collect();
    let origin = Origin::of(&headers).unwrap();
    (origin.partition, origin.offset)
}

/// What became of a record.
#[derive(Debug)]
pub(crate) struct Made {
    /// The first one: its partition and offset.
    pub(crate) at: (i32, i64),
    pub(crate) times: usize,
}

/// What became of each record of a topic.
pub(crate) type Outcomes = BTreeMap<Source, Made>;

/// What became of the records of a topic. Of those of one partition that went to one partition, the first ones of each are
/// in order.
pub(crate) fn outcomes(bootstrap: &str, topic: &str, source: fn(&OwnedMessage) -> Source) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for partition in 0..PARTITIONS {
        let mut last = BTreeMap::new();
        for record in read(bootstrap, &out(topic), partition) {
            let (of, offset) = source(&record);
            let at = (partition, record.offset());
            let made = outcomes.entry((of, offset)).or_insert(Made { at, times: 0 });
            made.times += 1;
            if made.times == 1 {
                let before = last.insert(of, offset);
                assert!(before < Some(offset), "{of}/{offset} comes after {before:?}");
            }
        }
    }
    outcomes
}

/// Those below `positions` that have no outcome.
pub(crate) fn without_outcome(outcomes: &Outcomes, positions: &BTreeMap<i32, i64>) -> Vec<Source> {
    let below = positions
        .iter()
        .flat_map(|(partition, position)| (0..*position).map(|offset| (*partition, offset)));
    below.filter(|source| !outcomes.contains_key(source)).collect()
}

/// What is committed at some moment, and what there is at that moment.
pub(crate) struct Moment {
    pub(crate) positions: BTreeMap<i32, i64>,
    ends: BTreeMap<i32, i64>,
}

impl Moment {
    /// Positions are asked for first: what is below them has its outcome by then.
    pub(crate) fn now(bootstrap: &str, topic: &str) -> Self {
        let positions = committed(bootstrap, topic, PARTITIONS);
        let end = |partition| (partition, end_of(bootstrap, &out(topic), partition));
        Self {
            positions,
            ends: (0..PARTITIONS).map(end).collect(),
        }
    }

    pub(crate) fn assert_covered(&self, outcomes: &Outcomes) {
        assert_eq!(without_outcome(outcomes, &self.positions), []);
        let below = |(partition, offset): &Source| {
            let position = self.positions.get(partition);
            position.is_some_and(|position| offset < position)
        };
        for (source, Made { at, .. }) in outcomes.iter().filter(|(source, _)| below(source)) {
            assert!(
                at.1 < self.ends[&at.0],
                "{source:?} was committed before {at:?} was there"
            );
        }
    }
}

/// How often each record was handled.
fn calls(ledgers: &[&Arc<Ledger>]) -> BTreeMap<Source, usize> {
    let mut calls = BTreeMap::new();
    for ledger in ledgers {
        for (partition, offsets) in ledger.handled() {
            for offset in offsets {
                *calls.entry((partition, offset)).or_insert(0) += 1;
            }
        }
    }
    calls
}

/// Checks the end: every record has an outcome, everything is committed, and what is there twice was handled twice.
pub(crate) fn assert_complete(
    bootstrap: &str,
    topic: &str,
    each: u64,
    source: fn(&OwnedMessage) -> Source,
    ledgers: &[&Arc<Ledger>],
) -> Outcomes {
    let ends: BTreeMap<i32, i64> = (0..PARTITIONS)
        .map(|partition| (partition, each as i64))
        .collect();
    let outcomes = outcomes(bootstrap, topic, source);
    assert_eq!(without_outcome(&outcomes, &ends), []);
    assert_eq!(committed(bootstrap, topic, PARTITIONS), ends);
    let calls = calls(ledgers);
    for (source, Made { times, .. }) in &outcomes {
        let called = calls.get(source).copied().unwrap_or(0);
        assert!(
            *times <= called,
            "{source:?} is there {times} times, and was handled {called} times"
        );
    }
    outcomes
}

/// How many outcomes are there again.
pub(crate) fn again(outcomes: &Outcomes) -> usize {
    outcomes.values().map(|made| made.times - 1).sum()
}
