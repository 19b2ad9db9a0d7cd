//! A second service joins the group, takes its share, and leaves again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ruststream::prelude::*;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};

use crate::support::*;

const PARTITIONS: usize = 6;
/// At 2 ms a record: enough work for the whole test.
const BACKLOG: u64 = 3_000;

/// Holds handlers of partitions that are being taken away.
struct Gate {
    draining: Mutex<BTreeSet<i32>>,
    arrived: Notify,
    open: Semaphore,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            draining: Mutex::default(),
            arrived: Notify::new(),
            open: Semaphore::new(0),
        })
    }

    async fn pass(&self, partition: i32) {
        self.draining.lock().unwrap().insert(partition);
        self.arrived.notify_one();
        let _closed = self.open.acquire().await;
    }

    /// Waits until a handler stands at the gate.
    async fn somebody(&self) {
        timeout(SOON, self.arrived.notified())
            .await
            .expect("a handler of a revoked partition");
    }

    /// Opens for good.
    fn open(&self) {
        self.open.close();
    }

    fn draining(&self) -> BTreeSet<i32> {
        self.draining.lock().unwrap().clone()
    }
}

/// Takes 2 ms, and when its partition is taken away meanwhile, until the gate opens.
#[subscriber("records")]
async fn gated(
    number: u64,
    meta: Meta<'_>,
    shutdown: Shutdown,
    State(ledger): State<'_, Arc<Ledger>>,
    State(gate): State<'_, Arc<Gate>>,
) {
    assert_eq!(number, meta.offset as u64);
    tokio::select! {
        () = shutdown.requested() => gate.pass(meta.partition).await,
        () = tokio::time::sleep(Duration::from_millis(2)) => {}
    }
    ledger.note(&meta);
}

/// How many partitions of `now` have at least `count` records more than in `before`.
fn advanced(before: &BTreeMap<i32, usize>, now: &Handled, count: usize) -> usize {
    let before = |partition| before.get(partition).copied().unwrap_or(0);
    now.iter()
        .filter(|(partition, offsets)| offsets.len() >= before(partition) + count)
        .count()
}

/// The first offset of each partition that the second service handled follows the last of the first service.
fn assert_continues(first: &Handled, second: &Handled) {
    for (partition, offsets) in second {
        let before = first[partition]
            .iter()
            .filter(|offset| **offset < offsets[0])
            .max();
        assert_eq!(
            before,
            Some(&(offsets[0] - 1)),
            "nothing is skipped in {partition}"
        );
    }
}

