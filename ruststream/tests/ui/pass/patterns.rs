//! Patterns in arguments, and attributes on them.
#![deny(warnings)]

use ruststream::{Key, subscriber};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order<'a> {
    id: u64,
    item: &'a str,
    #[allow(dead_code)]
    total: f64,
}

#[subscriber("orders")]
async fn fields(Order { id, item, .. }: Order<'_>) {
    tokio::task::yield_now().await;
    let _ = (id, item);
}

#[subscriber("orders")]
async fn fields_of_a_reference(&Order { id, item, .. }: &Order<'_>) {
    tokio::task::yield_now().await;
    let _ = (id, item);
}

#[subscriber("orders")]
async fn ignored(_: Order<'_>, _: Key<&str>) {}

#[subscriber("orders")]
async fn changed(mut order: Order<'_>) {
    order.id += 1;
    tokio::task::yield_now().await;
    let _ = order.id;
}

#[subscriber("orders")]
async fn whole(whole @ Order { id, .. }: Order<'_>, #[allow(unused_variables)] Key(key): Key<&str>) {
    tokio::task::yield_now().await;
    let _ = (whole, id);
}

fn main() {}
