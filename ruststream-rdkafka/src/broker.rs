//! The broker: what the user configures, and what the runtime asks for subscriptions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ruststream::broker::{Broker, Commit, Destination, SubscribeRequest};
use ruststream::{Error, ErrorKind, Problem};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::config::{Given, Settings, shown};
use crate::consumer::{self, KafkaSubscription};
use crate::embedded::EmbeddedCluster;
use crate::publisher::{self, KafkaPublisher, Purpose};
use crate::{admin, env};

/// A Kafka cluster, and how to consume from it.
///
/// ```
/// use ruststream_rdkafka::{KafkaBroker, StartPosition};
/// use ruststream::broker::Broker;
///
/// let broker = KafkaBroker::new("kafka-1:9092,kafka-2:9092")
///     .group("billing")
///     .start(StartPosition::Latest)
///     .set("fetch.wait.max.ms", "100");
/// assert_eq!(broker.describe(), "Kafka at kafka-1:9092,kafka-2:9092");
/// ```
///
/// # Defaults
///
/// Consumers join with `partition.assignment.strategy=cooperative-sticky`, start at the earliest record where the group
/// has no committed position, commit settled positions every second (`auto.commit.interval.ms`), and fetch ahead up to
/// 64 MiB, split among the partitions of the subscribed topics. Any property can be [`set`](Self::set).
#[derive(Clone)]
#[must_use = "a broker does nothing until it is given to an app: `app.broker(kafka, ..)`"]
pub struct KafkaBroker {
    given: Given,
    connect_timeout: Duration,
    embedded: Option<Embedded>,
    /// Owns the control task of each client.
    tasks: TaskTracker,
}

/// The embedded cluster, or why it did not start.
type Embedded = Result<Arc<EmbeddedCluster>, String>;

/// Where to start in a partition for which the group has no committed position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StartPosition {
    /// At the oldest record that the cluster still has: nothing is missed.
    #[default]
    Earliest,
    /// After the newest record: only what is produced from now on.
    Latest,
}

