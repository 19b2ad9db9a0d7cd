//! Which deliveries wait for which, with handlers that await.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ruststream::broker::{Commit, Delivery};
use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{BoxError, Context, Handler};

/// What handlers did, in order, and how many were open at once.
#[derive(Debug, Default)]
struct Log {
    open: usize,
    most_open: usize,
    finished: Vec<Finished>,
}

/// Key, offset, attempt.
type Finished = (Option<Vec<u8>>, i64, u32);

/// Waits as long as its payload says (ms) and fails as often as its header `fail` says.
#[derive(Clone, Default)]
struct Wait(Arc<Mutex<Log>>);

impl Handler for Wait {
    async fn call<'m, D: Delivery>(&'m self, delivery: &'m D, cx: Context<'m>) -> Outcome {
        {
            let mut log = self.0.lock().unwrap();
            log.open += 1;
            log.most_open = log.most_open.max(log.open);
        }
        let wait: u64 = serde_json::from_slice(delivery.payload().unwrap_or(b"0")).unwrap();
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        let failures = delivery
            .headers()
            .get("fail")
            .flatten()
            .map_or(0, |value| value[0].into());
        let mut log = self.0.lock().unwrap();
        log.open -= 1;
        if cx.attempt() <= failures {
            return Outcome::Failed("asked to".into());
        }
        log.finished.push((
            delivery.key().map(<[u8]>::to_vec),
            delivery.offset(),
            cx.attempt(),
        ));
        Outcome::Ack
    }
}

fn app(subscriber: Subscriber<Wait>) -> RustStream {
    RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(subscriber))
}

fn record(key: &str, wait: u64) -> MemoryRecord {
    MemoryRecord::new("orders")
        .partition(0)
        .key(key)
        .payload(wait.to_string())
}

