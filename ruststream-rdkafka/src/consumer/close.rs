//! Leaving the group.
//!
//! The order is the one that does not hang: give the subscription up; if partitions are held, answer the revocation
//! that follows (a member that holds none gets no event); begin to close; answer what still comes until closed.
//!
//! Once a group has terminated, a call that needs it is never answered (librdkafka's issue 4884). It cannot terminate
//! while it waits for an answer, so an event may be answered unless a later one has replaced it; which of the two it is
//! cannot be seen from here. So answers race against the end of the close, and every call has the deadline.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ruststream::broker::{Committed, End};
use tokio::time::{Instant, sleep, sleep_until};

use super::control::Control;
use super::rebalance::Rebalance;
use crate::native::Client;

/// How long the revocation after `unsubscribe` is waited for, or half of the time that is left. It is enqueued before
/// `unsubscribe` returns, unless a rebalance is under way; then it may come with the next heartbeat only, and to begin
/// the close makes it come at once.
const REVOCATION: Duration = Duration::from_secs(1);

/// How long a join takes to be answered, at most: a few round trips. Only what is closed within this time of its start
/// waits for it.
const JOIN: Duration = Duration::from_secs(1);

/// How often to ask whether the consumer is closed: the end makes no event, so its edge may come a moment too early.
const CLOSED: Duration = Duration::from_millis(10);

impl Control {
    /// Leaves the group by `deadline`, and says which positions the broker confirmed.
    pub(super) async fn leave(&mut self, deadline: Instant) -> Result<Vec<Committed>, String> {
        self.finish_joining(deadline).await;
        // Its partitions were not dropped in time: the answer cannot wait any longer.
        if let Some(revoking) = self.revoking.take() {
            self.give_back(revoking, deadline).await;
        }
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
        let left = deadline.saturating_duration_since(Instant::now());
        let until = (since + JOIN).min(Instant::now() + left / 2);
        match self.next_rebalance(until).await {
            Some(Rebalance::Assign(partitions)) => self.assign(partitions).await,
            Some(revoke) => self.waiting.push_front(revoke),
            None => {}
        }
    }

    async fn try_leave(&mut self, held: bool, deadline: Instant) -> Result<(), String> {
        let refused = |text| format!("refused: {text}");
        let unsubscribed = self
            .call("unsubscribe", deadline, |client| client.unsubscribe())
            .await;
        unsubscribed
            .map_err(|error| error.to_string())?
            .map_err(|code| refused(code.to_string()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = Instant::now() + REVOCATION.min(left / 2);
        let mut answered = !held;
        while !answered {
            let Some(rebalance) = self.next_rebalance(patience).await else {
                break;
            };
            // An assignment was under way when the subscription was given up; its revocation follows.
            answered = matches!(rebalance, Rebalance::Revoke { .. });
            self.answer(deadline, rebalance).await?;
        }
        self.queue.close().map_err(|(_, text)| refused(text))?;
        loop {
            self.take_events();
            if self.client.is_closed() {
                self.client.set_left();
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err("the deadline passed, is the broker down?".to_owned());
            }
            match self.waiting.pop_front() {
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

/// Waits until `client` is closed.
async fn closed(client: &Client) {
    while !client.is_closed() {
        sleep(CLOSED).await;
    }
}
