//! The service over real HTTP, on the embedded cluster; then the program as a person would run it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ruststream::{Error, ErrorKind};
use ruststream_rdkafka::{ApiKey, KafkaBroker};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use support::*;

/// The time limit of an order, and how much later librdkafka may notice on a slow machine.
const TIME_LIMIT: Duration = Duration::from_secs(5 + 3);

#[tokio::test]
async fn an_order_is_answered_once_it_is_in_the_topic() {
    let service = Service::start(KafkaBroker::embedded()).await;
    assert_eq!(service.client.get("/health").await.status, 200);
    let answer = service.client.order(7, "ada").await;
    let (partition, offset) = answer.written();
    let records = read(service.kafka.bootstrap_servers()).await;
    let [record] = &records[..] else {
        panic!("one record: {records:?}")
    };
    assert_eq!((record.partition, record.offset), (partition, offset));
    assert_eq!(record.key, "ada");
    assert_eq!(record.payload, order(7, "ada"));
}

#[tokio::test]
async fn a_hundred_orders_at_once_are_all_confirmed_and_those_of_a_customer_stay_together() {
    const ORDERS: u64 = 100;
    let service = Service::start(KafkaBroker::embedded()).await;
    let mut requests = JoinSet::new();
    for id in 0..ORDERS {
        let client = service.client.clone();
        requests.spawn(async move {
            let customer = format!("customer-{}", id % 10);
            let written = client.order(id, &customer).await.written();
            (customer, written)
        });
    }
    let mut partitions = BTreeMap::<_, BTreeSet<_>>::new();
    let mut positions = BTreeSet::new();
    for (customer, (partition, offset)) in requests.join_all().await {
        partitions.entry(customer).or_default().insert(partition);
        positions.insert((partition, offset));
    }
    assert_eq!(positions.len() as u64, ORDERS);
    assert!(
        partitions.values().all(|partitions| partitions.len() == 1),
        "{partitions:?}"
    );
    let read = read(service.kafka.bootstrap_servers()).await;
    let read: BTreeSet<_> = read
        .iter()
        .map(|record| (record.partition, record.offset))
        .collect();
    assert_eq!(read, positions);
}

