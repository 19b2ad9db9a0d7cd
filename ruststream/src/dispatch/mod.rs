//! Driving handlers: the loop of a partition, the life of a subscription, and their counters.

mod call;
mod counters;
mod joined;
mod lanes;
mod outgoing;
mod partition;
mod subscription;
mod words;

pub(crate) use counters::Counters;
pub(crate) use partition::{PartitionEnd, PartitionOf, Serving, serve};
pub(crate) use subscription::{Start, SubscriptionEnd, run};
