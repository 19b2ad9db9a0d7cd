//! The receipt of one record.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ruststream::broker::Receipt;
use ruststream::{Confirmed, PublishError};

use super::Results;
use super::places::{Landed, Ticket};
use crate::native;

/// Resolves when the cluster has confirmed the record, or when it is certain that this will not happen: at the latest
/// after `message.timeout.ms`, or when the publisher is closed.
///
/// It may be awaited on any runtime and outlive its publisher. Dropping it costs nothing and loses nothing but the
/// result.
#[must_use = "a receipt says whether the record was confirmed: await it"]
pub struct KafkaReceipt {
    results: Arc<Results>,
    /// `None` once the result was taken.
    ticket: Option<Ticket>,
}

impl KafkaReceipt {
    pub(super) fn new(results: Arc<Results>, ticket: Ticket) -> Self {
        Self {
            results,
            ticket: Some(ticket),
        }
    }
}

impl Future for KafkaReceipt {
    type Output = Result<Confirmed, PublishError>;

    /// # Panics
    ///
    /// When it has resolved before.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket.expect("a receipt is not polled after it resolved");
        let polled = self.results.poll(ticket, cx);
        if polled.is_ready() {
            self.ticket = None;
        }
        polled.map_ok(confirmed)
    }
}

impl Receipt for KafkaReceipt {
    fn now(&mut self) -> Option<Result<Confirmed, PublishError>> {
        let result = self.results.claim(self.ticket?)?;
        self.ticket = None;
        Some(result.map(confirmed))
    }
}

fn confirmed(landed: Landed) -> Confirmed {
    Confirmed::new(landed.partition, landed.offset, native::time(landed.timestamp))
}

impl Drop for KafkaReceipt {
    #[inline]
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.results.forget(ticket);
        }
    }
}

impl fmt::Debug for KafkaReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaReceipt")
            .field("resolved", &self.ticket.is_none())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KafkaPublisher;

    fn moves_and_is_shared<T: Send + Sync + Unpin + 'static>() {}

    #[test]
    fn publishers_and_receipts_move_between_threads() {
        moves_and_is_shared::<KafkaPublisher>();
        moves_and_is_shared::<KafkaReceipt>();
    }
}