#[tokio::test]
async fn what_is_no_order_is_refused_and_not_published() {
    let service = Service::start(KafkaBroker::embedded()).await;
    for (status, body) in [
        (400, r#"{"id":7"#),
        (400, r#"{"id":7,"customer":"ada","item":"book","total":1e999}"#),
        (422, r#"{"id":7,"customer":"ada","item":"book"}"#),
        (422, r#"{"id":-7,"customer":"ada","item":"book","total":12.5}"#),
        (
            422,
            r#"{"id":7,"customer":"ada","item":"book","total":12.5,"vip":1}"#,
        ),
        (422, r#"{"id":7,"customer":"","item":"book","total":12.5}"#),
        (422, r#"{"id":7,"customer":"ada","item":"book","total":-0.5}"#),
    ] {
        let answer = service.client.post(body.to_owned()).await;
        assert_eq!(answer.problem(), (status, false), "{body}");
    }
    let other = service.client.get("/orders").await;
    assert_eq!(other.status, 405);
    assert!(read(service.kafka.bootstrap_servers()).await.is_empty());
}

#[tokio::test]
async fn an_order_that_is_too_large_is_refused_by_the_publisher_or_before() {
    let kafka = KafkaBroker::embedded().set_producer("message.max.bytes", "2000");
    let service = Service::start(kafka).await;
    for size in [3_000, 3_000_000] {
        let mut order = order(7, "ada");
        order["item"] = "x".repeat(size).into();
        let answer = service.client.post(order.to_string()).await;
        assert_eq!(answer.problem(), (413, false), "{size}");
    }
    let answer = service.client.order(7, "ada").await;
    answer.written();
    assert_eq!(read(service.kafka.bootstrap_servers()).await.len(), 1);
}

#[tokio::test]
async fn without_a_broker_the_answer_is_503_in_time_and_orders_go_on_when_it_is_back() {
    let service = Service::start(KafkaBroker::embedded()).await;
    service.client.order(1, "ada").await.written();
    service.kafka.cluster().unwrap().stop_broker();
    let begun = Instant::now();
    let answer = service.client.order(2, "ada").await;
    assert!(begun.elapsed() < TIME_LIMIT, "{:?}", begun.elapsed());
    let (status, _) = answer.problem();
    assert_eq!((status, answer.retry_after.as_deref()), (503, Some("2")));

    service.kafka.cluster().unwrap().start_broker();
    let deadline = Instant::now() + SOON;
    while service.client.order(3, "ada").await.status != 201 {
        assert!(
            Instant::now() < deadline,
            "no order was taken after the broker came back"
        );
    }
}

#[tokio::test]
async fn without_room_the_answer_is_503_at_once() {
    let service = Service::start(KafkaBroker::embedded().max_unconfirmed(1)).await;
    service.client.order(1, "ada").await.written();
    service.kafka.cluster().unwrap().stop_broker();
    let client = service.client.clone();
    let mut first = JoinSet::new();
    first.spawn(async move { client.order(2, "ada").await });
    service.until_unconfirmed(1).await;
    let begun = Instant::now();
    let answer = service.client.order(3, "bob").await;
    assert_eq!(answer.problem(), (503, false));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(first.join_all().await[0].status, 503);
}

/// Kafka's 29: the user may not write; 45: a gap in the sequence of the client, which then does not know what was written.
#[tokio::test]
async fn what_the_client_cannot_help_is_500_without_the_reason() {
    let service = Service::start(KafkaBroker::embedded()).await;
    service.client.order(1, "ada").await.written();
    let cluster = service.kafka.cluster().unwrap();
    cluster.fail_next(ApiKey::Produce, 29, 1);
    let answer = service.client.order(2, "ada").await;
    assert_eq!(answer.problem(), (500, false));
    assert!(!answer.body.contains("uthoriz"), "{}", answer.body);
    let deadline = Instant::now() + SOON;
    while service.client.order(3, "ada").await.status != 201 {
        assert!(
            Instant::now() < deadline,
            "no order was taken after one was refused"
        );
    }
    cluster.fail_next(ApiKey::Produce, 45, 1);
    let (status, may_be_persisted) = service.client.order(4, "ada").await.problem();
    assert!(status >= 500 && may_be_persisted, "{status}, {may_be_persisted}");
    assert_eq!(service.client.order(5, "ada").await.problem(), (500, false));
}

#[tokio::test]
async fn requests_under_way_are_answered_before_the_end() {
    let mut service = Service::start(KafkaBroker::embedded()).await;
    service.client.order(1, "ada").await.written();
    service.kafka.cluster().unwrap().stop_broker();
    let client = service.client.clone();
    let mut request = JoinSet::new();
    request.spawn(async move { client.order(2, "ada").await });
    service.until_unconfirmed(1).await;
    service.stop();
    service.client.until_refused().await;
    assert!(request.try_join_next().is_none(), "the request is under way");
    assert_eq!(request.join_all().await[0].status, 503);
    service.ended().await.expect("a client that was told");
}

#[tokio::test]
async fn a_failure_that_nobody_was_told_is_an_error_at_the_end() {
    let mut service = Service::start(KafkaBroker::embedded()).await;
    service.client.order(1, "ada").await.written();
    service.kafka.cluster().unwrap().stop_broker();
    let body = order(2, "ada").to_string();
    let connection = service.client.begin(body.len(), &body).await;
    service.until_unconfirmed(1).await;
    drop(connection);
    service.stop();
    let error = service.ended().await.unwrap_err();
    let error = error.downcast_ref::<Error>().expect("the publisher's");
    assert_eq!(error.kind(), ErrorKind::Broker);
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_hold_the_end() {
    let mut service = Service::start(KafkaBroker::embedded()).await;
    let _stalled = service.client.begin(100, "{").await;
    // Accepted after that one.
    assert_eq!(service.client.get("/health").await.status, 200);
    service.stop();
    service.ended().await.expect("no record was given up");
}

#[tokio::test]
async fn the_program_serves_and_ends_on_sigterm() {
    let mut program = Program::start(None).await;
    program.client.order(7, "ada").await.written();
    let begun = Instant::now();
    program.terminate().await;
    assert_eq!(program.exit_code().await, 0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn on_a_real_broker_orders_are_confirmed_and_a_frozen_one_does_not_hold_requests() {
    let cluster = blocking(|| ruststream_kafka_cluster::Cluster::start(1).unwrap()).await;
    let servers = cluster.bootstrap();
    let mut program = Program::start(Some(&servers)).await;
    for id in 0..20 {
        program.client.order(id, "ada").await.written();
    }
    let records = read(&servers).await;
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(|record| record.key == "ada"));

    cluster.freeze(1).unwrap();
    let begun = Instant::now();
    let answer = program.client.order(20, "ada").await;
    assert_eq!(answer.problem(), (503, true), "sent, and no answer");
    assert!(begun.elapsed() < TIME_LIMIT, "{:?}", begun.elapsed());
    let mut hanging_up = Vec::new();
    for id in 21..40 {
        let body = order(id, "ada").to_string();
        hanging_up.push(program.client.begin(body.len(), &body).await);
    }
    // Accepted after those, so most of their orders are with the publisher now; given up after them.
    program.client.get("/health").await;
    drop(hanging_up);
    let (status, may_be_persisted) = program.client.order(40, "ada").await.problem();
    assert_eq!(status, 503);

    cluster.thaw(1).unwrap();
    let deadline = Instant::now() + SOON;
    while program.client.order(41, "ada").await.status != 201 {
        assert!(Instant::now() < deadline, "no order was taken after the thaw");
        sleep(POLL).await;
    }
    let records = read(&servers).await;
    let written = records.iter().any(|record| record.payload["id"] == 40);
    assert!(
        may_be_persisted || !written,
        "written, although it was said not to be"
    );
    program.terminate().await;
    assert_eq!(
        program.exit_code().await,
        1,
        "there are clients that were not told"
    );
    blocking(move || drop(cluster)).await;
}
