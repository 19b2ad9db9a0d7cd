//! A stranger's broker: a `Vec` behind the contract, from public items only, that passes the contract suite.
//!
//! The broker itself is what stands between the two rulers; a test counts its lines.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use ruststream::testing::contract::{Fixture, TestRecord, contract_suite};

// ---- the broker begins ----
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use ruststream::broker::{Broker, Committed, Delivery, End, NoPublisher, Partition};
use ruststream::broker::{StoreError, SubscribeRequest, Subscription};
use ruststream::{Error, ErrorKind, Headers, Problem};
use tokio::{sync::watch, time::Instant, time::timeout_at};

/// Group, topic and partition.
type Slot = (String, String, i32);

#[derive(Clone, Default)]
struct VecBroker(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// All topics and partitions together: an offset is an index, so every partition has gaps.
    log: Vec<VecDelivery>,
    topics: BTreeMap<String, i32>,
    positions: BTreeMap<Slot, i64>,
    waiting: Vec<Waker>,
}

fn wake(broker: &VecBroker) {
    let waiting = std::mem::take(&mut broker.0.lock().unwrap().waiting);
    waiting.into_iter().for_each(Waker::wake);
}

impl Broker for VecBroker {
    type Subscription = VecSubscription;
    type Publisher = NoPublisher;

    fn describe(&self) -> String {
        "a Vec".to_owned()
    }

    async fn subscribe(&self, requests: Vec<SubscribeRequest>) -> Result<Vec<VecSubscription>, Vec<Problem>> {
        let (mut subscriptions, mut problems, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
        let state = self.0.lock().unwrap();
        for SubscribeRequest { topic, group, .. } in requests {
            let Some(partitions) = state.topics.get(&topic) else {
                problems.push(Problem::new(topic, "the topic does not exist: create it"));
                continue;
            };
            if !taken.insert((group.clone(), topic.clone())) {
                problems.push(Problem::new(&topic, "the group has it already: use another one"));
            }
            let slot = |index| (group.clone(), topic.clone(), index);
            subscriptions.push(VecSubscription {
                broker: self.clone(),
                unaccepted: (0..*partitions).map(slot).collect(),
                life: watch::Sender::default(),
            });
        }
        problems.is_empty().then_some(subscriptions).ok_or(problems)
    }
}

/// How the partitions of a subscription ended, and what they stored.
type Life = (Option<End>, Mutex<BTreeMap<i32, Committed>>);

struct VecSubscription {
    broker: VecBroker,
    unaccepted: Vec<Slot>,
    /// Each of its partitions has a receiver.
    life: watch::Sender<Life>,
}

impl Subscription for VecSubscription {
    type Partition = VecPartition;

    async fn accept(&mut self) -> Result<Option<VecPartition>, Error> {
        let Some(slot) = self.unaccepted.pop() else {
            return std::future::pending().await;
        };
        let position = self.broker.0.lock().unwrap().positions.get(&slot).copied();
        Ok(Some(VecPartition {
            broker: self.broker.clone(),
            slot,
            next: position.unwrap_or(0),
            life: self.life.subscribe(),
        }))
    }

    async fn close(self, deadline: Instant) -> Result<Vec<Committed>, Error> {
        self.life.send_modify(|life| life.0 = Some(End::Closed));
        wake(&self.broker);
        let dropped = timeout_at(deadline, self.life.closed()).await;
        let life = self.life.send_replace((Some(End::Lost), Mutex::default()));
        dropped.map_err(|_| Error::new(ErrorKind::Deadline, "a partition was not dropped in time"))?;
        Ok(life.1.into_inner().unwrap().into_values().collect())
    }
}

struct VecPartition {
    broker: VecBroker,
    slot: Slot,
    next: i64,
    life: watch::Receiver<Life>,
}

impl Partition for VecPartition {
    type Delivery = VecDelivery;

    fn topic(&self) -> &str {
        &self.slot.1
    }

    fn index(&self) -> i32 {
        self.slot.2
    }

    fn group(&self) -> &str {
        &self.slot.0
    }

    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        batch: &mut VecDeque<VecDelivery>,
    ) -> Poll<Result<(), Error>> {
        let mut state = self.broker.0.lock().unwrap();
        let unread = state.log.iter().skip(self.next as usize);
        let mine = unread.filter(|d| d.topic() == self.slot.1 && d.partition() == self.slot.2);
        let found: Vec<_> = mine.take(max).cloned().collect();
        let Some(last) = found.last() else {
            state.waiting.push(cx.waker().clone());
            return Poll::Pending;
        };
        self.next = last.offset() + 1;
        batch.extend(found);
        Poll::Ready(Ok(()))
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.broker.0.lock().unwrap().waiting.push(cx.waker().clone());
        self.life.borrow().0.map_or(Poll::Pending, Poll::Ready)
    }

    fn store(&mut self, position: i64) -> Result<(), StoreError> {
        let life = self.life.borrow();
        (life.0 != Some(End::Lost)).then_some(()).ok_or(StoreError)?;
        let committed = Committed::new(&self.slot.1, self.slot.2, position);
        life.1.lock().unwrap().insert(self.slot.2, committed);
        let mut state = self.broker.0.lock().unwrap();
        state.positions.insert(self.slot.clone(), position);
        Ok(())
    }
}

#[derive(Clone)]
struct VecDelivery(i64, Arc<TestRecord>);

impl Delivery for VecDelivery {
    fn topic(&self) -> &str {
        &self.1.topic
    }

    fn partition(&self) -> i32 {
        self.1.partition
    }

    fn offset(&self) -> i64 {
        self.0
    }

    fn key(&self) -> Option<&[u8]> {
        self.1.key.as_deref()
    }

    fn payload(&self) -> Option<&[u8]> {
        self.1.payload.as_deref()
    }

    fn headers(&self) -> Headers<'_> {
        let pairs = self.1.headers.iter();
        let lent = pairs.map(|(name, value)| (name.as_str(), value.as_deref()));
        lent.collect()
    }
}
// ---- the broker ends ----

impl Fixture for VecBroker {
    type Broker = Self;

    async fn broker(&self) -> Self {
        self.clone()
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        self.0.lock().unwrap().topics.insert(topic.to_owned(), partitions);
    }

    async fn publish(&self, record: TestRecord) {
        let mut state = self.0.lock().unwrap();
        let offset = state.log.len() as i64;
        state.log.push(VecDelivery(offset, Arc::new(record)));
        drop(state);
        wake(self);
    }

    /// Every subscription gets every partition: a group has one member.
    fn rebalances(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_broker_over_a_vec_keeps_the_contract() {
    contract_suite(&VecBroker::default()).await;
}

#[test]
fn a_broker_over_a_vec_takes_at_most_150_lines_of_code() {
    let lines = include_str!("vec_broker.rs").lines().map(str::trim);
    let broker = lines.skip_while(|line| !line.ends_with("begins ----"));
    let broker = broker.take_while(|line| !line.ends_with("ends ----"));
    let count = broker
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count();
    assert!((100..=150).contains(&count), "{count} lines");
}
