//! What is wrong is said before anything is consumed, all at once.

use std::time::Duration;

use ruststream::broker::{Broker, SubscribeRequest, Subscription};
use ruststream_rdkafka::KafkaBroker;
use tokio::time::Instant;

use crate::support::*;

async fn problems(broker: &KafkaBroker, requests: Vec<SubscribeRequest>) -> Vec<String> {
    let problems = broker.subscribe(requests).await.expect_err("problems");
    problems.iter().map(ToString::to_string).collect()
}

fn named(name: &str, topic: &str) -> SubscribeRequest {
    SubscribeRequest::new(name, topic, GROUP)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_topics_duplicates_and_impossible_drain_timeouts_are_reported_together() {
    let broker = cluster("orders", 1).await.set("max.poll.interval.ms", "6000");
    let mut requests = vec![
        named("bill", "orders"),
        named("audit", "ordres"),
        named("slow", "orders"),
        named("odd", "no spaces allowed"),
    ];
    requests[2].drain_timeout = Duration::from_secs(6);
    insta::assert_snapshot!(problems(&broker, requests).await.join("\n"), @r#"
    subscription slow: topic orders is consumed by subscription bill in group billing already, and each record would reach only one of the two: mount this one on a broker with another `.group(..)`
    subscription slow: the drain timeout (6s) reaches `max.poll.interval.ms` (6s), after which the group goes on without this member: shorten the one or raise the other
    subscription audit: topic ordres does not exist: create it, or call `KafkaBroker::create_topic` before the start
    subscription odd: topic no spaces allowed does not exist: create it, or call `KafkaBroker::create_topic` before the start
    "#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_do_not_go_together_are_reported_in_librdkafkas_words() {
    let broker = KafkaBroker::new("localhost:1").set("max.poll.interval.ms", "10000");
    insta::assert_snapshot!(problems(&broker, vec![request("orders")]).await.join("\n"), @r#"Kafka at localhost:1: librdkafka refuses the settings together: `max.poll.interval.ms`must be >= `session.timeout.ms`"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_does_not_answer_is_reported_with_its_address() {
    let broker = cluster("orders", 1)
        .await
        .connect_timeout(Duration::from_millis(400));
    broker.cluster().unwrap().stop_broker();
    let begun = Instant::now();
    let found = problems(&broker, vec![request("orders")]).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let address = broker.bootstrap_servers();
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with(&format!("Kafka at {address}: no broker answered (")),
        "{found:?}"
    );
    assert!(
        found[0].ends_with("check the address, that it is running, and the security settings"),
        "{found:?}"
    );
}

#[tokio::test]
async fn settings_are_refused_without_asking_a_broker() {
    // Nothing listens there, and nothing is asked.
    let broker = KafkaBroker::new("localhost:1")
        .set("enable.auto.offset.store", "true")
        .set("sasl.pasword", "hunter2");
    let found = problems(&broker, vec![named("bill", "orders"), named("audit", "orders")]).await;
    insta::assert_snapshot!(found.join("\n"), @r#"
    Kafka at localhost:1: `enable.auto.offset.store=true` would move positions past records that no handler has seen: remove it; `.commit(Commit::Auto)` stores the position of what is handed to its handler
    Kafka at localhost:1: `sasl.pasword` is refused by librdkafka: No such configuration property: "sasl.pasword"
    subscription audit: topic orders is consumed by subscription bill in group billing already, and each record would reach only one of the two: mount this one on a broker with another `.group(..)`
    "#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_abandoned_leaves_no_member_behind() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..3);
    // Given up at every stage: after each number of polls.
    for polls in 0..6 {
        let mut start = Box::pin(broker.subscribe(vec![request("orders")]));
        for _ in 0..polls {
            if tokio::time::timeout(Duration::from_millis(4), &mut start)
                .await
                .is_ok()
            {
                break;
            }
        }
        drop(start);
    }
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    assert_eq!(offsets(&take(&mut partition, 3).await), [0, 1, 2]);
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_created_once_and_may_exist() {
    let broker = cluster("orders", 3).await;
    broker.create_topic("orders", 3).await.unwrap();
    let error = broker.create_topic("or\0ders", 3).await.unwrap_err();
    assert!(error.to_string().contains("its name holds a NUL"), "{error}");
}

/// A cluster that is only reached over its port has no admin API here: as if this user had no right to create topics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_exists_needs_no_right_to_create_it() {
    let owner = cluster("orders", 3).await;
    let user = KafkaBroker::new(owner.bootstrap_servers());
    user.create_topic("orders", 3).await.unwrap();
    // The client waits for a broker that has it.
    let user = user.connect_timeout(Duration::from_millis(400));
    let error = user.create_topic("ordres", 3).await.unwrap_err();
    let address = owner.bootstrap_servers();
    assert!(
        error
            .to_string()
            .starts_with(&format!("topic ordres was not created on Kafka at {address}: ")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_not_created_without_a_broker_and_that_is_said_in_time() {
    let owner = cluster("orders", 1).await;
    owner.cluster().unwrap().stop_broker();
    let user = KafkaBroker::new(owner.bootstrap_servers()).connect_timeout(Duration::from_millis(400));
    let begun = Instant::now();
    let error = user.create_topic("orders", 1).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(error.to_string().contains("no broker answered ("), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_brokers_group_wins_over_the_apps() {
    let broker = cluster("orders", 1).await.group("mine");
    produce(&broker, "orders", 0, 0..3);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 3).await;
    ruststream::broker::Partition::store(&mut partition, 3).unwrap();
    drop(partition);
    subscription.close(soon()).await.unwrap();
    // Another group starts from the beginning: the position belongs to `mine`.
    let mut subscription = subscribe(&broker.clone().group("other"), "orders").await;
    let mut partition = accept(&mut subscription).await;
    assert_eq!(offsets(&take(&mut partition, 3).await), [0, 1, 2]);
    drop(partition);
    subscription.close(soon()).await.unwrap();
}