/// How long the cluster may take to answer at start-up: 10 s, enough for a broker that is just starting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl KafkaBroker {
    /// The cluster that is found through `bootstrap_servers`: `host:port`, several separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self {
            given: Given {
                bootstrap: bootstrap_servers.into(),
                properties: Vec::new(),
                group: None,
                group_instance: None,
                commit: Commit::Tracked,
                start: None,
                producer_properties: Vec::new(),
                max_unconfirmed: publisher::MAX_UNCONFIRMED,
            },
            connect_timeout: CONNECT_TIMEOUT,
            embedded: None,
            tasks: TaskTracker::new(),
        }
    }

    /// The cluster that the environment names.
    ///
    /// `KAFKA_BOOTSTRAP_SERVERS` is required, `KAFKA_GROUP_ID` and `KAFKA_GROUP_INSTANCE_ID` are
    /// [`group`](Self::group) and [`group_instance_id`](Self::group_instance_id). Every other `KAFKA_*` variable is a
    /// property of librdkafka: `KAFKA_SASL_USERNAME` sets `sasl.username`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Startup`] when `KAFKA_BOOTSTRAP_SERVERS` is missing or empty.
    pub fn from_env() -> Result<Self, Error> {
        env::broker(std::env::vars_os().filter_map(|(key, value)| {
            // A variable that is not text cannot be a property.
            Some((key.into_string().ok()?, value.into_string().ok()?))
        }))
    }

    /// A cluster in this process: librdkafka's mock cluster, which speaks the real protocol over real sockets.
    ///
    /// For tests and demonstrations: records live in memory (at most 5 MiB a partition, then the oldest are dropped),
    /// transactions and look-ups by time are decoration. Topics are made with [`create_topic`](Self::create_topic).
    /// Starting it takes some milliseconds; it ends with the last clone of this broker and the last client.
    ///
    /// Consumers use `group.protocol=consumer` (rebalances of classic groups take seconds on it) and
    /// `fetch.wait.max.ms=10` (it answers an empty fetch only after that time). A cluster that cannot be started is
    /// reported as a problem at start-up.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Self {
        let cluster = EmbeddedCluster::start().map(Arc::new);
        let bootstrap = cluster
            .as_ref()
            .map(|cluster| cluster.bootstrap_servers())
            .unwrap_or_default();
        let mut broker = Self::new(bootstrap)
            .set("group.protocol", "consumer")
            .set("fetch.wait.max.ms", "10");
        broker.embedded = Some(cluster);
        broker
    }

    /// Sets a property of librdkafka, for consumers and for publishers, each where it applies. The last value of a
    /// property holds.
    ///
    /// Unknown properties, impossible values and contradictions are reported at start-up, all at once.
    pub fn set(mut self, property: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.properties.push((property.into(), value.into()));
        self
    }

    /// Sets a property of librdkafka for [publishers](Self::publisher) only; it wins over one that was [`set`](Self::set).
    ///
    /// Unknown properties, impossible values and contradictions are reported when a publisher is made, all at once.
    pub fn set_producer(mut self, property: impl Into<String>, value: impl Into<String>) -> Self {
        let property = (property.into(), value.into());
        self.given.producer_properties.push(property);
        self
    }

    /// How many records of a publisher may be unconfirmed; a sender then waits. Default: 4,096, from 1 to 1,000,000.
    ///
    /// It bounds memory, and what a crash leaves unknown; a bigger window is only faster where a round trip takes
    /// longer than sending 4,096 records.
    pub fn max_unconfirmed(mut self, records: usize) -> Self {
        self.given.max_unconfirmed = records;
        self
    }

    /// Joins the group `name`. Default: the app's name.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.given.group = Some(name.into());
        self
    }

    /// Makes this process a static member of its group: it may restart within `session.timeout.ms` without a rebalance.
    ///
    /// The name must be unique in the group and survive the restart: the name of the host or pod.
    pub fn group_instance_id(mut self, name: impl Into<String>) -> Self {
        self.given.group_instance = Some(name.into());
        self
    }

    /// When a delivery counts as settled. Default: [`Commit::Tracked`].
    pub fn commit(mut self, commit: Commit) -> Self {
        self.given.commit = commit;
        self
    }

    /// Where to start without a committed position. Default: [`StartPosition::Earliest`].
    pub fn start(mut self, start: StartPosition) -> Self {
        self.given.start = Some(start);
        self
    }

    /// How long the cluster may take to answer at start-up, and to create a topic. Default: 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Makes a publisher, with a client of its own. It may be made before the app starts, and used beside it: clone it, or
    /// give it to the app's state.
    ///
    /// Returns at once: the client connects in the background, and records wait for it. (It reads TLS files first, if
    /// there are any.)
    ///
    /// Defaults, beside those of librdkafka: `enable.idempotence=true`, `acks=all`, `partitioner=murmur2_random` (keys go
    /// where the Java client sends them), `linger.ms=0` (a record that is awaited is not delayed; 1 is better for many
    /// small records from many tasks), `topic.metadata.propagation.max.ms=10000` (how long a topic may be unknown before
    /// its records fail), `message.timeout.ms=300000` (librdkafka's: how long a record may be unconfirmed). Any can be
    /// [`set`](Self::set_producer).
    ///
    /// Its receipts are served by a task on the current runtime: that one must go on running, or be dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Startup`] with everything that is wrong with the settings; or there is no tokio runtime here.
    pub fn publisher(&self) -> Result<KafkaPublisher, Error> {
        self.start_publisher(Purpose::Caller).map_err(Error::startup)
    }

    /// Where the cluster is: what a producer beside the app needs.
    pub fn bootstrap_servers(&self) -> &str {
        &self.given.bootstrap
    }

    /// The embedded cluster, to make it fail in tests; `None` for a real one.
    #[cfg(feature = "embedded")]
    pub fn cluster(&self) -> Option<&EmbeddedCluster> {
        self.embedded.as_ref()?.as_deref().ok()
    }

    /// Creates `topic` with `partitions` partitions and the cluster's default replication, unless it exists: then
    /// it stays as it is, and no right to create topics is needed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Startup`] when the settings are wrong; [`ErrorKind::Broker`] when the cluster refused or did not
    /// answer within the [`connect_timeout`](Self::connect_timeout).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the wait; the topic may still be created.
    pub async fn create_topic(&self, topic: &str, partitions: u16) -> Result<(), Error> {
        let deadline = Instant::now() + self.connect_timeout;
        match &self.embedded {
            Some(Ok(cluster)) => admin::create_embedded(cluster, topic, partitions, deadline).await,
            _ => {
                admin::create(
                    &self.settings().map_err(Error::startup)?,
                    topic,
                    partitions,
                    deadline,
                )
                .await
            }
        }
        .map_err(|message| {
            let message = format!("topic {topic} was not created on {}: {message}", self.describe());
            Error::new(ErrorKind::Broker, message)
        })
    }

    fn settings(&self) -> Result<Settings, Vec<Problem>> {
        match &self.embedded {
            Some(Err(reason)) => Err(vec![not_started(reason)]),
            _ => self.given.parse(&self.describe()),
        }
    }

    fn start_publisher(&self, purpose: Purpose) -> Result<KafkaPublisher, Vec<Problem>> {
        if let Some(Err(reason)) = &self.embedded {
            return Err(vec![not_started(reason)]);
        }
        let settings = self.publisher_settings(purpose)?;
        publisher::start(&settings, self.describe(), self.keep(), &self.tasks)
            .map_err(|problem| vec![problem])
    }

    pub(crate) fn publisher_settings(&self, purpose: Purpose) -> Result<publisher::Settings, Vec<Problem>> {
        publisher::Settings::parse(&self.given, &self.describe(), purpose)
    }

    /// What clients must keep alive.
    fn keep(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let cluster = self.embedded.as_ref()?.as_ref().ok()?;
        Some(Arc::clone(cluster) as _)
    }
}

