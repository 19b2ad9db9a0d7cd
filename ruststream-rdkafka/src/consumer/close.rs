//! Leaving the group.
//!
//! What is under way comes to its end first: a join that has just begun, the commit of what was given back, and in an
//! eager group every rebalance that was asked for. An incremental member that holds nothing gives its subscription up. Then the close
//! begins, and what librdkafka asks is answered until it is closed: answered while closing, a revocation ends everything,
//! and then the goodbye is sent.
//!
//! Other orders do not work with librdkafka 2.12. It forgets the goodbye, and the group waits for the session timeout,
//! when a close meets a cooperative revocation that was answered and still commits, or a cooperative member that holds
//! nothing and is asked nothing. When it meets a question to an eager member, the goodbye comes first, and the commit
//! after it is refused.
//!
//! Once a group has terminated, a call that needs it is never answered (librdkafka's issue 4884). It cannot terminate
//! while it waits for an answer, so an event may be answered unless a later one has replaced it; which of the two it is
//! cannot be seen from here. So the latest event is answered for all, answers race against the end of the close, and
//! every call has the deadline.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ruststream::broker::{Committed, End};
use tokio::time::{Instant, sleep, sleep_until};

use super::control::Control;
use super::rebalance::Rebalance;
use crate::config::Protocol;
use crate::native::Client;

/// How long a join takes to be answered, at most: a few round trips. Only what is closed within this time of its start
/// waits for it.
const JOIN: Duration = Duration::from_secs(1);

/// How often to ask whether the consumer is closed: the end makes no event, so its edge may come a moment too early.
const CLOSED: Duration = Duration::from_millis(10);

/// How long the commit of partitions that were given back is waited for: one round trip.
const COMMIT: Duration = Duration::from_secs(1);

/// How long an answered revocation takes to come to its end when there is nothing to commit: the partition's fetcher has
/// to stop, which takes milliseconds.
const SETTLE: Duration = Duration::from_millis(100);

impl Control {
    /// Leaves the group by `deadline`, and says which positions the broker confirmed.
    pub(super) async fn leave(&mut self, deadline: Instant) -> Result<Vec<Committed>, String> {
        self.finish_joining(deadline).await;
        // Its partitions were not dropped in time: the answer cannot wait any longer.
        if let Some(revoking) = self.revoking.take() {
            self.give_back(revoking, deadline).await;
        }
        self.finish_giving_back(deadline).await;
        let held: Vec<_> = self
            .assigned
            .iter()
            .map(|(key, held)| (*key, Arc::clone(held)))
            .collect();
        for (_, assignment) in &held {
            assignment.end(End::Closed);
            assignment.detach();
        }
        if let Some(reason) = &self.failed {
            return Err(format!("{reason}; positions may not be committed"));
        }
        let held_any = !held.is_empty();
        for (key, assignment) in held {
            self.abandon(key, &assignment);
        }
        let left = self.try_leave(held_any, deadline).await;
        self.take_events(); // the result of the last commit
        if let Err(reason) = left {
            return Err(format!(
                "the group was not left in order ({reason}); positions may not be committed"
            ));
        }
        if !self.unconfirmed.is_empty() {
            let names: Vec<String> = self.unconfirmed.keys().map(|key| self.name(*key)).collect();
            return Err(format!(
                "the last positions of {} were not confirmed",
                names.join(", ")
            ));
        }
        Ok(self
            .committed
            .iter()
            .filter_map(|(key, offset)| self.position(*key, *offset))
            .collect())
    }

    /// Lets a join that has just begun come to its end.
    ///
    /// A client that gives up while the answer to its join is on the way believes that it is no member and says no
    /// goodbye; the broker has made it one, and keeps its partitions for the whole session timeout.
    async fn finish_joining(&mut self, deadline: Instant) {
        let Some(since) = self.joining.filter(|_| self.failed.is_none()) else {
            return;
        };
        let until = half_way(deadline).min(since + JOIN);
        if let Some(rebalance) = self.next_rebalance(until).await {
            self.waiting.push_front(rebalance);
        }
    }

