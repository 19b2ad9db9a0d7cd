//! Options are expressions; the topic can be one, too.
#![deny(warnings)]

use std::time::Duration;

use ruststream::{DeadLetterLimit, ProcessingOrder, RetryPolicy, subscriber};

mod topics {
    pub const ORDERS: &str = "orders";
}

const PLACES: usize = 4;

#[subscriber(
    topics::ORDERS,
    name = concat!("billing", "-2"),
    ordering = ProcessingOrder::Key,
    concurrency = PLACES * 2,
    retry = RetryPolicy::attempts(5).initial(Duration::from_millis(20)),
    timeout = Duration::from_secs(1) * 5,
    dead_letter = format!("{}.dlq", topics::ORDERS),
    dead_letter_limit = DeadLetterLimit::none().consecutive(PLACES as u64),
    drain_timeout = if PLACES > 2 { Duration::MAX } else { Duration::ZERO },
)]
async fn bill(_: u64) {}

#[subscriber(topics::ORDERS, reply = concat!("in", "voices"))]
async fn invoice(order: u64) -> u64 {
    order
}

#[subscriber(format!("{}.{}", "eu", topics::ORDERS), concurrency = 1, name = String::from("eu"))]
async fn eu(_: u64) {}

fn main() {
    let _ = (bill(), eu(), invoice());
}
