//! A service framework for Kafka.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod __private;
mod app;
pub mod broker;
mod dispatch;
mod error;
mod handler;
mod headers;
pub mod memory;
mod outcome;
pub mod prelude;
mod settlement;
mod subscription;
mod sync;
pub mod testing;

pub use app::{Mounts, Report, Running, RustStream, StopHandle, SubscriptionReport};
pub use error::{BoxError, Error, ErrorKind, Problem};
pub use handler::{
    BigEndian, Context, FromDelivery, FromKey, Handler, Key, LittleEndian, Meta, Requirements, Shutdown,
    State,
};
pub use headers::Headers;
pub use outcome::{Failure, FailureKind, IntoOutcome, Outcome, Permanent};
pub use ruststream_macros::subscriber;
pub use subscription::{IntoSubscriber, ProcessingOrder, RetryPolicy, Subscriber};
