//! What surrounds one call of a handler.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::publisher::{Outlet, Outlets};
use super::state::States;
use crate::Record;
use crate::broker::Delivery;

/// What surrounds one call of a handler: which subscription, which attempt, the app's state.
///
/// Handlers get these through extractors; the type itself is for handlers and extractors written by hand.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    scope: &'a Scope,
    attempt: u32,
    /// Differs among the open calls of a partition.
    call: u32,
}

impl<'a> Context<'a> {
    #[inline]
    pub(crate) fn new(scope: &'a Scope, attempt: u32, call: u32) -> Self {
        Self { scope, attempt, call }
    }

    /// The subscription's name.
    pub fn subscription(self) -> &'a str {
        &self.scope.subscription
    }

    /// Which attempt this is, from 1; counted for the offset, not for the thread or the subscription.
    pub fn attempt(self) -> u32 {
        self.attempt
    }

    /// The state of type `T` that the app was given; `None` if it has none.
    pub fn state<T: Send + Sync + 'static>(self) -> Option<&'a T> {
        self.scope.states.get()
    }

    /// A record for the subscription's reply topic, with the key of `source`, in memory that earlier replies used. Its
    /// payload is left to be written.
    #[inline]
    #[allow(clippy::unnecessary_box_returns, reason = "the box is used again, too")]
    pub(crate) fn reply<D: Delivery>(self, source: &D) -> Box<Record> {
        let mut record = spare::take();
        record.reuse(self.scope.reply.as_deref().unwrap_or_default());
        record.copy_key(source.key());
        record
    }

    pub(crate) fn shutdown(self) -> &'a CancellationToken {
        &self.scope.shutdown
    }

    pub(crate) fn outlet(self) -> Option<Arc<dyn Outlet>> {
        let outlets = self.scope.outlets.as_ref()?;
        Some(outlets.of(self.call))
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("subscription", &self.subscription())
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What all calls of one partition's handlers have in common.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) subscription: Arc<str>,
    pub(crate) states: Arc<States>,
    /// Cancelled when the partition is to drain: by a rebalance or by shutdown.
    pub(crate) shutdown: CancellationToken,
    /// Where replies go.
    pub(crate) reply: Option<Arc<str>>,
    /// Where what handlers send goes; `None` when they do not.
    pub(crate) outlets: Option<Arc<dyn Outlets>>,
}

/// Records whose memory is used again, so that a reply allocates nothing: of each thread, so that nobody waits for them.
pub(crate) mod spare {
    use std::cell::RefCell;

    use crate::Record;

    thread_local! {
        #[allow(clippy::vec_box, reason = "the boxes are used again, too")]
        static RECORDS: RefCell<Vec<Box<Record>>> = const { RefCell::new(Vec::new()) };
    }

    /// A record is in use from the end of its handler until it is sent, mostly one at a time; those that wait for room are
    /// more, and need not all be kept.
    const KEPT: usize = 16;

    #[inline]
    #[allow(clippy::unnecessary_box_returns, reason = "the box is used again, too")]
    pub(super) fn take() -> Box<Record> {
        RECORDS
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| Box::new(Record::tombstone("")))
    }

    /// Keeps a record that was sent.
    #[inline]
    pub(crate) fn put(record: Box<Record>) {
        RECORDS.with_borrow_mut(|records| {
            if records.len() < KEPT {
                records.push(record);
            }
        });
    }
}
