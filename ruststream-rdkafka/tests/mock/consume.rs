//! Records, positions, settling.

use std::collections::BTreeMap;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use ruststream::broker::{Commit, Delivery, Partition, Subscription};
use ruststream_rdkafka::{KafkaBroker, KafkaDelivery, KafkaPartition};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_is_seen_once_and_in_order() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..5_000);
    let mut member = Member::join(&broker, "orders").await;
    let records = member.records(5_000).await;
    assert!(
        records
            .iter()
            .zip(0..)
            .all(|(&(_, offset, number), i)| offset == i && number == i as u64)
    );
    let committed = member.close().await.unwrap();
    assert_eq!(by_partition(&committed), BTreeMap::from([(0, 5_000)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_partitions_are_seen_once_and_each_in_order() {
    let broker = cluster("orders", 12).await;
    for partition in 0..12 {
        produce(&broker, "orders", partition, 0..200);
    }
    let mut member = Member::join(&broker, "orders").await;
    let mut next = BTreeMap::<i32, i64>::new();
    for (partition, offset, number) in member.records(12 * 200).await {
        let expected = next.entry(partition).or_default();
        assert_eq!(
            (offset, number),
            (*expected, *expected as u64),
            "partition {partition}"
        );
        *expected += 1;
    }
    assert_eq!(next.len(), 12);
    let committed = member.close().await.unwrap();
    assert_eq!(
        by_partition(&committed),
        (0..12).map(|partition| (partition, 200)).collect()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_come_later_wake_the_partition() {
    let broker = cluster("orders", 1).await;
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    for number in 0..5 {
        produce(&broker, "orders", 0, [number]);
        assert_eq!(offsets(&take(&mut partition, 1).await), [number as i64]);
    }
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_member_goes_on_at_the_stored_position_and_sees_unsettled_records_again() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..100);

    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let taken = take(&mut partition, 100).await;
    assert_eq!(taken.len(), 100);
    drop(taken);
    partition.store(40).unwrap();
    drop(partition);
    let committed = subscription.close(soon()).await.unwrap();
    assert_eq!(by_partition(&committed), BTreeMap::from([(0, 40)]));

    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let again = take(&mut partition, 60).await;
    assert_eq!(offsets(&again), (40..100).collect::<Vec<_>>());
    drop((partition, again));
    // Nothing was stored this time: nothing was committed, and the position stays.
    assert_eq!(subscription.close(soon()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_committed_while_the_partition_is_held() {
    let broker = cluster("orders", 1).await.set("auto.commit.interval.ms", "20");
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 10).await;
    partition.store(7).unwrap();

    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("group.id", GROUP);
    let onlooker: BaseConsumer = config.create().unwrap();
    let mut asked = TopicPartitionList::new();
    asked.add_partition("orders", 0);
    let until = soon();
    let committed = || {
        let answer = onlooker.committed_offsets(asked.clone(), SOON).unwrap();
        answer.find_partition("orders", 0).unwrap().offset()
    };
    while committed() != Offset::Offset(7) {
        assert!(tokio::time::Instant::now() < until, "nothing was committed");
    }
    drop(partition);
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_takes_no_more_than_it_was_asked_for() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..20);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let mut seen = std::collections::VecDeque::new();
    while seen.len() < 20 {
        let before = seen.len();
        let poll = std::future::poll_fn(|cx| partition.poll_batch(cx, 3, &mut seen));
        tokio::time::timeout(SOON, poll).await.unwrap().unwrap();
        assert!((1..=3).contains(&(seen.len() - before)));
    }
    assert_eq!(offsets(seen.make_contiguous()), (0..20).collect::<Vec<_>>());
    drop((partition, seen));
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_start_skips_what_was_there_before() {
    let broker = cluster("orders", 1)
        .await
        .start(ruststream_rdkafka::StartPosition::Latest);
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    // The start position is looked up in the background: records are produced until one arrives.
    let first = loop {
        produce(&broker, "orders", 0, [99]);
        let wait = tokio::time::timeout(std::time::Duration::from_millis(200), step(&mut partition));
        if let Ok(Step::Batch(batch)) = wait.await {
            break batch;
        }
    };
    assert!(
        first
            .iter()
            .all(|delivery| delivery.offset() >= 10 && number(delivery) == 99)
    );
    drop((partition, first));
    subscription.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commit_mode_is_told_to_the_runtime() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..3);
    for (broker, mode) in [
        (broker.clone(), Commit::Tracked),
        (broker.commit(Commit::Auto), Commit::Auto),
    ] {
        let mut subscription = subscribe(&broker.group(format!("{mode:?}")), "orders").await;
        let mut partition = accept(&mut subscription).await;
        assert_eq!(partition.commit(), mode);
        // The adapter stores nothing by itself in either mode: the runtime says when.
        assert_eq!(take(&mut partition, 3).await.len(), 3);
        drop(partition);
        assert_eq!(subscription.close(soon()).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_outlives_its_client() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, [7]);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    let kept = take(&mut partition, 1).await.pop().unwrap();
    drop(partition);
    subscription.close(soon()).await.unwrap();
    drop(broker);
    assert_eq!((number(&kept), kept.topic()), (7, "orders"));
}

#[test]
fn deliveries_are_one_pointer_and_cross_threads() {
    fn send<T: Send + 'static>() {}
    fn sync<T: Send + Sync + 'static>() {}
    send::<KafkaPartition>();
    send::<ruststream_rdkafka::KafkaSubscription>();
    sync::<KafkaDelivery>();
    sync::<KafkaBroker>();
    assert_eq!(size_of::<KafkaDelivery>(), 8);
    assert_eq!(size_of::<Option<KafkaDelivery>>(), 8);
}
