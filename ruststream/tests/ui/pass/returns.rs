//! What a subscriber can return, also behind an alias.
#![deny(warnings)]

use std::fmt;

use ruststream::{BoxError, IntoOutcome, Outcome, subscriber};

#[derive(Debug)]
enum BillError {
    NoItem,
}

impl fmt::Display for BillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no item")
    }
}

impl std::error::Error for BillError {}

type Result<T = (), E = BillError> = std::result::Result<T, E>;

#[subscriber("orders")]
async fn unit(order: u64) -> () {
    let _ = order;
}

#[subscriber("orders")]
async fn outcome(order: u64) -> Outcome {
    if order == 0 { Outcome::Skip } else { Outcome::Ack }
}

#[subscriber("orders")]
async fn alias(order: u64) -> Result {
    if order == 0 { Err(BillError::NoItem) } else { Ok(()) }
}

#[subscriber("orders")]
async fn alias_of_outcome(order: u64) -> Result<Outcome> {
    if order == 0 { Err(BillError::NoItem) } else { Ok(Outcome::Retry) }
}

#[subscriber("orders")]
async fn boxed(text: &str) -> std::result::Result<(), BoxError> {
    tokio::task::yield_now().await;
    text.parse::<u64>()?;
    Ok(())
}

#[subscriber("orders")]
async fn io(order: u64) -> std::io::Result<()> {
    let _ = order;
    Ok(())
}

#[subscriber("orders")]
async fn opaque(order: u64) -> impl IntoOutcome {
    let _ = order;
}

/// An outcome of the user's own.
struct Billed<'a>(&'a str);

impl IntoOutcome for Billed<'_> {
    fn into_outcome(self) -> Outcome {
        if self.0.is_empty() { Outcome::Skip } else { Outcome::Ack }
    }
}

#[subscriber("orders")]
async fn of_my_own<'a>(text: &'a str) -> Billed<'a> {
    Billed(text)
}

fn main() {}
