//! The way out: records are enqueued in order, receipts resolve when the cluster has confirmed them.
//!
//! `handle` is what a service sees; `acks`, `places` and `stacks` carry a result from the client's threads to its receipt or sender;
//! `settings` and `failure` are words. What touches librdkafka is in `native`: `producer` and `interceptor`.

mod acks;
mod chunks;
mod failure;
mod handle;
mod places;
mod receipt;
mod sender;
mod settings;
mod stacks;

use std::sync::Arc;

use ruststream::{PublishError, PublishErrorKind};

pub(crate) use acks::Acks;
pub(crate) use failure::Failure;
pub use handle::KafkaPublisher;
pub(crate) use handle::start;
pub(crate) use places::Landed;
pub use receipt::KafkaReceipt;
pub use sender::KafkaSender;
pub(crate) use settings::{MAX_UNCONFIRMED, Purpose, Settings};

/// The results of one client's records.
type Results = Acks<PublishError>;

/// Resolves what a client that is gone did not: nothing, as far as is known.
pub(crate) fn fail_missing(results: &Arc<Results>) {
    let missing = results.fail_missing(|| {
        let message = "the client ended and did not say what became of the record";
        PublishError::new(PublishErrorKind::Closed, message).possibly_persisted()
    });
    if missing > 0 {
        tracing::error!(
            missing,
            "librdkafka lost records without a word: please report this"
        );
    }
}