async fn a_second_service_joins_and_leaves(protocol: Protocol, topic: &str, kept: usize) {
    let bootstrap = cluster().bootstrap();
    blocking(|| {
        cluster().create_topic(topic, PARTITIONS as i32, 1).unwrap();
        produce(&bootstrap, topic, PARTITIONS as i32, 0..BACKLOG);
    });
    let gate = Gate::new();
    let service = |ledger: &Arc<Ledger>| {
        let subscriber = gated.drain_timeout(Duration::from_secs(30));
        app(protocol.brisk(&bootstrap), topic, ledger, subscriber).state(Arc::clone(&gate))
    };

    let first = Ledger::new();
    let first_service = service(&first).start().await.unwrap();
    first
        .until("the first service has all partitions", |handled| {
            each(handled, PARTITIONS, 5)
        })
        .await;
    let second = Ledger::new();
    let second_service = service(&second).start().await.unwrap();

    // While revoked partitions drain, handlers of kept ones go on with the batch that they have (librdkafka pauses all
    // fetching until a rebalance is answered), and nobody else has the partitions that drain.
    gate.somebody().await;
    if kept > 0 {
        let before = counts(&first.handled());
        first
            .until("kept partitions go on", |now| advanced(&before, now, 1) > 0)
            .await;
        assert!(
            gate.draining().len() <= PARTITIONS - kept,
            "{:?}",
            gate.draining()
        );
    }
    assert!(
        second
            .handled()
            .keys()
            .all(|partition| !gate.draining().contains(partition))
    );
    gate.open();

    second
        .until("the second service has its share", |handled| {
            each(handled, PARTITIONS / 2, 20)
        })
        .await;
    assert_continues(&first.handled(), &second.handled());
    let left = stop(second_service).await;
    for (partition, offsets) in second.handled() {
        assert_eq!(left.get(&partition), offsets.last().map(|last| last + 1).as_ref());
    }

    // The first service gets all back.
    blocking(|| produce(&bootstrap, topic, PARTITIONS as i32, BACKLOG..BACKLOG + 100));
    let end = BACKLOG as i64 + 100;
    first
        .until("the first service handles the end of each partition", |handled| {
            handled.len() == PARTITIONS && handled.values().all(|offsets| offsets.last() == Some(&(end - 1)))
        })
        .await;
    stop(first_service).await;

    let (first, second) = (first.handled(), second.handled());
    assert_eq!(missing(&[&first, &second], PARTITIONS as i32, end), []);
    let again = total(&first) + total(&second) - PARTITIONS * end as usize;
    assert_eq!(again, 0, "what was handled twice");
    let ends: BTreeMap<i32, i64> = (0..PARTITIONS as i32).map(|partition| (partition, end)).collect();
    assert_eq!(committed(&bootstrap, topic, PARTITIONS as i32), ends);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_second_service_takes_its_share_and_gives_it_back_in_a_cooperative_group() {
    a_second_service_joins_and_leaves(Protocol::Cooperative, "join-cooperative", PARTITIONS / 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_second_service_takes_its_share_and_gives_it_back_in_an_eager_group() {
    a_second_service_joins_and_leaves(Protocol::Eager, "join-eager", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_second_service_takes_its_share_and_gives_it_back_in_a_group_of_the_next_generation() {
    a_second_service_joins_and_leaves(Protocol::NextGeneration, "join-next-generation", PARTITIONS / 2).await;
}

/// The first service is stopped while its revoked partitions drain, and their handlers do not end.
async fn a_stop_while_partitions_drain(protocol: Protocol, topic: &str) {
    const DEADLINE: Duration = Duration::from_secs(4);
    const AT_ONCE: Duration = Duration::from_secs(10);
    let bootstrap = cluster().bootstrap();
    blocking(|| {
        cluster().create_topic(topic, PARTITIONS as i32, 1).unwrap();
        produce(&bootstrap, topic, PARTITIONS as i32, 0..BACKLOG);
    });
    let gate = Gate::new();
    let first = Ledger::new();
    let subscriber = gated.drain_timeout(Duration::from_secs(30));
    let first_service = app(protocol.brisk(&bootstrap), topic, &first, subscriber)
        .state(Arc::clone(&gate))
        .shutdown_timeout(DEADLINE)
        .start()
        .await
        .unwrap();
    first
        .until("the first service has all partitions", |handled| {
            each(handled, PARTITIONS, 5)
        })
        .await;
    let second = Ledger::new();
    let second_service = start(protocol.brisk(&bootstrap), topic, &second, note).await;
    gate.somebody().await;

    let begun = Instant::now();
    first_service.stop();
    let report = first_service.wait().await.unwrap();
    assert!(
        begun.elapsed() < DEADLINE + Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    let waiting = gate.draining().len() as u64;
    assert_eq!(
        (report.subscriptions[0].unfinished, report.abandoned),
        (waiting, 0)
    );

    let begun = Instant::now();
    second
        .until("the second service has everything", |handled| {
            each(handled, PARTITIONS, 1)
        })
        .await;
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    second
        .until("the end of each partition is handled", |handled| {
            handled
                .values()
                .all(|offsets| offsets.last() == Some(&(BACKLOG as i64 - 1)))
        })
        .await;
    stop(second_service).await;
    assert_continues(&first.handled(), &second.handled());
    let (first, second) = (first.handled(), second.handled());
    assert_eq!(missing(&[&first, &second], PARTITIONS as i32, BACKLOG as i64), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_while_partitions_drain_ends_in_time_and_hands_over_in_a_cooperative_group() {
    a_stop_while_partitions_drain(Protocol::Cooperative, "drain-cooperative").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_while_partitions_drain_ends_in_time_and_hands_over_in_an_eager_group() {
    a_stop_while_partitions_drain(Protocol::Eager, "drain-eager").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_while_partitions_drain_ends_in_time_and_hands_over_in_a_group_of_the_next_generation() {
    a_stop_while_partitions_drain(Protocol::NextGeneration, "drain-next-generation").await;
}
