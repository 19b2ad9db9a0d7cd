//! Replies, and what handlers send: confirmed before their source settles, sent again, never lost.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ruststream::broker::Delivery;
use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{BoxError, ErrorKind, Mounts, PublishErrorKind as Kind, dead_letter};

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Invoice {
    order: u64,
}

#[subscriber("orders", reply = "invoices")]
async fn bill(order: u64) -> Invoice {
    Invoice { order }
}

/// One partition a topic, so that offsets say everything.
async fn start(mount: impl FnOnce(Mounts<MemoryBroker>) -> Mounts<MemoryBroker>) -> TestApp {
    let app = RustStream::new("billing").broker(MemoryBroker::new(), mount);
    let broker = MemoryBroker::new().auto_create(1);
    TestApp::start_on(app, broker).await.unwrap()
}

/// Lets the app do what it can.
async fn settle_down() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn invoices(t: &TestApp) -> Vec<u64> {
    let invoices: Vec<Invoice> = t.published("invoices").unwrap();
    invoices.into_iter().map(|invoice| invoice.order).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_json_under_the_key_of_its_source_without_its_headers() {
    let t = start(|broker| broker.mount(bill)).await;
    let order = MemoryRecord::new("orders")
        .key("ada")
        .payload("7")
        .header("a", "b");
    t.broker().publish(order).unwrap();
    t.settled().await;
    let [invoice] = &t.broker().records("invoices")[..] else {
        panic!("one invoice")
    };
    assert_eq!(invoice.key(), Some(&b"ada"[..]));
    assert_eq!(invoice.payload(), Some(&br#"{"order":7}"#[..]));
    assert!(invoice.headers().is_empty());
    let report = t.stop().await.unwrap();
    assert_eq!(
        (report.subscriptions[0].settled, report.subscriptions[0].replied),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_source_settles_when_its_reply_is_confirmed_and_the_next_ones_start_before_that() {
    let t = start(|broker| broker.mount(bill)).await;
    t.broker().hold_confirmations("invoices");
    for order in 0..100 {
        t.publish("orders", &order).unwrap();
    }
    settle_down().await;
    assert_eq!(invoices(&t).len(), 100);
    assert_eq!(t.position("orders", 0), None);
    assert_eq!(t.report().subscriptions[0].settled, 0);
    t.broker().confirm("invoices");
    t.settled().await;
    assert_eq!(t.position("orders", 0), Some(100));
    assert_eq!(invoices(&t), (0..100).collect::<Vec<_>>());
}

#[subscriber("orders", reply = "invoices")]
async fn bill_all_but_odd(order: u64) -> Result<Option<Reply<Invoice>>, BoxError> {
    match order % 4 {
        0 => Ok(Some(
            Reply::new(Invoice { order })
                .to_topic("others")
                .key("k")
                .header("h", "v"),
        )),
        1 => Ok(None),
        2 => Ok(Some(Reply::tombstone())),
        _ => Err("a multiple of four, and three".into()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_says_where_it_goes_or_that_there_is_none() {
    let t =
        start(|broker| broker.mount(bill_all_but_odd.retry(RetryPolicy::never()).dead_letter("dlq"))).await;
    for order in 0..4 {
        t.broker()
            .publish(MemoryRecord::new("orders").key("ada").payload(order.to_string()))
            .unwrap();
    }
    t.settled().await;
    let [other] = &t.broker().records("others")[..] else {
        panic!("one elsewhere")
    };
    assert_eq!(other.key(), Some(&b"k"[..]));
    assert_eq!(other.headers().get("h"), Some(Some(&b"v"[..])));
    let [tombstone] = &t.broker().records("invoices")[..] else {
        panic!("one tombstone")
    };
    assert_eq!((tombstone.key(), tombstone.payload()), (Some(&b"ada"[..]), None));
    assert_eq!(t.broker().records("dlq").len(), 1);
    assert_eq!(t.report().subscriptions[0].replied, 2);
}

#[subscriber("orders", reply = "raw")]
async fn echo(order: &[u8]) -> Vec<u8> {
    order.to_vec()
}

#[subscriber("orders", reply = "lent")]
async fn lend(order: &[u8]) -> Reply<&[u8]> {
    Reply::new(order).null_key()
}

#[tokio::test(start_paused = true)]
async fn bytes_are_sent_as_they_are() {
    let t = start(|broker| broker.mount(echo)).await;
    t.broker()
        .publish(MemoryRecord::new("orders").payload([0xff, 0]))
        .unwrap();
    t.settled().await;
    assert_eq!(t.broker().records("raw")[0].payload(), Some(&[0xff, 0][..]));
    let t = start(|broker| broker.mount(lend)).await;
    t.broker()
        .publish(MemoryRecord::new("orders").key("ada").payload([0xff, 0]))
        .unwrap();
    t.settled().await;
    let lent = &t.broker().records("lent")[0];
    assert_eq!((lent.key(), lent.payload()), (None, Some(&[0xff, 0][..])));
}

static CALLS: AtomicU32 = AtomicU32::new(0);

#[subscriber("orders", reply = "invoices")]
async fn bill_counted(order: u64) -> Invoice {
    CALLS.fetch_add(1, Ordering::Relaxed);
    Invoice { order }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_fails_is_sent_again_without_its_handler_and_nothing_starts_meanwhile() {
    let t = start(|broker| broker.mount(bill_counted)).await;
    t.broker().refuse("invoices", 3, Kind::TimedOut);
    t.publish("orders", &0).unwrap();
    settle_down().await;
    for order in 1..5 {
        t.publish("orders", &order).unwrap();
    }
    settle_down().await;
    assert_eq!(CALLS.load(Ordering::Relaxed), 1, "the partition waits");
    assert_eq!(t.position("orders", 0), None);
    t.settled().await;
    assert_eq!(CALLS.load(Ordering::Relaxed), 5);
    let mut invoices = invoices(&t);
    invoices.sort_unstable();
    assert_eq!(invoices, [0, 1, 2, 3, 4]);
    assert_eq!(t.position("orders", 0), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_fails_for_good_stops_the_app_and_its_source_is_not_settled() {
    let t = start(|broker| broker.mount(bill)).await;
    t.publish("orders", &1).unwrap();
    t.settled().await;
    t.broker().refuse("invoices", 1, Kind::TooLarge);
    t.publish("orders", &2).unwrap();
    let broker = t.broker().clone();
    let error = t.stopped().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    insta::assert_snapshot!(error, @"subscription bill stopped at orders/0 offset 1: its reply was not confirmed in 1 attempts; the record is not committed and comes again: fix the cause and restart");
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_fails_for_good_sends_its_source_to_the_dead_letters() {
    let t = start(|broker| broker.mount(bill.dead_letter("dlq"))).await;
    t.broker().refuse("invoices", 10, Kind::TimedOut);
    t.publish_with_key("orders", "ada", &7).unwrap();
    t.settled().await;
    let [letter] = &t.broker().records("dlq")[..] else {
        panic!("one dead letter")
    };
    assert_eq!(
        (letter.key(), letter.payload()),
        (Some(&b"ada"[..]), Some(&b"7"[..]))
    );
    let headers = letter.headers();
    let origin = dead_letter::Origin::of(&headers).unwrap();
    assert_eq!((origin.error_kind, origin.attempts), ("unpublished", 1));
    assert!(invoices(&t).is_empty());
    let report = t.stop().await.unwrap();
    assert_eq!(
        (
            report.subscriptions[0].dead_lettered,
            report.subscriptions[0].replied
        ),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_replies_until_the_drain_deadline_and_then_leaves_their_sources() {
    let t = start(|broker| broker.mount(bill)).await;
    t.broker().hold_confirmations("invoices");
    t.publish("orders", &1).unwrap();
    settle_down().await;
    let broker = t.broker().clone();
    let stopped = tokio::spawn(t.stop());
    tokio::time::sleep(Duration::from_secs(1)).await;
    broker.confirm("invoices");
    let report = stopped.await.unwrap().unwrap();
    assert_eq!(report.subscriptions[0].settled, 1);
    assert_eq!(broker.position("billing", "orders", 0), Some(1));

    let t = start(|broker| broker.mount(bill)).await;
    t.broker().hold_confirmations("invoices");
    t.publish("orders", &1).unwrap();
    settle_down().await;
    let broker = t.broker().clone();
    let report = t.stop().await.unwrap();
    assert_eq!(
        (
            report.subscriptions[0].settled,
            report.subscriptions[0].unconfirmed
        ),
        (0, 1)
    );
    assert_eq!(broker.position("billing", "orders", 0), None);
}

#[tokio::test(start_paused = true)]
async fn at_most_a_window_of_replies_is_unconfirmed() {
    let t = start(|broker| broker.mount(bill)).await;
    t.broker().hold_confirmations("invoices");
    for order in 0..5_000 {
        t.publish("orders", &order).unwrap();
    }
    settle_down().await;
    assert_eq!(invoices(&t).len(), 4_096);
    t.broker().confirm("invoices");
    t.settled().await;
    assert_eq!(invoices(&t), (0..5_000).collect::<Vec<_>>());
}

#[subscriber("orders")]
async fn split(order: u64, publisher: Publisher<'_>) -> Result<(), BoxError> {
    for part in 0..3 {
        let _ = publisher.send(Record::json("parts", &(order, part))?).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_sends_is_confirmed_before_its_source_settles() {
    let t = start(|broker| broker.mount(split)).await;
    t.broker().hold_confirmations("parts");
    for order in 0..3 {
        t.publish("orders", &order).unwrap();
    }
    settle_down().await;
    assert_eq!(
        t.broker().records("parts").len(),
        9,
        "the next ones start before that"
    );
    assert_eq!(t.position("orders", 0), None);
    t.broker().confirm("parts");
    t.settled().await;
    assert_eq!(t.position("orders", 0), Some(3));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_sent_and_did_not_look_at_is_sent_again_when_it_fails() {
    let t = start(|broker| broker.mount(split)).await;
    t.broker().refuse("parts", 2, Kind::TimedOut);
    t.publish("orders", &1).unwrap();
    t.settled().await;
    let mut parts: Vec<(u64, u64)> = t.published("parts").unwrap();
    parts.sort_unstable();
    assert_eq!(parts, [(1, 0), (1, 1), (1, 2)]);
    let report = t.stop().await.unwrap();
    assert_eq!(
        (report.subscriptions[0].failed, report.subscriptions[0].retried),
        (0, 0)
    );
}

#[subscriber("orders", dead_letter = "dlq")]
async fn copy_carefully(order: u64, publisher: Publisher<'_>) -> Result<(), BoxError> {
    publisher.publish(Record::json("copies", &order)?).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_handler_saw_is_the_handlers() {
    let t = start(|broker| broker.mount(copy_carefully)).await;
    t.broker().refuse("copies", 1, Kind::TimedOut);
    t.publish("orders", &1).unwrap();
    t.settled().await;
    assert_eq!(t.published::<u64>("copies").unwrap(), [1]);
    let report = t.stop().await.unwrap();
    let copied = &report.subscriptions[0];
    assert_eq!((copied.failed, copied.retried, copied.dead_lettered), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_revocation_waits_for_replies_and_another_owner_sees_what_was_not_confirmed() {
    let t = start(|broker| broker.mount(bill)).await;
    t.broker().hold_confirmations("invoices");
    t.publish("orders", &1).unwrap();
    settle_down().await;
    let other = t.broker().join("billing", &["orders"]).unwrap();
    // Its partition is revoked; the reply is late, so nothing is settled when the drain deadline passes.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(t.position("orders", 0), None);
    t.broker().confirm("invoices");
    drop(other);
    t.settled().await;
    assert_eq!(t.position("orders", 0), Some(1));
    assert!(!invoices(&t).is_empty());
}
