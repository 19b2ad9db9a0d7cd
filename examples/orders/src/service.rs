//! The service: what a user of the framework writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ruststream::BoxError;
use ruststream::broker::Broker;
use ruststream::prelude::*;

use crate::totals::Totals;

/// Where orders come from.
pub(crate) const ORDERS: &str = "orders";

/// Where their invoices go.
pub(crate) const INVOICES: &str = "invoices";

/// Where orders go that cannot be billed.
pub(crate) const DEAD_LETTERS: &str = "orders.dlq";

/// An order, as it stands in the topic. Decoded without copying: the text borrows from the payload.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order<'a> {
    /// The run that made it: a topic may hold orders of earlier runs.
    pub(crate) run: u64,
    pub(crate) id: u64,
    pub(crate) customer: &'a str,
    pub(crate) cents: u64,
}

/// What the customer has to pay.
#[derive(Debug, Serialize)]
pub(crate) struct Invoice<'a> {
    pub(crate) run: u64,
    pub(crate) order: u64,
    pub(crate) customer: &'a str,
    pub(crate) cents: u64,
}

/// What the service keeps.
#[derive(Debug)]
pub(crate) struct Billing {
    pub(crate) run: u64,
    billed: AtomicU64,
    cents: AtomicU64,
    /// Orders of other runs that were billed.
    others: AtomicU64,
}

/// One order in this many meets a payment service that answers only the second time.
const NO_ANSWER: u64 = 25_000;

/// Bills an order. The invoice goes out under the order's key, and the order is done when that is confirmed.
#[subscriber(ORDERS, reply = INVOICES, dead_letter = DEAD_LETTERS)]
async fn bill<'a>(
    order: Order<'a>,
    meta: Meta<'_>,
    State(billing): State<'_, Arc<Billing>>,
) -> Result<Invoice<'a>, BoxError> {
    if order.cents == 0 {
        return Err(Permanent::new("there is nothing to pay").into());
    }
    if order.id % NO_ANSWER == NO_ANSWER / 2 && meta.attempt == 1 {
        return Err("the payment service does not answer".into());
    }
    billing.count(&order);
    Ok(Invoice {
        run: order.run,
        order: order.id,
        customer: order.customer,
        cents: order.cents,
    })
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
            others: AtomicU64::new(0),
        }
    }

    fn count(&self, order: &Order<'_>) {
        if order.run == self.run {
            self.billed.fetch_add(1, Ordering::Relaxed);
            self.cents.fetch_add(order.cents, Ordering::Relaxed);
        } else {
            self.others.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Orders of this run that were billed.
    pub(crate) fn billed(&self) -> u64 {
        self.billed.load(Ordering::Relaxed)
    }

    /// Invoices of this run that are confirmed, and the sum of its invoices.
    ///
    /// An order of another run counts as billed before its invoice counts as confirmed, and the report is older: so there
    /// are never more than were confirmed, and when nothing is under way, exactly as many.
    pub(crate) fn invoices(&self, report: &Report) -> Totals {
        let replied: u64 = report.subscriptions.iter().map(|each| each.replied).sum();
        Totals {
            count: replied.saturating_sub(self.others.load(Ordering::Relaxed)),
            cents: self.cents.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruststream::broker::Delivery;
    use ruststream::dead_letter::Origin;
    use ruststream::memory::MemoryBroker;
    use ruststream::testing::TestApp;
    use serde_json::{Value, json};

    async fn start(billing: &Arc<Billing>) -> Result<TestApp, ruststream::Error> {
        TestApp::start(app(MemoryBroker::new(), Arc::clone(billing))).await
    }

    fn order(run: u64, id: u64, cents: u64) -> Order<'static> {
        let customer = "ada";
        Order {
            run,
            id,
            customer,
            cents,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn orders_are_billed_once_and_an_unanswered_one_is_tried_again() -> Result<(), BoxError> {
        let billing = Arc::new(Billing::new());
        let t = start(&billing).await?;
        for id in [1, 2, NO_ANSWER / 2] {
            t.publish_with_key(ORDERS, "ada", &order(billing.run, id, 150))?;
        }
        t.settled().await;
        let invoice = |id| json!({ "run": billing.run, "order": id, "customer": "ada", "cents": 150 });
        assert_eq!(
            t.published::<Value>(INVOICES)?,
            [1, 2, NO_ANSWER / 2].map(invoice)
        );
        let keys = t.broker().records(INVOICES);
        assert!(keys.iter().all(|invoice| invoice.key() == Some(b"ada")));
        let report = t.stop().await?;
        assert_eq!(report.subscriptions[0].retried, 1);
        assert_eq!(billing.invoices(&report), Totals { count: 3, cents: 450 });
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn only_confirmed_invoices_count() -> Result<(), BoxError> {
        let billing = Arc::new(Billing::new());
        let t = start(&billing).await?;
        t.broker().hold_confirmations(INVOICES);
        t.publish(ORDERS, &order(billing.run, 1, 150))?;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!((billing.billed(), billing.invoices(&t.report()).count), (1, 0));
        t.broker().confirm(INVOICES);
        t.settled().await;
        assert_eq!(billing.invoices(&t.report()).count, 1);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn orders_of_other_runs_are_billed_and_do_not_count() -> Result<(), BoxError> {
        let billing = Arc::new(Billing::new());
        let t = start(&billing).await?;
        t.publish(ORDERS, &order(billing.run - 1, 1, 999))?;
        t.publish(ORDERS, &order(billing.run, 1, 150))?;
        t.settled().await;
        assert_eq!(t.published::<Value>(INVOICES)?.len(), 2);
        assert_eq!(billing.invoices(&t.report()), Totals { count: 1, cents: 150 });
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_cannot_be_billed_is_a_dead_letter_and_the_others_go_on() -> Result<(), BoxError> {
        let billing = Arc::new(Billing::new());
        let t = start(&billing).await?;
        t.publish(ORDERS, &order(billing.run, 1, 0))?;
        t.publish(ORDERS, &"no order")?;
        t.publish(ORDERS, &order(billing.run, 2, 150))?;
        t.settled().await;
        let letters = t.broker().records(DEAD_LETTERS);
        let mut why = Vec::new();
        for letter in &letters {
            let headers = letter.headers();
            let origin = Origin::of(&headers).ok_or("no origin")?;
            why.push((origin.error_kind.to_owned(), origin.attempts));
        }
        assert_eq!(why, [("permanent".to_owned(), 1), ("undecodable".to_owned(), 1)]);
        let report = t.stop().await?;
        let counted = &report.subscriptions[0];
        assert_eq!(
            (counted.settled, counted.replied, counted.dead_lettered),
            (3, 1, 2)
        );
        assert_eq!(billing.invoices(&report), Totals { count: 1, cents: 150 });
        Ok(())
    }
}
