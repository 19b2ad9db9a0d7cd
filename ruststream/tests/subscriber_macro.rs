//! What `#[subscriber]` makes of a function, seen from its own crate. Dispatch is tested with the test kit.
#![deny(warnings)]

use std::time::Duration;

use ruststream::{
    BoxError, FromDelivery, Handler, Headers, IntoSubscriber, Key, Meta, Outcome, ProcessingOrder,
    Requirements, RetryPolicy, Shutdown, State, Subscriber, subscriber,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Order<'a> {
    id: u64,
    item: &'a str,
}

struct Rates {
    vat: f64,
}

const TOPIC: &str = "orders";

#[subscriber("orders")]
async fn bill(order: Order<'_>, State(rates): State<'_, Rates>) -> Result<(), BoxError> {
    tokio::task::yield_now().await;
    if order.item.is_empty() || rates.vat < 0.0 {
        return Err(format!("order {} has no item", order.id).into());
    }
    Ok(())
}

#[subscriber(
    TOPIC,
    name = "audit-trail",
    ordering = ProcessingOrder::Key,
    concurrency = 8,
    retry = RetryPolicy::attempts(5),
    drain_timeout = Duration::from_secs(2),
)]
async fn audit(
    order: &Order<'_>,
    key: Key<&str>,
    meta: Meta<'_>,
    headers: Headers<'_>,
    shutdown: Shutdown,
) -> Outcome {
    tokio::task::yield_now().await;
    if shutdown.is_requested() || headers.is_empty() {
        return Outcome::Skip;
    }
    let _ = (order.id, key.0.len(), meta.offset);
    Outcome::Ack
}

#[subscriber("orders")]
async fn hidden(_: &[u8], State(rates): State<Rates>) {
    tokio::task::yield_now().await;
    let _ = rates.vat;
}

#[subscriber("orders")]
async fn declared<'a>(order: Option<&Order<'a>>, _key: Key<Option<&'a str>>) {
    tokio::task::yield_now().await;
    let _ = order.map(|order| order.id);
}
#[subscriber("orders")]
async fn order(order: Option<Order<'_>>) {
    tokio::task::yield_now().await;
    let _ = order.map(|order| order.id);
}

fn mounted<S: IntoSubscriber>(subscriber: S) -> Subscriber<S::Handler>
where
    S::Handler: Handler,
{
    subscriber.into_subscriber()
}

#[tokio::test]
async fn the_function_stays_callable() {
    let rates = Rates { vat: 0.2 };
    bill::body(Order { id: 1, item: "tea" }, State(&rates))
        .await
        .unwrap();
    let _ = mounted(bill);
    let _ = mounted(audit);
    let _ = mounted(hidden.concurrency(3));
    let _ = mounted(declared);
    let _ = mounted(order);
    let mut r = Requirements::default();
    bill {}.requires(&mut r);
    <State<'_, Rates> as FromDelivery<'_>>::requires(&mut r);
    println!("{r:?} {:?}", audit());
}
