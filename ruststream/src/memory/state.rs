//! Everything a memory broker knows, under one lock that is never held across an await or a wake-up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tokio::time::Instant;

use super::group::Group;
use super::log::Topic;
use super::publisher::Confirmations;
use crate::{Error, ErrorKind};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TopicPartition {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
}

impl TopicPartition {
    pub(super) fn new(topic: &Arc<str>, partition: i32) -> Self {
        Self {
            topic: topic.clone(),
            partition,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) topics: BTreeMap<Arc<str>, Topic>,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    /// Of topics whose confirmations a test holds or refuses.
    pub(super) confirmations: BTreeMap<String, Confirmations>,
    /// Tests that wait for a condition: woken by every change.
    pub(super) watchers: Vec<Waker>,
}

/// Whom to wake once the lock is free.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    due: Vec<Waker>,
    changed: bool,
}

impl Shared {
    /// Runs `change` under the lock, and wakes afterwards.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State, &mut Wakers) -> T) -> T {
        let mut wakers = Wakers::default();
        let value = {
            // A panic in here can only be a failed allocation: the state is whole.
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let value = change(&mut state, &mut wakers);
            if wakers.changed {
                wakers.all(&mut state.watchers);
            }
            value
        };
        wakers.due.into_iter().for_each(Waker::wake);
        value
    }

    /// Like [`with`](Self::with), for one group, with the deadlines that passed accounted for.
    pub(super) fn with_group<T>(
        &self,
        name: &Arc<str>,
        change: impl FnOnce(&mut Group, &mut Wakers) -> T,
    ) -> T {
        self.with(|state, wakers| {
            let group = state.groups.entry(name.clone()).or_default();
            group.expire(Instant::now(), wakers);
            change(group, wakers)
        })
    }
}

impl State {
    /// The topic, created now if the broker creates topics on first use.
    pub(super) fn topic(&mut self, name: &str, auto_create: Option<i32>) -> Result<&mut Topic, Error> {
        if let Some(partitions) = auto_create.filter(|_| !self.topics.contains_key(name)) {
            self.create(name, partitions);
        }
        self.topics.get_mut(name).ok_or_else(|| {
            let text =
                format!("topic {name} does not exist: create it with `create_topic`, or use `auto_create`");
            Error::new(ErrorKind::Broker, text)
        })
    }

    /// What a test has done to the confirmations of a topic.
    pub(super) fn confirmations(&mut self, topic: &str) -> &mut Confirmations {
        if !self.confirmations.contains_key(topic) {
            self.confirmations
                .insert(topic.to_owned(), Confirmations::default());
        }
        self.confirmations
            .get_mut(topic)
            .expect("it was made a line above")
    }

    pub(super) fn create(&mut self, name: &str, partitions: i32) {
        let name: Arc<str> = name.into();
        self.topics.insert(name.clone(), Topic::new(name, partitions));
    }

    /// When the next drain deadline of any group passes.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.groups.values().filter_map(Group::next_deadline).min()
    }
}

impl Wakers {
    pub(super) fn one(&mut self, waker: &mut Option<Waker>) {
        self.due.extend(waker.take());
    }

    pub(super) fn all(&mut self, wakers: &mut Vec<Waker>) {
        self.due.append(wakers);
    }

    /// Has the watchers woken too.
    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }
}

/// Adds `waker` unless it is there already.
pub(super) fn keep(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|kept| kept.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}
