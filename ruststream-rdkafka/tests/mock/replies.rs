//! Replies and dead letters while the broker refuses them, and while it is down.

use std::sync::Arc;
use std::time::Duration;

use ruststream::prelude::*;
use ruststream::{BoxError, ErrorKind, Running};
use ruststream_rdkafka::{ApiKey, KafkaBroker};
use tokio::time::Instant;

use crate::service::*;
use crate::support::*;

/// Kafka's numbers. librdkafka sends again by itself after the first two, and gives the record back after the others.
/// After the last one it gives back all records for the topic without asking the broker, until it has looked the topic up
/// again: within a second.
const NOT_LEADER: i16 = 6;
const REQUEST_TIMED_OUT: i16 = 7;
const MESSAGE_TOO_LARGE: i16 = 10;
const UNKNOWN_SERVER_ERROR: i16 = -1;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

/// Checks for as long as `going_on` says so that there is a reply for each order below the committed position.
async fn watch_position(broker: &KafkaBroker, going_on: impl Fn() -> bool) {
    poll_until("all orders are settled", || {
        let position = position(broker).unwrap_or(0);
        let replies = end_of(broker, "invoices", 0);
        assert!(
            position <= replies,
            "committed at {position}, with {replies} replies"
        );
        !going_on()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_the_client_sends_again_keep_their_order_and_arrive_once() {
    let (broker, orders) = (shop().await, Orders::new());
    produce(&broker, "orders", 0, 0..200);
    for code in [NOT_LEADER, REQUEST_TIMED_OUT] {
        broker.cluster().unwrap().fail_next(ApiKey::Produce, code, 3);
    }
    let running = start(&broker, &orders, bill).await;
    watch_position(&broker, || running.report().subscriptions[0].settled < 200).await;
    let report = stop(running).await;
    assert_eq!(report.subscriptions[0].replied, 200);
    assert_eq!(orders.each_once(), (0..200).collect::<Vec<_>>());
    assert_eq!(numbers_of(&broker, "invoices", 0), (0..200).collect::<Vec<_>>());
    assert_eq!(position(&broker), Some(200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_come_back_are_sent_again_without_their_handlers_and_hold_the_position() {
    let (broker, orders) = (shop().await, Orders::new());
    produce(&broker, "orders", 0, 0..50);
    broker
        .cluster()
        .unwrap()
        .fail_next(ApiKey::Produce, UNKNOWN_SERVER_ERROR, 100);
    let policy = RetryPolicy::forever()
        .initial(Duration::from_millis(20))
        .max(Duration::from_millis(40));
    let running = start(&broker, &orders, bill.retry(policy)).await;
    watch_position(&broker, || running.report().subscriptions[0].settled < 50).await;
    let report = stop(running).await;
    let billed = &report.subscriptions[0];
    assert_eq!((billed.replied, billed.failed, billed.retried), (50, 0, 0));
    assert_eq!(orders.each_once(), (0..50).collect::<Vec<_>>());
    let mut invoices = numbers_of(&broker, "invoices", 0);
    invoices.sort_unstable();
    assert_eq!(invoices, (0..50).collect::<Vec<_>>());
    assert_eq!(position(&broker), Some(50));
}

/// Five orders that are settled, and one whose reply or dead letter is refused `times` times.
async fn refuse_the_sixth(
    broker: &KafkaBroker,
    subscriber: impl IntoSubscriber,
    code: i16,
    times: usize,
) -> (Arc<Orders>, Running) {
    let orders = Orders::held_from(5);
    let running = start(broker, &orders, subscriber).await;
    produce(broker, "orders", 0, 0..6);
    settled(&running, 5).await;
    broker.cluster().unwrap().fail_next(ApiKey::Produce, code, times);
    orders.let_through(u64::MAX);
    (orders, running)
}

fn quick(attempts: u32) -> RetryPolicy {
    RetryPolicy::attempts(attempts).initial(Duration::from_millis(10))
}

async fn a_reply_that_is_refused_for_good(code: i16, attempts: usize) {
    let broker = shop().await;
    let subscriber = bill.retry(quick(3));
    let (orders, running) = refuse_the_sixth(&broker, subscriber, code, attempts).await;
    let error = stopped(running).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    let text = error.to_string();
    let what = "subscription bill stopped at orders/0 offset 5: its reply was not confirmed in";
    assert!(text.starts_with(&format!("{what} {attempts} attempts")), "{text}");
    assert_eq!(orders.each_once(), (0..6).collect::<Vec<_>>());
    assert_eq!(position(&broker), Some(5));
    assert_eq!(numbers_of(&broker, "invoices", 0), (0..5).collect::<Vec<_>>());

    let orders = Orders::new();
    let running = start(&broker, &orders, bill).await;
    settled(&running, 1).await;
    stop(running).await;
    assert_eq!(orders.each_once(), [5], "only that one comes again");
    assert_eq!(numbers_of(&broker, "invoices", 0), (0..6).collect::<Vec<_>>());
    assert_eq!(position(&broker), Some(6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_the_broker_cannot_take_stops_the_app_below_its_source_which_comes_again() {
    a_reply_that_is_refused_for_good(MESSAGE_TOO_LARGE, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_refused_again_and_again_stops_the_app_below_its_source_which_comes_again() {
    a_reply_that_is_refused_for_good(UNKNOWN_SERVER_ERROR, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_to_a_topic_that_may_be_written_again_goes_there() {
    let broker = shop().await;
    let (orders, running) = refuse_the_sixth(&broker, bill, TOPIC_AUTHORIZATION_FAILED, 1).await;
    settled(&running, 6).await;
    stop(running).await;
    assert_eq!(orders.each_once(), (0..6).collect::<Vec<_>>());
    assert_eq!(numbers_of(&broker, "invoices", 0), (0..6).collect::<Vec<_>>());
    assert_eq!(position(&broker), Some(6));
}

async fn a_source_whose_reply_is_refused_is_dead_lettered(code: i16, attempts: usize) {
    let broker = shop().await;
    let subscriber = bill.retry(quick(3)).dead_letter("refused");
    let (orders, running) = refuse_the_sixth(&broker, subscriber, code, attempts).await;
    settled(&running, 6).await;
    let report = stop(running).await;
    let billed = &report.subscriptions[0];
    assert_eq!((billed.replied, billed.dead_lettered, billed.settled), (5, 1, 6));
    assert_eq!(orders.each_once(), (0..6).collect::<Vec<_>>());
    assert_eq!(letters(&broker), [(5, "unpublished".to_owned(), 1)]);
    assert_eq!(numbers_of(&broker, "refused", 0), [5]);
    assert_eq!(numbers_of(&broker, "invoices", 0), (0..5).collect::<Vec<_>>());
    assert_eq!(position(&broker), Some(6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_whose_reply_the_broker_cannot_take_is_dead_lettered() {
    a_source_whose_reply_is_refused_is_dead_lettered(MESSAGE_TOO_LARGE, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_whose_reply_is_refused_again_and_again_is_dead_lettered() {
    a_source_whose_reply_is_refused_is_dead_lettered(UNKNOWN_SERVER_ERROR, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_is_refused_is_made_again_and_its_source_is_held() {
    let broker = shop().await;
    let subscriber = refuse.retry(quick(10));
    let (orders, running) = refuse_the_sixth(&broker, subscriber, UNKNOWN_SERVER_ERROR, 4).await;
    settled(&running, 6).await;
    let report = stop(running).await;
    assert_eq!(report.subscriptions[0].dead_lettered, 6);
    assert_eq!(orders.each_once(), (0..6).collect::<Vec<_>>());
    let expected: Vec<_> = (0..6).map(|offset| (offset, "requested".to_owned(), 1)).collect();
    assert_eq!(letters(&broker), expected);
    assert_eq!(position(&broker), Some(6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_is_refused_for_good_stops_the_app_below_its_source() {
    let broker = shop().await;
    let subscriber = refuse.retry(quick(3));
    let (orders, running) = refuse_the_sixth(&broker, subscriber, UNKNOWN_SERVER_ERROR, 3).await;
    let error = stopped(running).await.unwrap_err();
    let text = error.to_string();
    let what =
        "subscription refuse stopped at orders/0 offset 5: its dead letter was not confirmed in 3 attempts";
    assert!(text.starts_with(what), "{text}");
    assert_eq!(orders.each_once(), (0..6).collect::<Vec<_>>());
    assert_eq!(letters(&broker).len(), 5);
    assert_eq!(position(&broker), Some(5));
}

/// Two topics refuse in turn: the reply, and then the dead letter that takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_and_its_dead_letter_that_are_both_refused_stop_the_app_below_their_source() {
    let broker = shop().await;
    let subscriber = bill.retry(quick(2)).dead_letter("refused");
    let (_, running) = refuse_the_sixth(&broker, subscriber, UNKNOWN_SERVER_ERROR, 4).await;
    let error = stopped(running).await.unwrap_err();
    let text = error.to_string();
    let what =
        "subscription bill stopped at orders/0 offset 5: its dead letter was not confirmed in 2 attempts";
    assert!(text.starts_with(what), "{text}");
    assert_eq!(position(&broker), Some(5));
}

/// The first numbers of `numbers`, without those that came before; and how many of those there were.
fn first_occurrences(numbers: &[u64]) -> (Vec<u64>, usize) {
    let mut seen = std::collections::BTreeSet::new();
    let first: Vec<u64> = numbers
        .iter()
        .copied()
        .filter(|number| seen.insert(*number))
        .collect();
    let again = numbers.len() - first.len();
    (first, again)
}

/// The broker writes what it is sent again a second time if it was stopped before it answered: the mock cluster does not
/// compare sequence numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_publisher_waits_for_a_broker_that_is_down_and_nothing_is_lost_or_out_of_order() {
    const BOUND: usize = 8;
    const ORDERS: u64 = 2_000;
    let (broker, orders) = (shop().await.max_unconfirmed(BOUND), Orders::held_from(500));
    produce(&broker, "orders", 0, 0..ORDERS);
    let running = start(&broker, &orders, bill).await;
    settled(&running, 500).await;
    broker.cluster().unwrap().stop_broker();
    orders.let_through(u64::MAX);
    // A reply that waits for room, beside those that are unconfirmed; then no handler starts.
    poll_until("the publisher is full", || orders.count() > 500 + BOUND).await;
    broker.cluster().unwrap().start_broker();
    watch_position(&broker, || running.report().subscriptions[0].settled < ORDERS).await;
    let report = stop(running).await;
    assert_eq!(
        (report.subscriptions[0].replied, report.subscriptions[0].failed),
        (ORDERS, 0)
    );
    assert_eq!(orders.each_once(), (0..ORDERS).collect::<Vec<_>>());
    let (invoices, again) = first_occurrences(&numbers_of(&broker, "invoices", 0));
    assert_eq!(invoices, (0..ORDERS).collect::<Vec<_>>());
    assert!(again <= BOUND, "{again} replies were written twice");
    assert_eq!(position(&broker), Some(ORDERS as i64));
}

/// Sends two parts, and replies: three records an order, all of which may have to wait for room.
#[subscriber("orders", reply = "invoices")]
async fn split(
    order: u64,
    publisher: Publisher<'_>,
    State(orders): State<'_, Arc<Orders>>,
) -> Result<u64, BoxError> {
    orders.pass(order).await;
    for _ in 0..2 {
        let part = Record::json("parts", &order)?.to_partition(0);
        drop(publisher.send(part).await?);
    }
    Ok(order)
}

/// Several partitions take turns at a publisher that is full: those that wait in its line, those that wait for their own
/// receipts, and handlers that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_share_a_full_publisher_all_go_on_and_each_keeps_its_order() {
    const BOUND: usize = 8;
    const PARTITIONS: i32 = 4;
    const EACH: u64 = 500;
    /// Orders of partition 2 begin at 2,000.
    const STEP: u64 = 1_000;
    let broker = cluster("orders", PARTITIONS as u16).await;
    for topic in ["invoices", "parts"] {
        broker.create_topic(topic, 1).await.unwrap();
    }
    let broker = broker
        .set("reconnect.backoff.max.ms", "200")
        .max_unconfirmed(BOUND);
    let of = |partition: i32| partition as u64 * STEP..partition as u64 * STEP + EACH;
    for partition in 0..PARTITIONS {
        produce(&broker, "orders", partition, of(partition));
    }
    let orders = Orders::new();
    let running = start(&broker, &orders, split).await;
    settled(&running, 100).await;
    for _ in 0..3 {
        broker.cluster().unwrap().stop_broker();
        let settled = running.report().subscriptions[0].settled;
        broker.cluster().unwrap().start_broker();
        let more = (settled + 300).min(EACH * PARTITIONS as u64);
        self::settled(&running, more).await;
    }
    settled(&running, EACH * PARTITIONS as u64).await;
    let report = stop(running).await;
    assert_eq!(report.subscriptions[0].failed, 0);
    let (invoices, again) = first_occurrences(&numbers_of(&broker, "invoices", 0));
    assert!(again <= 3 * BOUND, "{again} replies were written twice");
    let parts = numbers_of(&broker, "parts", 0);
    let ends = committed(&broker, "orders", PARTITIONS);
    for partition in 0..PARTITIONS {
        let replies = invoices
            .iter()
            .copied()
            .filter(|order| order / STEP == partition as u64);
        assert!(
            replies.eq(of(partition)),
            "replies of {partition} are all there, in order"
        );
        let parts = parts
            .iter()
            .copied()
            .filter(|order| order / STEP == partition as u64);
        let (first, again) = first_occurrences(&parts.collect::<Vec<_>>());
        assert!(
            first.into_iter().eq(of(partition)),
            "parts of {partition} are all there, in order"
        );
        assert!(again >= EACH as usize, "there are two parts each");
        assert_eq!(ends.get(&partition), Some(&(EACH as i64)));
    }
}

/// No reply to 10.
#[subscriber("orders", reply = "invoices")]
async fn bill_all_but_ten(order: u64, State(orders): State<'_, Arc<Orders>>) -> Option<u64> {
    orders.pass(order).await;
    (order != 10).then_some(order)
}

/// Nothing of its own is under way that could wake the partition, and its handler is ready when it is first polled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_reply_that_finds_no_room_is_sent_when_there_is_some() {
    let broker = cluster("orders", 2).await;
    broker.create_topic("invoices", 1).await.unwrap();
    let broker = broker.set("reconnect.backoff.max.ms", "200").max_unconfirmed(1);
    produce(&broker, "orders", 0, 1..4);
    produce(&broker, "orders", 1, 10..13);
    let orders = Orders::held_from(0);
    let running = start(&broker, &orders, bill_all_but_ten).await;
    poll_until("both partitions begin", || orders.count() == 2).await;
    broker.cluster().unwrap().stop_broker();
    // The reply to 1 takes the only place, the one to 2 waits.
    orders.let_through(10);
    poll_until("the publisher is full", || orders.passed() == 2).await;
    // 10 is settled at once, and the reply to 11 waits.
    orders.let_through(u64::MAX);
    poll_until("11 is handled", || orders.passed() == 4).await;
    broker.cluster().unwrap().start_broker();
    settled(&running, 6).await;
    stop(running).await;
    let (mut invoices, _) = first_occurrences(&numbers_of(&broker, "invoices", 0));
    invoices.sort_unstable();
    assert_eq!(invoices, [1, 2, 3, 11, 12]);
}

/// The group is in good health, so that the app can stop in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_while_replies_are_refused_commits_only_what_is_below_them() {
    let broker = shop().await;
    let (orders, running) = refuse_the_sixth(&broker, bill, NOT_LEADER, 10_000).await;
    poll_until("the sixth is replied to", || orders.count() == 6).await;
    let begun = Instant::now();
    let report = stop(running).await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let billed = &report.subscriptions[0];
    assert_eq!((billed.settled, billed.unconfirmed, billed.unfinished), (5, 1, 0));
    assert_eq!(position(&broker), Some(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_while_the_broker_is_down_ends_in_time_and_commits_nothing_unconfirmed() {
    const ORDERS: u64 = 2_000;
    let (broker, orders) = (shop().await.max_unconfirmed(8), Orders::held_from(500));
    produce(&broker, "orders", 0, 0..ORDERS);
    let running = start(&broker, &orders, bill).await;
    settled(&running, 500).await;
    broker.cluster().unwrap().stop_broker();
    orders.let_through(u64::MAX);
    poll_until("the publisher is full", || orders.count() > 508).await;
    let begun = Instant::now();
    running.stop();
    let ended = stopped(running).await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let error = ended.expect_err("a group that was not left in order");
    assert_eq!(error.kind(), ErrorKind::Broker, "{error}");
    // Eight on their way, and one that waits for room.
    logged(&["their records not confirmed", "unfinished=0", "unconfirmed=9"]).await;
    broker.cluster().unwrap().start_broker();
    let position = position(&broker).unwrap_or(0) as u64;
    let invoices = numbers_of(&broker, "invoices", 0);
    let unreplied = (0..position).find(|order| !invoices.contains(order));
    assert_eq!(unreplied, None, "committed at {position}");
}
