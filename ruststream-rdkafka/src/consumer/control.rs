//! The control task of a client: its events, its clock, its subscriptions.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::types::RDKafkaErrorCode as E;
use ruststream::broker::{Commit, End};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::Topic;
use super::assignment::Assignment;
use super::group::{Group, Outcome};
use super::inbox::Inbox;
use super::rebalance::{Rebalance, Revoking};
use super::subscription::Seat;
use crate::blocking::{NoAnswer, blocking};
use crate::config::{Protocol, Settings};
use crate::native::{Client, Code, ControlQueue, Event, List};

/// A partition of one of the client's topics: the seat of its subscription, and its number.
pub(super) type Key = (usize, i32);

/// Owns a client from its subscription to the group until it has left it.
pub(super) struct Control {
    pub(super) client: Arc<Client>,
    pub(super) queue: ControlQueue,
    pub(super) group: Arc<Group>,
    pub(super) protocol: Protocol,
    pub(super) commit: Commit,
    pub(super) seats: Seats,
    /// What librdkafka holds as assigned, whether or not its `KafkaPartition` is still alive.
    pub(super) assigned: BTreeMap<Key, Arc<Assignment>>,
    /// When the group was subscribed to, until the first assignment arrives.
    pub(super) joining: Option<Instant>,
    /// Rebalances that came and were not begun.
    pub(super) waiting: VecDeque<Rebalance>,
    /// The revocation that is under way.
    pub(super) revoking: Option<Revoking>,
    /// When the last revocation was answered.
    pub(super) gave_back: Option<Instant>,
    /// The positions that the broker confirmed.
    pub(super) committed: BTreeMap<Key, i64>,
    /// The last positions of partitions that were given back, until the broker confirms them.
    pub(super) unconfirmed: BTreeMap<Key, i64>,
    /// Why the client is of no use any more.
    pub(super) failed: Option<String>,
    outcome: watch::Sender<Option<Outcome>>,
    tick: Interval,
}

/// The client's side of its subscriptions.
pub(super) struct Seats(pub(super) Vec<ControlSeat>);

pub(super) struct ControlSeat {
    pub(super) topic: Arc<Topic>,
    pub(super) inbox: Arc<Inbox>,
    closing: bool,
}

/// How long a call that only the client's own main thread has to answer may take. Milliseconds in practice; past this
/// the client hangs, and is given up.
pub(super) const CALL: Duration = Duration::from_secs(30);

impl Control {
    /// A control task for `client`, and the seats of its subscriptions, in the order of `topics`.
    pub(super) fn new(
        client: Arc<Client>,
        queue: ControlQueue,
        group: &str,
        settings: &Settings,
        topics: Vec<Topic>,
    ) -> (Self, Vec<Seat>) {
        let group = Arc::new(Group::new(group, topics.len()));
        let (sender, outcome) = watch::channel(None);
        let seats: Vec<Seat> = topics
            .into_iter()
            .enumerate()
            .map(|(index, topic)| Seat {
                index,
                topic: Arc::new(topic),
                inbox: Arc::default(),
                group: Arc::clone(&group),
                outcome: outcome.clone(),
            })
            .collect();
        let own = |seat: &Seat| ControlSeat {
            topic: Arc::clone(&seat.topic),
            inbox: Arc::clone(&seat.inbox),
            closing: false,
        };
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let control = Self {
            client,
            queue,
            group,
            protocol: settings.protocol,
            commit: settings.commit,
            seats: Seats(seats.iter().map(own).collect()),
            assigned: BTreeMap::new(),
            joining: None,
            waiting: VecDeque::new(),
            revoking: None,
            gave_back: None,
            committed: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            failed: None,
            outcome: sender,
            tick,
        };
        (control, seats)
    }

    /// Subscribes, serves until every subscription is closed, leaves the group.
    pub(super) async fn run(mut self, deadline: Instant, ready: oneshot::Sender<Result<(), String>>) {
        let subscribed = self.subscribe(deadline).await;
        if let Err(reason) = &subscribed {
            self.fail(reason.clone());
        }
        let _ = ready.send(subscribed); // nobody waits any more: the subscriptions were dropped, and `serve` sees that
        let deadline = self.serve().await;
        let outcome = self.leave(deadline).await;
        let Self {
            client,
            queue,
            assigned,
            outcome: sender,
            seats,
            ..
        } = self;
        drop((queue, assigned));
        let destroyed = client.destroyed();
        drop(client);
        // Not part of the promise, and not worth an error: it runs on in the background when it takes longer.
        let _ = tokio::time::timeout_at(deadline.min(Instant::now() + DESTROY), destroyed).await;
        seats.0.iter().for_each(|seat| seat.inbox.close());
        sender.send_replace(Some(Arc::new(outcome)));
    }