    /// Lets the rebalances that are under way come to their end, for half of the time that is left.
    ///
    /// The end of a revocation shows in the next question, or in the result of its commit; nothing shows it when there
    /// was nothing to commit and no question follows.
    async fn finish_giving_back(&mut self, deadline: Instant) {
        let patience = half_way(deadline);
        while self.failed.is_none() && Instant::now() < patience {
            self.take_events();
            match (self.protocol, self.waiting.pop_front()) {
                // To be answered while closing.
                (Protocol::Incremental, Some(rebalance)) => return self.waiting.push_front(rebalance),
                (Protocol::Eager, Some(Rebalance::Assign(partitions))) => {
                    self.assign(partitions, deadline).await;
                }
                (Protocol::Eager, Some(Rebalance::Revoke { partitions, lost })) => {
                    self.revoke(partitions, lost);
                    if let Some(revoking) = self.revoking.take() {
                        self.give_back(revoking, deadline).await;
                    }
                }
                (_, None) => {
                    let wait = if self.unconfirmed.is_empty() {
                        SETTLE
                    } else {
                        COMMIT
                    };
                    match self.gave_back.map(|answered| patience.min(answered + wait)) {
                        Some(until) if Instant::now() < until => self.event_until(until).await,
                        _ => return,
                    }
                }
            }
        }
    }

    /// Gives the subscription up, and with it the membership: only for a member that holds nothing and is asked nothing.
    ///
    /// While a rebalance is under way librdkafka puts it off; then the rebalance's question is waited for, to be answered
    /// while closing.
    async fn unsubscribe(&mut self, deadline: Instant) -> Result<(), String> {
        let unsubscribe = |client: &Arc<Client>| client.unsubscribe().and_then(|()| client.is_subscribed());
        let put_off = self
            .call("unsubscribe", deadline, unsubscribe)
            .await
            .map_err(|error| error.to_string())?
            .map_err(|code| format!("refused: {code}"))?;
        if put_off && let Some(rebalance) = self.next_rebalance(half_way(deadline)).await {
            self.waiting.push_front(rebalance);
        }
        Ok(())
    }

    async fn try_leave(&mut self, held: bool, deadline: Instant) -> Result<(), String> {
        if !held && self.waiting.is_empty() && matches!(self.protocol, Protocol::Incremental) {
            self.unsubscribe(deadline).await?;
        }
        self.queue
            .close()
            .map_err(|(_, text)| format!("refused: {text}"))?;
        if !self.waiting.is_empty() {
            // What the close asks replaces what was asked before it.
            self.event_until(deadline.min(Instant::now() + CLOSED)).await;
        }
        loop {
            self.take_events();
            if self.client.is_closed() {
                self.client.set_left();
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err("the deadline passed, is the broker down?".to_owned());
            }
            let latest = self.waiting.pop_back();
            self.waiting.clear();
            match latest {
                Some(rebalance) => {
                    let client = Arc::clone(&self.client);
                    tokio::select! {
                        answered = self.answer(deadline, rebalance) => answered?,
                        () = closed(&client) => {}
                    }
                }
                None => self.event_until(deadline.min(Instant::now() + CLOSED)).await,
            }
        }
    }

    /// Answers as asked; while closing, librdkafka takes every answer for "nothing is assigned any more".
    async fn answer(&mut self, deadline: Instant, rebalance: Rebalance) -> Result<(), String> {
        let protocol = self.protocol;
        let answer = move |client: &Arc<Client>| rebalance.answer(client, protocol);
        match self.call("answer", deadline, answer).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err((_, text))) => {
                tracing::warn!(
                    group = self.group.name(),
                    text,
                    "an answer was refused while closing"
                );
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next rebalance that librdkafka asks for, if it does before `until`.
    async fn next_rebalance(&mut self, until: Instant) -> Option<Rebalance> {
        loop {
            self.take_events();
            if let Some(rebalance) = self.waiting.pop_front() {
                return Some(rebalance);
            }
            if Instant::now() >= until {
                return None;
            }
            self.event_until(until).await;
        }
    }

    async fn event_until(&self, until: Instant) {
        tokio::select! {
            () = poll_fn(|cx| self.queue.wake().poll_ready(cx)) => {}
            () = sleep_until(until) => {}
        }
    }

    fn position(&self, (seat, partition): (usize, i32), offset: i64) -> Option<Committed> {
        Some(Committed::new(
            &self.seats.0.get(seat)?.topic.name,
            partition,
            offset,
        ))
    }

    fn name(&self, (seat, partition): (usize, i32)) -> String {
        let topic = self
            .seats
            .0
            .get(seat)
            .map_or("?", |seat| seat.topic.name.as_str());
        format!("{topic}/{partition}")
    }
}

/// Half of the time that is left: the other half is for the goodbye.
fn half_way(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + deadline.saturating_duration_since(now) / 2
}

/// Waits until `client` is closed.
async fn closed(client: &Client) {
    while !client.is_closed() {
        sleep(CLOSED).await;
    }
}
