//! Runs the program as a person would, and reads what it left with a small app.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod support;

use std::collections::BTreeSet;

use ruststream::prelude::*;
use ruststream_rdkafka::ApiKey;
use serde_json::json;

use support::*;

const COUNT: u64 = 20_000;

/// What the orders of a run come to.
fn cents() -> u64 {
    (0..COUNT).map(|id| 100 + id % 9_900).sum()
}

/// Checks that each order of `run` has one invoice, and that they come to the same sum.
fn check(invoices: &[Invoice], run: u64) {
    let invoices: Vec<_> = invoices.iter().filter(|invoice| invoice.run == run).collect();
    let orders: BTreeSet<u64> = invoices.iter().map(|invoice| invoice.order).collect();
    assert_eq!(invoices.len() as u64, COUNT);
    assert!(orders.into_iter().eq(0..COUNT), "an order has two invoices");
    assert_eq!(invoices.iter().map(|invoice| invoice.cents).sum::<u64>(), cents());
    let keyed = |invoice: &&Invoice| invoice.key.as_ref() == Some(&invoice.customer);
    assert!(
        invoices.iter().all(keyed),
        "an invoice has not the key of its order"
    );
}

#[tokio::test]
async fn the_main_job_runs_on_the_embedded_broker() {
    let run = orders(&[], &["--count", "20000"]).await;
    let out = run.succeeded();
    assert!(
        out.contains("confirmed 20000 invoices of this run, 1000200.00 in all"),
        "{out}"
    );
    assert!(
        out.contains("received  20000, failed 1, retried 1, dead-lettered 0"),
        "{out}"
    );
    assert_eq!(committed(out), COUNT, "{out}");
}

#[tokio::test]
async fn every_order_has_an_invoice_in_the_topic_beside_those_of_other_runs() {
    let kafka = embedded().await;
    let publisher = kafka.publisher().unwrap();
    let other = |id, cents| json!({ "run": 1, "id": id, "customer": "ada", "cents": cents });
    for order in [other(1, 150), other(2, 0), json!("no order")] {
        let record = Record::json("orders", &order).unwrap().key("ada");
        publisher.publish(record).await.unwrap();
    }
    let run = orders(&over_port(&kafka), &["--count", "20000"]).await;
    let out = run.succeeded();
    assert!(out.contains("confirmed 20000 invoices of this run"), "{out}");
    assert!(
        out.contains("received  20003, failed 3, retried 1, dead-lettered 2"),
        "{out}"
    );

    let Left { invoices, letters } = left(kafka.bootstrap_servers()).await;
    assert_eq!(invoices.len() as u64, COUNT + 1);
    let others: Vec<_> = invoices.iter().filter(|invoice| invoice.run == 1).collect();
    assert_eq!((others[0].order, others[0].cents), (1, 150));
    check(
        &invoices,
        invoices.iter().map(|invoice| invoice.run).max().unwrap(),
    );
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[0], "permanent: there is nothing to pay");
    assert!(letters[1].starts_with("undecodable: "), "{letters:?}");
}

#[tokio::test]
async fn an_interrupted_run_bills_the_orders_that_it_made() {
    let run = interrupted(&["--forever"]).await;
    let out = run.succeeded();
    let confirmed = out.lines().find_map(|line| {
        let count = line
            .strip_prefix("confirmed ")?
            .split_once(" invoices of this run")?
            .0;
        count.parse::<u64>().ok()
    });
    assert_eq!(confirmed, Some(committed(out)), "{out}");
}

/// Kafka's 29: the user may not write.
#[tokio::test]
async fn a_run_that_cannot_make_its_orders_says_so_and_fails() {
    let kafka = embedded().await;
    kafka.cluster().unwrap().fail_next(ApiKey::Produce, 29, 1);
    let run = orders(&over_port(&kafka), &["--count", "100"]).await;
    let err = run.failed();
    assert!(
        err.contains("caused by: a record for topic orders was not confirmed"),
        "{err}"
    );
}

#[tokio::test]
#[ignore = "needs Java: just test-kafka"]
async fn the_main_job_runs_on_a_real_broker_and_goes_on_where_it_stopped() {
    let cluster = blocking(|| ruststream_kafka_cluster::Cluster::start(1).unwrap()).await;
    let servers = cluster.bootstrap();
    for run in 1..=2 {
        let ended = orders(&[("KAFKA_BOOTSTRAP_SERVERS", &servers)], &["--count", "20000"]).await;
        let out = ended.succeeded();
        assert!(out.contains("confirmed 20000 invoices of this run"), "{out}");
        assert!(
            out.contains("received  20000, failed 1, retried 1, dead-lettered 0"),
            "{out}"
        );
        assert_eq!(committed(out), run * COUNT, "{out}");
    }
    let Left { invoices, letters } = left(&servers).await;
    let runs: BTreeSet<u64> = invoices.iter().map(|invoice| invoice.run).collect();
    assert_eq!((runs.len(), letters.len()), (2, 0));
    for run in runs {
        check(&invoices, run);
    }
    blocking(move || drop(cluster)).await;
}
