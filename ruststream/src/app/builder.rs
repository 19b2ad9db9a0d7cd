//! The app builder.

use std::time::Duration;

use super::running::{Running, run_until_signalled};
use super::startup::{Mount, Service};
use super::{Mounts, Report};
use crate::broker::Broker;
use crate::handler::States;
use crate::memory::MemoryBroker;
use crate::{BoxError, Error, Problem};

/// A service app: state, hooks, and handlers mounted on brokers.
///
/// ```no_run
/// # use ruststream::prelude::*;
/// # use ruststream::memory::MemoryBroker;
/// #[subscriber("orders")]
/// async fn bill(order: &[u8]) {
///     println!("{} bytes", order.len());
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<Report, ruststream::Error> {
///     RustStream::new("billing").broker(MemoryBroker::new(), |memory| memory.mount(bill)).run().await
/// }
/// ```
#[must_use = "an app does nothing until `run()` or `start()` is awaited"]
pub struct RustStream {
    pub(super) name: String,
    pub(super) states: States,
    pub(super) problems: Vec<Problem>,
    pub(super) services: Vec<Box<dyn Service>>,
    pub(super) on_startup: Vec<Hook>,
    pub(super) on_shutdown: Vec<Hook>,
    pub(super) startup_timeout: Duration,
    pub(super) shutdown_timeout: Duration,
}

/// A start-up or shutdown hook. Boxed: it runs once.
pub(super) type Hook = Box<dyn FnOnce() -> HookFuture + Send>;
type HookFuture = std::pin::Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Joining a group takes at most a few seconds on a healthy cluster; a minute covers one that is being restarted.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// As long as Kubernetes waits before it kills.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

impl RustStream {
    /// An app; its name is also the default group of its subscriptions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            states: States::default(),
            problems: Vec::new(),
            services: Vec::new(),
            on_startup: Vec::new(),
            on_shutdown: Vec::new(),
            startup_timeout: STARTUP_TIMEOUT,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
        }
    }

    /// Gives the handlers a value, which they take with `State<'_, T>`; one value for each type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if let Err(name) = self.states.insert(value) {
            let text = "is given twice: wrap one of them in a type of its own";
            self.problems.push(Problem::new(format!("state {name}"), text));
        }
        self
    }

    /// Mounts handlers on a broker.
    pub fn broker<B: Broker>(mut self, broker: B, mount: impl FnOnce(Mounts<B>) -> Mounts<B>) -> Self {
        let mounts = mount(Mounts::new());
        self.services.push(Box::new(Mount { broker, mounts }));
        self
    }

    /// Runs `hook` once every subscription is ready, before the first delivery is handled. An error ends the start-up.
    pub fn on_startup<F, Fut, E>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.on_startup.push(boxed(hook));
        self
    }

    /// Runs `hook` after every subscription has closed, within the shutdown deadline. An error is the app's, unless it
    /// has one already.
    pub fn on_shutdown<F, Fut, E>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.on_shutdown.push(boxed(hook));
        self
    }

    /// The deadline of the start-up: connecting, checking, start-up hooks. Default: 60 s.
    pub fn startup_timeout(mut self, timeout: Duration) -> Self {
        self.startup_timeout = timeout;
        self
    }

    /// The deadline of the shutdown: drain, commit, leave, close, shutdown hooks. Default: 30 s. The last quarter is
    /// kept for what follows the drain.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Serves until SIGINT, SIGTERM, or a subscription stops; then drains, commits and closes within the deadline.
    ///
    /// # Errors
    ///
    /// [`Startup`](crate::ErrorKind::Startup) with everything that is wrong; the first
    /// [`Stopped`](crate::ErrorKind::Stopped) or [`Broker`](crate::ErrorKind::Broker) error; a close that failed;
    /// [`Interrupted`](crate::ErrorKind::Interrupted) on a second signal.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the handlers; nothing unsettled is committed.
    pub async fn run(self) -> Result<Report, Error> {
        run_until_signalled(self).await
    }

    /// Starts serving beside other work (an HTTP server, say); signals are left to the caller.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), start-up only.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the start up; nothing was consumed.
    pub async fn start(self) -> Result<Running, Error> {
        super::startup::start(self, None).await
    }

    /// Starts on the memory broker in place of every broker of the app.
    pub(crate) async fn start_in_memory(self, memory: MemoryBroker) -> Result<Running, Error> {
        super::startup::start(self, Some(memory)).await
    }
}

impl std::fmt::Debug for RustStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let brokers: Vec<_> = self.services.iter().map(|service| service.describe()).collect();
        f.debug_struct("RustStream")
            .field("name", &self.name)
            .field("brokers", &brokers)
            .finish_non_exhaustive()
    }
}

fn boxed<F, Fut, E>(hook: F) -> Hook
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Box::new(move || Box::pin(async move { hook().await.map_err(Into::into) }))
}
