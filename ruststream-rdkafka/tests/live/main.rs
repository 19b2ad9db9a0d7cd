//! Apps on real Kafka nodes: what must hold when brokers, services and groups fail, join and leave.
//!
//! `just test-kafka` runs them. Most share a node, which ends with the process; those that break nodes start their own.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests; clippy's exception does not reach helper functions"
)]

mod contract;
mod crash;
mod delivery;
mod outcomes;
mod publish;
mod publish_errors;
mod rebalance;
mod replies;
mod shutdown;
mod startup;
mod stop;
mod support;
