//! A service framework for Kafka.
#![forbid(unsafe_code)]

pub mod broker;
mod error;
mod headers;
pub mod memory;
mod subscription;
pub mod testing;

pub use error::{BoxError, Error, ErrorKind, Problem};
pub use headers::Headers;
