//! What a user declares: a handler's membership in a topic, with its options.

mod dead_letter;
mod options;
mod retry;
mod subscriber;

pub use dead_letter::DeadLetterLimit;
pub use options::ProcessingOrder;
pub(crate) use options::{DEFAULT_DRAIN_TIMEOUT, Options, Settings};
pub use retry::RetryPolicy;
pub use subscriber::{IntoSubscriber, Subscriber};
