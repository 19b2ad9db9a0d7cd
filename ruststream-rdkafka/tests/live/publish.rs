//! The way out on real nodes: the contract, placement, order and receipts while brokers stop, freeze and come back.

use std::collections::VecDeque;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use ruststream::broker::Publisher;
use ruststream::testing::contract::{Fixture, PublishFixture, TestRecord, publishing_suite, replying_suite};
use ruststream::{Confirmed, ErrorKind, PublishError, PublishErrorKind as Kind, Record};
use ruststream_kafka_cluster::Cluster;
use ruststream_rdkafka::{KafkaBroker, KafkaPublisher, KafkaReceipt};
use tokio::time::{Instant, timeout};

use crate::support::*;

struct Live;

pub(crate) fn kafka(cluster: &Cluster) -> KafkaBroker {
    KafkaBroker::new(cluster.bootstrap())
}

impl Fixture for Live {
    type Broker = KafkaBroker;

    async fn broker(&self) -> KafkaBroker {
        kafka(cluster())
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        blocking(|| cluster().create_topic(topic, partitions, 1).unwrap());
    }

    async fn publish(&self, _: TestRecord) {
        unreachable!("the suite of publishing has a publisher")
    }
}

impl PublishFixture for Live {
    type Publisher = KafkaPublisher;

    async fn publisher(&self) -> KafkaPublisher {
        kafka(cluster()).publisher().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_contract_of_publishing_holds() {
    publishing_suite(&Live).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_contract_of_replying_holds() {
    replying_suite(&Live).await;
}

pub(crate) async fn resolved(receipt: KafkaReceipt) -> Result<Confirmed, PublishError> {
    timeout(SOON, receipt).await.expect("a receipt that resolves")
}

/// A node that a test may break, with a topic.
pub(crate) fn breakable(topic: &str, partitions: i32) -> Cluster {
    blocking(|| {
        let cluster = own_cluster(1);
        cluster.create_topic(topic, partitions, 1).unwrap();
        cluster
    })
}

/// Where Kafka's own client sends `keys`.
fn placed_by_java(topic: &str, keys: &[String]) -> Vec<i32> {
    let arguments = [topic].into_iter().chain(keys.iter().map(String::as_str));
    let output = java(cluster(), "Placement", arguments);
    let placed: Vec<i32> = output.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(placed.len(), keys.len());
    placed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK: just test-kafka"]
async fn keys_go_where_the_java_client_sends_them() {
    const TOPIC: &str = "placement";
    blocking(|| cluster().create_topic(TOPIC, 31, 1).unwrap());
    let publisher = kafka(cluster()).publisher().unwrap();
    let vectors = [
        "21",
        "foobar",
        "a-little-bit-long-string",
        "a-little-bit-longer-string",
    ];
    let more = (0..500).map(|number: usize| "\u{e4}".repeat(number % 7) + &number.to_string());
    let keys: Vec<String> = vectors.map(str::to_owned).into_iter().chain(more).collect();
    let by_java = blocking(|| placed_by_java(TOPIC, &keys));
    for (key, expected) in keys.into_iter().zip(by_java) {
        let record = Record::new(TOPIC, "").key(key.clone());
        let confirmed = timeout(SOON, publisher.publish(record)).await.unwrap().unwrap();
        assert_eq!(confirmed.partition, expected, "{key:?}");
    }
}

/// Every payload of a partition, in order.
pub(crate) fn payloads(bootstrap: &str, topic: &str, partition: i32) -> Vec<u64> {
    let end = end_of(bootstrap, topic, partition);
    blocking(|| {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "reader")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
        consumer.assign(&list).unwrap();
        let mut numbers = Vec::new();
        while (numbers.len() as i64) < end {
            let message = consumer.poll(SOON).expect("a record in time").unwrap();
            let text = std::str::from_utf8(message.payload().unwrap()).unwrap();
            numbers.push(text.parse().unwrap());
        }
        numbers
    })
}

/// Sends numbers to each partition until `done`, with at most 1,000 receipts under way, and returns how many were confirmed.
async fn send_until(
    publisher: &KafkaPublisher,
    topic: &'static str,
    partitions: i32,
    done: impl Fn() -> bool,
) -> u64 {
    let mut under_way = VecDeque::new();
    let mut number = 0;
    while !done() {
        for partition in 0..partitions {
            let record = Record::new(topic, number.to_string()).to_partition(partition);
            under_way.push_back(publisher.send(record).await.unwrap());
        }
        number += 1;
        while under_way.len() > 1_000 {
            let receipt = under_way.pop_front().unwrap();
            resolved(receipt).await.unwrap();
        }
    }
    for receipt in under_way {
        resolved(receipt).await.unwrap();
    }
    number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn order_is_kept_and_nothing_is_doubled_while_the_broker_dies_stops_and_freezes() {
    const PARTITIONS: i32 = 4;
    let cluster = breakable("orders", PARTITIONS);
    let publisher = kafka(&cluster).publisher().unwrap();
    let bootstrap = cluster.bootstrap();
    let faults = std::thread::spawn(move || {
        let pause = |millis| std::thread::park_timeout(Duration::from_millis(millis));
        pause(1_500);
        cluster.kill(1).unwrap();
        cluster.restart(1).unwrap();
        pause(1_500);
        cluster.terminate(1).unwrap();
        cluster.restart(1).unwrap();
        pause(1_500);
        cluster.freeze(1).unwrap();
        pause(2_000);
        cluster.thaw(1).unwrap();
        pause(1_000);
        cluster
    });
    let sent = send_until(&publisher, "orders", PARTITIONS, || faults.is_finished()).await;
    let _cluster = blocking(|| faults.join().unwrap());
    assert!(sent > 100, "{sent} records are too few to say anything");
    for partition in 0..PARTITIONS {
        let found = payloads(&bootstrap, "orders", partition);
        assert!(
            found.iter().copied().eq(0..sent),
            "partition {partition}: {} records of {sent}, in order and once each",
            found.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn closing_and_dropping_resolve_every_receipt_while_the_broker_is_frozen() {
    let cluster = breakable("orders", 1);
    let (closed, dropped) = (
        kafka(&cluster).publisher().unwrap(),
        kafka(&cluster).publisher().unwrap(),
    );
    let record = || Record::new("orders", "").to_partition(0);
    let mut receipts = Vec::new();
    for publisher in [&closed, &dropped] {
        publisher.publish(record()).await.unwrap();
    }
    blocking(|| cluster.freeze(1).unwrap());
    for publisher in [&closed, &dropped] {
        for _ in 0..1_000 {
            receipts.push(publisher.send(record()).await.unwrap());
        }
    }
    let begun = Instant::now();
    drop(dropped);
    let error = closed
        .close(begun + Duration::from_millis(500))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for receipt in receipts {
        let error = resolved(receipt).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Closed, "{error}");
        assert_eq!(error.into_record(), Some(record()));
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    blocking(|| cluster.thaw(1).unwrap());
}
