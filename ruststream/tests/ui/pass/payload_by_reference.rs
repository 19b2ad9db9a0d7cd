//! `&T`: decoded by the call, lent to the function across awaits.
#![deny(warnings)]

use ruststream::subscriber;
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    id: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    item: &'a str,
}

#[subscriber("orders")]
async fn owned(order: &Order) {
    tokio::task::yield_now().await;
    assert!(order.id > 0);
}

#[subscriber("lines")]
async fn borrowing(line: &Line<'_>) {
    tokio::task::yield_now().await;
    assert!(!line.item.is_empty());
}

#[subscriber("lines")]
async fn declared<'a, 'b: 'a>(line: &'a Line<'b>) {
    tokio::task::yield_now().await;
    let item: &'b str = line.item;
    let _ = item;
}

#[subscriber("lines")]
async fn several(lines: &Vec<Line<'_>>) {
    tokio::task::yield_now().await;
    assert!(lines.iter().all(|line| !line.item.is_empty()));
}

fn main() {}
