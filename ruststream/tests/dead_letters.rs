//! Dead letters: what they say, that they are confirmed before their source settles, and when there are too many.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::time::{Duration, SystemTime};

use ruststream::broker::Delivery;
use ruststream::dead_letter::{self, Origin};
use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{BoxError, ErrorKind, Mounts, PublishErrorKind as Kind};

async fn start(mount: impl FnOnce(Mounts<MemoryBroker>) -> Mounts<MemoryBroker>) -> TestApp {
    let app = RustStream::new("billing").broker(MemoryBroker::new(), mount);
    TestApp::start_on(app, MemoryBroker::new().auto_create(1))
        .await
        .unwrap()
}

/// Fails for numbers above 9.
#[subscriber("orders", dead_letter = "dlq")]
async fn bill(order: u64) -> Result<Outcome, BoxError> {
    match order {
        0..=9 => Ok(Outcome::Ack),
        10 => Err("no".into()),
        11 => Err(Permanent::new("never").into()),
        12 => panic!("what now"),
        13 => Ok(Outcome::DeadLetter),
        _ => Ok(Outcome::Retry),
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_the_record_as_it_came_and_says_where_it_came_from_and_why() {
    let t = start(|broker| broker.mount(bill.retry(RetryPolicy::attempts(3)))).await;
    let stamp = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let record = MemoryRecord::new("orders")
        .key("ada")
        .payload("10")
        .header("a", "1")
        .null_header("a")
        .timestamp(stamp);
    t.broker().publish(record).unwrap();
    t.settled().await;
    let [letter] = &t.broker().records("dlq")[..] else {
        panic!("one dead letter")
    };
    assert_eq!(
        (letter.key(), letter.payload()),
        (Some(&b"ada"[..]), Some(&b"10"[..]))
    );
    assert_eq!(letter.timestamp(), Some(stamp));
    let headers = letter.headers();
    let texts: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name, value.map(|value| std::str::from_utf8(value).unwrap())))
        .collect();
    assert_eq!(texts[..2], [("a", Some("1")), ("a", None)]);
    assert_eq!(
        texts[2..11],
        [
            ("ruststream.dlq.topic", Some("orders")),
            ("ruststream.dlq.partition", Some("0")),
            ("ruststream.dlq.offset", Some("0")),
            ("ruststream.dlq.timestamp", Some("1700000000123")),
            ("ruststream.dlq.group", Some("billing")),
            ("ruststream.dlq.subscription", Some("bill")),
            ("ruststream.dlq.attempts", Some("3")),
            ("ruststream.dlq.error.kind", Some("transient")),
            ("ruststream.dlq.error.message", Some("no")),
        ]
    );
    let (name, time) = texts[11];
    assert_eq!(name, dead_letter::TIME);
    assert!(time.unwrap().parse::<u64>().unwrap() > 1_700_000_000_000);
    assert_eq!(texts.len(), 12);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_failure_is_named() {
    let t = start(|broker| broker.mount(bill)).await;
    for order in ["11", "12", "13", "14", "\"text\""] {
        t.broker()
            .publish(MemoryRecord::new("orders").payload(order))
            .unwrap();
    }
    t.broker()
        .publish(MemoryRecord::new("orders").key("gone"))
        .unwrap();
    t.settled().await;
    let letters = t.broker().records("dlq");
    let origins: Vec<_> = letters
        .iter()
        .map(|letter| {
            let headers = letter.headers();
            let Origin {
                error_kind, attempts, ..
            } = Origin::of(&headers).unwrap();
            (error_kind.to_owned(), attempts)
        })
        .collect();
    let expected = [
        ("permanent", 1),
        ("panic", 1),
        ("requested", 1),
        ("exhausted", 10),
        ("undecodable", 1),
        ("undecodable", 1),
    ];
    assert_eq!(
        origins,
        expected.map(|(kind, attempts)| (kind.to_owned(), attempts))
    );
    assert_eq!(letters[5].payload(), None, "a tombstone stays one");
    assert_eq!(letters[5].key(), Some(&b"gone"[..]));
    let report = t.stop().await.unwrap();
    assert_eq!(
        (
            report.subscriptions[0].settled,
            report.subscriptions[0].dead_lettered
        ),
        (6, 6)
    );
}

#[tokio::test(start_paused = true)]
async fn a_source_settles_when_its_copy_is_confirmed_and_others_go_on_before_that() {
    let t = start(|broker| broker.mount(bill)).await;
    t.broker().hold_confirmations("dlq");
    for order in [1, 11, 2] {
        t.publish("orders", &order).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(t.position("orders", 0), Some(1));
    assert_eq!(t.report().subscriptions[0].settled, 2);
    t.broker().confirm("dlq");
    t.settled().await;
    assert_eq!(t.position("orders", 0), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_fails_is_made_again_and_then_the_app_stops() {
    let t = start(|broker| broker.mount(bill.retry(RetryPolicy::attempts(3)))).await;
    t.broker().refuse("dlq", 2, Kind::TimedOut);
    t.publish("orders", &11).unwrap();
    t.settled().await;
    assert_eq!(t.broker().records("dlq").len(), 1);
    t.broker().refuse("dlq", 3, Kind::TimedOut);
    t.publish("orders", &11).unwrap();
    let broker = t.broker().clone();
    let error = t.stopped().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    insta::assert_snapshot!(error, @"subscription bill stopped at orders/0 offset 1: its dead letter was not confirmed in 3 attempts; the record is not committed and comes again: fix the cause and restart");
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
    assert_eq!(broker.records("dlq").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_in_a_row_stop_instead_of_draining_the_topic() {
    let limit = DeadLetterLimit::none().consecutive(3);
    let t = start(|broker| broker.mount(bill.dead_letter_limit(limit))).await;
    for order in [11, 11, 1, 11, 11, 11, 11, 11] {
        t.publish("orders", &order).unwrap();
    }
    let broker = t.broker().clone();
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(error, @"subscription bill stopped at orders/0 offset 6: 3 deliveries one after another were dead-lettered to dlq, which is the limit, and this one failed, too (never); the record is not committed and comes again: fix the cause and restart, or raise the limit with .dead_letter_limit(..)");
    assert_eq!(broker.records("dlq").len(), 5);
    assert_eq!(broker.position("billing", "orders", 0), Some(6));
}

#[tokio::test(start_paused = true)]
async fn too_many_of_many_stop_too() {
    let limit = DeadLetterLimit::none().share(2, 5);
    let t = start(|broker| broker.mount(bill.dead_letter_limit(limit))).await;
    for order in [1, 11, 2, 11, 3, 4, 11, 5, 11, 11] {
        t.publish("orders", &order).unwrap();
    }
    let broker = t.broker().clone();
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(error, @"subscription bill stopped at orders/0 offset 9: 2 of 5 deliveries were dead-lettered to dlq, which is the limit, and this one failed, too (never); the record is not committed and comes again: fix the cause and restart, or raise the limit with .dead_letter_limit(..)");
    assert_eq!(broker.records("dlq").len(), 4);
    assert_eq!(broker.position("billing", "orders", 0), Some(9));
}

#[subscriber("orders")]
async fn refuse(_: u64) -> Outcome {
    Outcome::DeadLetter
}

#[tokio::test(start_paused = true)]
async fn without_a_topic_for_them_there_are_none_and_the_app_stops() {
    let t = start(|broker| broker.mount(refuse)).await;
    t.publish("orders", &1).unwrap();
    let error = t.stopped().await.unwrap_err();
    insta::assert_snapshot!(error, @r#"subscription refuse stopped at orders/0 offset 0: its handler asked for a dead letter, and there is no topic for it (add .dead_letter("topic")); the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it"#);
}

#[tokio::test(start_paused = true)]
async fn topics_that_do_not_exist_are_reported_at_the_start() {
    let app = RustStream::new("billing").broker(MemoryBroker::new(), |broker| broker.mount(bill));
    let broker = MemoryBroker::new();
    broker.create_topic("orders", 1).unwrap();
    let error = TestApp::start_on(app, broker).await.unwrap_err();
    insta::assert_snapshot!(error, @r#"
    the app cannot start, 1 problem
      - subscription bill: topic dlq does not exist: create it with `create_topic`, or use `auto_create`
    "#);
}
