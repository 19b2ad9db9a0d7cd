//! Every record reaches its handler as often as it should, in its order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::producer::Producer as _;
use ruststream::prelude::*;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::*;

const MILLION: u64 = 1_000_000;
const TWELVE: usize = 12;

/// A checksum of each partition that depends on the order.
#[derive(Default)]
struct Sums {
    partitions: [Sum; TWELVE],
    handled: AtomicU64,
    complete: Notify,
}

#[derive(Default)]
struct Sum {
    next: AtomicI64,
    value: AtomicU64,
    /// Records that were not the next one.
    out_of_order: AtomicU64,
}

#[subscriber("records")]
async fn sum(payload: &[u8], meta: Meta<'_>, State(sums): State<'_, Arc<Sums>>) -> Result<(), BadLength> {
    let value = u64::from_le_bytes(payload.try_into().map_err(|_| BadLength)?);
    // One handler at a time within a partition: nobody else writes these.
    let sum = &sums.partitions[meta.partition as usize];
    if sum.next.swap(meta.offset + 1, Ordering::Relaxed) != meta.offset {
        sum.out_of_order.fetch_add(1, Ordering::Relaxed);
    }
    sum.value
        .store(chain(sum.value.load(Ordering::Relaxed), value), Ordering::Relaxed);
    if sums.handled.fetch_add(1, Ordering::AcqRel) + 1 == MILLION {
        sums.complete.notify_one();
    }
    Ok(())
}

#[derive(Debug)]
struct BadLength;

impl std::fmt::Display for BadLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record has eight bytes")
    }
}

impl std::error::Error for BadLength {}

fn chain(sum: u64, value: u64) -> u64 {
    sum.rotate_left(7) ^ value
}

