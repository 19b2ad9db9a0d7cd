//! Rebalance and shutdown: what runs may finish, nothing else is settled, every deadline holds.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ruststream::broker::Delivery;
use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{BoxError, Context, Handler};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Waits for a permit per delivery.
#[derive(Clone, Default)]
struct Gate {
    open: Arc<Notify>,
    started: Arc<AtomicU64>,
}

impl Handler for Gate {
    async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, _cx: Context<'m>) -> Outcome {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.open.notified().await;
        Outcome::Ack
    }
}

async fn start(gate: &Gate, partitions: i32) -> TestApp {
    let gate = Subscriber::new("orders", gate.clone()).name("bill");
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(gate));
    TestApp::start_on(app, MemoryBroker::new().auto_create(partitions))
        .await
        .unwrap()
}

async fn started(gate: &Gate, n: u64) {
    while gate.started.load(Ordering::Relaxed) < n {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoke_lets_the_running_handler_finish_and_settles_it_before_the_partition_moves()
-> Result<(), BoxError> {
    let gate = Gate::default();
    let t = start(&gate, 2).await;
    for partition in [0, 1] {
        for _ in 0..3 {
            t.broker()
                .publish(MemoryRecord::new("orders").partition(partition))?;
        }
    }
    started(&gate, 2).await;
    let member = t.broker().join("billing", &["orders"])?;
    assert!(member.partitions().is_empty(), "the handler is still running");
    gate.open.notify_waiters();
    t.broker().until(|_| !member.partitions().is_empty()).await;
    assert_eq!(member.partitions(), [("orders".to_owned(), 1)]);
    assert_eq!(t.position("orders", 1), Some(1), "settled before it moved");
    started(&gate, 3).await;
    member.leave();
    // Straight back: what was not settled comes again, from the position.
    started(&gate, 4).await;
    while t.position("orders", 1) != Some(3) || t.position("orders", 0) != Some(3) {
        gate.open.notify_waiters();
        tokio::task::yield_now().await;
    }
    assert_eq!(t.report().subscriptions[0].late, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_outlasts_the_drain_timeout_is_cancelled_unsettled() -> Result<(), BoxError> {
    let gate = Gate::default();
    let t = start(&gate, 1).await;
    t.broker().publish(MemoryRecord::new("orders"))?;
    started(&gate, 1).await;
    let begun = Instant::now();
    let report = t.stop().await?;
    assert_eq!(report.subscriptions[0].unfinished, 1);
    assert_eq!(report.subscriptions[0].committed, []);
    // Three quarters of the 30 s are for the drain.
    assert!(
        (22..24).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_the_app_shortens_a_drain_that_a_rebalance_began() -> Result<(), BoxError> {
    let gate = Gate::default();
    let subscriber = Subscriber::new("orders", gate.clone()).drain_timeout(Duration::from_secs(600));
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(subscriber));
    let t = TestApp::start_on(app, MemoryBroker::new().auto_create(2)).await?;
    t.broker().publish(MemoryRecord::new("orders").partition(1))?;
    started(&gate, 1).await;
    let member = t.broker().join("billing", &["orders"])?;
    // Let the partition hear of its revocation before the app stops.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    let report = t.stop().await?;
    assert!(
        (22..24).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!((report.subscriptions[0].unfinished, report.abandoned), (1, 0));
    drop(member);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_partition_cancels_at_once_and_stores_nothing() -> Result<(), BoxError> {
    let gate = Gate::default();
    let t = start(&gate, 1).await;
    t.broker().publish(MemoryRecord::new("orders"))?;
    started(&gate, 1).await;
    assert!(t.broker().lose("billing", "orders", 0));
    // The same member gets it again, and the record with it.
    started(&gate, 2).await;
    assert_eq!(t.position("orders", 0), None);
    gate.open.notify_waiters();
    t.settled().await;
    assert_eq!(t.report().subscriptions[0].unfinished, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_retry_wait_does_not_hold_a_rebalance() -> Result<(), BoxError> {
    struct Fails;

    impl Handler for Fails {
        async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, _cx: Context<'m>) -> Outcome {
            Outcome::Failed("down".into())
        }
    }

    let policy = RetryPolicy::forever().initial(Duration::from_secs(30));
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| {
        memory.mount(Subscriber::new("orders", Fails).retry(policy))
    });
    let t = TestApp::start_on(app, MemoryBroker::new().auto_create(2)).await?;
    t.broker().publish(MemoryRecord::new("orders").partition(1))?;
    t.broker()
        .until(|_| t.report().subscriptions[0].failed == 0)
        .await;
    while t.report().subscriptions[0].retried == 0 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    let member = t.broker().join("billing", &["orders"])?;
    t.broker().until(|_| member.partitions().len() == 1).await;
    assert!(
        begun.elapsed() < Duration::from_millis(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(t.position("orders", 1), None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_see_that_its_partition_is_to_drain() -> Result<(), BoxError> {
    #[derive(Clone, Default)]
    struct Long(Arc<AtomicBool>);

    impl Handler for Long {
        async fn call<'m, D: Delivery>(&'m self, delivery: &'m D, cx: Context<'m>) -> Outcome {
            let Ok(shutdown) = <Shutdown as ruststream::FromDelivery<'_>>::from_delivery(delivery, cx) else {
                return Outcome::Stop;
            };
            self.0.store(true, Ordering::Relaxed);
            shutdown.requested().await;
            Outcome::Ack
        }
    }

    let long = Long::default();
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| {
        memory.mount(Subscriber::new("orders", long.clone()))
    });
    let t = TestApp::start_on(app, MemoryBroker::new().auto_create(1)).await?;
    let broker = t.broker().clone();
    broker.publish(MemoryRecord::new("orders"))?;
    while !long.0.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    let report = t.stop().await?;
    assert!(begun.elapsed() < Duration::from_millis(10));
    assert_eq!(report.subscriptions[0].unfinished, 0);
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_is_abandoned_at_the_deadline_and_reported() -> Result<(), BoxError>
{
    /// Blocks until its sender is gone.
    struct Blocks(std::sync::Mutex<std::sync::mpsc::Receiver<()>>, Arc<Notify>);

    impl Handler for Blocks {
        async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, _cx: Context<'m>) -> Outcome {
            self.1.notify_one();
            let _ = self.0.lock().unwrap().recv();
            Outcome::Ack
        }
    }

    let (unblock, blocked) = std::sync::mpsc::sync_channel(1);
    let started = Arc::new(Notify::new());
    let handler = Blocks(blocked.into(), Arc::clone(&started));
    let app = RustStream::new("billing")
        .shutdown_timeout(Duration::from_millis(400))
        .broker(MemoryBroker::new(), |memory| {
            memory.mount(Subscriber::new("orders", handler).name("bill"))
        });
    let t = TestApp::start_on(app, MemoryBroker::new().auto_create(1)).await?;
    t.broker().publish(MemoryRecord::new("orders"))?;
    started.notified().await;
    let begun = Instant::now();
    let error = t.stop().await.unwrap_err();
    assert!(
        begun.elapsed() < Duration::from_millis(1_500),
        "{:?}",
        begun.elapsed()
    );
    insta::assert_snapshot!(error, @"subscription bill was closed at its deadline without the drop of orders/0: what they did not store will be seen again");
    drop(unblock);
    Ok(())
}