impl Broker for KafkaBroker {
    type Subscription = KafkaSubscription;
    type Publisher = KafkaPublisher;

    fn describe(&self) -> String {
        format!("Kafka at {}", self.given.bootstrap)
    }

    fn commit(&self) -> Commit {
        self.given.commit
    }

    async fn subscribe(
        &self,
        requests: Vec<SubscribeRequest>,
    ) -> Result<Vec<KafkaSubscription>, Vec<Problem>> {
        let settings = self.settings();
        let requests: Vec<SubscribeRequest> = requests
            .into_iter()
            .map(|mut request| {
                request.group = self.given.group.clone().unwrap_or(request.group);
                request
            })
            .collect();
        let duplicates = consumer::duplicates(&requests);
        let settings = match settings {
            Ok(settings) => settings,
            Err(problems) => return Err(problems.into_iter().chain(duplicates).collect()),
        };
        if self.given.commit == Commit::Auto {
            tracing::warn!(
                broker = self.describe(),
                "Commit::Auto: a position moves past a record when its handler starts, so records in flight may be lost \
                 in a crash, and a record whose failure stops the app may be committed already"
            );
        }
        let checked = requests.iter().filter_map(|request| settings.check(request));
        let mut problems: Vec<Problem> = duplicates.into_iter().chain(checked).collect();
        let deadline = Instant::now() + self.connect_timeout;
        let topics = requests.iter().map(|request| admin::Wanted {
            topic: &request.topic,
            subscription: &request.name,
            purpose: admin::Purpose::Consume,
        });
        let found = admin::partitions(&settings, &self.describe(), topics, self.keep(), deadline).await;
        match found {
            Ok(partitions) if problems.is_empty() => {
                let groups = consumer::groups(&requests, &partitions);
                consumer::start(&settings, groups, self.keep(), &self.tasks, deadline)
                    .await
                    .map_err(|problem| vec![problem])
            }
            Ok(_) => Err(problems),
            Err(missing) => {
                problems.extend(missing);
                Err(problems)
            }
        }
    }

    async fn open_publisher(&self, destinations: Vec<Destination>) -> Result<KafkaPublisher, Vec<Problem>> {
        let settings = self.settings()?;
        let topics = destinations.iter().map(|destination| admin::Wanted {
            topic: &destination.topic,
            subscription: &destination.subscription,
            purpose: admin::Purpose::Publish,
        });
        let deadline = Instant::now() + self.connect_timeout;
        if !destinations.is_empty() {
            admin::partitions(&settings, &self.describe(), topics, self.keep(), deadline).await?;
        }
        self.start_publisher(Purpose::Handlers)
    }
}

fn not_started(reason: &str) -> Problem {
    let message = format!("the embedded cluster did not start: {reason}");
    Problem::new("Kafka, embedded", message)
}

impl StartPosition {
    pub(crate) fn as_property(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
        }
    }
}

/// Secrets are hidden.
impl fmt::Debug for KafkaBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties: Vec<_> = self
            .given
            .properties
            .iter()
            .map(|(key, value)| (key, shown(key, value)))
            .collect();
        let producer_properties: Vec<_> = self
            .given
            .producer_properties
            .iter()
            .map(|(key, value)| (key, shown(key, value)))
            .collect();
        f.debug_struct("KafkaBroker")
            .field("bootstrap_servers", &self.given.bootstrap)
            .field("group", &self.given.group)
            .field("group_instance_id", &self.given.group_instance)
            .field("commit", &self.given.commit)
            .field("start", &self.given.start)
            .field("properties", &properties)
            .field("producer_properties", &producer_properties)
            .finish_non_exhaustive()
    }
}
