//! Settings: what the user said, checked once, as a plain struct without options.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use ruststream::Problem;
use ruststream::broker::{Commit, SubscribeRequest};

use crate::broker::StartPosition;

/// What the user said.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) bootstrap: String,
    /// In the order given; a later value of a key replaces an earlier one.
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) group: Option<String>,
    pub(crate) group_instance: Option<String>,
    pub(crate) commit: Commit,
    pub(crate) start: Option<StartPosition>,
    /// For publishers only, in the order given.
    pub(crate) producer_properties: Vec<(String, String)>,
    pub(crate) max_unconfirmed: usize,
}

/// What holds: complete, and free of contradictions.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Every property of a consumer but its group and its prefetch limit, which depend on the subscriptions.
    properties: BTreeMap<String, String>,
    pub(crate) protocol: Protocol,
    pub(crate) commit: Commit,
    /// How long a member may take to answer a rebalance.
    rebalance_timeout: Duration,
}

/// How assignments change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Everything is revoked, then everything is assigned.
    Eager,
    /// Only what moves is revoked and assigned: cooperative-sticky, and KIP-848.
    Incremental,
}

/// The defaults that differ from librdkafka's, with the reason. A property that the user set wins.
const DEFAULTS: &[(&str, &str)] = &[
    // What may be seen again after a crash is what was settled within this time.
    ("auto.commit.interval.ms", "1000"),
    // The default of 1 s stops fetching for that long whenever the prefetch limit is reached: a factor of seven on a
    // backlog.
    ("fetch.queue.backoff.ms", "10"),
    // A smaller working set than the default of 100,000; no loss of throughput was measured.
    ("queued.min.messages", "20000"),
    // Idle connections are closed by brokers all the time.
    ("log.connection.close", "false"),
    ("socket.keepalive.enable", "true"),
];

/// What the adapter itself relies on.
const FIXED: &[(&str, &str)] = &[
    ("enable.auto.commit", "true"),
    ("enable.auto.offset.store", "false"),
];

/// librdkafka's limit applies to each partition's queue: the budget is split among them.
const PREFETCH_BUDGET_KB: usize = 65_536;

/// Two fetches of a partition at their default size (1 MiB): with less, the next one is not under way while one is
/// worked on.
const PREFETCH_FLOOR_KB: usize = 2_048;

/// librdkafka's default.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

impl Given {
    /// Checks everything that can be checked without a broker.
    ///
    /// # Errors
    ///
    /// All contradictions at once, each with its remedy.
    pub(crate) fn parse(&self, subject: &str) -> Result<Settings, Vec<Problem>> {
        let set: BTreeMap<&str, &str> = self
            .properties
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let mut messages = Vec::new();
        if self.bootstrap.trim().is_empty() {
            messages.push("no bootstrap servers: name at least one, as in `localhost:9092`".to_owned());
        }
        messages.extend(owned_properties(&set));
        messages.extend(self.start_contradiction(&set));
        let protocol = protocol(&set).unwrap_or_else(|message| {
            messages.push(message);
            Protocol::Incremental
        });
        messages.extend(next_generation_contradictions(&set));
        messages.extend(refused_by_librdkafka(&set));
        if !messages.is_empty() {
            return Err(messages
                .into_iter()
                .map(|message| Problem::new(subject, message))
                .collect());
        }
        Ok(Settings {
            properties: self.complete(&set),
            protocol,
            commit: self.commit,
            rebalance_timeout: millis(&set, "max.poll.interval.ms").unwrap_or(MAX_POLL_INTERVAL),
        })
    }

    fn start_contradiction(&self, set: &BTreeMap<&str, &str>) -> Option<String> {
        let (start, reset) = (self.start?, *set.get("auto.offset.reset")?);
        (reset != start.as_property()).then(|| {
            format!("`auto.offset.reset={reset}` contradicts `.start({start:?})`: keep one of the two")
        })
    }

    fn complete(&self, set: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
        let mut properties: BTreeMap<String, String> = BTreeMap::new();
        let mut put = |key: &str, value: &str| properties.insert(key.to_owned(), value.to_owned());
        for (key, value) in DEFAULTS {
            put(key, value);
        }
        put("auto.offset.reset", self.start.unwrap_or_default().as_property());
        if !is_next_generation(set) {
            put("partition.assignment.strategy", "cooperative-sticky");
        }
        for (key, value) in set {
            put(key, value);
        }
        put("bootstrap.servers", &self.bootstrap);
        if let Some(instance) = &self.group_instance {
            put("group.instance.id", instance);
        }
        for (key, value) in FIXED {
            put(key, value);
        }
        properties
    }
}

impl Settings {
    /// The configuration of the consumer of `group`, which may own up to `partitions` partitions.
    pub(crate) fn consumer(&self, group: &str, partitions: usize) -> ClientConfig {
        let mut config = self.client();
        config.set("group.id", group);
        if !self.properties.contains_key("queued.max.messages.kbytes") {
            let limit = (PREFETCH_BUDGET_KB / partitions.max(1)).max(PREFETCH_FLOOR_KB);
            config.set("queued.max.messages.kbytes", limit.to_string());
        }
        config
    }

