//! The broker itself: topics, publishing, subscribing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::delivery::MemoryDelivery;
use super::log::{Topic, TopicShape};
use super::publisher::MemoryPublisher;
use super::record::MemoryRecord;
use super::state::{Shared, State, Wakers};
use super::subscription::MemorySubscription;
use crate::broker::{Broker, Commit, Destination, SubscribeRequest};
use crate::{Error, ErrorKind, Problem};

/// A broker in memory. A clone is another handle to the same topics and groups.
///
/// Topics have to be created before they are used, as on a production cluster, unless
/// [`auto_create`](Self::auto_create) says otherwise. A group without a position starts at the first record.
///
/// A record with a key goes to partition `FNV-1a(key) mod partitions` (32 bits), one without a key to the partitions
/// in turn, and one with an [explicit partition](MemoryRecord::partition) there.
///
/// Nothing is ever deleted: the log is as long as what the test publishes.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct MemoryBroker {
    pub(super) shared: Arc<Shared>,
    pub(super) auto_create: Option<i32>,
    commit: Commit,
}

impl MemoryBroker {
    /// A broker without topics, whose subscriptions commit in [`Commit::Tracked`] mode.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates missing topics with `partitions` partitions (at least one) when something is published to them, or
    /// subscribed.
    ///
    /// A setting of this handle and its later clones.
    pub fn auto_create(mut self, partitions: i32) -> Self {
        self.auto_create = Some(partitions.max(1));
        self
    }

    /// Sets when a delivery counts as settled. A setting of this handle and its later clones.
    pub fn commit(mut self, commit: Commit) -> Self {
        self.commit = commit;
        self
    }

    /// Creates a topic; one that exists already with as many partitions is kept as it is.
    ///
    /// # Errors
    ///
    /// There would be no partition, or the topic exists with another number of them.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::new(ErrorKind::Broker, reason));
        if partitions < 1 {
            return refuse(format!(
                "topic {name} was not created: it needs at least one partition"
            ));
        }
        self.shared
            .with(|state, _| match state.topics.get(name).map(Topic::partitions) {
                Some(existing) if existing != partitions => refuse(format!(
                    "topic {name} was not created: it exists with {existing} partitions"
                )),
                Some(_) => Ok(()),
                None => {
                    state.create(name, partitions);
                    Ok(())
                }
            })
    }

    /// Appends a record to its topic and wakes its readers. Never waits, and is never full.
    ///
    /// Returns the partition and the offset.
    ///
    /// # Errors
    ///
    /// The topic does not exist, or has no such partition.
    pub fn publish(&self, record: MemoryRecord) -> Result<(i32, i64), Error> {
        self.shared.with(|state, wakers| {
            let (at, offset) = state
                .topic(&record.topic.clone(), self.auto_create)?
                .append(record)?;
            for group in state.groups.values_mut() {
                group.wake_reader(&at, wakers);
            }
            wakers.note_change();
            Ok((at.partition, offset))
        })
    }

    /// Leaves out the next `count` offsets of a partition, as compaction and transaction markers do.
    ///
    /// # Errors
    ///
    /// The topic does not exist, or has no such partition.
    pub fn skip_offsets(&self, topic: &str, partition: i32, count: u32) -> Result<(), Error> {
        self.shared.with(|state, _| {
            state
                .topic(topic, self.auto_create)?
                .skip(partition, count.into())
        })
    }

    /// Every record of a topic, in the order in which they were published; none if there is no such topic.
    pub fn records(&self, topic: &str) -> Vec<MemoryDelivery> {
        self.shared
            .with(|state, _| state.topics.get(topic).map(Topic::records).unwrap_or_default())
    }

    fn join_all(
        &self,
        requests: Vec<SubscribeRequest>,
        state: &mut State,
        wakers: &mut Wakers,
    ) -> Result<Vec<MemorySubscription>, Vec<Problem>> {
        let mut problems = duplicates(&requests);
        let mut joining = Vec::new();
        for request in requests {
            match state.topic(&request.topic, self.auto_create) {
                Ok(topic) => joining.push((topic.shape(), request)),
                Err(missing) => problems.push(problem(&request, missing.to_string())),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let join = |(topic, request): (TopicShape, SubscribeRequest)| {
            let name: Arc<str> = request.group.into();
            let group = state.groups.entry(name.clone()).or_default();
            let member = group.join(&request.name, vec![topic], request.drain_timeout, wakers);
            let shared = self.shared.clone();
            MemorySubscription {
                shared,
                group: name,
                member,
                name: request.name,
                commit: self.commit,
            }
        };
        Ok(joining.into_iter().map(join).collect())
    }
}

impl Broker for MemoryBroker {
    type Subscription = MemorySubscription;
    type Publisher = MemoryPublisher;

    fn describe(&self) -> String {
        "memory broker".to_owned()
    }

    fn commit(&self) -> Commit {
        self.commit
    }

    async fn subscribe(
        &self,
        requests: Vec<SubscribeRequest>,
    ) -> Result<Vec<MemorySubscription>, Vec<Problem>> {
        self.shared
            .with(|state, wakers| self.join_all(requests, state, wakers))
    }

    async fn open_publisher(&self, destinations: Vec<Destination>) -> Result<MemoryPublisher, Vec<Problem>> {
        let missing = |Destination { subscription, topic }| {
            let found = self
                .shared
                .with(|state, _| state.topic(&topic, self.auto_create).map(|_| ()));
            let missing = found.err()?;
            Some(Problem::new(
                format!("subscription {subscription}"),
                missing.to_string(),
            ))
        };
        let problems: Vec<_> = destinations.into_iter().filter_map(missing).collect();
        if problems.is_empty() {
            Ok(self.publisher())
        } else {
            Err(problems)
        }
    }
}

/// A problem for each request whose topic was asked for in the same group before.
fn duplicates(requests: &[SubscribeRequest]) -> Vec<Problem> {
    let mut first = BTreeMap::new();
    let mut problems = Vec::new();
    for request in requests {
        match first.get(&(&request.group, &request.topic)) {
            None => {
                first.insert((&request.group, &request.topic), &request.name);
            }
            Some(other) => {
                let SubscribeRequest { topic, group, .. } = request;
                let text = format!(
                    "subscription {other} consumes topic {topic} in group {group} already: use another group"
                );
                problems.push(problem(request, text));
            }
        }
    }
    problems
}

fn problem(request: &SubscribeRequest, message: String) -> Problem {
    Problem::new(format!("subscription {}", request.name), message)
}