/// The payload of record `number`: as good as random.
fn value(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Produces a million records round robin; the checksum of each partition.
fn produce_a_million(bootstrap: &str, topic: &str) -> [u64; TWELVE] {
    let producer = producer(bootstrap);
    let mut sums = [0; TWELVE];
    for number in 0..MILLION {
        let partition = number as usize % TWELVE;
        let value = value(number);
        sums[partition] = chain(sums[partition], value);
        send(&producer, topic, partition as i32, b"", &value.to_le_bytes());
    }
    producer.flush(SOON).unwrap();
    sums
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_million_records_are_handled_once_each_and_in_order() {
    let (bootstrap, topic) = (cluster().bootstrap(), "million");
    blocking(|| cluster().create_topic(topic, TWELVE as i32, 1).unwrap());
    let sums = Arc::new(Sums::default());
    let running = RustStream::new(topic)
        .state(Arc::clone(&sums))
        .broker(Protocol::Cooperative.on(&bootstrap), |kafka| {
            kafka.mount(sum.topic(topic))
        })
        .start()
        .await
        .unwrap();

    // The handlers run meanwhile, on the other threads.
    let produced = blocking(|| produce_a_million(&bootstrap, topic));
    let complete = timeout(3 * SOON, sums.complete.notified()).await;
    running.stop();
    let report = running.wait().await.unwrap();
    let handled = sums.handled.load(Ordering::Acquire);
    complete.unwrap_or_else(|_| panic!("only {handled} records in time"));

    let subscription = &report.subscriptions[0];
    assert_eq!((subscription.received, subscription.settled), (MILLION, MILLION));
    assert_eq!(
        (subscription.failed, subscription.unfinished, subscription.late),
        (0, 0, 0)
    );
    let mut ends = BTreeMap::new();
    for (partition, sum) in sums.partitions.iter().enumerate() {
        assert_eq!(
            sum.out_of_order.load(Ordering::Relaxed),
            0,
            "order in partition {partition}"
        );
        assert_eq!(
            sum.value.load(Ordering::Relaxed),
            produced[partition],
            "sum of partition {partition}"
        );
        ends.insert(partition as i32, sum.next.load(Ordering::Relaxed));
    }
    assert_eq!(ends.values().sum::<i64>(), MILLION as i64);
    assert_eq!(committed(&bootstrap, topic, TWELVE as i32), ends);
    assert_eq!(positions(&report), ends);
    blocking(|| cluster().delete_topic(topic).unwrap());
}

type PartitionAndKey = (i32, String);

/// The numbers that each key of each partition settled, in order, and how many attempts failed.
#[derive(Debug, Default)]
struct Keys {
    settled: Mutex<BTreeMap<PartitionAndKey, Vec<u64>>>,
    failed: AtomicU64,
    ledger: Ledger,
}

/// Waits a while that differs from record to record, and fails at times: once, or three times in a row.
#[subscriber("records")]
async fn work(
    number: u64,
    key: Key<&str>,
    meta: Meta<'_>,
    State(keys): State<'_, Arc<Keys>>,
) -> Result<(), &'static str> {
    tokio::task::yield_now().await;
    if number.is_multiple_of(3) {
        tokio::time::sleep(Duration::from_millis(number % 5)).await;
    }
    let failures = match number % 100 {
        13 => 1,
        77 => 3,
        _ => 0,
    };
    if meta.attempt <= failures {
        keys.failed.fetch_add(1, Ordering::Relaxed);
        return Err("the other service does not answer");
    }
    let mut settled = keys.settled.lock().unwrap();
    settled
        .entry((meta.partition, key.0.to_owned()))
        .or_default()
        .push(number);
    drop(settled);
    keys.ledger.note(&meta);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs Java: just test-kafka"]
async fn handlers_that_wait_and_fail_keep_the_order_of_each_key_and_lose_nothing() {
    const NUMBERS: u64 = 2_000;
    let (bootstrap, topic) = (cluster().bootstrap(), "keys");
    blocking(|| {
        cluster().create_topic(topic, 4, 1).unwrap();
        produce(&bootstrap, topic, 4, 0..NUMBERS);
    });
    let keys = Arc::new(Keys::default());
    let subscriber = work
        .topic(topic)
        .ordering(ProcessingOrder::Key)
        .concurrency(16)
        .retry(RetryPolicy::attempts(5).initial(Duration::from_millis(20)));
    let running = RustStream::new(topic)
        .state(Arc::clone(&keys))
        .broker(Protocol::Cooperative.on(&bootstrap), |kafka| {
            kafka.mount(subscriber)
        })
        .start()
        .await
        .unwrap();
    let all = 4 * NUMBERS as usize;
    keys.ledger
        .until("all are settled", |handled| total(handled) >= all)
        .await;
    running.stop();
    let report = running.wait().await.unwrap();

    let expected: Vec<Vec<u64>> = (0..50).map(|key| (key..NUMBERS).step_by(50).collect()).collect();
    for ((partition, key), numbers) in &*keys.settled.lock().unwrap() {
        let key: usize = key.parse().unwrap();
        assert_eq!(
            numbers, &expected[key],
            "partition {partition}, key {key}: each once, in order"
        );
    }
    assert_eq!(keys.settled.lock().unwrap().len(), 4 * 50);
    let failed = keys.failed.load(Ordering::Relaxed);
    assert_eq!(failed, 4 * (NUMBERS / 100) * (1 + 3));
    let subscription = &report.subscriptions[0];
    assert_eq!(
        (subscription.settled, subscription.failed, subscription.retried),
        (all as u64, failed, failed)
    );
    let ends: BTreeMap<i32, i64> = (0..4).map(|partition| (partition, NUMBERS as i64)).collect();
    assert_eq!(committed(&bootstrap, topic, 4), ends);
    let out_of_order = |offsets: &Vec<i64>| offsets.windows(2).any(|pair| pair[0] > pair[1]);
    assert!(
        keys.ledger.handled().values().all(out_of_order),
        "keys ran beside one another"
    );
}
