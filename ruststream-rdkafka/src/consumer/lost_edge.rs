//! An edge that gets lost costs a second, and what heals it leaves idle partitions alone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use ruststream::broker::{Broker, Delivery, Partition, SubscribeRequest, Subscription};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::KafkaPartition;
use crate::KafkaBroker;
use crate::native::KafkaDelivery;

const TOPIC: &str = "orders";

/// How long the test waits for something that must happen: generous, because machines that run tests are slow.
const SOON: Duration = Duration::from_secs(20);

/// How long healing may take: the tick comes once a second, and a slow machine is late.
const HEALED: Duration = Duration::from_secs(5);

/// How many edges are lost one after another. Each takes a tick of its own to heal.
const EDGES: i64 = 3;

#[tokio::test]
async fn a_lost_edge_heals_at_the_next_tick_and_idle_partitions_sleep_on() {
    let broker = KafkaBroker::embedded();
    broker.create_topic(TOPIC, 2).await.unwrap();
    let requests = vec![SubscribeRequest::new("bill", TOPIC, "billing")];
    let mut subscription = broker.subscribe(requests).await.unwrap().pop().unwrap();
    let mut partitions = [accept(&mut subscription).await, accept(&mut subscription).await];
    partitions.sort_by_key(Partition::index);
    let [mut busy, mut idle] = partitions;
    let producer = producer(&broker);
    // Both are being fetched before anything is counted.
    produce(&producer, 0);
    produce(&producer, 1);
    assert_eq!(next(&mut busy).await.offset(), 0);
    assert_eq!(next(&mut idle).await.offset(), 0);
    let unwanted = Arc::default();
    assert!(poll(&mut idle, &unwanted).is_pending());

    for offset in 1..=EDGES {
        assert!(poll(&mut busy, &Arc::default()).is_pending());
        produce(&producer, 0);
        lose_edge(&busy).await;
        // The record is there, and the partition does not know.
        let calls = Arc::default();
        assert!(poll(&mut busy, &calls).is_pending());
        let lost = Instant::now();
        timeout(HEALED, calls.called())
            .await
            .expect("a wake-up by the tick");
        eprintln!("healed after {:?}", lost.elapsed());
        let Poll::Ready(records) = poll(&mut busy, &calls) else {
            panic!("woken for nothing");
        };
        assert_eq!(records.iter().map(Delivery::offset).collect::<Vec<_>>(), [offset]);
    }

    assert_eq!(unwanted.count.load(Ordering::Acquire), 0);
    drop((busy, idle));
    subscription.close(Instant::now() + SOON).await.unwrap();
}

/// Waits for the edge and takes its flag, as if the callback had not been called.
async fn lose_edge(partition: &KafkaPartition) {
    let wake = partition.assignment().wake();
    timeout(SOON, poll_fn(|cx| wake.poll_ready(cx)))
        .await
        .expect("an edge");
}

/// A waker that counts.
#[derive(Default)]
struct Calls {
    count: AtomicUsize,
    notify: Notify,
}

impl Calls {
    /// Waits for the next call, or returns at once for one that was not waited for.
    async fn called(&self) {
        self.notify.notified().await;
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.notify.notify_one();
    }
}

fn poll(partition: &mut KafkaPartition, calls: &Arc<Calls>) -> Poll<VecDeque<KafkaDelivery>> {
    let waker = Waker::from(Arc::clone(calls));
    let mut batch = VecDeque::new();
    partition
        .poll_batch(&mut Context::from_waker(&waker), 64, &mut batch)
        .map(|read| {
            read.unwrap();
            batch
        })
}

async fn next(partition: &mut KafkaPartition) -> KafkaDelivery {
    let mut batch = VecDeque::new();
    timeout(SOON, poll_fn(|cx| partition.poll_batch(cx, 1, &mut batch)))
        .await
        .expect("a record")
        .unwrap();
    batch.pop_front().unwrap()
}

async fn accept(subscription: &mut impl Subscription<Partition = KafkaPartition>) -> KafkaPartition {
    timeout(SOON, subscription.accept())
        .await
        .expect("a partition")
        .unwrap()
        .expect("no end")
}

fn producer(broker: &KafkaBroker) -> BaseProducer {
    ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("linger.ms", "0")
        .create()
        .unwrap()
}

/// Produces one record, and waits for its confirmation.
fn produce(producer: &BaseProducer, partition: i32) {
    let record = BaseRecord::<str, str>::to(TOPIC)
        .partition(partition)
        .payload("{}");
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(SOON).unwrap();
}
