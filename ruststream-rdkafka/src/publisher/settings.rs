//! What a publisher's client is made with.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use ruststream::Problem;

use crate::config::{Given, refused_by_librdkafka};

/// How many records may be unconfirmed by default: enough for 1.4 million replies a second at a round trip of 3 ms, and
/// few enough that what a crash leaves unknown is sent in milliseconds.
pub(crate) const MAX_UNCONFIRMED: usize = 4_096;

/// Above it, memory and the time that a crash leaves unknown are out of proportion.
const MOST_UNCONFIRMED: usize = 1_000_000;

/// What holds: complete, and free of contradictions.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) config: ClientConfig,
    pub(super) max_unconfirmed: usize,
}

/// Whose records a publisher sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Those of whoever holds it: often one, and awaited.
    Caller,
    /// Those of the app's handlers: many, and not awaited.
    Handlers,
}

impl Purpose {
    /// How long a record waits for others to share its request, in milliseconds.
    ///
    /// For whoever awaits a record, every moment is added to the wait; batches still form while a request is out. For
    /// handlers, 1 ms was the best of 0, 1 and 5 on a backlog (0.98, 1.39 and 0.63 million replies a second on Kafka 4.3),
    /// takes a fifth of the CPU of 0 at 30,000 a second (2.4 us a record against 12), and is hardly seen in the confirmation
    /// of a single one.
    fn linger(self) -> &'static str {
        match self {
            Self::Caller => "0",
            Self::Handlers => "1",
        }
    }
}

/// The defaults that differ from librdkafka's, with the reason. A property that the user set wins.
const DEFAULTS: &[(&str, &str)] = &[
    // Order is kept and nothing is written twice when a request is repeated; it costs the sender nothing.
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Keys go where the Java client sends them.
    ("partitioner", "murmur2_random"),
    // Needed for idempotence, and faster without it, too: the default of a million sends many small requests.
    ("max.in.flight.requests.per.connection", "5"),
    // A topic may have been created this moment, and is more often misspelt: the default is 30 s.
    ("topic.metadata.propagation.max.ms", "10000"),
    // Time limits of records are looked at between attempts to connect: with the default of 10 s, that much later.
    ("reconnect.backoff.max.ms", "1000"),
    // Idle connections are closed by brokers all the time.
    ("log.connection.close", "false"),
    ("socket.keepalive.enable", "true"),
];

/// Properties that only consumers have: given to a producer, librdkafka would warn about each.
const CONSUMERS_ONLY: &[&str] = &[
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "consume.callback.max.messages",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
];

/// Properties that are the adapter's own, and what to do instead.
const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "give it to `KafkaBroker::new`"),
    ("metadata.broker.list", "give it to `KafkaBroker::new`"),
    (
        "queue.buffering.max.messages",
        "say how many records may be unconfirmed with `.max_unconfirmed(..)`",
    ),
    ("transactional.id", "publishers do not take part in transactions"),
];

impl Settings {
    /// Checks everything that can be checked without a broker.
    ///
    /// # Errors
    ///
    /// All contradictions at once, each with its remedy.
    pub(crate) fn parse(given: &Given, subject: &str, purpose: Purpose) -> Result<Self, Vec<Problem>> {
        let shared = pairs(&given.properties).filter(|(key, _)| !CONSUMERS_ONLY.contains(key));
        let set: BTreeMap<&str, &str> = shared.chain(pairs(&given.producer_properties)).collect();
        let mut messages = Vec::new();
        if given.bootstrap.trim().is_empty() {
            messages.push("no bootstrap servers: name at least one, as in `localhost:9092`".to_owned());
        }
        if !(1..=MOST_UNCONFIRMED).contains(&given.max_unconfirmed) {
            messages.push(format!(
                "`.max_unconfirmed({})` cannot be: give a number from 1 to {MOST_UNCONFIRMED}",
                given.max_unconfirmed
            ));
        }
        let owned = OWNED.iter().filter(|(key, _)| set.contains_key(key));
        messages
            .extend(owned.map(|(key, remedy)| format!("`{key}` cannot be set for a publisher: {remedy}")));
        let producers = pairs(&given.producer_properties);
        messages.extend(
            producers
                .filter(|(key, _)| CONSUMERS_ONLY.contains(key))
                .map(|(key, _)| format!("`{key}` is a property of consumers: use `.set(..)`")),
        );
        messages.extend(refused_by_librdkafka(&set));
        if !messages.is_empty() {
            return Err(messages
                .into_iter()
                .map(|message| Problem::new(subject, message))
                .collect());
        }
        Ok(Self {
            config: complete(given, &set, purpose),
            max_unconfirmed: given.max_unconfirmed,
        })
    }
}

