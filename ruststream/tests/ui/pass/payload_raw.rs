//! `&[u8]` and `Option<&[u8]>`: the bytes as they came.
#![deny(warnings)]

use ruststream::subscriber;

#[subscriber("orders")]
async fn bytes(payload: &[u8]) {
    tokio::task::yield_now().await;
    assert!(!payload.is_empty());
}

#[subscriber("orders")]
async fn declared<'a>(payload: &'a [u8]) {
    tokio::task::yield_now().await;
    let first: Option<&'a u8> = payload.first();
    assert!(first.is_some());
}

#[subscriber("orders")]
async fn tombstones(payload: Option<&[u8]>) {
    tokio::task::yield_now().await;
    assert!(payload.is_none_or(|bytes| !bytes.is_empty()));
}

#[subscriber("orders")]
async fn ignored(_: &[u8]) {}

fn main() {}
