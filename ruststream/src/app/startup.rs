//! Start-up: check everything, connect everything, report every problem at once.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::builder::Hook;
use super::mounts::{MakeStart, Mounted, Surroundings};
use super::running::{Ending, LiveSubscription, Running, Subscriptions};
use super::{Mounts, RustStream, Stopping};
use crate::broker::{Broker, Destination, Publisher, SubscribeRequest};
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

    fn subscriptions(&self) -> Subscriptions;

    /// Subscribes on the broker, or on `memory` instead of it.
    fn connect(self: Box<Self>, app: Connect) -> Connecting;
}

/// Connects a broker.
type Connecting = Pin<Box<dyn Future<Output = Result<Connected, Vec<Problem>>> + Send>>;

/// The subscriptions of a broker, and what ends its publisher.
pub(super) struct Connected {
    tasks: Vec<Task>,
    close: Option<Close>,
}

/// Closes a publisher by the deadline, after everything that sends has ended.
pub(super) type Close = Box<dyn FnOnce(Instant) -> Closing + Send>;
type Closing = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

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
            topic,
            options,
            requirements,
            ..
        } in &self.mounts.mounted
        {
            if !names.insert(Arc::clone(name)) {
                let text = "is mounted twice: give one of them another name with .name(..)";
                problems.push(Problem::new(format!("subscription {name}"), text));
            }
            settings.push(options.check(name, topic, requirements, problems));
            requirements.check(name, states, problems);
        }
        settings
    }

    fn subscriptions(&self) -> Subscriptions {
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
                    let memory = memory.commit(broker.commit());
                    subscribe(memory, mounts.mounted, app, |mounted| mounted.start_in_memory).await
                }
                None => subscribe(broker, mounts.mounted, app, |mounted| mounted.start).await,
            }
        })
    }
}

/// Subscribes all handlers of a broker; the tasks keep the broker alive.
async fn subscribe<B: Broker, M: Broker>(
    broker: B,
    mounted: Vec<Mounted<M>>,
    app: Connect,
    start_of: fn(Mounted<M>) -> MakeStart<B>,
) -> Result<Connected, Vec<Problem>> {
    let requests = mounted
        .iter()
        .zip(&app.settings)
        .map(|(mounted, settings)| SubscribeRequest {
            drain_timeout: settings.drain_timeout,
            ..SubscribeRequest::new(&*mounted.name, &*mounted.topic, &*app.group)
        });
    let destinations = destinations(&mounted, &app.settings);
    let publisher = async {
        match destinations {
            Some(destinations) => broker.open_publisher(destinations).await.map(Some),
            None => Ok(None),
        }
    };
    let (subscriptions, publisher) = tokio::join!(broker.subscribe(requests.collect()), publisher);
    let (subscriptions, publisher) = match (subscriptions, publisher) {
        (Ok(subscriptions), Ok(publisher)) => (subscriptions, publisher),
        (subscriptions, publisher) => {
            let problems = [subscriptions.err(), publisher.err()];
            return Err(problems.into_iter().flatten().flatten().collect());
        }
    };
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
            publisher: publisher.clone(),
        };
        let start = start_of(mounted)(surroundings);
        let (broker, index) = (Arc::clone(&broker), app.first + i);
        tasks.push(Box::pin(async move {
            let end = dispatch::run(index, subscription, start, stopping).await;
            drop(broker);
            end
        }));
    }
    let close = publisher.map(|publisher| -> Close {
        Box::new(move |deadline| Box::pin(async move { publisher.close(deadline).await }))
    });
    Ok(Connected { tasks, close })
}

/// Where the records of a broker's handlers go; `None` if no handler needs a publisher.
fn destinations<M: Broker>(mounted: &[Mounted<M>], settings: &[Settings]) -> Option<Vec<Destination>> {
    let each = || mounted.iter().zip(settings);
    let needed = each()
        .any(|(mounted, settings)| mounted.requirements.needs_publisher() || settings.dead_letter.is_some());
    let destinations = each().flat_map(|(mounted, settings)| {
        let topics = [&settings.reply, &settings.dead_letter].into_iter().flatten();
        topics.map(|topic| Destination::new(&*mounted.name, &**topic))
    });
    needed.then(|| destinations.collect())
}

/// Starts the app, on `memory` in place of its brokers if given.
pub(super) async fn start(app: RustStream, memory: Option<MemoryBroker>) -> Result<Running, Error> {
    let deadline = Instant::now() + app.startup_timeout;
    let stopping = Stopping::new(app.shutdown_timeout);
    let RustStream {
        name,
        states,
        mut problems,
        services,
        on_startup,
        on_shutdown,
        startup_timeout,
        ..
    } = app;
    if services.is_empty() {
        let text = "has no broker: add .broker(..) with a subscriber";
        problems.push(Problem::new(format!("app {name}"), text));
    }
    let states = Arc::new(states);
    let mut live: Subscriptions = Vec::new();
    let mut names = HashSet::new();
    let mut connecting = Vec::new();
    for service in services {
        let settings = service.check(&states, &mut names, &mut problems);
        let first = live.len();
        live.extend(service.subscriptions());
        let app = Connect {
            group: name.clone(),
            first,
            settings,
            states: Arc::clone(&states),
            stopping: stopping.clone(),
            memory: memory.clone(),
        };
        connecting.push(connect(service, app, deadline, startup_timeout));
    }
    let (mut tasks, mut closes) = (Vec::new(), Vec::new());
    for connected in join_all(connecting).await {
        match connected {
            Ok(connected) => {
                tasks.extend(connected.tasks);
                closes.extend(connected.close);
            }
            Err(more) => problems.extend(more),
        }
    }
    if !problems.is_empty() {
        return Err(Error::startup(problems));
    }
    run_hooks(on_startup, deadline, startup_timeout).await?;
    let mut serving = JoinSet::new();
    for task in tasks {
        serving.spawn(task);
    }
    let ending = Ending { closes, on_shutdown };
    Ok(Running::new(name, serving, stopping, live, ending))
}

/// Connects one broker; that it does not answer in time is one of its problems.
async fn connect(
    service: Box<dyn Service>,
    app: Connect,
    deadline: Instant,
    startup_timeout: Duration,
) -> Result<Connected, Vec<Problem>> {
    let broker = service.describe();
    let late = |_| {
        let text = format!(
            "did not answer within the start-up deadline of {startup_timeout:?}: \
             check that it is reachable, or raise .startup_timeout(..)"
        );
        vec![Problem::new(broker, text)]
    };
    timeout_at(deadline, service.connect(app)).await.map_err(late)?
}

async fn run_hooks(hooks: Vec<Hook>, deadline: Instant, startup_timeout: Duration) -> Result<(), Error> {
    for hook in hooks {
        match timeout_at(deadline, hook()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let text = "a start-up hook failed, the app did not start";
                return Err(Error::new(ErrorKind::Startup, text).with_source(error));
            }
            Err(_) => {
                let text = format!(
                    "a start-up hook did not end within the start-up deadline of {startup_timeout:?}: \
                     make it faster, or raise .startup_timeout(..)"
                );
                return Err(Error::new(ErrorKind::Deadline, text));
            }
        }
    }
    Ok(())
}
