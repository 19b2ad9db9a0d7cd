//! Real nodes. Each test has a cluster of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{ClientConfig, Message as _};
use ruststream_kafka_cluster::{Cluster, ErrorKind, Node};

const LIMIT: Duration = Duration::from_secs(60);

fn produce(cluster: &Cluster, topic: &str, values: &[&str]) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap())
        .set("acks", "all")
        .create()
        .unwrap();
    for value in values {
        producer
            .send(BaseRecord::<(), _>::to(topic).partition(0).payload(*value))
            .unwrap();
    }
    producer.flush(LIMIT).unwrap();
}

/// Joins a new group and reads `count` records.
fn consume(cluster: &Cluster, topic: &str, group: &str, count: usize) -> Vec<String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap())
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let deadline = Instant::now() + LIMIT;
    let mut values = Vec::new();
    while values.len() < count {
        assert!(Instant::now() < deadline, "only {values:?}");
        // Errors are those of nodes that are down.
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            values.push(String::from_utf8(message.payload().unwrap().to_vec()).unwrap());
        }
    }
    values
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn one_node_serves_topics_and_its_first_group_does_not_wait() {
    let cluster = Cluster::start(1).unwrap();
    cluster.create_topic("orders", 4, 1).unwrap();
    assert_eq!(cluster.leader("orders", 3).unwrap(), 1);
    assert_eq!(cluster.leader("orders", 4).unwrap_err().kind(), ErrorKind::State);
    produce(&cluster, "orders", &["a", "b"]);

    let began = Instant::now();
    assert_eq!(consume(&cluster, "orders", "first", 2), ["a", "b"]);
    let waited = began.elapsed();
    assert!(waited < Duration::from_millis(2500), "{waited:?}");

    assert_eq!(
        cluster.create_topic("orders", 4, 1).unwrap_err().kind(),
        ErrorKind::Admin
    );
    cluster.add_partitions("orders", 6).unwrap();
    assert_eq!(cluster.leader("orders", 5).unwrap(), 1);
    cluster.delete_topic("orders").unwrap();
    assert_eq!(cluster.leader("orders", 0).unwrap_err().kind(), ErrorKind::State);
    cluster
        .create_topic_with("orders", 1, 1, &[("max.message.bytes", "1000")])
        .unwrap();
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn a_node_that_was_killed_or_terminated_comes_back_with_its_data() {
    let cluster = Cluster::start(1).unwrap();
    let address = cluster.node(1).unwrap().address();
    cluster.create_topic("orders", 1, 1).unwrap();
    produce(&cluster, "orders", &["a"]);

    cluster.kill(1).unwrap();
    assert!(!cluster.is_running(1));
    assert_eq!(cluster.kill(1).unwrap_err().kind(), ErrorKind::State);
    cluster.restart(1).unwrap();
    assert_eq!(cluster.restart(1).unwrap_err().kind(), ErrorKind::State);
    assert_eq!(cluster.node(1).unwrap().address(), address);
    assert_eq!(consume(&cluster, "orders", "after kill", 1), ["a"]);

    cluster.terminate(1).unwrap();
    assert!(!cluster.is_running(1));
    cluster.restart(1).unwrap();
    assert_eq!(consume(&cluster, "orders", "after terminate", 1), ["a"]);
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn a_frozen_node_answers_nothing_until_it_is_thawed() {
    let cluster = Cluster::start(1).unwrap();
    cluster.create_topic("orders", 1, 1).unwrap();
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap())
        .create()
        .unwrap();
    client.fetch_metadata(None, LIMIT).unwrap();

    cluster.freeze(1).unwrap();
    assert!(cluster.is_running(1));
    assert!(client.fetch_metadata(None, Duration::from_millis(500)).is_err());
    cluster.thaw(1).unwrap();
    client.fetch_metadata(None, LIMIT).unwrap();

    cluster.freeze(1).unwrap();
    let began = Instant::now();
    drop(cluster);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "a frozen node is ended as well"
    );
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn three_nodes_survive_the_loss_of_one() {
    let cluster = Cluster::start(3).unwrap();
    cluster
        .create_topic_with("orders", 1, 3, &[("min.insync.replicas", "2")])
        .unwrap();
    produce(&cluster, "orders", &["a"]);
    let leader = cluster.leader("orders", 0).unwrap();

    cluster.kill(leader).unwrap();
    produce(&cluster, "orders", &["b"]);
    assert_eq!(consume(&cluster, "orders", "two nodes", 2), ["a", "b"]);
    assert_ne!(cluster.leader("orders", 0).unwrap(), leader);

    cluster.restart(leader).unwrap();
    assert!(cluster.nodes().iter().all(Node::is_running));
    cluster.create_topic("invoices", 3, 3).unwrap();
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn a_node_with_impossible_settings_is_an_error_with_its_log() {
    let error = Cluster::builder()
        .property("process.roles", "nonsense")
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Start);
    assert!(error.to_string().contains("nonsense"), "{error}");
}
