//! Closing, in order and otherwise.

use std::time::Duration;

use ruststream::ErrorKind;
use ruststream::broker::{Broker, End, Partition, StoreError, SubscribeRequest, Subscription};
use tokio::time::{Instant, timeout};

use crate::support::*;

fn within(time: Duration) -> Instant {
    Instant::now() + time
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_owns_nothing_closes_at_once() {
    let broker = cluster("orders", 1).await;
    let mut first = subscribe(&broker, "orders").await;
    let partition = accept(&mut first).await;
    let second = subscribe(&broker, "orders").await;
    let begun = Instant::now();
    assert_eq!(second.close(soon()).await.unwrap(), []);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(partition);
    first.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_does_not_delay_a_close() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..20_000);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 100).await;
    partition.store(100).unwrap();
    let begun = Instant::now();
    let closing = spawn(subscription.close(soon()));
    assert_eq!(end(&mut partition).await, End::Closed);
    // Settling goes on while draining.
    partition.store(101).unwrap();
    drop(partition);
    let committed = closing.await.unwrap().unwrap();
    assert_eq!(by_partition(&committed)[&0], 101);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_never_dropped_costs_the_deadline_and_not_the_positions_of_others() {
    let broker = cluster("orders", 2).await;
    for partition in 0..2 {
        produce(&broker, "orders", partition, 0..10);
    }
    let mut subscription = subscribe(&broker, "orders").await;
    let mut zombie = accept(&mut subscription).await;
    let mut other = accept(&mut subscription).await;
    take(&mut other, 10).await;
    other.store(10).unwrap();
    let index = other.index();
    drop(other);
    let deadline = Duration::from_secs(2);
    let begun = Instant::now();
    let committed = timeout(SOON, subscription.close(within(deadline)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(by_partition(&committed)[&index], 10);
    assert!(
        begun.elapsed() <= deadline + Duration::from_millis(250),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(zombie.store(5), Err(StoreError));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_went_down_costs_the_deadline_and_is_reported() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..10);
    let mut subscription = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut subscription).await;
    take(&mut partition, 10).await;
    broker.cluster().unwrap().stop_broker();
    partition.store(10).unwrap();
    drop(partition);
    let deadline = Duration::from_secs(2);
    let begun = Instant::now();
    let error = timeout(SOON, subscription.close(within(deadline)))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Broker);
    assert!(error.to_string().contains("may not be committed"), "{error}");
    assert!(
        begun.elapsed() <= deadline + Duration::from_millis(500),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_everything_leaves_the_group_in_the_background() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..10);
    let mut first = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut first).await;
    take(&mut partition, 10).await;
    partition.store(7).unwrap();
    let begun = Instant::now();
    drop((first, partition));
    assert!(
        begun.elapsed() < Duration::from_millis(500),
        "{:?}",
        begun.elapsed()
    );
    // The next member gets the partition, at the position that was stored.
    let mut second = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut second).await;
    assert_eq!(offsets(&take(&mut partition, 3).await), [7, 8, 9]);
    drop(partition);
    second.close(soon()).await.unwrap();
}

#[test]
fn a_runtime_that_ends_early_is_not_held_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (subscription, partition) = runtime.block_on(async {
        let broker = cluster("orders", 1).await;
        produce(&broker, "orders", 0, 0..10);
        let mut subscription = subscribe(&broker, "orders").await;
        let mut partition = accept(&mut subscription).await;
        take(&mut partition, 10).await;
        (subscription, partition)
    });
    let begun = std::time::Instant::now();
    drop(runtime);
    drop((subscription, partition));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_of_one_group_share_a_client_and_close_together() {
    let broker = cluster("orders", 1).await;
    broker.create_topic("audit", 1).await.unwrap();
    produce(&broker, "orders", 0, 0..10);
    produce(&broker, "audit", 0, 0..10);
    let requests = ["orders", "audit"].map(|topic| SubscribeRequest::new(topic, topic, GROUP));
    let mut subscriptions = broker.subscribe(requests.into()).await.unwrap();
    let mut audit = subscriptions.pop().unwrap();
    let mut orders = subscriptions.pop().unwrap();
    let mut order = accept(&mut orders).await;
    let mut entry = accept(&mut audit).await;
    assert_eq!((order.topic(), entry.topic()), ("orders", "audit"));

    // The first to close ends its own partitions only, and waits for the other.
    take(&mut order, 10).await;
    let first = spawn(orders.close(soon()));
    assert_eq!(end(&mut order).await, End::Closed);
    order.store(10).unwrap();
    drop(order);
    take(&mut entry, 10).await;
    entry.store(5).unwrap();
    drop(entry);
    assert!(!first.is_finished());
    let second = audit.close(soon()).await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert_eq!(
        first
            .iter()
            .map(|c| (c.topic.as_str(), c.offset))
            .collect::<Vec<_>>(),
        [("orders", 10)]
    );
    assert_eq!(
        second
            .iter()
            .map(|c| (c.topic.as_str(), c.offset))
            .collect::<Vec<_>>(),
        [("audit", 5)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_close_is_asked_for_no_partition_is_handed_out() {
    let broker = cluster("orders", 1).await;
    broker.create_topic("audit", 1).await.unwrap();
    let requests = ["orders", "audit"].map(|topic| SubscribeRequest::new(topic, topic, GROUP));
    let mut subscriptions = broker.subscribe(requests.into()).await.unwrap();
    drop(subscriptions.remove(0));
    let mut audit = subscriptions.remove(0);
    let entry = accept(&mut audit).await;
    drop(entry);
    audit.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_down_before_the_group_was_joined_costs_the_deadline_and_no_more() {
    let broker = cluster("orders", 1).await;
    let subscription = subscribe(&broker, "orders").await;
    broker.cluster().unwrap().stop_broker();
    let begun = Instant::now();
    // Nothing was stored: whether that is a success depends on how far the join got.
    let _ = timeout(SOON, subscription.close(within(Duration::from_secs(1))))
        .await
        .unwrap();
    assert!(
        begun.elapsed() <= Duration::from_millis(1_500),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_whose_neighbour_stays_open_says_so_at_its_deadline() {
    let broker = cluster("orders", 1).await;
    broker.create_topic("audit", 1).await.unwrap();
    let requests = ["orders", "audit"].map(|topic| SubscribeRequest::new(topic, topic, GROUP));
    let mut subscriptions = broker.subscribe(requests.into()).await.unwrap();
    let audit = subscriptions.pop().unwrap();
    let orders = subscriptions.pop().unwrap();
    let error = timeout(SOON, orders.close(within(Duration::from_millis(300))))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(
        error
            .to_string()
            .contains("other subscriptions of the group stayed open"),
        "{error}"
    );
    audit.close(soon()).await.unwrap();
}
