//! A service framework for Kafka.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod __private;
pub mod broker;
mod error;
mod handler;
mod headers;
mod outcome;
mod subscription;

pub use error::{BoxError, Error, ErrorKind, Problem};
pub use handler::{
    BigEndian, Context, FromDelivery, FromKey, Handler, Key, LittleEndian, Meta, Requirements, Shutdown, State,
};
pub use headers::Headers;
pub use outcome::{Failure, FailureKind, IntoOutcome, Outcome, Permanent};
pub use ruststream_macros::subscriber;
pub use subscription::{IntoSubscriber, ProcessingOrder, RetryPolicy, Subscriber};
