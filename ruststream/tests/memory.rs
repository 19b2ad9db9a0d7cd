//! The memory broker keeps the contract, and lets a test see and move what a broker hides.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use ruststream::ErrorKind;
use ruststream::broker::{
    Broker, Commit, Committed, Delivery, End, Partition, StoreError, SubscribeRequest, Subscription,
};
use ruststream::memory::{
    DRAIN_GRACE, MemoryBroker, MemoryDelivery, MemoryMember, MemoryPartition, MemoryPublisher, MemoryRecord,
    MemorySubscription,
};
use ruststream::testing::contract::{
    Fixture, PublishFixture, TestRecord, contract_suite, publishing_suite, replying_suite,
};
use tokio::time::Instant;

struct Memory(MemoryBroker);

impl Fixture for Memory {
    type Broker = MemoryBroker;

    async fn broker(&self) -> MemoryBroker {
        self.0.clone()
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        self.0.create_topic(topic, partitions).unwrap();
    }

    async fn publish(&self, test: TestRecord) {
        let mut record = MemoryRecord::new(test.topic).partition(test.partition);
        if let Some(key) = test.key {
            record = record.key(key);
        }
        if let Some(payload) = test.payload {
            record = record.payload(payload);
        }
        for (name, value) in test.headers {
            record = match value {
                Some(value) => record.header(name, value),
                None => record.null_header(name),
            };
        }
        self.0.publish(record).unwrap();
    }
}

impl PublishFixture for Memory {
    type Publisher = MemoryPublisher;

    async fn publisher(&self) -> MemoryPublisher {
        self.0.publisher()
    }
}

#[tokio::test]
async fn the_contract_of_publishing_holds() {
    publishing_suite(&Memory(MemoryBroker::new())).await;
}

#[tokio::test]
async fn the_contract_of_replying_holds() {
    replying_suite(&Memory(MemoryBroker::new())).await;
}