    async fn subscribe(&mut self, deadline: Instant) -> Result<(), String> {
        let topics: Vec<_> = self
            .seats
            .0
            .iter()
            .map(|seat| seat.topic.native.clone())
            .collect();
        let subscribed = self
            .call("subscribe", deadline, move |client| client.subscribe(&topics))
            .await;
        match subscribed {
            Ok(Ok(())) => {
                self.joining = Some(Instant::now());
                Ok(())
            }
            Ok(Err(code)) => Err(format!("the subscription was refused: {code}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs until every subscription is to be closed and the partitions are dropped, or the time for that is over.
    /// Yields the deadline of the close.
    async fn serve(&mut self) -> Instant {
        let mut drain_until = None;
        loop {
            self.take_events();
            self.end_closed_seats();
            self.rebalance().await;
            if let Some(deadline) = self.group.deadline() {
                let until = *drain_until.get_or_insert_with(|| drain_end(deadline));
                if self.is_drained() || Instant::now() >= until {
                    return deadline;
                }
            }
            self.wait(drain_until).await;
        }
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self, drain_until: Option<Instant>) {
        let revoke_until = self.revoking.as_ref().map(|revoking| revoking.until);
        let until = [drain_until, revoke_until].into_iter().flatten().min();
        let deadline = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = poll_fn(|cx| self.queue.wake().poll_ready(cx)) => {}
            () = self.group.changed() => {}
            () = deadline => {}
            _ = self.tick.tick() => self.assigned.values().for_each(|assignment| assignment.tick()),
        }
    }

    /// Takes everything off the control queue.
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.queue.next() {
            match event {
                Event::Assign(partitions) => {
                    self.joining = None;
                    self.waiting.push_back(Rebalance::Assign(partitions));
                }
                Event::Revoke { partitions, lost } => {
                    self.waiting.push_back(Rebalance::Revoke { partitions, lost });
                }
                Event::Committed { code, partitions } => self.note_commit(code, &partitions),
                Event::Error {
                    code,
                    text,
                    fatal,
                    topic,
                } => self.note_error(code, &text, fatal, topic.as_deref()),
                Event::Other => {}
            }
        }
    }

    fn note_commit(&mut self, code: Code, partitions: &List) {
        for entry in partitions.iter() {
            let Some(key) = self.key(entry.topic, entry.partition) else {
                continue;
            };
            let failed = [code, entry.code].into_iter().find(|code| !code.is_ok());
            if let Some(code) = failed {
                let (topic, partition) = (entry.topic, entry.partition);
                tracing::warn!(topic, partition, offset = entry.offset, %code, "a position was not committed");
            } else if entry.offset >= 0 {
                self.committed.insert(key, entry.offset);
                if self
                    .unconfirmed
                    .get(&key)
                    .is_some_and(|last| *last <= entry.offset)
                {
                    self.unconfirmed.remove(&key);
                }
            }
        }
    }

    fn note_error(&mut self, code: Code, text: &str, fatal: bool, topic: Option<&str>) {
        let group = self.group.name();
        match code.known() {
            Some(E::GroupAuthorizationFailed) => {
                self.fail(format!(
                    "not allowed to join ({text}): grant this user `Read` on the group"
                ));
            }
            _ if fatal => {
                tracing::error!(group, %code, text, "the client has failed for good");
                self.fail(format!(
                    "the client failed for good ({text}): restart the service{}",
                    hint(code)
                ));
            }
            Some(E::TopicAuthorizationFailed) => {
                let reason = format!("not allowed to read ({text}): grant this user `Read` on the topic");
                match self
                    .seats
                    .0
                    .iter()
                    .find(|seat| Some(seat.topic.name.as_str()) == topic)
                {
                    Some(seat) => seat.inbox.fail(&reason),
                    None => self.fail(reason),
                }
            }
            Some(E::PollExceeded) => {
                tracing::error!(
                    group,
                    text,
                    "the control task was not run for too long, the group went on without it"
                );
            }
            _ => {
                tracing::warn!(group, %code, topic, text, "the client reports an error, it goes on by itself");
            }
        }
    }

    /// Ends everything: the client is of no use any more.
    pub(super) fn fail(&mut self, reason: String) {
        for assignment in self.assigned.values() {
            assignment.detach(); // first: who hears that it is lost must not be able to store
            assignment.end(End::Lost);
        }
        for seat in &self.seats.0 {
            seat.inbox.fail(&reason);
        }
        self.failed.get_or_insert(reason);
    }

    /// Ends the partitions of subscriptions that were closed or dropped.
    fn end_closed_seats(&mut self) {
        for (index, seat) in self.seats.0.iter_mut().enumerate() {
            if seat.closing || !self.group.is_closing(index) {
                continue;
            }
            seat.closing = true;
            seat.inbox.close();
            let own = self.assigned.iter().filter(|((seat, _), _)| *seat == index);
            own.for_each(|(_, assignment)| assignment.end(End::Closed));
        }
    }

    /// Whether no task holds a partition any more, and no rebalance is under way.
    fn is_drained(&self) -> bool {
        self.revoking.is_none() && self.assigned.values().all(|assignment| assignment.is_released())
    }

    pub(super) fn key(&self, topic: &str, partition: i32) -> Option<Key> {
        let seat = self.seats.0.iter().position(|seat| seat.topic.name == topic)?;
        Some((seat, partition))
    }

    /// Runs a call that blocks, until `deadline`.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        deadline: Instant,
        call: impl FnOnce(&Arc<Client>) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let client = Arc::clone(&self.client);
        blocking(name, deadline, move || call(&client)).await
    }
}

/// How long a close waits for its client to be destroyed.
const DESTROY: Duration = Duration::from_secs(1);

/// How much of the time for closing is kept for leaving the group, at most: a commit and a goodbye are two round trips.
const LEAVE: Duration = Duration::from_secs(2);

/// Until when partitions may drain, so that the group can be left before `deadline`.
fn drain_end(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    deadline - LEAVE.min(left / 4)
}

fn hint(code: Code) -> &'static str {
    match code.known() {
        Some(E::FencedInstanceId | E::Fenced | E::UnreleasedInstanceId) => {
            ", and see that no other process has the same `group.instance.id`"
        }
        _ => "",
    }
}

/// When the control task ends early (its runtime shuts down, or it panics), nobody waits for it in vain.
impl Drop for Seats {
    fn drop(&mut self) {
        for seat in &self.0 {
            seat.inbox.fail("the consumer ended before it was closed");
        }
    }
}
