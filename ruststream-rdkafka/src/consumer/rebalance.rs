//! Answering rebalances.
//!
//! librdkafka asks with an event and waits for a call; it asks nothing else before it was answered. One rebalance is
//! served after another, and what a revocation does when its time comes concerns the [`Assignment`] values that it
//! began with: a partition that comes straight back is another value, so a late step never touches it.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use ruststream::broker::End;
use tokio::time::Instant;

use super::assignment::Assignment;
use super::control::{CALL, Control, Key};
use super::partition::KafkaPartition;
use crate::config::Protocol;
use crate::native::{Client, List, PartitionQueue, Refusal};

/// What librdkafka asks for.
pub(super) enum Rebalance {
    Assign(List),
    Revoke { partitions: List, lost: bool },
}

impl Rebalance {
    /// Gives librdkafka its answer. Blocks; for ever once the group has terminated.
    pub(super) fn answer(&self, client: &Client, protocol: Protocol) -> Result<(), Refusal> {
        match (self, protocol) {
            (Self::Assign(partitions), Protocol::Eager) => client.assign(partitions),
            (Self::Assign(partitions), Protocol::Incremental) => client.assign_more(partitions),
            (Self::Revoke { .. }, Protocol::Eager) => client.unassign_all(),
            (Self::Revoke { partitions, .. }, Protocol::Incremental) => client.unassign(partitions),
        }
    }
}

/// The queues that were split off for an assignment.
type Queues = Vec<(Key, Option<PartitionQueue>)>;

/// A partition that is being revoked.
type Part = (Key, Arc<Assignment>);

/// A revocation whose partitions drain.
pub(super) struct Revoking {
    /// What the answer names.
    asked: Rebalance,
    parts: Vec<Part>,
    /// After this, partitions that are still held are abandoned.
    pub(super) until: Instant,
    lost: bool,
}

/// How much longer than its drain timeout a partition is waited for: its task cancels what is left, stores, drops.
const GRACE: Duration = Duration::from_secs(1);

impl Revoking {
    fn is_over(&self) -> bool {
        self.parts.iter().all(|(_, assignment)| assignment.is_released()) || Instant::now() >= self.until
    }

    /// The partitions are gone already: nothing of what is still stored would be true.
    fn lose(&mut self) {
        self.lost = true;
        self.until = self.until.min(Instant::now() + GRACE);
        for (_, assignment) in &self.parts {
            assignment.detach(); // first: who hears that it is lost must not be able to store
            assignment.end(End::Lost);
        }
    }
}

impl Control {
    /// Serves what can be served now. Returns while a revocation drains.
    pub(super) async fn rebalance(&mut self) {
        loop {
            if let Some(mut revoking) = self.revoking.take() {
                if !revoking.lost && self.client.assignment_lost() {
                    revoking.lose();
                }
                if !revoking.is_over() {
                    self.revoking = Some(revoking);
                    return;
                }
                self.give_back(revoking, Instant::now() + CALL).await;
            } else {
                match self.waiting.pop_front() {
                    Some(Rebalance::Assign(partitions)) => {
                        self.assign(partitions, Instant::now() + CALL).await;
                    }
                    Some(Rebalance::Revoke { partitions, lost }) => self.revoke(partitions, lost),
                    None => return,
                }
            }
        }
    }

    /// Splits the partitions' queues off, answers, and hands the partitions out. An empty list is answered, too.
    pub(super) async fn assign(&mut self, partitions: List, deadline: Instant) {
        self.gave_back = None; // librdkafka asks this after the last revocation has come to its end
        let wanted: Vec<(Key, CString)> = partitions
            .iter()
            .filter_map(|entry| {
                let key = self.key(entry.topic, entry.partition)?;
                Some((key, self.seats.0.get(key.0)?.topic.native.clone()))
            })
            .collect();
        let protocol = self.protocol;
        let answer = move |client: &Arc<Client>| {
            // Before the answer: fetching starts with it, and records must find their queue.
            let queues: Queues = wanted
                .into_iter()
                .map(|(key, topic)| (key, PartitionQueue::new(client, &topic, key.1)))
                .collect();
            Rebalance::Assign(partitions)
                .answer(client, protocol)
                .map(|()| queues)
        };
        let queues = match self.call("assign", deadline, answer).await {
            Ok(Ok(queues)) => queues,
            Ok(Err((_, text))) => return self.fail(format!("an assignment was refused: {text}")),
            Err(error) => return self.fail(error.to_string()),
        };
        for (key, queue) in queues {
            match queue {
                Some(queue) => self.hand_out(key, queue),
                None => self.fail("librdkafka has no queue for an assigned partition".to_owned()),
            }
        }
    }

