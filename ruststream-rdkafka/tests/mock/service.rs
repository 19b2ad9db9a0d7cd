//! A service that replies or dead-letters, with handlers that a test lets through, and what it left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::Message as _;
use rdkafka::message::Headers as _;
use ruststream::dead_letter::Origin;
use ruststream::prelude::*;
use ruststream::{Error, Running};
use ruststream_rdkafka::KafkaBroker;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::support::*;

/// The orders that handlers were called with, and which of them may go on.
#[derive(Debug)]
pub(crate) struct Orders {
    called: Mutex<Vec<u64>>,
    below: watch::Sender<u64>,
    passed: AtomicUsize,
}

impl Orders {
    /// Those from `held` on wait until they are let through.
    pub(crate) fn held_from(held: u64) -> Arc<Self> {
        Arc::new(Self {
            called: Mutex::default(),
            below: watch::Sender::new(held),
            passed: AtomicUsize::new(0),
        })
    }

    pub(crate) fn new() -> Arc<Self> {
        Self::held_from(u64::MAX)
    }

    /// Those below `below` may go on.
    pub(crate) fn let_through(&self, below: u64) {
        self.below.send_replace(below);
    }

    pub(crate) async fn pass(&self, order: u64) {
        self.called.lock().unwrap().push(order);
        let mut below = self.below.subscribe();
        below.wait_for(|below| order < *below).await.unwrap();
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> usize {
        self.called.lock().unwrap().len()
    }

    /// In order; fails when an order was handled twice.
    pub(crate) fn each_once(&self) -> Vec<u64> {
        let mut called = self.called.lock().unwrap().clone();
        called.sort_unstable();
        assert!(
            called.is_sorted_by(|one, next| one < next),
            "handled twice: {called:?}"
        );
        called
    }
}

#[subscriber("orders", reply = "invoices")]
pub(crate) async fn bill(order: u64, State(orders): State<'_, Arc<Orders>>) -> u64 {
    orders.pass(order).await;
    order
}

#[subscriber("orders", dead_letter = "refused")]
pub(crate) async fn refuse(order: u64, State(orders): State<'_, Arc<Orders>>) -> Outcome {
    orders.pass(order).await;
    Outcome::DeadLetter
}

/// A cluster with topics of one partition.
pub(crate) async fn shop() -> KafkaBroker {
    let broker = cluster("orders", 1).await;
    broker.create_topic("invoices", 1).await.unwrap();
    broker.create_topic("refused", 1).await.unwrap();
    broker
        .set("auto.commit.interval.ms", "50")
        .set("reconnect.backoff.max.ms", "200")
}

pub(crate) async fn start(
    broker: &KafkaBroker,
    orders: &Arc<Orders>,
    subscriber: impl IntoSubscriber,
) -> Running {
    let app = RustStream::new(GROUP)
        .state(Arc::clone(orders))
        .shutdown_timeout(Duration::from_secs(6))
        .broker(broker.clone(), |kafka| kafka.mount(subscriber));
    app.start().await.unwrap()
}

pub(crate) async fn settled(running: &Running, count: u64) {
    let what = format!("{count} orders are settled");
    poll_until(&what, || running.report().subscriptions[0].settled >= count).await;
}

pub(crate) async fn stop(running: Running) -> Report {
    running.stop();
    stopped(running).await.unwrap()
}

pub(crate) async fn stopped(running: Running) -> Result<Report, Error> {
    timeout(SOON, running.wait()).await.expect("an app that ends")
}

/// The committed position of `orders`.
pub(crate) fn position(broker: &KafkaBroker) -> Option<i64> {
    committed(broker, "orders", 1).get(&0).copied()
}

/// The letters in `refused`: where each came from, and why.
pub(crate) fn letters(broker: &KafkaBroker) -> Vec<(i64, String, u32)> {
    let letter = |record: &rdkafka::message::OwnedMessage| {
        let headers = record.headers().unwrap();
        let headers: Headers<'_> = headers.iter().map(|header| (header.key, header.value)).collect();
        let origin = Origin::of(&headers).unwrap();
        (origin.offset, origin.error_kind.to_owned(), origin.attempts)
    };
    records_of(broker, "refused", 0).iter().map(letter).collect()
}
