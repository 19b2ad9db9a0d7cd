//! Leaving the group.
//!
//! The order is the one that says goodbye and does not hang. A member that holds partitions begins to close, and answers
//! the revocation that follows: answered while closing, it ends everything, and then the goodbye is sent. Answered just
//! before (after an `unsubscribe`, say), a cooperative one is still committing when the close begins, and librdkafka 2.12
//! then forgets the goodbye: the group waits for the session timeout. It forgets that of a member that holds nothing, too,
//! unless that gives its subscription up first; no event follows then.
//!
//! Once a group has
//! terminated, a call that needs it is never answered (librdkafka's issue 4884): at most one event is answered while
//! closing, and every call has the deadline.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ruststream::broker::{Committed, End};
use tokio::time::{Instant, sleep_until};

use super::control::Control;
use super::rebalance::Rebalance;
use crate::native::Client;

/// How often to ask whether the consumer is closed: the end makes no event, so its edge may come a moment too early.
const CLOSED: Duration = Duration::from_millis(10);

/// How long the commit of partitions that were given back is waited for: one round trip.
const COMMIT: Duration = Duration::from_secs(1);

/// How long an answered revocation takes to come to its end: the partition's fetcher has to stop, which takes
/// milliseconds.
const SETTLE: Duration = Duration::from_millis(100);

impl Control {
    /// Leaves the group by `deadline`, and says which positions the broker confirmed.
    pub(super) async fn leave(&mut self, deadline: Instant) -> Result<Vec<Committed>, String> {
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
        let holds = !held.is_empty();
        for (key, assignment) in held {
            self.abandon(key, &assignment);
        }
        let left = self.try_leave(holds, deadline).await;
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

    /// Lets the answer to a revocation come to its end: when a close begins meanwhile, librdkafka forgets the goodbye, and
    /// when it begins before the answer, an eager member says goodbye first, and its commit is refused.
    ///
    /// The end shows in the result of the commit; nothing shows it when there was nothing to commit.
    async fn finish_giving_back(&mut self, deadline: Instant) {
        let Some(answered) = self.gave_back else { return };
        let left = deadline.saturating_duration_since(Instant::now());
        let until = Instant::now() + COMMIT.min(left / 2);
        let settled = until.min(answered + SETTLE);
        loop {
            self.take_events();
            let next = if self.unconfirmed.is_empty() {
                settled
            } else {
                until
            };
            if Instant::now() >= next {
                return;
            }
            self.event_until(next).await;
        }
    }

    async fn try_leave(&mut self, holds: bool, deadline: Instant) -> Result<(), String> {
        if !holds {
            let unsubscribed = self
                .call("unsubscribe", deadline, |client| client.unsubscribe())
                .await;
            let unsubscribed = unsubscribed.map_err(|error| error.to_string())?;
            unsubscribed.map_err(|code| format!("refused: {code}"))?;
        }
        self.queue
            .close()
            .map_err(|(_, text)| format!("refused: {text}"))?;
        let mut answered = false;
        loop {
            self.take_events();
            if self.client.is_closed() {
                self.client.set_left();
                return Ok(());
            }
            // While closing, every answer counts as "nothing is assigned any more".
            if let Some(rebalance) = self.waiting.pop_front()
                && !answered
            {
                answered = true;
                self.answer(deadline, rebalance).await?;
            }
            if Instant::now() >= deadline {
                return Err("the deadline passed, is the broker down?".to_owned());
            }
            self.event_until(deadline.min(Instant::now() + CLOSED)).await;
        }
    }

    async fn answer(&mut self, deadline: Instant, rebalance: Rebalance) -> Result<(), String> {
        let protocol = self.protocol;
        let answer = move |client: &Arc<Client>| rebalance.answer(client, protocol);
        let answered = self
            .call("unassign", deadline, answer)
            .await
            .map_err(|error| error.to_string())?;
        answered.map_err(|(_, text)| format!("refused: {text}"))
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
