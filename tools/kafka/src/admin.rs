//! What is asked of a running Kafka, each time through a new client: one that lived through a kill would first have
//! to find out about it.

use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{MetadataBroker, MetadataTopic};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::{Error, ErrorKind, process};

type Admin = AdminClient<DefaultClientContext>;

/// The leader of each partition in order, `None` for a partition without one.
pub(crate) type Leaders = Vec<Option<i32>>;

/// What one node says about its cluster.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) cluster_id: Option<String>,
    pub(crate) brokers: Vec<i32>,
}

/// Asks the node at `address`.
pub(crate) fn view(address: &str) -> KafkaResult<View> {
    let client = reader(address)?;
    let metadata = client.fetch_metadata(None, PROBE_TIMEOUT)?;
    let cluster_id = client.client().fetch_cluster_id(PROBE_TIMEOUT);
    Ok(View {
        cluster_id,
        brokers: metadata.brokers().iter().map(MetadataBroker::id).collect(),
    })
}

/// Asks for the offsets of a group once: Kafka makes the topic for them when it is first needed, which takes the
/// first group of a cluster about 3 s.
pub(crate) fn warm_up(bootstrap: &str) -> KafkaResult<()> {
    let consumer: BaseConsumer = config(bootstrap).set("group.id", "ruststream-warm-up").create()?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition("ruststream-warm-up", 0);
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match consumer.committed_offsets(partitions.clone(), left) {
            // The coordinator is found before it has taken over: it says so for a moment.
            Err(e) if is_taking_over(&e) && Instant::now() < deadline => process::pause(),
            answer => return answer.map(drop),
        }
    }
}

fn is_taking_over(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(CoordinatorLoadInProgress | CoordinatorNotAvailable | NotCoordinator)
    )
}

pub(crate) fn create_topic(bootstrap: &str, topic: &NewTopic<'_>) -> Result<(), Error> {
    request(
        bootstrap,
        &format!("create topic {}", topic.name),
        RDKafkaErrorCode::TopicAlreadyExists,
        |client| block_on(client.create_topics([topic], &options())),
    )
}

pub(crate) fn delete_topic(bootstrap: &str, name: &str) -> Result<(), Error> {
    request(
        bootstrap,
        &format!("delete topic {name}"),
        RDKafkaErrorCode::UnknownTopicOrPartition,
        |client| block_on(client.delete_topics(&[name], &options())),
    )
}

pub(crate) fn set_partitions(bootstrap: &str, name: &str, total: usize) -> Result<(), Error> {
    let what = format!("give topic {name} {total} partitions");
    request(bootstrap, &what, RDKafkaErrorCode::InvalidPartitions, |client| {
        block_on(client.create_partitions([&NewPartitions::new(name, total)], &options()))
    })
}

/// The leaders of a topic's partitions; `None` if there is no such topic.
pub(crate) fn leaders(bootstrap: &str, name: &str) -> Result<Option<Leaders>, Error> {
    let metadata = reader(bootstrap).and_then(|client| client.fetch_metadata(Some(name), ATTEMPT_TIMEOUT));
    let metadata = metadata.map_err(|e| refused(&format!("look up topic {name}"), e))?;
    let topic = metadata
        .topics()
        .iter()
        .find(|topic| topic.name() == name && topic.error().is_none());
    Ok(topic.map(leaders_of))
}

/// Asks every node of `addresses` until it shows the topic as `fits` wants it.
pub(crate) fn until(
    addresses: &[String],
    name: &str,
    fits: impl Fn(Option<&Leaders>) -> bool,
) -> Result<(), Error> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    for address in addresses {
        let late = || {
            let message = format!("node {address} does not show the change of topic {name} in time");
            Error::new(ErrorKind::Deadline, message)
        };
        loop {
            match leaders(address, name) {
                Ok(leaders) if fits(leaders.as_ref()) => break,
                _ if Instant::now() < deadline => process::pause(),
                Ok(_) => return Err(late()),
                Err(e) => return Err(late().with_source(e)),
            }
        }
    }
    Ok(())
}

fn leaders_of(topic: &MetadataTopic) -> Leaders {
    let mut leaders: Vec<_> = topic.partitions().iter().map(|p| (p.id(), p.leader())).collect();
    leaders.sort_unstable();
    leaders
        .into_iter()
        .map(|(_, leader)| (leader >= 0).then_some(leader))
        .collect()
}

/// Sends a request until it is answered. Right after a kill the other nodes still name the dead one as the one to ask,
/// and a client that has heard so waits for it until its request times out; a new client hears better.
///
/// `done` is how Kafka refuses what it has done already: that is success if an earlier attempt went unanswered.
fn request(
    bootstrap: &str,
    what: &str,
    done: RDKafkaErrorCode,
    send: impl Fn(&Admin) -> KafkaResult<Vec<TopicResult>>,
) -> Result<(), Error> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let mut unanswered = false;
    loop {
        let sent = config(bootstrap).create().and_then(|client| send(&client));
        let answer = sent.and_then(|results| match results.into_iter().find_map(Result::err) {
            Some((_, code)) => Err(KafkaError::AdminOp(code)),
            None => Ok(()),
        });
        match answer {
            Ok(()) => return Ok(()),
            Err(KafkaError::AdminOp(code)) if unanswered && code == done => return Ok(()),
            Err(e) if !is_timeout(&e) || Instant::now() >= deadline => return Err(refused(what, e)),
            Err(_) => unanswered = true,
        }
    }
}

fn is_timeout(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{OperationTimedOut, RequestTimedOut};
    matches!(error, KafkaError::AdminOp(OperationTimedOut | RequestTimedOut))
}

/// A client that only asks. An admin client would do, but takes up to 100 ms to be dropped.
fn reader(bootstrap: &str) -> KafkaResult<BaseConsumer> {
    config(bootstrap).create()
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("client.id", "ruststream-kafka-cluster")
        // A node that is just coming up is asked again at once.
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "100")
        .set("socket.nagle.disable", "true");
    config
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(ATTEMPT_TIMEOUT))
        .operation_timeout(Some(ATTEMPT_TIMEOUT))
}

pub(crate) fn refused(what: &str, source: KafkaError) -> Error {
    Error::new(ErrorKind::Admin, format!("cannot {what}")).with_source(source)
}

/// A new topic with the given settings.
pub(crate) fn topic<'a>(
    name: &'a str,
    partitions: i32,
    replication: i32,
    settings: &'a [(&'a str, &'a str)],
) -> NewTopic<'a> {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replication));
    settings
        .iter()
        .fold(topic, |topic, (key, value)| topic.set(key, value))
}

/// A node that serves answers in milliseconds; one that does not is asked again.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Above the time that the loss of the controller takes to heal (about 5 s).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Above the time that Kafka takes for a change on a busy machine.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