fn pairs(properties: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    properties
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

fn complete(given: &Given, set: &BTreeMap<&str, &str>, purpose: Purpose) -> ClientConfig {
    let mut config = ClientConfig::new();
    let linger = [("linger.ms", purpose.linger())];
    for (key, value) in DEFAULTS.iter().chain(&linger) {
        if !is_set(set, key) {
            config.set(*key, *value);
        }
    }
    for (key, value) in set {
        config.set(*key, *value);
    }
    // Twice the bound: a record is confirmed a moment before librdkafka counts one less. With the bound itself its queue
    // was full tens of thousands of times in a test, with twice the bound never.
    let queue = 2 * given.max_unconfirmed;
    config.set("queue.buffering.max.messages", queue.to_string());
    config.set("bootstrap.servers", &given.bootstrap);
    config
}

/// Under any of its names.
fn is_set(set: &BTreeMap<&str, &str>, key: &str) -> bool {
    let other_name = match key {
        "acks" => "request.required.acks",
        "linger.ms" => "queue.buffering.max.ms",
        "max.in.flight.requests.per.connection" => "max.in.flight",
        _ => key,
    };
    set.contains_key(key) || set.contains_key(other_name)
}

#[cfg(test)]
mod tests {
    use crate::KafkaBroker;

    use super::*;

    fn settings(broker: &KafkaBroker) -> Result<Settings, Vec<String>> {
        broker
            .publisher_settings(Purpose::Caller)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn properties_of_the_broker_apply_and_those_of_the_publisher_win() {
        let broker = KafkaBroker::new("kafka:9092")
            .set("client.id", "billing")
            .set("linger.ms", "5")
            .set("session.timeout.ms", "6000")
            .set_producer("linger.ms", "1")
            .set_producer("request.required.acks", "1")
            .max_unconfirmed(10);
        let config = settings(&broker).unwrap().config;
        assert_eq!(config.get("bootstrap.servers"), Some("kafka:9092"));
        assert_eq!(config.get("client.id"), Some("billing"));
        assert_eq!(config.get("linger.ms"), Some("1"));
        assert_eq!(config.get("session.timeout.ms"), None);
        assert_eq!(config.get("acks"), None);
        assert_eq!(config.get("enable.idempotence"), Some("true"));
        assert_eq!(config.get("queue.buffering.max.messages"), Some("20"));
    }

    #[test]
    fn the_records_of_handlers_wait_for_others_and_those_of_a_caller_do_not() {
        let linger = |broker: &KafkaBroker, purpose| {
            let config = broker.publisher_settings(purpose).unwrap().config;
            config.get("linger.ms").map(str::to_owned)
        };
        let broker = KafkaBroker::new("kafka:9092");
        assert_eq!(linger(&broker, Purpose::Caller).as_deref(), Some("0"));
        assert_eq!(linger(&broker, Purpose::Handlers).as_deref(), Some("1"));
        let broker = broker.set_producer("linger.ms", "7");
        assert_eq!(linger(&broker, Purpose::Handlers).as_deref(), Some("7"));
    }

    #[test]
    fn everything_that_is_wrong_is_reported_at_once() {
        let broker = KafkaBroker::new(" ")
            .set_producer("linger", "1")
            .set_producer("group.id", "billing")
            .set_producer("queue.buffering.max.messages", "7")
            .max_unconfirmed(0);
        insta::assert_snapshot!(settings(&broker).unwrap_err().join("\n"), @r#"
        Kafka at  : no bootstrap servers: name at least one, as in `localhost:9092`
        Kafka at  : `.max_unconfirmed(0)` cannot be: give a number from 1 to 1000000
        Kafka at  : `queue.buffering.max.messages` cannot be set for a publisher: say how many records may be unconfirmed with `.max_unconfirmed(..)`
        Kafka at  : `group.id` is a property of consumers: use `.set(..)`
        Kafka at  : `linger` is refused by librdkafka: No such configuration property: "linger"
        "#);
    }
}
