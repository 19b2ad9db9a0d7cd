//! The adapter on the embedded cluster: the real client, the real protocol, no network.

mod close;
mod consume;
mod faults;
mod headers;
mod rebalance;
mod startup;
mod support;
