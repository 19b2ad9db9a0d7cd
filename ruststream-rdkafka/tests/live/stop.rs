//! A stop in the middle of a backlog, and the start after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ruststream::prelude::*;

use crate::support::*;

const PARTITIONS: i32 = 4;
const NUMBERS: u64 = 5_000;

/// Waits now and then, so that a stop finds handlers that run.
#[subscriber("records")]
async fn slow(number: u64, meta: Meta<'_>, State(ledger): State<'_, Arc<Ledger>>) {
    assert_eq!(number, meta.offset as u64);
    if number.is_multiple_of(4) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ledger.note(&meta);
}

/// The position after the last handled record of each partition; nothing below it may be missing.
fn positions_of(handled: &BTreeMap<i32, Vec<i64>>, from: &BTreeMap<i32, i64>) -> BTreeMap<i32, i64> {
    let of = |(partition, offsets): (&i32, &Vec<i64>)| {
        let from = from.get(partition).copied().unwrap_or(0);
        let next = from + offsets.len() as i64;
        assert_eq!(
            *offsets,
            (from..next).collect::<Vec<_>>(),
            "partition {partition}: each once, in order"
        );
        (*partition, next)
    };
    handled.iter().map(of).collect()
}

async fn a_stop_commits_exactly_what_was_handled(commit: Commit, topic: &str) {
    let bootstrap = cluster().bootstrap();
    blocking(|| {
        cluster().create_topic(topic, PARTITIONS, 1).unwrap();
        produce(&bootstrap, topic, PARTITIONS, 0..NUMBERS);
    });
    let kafka = || Protocol::Cooperative.on(&bootstrap).commit(commit);
    let all = PARTITIONS as usize * NUMBERS as usize;

    let mut position = BTreeMap::new();
    for life in 1..=3 {
        let ledger = Ledger::new();
        let running = start(kafka(), topic, &ledger, slow).await;
        let handles = |handled: &Handled| each(handled, PARTITIONS as usize, 100);
        ledger
            .until("each partition handles records of its backlog", handles)
            .await;
        let reported = stop(running).await;

        position = positions_of(&ledger.handled(), &position);
        assert!(
            position.values().sum::<i64>() < all as i64,
            "life {life} stopped in the middle"
        );
        assert_eq!(committed(&bootstrap, topic, PARTITIONS), position, "life {life}");
        assert_eq!(reported, position, "life {life}");
    }

    let ledger = Ledger::new();
    let running = start(kafka(), topic, &ledger, slow).await;
    let left = all - position.values().sum::<i64>() as usize;
    ledger
        .until("the rest is handled", |handled| total(handled) >= left)
        .await;
    stop(running).await;
    let ends: BTreeMap<i32, i64> = (0..PARTITIONS)
        .map(|partition| (partition, NUMBERS as i64))
        .collect();
    assert_eq!(positions_of(&ledger.handled(), &position), ends);
    assert_eq!(committed(&bootstrap, topic, PARTITIONS), ends);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_in_a_backlog_commits_exactly_what_was_handled_and_the_next_start_goes_on_there() {
    a_stop_commits_exactly_what_was_handled(Commit::Tracked, "stop-tracked").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn with_commit_auto_a_stop_in_a_backlog_also_commits_exactly_what_was_handed_out() {
    a_stop_commits_exactly_what_was_handled(Commit::Auto, "stop-auto").await;
}

/// Record 7 of each partition waits for ever; the others do not wait for it.
#[subscriber("records")]
async fn stuck_at_seven(number: u64, meta: Meta<'_>, State(ledger): State<'_, Arc<Ledger>>) {
    if number == 7 {
        std::future::pending::<()>().await;
    }
    ledger.note(&meta);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_record_that_is_not_settled_holds_the_position_and_comes_again_with_all_after_it() {
    let (bootstrap, topic) = (cluster().bootstrap(), "stop-stuck");
    blocking(|| {
        cluster().create_topic(topic, 2, 1).unwrap();
        produce(&bootstrap, topic, 2, 0..100);
    });
    let ledger = Ledger::new();
    let subscriber = stuck_at_seven.ordering(ProcessingOrder::Unordered);
    let running = app(Protocol::Cooperative.on(&bootstrap), topic, &ledger, subscriber)
        .shutdown_timeout(Duration::from_secs(6))
        .start()
        .await
        .unwrap();
    ledger
        .until("all but two are handled", |handled| total(handled) == 2 * 99)
        .await;
    running.stop();
    let report = running.wait().await.unwrap();
    let held: BTreeMap<i32, i64> = (0..2).map(|partition| (partition, 7)).collect();
    assert_eq!(committed(&bootstrap, topic, 2), held);
    assert_eq!(positions(&report), held);
    assert_eq!(report.subscriptions[0].unfinished, 2);

    let ledger = Ledger::new();
    let running = start(Protocol::Cooperative.on(&bootstrap), topic, &ledger, note).await;
    ledger
        .until("the rest comes again", |handled| total(handled) == 2 * 93)
        .await;
    stop(running).await;
    assert_eq!(
        ledger.handled(),
        (0..2).map(|p| (p, (7..100).collect())).collect()
    );
}

/// A member that says no goodbye keeps its partitions for the session timeout, 45 s.
async fn the_next_start_goes_on_at_once(protocol: Protocol, topic: &str) {
    const AT_ONCE: Duration = Duration::from_secs(10);
    let bootstrap = cluster().bootstrap();
    blocking(|| {
        cluster().create_topic(topic, PARTITIONS, 1).unwrap();
        produce(&bootstrap, topic, PARTITIONS, 0..NUMBERS);
    });
    for _ in 0..3 {
        let ledger = Ledger::new();
        let begun = Instant::now();
        let running = start(protocol.on(&bootstrap), topic, &ledger, slow).await;
        let handles = |handled: &Handled| each(handled, PARTITIONS as usize, 1);
        ledger.until("all partitions are handled", handles).await;
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        stop(running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_next_start_in_a_cooperative_group_goes_on_at_once() {
    the_next_start_goes_on_at_once(Protocol::Cooperative, "again-cooperative").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_next_start_in_an_eager_group_goes_on_at_once() {
    the_next_start_goes_on_at_once(Protocol::Eager, "again-eager").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_next_start_in_a_group_of_the_next_generation_goes_on_at_once() {
    the_next_start_goes_on_at_once(Protocol::NextGeneration, "again-next-generation").await;
}
