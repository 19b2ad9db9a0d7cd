//! A service framework for Kafka.
#![forbid(unsafe_code)]

pub mod broker;
mod error;
mod headers;
mod subscription;

pub use error::{BoxError, Error, ErrorKind, Problem};
pub use headers::Headers;
