//! Consuming: one client and one control task for each group, one queue for each assigned partition.
//!
//! ```text
//! control task ── polls the control queue ──▶ assign: split queues off, answer, hand partitions to their inbox
//!      ▲    ▲                                  revoke: end partitions ─▶ wait for their drop ─▶ detach, answer
//!      │    └── `Group`: close requests, drops
//!      └─────── edge callback of the control queue
//! KafkaPartition ── polls its own queue; stores into its own list; both behind one lock that detaching takes
//! ```
//!
//! Locks, outermost first: an assignment's queue, then the client's batch reads. Inboxes and the group's seats are
//! never held together with another lock.

mod assignment;
mod close;
mod control;
mod fault;
mod group;
mod inbox;
#[cfg(all(test, feature = "embedded"))]
mod lost_edge;
mod partition;
mod rebalance;
mod subscription;

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use control::Control;
pub use partition::KafkaPartition;
use ruststream::Problem;
use ruststream::broker::SubscribeRequest;
pub use subscription::KafkaSubscription;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::admin::Partitions;
use crate::blocking::blocking;
use crate::config::{self, Settings};
use crate::native::{Client, ControlQueue};

/// What a client keeps alive while it lives.
type Keep = Option<Arc<dyn Any + Send + Sync>>;

/// A topic that a subscription consumes.
struct Topic {
    name: String,
    /// The name as librdkafka takes it.
    native: CString,
    /// How long a revoked partition may take to drain.
    drain_timeout: Duration,
}

/// The subscriptions that one client will serve.
pub(crate) struct Plan {
    group: String,
    /// With their place in the list of requests.
    requests: Vec<(usize, SubscribeRequest)>,
    /// How many partitions the client may come to own.
    partitions: usize,
}

/// Requests for a topic that another request of the same group consumes already.
pub(crate) fn duplicates(requests: &[SubscribeRequest]) -> Vec<Problem> {
    let mut first: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for request in requests {
        match first.get(&(request.group.as_str(), request.topic.as_str())) {
            Some(other) => {
                let message = format!(
                    "topic {} is consumed by subscription {other} in group {} already, and each record would reach \
                     only one of the two: mount this one on a broker with another `.group(..)`",
                    request.topic, request.group,
                );
                problems.push(Problem::new(config::subscription(request), message));
            }
            None => {
                first.insert((&request.group, &request.topic), &request.name);
            }
        }
    }
    problems
}

/// Sorts requests by group.
pub(crate) fn groups(requests: &[SubscribeRequest], partitions: &Partitions) -> Vec<Plan> {
    let mut plans: BTreeMap<&str, Plan> = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        let plan = plans.entry(&request.group).or_insert_with(|| Plan {
            group: request.group.clone(),
            requests: Vec::new(),
            partitions: 0,
        });
        plan.partitions += partitions.get(&request.topic).copied().unwrap_or(1);
        plan.requests.push((index, request.clone()));
    }
    plans.into_values().collect()
}

/// Starts one client for each plan and yields the subscriptions in the order of their requests.
///
/// # Errors
///
/// The group that did not start, and why. What was started before is closed again, because its subscriptions are
/// dropped.
pub(crate) async fn start(
    settings: &Settings,
    plans: Vec<Plan>,
    keep: Keep,
    tasks: &TaskTracker,
    deadline: Instant,
) -> Result<Vec<KafkaSubscription>, Problem> {
    let mut subscriptions = Vec::new();
    for plan in plans {
        let subject = format!("group {}", plan.group);
        let started = start_group(settings, plan, keep.clone(), tasks, deadline).await;
        subscriptions.extend(started.map_err(|message| Problem::new(subject, message))?);
    }
    subscriptions.sort_by_key(|(index, _)| *index);
    Ok(subscriptions
        .into_iter()
        .map(|(_, subscription)| subscription)
        .collect())
}

async fn start_group(
    settings: &Settings,
    plan: Plan,
    keep: Keep,
    tasks: &TaskTracker,
    deadline: Instant,
) -> Result<Vec<(usize, KafkaSubscription)>, String> {
    let config = settings.consumer(&plan.group, plan.partitions);
    let create = move || Client::new(&config, keep);
    let client = blocking("create", deadline, create)
        .await
        .map_err(|error| error.to_string())??;
    let mut topics = Vec::new();
    for (_, request) in &plan.requests {
        let native = CString::new(request.topic.clone()).map_err(|_| "a topic's name holds a NUL")?;
        topics.push(Topic {
            name: request.topic.clone(),
            native,
            drain_timeout: request.drain_timeout,
        });
    }
    let queue = ControlQueue::new(&client).ok_or("the client has no consumer queue")?;
    let (control, seats) = Control::new(client, queue, &plan.group, settings, topics);
    let subscriptions = plan
        .requests
        .into_iter()
        .zip(seats)
        .map(|((index, request), seat)| (index, KafkaSubscription::new(request.name, seat)))
        .collect();
    let (ready, subscribed) = oneshot::channel();
    // From here on the control task owns the client: when this future is dropped, the subscriptions are, and the task
    // closes.
    tasks.spawn(control.run(deadline, ready));
    subscribed.await.map_err(|_| "the control task ended")??;
    Ok(subscriptions)
}