#[tokio::test(start_paused = true)]
async fn the_contract_of_replying_holds_while_time_is_paused() {
    replying_suite(&Memory(MemoryBroker::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_of_replying_holds_on_several_threads() {
    replying_suite(&Memory(MemoryBroker::new())).await;
}

#[tokio::test]
async fn the_contract_holds() {
    contract_suite(&Memory(MemoryBroker::new())).await;
}

#[tokio::test(start_paused = true)]
async fn the_contract_holds_while_time_is_paused() {
    contract_suite(&Memory(MemoryBroker::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_on_several_threads() {
    contract_suite(&Memory(MemoryBroker::new())).await;
}

#[test]
fn a_key_always_goes_to_the_same_partition() {
    let broker = broker(4);
    let place = |key: &str| broker.publish(MemoryRecord::new("orders").key(key)).unwrap().0;
    let keys = ["ada", "bob", "cyd", "", "eve"];
    // FNV-1a, as documented: another hash would move the records of tests that exist.
    assert_eq!(keys.map(place), [3, 0, 3, 1, 1]);
    assert_eq!(keys.map(place), [3, 0, 3, 1, 1]);
}

#[test]
fn records_without_a_key_go_to_the_partitions_in_turn() {
    let broker = broker(3);
    let places: Vec<_> = (0..4)
        .map(|_| broker.publish(MemoryRecord::new("orders")).unwrap())
        .collect();
    assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 1)]);
}

#[test]
fn records_are_listed_in_the_order_of_publishing() {
    let broker = broker(2);
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200);
    for (partition, payload) in [(1, "a"), (0, "b"), (1, "c")] {
        broker
            .publish(record(payload).partition(partition).timestamp(noon))
            .unwrap();
    }
    let records = broker.records("orders");
    assert_eq!(records.iter().map(text).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(records.iter().all(|record| record.timestamp() == Some(noon)));
    assert!(broker.records("invoices").is_empty());
}

#[test]
fn a_missing_topic_or_partition_is_an_error_that_says_what_to_do() {
    let broker = broker(2);
    let missing = broker.publish(MemoryRecord::new("invoices")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Broker);
    assert!(
        missing
            .to_string()
            .contains("topic invoices does not exist: create it"),
        "{missing}"
    );
    let outside = broker
        .publish(MemoryRecord::new("orders").partition(2))
        .unwrap_err();
    assert!(outside.to_string().contains("no partition 2"), "{outside}");
    assert!(broker.publish(MemoryRecord::new("orders").partition(-1)).is_err());
    assert!(broker.join("billing", &["orders", "invoices"]).is_err());
}

#[test]
fn a_topic_is_created_once_and_keeps_its_partitions() {
    let broker = broker(2);
    broker.create_topic("orders", 2).unwrap();
    assert!(broker.create_topic("orders", 3).is_err());
    assert!(broker.create_topic("invoices", 0).is_err());
}

#[tokio::test]
async fn auto_create_makes_topics_on_first_use() {
    let broker = MemoryBroker::new().auto_create(2);
    let mut subscription = subscribe(&broker).await;
    let _partitions = accept_all(&mut subscription, 2).await;
    assert_eq!(broker.publish(MemoryRecord::new("invoices")).unwrap(), (0, 0));
}

#[tokio::test]
async fn the_commit_mode_is_that_of_the_broker() {
    let broker = broker(1);
    let mut auto = subscribe(&broker.clone().commit(Commit::Auto)).await;
    assert_eq!(accept(&mut auto).await.commit(), Commit::Auto);
    let mut tracked = subscribe_in(&broker, "audit").await;
    assert_eq!(accept(&mut tracked).await.commit(), Commit::Tracked);
}

#[tokio::test]
async fn all_problems_are_reported_at_once() {
    let broker = broker(1);
    let request = |name: &str, topic: &str| SubscribeRequest::new(name, topic, "billing");
    let requests = vec![
        request("bill", "orders"),
        request("audit", "orders"),
        request("pay", "payments"),
    ];
    let problems = broker.subscribe(requests).await.unwrap_err();
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "subscription audit: subscription bill consumes topic orders in group billing already: use another group",
            "subscription pay: topic payments does not exist: create it with `create_topic`, or use `auto_create`",
        ]
    );
    assert!(
        broker.assignment("billing").is_empty(),
        "nothing consumes after a refusal"
    );
}

#[tokio::test]
async fn gaps_in_the_offsets_are_passed_over() {
    let broker = broker(1);
    broker.publish(record("a")).unwrap();
    broker.skip_offsets("orders", 0, 3).unwrap();
    broker.publish(record("b")).unwrap();
    broker.skip_offsets("orders", 0, 2).unwrap();
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    let offsets: Vec<_> = read(&mut partition).await.iter().map(Delivery::offset).collect();
    assert_eq!(offsets, [0, 4]);
    assert_pending(&mut partition);
    broker.publish(record("c")).unwrap();
    assert_eq!(read(&mut partition).await[0].offset(), 7);
}

#[tokio::test]
async fn a_store_is_committed_at_once() {
    let broker = broker(1);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    assert_eq!(broker.position("billing", "orders", 0), None);
    partition.store(3).unwrap();
    assert_eq!(broker.position("billing", "orders", 0), Some(3));
    assert_eq!(broker.position("audit", "orders", 0), None);
}

#[tokio::test]
async fn a_rewind_delivers_again_and_wakes_the_reader() {
    let broker = broker(1);
    publish(&broker, ["a", "b", "c"]);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    assert_eq!(texts(&read(&mut partition).await), ["a", "b", "c"]);
    partition.store(3).unwrap();
    let rewind = async { broker.set_position("billing", "orders", 0, 1) };
    let (again, ()) = tokio::join!(read(&mut partition), rewind);
    assert_eq!(texts(&again), ["b", "c"]);
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
    publish(&broker, ["d"]);
    assert_eq!(texts(&read(&mut partition).await), ["d"]);
}

#[tokio::test]
async fn a_group_without_members_can_be_rewound() {
    let broker = broker(1);
    publish(&broker, ["a", "b", "c"]);
    broker.set_position("billing", "orders", 0, 2);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    assert_eq!(texts(&read(&mut partition).await), ["c"]);
}

#[tokio::test]
async fn a_partition_dropped_without_an_end_is_offered_again() {
    let broker = broker(1);
    publish(&broker, ["a", "b"]);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    assert_eq!(texts(&read(&mut partition).await), ["a", "b"]);
    partition.store(1).unwrap();
    drop(partition);
    let mut partition = accept(&mut subscription).await;
    assert_eq!(texts(&read(&mut partition).await), ["b"]);
}

#[tokio::test]
async fn a_member_takes_its_share_and_only_that_is_revoked() {
    let broker = broker(5);
    let mut subscription = subscribe(&broker).await;
    let mut partitions = accept_all(&mut subscription, 5).await;
    let member = broker.join("billing", &["orders"]).unwrap();
    let ends: Vec<_> = partitions.iter_mut().map(end_now).collect();
    assert_eq!(ends, [None, None, None, Some(End::Revoked), Some(End::Revoked)]);
    assert_eq!(member.partitions(), [], "nothing moves before it was dropped");
    partitions[3].store(7).unwrap();
    drop(partitions.remove(3));
    assert_eq!(member.partitions(), [("orders".to_owned(), 3)]);
    assert_eq!(broker.position("billing", "orders", 3), Some(7));
    let owners: Vec<_> = broker.assignment("billing").into_values().collect();
    assert_eq!(owners, ["bill-1", "bill-1", "bill-1", "member-2", "bill-1"]);
    assert_eq!(
        (subscription.member_id(), member.member_id()),
        ("bill-1".to_owned(), "member-2".to_owned())
    );
}

#[tokio::test]
async fn what_was_not_accepted_moves_at_once() {
    let broker = broker(4);
    let mut subscription = subscribe(&broker).await;
    let member = broker.join("billing", &["orders"]).unwrap();
    assert_eq!(member.partitions().len(), 2);
    let _kept = accept_all(&mut subscription, 2).await;
    member.leave();
    let _back = accept_all(&mut subscription, 2).await;
}

#[tokio::test]
async fn a_partition_that_comes_straight_back_is_a_new_assignment() {
    let broker = broker(2);
    publish(&broker, ["a", "b", "c", "d"]);
    let mut subscription = subscribe(&broker).await;
    let mut partitions = accept_all(&mut subscription, 2).await;
    let mut old = partitions.remove(1);
    assert_eq!(texts(&read(&mut old).await), ["b", "d"]);
    let member = broker.join("billing", &["orders"]).unwrap();
    member.leave();
    // It is drained all the same, and comes back once it was dropped.
    assert_eq!(end_now(&mut old), Some(End::Revoked));
    assert!(poll_once(pin!(subscription.accept())).is_pending());
    old.store(1).unwrap();
    drop(old);
    let mut new = accept(&mut subscription).await;
    assert_eq!((new.index(), end_now(&mut new)), (1, None));
    assert_eq!(texts(&read(&mut new).await), ["d"]);
}

#[tokio::test]
async fn a_store_of_an_older_assignment_is_refused() {
    let broker = broker(1);
    let mut subscription = subscribe(&broker).await;
    let mut old = accept(&mut subscription).await;
    old.store(1).unwrap();
    assert!(broker.lose("billing", "orders", 0));
    let mut new = accept(&mut subscription).await;
    assert_eq!(old.store(5), Err(StoreError));
    assert_eq!(broker.position("billing", "orders", 0), Some(1));
    assert_eq!((end_now(&mut old), end_now(&mut new)), (Some(End::Lost), None));
    new.store(2).unwrap();
    drop(old);
    assert_eq!(
        end_now(&mut new),
        None,
        "the drop of the old value does not touch the new one"
    );
}

#[tokio::test]
async fn an_end_wakes_its_task_and_may_get_worse() {
    let broker = broker(2);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept_all(&mut subscription, 2).await.remove(1);
    let join = async { broker.join("billing", &["orders"]).unwrap() };
    let (end, _member) = tokio::join!(poll_fn(|cx| partition.poll_end(cx)), join);
    assert_eq!(end, End::Revoked);
    assert!(broker.lose("billing", "orders", 1));
    assert_eq!(end_now(&mut partition), Some(End::Lost));
    assert!(!broker.lose("billing", "orders", 9));
}

#[tokio::test]
async fn an_expelled_member_loses_everything_and_joins_again() {
    let broker = broker(2);
    let mut subscription = subscribe(&broker).await;
    let mut partitions = accept_all(&mut subscription, 2).await;
    let member = broker.join("billing", &["orders"]).unwrap();
    assert!(broker.expel("billing", &subscription.member_id()));
    let ends: Vec<_> = partitions.iter_mut().map(end_now).collect();
    assert_eq!(ends, [Some(End::Lost), Some(End::Lost)]);
    assert_eq!(
        member.partitions(),
        [("orders".to_owned(), 0)],
        "it is the first member now"
    );
    assert_eq!(accept(&mut subscription).await.index(), 1);
    assert!(!broker.expel("billing", "nobody"));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_partition_moves_when_its_drain_timeout_passed() {
    let broker = broker(2);
    publish(&broker, ["a", "b"]);
    let mut request = SubscribeRequest::new("bill", "orders", "billing");
    request.drain_timeout = Duration::from_secs(7);
    let mut slow = broker.subscribe(vec![request]).await.unwrap().remove(0);
    let mut old = accept_all(&mut slow, 2).await.remove(1);
    let revoked_at = Instant::now();
    let mut quick = subscribe(&broker).await;
    let mut new = accept(&mut quick).await;
    assert_eq!(revoked_at.elapsed(), Duration::from_secs(7) + DRAIN_GRACE);
    assert_eq!(old.store(1), Err(StoreError));
    assert_eq!(end_now(&mut old), Some(End::Lost));
    assert_eq!(texts(&read(&mut new).await), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_watching_test_sees_the_drain_timeout_pass() {
    let broker = broker(2);
    let mut subscription = subscribe(&broker).await;
    let _partitions = accept_all(&mut subscription, 2).await;
    let member = broker.join("billing", &["orders"]).unwrap();
    broker.until(|_| member.partitions().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_timeout_without_end_is_never_over() {
    let broker = broker(2);
    let mut request = SubscribeRequest::new("bill", "orders", "billing");
    request.drain_timeout = Duration::MAX;
    let mut subscription = broker.subscribe(vec![request]).await.unwrap().remove(0);
    let mut partitions = accept_all(&mut subscription, 2).await;
    let member = broker.join("billing", &["orders"]).unwrap();
    tokio::time::advance(Duration::from_secs(86_400)).await;
    assert_eq!(member.partitions(), []);
    drop(partitions.remove(1));
    assert_eq!(member.partitions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn close_goes_on_at_its_deadline_and_says_what_was_not_dropped() {
    let broker = broker(2);
    let mut subscription = subscribe(&broker).await;
    let mut partitions = accept_all(&mut subscription, 2).await;
    partitions[1].store(4).unwrap();
    drop(partitions.remove(0));
    let mut other = subscribe(&broker).await;
    let started = Instant::now();
    let error = subscription
        .close(started + Duration::from_secs(3))
        .await
        .unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(
        error.to_string().contains("without the drop of orders/1"),
        "{error}"
    );
    assert_eq!(partitions[0].store(5), Err(StoreError));
    assert_eq!(accept_all(&mut other, 2).await.len(), 2);
    assert_eq!(broker.position("billing", "orders", 1), Some(4));
}

#[tokio::test]
async fn close_returns_what_was_stored_during_the_drain() {
    let broker = broker(1);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    let drain = async move {
        assert_eq!(poll_fn(|cx| partition.poll_end(cx)).await, End::Closed);
        partition.store(9).unwrap();
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let (committed, ()) = tokio::join!(subscription.close(deadline), drain);
    assert_eq!(committed.unwrap(), [Committed::new("orders", 0, 9)]);
    assert!(broker.assignment("billing").is_empty());
}

#[tokio::test]
async fn nothing_is_read_after_the_end() {
    let broker = broker(1);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    drop(subscription);
    publish(&broker, ["a"]);
    assert_pending(&mut partition);
}

#[tokio::test]
async fn dropping_a_subscription_leaves_the_group() {
    let broker = broker(2);
    let mut subscription = subscribe(&broker).await;
    let mut partition = accept(&mut subscription).await;
    let member = broker.join("billing", &["orders"]).unwrap();
    drop(subscription);
    assert_eq!(end_now(&mut partition), Some(End::Closed));
    assert_eq!(member.partitions(), [("orders".to_owned(), 1)]);
    partition.store(1).unwrap();
    drop(partition);
    assert_eq!(member.partitions().len(), 2);
}

#[tokio::test]
async fn groups_do_not_see_each_other() {
    let broker = broker(1);
    publish(&broker, ["a"]);
    for group in ["billing", "audit"] {
        let mut subscription = subscribe_in(&broker, group).await;
        let mut partition = accept(&mut subscription).await;
        assert_eq!(texts(&read(&mut partition).await), ["a"]);
        partition.store(1).unwrap();
    }
}

#[test]
fn everything_can_cross_threads() {
    fn crosses<T: Send + Sync + Unpin>() {}
    crosses::<MemoryBroker>();
    crosses::<MemorySubscription>();
    crosses::<MemoryPartition>();
    crosses::<MemoryDelivery>();
    crosses::<MemoryMember>();
}

fn broker(partitions: i32) -> MemoryBroker {
    let broker = MemoryBroker::new();
    broker.create_topic("orders", partitions).unwrap();
    broker
}

fn record(payload: &str) -> MemoryRecord {
    MemoryRecord::new("orders").payload(payload)
}

fn publish<const N: usize>(broker: &MemoryBroker, payloads: [&str; N]) {
    for payload in payloads {
        broker.publish(record(payload)).unwrap();
    }
}

async fn subscribe(broker: &MemoryBroker) -> MemorySubscription {
    subscribe_in(broker, "billing").await
}

async fn subscribe_in(broker: &MemoryBroker, group: &str) -> MemorySubscription {
    broker
        .subscribe(vec![SubscribeRequest::new("bill", "orders", group)])
        .await
        .unwrap()
        .remove(0)
}

async fn accept(subscription: &mut MemorySubscription) -> MemoryPartition {
    subscription.accept().await.unwrap().unwrap()
}

/// Accepts `count` partitions, and makes sure that there are no more.
async fn accept_all(subscription: &mut MemorySubscription, count: usize) -> Vec<MemoryPartition> {
    let mut partitions = Vec::new();
    while partitions.len() < count {
        partitions.push(accept(subscription).await);
    }
    assert!(poll_once(pin!(subscription.accept())).is_pending());
    partitions
}

async fn read(partition: &mut MemoryPartition) -> VecDeque<MemoryDelivery> {
    let mut batch = VecDeque::new();
    poll_fn(|cx| partition.poll_batch(cx, 100, &mut batch))
        .await
        .unwrap();
    batch
}

fn assert_pending(partition: &mut MemoryPartition) {
    assert!(poll_once(pin!(read(partition))).is_pending());
}

fn end_now(partition: &mut MemoryPartition) -> Option<End> {
    match poll_once(pin!(poll_fn(|cx| partition.poll_end(cx)))) {
        Poll::Ready(end) => Some(end),
        Poll::Pending => None,
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn text(delivery: &MemoryDelivery) -> String {
    String::from_utf8(delivery.payload().unwrap().to_vec()).unwrap()
}

fn texts(batch: &VecDeque<MemoryDelivery>) -> Vec<String> {
    batch.iter().map(text).collect()
}
