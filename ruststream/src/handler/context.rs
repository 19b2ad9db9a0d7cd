//! What surrounds one call of a handler.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::state::States;

/// What surrounds one call of a handler: which subscription, which attempt, the app's state.
///
/// Handlers get these through extractors; the type itself is for handlers and extractors written by hand.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    scope: &'a Scope,
    attempt: u32,
}

impl<'a> Context<'a> {
    #[inline]
    pub(crate) fn new(scope: &'a Scope, attempt: u32) -> Self {
        Self { scope, attempt }
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

    pub(crate) fn shutdown(self) -> &'a CancellationToken {
        &self.scope.shutdown
    }
}

/// What all calls of one partition's handlers have in common.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) subscription: Arc<str>,
    pub(crate) states: Arc<States>,
    /// Cancelled when the partition is to drain: by a rebalance or by shutdown.
    pub(crate) shutdown: CancellationToken,
}
