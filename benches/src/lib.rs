//! Shared fixtures of the benchmarks: the record, the consumers and producers that are compared, and the ways to measure
//! them.
//!
//! A measured consumer or producer is a process of its own ([`consumer`], [`producer`]): the harness makes topics, starts
//! it, plain, under callgrind or with the dhat allocator, and reads the one line that it prints ([`harness`]).

pub mod callgrind;
pub mod consumer;
pub mod feeder;
pub mod fill;
pub mod harness;
pub mod meter;
pub mod producer;
pub mod record;
pub mod statistics;
