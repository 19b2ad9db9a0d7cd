//! Questions to the cluster before anything is consumed, and topics that are made on the way.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::types::RDKafkaErrorCode;
use ruststream::Problem;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::blocking::blocking;
use crate::config::Settings;
use crate::embedded::EmbeddedCluster;
use crate::native::{Client, Code};

/// How many partitions each topic has.
pub(crate) type Partitions = BTreeMap<String, usize>;

/// What the cluster said about each topic.
type Answers = BTreeMap<String, Result<usize, Code>>;

/// A topic that a subscription needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) topic: &'a str,
    pub(crate) subscription: &'a str,
    pub(crate) purpose: Purpose,
}

/// What a topic is needed for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Consume,
    Publish,
}

/// Looks every topic up.
///
/// # Errors
///
/// One problem for each subscription whose topic cannot be used; one for the broker when it does not answer.
pub(crate) async fn partitions(
    settings: &Settings,
    broker: &str,
    wanted: impl Iterator<Item = Wanted<'_>> + Clone,
    keep: Option<Arc<dyn Any + Send + Sync>>,
    deadline: Instant,
) -> Result<Partitions, Vec<Problem>> {
    let topics: BTreeSet<String> = wanted.clone().map(|wanted| wanted.topic.to_owned()).collect();
    let config = settings.probe();
    let ask = move || -> Result<Answers, Silence> {
        let client = Client::new(&config, keep).map_err(Silence::Unusable)?;
        let mut answers = Answers::new();
        for topic in topics {
            let Ok(name) = CString::new(topic.clone()) else {
                answers.insert(topic, Err(Code::from_number(INVALID_TOPIC)));
                continue;
            };
            let answer = client.partitions(&name, deadline.saturating_duration_since(Instant::now()));
            if answer.is_err_and(is_unreachable) {
                return Err(Silence::Unreachable(
                    answer.err().map(|code| code.to_string()).unwrap_or_default(),
                ));
            }
            answers.insert(topic, answer);
        }
        Ok(answers)
    };
    // A little more than the call's own timeout, so that its own words are reported.
    let asked = blocking("metadata", deadline + SLACK, ask).await;
    let answers = asked
        .unwrap_or_else(|error| Err(Silence::Unreachable(error.to_string())))
        .map_err(|silence| vec![Problem::new(broker, silence.to_string())])?;
    let problems: Vec<Problem> = wanted
        .filter_map(|wanted| {
            let message = wrong(wanted, *answers.get(wanted.topic)?)?;
            Some(Problem::new(
                format!("subscription {}", wanted.subscription),
                message,
            ))
        })
        .collect();
    if problems.is_empty() {
        Ok(answers
            .into_iter()
            .map(|(topic, count)| (topic, count.unwrap_or(1)))
            .collect())
    } else {
        Err(problems)
    }
}

/// Why nothing is known about any topic.
enum Silence {
    /// The settings cannot make a client.
    Unusable(String),
    Unreachable(String),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(reason) => write!(f, "librdkafka refuses the settings together: {reason}"),
            Self::Unreachable(reason) => write!(
                f,
                "no broker answered ({reason}): check the address, that it is running, and the security settings"
            ),
        }
    }
}

/// How much longer than the call's own timeout its thread may take.
const SLACK: Duration = Duration::from_millis(250);

/// Kafka's code for a topic that cannot exist.
const INVALID_TOPIC: i32 = 17;

fn is_unreachable(code: Code) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        code.known(),
        Some(
            E::BrokerTransportFailure
                | E::OperationTimedOut
                | E::AllBrokersDown
                | E::Resolve
                | E::Authentication
                | E::SSL
        )
    )
}

