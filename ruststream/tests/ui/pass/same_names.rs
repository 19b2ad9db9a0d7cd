//! The function, its argument, its module's locals and the names in the generated code do not get in each other's way.
#![deny(warnings)]

use ruststream::{Key, subscriber};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    id: u64,
}

#[derive(Deserialize)]
struct D(u64);

#[subscriber("orders")]
async fn order(order: Order) {
    let _ = order.id;
}

#[subscriber("orders")]
async fn payload(payload: &Order, Key(key): Key<&str>) {
    let order = payload.id;
    tokio::task::yield_now().await;
    let _ = (order, key);
}

#[subscriber("orders")]
async fn delivery(cx: D, value: Key<&str>) {
    tokio::task::yield_now().await;
    let _ = (cx.0, value);
}

#[subscriber("orders", name = subscriber())]
async fn body(call: Order) {
    let _ = call.id;
}

#[subscriber("orders")]
async fn cx(requires: Order) {
    let _ = requires.id;
}

#[subscriber("orders")]
async fn r#match(r#type: Order) {
    let _ = r#type.id;
}

/// Seen by the option above; the generated local of this name is not.
fn subscriber() -> String {
    "named".to_owned()
}

fn main() {
    let order = order();
    let (_, _) = (&order, &order);
    let subscribers = (payload(), delivery(), body(), cx(), r#match());
    let _ = subscribers;
}
