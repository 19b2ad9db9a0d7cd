//! What every publisher has from the contract: `publish`, `send_all`; and what a service sees of the memory broker's.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use ruststream::broker::Delivery;
use ruststream::memory::MemoryBroker;
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{ErrorKind, PublishErrorKind};

fn numbers(range: std::ops::Range<u32>) -> impl Iterator<Item = Record> + Clone {
    range.map(|number| Record::new("orders", number.to_string()))
}

#[tokio::test]
async fn send_all_takes_more_than_it_has_under_way() {
    let broker = MemoryBroker::new().auto_create(1);
    let sent = broker.publisher().send_all(numbers(0..10_000)).await;
    assert_eq!(sent.unwrap(), 10_000);
    assert_eq!(broker.records("orders").len(), 10_000);
}

#[tokio::test]
async fn send_all_stops_at_the_first_failure_and_leaves_the_rest() {
    let broker = MemoryBroker::new();
    broker.create_topic("orders", 1).unwrap();
    let bad = Record::new("nowhere", "bad");
    let mut records = numbers(0..3).chain([bad.clone()]).chain(numbers(3..6));
    let error = broker.publisher().send_all(&mut records).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 records were not confirmed, after 3 that were"
    );
    assert_eq!(error.confirmed, 3);
    let failed = error.failed.into_iter().next().unwrap();
    assert_eq!(failed.kind(), PublishErrorKind::UnknownTopic);
    assert_eq!(failed.into_record(), Some(bad));
    assert_eq!(records.count(), 3);
    assert_eq!(broker.records("orders").len(), 3);
}

#[tokio::test]
async fn a_publish_error_becomes_the_error_that_main_returns() {
    let publisher = MemoryBroker::new().publisher();
    let error = publisher.publish(Record::tombstone("orders")).await.unwrap_err();
    let error = ruststream::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::Broker);
    assert_eq!(
        format!("{error:?}"),
        "a record was not published\n  caused by: topic orders does not exist: create it with `create_topic`, or use \
         `auto_create`"
    );
}

#[subscriber("orders")]
async fn bill(_order: &[u8], State(publisher): State<'_, ruststream::memory::MemoryPublisher>) {
    publisher
        .publish(Record::new("invoices", "billed"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_handler_publishes_through_a_publisher_in_the_state() {
    let broker = MemoryBroker::new().auto_create(1);
    let app = RustStream::new("billing")
        .state(broker.publisher())
        .broker(broker.clone(), |broker| broker.mount(bill));
    let t = TestApp::start_on(app, broker.clone()).await.unwrap();
    broker
        .publisher()
        .publish(Record::new("orders", "one"))
        .await
        .unwrap();
    t.settled().await;
    let invoices = broker.records("invoices");
    assert_eq!(invoices.first().unwrap().payload(), Some(&b"billed"[..]));
    t.stop().await.unwrap();
}
