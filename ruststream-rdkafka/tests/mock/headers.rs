//! What is in a record: headers, null and empty.

use std::time::{Duration, SystemTime};

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer};
use ruststream::broker::{Delivery, Subscription};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_keep_their_order_repeat_and_tell_null_from_empty() {
    let broker = cluster("orders", 1).await;
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "trace",
            value: Some("a"),
        })
        .insert(Header {
            key: "Trace",
            value: Some("b"),
        })
        .insert(Header {
            key: "trace",
            value: None::<&str>,
        })
        .insert(Header {
            key: "empty",
            value: Some(""),
        })
        .insert(Header {
            key: "",
            value: Some("no name"),
        });
    let producer = producer(&broker);
    producer
        .send(BaseRecord::<str, str>::to("orders").payload("1").headers(headers))
        .map_err(|(e, _)| e)
        .unwrap();
    producer
        .send(BaseRecord::<str, str>::to("orders").payload("2"))
        .map_err(|(e, _)| e)
        .unwrap();
    producer.flush(SOON).unwrap();

    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let taken = take(&mut partition, 2).await;
    let headers = taken[0].headers();
    let all: Vec<_> = headers.iter().collect();
    assert_eq!(
        all,
        [
            ("trace", Some(&b"a"[..])),
            ("Trace", Some(b"b")),
            ("trace", None),
            ("empty", Some(b"")),
            ("", Some(b"no name")),
        ]
    );
    // Reading again yields the same; a record without headers has none.
    assert_eq!(taken[0].headers(), headers);
    assert!(taken[1].headers().is_empty());
    drop(headers);
    drop((partition, taken));
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_threads_may_read_the_headers_of_one_delivery() {
    let broker = cluster("orders", 1).await;
    let producer = producer(&broker);
    for number in 0..200 {
        let value = number.to_string();
        let headers = OwnedHeaders::new().insert(Header {
            key: "n",
            value: Some(&value),
        });
        let record = BaseRecord::<str, str>::to("orders")
            .payload(&value)
            .headers(headers);
        producer.send(record).map_err(|(e, _)| e).unwrap();
    }
    producer.flush(SOON).unwrap();
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let taken = take(&mut partition, 200).await;
    let read = || {
        let mut deliveries = taken.iter();
        assert!(deliveries.all(|delivery| delivery.headers().get("n") == Some(delivery.payload())));
    };
    std::thread::scope(|threads| (0..4).for_each(|_| drop(threads.spawn(read))));
    drop((partition, taken));
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_and_empty_keys_and_payloads_are_different_things() {
    let broker = cluster("orders", 1).await;
    let producer = producer(&broker);
    for (key, payload) in [(Some("k"), Some("p")), (Some(""), Some("")), (None, None)] {
        let mut record = BaseRecord::<str, str>::to("orders").partition(0);
        record.key = key;
        record.payload = payload;
        producer.send(record).map_err(|(e, _)| e).unwrap();
    }
    producer.flush(SOON).unwrap();
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let taken = take(&mut partition, 3).await;
    let found: Vec<_> = taken
        .iter()
        .map(|delivery| (delivery.key(), delivery.payload()))
        .collect();
    assert_eq!(
        found,
        [
            (Some(&b"k"[..]), Some(&b"p"[..])),
            (Some(b""), Some(b"")),
            (None, None)
        ]
    );
    drop((partition, taken));
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_says_where_it_stands_and_when_it_was_made() {
    let broker = cluster("orders", 3).await;
    let producer = producer(&broker);
    let made = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let record = BaseRecord::<str, str>::to("orders")
        .partition(2)
        .payload("1")
        .timestamp(1_700_000_000_123);
    producer.send(record).map_err(|(e, _)| e).unwrap();
    producer.flush(SOON).unwrap();
    let mut subscription = subscribe(&broker, "orders").await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(accept(&mut subscription).await);
    }
    held.sort_by_key(ruststream::broker::Partition::index);
    let taken = take(&mut held[2], 1).await;
    let delivery = &taken[0];
    assert_eq!(
        (delivery.topic(), delivery.partition(), delivery.offset()),
        ("orders", 2, 0)
    );
    assert_eq!(delivery.timestamp(), Some(made));
    assert_eq!(
        format!("{delivery:?}"),
        r#"KafkaDelivery { topic: "orders", partition: 2, offset: 0, .. }"#
    );
    drop((held, taken));
    subscription.close(soon()).await.unwrap();
}
