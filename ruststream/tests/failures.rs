//! What happens to a delivery whose handler does not acknowledge it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ruststream::broker::Delivery;
use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{BoxError, Context, ErrorKind, Failure, Handler};

/// Answers each attempt with a function of the attempt's number.
struct Answer(fn(u32) -> Outcome);

impl Handler for Answer {
    async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, cx: Context<'m>) -> Outcome {
        (self.0)(cx.attempt())
    }
}

async fn app(answer: fn(u32) -> Outcome) -> TestApp {
    let orders = Subscriber::new("orders", Answer(answer)).name("bill");
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(orders));
    TestApp::start_on(app, MemoryBroker::new().auto_create(1))
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again_in_place_until_it_passes() {
    let t = app(|attempt| {
        if attempt < 4 {
            Outcome::Failed("not yet".into())
        } else {
            Outcome::Ack
        }
    })
    .await;
    t.publish("orders", &1).unwrap();
    t.publish("orders", &2).unwrap();
    t.settled().await;
    assert_eq!(t.position("orders", 0), Some(2));
    let report = t.stop().await.unwrap();
    let bill = &report.subscriptions[0];
    assert_eq!(
        (bill.received, bill.settled, bill.failed, bill.retried),
        (2, 2, 6, 6)
    );
}

#[tokio::test(start_paused = true)]
async fn spent_attempts_stop_the_app_and_settle_nothing() {
    let t = app(|_| Outcome::Failed("no".into())).await;
    let broker = t.broker().clone();
    t.publish("orders", &1).unwrap();
    let begun = tokio::time::Instant::now();
    let error = t.stopped().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    insta::assert_snapshot!(format!("{error:?}"), @r"
    subscription bill stopped at orders/0 offset 0: its handler failed 10 times; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it
      caused by: no
    ");
    assert_eq!(broker.position("billing", "orders", 0), None);
    // 51.1 s of back-off, each wait shortened by up to a quarter.
    let waited = begun.elapsed();
    assert!(
        (Duration::from_secs(38)..Duration::from_secs(52)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_spends_the_attempts_of_the_policy() {
    let t = app(|attempt| {
        if attempt < 10 {
            Outcome::Retry
        } else {
            Outcome::Ack
        }
    })
    .await;
    t.publish("orders", &1).unwrap();
    t.settled().await;
    assert_eq!(t.report().subscriptions[0].retried, 9);
}

#[tokio::test(start_paused = true)]
async fn skip_settles_and_is_counted() {
    let t = app(|_| Outcome::Skip).await;
    t.publish("orders", &1).unwrap();
    t.settled().await;
    let report = t.stop().await.unwrap();
    assert_eq!(
        (report.subscriptions[0].settled, report.subscriptions[0].skipped),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_contained_and_not_tried_again() {
    let t = app(|_| panic!("user bug")).await;
    t.publish("orders", &1).unwrap();
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(format!("{error:?}"), @r"
    subscription bill stopped at orders/0 offset 0: its handler panicked; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it
      caused by: user bug
    ");
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_tried_again() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let t = app(|_| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        Outcome::Failed(Permanent::new("no such customer").into())
    })
    .await;
    t.publish("orders", &1).unwrap();
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(format!("{error:?}"), @r"
    subscription bill stopped at orders/0 offset 0: its handler failed for good; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it
      caused by: no such customer
    ");
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn stop_stops_the_app_and_the_record_comes_again() {
    let t = app(|_| Outcome::Stop).await;
    let broker = t.broker().clone();
    t.publish("orders", &1).unwrap();
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(error, @"subscription bill stopped at orders/0 offset 0: its handler asked for it; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it");
    assert_eq!(broker.position("billing", "orders", 0), None);
}

#[derive(serde::Deserialize)]
struct Order {
    #[allow(dead_code, reason = "only decoded")]
    id: u64,
}

struct Decode;

impl Handler for Decode {
    async fn call<'m, D: Delivery>(&'m self, delivery: &'m D, _cx: Context<'m>) -> Outcome {
        match serde_json::from_slice::<Order>(delivery.payload().unwrap_or_default()) {
            Ok(_) => Outcome::Ack,
            Err(error) => Outcome::Failed(Failure::undecodable(error)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_decode_stops_the_subscription_and_the_others_commit() -> Result<(), BoxError>
{
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| {
        memory
            .mount(Subscriber::new("orders", Decode).name("bill"))
            .mount(Subscriber::new("audits", Answer(|_| Outcome::Ack)).name("audit"))
    });
    let t = TestApp::start_on(app, MemoryBroker::new().auto_create(1)).await?;
    let broker = t.broker().clone();
    for id in 0..100 {
        broker.publish(MemoryRecord::new("audits").payload(format!("{id}")))?;
    }
    t.publish("orders", &serde_json::json!({ "id": 1 }))?;
    t.settled().await;
    broker.publish(MemoryRecord::new("orders").payload("{"))?;
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(format!("{error:?}"), @r"
    subscription bill stopped at orders/0 offset 1: the delivery could not be decoded; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it
      caused by: EOF while parsing an object at line 1 column 1
    ");
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
    assert_eq!(broker.position("billing", "audits", 0), Some(100));
    Ok(())
}

#[subscriber("orders", timeout = Duration::from_secs(2), dead_letter = "dlq")]
async fn slow_at_first(seconds: u64, meta: Meta<'_>) {
    if meta.attempt < 3 {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_cancelled_and_tried_again() {
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(slow_at_first));
    let t = TestApp::start(app).await.unwrap();
    let begun = tokio::time::Instant::now();
    t.publish("orders", &3_600).unwrap();
    t.publish("orders", &1).unwrap();
    t.settled().await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    let report = t.stop().await.unwrap();
    let slow = &report.subscriptions[0];
    assert_eq!((slow.settled, slow.failed, slow.retried), (2, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_always_takes_too_long_ends_as_a_failure_that_says_so() {
    let slow = slow_at_first.retry(RetryPolicy::attempts(2));
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(slow));
    let t = TestApp::start(app).await.unwrap();
    t.publish("orders", &3_600).unwrap();
    t.settled().await;
    let letters = t.broker().records("dlq");
    let headers = letters[0].headers();
    let origin = ruststream::dead_letter::Origin::of(&headers).unwrap();
    assert_eq!((origin.error_kind, origin.attempts), ("timed-out", 2));
    assert_eq!(origin.error_message, "the handler did not end within 2s");
}