    /// The configuration of a client that only asks: the same, so that it contradicts itself where a consumer would, but
    /// in no group.
    pub(crate) fn probe(&self) -> ClientConfig {
        let mut config = self.client();
        config.remove("group.instance.id");
        config
    }

    /// Requests that could not answer a rebalance in time.
    pub(crate) fn check(&self, request: &SubscribeRequest) -> Option<Problem> {
        (request.drain_timeout >= self.rebalance_timeout).then(|| {
            let message = format!(
                "the drain timeout ({:?}) reaches `max.poll.interval.ms` ({:?}), after which the group goes on without \
                 this member: shorten the one or raise the other",
                request.drain_timeout, self.rebalance_timeout,
            );
            Problem::new(subscription(request), message)
        })
    }

    fn client(&self) -> ClientConfig {
        self.properties.clone().into_iter().collect()
    }
}

/// How problems name a subscription.
pub(crate) fn subscription(request: &SubscribeRequest) -> String {
    format!("subscription {}", request.name)
}

/// Whether a property's value must never be shown.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["password", "secret", "key", "token", "jaas"]
        .iter()
        .any(|part| key.contains(part))
}

/// A property as it may be shown.
pub(crate) fn shown<'v>(key: &str, value: &'v str) -> &'v str {
    if is_secret(key) { "***" } else { value }
}

fn is_next_generation(set: &BTreeMap<&str, &str>) -> bool {
    set.get("group.protocol")
        .is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"))
}

fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "true" | "t" | "1")
}

fn millis(set: &BTreeMap<&str, &str>, key: &str) -> Option<Duration> {
    Some(Duration::from_millis(set.get(key)?.trim().parse().ok()?))
}

/// Properties that are the adapter's own.
fn owned_properties(set: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut messages = Vec::new();
    for key in ["bootstrap.servers", "metadata.broker.list"] {
        if set.contains_key(key) {
            messages.push(format!("`{key}` is given to `KafkaBroker::new`, not to `set`"));
        }
    }
    if set.contains_key("group.id") {
        messages.push("`group.id` is given with `.group(..)`, not with `set`".to_owned());
    }
    if set.contains_key("group.instance.id") {
        messages
            .push("`group.instance.id` is given with `.group_instance_id(..)`, not with `set`".to_owned());
    }
    if set
        .get("enable.auto.offset.store")
        .is_some_and(|value| is_true(value))
    {
        messages.push(
            "`enable.auto.offset.store=true` would move positions past records that no handler has seen: remove it; \
             `.commit(Commit::Auto)` stores the position of what is handed to its handler"
                .to_owned(),
        );
    }
    for key in ["enable.auto.commit", "auto.commit.enable"] {
        if set.get(key).is_some_and(|value| !is_true(value)) {
            messages.push(format!(
                "`{key}=false` would never commit what was settled: remove it; positions are committed every \
                 `auto.commit.interval.ms`, and only those that were settled"
            ));
        }
    }
    if set
        .get("enable.partition.eof")
        .is_some_and(|value| is_true(value))
    {
        messages.push(
            "`enable.partition.eof=true` makes librdkafka 2.12 skip records (its issue 4844): remove it"
                .to_owned(),
        );
    }
    messages
}

/// How assignments will change, by the settings alone: asking a client that is closing can hang.
fn protocol(set: &BTreeMap<&str, &str>) -> Result<Protocol, String> {
    if is_next_generation(set) {
        return Ok(Protocol::Incremental);
    }
    let Some(strategy) = set.get("partition.assignment.strategy") else {
        return Ok(Protocol::Incremental);
    };
    let assignors: Vec<&str> = strategy
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let cooperative = assignors
        .iter()
        .filter(|name| name.starts_with("cooperative"))
        .count();
    match cooperative {
        0 => Ok(Protocol::Eager),
        all if all == assignors.len() => Ok(Protocol::Incremental),
        _ => Err(format!(
            "`partition.assignment.strategy={strategy}` mixes eager and cooperative assignors: name one kind only"
        )),
    }
}

/// KIP-848 moved these settings to the broker.
fn next_generation_contradictions(set: &BTreeMap<&str, &str>) -> Vec<String> {
    if !is_next_generation(set) {
        return Vec::new();
    }
    [
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "partition.assignment.strategy",
    ]
    .into_iter()
    .filter(|key| set.contains_key(key))
    .map(|key| {
        format!(
            "`{key}` is decided by the broker with `group.protocol=consumer`: remove it, or use \
                 `group.protocol=classic`"
        )
    })
    .collect()
}

/// Unknown properties and impossible values, in librdkafka's words, one by one so that all are reported.
pub(crate) fn refused_by_librdkafka(set: &BTreeMap<&str, &str>) -> Vec<String> {
    set.iter()
        .filter_map(|(key, value)| {
            let mut alone = ClientConfig::new();
            alone.set(*key, *value);
            match alone.create_native_config().err()? {
                // The text repeats the value.
                KafkaError::ClientConfig(..) if is_secret(key) => {
                    Some(format!("`{key}` has a value that librdkafka refuses"))
                }
                KafkaError::ClientConfig(_, text, ..) => {
                    Some(format!("`{key}` is refused by librdkafka: {text}"))
                }
                other => Some(format!("`{key}` is refused by librdkafka: {other}")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
