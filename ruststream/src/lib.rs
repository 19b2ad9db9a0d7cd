//! Services for Kafka: annotate async functions, mount them in an app, and get correct offsets, retries and tests.
//!
//! ```
//! use ruststream::prelude::*;
//! use ruststream::testing::TestApp;
//! # use ruststream::{BoxError, memory::MemoryBroker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! #[subscriber("orders")]
//! async fn bill(order: Order, meta: Meta<'_>) {
//!     println!("order {} at {}/{}", order.id, meta.partition, meta.offset);
//! }
//!
//! # fn kafka() -> MemoryBroker { MemoryBroker::new() }
//! fn app() -> RustStream {
//!     // `KafkaBroker::new("localhost:9092")` of the crate `ruststream-rdkafka`
//!     RustStream::new("billing").broker(kafka(), |kafka| kafka.mount(bill))
//! }
//!
//! // `app().run().await` in `main`; in a test, the same app on a broker in memory:
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let t = TestApp::start(app()).await?;
//! t.publish("orders", &Order { id: 7 })?;
//! t.settled().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`RustStream`] is the app, [`subscriber`] the attribute, [`IntoSubscriber`] has the options.
//! - [`Outcome`] and [`Failure`] say what happens to a delivery, [`RetryPolicy`] when it is tried again.
//! - [`State`], [`Key`], [`Headers`], [`Meta`], [`Publisher`] and [`Shutdown`] are what a handler can take beside its
//!   payload, [`FromDelivery`] is for your own.
//! - What a handler with `reply = ".."` returns is sent on, [`Reply`] says more than the value. What cannot be handled goes to
//!   the dead-letter topic, if there is one ([`dead_letter`] has its format).
//! - [`Record`] is what a publisher sends; its receipt resolves when the broker confirmed it. Outside of handlers a broker's
//!   [`Publisher`](trait@broker::Publisher) does it.
//! - [`testing`] runs the app without a broker; [`memory`] is the broker it then uses.
//! - [`broker`] is the contract for those who write a broker, [`testing::contract`] its test suite.
//!
//! # What it promises
//!
//! A position is stored only up to the lowest delivery that is not settled, and a delivery with a reply is settled when that
//! is confirmed. A failure is tried again in place, and what cannot be handled goes to the dead-letter topic or stops the
//! app: nothing is passed over unless the handler says [`Outcome::Skip`]. A panic is caught
//! and is a failure. Start-up, rebalance and shutdown have deadlines, and report what they left behind.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod __private;
mod app;
pub mod broker;
pub mod dead_letter;
mod dispatch;
mod error;
mod handler;
mod headers;
pub mod memory;
mod outcome;
pub mod prelude;
mod publish;
mod record;
mod settlement;
mod subscription;
mod sync;
pub mod testing;

pub use app::{Mounts, Report, Running, RustStream, StopHandle, SubscriptionReport};
pub use error::{BoxError, Error, ErrorKind, Problem};
pub use handler::{
    BigEndian, Context, FromDelivery, FromKey, Handler, Key, LittleEndian, Meta, Publisher, Reply,
    Requirements, Sending, Shutdown, State,
};
pub use headers::Headers;
pub use outcome::{Failure, FailureKind, IntoOutcome, Outcome, Permanent};
pub use publish::{Confirmed, PublishError, PublishErrorKind, SendAllError};
pub use record::Record;
pub use ruststream_macros::subscriber;
pub use subscription::{DeadLetterLimit, IntoSubscriber, ProcessingOrder, RetryPolicy, Subscriber};
