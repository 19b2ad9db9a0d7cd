//! What surrounds one call of a handler.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::publisher::Outlet;
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
    outlet: Option<&'a dyn Outlet>,
}

impl<'a> Context<'a> {
    #[inline]
    pub(crate) fn new(scope: &'a Scope, attempt: u32, outlet: Option<&'a dyn Outlet>) -> Self {
        Self {
            scope,
            attempt,
            outlet,
        }
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
    pub(crate) fn reply<D: Delivery>(self, source: &D) -> Box<Record> {
        let scope = self.scope;
        let mut record = scope
            .spare
            .take()
            .unwrap_or_else(|| Box::new(Record::tombstone("")));
        record.reuse(scope.reply.as_deref().unwrap_or_default());
        record.copy_key(source.key());
        record
    }

    pub(crate) fn shutdown(self) -> &'a CancellationToken {
        &self.scope.shutdown
    }

    pub(crate) fn outlet(self) -> Option<&'a dyn Outlet> {
        self.outlet
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
    pub(crate) spare: SpareRecords,
}

/// Records whose memory is used again, so that a reply allocates nothing. As many as replies wait for room: few.
#[derive(Debug, Default)]
pub(crate) struct SpareRecords(Mutex<Vec<Box<Record>>>);

/// As many as a partition sends from one turn of its handlers; more would only keep memory.
const SPARE: usize = 16;

impl SpareRecords {
    #[inline]
    fn take(&self) -> Option<Box<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    #[inline]
    pub(crate) fn put(&self, record: Box<Record>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(record);
        }
    }
}