    fn hand_out(&mut self, key: Key, queue: PartitionQueue) {
        let Some(seat) = self.seats.0.get(key.0) else {
            return;
        };
        let assignment = Arc::new(Assignment::new(
            Arc::clone(&seat.topic),
            key.1,
            queue,
            Arc::clone(&self.group),
        ));
        tracing::debug!(
            group = self.group.name(),
            topic = seat.topic.name,
            partition = key.1,
            "assigned"
        );
        seat.inbox
            .push(KafkaPartition::new(Arc::clone(&assignment), self.commit));
        if let Some(previous) = self.assigned.insert(key, assignment) {
            previous.end(End::Lost);
            previous.detach();
        }
    }

    /// Ends the revoked partitions, and no others.
    pub(super) fn revoke(&mut self, partitions: List, lost: bool) {
        let keys: Vec<Key> = match self.protocol {
            Protocol::Eager => self.assigned.keys().copied().collect(),
            Protocol::Incremental => {
                let named = partitions.iter();
                named
                    .filter_map(|entry| self.key(entry.topic, entry.partition))
                    .collect()
            }
        };
        let held = |key: Key| Some((key, Arc::clone(self.assigned.get(&key)?)));
        let parts: Vec<_> = keys.into_iter().filter_map(held).collect();
        for ((seat, _), assignment) in &parts {
            if let Some(seat) = self.seats.0.get(*seat) {
                seat.inbox.retract(assignment);
            }
        }
        let drain = parts
            .iter()
            .map(|(_, assignment)| assignment.topic().drain_timeout)
            .max();
        let until = Instant::now() + drain.unwrap_or_default() + GRACE;
        let asked = Rebalance::Revoke { partitions, lost };
        let mut revoking = Revoking {
            asked,
            parts,
            until,
            lost,
        };
        if lost {
            revoking.lose();
        } else {
            revoking
                .parts
                .iter()
                .for_each(|(_, assignment)| assignment.end(End::Revoked));
        }
        tracing::debug!(
            group = self.group.name(),
            partitions = revoking.parts.len(),
            lost,
            "revoked"
        );
        self.revoking = Some(revoking);
    }

    /// Takes what is left from its holders, and answers.
    pub(super) async fn give_back(&mut self, revoking: Revoking, deadline: Instant) {
        for (key, assignment) in &revoking.parts {
            self.abandon(*key, assignment);
            if revoking.lost {
                self.unconfirmed.remove(key);
            }
        }
        self.gave_back = Some(Instant::now());
        let protocol = self.protocol;
        let answer = move |client: &Arc<Client>| revoking.asked.answer(client, protocol);
        match self.call("unassign", deadline, answer).await {
            Ok(Ok(())) => {}
            Ok(Err((_, text))) => self.fail(format!("a revocation was refused: {text}")),
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Ends an assignment, whoever still holds it; its stored position is committed by the answer.
    pub(super) fn abandon(&mut self, key: Key, assignment: &Arc<Assignment>) {
        assignment.detach();
        if !assignment.is_released() {
            let (topic, partition) = (&assignment.topic().name, key.1);
            tracing::warn!(
                topic,
                partition,
                "a partition was not dropped in time: what its handler does is not stored"
            );
        }
        if self
            .assigned
            .get(&key)
            .is_some_and(|current| Arc::ptr_eq(current, assignment))
        {
            self.assigned.remove(&key);
        }
        if let Some(last) = assignment.stored()
            && self.committed.get(&key).is_none_or(|committed| *committed < last)
        {
            self.unconfirmed.insert(key, last);
        }
    }
}
