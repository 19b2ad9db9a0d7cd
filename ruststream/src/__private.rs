//! What the output of `#[subscriber]` names. Not part of the public API: it may change in any release.

pub use crate::broker::Delivery;
pub use crate::handler::payload::{bytes, bytes_or_tombstone, json, json_or_tombstone};
pub use crate::handler::reply::{ReplySteps, Returned, no_value, reply_record};
pub use crate::handler::{Context, FromDelivery, Handler, Requirements};
pub use crate::outcome::{Failure, IntoOutcome, Outcome};
pub use crate::subscription::{IntoSubscriber, ProcessingOrder, RetryPolicy, Subscriber};
