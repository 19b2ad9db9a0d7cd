//! Tools for tests.

pub mod contract;
