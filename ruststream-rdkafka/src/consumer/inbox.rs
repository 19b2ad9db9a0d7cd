//! Partitions on their way from the control task to a subscription.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::KafkaPartition;
use super::assignment::Assignment;

/// Holds the partitions that were assigned and not accepted yet: at most as many as are assigned.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<KafkaPartition>,
    end: Option<Ended>,
}

/// Why no more partitions come.
#[derive(Clone)]
enum Ended {
    Closed,
    Failed(String),
}

impl Inbox {
    /// Hands a partition over; after the end it is dropped, which gives it back.
    pub(super) fn push(&self, partition: KafkaPartition) {
        let mut state = self.state();
        if state.end.is_none() {
            state.waiting.push_back(partition);
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Waits for the next partition; `None` when there will be no more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a partition is taken in the step that returns it.
    pub(super) async fn next(&self) -> Result<Option<KafkaPartition>, String> {
        loop {
            {
                let mut state = self.state();
                match &state.end {
                    Some(Ended::Failed(reason)) => return Err(reason.clone()),
                    Some(Ended::Closed) => return Ok(None),
                    None => {}
                }
                if let Some(partition) = state.waiting.pop_front() {
                    return Ok(Some(partition));
                }
            }
            self.arrived.notified().await;
        }
    }

    /// Drops the partition of `assignment`, if nobody has accepted it yet.
    pub(super) fn retract(&self, assignment: &Arc<Assignment>) {
        let mut state = self.state();
        let at = state
            .waiting
            .iter()
            .position(|partition| partition.is(assignment));
        let retracted = at.and_then(|at| state.waiting.remove(at));
        drop(state);
        drop(retracted); // not under the lock: dropping it notifies the control task
    }

    pub(super) fn close(&self) {
        self.end(Ended::Closed);
    }

    pub(super) fn fail(&self, reason: &str) {
        self.end(Ended::Failed(reason.to_owned()));
    }

    fn end(&self, end: Ended) {
        let mut state = self.state();
        state.end.get_or_insert(end);
        let dropped = std::mem::take(&mut state.waiting);
        drop(state);
        drop(dropped);
        self.arrived.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
