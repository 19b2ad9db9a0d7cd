//! The only unsafe code of the crate: thin, owning wrappers of librdkafka's handles.
//!
//! Each type here owns one C object and frees it once. What is safe to call from where, and what blocks, is said at
//! each function; the rest of the crate needs no C knowledge.
#![allow(
    unsafe_code,
    reason = "the binding to librdkafka; every block names the invariant that it relies on"
)]

mod client;
mod code;
mod event;
mod interceptor;
#[cfg(all(test, feature = "embedded"))]
mod issue_4844;
mod list;
mod log;
mod make;
mod message;
mod metadata;
#[cfg(feature = "embedded")]
pub(crate) mod mock;
mod producer;
mod queue;
mod wake;

pub(crate) use client::{Client, Refusal};
pub(crate) use code::Code;
pub(crate) use event::Event;
pub(crate) use interceptor::time;
pub(crate) use list::List;
pub use message::KafkaDelivery;
pub(crate) use producer::{Producer, Topic};
pub(crate) use queue::{ControlQueue, PartitionQueue};
pub(crate) use wake::Wake;