async fn start(subscriber: Subscriber<Wait>) -> TestApp {
    TestApp::start_on(app(subscriber), MemoryBroker::new().auto_create(1))
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn within_a_partition_one_delivery_after_another() -> Result<(), BoxError> {
    let log = Wait::default();
    let t = start(Subscriber::new("orders", log.clone())).await;
    for wait in [30, 0, 20, 0, 10] {
        t.broker().publish(record("a", wait))?;
    }
    t.settled().await;
    let log = log.0.lock().unwrap();
    assert_eq!(log.most_open, 1);
    assert_eq!(
        log.finished
            .iter()
            .map(|(_, offset, _)| *offset)
            .collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn partitions_run_in_parallel() -> Result<(), BoxError> {
    let log = Wait::default();
    let t = TestApp::start_on(
        app(Subscriber::new("orders", log.clone())),
        MemoryBroker::new().auto_create(12),
    )
    .await?;
    for partition in 0..12 {
        t.broker().publish(record("a", 50).partition(partition))?;
    }
    let begun = tokio::time::Instant::now();
    t.settled().await;
    assert_eq!(log.0.lock().unwrap().most_open, 12);
    assert!(begun.elapsed() < Duration::from_millis(60));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_is_in_order_and_a_slow_or_retrying_key_does_not_stall_the_others() -> Result<(), BoxError> {
    let log = Wait::default();
    let t = start(
        Subscriber::new("orders", log.clone())
            .ordering(ProcessingOrder::Key)
            .concurrency(8),
    )
    .await;
    t.broker().publish(record("slow", 5_000))?;
    t.broker()
        .publish(record("retrying", 1).header("fail", vec![5]))?;
    for n in 0..200 {
        t.broker()
            .publish(record(["slow", "retrying", "a", "b", "c", "d"][n % 6], 1))?;
    }
    // The four other keys are done long before the slow one, or the retries of the retrying one (3.1 s).
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(log.0.lock().unwrap().finished.len(), 4 * 33);
    assert_eq!(t.position("orders", 0), None, "the slow key holds the position");
    t.settled().await;
    let log = log.0.lock().unwrap();
    let mut last: HashMap<_, i64> = HashMap::new();
    for (key, offset, _) in &log.finished {
        assert!(
            last.insert(key.clone(), *offset)
                .is_none_or(|before| before < *offset),
            "{key:?} out of order"
        );
    }
    assert_eq!(log.finished.len(), 202);
    assert!(log.most_open <= 8);
    assert_eq!(t.position("orders", 0), Some(202));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn unordered_deliveries_finish_as_they_can_and_the_position_follows_the_lowest() -> Result<(), BoxError>
{
    let log = Wait::default();
    let t = start(
        Subscriber::new("orders", log.clone())
            .ordering(ProcessingOrder::Unordered)
            .concurrency(3),
    )
    .await;
    for wait in [300, 10, 20, 200, 5] {
        t.broker().publish(record("same", wait))?;
    }
    t.broker().skip_offsets("orders", 0, 1_000)?;
    t.broker().publish(record("same", 1))?;
    t.settled().await;
    let log = log.0.lock().unwrap();
    assert_eq!(
        log.finished
            .iter()
            .map(|(_, offset, _)| *offset)
            .collect::<Vec<_>>(),
        [1, 2, 4, 1005, 3, 0]
    );
    assert_eq!(log.most_open, 3);
    assert_eq!(t.position("orders", 0), Some(1006));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn null_keys_wait_for_nothing() -> Result<(), BoxError> {
    let log = Wait::default();
    let t = start(
        Subscriber::new("orders", log.clone())
            .ordering(ProcessingOrder::Key)
            .concurrency(4),
    )
    .await;
    for _ in 0..4 {
        t.broker().publish(MemoryRecord::new("orders").payload("50"))?;
    }
    t.settled().await;
    assert_eq!(log.0.lock().unwrap().most_open, 4);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn auto_moves_the_position_when_the_handler_starts_and_a_clean_stop_leaves_nothing_out()
-> Result<(), BoxError> {
    let log = Wait::default();
    let subscriber = Subscriber::new("orders", log.clone())
        .ordering(ProcessingOrder::Key)
        .concurrency(2);
    let auto = MemoryBroker::new().commit(Commit::Auto);
    let app = RustStream::new("billing").broker(auto, |memory| memory.mount(subscriber));
    let broker = MemoryBroker::new().auto_create(1);
    let t = TestApp::start_on(app, broker.clone()).await?;
    for key in ["a", "a", "b", "a"] {
        broker.publish(record(key, 100))?;
    }
    // The first `a` and the `b` have started; the second `a` has not, and holds the position.
    broker
        .until(|broker| broker.position("billing", "orders", 0) == Some(1))
        .await;
    t.stop().await?;
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
    assert_eq!(log.0.lock().unwrap().finished.len(), 2, "what runs may finish");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_deliveries_with_awaiting_handlers_are_each_handled_once() -> Result<(), BoxError>
{
    struct Sum(Arc<std::sync::atomic::AtomicU64>);

    impl Handler for Sum {
        async fn call<'m, D: Delivery>(&'m self, delivery: &'m D, _cx: Context<'m>) -> Outcome {
            let payload = delivery.payload().unwrap_or_default();
            tokio::task::yield_now().await;
            let n: u64 = serde_json::from_slice(payload).unwrap();
            self.0.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
            Outcome::Ack
        }
    }

    for ordering in [
        ProcessingOrder::Partition,
        ProcessingOrder::Key,
        ProcessingOrder::Unordered,
    ] {
        let sum = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let subscriber = Subscriber::new("orders", Sum(Arc::clone(&sum))).ordering(ordering);
        let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(subscriber));
        let t = TestApp::start(app).await?;
        for n in 0..33_334_u64 {
            t.broker().publish(
                MemoryRecord::new("orders")
                    .key(format!("{}", n % 97))
                    .payload(n.to_string()),
            )?;
        }
        t.settled().await;
        assert_eq!(
            sum.load(std::sync::atomic::Ordering::Relaxed),
            33_333 * 33_334 / 2
        );
        let report = t.stop().await?;
        assert_eq!(
            (report.subscriptions[0].received, report.subscriptions[0].settled),
            (33_334, 33_334)
        );
    }
    Ok(())
}
