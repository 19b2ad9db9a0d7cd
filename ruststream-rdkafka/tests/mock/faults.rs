//! Errors in place of records, and clients that fail.

use std::time::Duration;

use ruststream::ErrorKind;
use ruststream::broker::{Broker, Delivery, End, Partition, Subscription};
use ruststream_rdkafka::ApiKey;
use tokio::time::timeout;

use crate::support::*;

/// Kafka's numbers.
const UNKNOWN_SERVER_ERROR: i16 = -1;
const OFFSET_OUT_OF_RANGE: i16 = 1;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const FENCED_MEMBER_EPOCH: i16 = 110;
const UNRELEASED_INSTANCE_ID: i16 = 111;

/// librdkafka overlooks an error in the response with which it first reaches the end of a partition.
const AT_LEAST_ONE: usize = 2;

/// Without the work-around the record is skipped: see `native/issue_4844.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_error_before_a_rebalance_skips_no_record() {
    let topic = "fails-before-more";
    let broker = cluster(topic, 2).await.set("fetch.error.backoff.ms", "300");
    for partition in 0..2 {
        produce(&broker, topic, partition, 0..10);
    }
    let mut first = Member::join(&broker, topic).await;
    first.records(20).await;

    // Both partitions get errors at offset 10: the first is answered by a seek, the others wait.
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::Fetch, UNKNOWN_SERVER_ERROR, 10);
    logged(&["a fetch failed", topic, "partition=0", "offset=10"]).await;
    logged(&["a fetch failed", topic, "partition=1", "offset=10"]).await;
    // A second member joins: librdkafka pauses both partitions, takes one away and resumes the other.
    let mut second = Member::join(&broker, topic).await;
    let kept = 1 - assigned_one(&mut second).await;
    produce(&broker, topic, kept, 10..13);
    let records = first.records(3).await;
    assert_eq!(records, (10..13).map(|n| (kept, n, n as u64)).collect::<Vec<_>>());
    second.close().await.unwrap();
    first.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_error_before_a_rebalance_skips_no_record_even_if_it_is_the_last() {
    let topic = "fails-at-the-last";
    let broker = cluster(topic, 2).await.set("fetch.error.backoff.ms", "300");
    for partition in 0..2 {
        produce(&broker, topic, partition, 0..10);
    }
    let mut first = Member::join(&broker, topic).await;
    first.records(20).await;
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::Fetch, UNKNOWN_SERVER_ERROR, 10);
    for partition in ["partition=0", "partition=1"] {
        logged(&["a fetch failed", topic, partition, "offset=10"]).await;
    }
    // It is there before librdkafka forgets its place, and nothing comes after it.
    for partition in 0..2 {
        produce(&broker, topic, partition, [10]);
    }
    let mut second = Member::join(&broker, topic).await;
    let kept = 1 - assigned_one(&mut second).await;
    let mut records = first.records(1).await;
    while records.last().is_some_and(|(partition, ..)| *partition != kept) {
        records = first.records(1).await; // from before the rebalance
    }
    assert_eq!(records, [(kept, 10, 10)]);
    second.close().await.unwrap();
    first.close().await.unwrap();
}

async fn assigned_one(member: &mut Member) -> i32 {
    loop {
        if let Seen::Assigned(partition) = member.next().await {
            return partition;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_heal_are_ridden_out_and_nothing_is_lost() {
    let broker = cluster("orders", 1).await.set("fetch.error.backoff.ms", "10");
    produce(&broker, "orders", 0, 0..100);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 100).await;
    for round in 1..4 {
        broker
            .cluster()
            .unwrap()
            .fail_next(ApiKey::Fetch, UNKNOWN_SERVER_ERROR, 5);
        produce(&broker, "orders", 0, round * 100..(round + 1) * 100);
        let again = take(&mut partition, 100).await;
        assert_eq!(
            offsets(&again),
            (round as i64 * 100..(round as i64 + 1) * 100).collect::<Vec<_>>()
        );
    }
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_only_a_person_can_heal_ends_the_partition_with_the_remedy() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 10).await;
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::Fetch, TOPIC_AUTHORIZATION_FAILED, 100);
    let Step::Failed(error) = timeout(SOON, step(&mut partition)).await.unwrap() else {
        panic!("no error")
    };
    assert_eq!(error.kind(), ErrorKind::Broker);
    let text = error.to_string();
    assert!(
        text.starts_with("partition 0 of topic orders cannot be read ("),
        "{text}"
    );
    assert!(text.ends_with("grant this user `Read` on the topic"), "{text}");
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_out_of_range_stops_where_the_user_asked_for_it() {
    let broker = cluster("orders", 1).await.set("auto.offset.reset", "error");
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    // There is no position at all yet.
    let Step::Failed(error) = timeout(SOON, step(&mut partition)).await.unwrap() else {
        panic!("no error")
    };
    assert!(
        error
            .to_string()
            .contains("`auto.offset.reset=error` says to stop"),
        "{error}"
    );
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_out_of_range_starts_over_by_default() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 10).await;
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::Fetch, OFFSET_OUT_OF_RANGE, AT_LEAST_ONE);
    // Everything that is still there comes again, in order.
    assert_eq!(
        offsets(&take(&mut partition, 10).await),
        (0..10).collect::<Vec<_>>()
    );
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_fenced_loses_its_partitions_and_joins_again() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 10).await;
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::ConsumerGroupHeartbeat, FENCED_MEMBER_EPOCH, 1);
    assert_eq!(end(&mut partition).await, End::Lost);
    assert!(
        partition.store(10).is_err(),
        "another member may own the partition"
    );
    drop(partition);
    // Nothing was settled, so everything comes again.
    let mut again = accept(&mut subscription).await;
    assert_eq!(offsets(&take(&mut again, 10).await), (0..10).collect::<Vec<_>>());
    drop(again);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_fails_for_good_says_so_to_its_subscription() {
    let broker = cluster("orders", 1).await.group_instance_id("pod-1");
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::ConsumerGroupHeartbeat, UNRELEASED_INSTANCE_ID, 1);
    let error = timeout(SOON, subscription.accept()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Broker);
    assert!(
        error.to_string().contains("the client failed for good"),
        "{error}"
    );
    assert_eq!(end(&mut partition).await, End::Lost);
    drop(partition);
    let error = timeout(SOON, subscription.close(soon()))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("positions may not be committed"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_may_not_be_joined_is_an_error_with_the_remedy() {
    let broker = cluster("orders", 1).await;
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::ConsumerGroupHeartbeat, GROUP_AUTHORIZATION_FAILED, 100);
    let mut subscription = broker
        .subscribe(vec![request("orders")])
        .await
        .unwrap()
        .pop()
        .unwrap();
    let error = timeout(SOON, subscription.accept()).await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("grant this user `Read` on the group"),
        "{error}"
    );
    let _ = timeout(SOON, subscription.close(soon())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_comes_back_is_consumed_on() {
    let broker = cluster("orders", 1).await.set("reconnect.backoff.max.ms", "200");
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 10).await;
    broker.cluster().unwrap().stop_broker();
    assert!(
        timeout(Duration::from_millis(300), step(&mut partition))
            .await
            .is_err(),
        "nothing can come"
    );
    broker.cluster().unwrap().start_broker();
    produce(&broker, "orders", 0, 10..20);
    let taken = take(&mut partition, 10).await;
    assert_eq!(
        taken.iter().map(Delivery::offset).collect::<Vec<_>>(),
        (10..20).collect::<Vec<_>>()
    );
    drop((partition, taken));
    subscription.close(soon()).await.unwrap();
}
