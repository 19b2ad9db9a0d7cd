//! A producer, and a service reduced to what the contract needs.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Message as _, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use ruststream::Error;
use ruststream::broker::{Broker, Committed, Delivery, End, Partition, SubscribeRequest, Subscription};
use ruststream_rdkafka::{KafkaBroker, KafkaDelivery, KafkaPartition, KafkaSubscription};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tracing_subscriber::EnvFilter;

/// How long a test waits for something that must happen: generous, because machines that run tests are slow.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const GROUP: &str = "billing";

pub(crate) fn soon() -> Instant {
    Instant::now() + SOON
}

/// An embedded cluster with one topic.
pub(crate) async fn cluster(topic: &str, partitions: u16) -> KafkaBroker {
    init_logs();
    let broker = KafkaBroker::embedded();
    broker.create_topic(topic, partitions).await.unwrap();
    broker
}

/// With `RUST_LOG`, tests show what the framework and librdkafka say. In any case warnings are kept for [`logged`].
fn init_logs() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("ruststream=warn"));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .with_writer(|| Log)
            .init();
    });
}

/// Lines of the log; a writer of `tracing_subscriber` gets one line a call.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LOGGED: Notify = Notify::const_new();

struct Log;

impl std::io::Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if std::env::var_os("RUST_LOG").is_some() {
            eprint!("{}", String::from_utf8_lossy(line));
        }
        LINES
            .lock()
            .unwrap()
            .push(String::from_utf8_lossy(line).into_owned());
        LOGGED.notify_waiters();
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Waits until a line holds all of `words`. Tests run in one process: name something that only this test has.
pub(crate) async fn logged(words: &[&str]) {
    let found = async {
        loop {
            let mut line = std::pin::pin!(LOGGED.notified());
            line.as_mut().enable();
            if LINES
                .lock()
                .unwrap()
                .iter()
                .any(|line| words.iter().all(|word| line.contains(word)))
            {
                return;
            }
            line.await;
        }
    };
    timeout(SOON, found)
        .await
        .unwrap_or_else(|_| panic!("no line with {words:?}"));
}

pub(crate) fn producer(broker: &KafkaBroker) -> BaseProducer {
    ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("linger.ms", "0")
        .create()
        .unwrap()
}

/// Produces the numbers `numbers` to `partition`, and waits for their confirmation.
pub(crate) fn produce(
    broker: &KafkaBroker,
    topic: &str,
    partition: i32,
    numbers: impl IntoIterator<Item = u64>,
) {
    let producer = producer(broker);
    for number in numbers {
        let payload = number.to_string();
        let record = BaseRecord::<str, str>::to(topic)
            .partition(partition)
            .payload(&payload);
        producer.send(record).map_err(|(error, _)| error).unwrap();
        producer.poll(Duration::ZERO);
    }
    producer.flush(SOON).unwrap();
}

pub(crate) fn request(topic: &str) -> SubscribeRequest {
    SubscribeRequest::new(topic, topic, GROUP)
}

pub(crate) async fn subscribe(broker: &KafkaBroker, topic: &str) -> KafkaSubscription {
    let mut subscriptions = broker.subscribe(vec![request(topic)]).await.unwrap();
    subscriptions.pop().unwrap()
}

/// What one wait on a partition yields.
#[derive(Debug)]
pub(crate) enum Step {
    Batch(VecDeque<KafkaDelivery>),
    End(End),
    Failed(Error),
}

