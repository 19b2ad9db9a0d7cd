//! One stop for the whole app, with one deadline.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// Begun once, by a signal, a call, or the first subscription that stops; everybody sees the same deadline.
#[derive(Debug, Clone)]
pub(crate) struct Stopping(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: CancellationToken,
    deadline: OnceLock<Instant>,
    timeout: Duration,
    cause: Mutex<Option<Error>>,
}

/// The part of the shutdown timeout that is kept for what follows the drain: commit, leave, close.
const CLOSING_SHARE: u32 = 4;

impl Stopping {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self(Arc::new(Inner {
            begun: CancellationToken::new(),
            deadline: OnceLock::new(),
            timeout,
            cause: Mutex::new(None),
        }))
    }

    /// Begins to stop; the first call sets the deadline.
    pub(crate) fn begin(&self) {
        self.0.deadline.get_or_init(|| Instant::now() + self.0.timeout);
        self.0.begun.cancel();
    }

    /// Begins to stop because of `error`; the first one is the app's.
    pub(crate) fn fail(&self, error: Error) {
        let mut cause = self.0.cause.lock().unwrap_or_else(PoisonError::into_inner);
        if cause.is_none() {
            *cause = Some(error);
        } else {
            tracing::error!(%error, "failed while the app was stopping already");
        }
        drop(cause);
        self.begin();
    }

    /// Takes the error that began the stop; `None` for a stop that was asked for.
    pub(crate) fn take_cause(&self) -> Option<Error> {
        self.0.cause.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until the stop begins. Cancel safe.
    pub(crate) async fn begun(&self) {
        self.0.begun.cancelled().await;
    }

    /// Whether the stop has begun.
    pub(crate) fn is_begun(&self) -> bool {
        self.0.begun.is_cancelled()
    }

    /// When everything must be over.
    pub(crate) fn deadline(&self) -> Instant {
        *self.0.deadline.get_or_init(|| Instant::now() + self.0.timeout)
    }

    /// When running handlers are cancelled, so that what they settled can still be committed.
    pub(crate) fn drain_by(&self) -> Instant {
        self.deadline() - self.0.timeout / CLOSING_SHARE
    }
}
