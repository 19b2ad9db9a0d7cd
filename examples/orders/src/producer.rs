//! Fills the topic with orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ruststream::BoxError;
use ruststream::prelude::*;
use ruststream_rdkafka::KafkaPublisher;
use tokio::task::JoinSet;

use crate::service::{Billing, ORDERS, Order};
use crate::totals::Totals;

/// A task that makes orders; dropped, it makes no more.
#[derive(Debug)]
pub(crate) struct Producer {
    task: JoinSet<Result<Totals, BoxError>>,
    stop: Arc<AtomicBool>,
}

/// Orders made and not yet billed, at most: the embedded broker keeps only 5 MiB a partition.
const WINDOW: u64 = 20_000;

/// Orders sent at a time.
const BATCH: u64 = 2_000;

/// How long the producer waits for room in its window.
const PAUSE: Duration = Duration::from_millis(1);

impl Producer {
    /// Makes `count` orders, as fast as they are billed.
    pub(crate) fn start(publisher: KafkaPublisher, billing: Arc<Billing>, count: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut task = JoinSet::new();
        task.spawn(make(publisher, billing, count, Arc::clone(&stop)));
        Self { task, stop }
    }

    /// Has it make no more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until all orders are made and confirmed, and yields what they come to. Cancel safe.
    pub(crate) async fn end(&mut self) -> Result<Totals, BoxError> {
        match self.task.join_next().await {
            Some(made) => made?,
            None => Err("the producer has ended before".into()),
        }
    }
}

async fn make(
    publisher: KafkaPublisher,
    billing: Arc<Billing>,
    count: u64,
    stop: Arc<AtomicBool>,
) -> Result<Totals, BoxError> {
    let mut made = Totals::default();
    while made.count < count && !stop.load(Ordering::Relaxed) {
        if made.count.saturating_sub(billing.billed()) + BATCH > WINDOW {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let mut records = Vec::new();
        for id in made.count..count.min(made.count + BATCH) {
            let customer = format!("customer-{}", id % 1_000);
            let order = Order {
                run: billing.run,
                id,
                customer: &customer,
                cents: 100 + id % 9_900,
            };
            made.cents += order.cents;
            records.push(Record::json(ORDERS, &order)?.key(customer));
        }
        made.count += publisher.send_all(records).await?;
    }
    Ok(made)
}
