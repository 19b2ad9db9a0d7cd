//! An app that serves: stop it, watch it, wait for its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::builder::Hook;
use super::startup::Close;
use super::{Report, RustStream, Stopping, SubscriptionReport};
use crate::dispatch::{Counters, SubscriptionEnd};
use crate::{Error, ErrorKind};

/// What can be read of every subscription while it runs, in mount order.
pub(super) type Subscriptions = Vec<LiveSubscription>;

/// What is left to do when every subscription has ended, in this order.
pub(super) struct Ending {
    pub(super) closes: Vec<Close>,
    pub(super) on_shutdown: Vec<Hook>,
}

/// What can be read of a subscription while it runs.
#[derive(Debug)]
pub(super) struct LiveSubscription {
    pub(super) name: Arc<str>,
    pub(super) topic: String,
    pub(super) counters: Arc<Counters>,
}

/// An app that was started with [`RustStream::start`](crate::RustStream::start).
///
/// Dropping it aborts the app: handlers are cancelled, nothing unsettled is committed. Use [`stop`](Self::stop) and
/// [`wait`](Self::wait) for a clean end.
#[derive(Debug)]
#[must_use = "dropping a running app aborts it: keep it, and `wait()` for its end"]
pub struct Running {
    name: String,
    supervisor: JoinSet<Result<Report, Error>>,
    handle: StopHandle,
    live: Arc<Live>,
}

/// Stops an app from elsewhere; cheap to clone.
#[derive(Debug, Clone)]
pub struct StopHandle(Stopping);

impl StopHandle {
    /// Begins to stop: no new deliveries, then drain, commit and close within the shutdown deadline. Does not wait.
    pub fn stop(&self) {
        self.0.begin();
    }
}

/// What can be read while the app runs.
#[derive(Debug)]
struct Live {
    started: Instant,
    subscriptions: Subscriptions,
}

impl Live {
    fn report(&self) -> Report {
        let read =
            |live: &LiveSubscription| SubscriptionReport::read(&live.name, &live.topic, &live.counters);
        let subscriptions = self.subscriptions.iter().map(read);
        Report {
            subscriptions: subscriptions.collect(),
            elapsed: self.started.elapsed(),
            ..Report::default()
        }
    }
}

impl Running {
    pub(super) fn new(
        name: String,
        serving: JoinSet<SubscriptionEnd>,
        stopping: Stopping,
        subscriptions: Subscriptions,
        ending: Ending,
    ) -> Self {
        let live = Arc::new(Live {
            started: Instant::now(),
            subscriptions,
        });
        let mut supervisor = JoinSet::new();
        supervisor.spawn(supervise(serving, stopping.clone(), Arc::clone(&live), ending));
        Self {
            name,
            supervisor,
            handle: StopHandle(stopping),
            live,
        }
    }

    /// The app's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins to stop; see [`StopHandle::stop`].
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Whether the app has begun to stop: it was told to, or a subscription stopped.
    pub fn is_stopping(&self) -> bool {
        self.handle.0.is_begun()
    }

    /// A handle that stops the app from elsewhere.
    pub fn handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// What the app has done so far. Committed positions are known once it has stopped.
    pub fn report(&self) -> Report {
        self.live.report()
    }

    /// Waits until the app has stopped.
    ///
    /// # Errors
    ///
    /// The first error that stopped a subscription or the app; else the first that closing it met.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the app, as dropping `Running` does.
    pub async fn wait(mut self) -> Result<Report, Error> {
        self.ended().await
    }

    /// As [`wait`](Self::wait), and cancel safe.
    async fn ended(&mut self) -> Result<Report, Error> {
        match self.supervisor.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(
                Error::new(ErrorKind::Internal, "the app's supervisor ended abnormally").with_source(error),
            ),
            None => Err(Error::new(ErrorKind::Internal, "the app was waited for twice")),
        }
    }
}

/// Beyond the deadline, for tasks that are about to report that they missed it.
const GRACE: Duration = Duration::from_millis(500);

/// Waits for every subscription; after the stop began, no longer than the deadline.
async fn supervise(
    mut serving: JoinSet<SubscriptionEnd>,
    stopping: Stopping,
    live: Arc<Live>,
    ending: Ending,
) -> Result<Report, Error> {
    stopping.begun().await;
    let by = stopping.deadline() + GRACE;
    let mut ends = Vec::new();
    let all = timeout_at(by, async {
        while let Some(end) = serving.join_next().await {
            match end {
                Ok(end) => ends.push(end),
                Err(error) => stopping.fail(
                    Error::new(ErrorKind::Internal, "a subscription's task ended abnormally")
                        .with_source(error),
                ),
            }
        }
    })
    .await;
    if all.is_err() {
        let text = "the shutdown deadline passed before every subscription had closed, positions may not be committed";
        stopping.fail(Error::new(ErrorKind::Deadline, text));
    }

    let mut report = live.report();
    let mut close_error = None;
    for end in ends {
        report.abandoned += end.abandoned;
        let committed = end.closed.unwrap_or_else(|error| {
            close_error.get_or_insert(error);
            Vec::new()
        });
        if let Some(subscription) = report.subscriptions.get_mut(end.index) {
            subscription.committed = committed;
        }
    }
    for close in ending.closes {
        match timeout_at(by, close(stopping.deadline())).await {
            Ok(Ok(())) => {}
            // They are in the report: their deliveries are not settled, and come again.
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::Deadline | ErrorKind::Broker) => {
                tracing::warn!(%error, "records were not confirmed");
            }
            Ok(Err(error)) => {
                close_error.get_or_insert(error);
            }
            Err(_) => {
                let text = "the shutdown deadline passed before a publisher had closed";
                close_error.get_or_insert(Error::new(ErrorKind::Deadline, text));
            }
        }
    }
    for hook in ending.on_shutdown {
        let failed = match timeout_at(by, hook()).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => Error::new(ErrorKind::Internal, "a shutdown hook failed").with_source(error),
            Err(_) => Error::new(
                ErrorKind::Deadline,
                "the shutdown deadline passed while running a shutdown hook",
            ),
        };
        close_error.get_or_insert(failed);
    }
    tracing::info!(%report, "stopped");
    match stopping.take_cause().or(close_error) {
        Some(error) => Err(error),
        None => Ok(report),
    }
}

/// Runs the app until it ends, or a signal stops it; a second signal ends it at once.
pub(super) async fn run_until_signalled(app: RustStream) -> Result<Report, Error> {
    let mut signals = Signals::listen()?;
    let mut running = tokio::select! {
        started = app.start() => started?,
        () = signals.next() => return Err(interrupted("while it was starting")),
    };
    tokio::select! {
        ended = running.ended() => return ended,
        () = signals.next() => running.stop(),
    }
    tokio::select! {
        ended = running.ended() => ended,
        () = signals.next() => Err(interrupted("before it had drained")),
    }
}

fn interrupted(when: &str) -> Error {
    Error::new(
        ErrorKind::Interrupted,
        format!("a signal ended the app {when}, positions may not be committed"),
    )
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Error::new(ErrorKind::Internal, "cannot listen for SIGINT and SIGTERM").with_source(error)
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Result<Self, Error> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
