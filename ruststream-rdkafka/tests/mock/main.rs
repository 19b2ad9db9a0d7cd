//! The adapter on the embedded cluster: the real client, the real protocol, no network.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests; clippy's exception does not reach helper functions"
)]

mod close;
mod consume;
mod contract;
mod faults;
mod headers;
mod publish;
mod publish_errors;
mod rebalance;
mod replies;
mod room;
mod service;
mod startup;
mod support;