/// What is wrong with a topic, and what to do; `None` when it can be used.
fn wrong(Wanted { topic, purpose, .. }: Wanted<'_>, answer: Result<usize, Code>) -> Option<String> {
    use RDKafkaErrorCode as E;
    let (right, used) = match purpose {
        Purpose::Consume => ("Read", "consumed"),
        Purpose::Publish => ("Write", "published to"),
    };
    let code = match answer {
        Ok(0) => {
            return Some(format!(
                "topic {topic} has no partitions: create it again with at least one"
            ));
        }
        Ok(_) => return None,
        Err(code) => code,
    };
    Some(match code.known() {
        // It exists; a leader is being elected.
        Some(E::LeaderNotAvailable) => return None,
        Some(E::UnknownTopic | E::UnknownTopicOrPartition) => {
            format!(
                "topic {topic} does not exist: create it, or call `KafkaBroker::create_topic` before the start"
            )
        }
        Some(E::TopicAuthorizationFailed) => {
            format!("not allowed to describe topic {topic}: grant this user `Describe` and `{right}` on it")
        }
        Some(E::InvalidTopic) => format!(
            "{topic:?} cannot be the name of a topic: use ASCII letters, digits, `.`, `_` and `-`, at most 249"
        ),
        _ => format!("topic {topic} cannot be {used}: {code}"),
    })
}

/// Creates a topic through the admin API, unless it exists: who may describe it need not have the right to create it.
pub(crate) async fn create(
    settings: &Settings,
    topic: &str,
    partitions: u16,
    deadline: Instant,
) -> Result<(), String> {
    let (config, topic, handle) = (settings.probe(), topic.to_owned(), Handle::current());
    let call = move || {
        let name = CString::new(topic.as_str()).map_err(|_| "its name holds a NUL".to_owned())?;
        if exists(&config, &name, deadline)? {
            return Ok(());
        }
        // On a thread of its own: the admin client blocks when it is created and dropped.
        handle.block_on(ask_to_create(config, &topic, partitions, deadline))
    };
    blocking("create-topic", deadline + SLACK, call)
        .await
        .map_err(|error| error.to_string())?
}

/// Whether the cluster shows the topic. One that will not say does not: its answer to the request to create it says more.
fn exists(config: &ClientConfig, topic: &CStr, deadline: Instant) -> Result<bool, String> {
    let client = Client::new(config, None).map_err(|reason| Silence::Unusable(reason).to_string())?;
    let answer = client.partitions(topic, deadline.saturating_duration_since(Instant::now()));
    match answer {
        Err(code) if is_unreachable(code) => Err(Silence::Unreachable(code.to_string()).to_string()),
        // It exists; a leader is being elected.
        Err(code) => Ok(code.known() == Some(RDKafkaErrorCode::LeaderNotAvailable)),
        Ok(_) => Ok(true),
    }
}

async fn ask_to_create(
    mut config: ClientConfig,
    topic: &str,
    partitions: u16,
    deadline: Instant,
) -> Result<(), String> {
    // The admin client is a producer inside, and would warn about each property of a consumer.
    config.set_log_level(RDKafkaLogLevel::Error);
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(|error| error.to_string())?;
    let wanted = NewTopic::new(
        topic,
        i32::from(partitions),
        TopicReplication::Fixed(BROKER_DEFAULT),
    );
    let left = deadline.saturating_duration_since(Instant::now());
    let options = AdminOptions::new()
        .request_timeout(Some(left))
        .operation_timeout(Some(left));
    let results = admin
        .create_topics([&wanted], &options)
        .await
        .map_err(|error| error.to_string())?;
    match results.into_iter().next() {
        // Another one made it in the meantime.
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
        Some(Err((_, code))) => Err(code.to_string()),
        _ => Ok(()),
    }
}

/// "As many replicas as the cluster's default says".
const BROKER_DEFAULT: i32 = -1;

/// Creates a topic on the embedded cluster, which has no admin API.
pub(crate) async fn create_embedded(
    cluster: &Arc<EmbeddedCluster>,
    topic: &str,
    partitions: u16,
    deadline: Instant,
) -> Result<(), String> {
    let (cluster, topic) = (Arc::clone(cluster), topic.to_owned());
    blocking("create-topic", deadline, move || {
        cluster.create_topic(&topic, partitions)
    })
    .await
    .map_err(|error| error.to_string())?
}