/// Waits for records or for the end; an end wins.
pub(crate) async fn step(partition: &mut KafkaPartition) -> Step {
    let mut batch = VecDeque::new();
    poll_fn(|cx| {
        if let Poll::Ready(end) = partition.poll_end(cx) {
            return Poll::Ready(Step::End(end));
        }
        match partition.poll_batch(cx, 64, &mut batch) {
            Poll::Ready(Ok(())) => Poll::Ready(Step::Batch(std::mem::take(&mut batch))),
            Poll::Ready(Err(error)) => Poll::Ready(Step::Failed(error)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The next records of a partition, at least one.
pub(crate) async fn batch(partition: &mut KafkaPartition) -> VecDeque<KafkaDelivery> {
    match timeout(SOON, step(partition)).await.expect("records") {
        Step::Batch(batch) => batch,
        other => panic!("expected records, got {other:?}"),
    }
}

/// The next `count` records of a partition.
pub(crate) async fn take(partition: &mut KafkaPartition, count: usize) -> Vec<KafkaDelivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(batch(partition).await);
    }
    taken
}

pub(crate) async fn end(partition: &mut KafkaPartition) -> End {
    timeout(SOON, poll_fn(|cx| partition.poll_end(cx)))
        .await
        .expect("the end of a partition")
}

pub(crate) async fn accept(subscription: &mut KafkaSubscription) -> KafkaPartition {
    timeout(SOON, subscription.accept())
        .await
        .expect("a partition")
        .unwrap()
        .expect("no end")
}

pub(crate) fn number(delivery: &KafkaDelivery) -> u64 {
    std::str::from_utf8(delivery.payload().unwrap())
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) fn offsets(deliveries: &[KafkaDelivery]) -> Vec<i64> {
    deliveries.iter().map(Delivery::offset).collect()
}

/// What a member saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Assigned(i32),
    Record {
        partition: i32,
        offset: i64,
        number: u64,
    },
    Ended(i32, End),
}

/// A member of a group that settles every record at once, like the runtime does with a handler that only says yes.
pub(crate) struct Member {
    pub(crate) seen: mpsc::Receiver<Seen>,
    /// Gives the subscription back when asked to stop accepting.
    accepting: JoinHandle<KafkaSubscription>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Member {
    pub(crate) async fn join(broker: &KafkaBroker, topic: &str) -> Self {
        let subscription = subscribe(broker, topic).await;
        let (sender, seen) = mpsc::channel(100_000);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        #[allow(clippy::disallowed_methods, reason = "joined by `close`")]
        let accepting = tokio::spawn(accept_all(subscription, sender, stopped));
        Self {
            seen,
            accepting,
            stop,
        }
    }

    pub(crate) async fn next(&mut self) -> Seen {
        timeout(SOON, self.seen.recv())
            .await
            .expect("an event")
            .expect("a living member")
    }

    /// Collects until `done` says so.
    pub(crate) async fn until(&mut self, mut done: impl FnMut(&[Seen]) -> bool) -> Vec<Seen> {
        let mut all = Vec::new();
        while !done(&all) {
            all.push(self.next().await);
        }
        all
    }

    /// Collects `count` records.
    pub(crate) async fn records(&mut self, count: usize) -> Vec<(i32, i64, u64)> {
        let mut found = Vec::new();
        while found.len() < count {
            if let Seen::Record {
                partition,
                offset,
                number,
            } = self.next().await
            {
                found.push((partition, offset, number));
            }
        }
        found
    }

    pub(crate) async fn close(self) -> Result<Vec<Committed>, Error> {
        let _ = self.stop.send(());
        let subscription = self.accepting.await.unwrap();
        timeout(SOON * 2, subscription.close(soon()))
            .await
            .expect("a close that ends")
    }
}

async fn accept_all(
    mut subscription: KafkaSubscription,
    seen: mpsc::Sender<Seen>,
    mut stop: tokio::sync::oneshot::Receiver<()>,
) -> KafkaSubscription {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stop => break,
            accepted = subscription.accept() => match accepted {
                Ok(Some(partition)) => {
                    tasks.spawn(serve(partition, seen.clone()));
                }
                _ => break,
            },
        }
    }
    tasks.detach_all();
    subscription
}

async fn serve(mut partition: KafkaPartition, seen: mpsc::Sender<Seen>) {
    let index = partition.index();
    let _ = seen.send(Seen::Assigned(index)).await;
    loop {
        match step(&mut partition).await {
            Step::Batch(batch) => {
                let last = batch.back().unwrap().offset();
                for delivery in batch {
                    let record = Seen::Record {
                        partition: index,
                        offset: delivery.offset(),
                        number: number(&delivery),
                    };
                    let _ = seen.send(record).await;
                }
                let _ = partition.store(last + 1);
            }
            Step::End(end) => {
                drop(partition);
                let _ = seen.send(Seen::Ended(index, end)).await;
                return;
            }
            Step::Failed(error) => panic!("{error}"),
        }
    }
}

/// The offsets of `positions` by partition.
pub(crate) fn by_partition(positions: &[Committed]) -> BTreeMap<i32, i64> {
    positions
        .iter()
        .map(|position| (position.partition, position.offset))
        .collect()
}

/// Runs a close beside the test, which joins it.
#[allow(clippy::disallowed_methods, reason = "every caller joins the task")]
pub(crate) fn spawn<F: Future<Output: Send + 'static> + Send + 'static>(future: F) -> JoinHandle<F::Output> {
    tokio::spawn(future)
}

fn asker(broker: &KafkaBroker) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "10")
        .set("reconnect.backoff.max.ms", "200")
        .create()
        .unwrap()
}

/// How many records a partition has, asked for by a client of our own.
pub(crate) fn end_of(broker: &KafkaBroker, topic: &str, partition: i32) -> i64 {
    tokio::task::block_in_place(|| asker(broker).fetch_watermarks(topic, partition, SOON).unwrap().1)
}

/// All records of a partition, read by a client of our own.
pub(crate) fn records_of(broker: &KafkaBroker, topic: &str, partition: i32) -> Vec<OwnedMessage> {
    tokio::task::block_in_place(|| {
        let consumer = asker(broker);
        let end = consumer.fetch_watermarks(topic, partition, SOON).unwrap().1;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
        consumer.assign(&list).unwrap();
        let next = || consumer.poll(SOON).expect("a record in time").unwrap();
        (0..end).map(|_| BorrowedMessage::detach(&next())).collect()
    })
}

/// As [`records_of`], of records with numbers.
pub(crate) fn numbers_of(broker: &KafkaBroker, topic: &str, partition: i32) -> Vec<u64> {
    let number = |record: &OwnedMessage| {
        let text = record.payload_view::<str>().unwrap().unwrap();
        text.parse().unwrap()
    };
    records_of(broker, topic, partition).iter().map(number).collect()
}

/// The group's committed positions, asked for by a client of our own.
pub(crate) fn committed(broker: &KafkaBroker, topic: &str, partitions: i32) -> BTreeMap<i32, i64> {
    tokio::task::block_in_place(|| {
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition(topic, partition);
        }
        let answer = asker(broker).committed_offsets(list, SOON).unwrap();
        let position = |partition, offset| match offset {
            Offset::Offset(offset) => Some((partition, offset)),
            _ => None,
        };
        let entries = answer.elements();
        entries
            .iter()
            .filter_map(|entry| position(entry.partition(), entry.offset()))
            .collect()
    })
}

/// Asks what has no events until it says what is wanted.
pub(crate) async fn poll_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = soon();
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
