//! Values: owned, borrowing from the payload, behind an alias, and JSON types of the standard library.
#![deny(warnings)]

use std::borrow::Cow;
use std::collections::HashMap;

use ruststream::subscriber;
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    id: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    item: &'a str,
    note: Cow<'a, str>,
}

type Lines<'a> = Vec<Line<'a>>;

#[subscriber("orders")]
async fn owned(order: Order) {
    tokio::task::yield_now().await;
    assert!(order.id > 0);
}

#[subscriber("lines")]
async fn borrowing(line: Line<'_>) {
    tokio::task::yield_now().await;
    assert!(line.item.len() > line.note.len());
}

#[subscriber("lines")]
async fn alias(lines: Lines<'_>) {
    tokio::task::yield_now().await;
    let _ = lines;
}

#[subscriber("lines")]
async fn declared<'a>(line: Line<'a>) {
    tokio::task::yield_now().await;
    let item: &'a str = line.item;
    let _ = item;
}

#[subscriber("numbers")]
async fn number(total: f64) {
    assert!(total > 0.0);
}

#[subscriber("text")]
async fn text(text: String) {
    let _ = text;
}

#[subscriber("text")]
async fn borrowed_text(text: &str) {
    tokio::task::yield_now().await;
    assert!(!text.is_empty());
}

#[subscriber("documents")]
async fn document(bytes: Vec<u8>, ) {
    let _ = bytes;
}

#[subscriber("documents")]
async fn tuple((id, tags): (u64, HashMap<&str, u32>)) {
    tokio::task::yield_now().await;
    let _ = (id, tags);
}

fn main() {}
