//! `Option<T>`: a tombstone is `None`.
#![deny(warnings)]

use ruststream::subscriber;
use serde::Deserialize;

#[derive(Deserialize)]
struct Line<'a> {
    item: &'a str,
}

#[subscriber("lines")]
async fn value(line: Option<Line<'_>>) {
    tokio::task::yield_now().await;
    assert!(line.is_none_or(|line| !line.item.is_empty()));
}

#[subscriber("lines")]
async fn lent(line: Option<&Line<'_>>) {
    tokio::task::yield_now().await;
    assert!(line.is_none_or(|line| !line.item.is_empty()));
}

#[subscriber("text")]
async fn text(text: std::option::Option<&str>) {
    tokio::task::yield_now().await;
    assert!(text.is_none_or(|text| !text.is_empty()));
}

#[subscriber("numbers")]
async fn null_is_a_value(number: ::core::option::Option<Option<u64>>) {
    if let Some(None) = number {
        tokio::task::yield_now().await;
    }
}

macro_rules! through_a_fragment {
    ($name:ident, $payload:ty) => {
        #[subscriber("lines")]
        async fn $name(line: $payload) {
            tokio::task::yield_now().await;
            assert!(line.is_none_or(|line| !line.item.is_empty()));
        }
    };
}

through_a_fragment!(fragment, Option<&Line<'_>>);

fn main() {}
