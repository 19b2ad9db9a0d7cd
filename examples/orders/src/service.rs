//! The service: what a user of the framework writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ruststream::broker::Broker;
use ruststream::prelude::*;

/// The topic of the orders.
pub(crate) const TOPIC: &str = "orders";

/// An order, as it stands in the topic. Decoded without copying: the text borrows from the payload.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order<'a> {
    /// The run that made it: a topic may hold orders of earlier runs.
    pub(crate) run: u64,
    pub(crate) id: u64,
    pub(crate) customer: &'a str,
    pub(crate) cents: u64,
}

/// What the service keeps.
#[derive(Debug)]
pub(crate) struct Billing {
    pub(crate) run: u64,
    billed: AtomicU64,
    cents: AtomicU64,
}

/// The payment service does not answer.
#[derive(Debug)]
pub(crate) struct NoAnswer;

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the payment service does not answer")
    }
}

impl std::error::Error for NoAnswer {}

/// One order in this many meets a payment service that answers only the second time.
const NO_ANSWER: u64 = 25_000;

/// Bills an order.
#[subscriber(TOPIC)]
async fn bill(
    order: Order<'_>,
    meta: Meta<'_>,
    State(billing): State<'_, Arc<Billing>>,
) -> Result<(), NoAnswer> {
    if order.id % NO_ANSWER == NO_ANSWER / 2 && meta.attempt == 1 {
        return Err(NoAnswer);
    }
    if order.run == billing.run {
        billing.billed.fetch_add(1, Ordering::Relaxed);
        billing.cents.fetch_add(order.cents, Ordering::Relaxed);
    }
    Ok(())
}

/// The app, on any broker: `main` gives it Kafka, a test the memory broker.
pub(crate) fn app<B: Broker>(broker: B, billing: Arc<Billing>) -> RustStream {
    RustStream::new("orders-example")
        .state(billing)
        .broker(broker, |broker| broker.mount(bill))
}

impl Billing {
    pub(crate) fn new() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            run: since.as_nanos() as u64,
            billed: AtomicU64::new(0),
            cents: AtomicU64::new(0),
        }
    }

    /// Orders of this run that were billed.
    pub(crate) fn billed(&self) -> u64 {
        self.billed.load(Ordering::Relaxed)
    }

    /// Their sum.
    pub(crate) fn cents(&self) -> u64 {
        self.cents.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruststream::BoxError;
    use ruststream::memory::MemoryBroker;
    use ruststream::testing::TestApp;

    #[tokio::test(start_paused = true)]
    async fn orders_are_billed_once_and_an_unanswered_one_is_tried_again() -> Result<(), BoxError> {
        let billing = Arc::new(Billing::new());
        let t = TestApp::start(app(MemoryBroker::new(), Arc::clone(&billing))).await?;
        for id in [1, 2, NO_ANSWER / 2] {
            t.publish(
                TOPIC,
                &Order {
                    run: billing.run,
                    id,
                    customer: "ada",
                    cents: 150,
                },
            )?;
        }
        t.settled().await;
        assert_eq!((billing.billed(), billing.cents()), (3, 450));
        assert_eq!(t.stop().await?.subscriptions[0].retried, 1);
        Ok(())
    }
}
