//! What becomes of records that are refused, and of a client that fails: each error is typed, and has the record.

use std::time::SystemTime;

use ruststream::broker::Publisher;
use ruststream::{PublishErrorKind as Kind, Record};
use ruststream_rdkafka::ApiKey;
use tokio::time::timeout;

use crate::publish::{publishes_again, record, resolved, rich};
use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_topic_is_an_error_with_the_record() {
    let broker = cluster("orders", 1)
        .await
        .set_producer("allow.auto.create.topics", "false")
        .set_producer("topic.metadata.propagation.max.ms", "300");
    let publisher = broker.publisher().unwrap();
    let lost = Record::new("ordres", "{}").key("ada").header("trace", "a");
    for _ in 0..2 {
        let published = timeout(SOON, publisher.publish(lost.clone())).await.unwrap();
        let error = published.unwrap_err();
        assert_eq!(error.kind(), Kind::UnknownTopic, "{error}");
        assert!(!error.may_be_persisted());
        assert_eq!(error.into_record(), Some(lost.clone()));
    }
    publisher
        .publish(record(0))
        .await
        .expect("other topics are not held up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_too_large_is_handed_back_at_once() {
    let broker = cluster("orders", 1).await;
    let publisher = broker.publisher().unwrap();
    let large = Record::new("orders", vec![0; 1_000_001]);
    let error = publisher.send(large.clone()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge, "{error}");
    assert_eq!(error.into_record(), Some(large));
    assert_eq!(publisher.unconfirmed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_refuses_is_typed_and_comes_back() {
    let broker = cluster("orders", 1).await;
    for (code, kind) in [
        (10, Kind::TooLarge),
        (87, Kind::Invalid),
        (29, Kind::Unauthorized),
    ] {
        let publisher = broker.publisher().unwrap();
        publisher.publish(record(0)).await.unwrap();
        broker.cluster().unwrap().fail_next(ApiKey::Produce, code, 1);
        let published = timeout(SOON, publisher.publish(rich())).await.unwrap();
        let error = published.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.may_be_persisted());
        assert_eq!(error.into_record(), Some(rich()));
        publishes_again(&publisher).await;
    }
}

/// Kafka's code 45: out of order sequence number. With nothing else under way the client cannot tell what happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_failed_for_good_says_why() {
    let broker = cluster("orders", 1).await;
    let publisher = broker.publisher().unwrap();
    publisher.publish(record(0)).await.unwrap();
    broker.cluster().unwrap().fail_next(ApiKey::Produce, 45, 1);
    let published = timeout(SOON, publisher.publish(rich())).await.unwrap();
    let first = published.unwrap_err();
    assert!(first.may_be_persisted(), "{first}");
    assert_eq!(first.into_record(), Some(rich()));
    let error = publisher.send(rich()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Fatal, "{error}");
    let text = error.to_string();
    assert!(text.contains("sequence desynchronization"), "{text}");
    assert!(
        text.ends_with("this publisher cannot send any more: make another one"),
        "{text}"
    );
    assert_eq!(error.into_record(), Some(rich()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_full_by_bytes_is_waited_for_and_a_record_that_never_fits_is_refused() {
    // 1 MiB, while each record has 300 kB.
    let broker = cluster("orders", 1)
        .await
        .set_producer("queue.buffering.max.kbytes", "1024")
        .set_producer("message.max.bytes", "4000000");
    let publisher = broker.publisher().unwrap();
    let large = |size| Record::new("orders", vec![0; size]).to_partition(0);
    let mut receipts = Vec::new();
    for _ in 0..12 {
        let sent = timeout(SOON, publisher.send(large(300_000))).await;
        receipts.push(sent.expect("room").unwrap());
    }
    for receipt in receipts {
        resolved(receipt).await.unwrap();
    }
    let error = timeout(SOON, publisher.send(large(2_000_000)))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge, "{error}");
    assert_eq!(error.into_record(), Some(large(2_000_000)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_broker_could_take_is_refused_at_once() {
    let broker = cluster("orders", 1).await;
    let publisher = broker.publisher().unwrap();
    let impossible = [
        Record::new("no spaces allowed", ""),
        Record::new("", ""),
        Record::new("or\0ders", ""),
        Record::new("orders", "").to_partition(-1),
        Record::new("orders", "").header("a\0b", ""),
        Record::new("orders", "").at(SystemTime::UNIX_EPOCH),
    ];
    for record in impossible {
        let error = publisher.send(record.clone()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert_eq!(error.into_record(), Some(record));
    }
}

/// Kafka's code 47: the broker knows a later epoch of the producer's id. librdkafka takes the next one and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_whose_place_was_taken_says_so() {
    let broker = cluster("orders", 1).await;
    let publisher = broker.publisher().unwrap();
    publisher.publish(record(0)).await.unwrap();
    broker.cluster().unwrap().fail_next(ApiKey::Produce, 47, 1);
    let published = timeout(SOON, publisher.publish(rich())).await.unwrap();
    let error = published.unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced, "{error}");
    assert!(!error.may_be_persisted());
    let text = error.to_string();
    assert!(
        text.ends_with("another producer took this publisher's place: make another one"),
        "{text}"
    );
    assert_eq!(error.into_record(), Some(rich()));
    publishes_again(&publisher).await;
}

/// Kafka's codes 31 (the user may not be an idempotent producer), 47 and 90 (fenced).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_fails_before_it_sends_names_the_cause_for_what_waits_and_what_comes() {
    for (code, kind) in [(31, Kind::Unauthorized), (47, Kind::Fenced), (90, Kind::Fenced)] {
        let broker = cluster("orders", 1).await;
        broker
            .cluster()
            .unwrap()
            .fail_next(ApiKey::InitProducerId, code, 1);
        let publisher = broker.publisher().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..100 {
            waiting.push(publisher.send(rich()).await.unwrap());
        }
        let mut errors = Vec::new();
        for receipt in waiting {
            errors.push(resolved(receipt).await.unwrap_err());
        }
        errors.push(publisher.send(rich()).await.unwrap_err());
        for error in errors {
            let text = error.to_string();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(!error.may_be_persisted());
            assert!(text.contains("Failed to acquire idempotence PID"), "{text}");
            assert!(
                text.ends_with("this publisher cannot send any more: make another one"),
                "{text}"
            );
            assert_eq!(error.into_record(), Some(rich()));
        }
    }
}
