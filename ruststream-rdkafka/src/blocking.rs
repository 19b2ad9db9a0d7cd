//! Calls that block run on threads of their own, with a deadline.
//!
//! Never on a runtime thread, which they would stop, and never on the runtime's pool of blocking threads: the runtime
//! waits for those when it shuts down, and some of librdkafka's calls can hang for ever.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Why a blocking call has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoAnswer(&'static str);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "librdkafka did not answer to {} in time", self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// Runs `call` on a thread of its own and waits for its result until `deadline`.
///
/// # Cancel safety
///
/// The call goes on to its end when the future is dropped, or when the deadline passes; its result is dropped there.
pub(crate) async fn blocking<T: Send + 'static>(
    name: &'static str,
    deadline: Instant,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let (sender, receiver) = oneshot::channel();
    let spawned = thread::Builder::new()
        .name(format!("rs-kafka-{name}"))
        .spawn(move || {
            let _ = sender.send(call()); // nobody waits any more: the result is dropped here
        });
    if let Err(error) = spawned {
        tracing::error!(%error, name, "no thread for a blocking call");
        return Err(NoAnswer(name));
    }
    match timeout_at(deadline, receiver).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) | Err(_) => Err(NoAnswer(name)),
    }
}

/// After how long a thread that should have ended is named in the log, and how often again.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Runs `call`, which frees something, on a thread of its own; a watchdog logs when it does not end.
pub(crate) fn detached(name: &'static str, call: impl FnOnce() + Send + 'static) {
    let watched = move || {
        let (ended, end) = sync_channel::<()>(1);
        let work = thread::Builder::new()
            .name(format!("rs-kafka-{name}"))
            .spawn(move || {
                call();
                drop(ended);
            });
        if let Err(error) = work {
            tracing::error!(%error, name, "no thread to free a client, it is leaked");
            return;
        }
        while end.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                name,
                "a client cannot be freed: a delivery, or a call into it, is still alive"
            );
        }
    };
    if let Err(error) = thread::Builder::new()
        .name("rs-kafka-watchdog".to_owned())
        .spawn(watched)
    {
        tracing::error!(%error, name, "no thread to free a client, it is leaked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_hangs_costs_its_deadline_and_no_more() {
        let (release, wait) = sync_channel::<()>(1);
        let hangs = blocking("test", Instant::now() + Duration::from_millis(20), move || {
            wait.recv()
        })
        .await;
        assert_eq!(
            hangs.unwrap_err().to_string(),
            "librdkafka did not answer to test in time"
        );
        drop(release);
        let returns = blocking("test", Instant::now() + Duration::from_secs(10), || 7).await;
        assert_eq!(returns, Ok(7));
    }
}
