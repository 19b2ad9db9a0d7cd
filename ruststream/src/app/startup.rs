//! Start-up: check everything, connect everything, report every problem at once.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::mounts::{MakeStart, Mounted, Surroundings};
use super::running::{LiveSubscription, Running, Subscriptions};
use super::{Mounts, RustStream, Stopping};
use crate::broker::{Broker, SubscribeRequest, Subscription};
use crate::dispatch::{self, SubscriptionEnd};
use crate::handler::States;
use crate::memory::MemoryBroker;
use crate::subscription::Settings;
use crate::{Error, ErrorKind, Problem};

/// A broker with its handlers, erased.
pub(super) trait Service: Send {
    fn describe(&self) -> String;

    /// Checks what can be checked without the broker; the settings of each handler, in mount order.
    fn check(
        &self,
        states: &States,
        names: &mut HashSet<Arc<str>>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Settings>;

    fn counters(&self) -> Subscriptions;

    /// Subscribes on the broker, or on `memory` instead of it.
    fn connect(self: Box<Self>, app: Connect) -> Connecting;
}

/// Subscribes on the way to [`Task`]s.
type Connecting = Pin<Box<dyn Future<Output = Result<Vec<Task>, Vec<Problem>>> + Send>>;

/// A subscription that is ready to serve: polled, it accepts partitions until it is closed.
type Task = Pin<Box<dyn Future<Output = SubscriptionEnd> + Send>>;

/// What [`Service::connect`] needs from the app.
pub(super) struct Connect {
    group: String,
    /// The place of the first subscription in mount order.
    first: usize,
    settings: Vec<Settings>,
    states: Arc<States>,
    stopping: Stopping,
    memory: Option<MemoryBroker>,
}

pub(super) struct Mount<B: Broker> {
    pub(super) broker: B,
    pub(super) mounts: Mounts<B>,
}

impl<B: Broker> Service for Mount<B> {
    fn describe(&self) -> String {
        self.broker.describe()
    }

    fn check(
        &self,
        states: &States,
        names: &mut HashSet<Arc<str>>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Settings> {
        if self.mounts.mounted.is_empty() {
            problems.push(Problem::new(
                self.describe(),
                "has no subscriber: mount one, or remove the broker",
            ));
        }
        let mut settings = Vec::new();
        for Mounted {
            name,
            options,
            requirements,
            ..
        } in &self.mounts.mounted
        {
            if !names.insert(Arc::clone(name)) {
                let text = "is mounted twice: give one of them another name with .name(..)";
                problems.push(Problem::new(format!("subscription {name}"), text));
            }
            settings.push(options.check(name, problems));
            requirements.check(name, states, problems);
        }
        settings
    }

    fn counters(&self) -> Subscriptions {
        let of = |mounted: &Mounted<_>| LiveSubscription {
            name: Arc::clone(&mounted.name),
            topic: mounted.topic.clone(),
            counters: Arc::clone(&mounted.counters),
        };
        self.mounts.mounted.iter().map(of).collect()
    }

    fn connect(self: Box<Self>, mut app: Connect) -> Connecting {
        let Self { broker, mounts } = *self;
        Box::pin(async move {
            match app.memory.take() {
                Some(memory) => {
                    subscribe(memory, mounts.mounted, app, |mounted| mounted.start_in_memory).await
                }
                None => subscribe(broker, mounts.mounted, app, |mounted| mounted.start).await,
            }
        })
    }
}

/// Subscribes all handlers of a broker; the tasks keep the broker alive.
async fn subscribe<B: Broker, P>(
    broker: B,
    mounted: Vec<Mounted<P>>,
    app: Connect,
    start_of: fn(Mounted<P>) -> MakeStart<<B::Subscription as Subscription>::Partition>,
) -> Result<Vec<Task>, Vec<Problem>> {
    let requests = mounted
        .iter()
        .zip(&app.settings)
        .map(|(mounted, settings)| SubscribeRequest {
            drain_timeout: settings.drain_timeout,
            ..SubscribeRequest::new(&*mounted.name, &*mounted.topic, &*app.group)
        });
    let subscriptions = broker.subscribe(requests.collect()).await?;
    let broker = Arc::new(broker);
    let mut tasks: Vec<Task> = Vec::new();
    for (i, ((mounted, settings), subscription)) in mounted
        .into_iter()
        .zip(app.settings)
        .zip(subscriptions)
        .enumerate()
    {
        let stopping = app.stopping.clone();
        let surroundings = Surroundings {
            settings,
            states: Arc::clone(&app.states),
            stopping: stopping.clone(),
        };
        let start = start_of(mounted)(surroundings);
        let (broker, index) = (Arc::clone(&broker), app.first + i);
        tasks.push(Box::pin(async move {
            let end = dispatch::run(index, subscription, start, stopping).await;
            drop(broker);
            end
        }));
    }
    Ok(tasks)
}

/// Starts the app, on `memory` in place of its brokers if given.
pub(super) async fn start(app: RustStream, memory: Option<MemoryBroker>) -> Result<Running, Error> {
    let RustStream {
        name,
        states,
        mut problems,
        services,
        on_startup,
        on_shutdown,
        ..
    } = app;
    let states = Arc::new(states);
    let stopping = Stopping::new(app.shutdown_timeout);
    let mut counters: Subscriptions = Vec::new();
    let mut names = HashSet::new();
    let mut connecting = Vec::new();
    if services.is_empty() {
        problems.push(Problem::new(
            format!("app {name}"),
            "has no broker: add .broker(..) with a subscriber",
        ));
    }
    for service in services {
        let settings = service.check(&states, &mut names, &mut problems);
        let first = counters.len();
        counters.extend(service.counters());
        let (states, stopping) = (Arc::clone(&states), stopping.clone());
        let app = Connect {
            group: name.clone(),
            first,
            settings,
            states,
            stopping,
            memory: memory.clone(),
        };
        connecting.push((service.describe(), service.connect(app)));
    }

    let late = |what: &str| {
        let text = format!(
            "the start-up deadline of {:?} passed while {what}",
            app.startup_timeout
        );
        Error::new(ErrorKind::Deadline, text)
    };
    let begun = tokio::time::Instant::now();
    let brokers = connecting
        .iter()
        .map(|(name, _)| name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let connected = join_all(connecting.into_iter().map(|(_, connecting)| connecting));
    let connected = timeout(app.startup_timeout, connected).await.map_err(|_| {
        late(&format!(
            "connecting to {brokers}: check that it is reachable, or raise .startup_timeout(..)"
        ))
    })?;
    let mut tasks = Vec::new();
    for result in connected {
        match result {
            Ok(connected) => tasks.extend(connected),
            Err(more) => problems.extend(more),
        }
    }
    if !problems.is_empty() {
        return Err(Error::startup(problems));
    }

    for hook in on_startup {
        let left = app.startup_timeout.saturating_sub(begun.elapsed());
        timeout(left, hook())
            .await
            .map_err(|_| late("running a start-up hook"))?
            .map_err(|error| {
                Error::new(
                    ErrorKind::Startup,
                    "a start-up hook failed, the app did not start",
                )
                .with_source(error)
            })?;
    }
    let mut serving = JoinSet::new();
    for task in tasks {
        serving.spawn(task);
    }
    Ok(Running::new(name, serving, stopping, counters, on_shutdown))
}
