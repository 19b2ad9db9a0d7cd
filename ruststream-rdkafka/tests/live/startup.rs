//! What is wrong is said at the start, in words that help.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use ruststream::prelude::*;
use ruststream::{Error, ErrorKind};
use ruststream_rdkafka::KafkaBroker;

use crate::support::*;

/// The error of a start, with its address replaced.
async fn refused(app: RustStream, bootstrap: &str) -> String {
    let error: Error = app.start().await.expect_err("a start-up error");
    assert_eq!(error.kind(), ErrorKind::Startup);
    error.to_string().replace(bootstrap, "HOST:PORT")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_topic_that_does_not_exist_is_named() {
    let bootstrap = cluster().bootstrap();
    let app = app(KafkaBroker::new(&bootstrap), "ordres", &Ledger::new(), note);
    insta::assert_snapshot!(refused(app, &bootstrap).await, @r"
    the app cannot start, 1 problem
      - subscription note: topic ordres does not exist: create it, or call `KafkaBroker::create_topic` before the start
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn no_broker_at_the_address_is_said_within_the_connect_timeout() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bootstrap = free.to_string();
    let kafka = KafkaBroker::new(&bootstrap).connect_timeout(Duration::from_secs(2));
    let begun = Instant::now();
    let text = refused(app(kafka, "orders", &Ledger::new(), note), &bootstrap).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    insta::assert_snapshot!(text, @r"
    the app cannot start, 1 problem
      - Kafka at HOST:PORT: no broker answered (Local: Broker transport failure): check the address, that it is running, and the security settings
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn everything_that_is_wrong_is_said_at_once() {
    let bootstrap = cluster().bootstrap();
    blocking(|| cluster().create_topic("wrong", 1, 1).unwrap());
    let service = |kafka: KafkaBroker| {
        RustStream::new("billing")
            .state(Ledger::new())
            .broker(kafka, |kafka| {
                kafka
                    .mount(note.topic("wrong"))
                    .mount(note.topic("wrong").name("audit"))
                    .mount(note.topic("ordres").name("late"))
            })
    };
    // The settings contradict themselves: the cluster is not asked.
    let contradicting = KafkaBroker::new(&bootstrap)
        .commit(Commit::Tracked)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "true");
    insta::assert_snapshot!(refused(service(contradicting), &bootstrap).await, @r"
    the app cannot start, 3 problems
      - Kafka at HOST:PORT: `enable.auto.offset.store=true` would move positions past records that no handler has seen: remove it; `.commit(Commit::Auto)` stores the position of what is handed to its handler
      - Kafka at HOST:PORT: `enable.auto.commit=false` would never commit what was settled: remove it; positions are committed every `auto.commit.interval.ms`, and only those that were settled
      - subscription audit: topic wrong is consumed by subscription note in group billing already, and each record would reach only one of the two: mount this one on a broker with another `.group(..)`
    ");
    insta::assert_snapshot!(refused(service(KafkaBroker::new(&bootstrap)), &bootstrap).await, @r"
    the app cannot start, 2 problems
      - subscription audit: topic wrong is consumed by subscription note in group billing already, and each record would reach only one of the two: mount this one on a broker with another `.group(..)`
      - subscription late: topic ordres does not exist: create it, or call `KafkaBroker::create_topic` before the start
    ");
}
