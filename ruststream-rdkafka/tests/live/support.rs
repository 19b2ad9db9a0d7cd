//! A node for everybody, producers, an independent look at positions, and what handlers note down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use ruststream::Running;
use ruststream::prelude::*;
use ruststream_kafka_cluster::Cluster;
use ruststream_rdkafka::KafkaBroker;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing_subscriber::EnvFilter;

/// How long a test waits for something that must happen: generous, because machines that run tests are slow.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The node that tests share unless they break it. It ends with this process: a static is not dropped, but the
/// crate's watchdog sees the end of the process, and the next start removes the data.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    init_logs();
    CLUSTER.get_or_init(|| blocking(|| own_cluster(1)))
}

/// A cluster of `nodes` nodes. Members of KIP-848 groups hear from it every half second rather than every 5 s.
pub(crate) fn own_cluster(nodes: usize) -> Cluster {
    init_logs();
    Cluster::builder()
        .nodes(nodes)
        .property("group.consumer.min.heartbeat.interval.ms", "500")
        .property("group.consumer.heartbeat.interval.ms", "500")
        .start()
        .unwrap()
}

/// With `RUST_LOG`, tests show what the framework and librdkafka say.
pub(crate) fn init_logs() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off")))
            .with_writer(std::io::stderr)
            .init();
    });
}

/// Runs a call that blocks on a multi-thread runtime.
pub(crate) fn blocking<T>(call: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(call)
}

/// How a group shares its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Cooperative,
    Eager,
    NextGeneration,
}

impl Protocol {
    pub(crate) fn on(self, bootstrap: &str) -> KafkaBroker {
        let kafka = KafkaBroker::new(bootstrap);
        match self {
            Self::Cooperative => kafka,
            Self::Eager => kafka.set("partition.assignment.strategy", "range"),
            Self::NextGeneration => kafka.set("group.protocol", "consumer"),
        }
    }

    /// As [`on`](Self::on), with a member that hears of a rebalance soon rather than within 3 s.
    pub(crate) fn brisk(self, bootstrap: &str) -> KafkaBroker {
        match self {
            Self::NextGeneration => self.on(bootstrap),
            Self::Cooperative | Self::Eager => self.on(bootstrap).set("heartbeat.interval.ms", "300"),
        }
    }
}

/// What handlers noted: the offsets of each partition, in the order in which they were handled.
pub(crate) type Handled = BTreeMap<i32, Vec<i64>>;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    handled: Mutex<Handled>,
    noted: Notify,
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn note(&self, meta: &Meta<'_>) {
        let mut handled = self.handled.lock().unwrap();
        handled.entry(meta.partition).or_default().push(meta.offset);
        drop(handled);
        self.noted.notify_waiters();
    }

    pub(crate) fn handled(&self) -> Handled {
        self.handled.lock().unwrap().clone()
    }

    /// Waits until `done` holds.
    pub(crate) async fn until(&self, what: &str, done: impl Fn(&Handled) -> bool) {
        let holds = || done(&self.handled.lock().unwrap());
        let waited = timeout(SOON, async {
            loop {
                let mut noted = std::pin::pin!(self.noted.notified());
                noted.as_mut().enable();
                if holds() {
                    return;
                }
                noted.await;
            }
        });
        let waited = waited.await.is_ok();
        assert!(
            waited,
            "not in time: {what}; handled {:?}",
            counts(&self.handled())
        );
    }
}

/// A handler that only notes what it got. Producers number the records of a partition from 0.
#[subscriber("records")]
pub(crate) async fn note(number: u64, meta: Meta<'_>, State(ledger): State<'_, Arc<Ledger>>) {
    assert_eq!(number, meta.offset as u64, "the offset is the number");
    ledger.note(&meta);
}

pub(crate) fn total(handled: &Handled) -> usize {
    handled.values().map(Vec::len).sum()
}

pub(crate) fn counts(handled: &Handled) -> BTreeMap<i32, usize> {
    handled
        .iter()
        .map(|(partition, offsets)| (*partition, offsets.len()))
        .collect()
}

/// Whether each of `partitions` partitions has at least `count` offsets.
pub(crate) fn each(handled: &Handled, partitions: usize, count: usize) -> bool {
    handled.len() == partitions && handled.values().all(|offsets| offsets.len() >= count)
}

/// The offsets below `end` that none of `ledgers` has.
pub(crate) fn missing(ledgers: &[&Handled], partitions: i32, end: i64) -> Vec<(i32, i64)> {
    let mut missing = Vec::new();
    for partition in 0..partitions {
        let seen: std::collections::BTreeSet<i64> = ledgers
            .iter()
            .filter_map(|handled| handled.get(&partition))
            .flatten()
            .copied()
            .collect();
        missing.extend(
            (0..end)
                .filter(|offset| !seen.contains(offset))
                .map(|offset| (partition, offset)),
        );
    }
    missing
}

/// An app of one subscription to `topic` in the group of that name.
pub(crate) fn app(
    kafka: KafkaBroker,
    topic: &str,
    ledger: &Arc<Ledger>,
    subscriber: impl IntoSubscriber,
) -> RustStream {
    RustStream::new(topic)
        .state(Arc::clone(ledger))
        .broker(kafka, |kafka| kafka.mount(subscriber.topic(topic)))
}

/// Starts an [`app`].
pub(crate) async fn start(
    kafka: KafkaBroker,
    topic: &str,
    ledger: &Arc<Ledger>,
    subscriber: impl IntoSubscriber,
) -> Running {
    app(kafka, topic, ledger, subscriber).start().await.unwrap()
}

/// Stops an app in order, and says which positions it committed.
pub(crate) async fn stop(running: Running) -> BTreeMap<i32, i64> {
    running.stop();
    positions(&running.wait().await.unwrap())
}

/// The positions that an app of one subscription reports.
pub(crate) fn positions(report: &Report) -> BTreeMap<i32, i64> {
    let committed = report.subscriptions[0].committed.iter();
    committed.map(|c| (c.partition, c.offset)).collect()
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("reconnect.backoff.max.ms", "500");
    config
}

/// A producer that loses, doubles and reorders nothing.
pub(crate) fn producer(bootstrap: &str) -> BaseProducer {
    client(bootstrap)
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .set("queue.buffering.max.messages", "100000")
        .create()
        .unwrap()
}

/// Sends a record, waiting for room.
pub(crate) fn send(producer: &BaseProducer, topic: &str, partition: i32, key: &[u8], payload: &[u8]) {
    let mut record = BaseRecord::to(topic)
        .partition(partition)
        .key(key)
        .payload(payload);
    while let Err((_, again)) = producer.send(record) {
        record = again;
        producer.poll(Duration::from_millis(10));
    }
}

/// Produces `numbers` to each of `partitions` partitions, and waits for their confirmation. There are 50 keys.
pub(crate) fn produce(bootstrap: &str, topic: &str, partitions: i32, numbers: std::ops::Range<u64>) {
    let producer = producer(bootstrap);
    for number in numbers {
        let (key, payload) = (format!("{}", number % 50), number.to_string());
        for partition in 0..partitions {
            send(&producer, topic, partition, key.as_bytes(), payload.as_bytes());
        }
    }
    producer.flush(SOON).unwrap();
}

/// Produces the next number to each partition, again and again, as fast as the cluster confirms.
pub(crate) struct Load {
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Load {
    /// The first number is `from`.
    pub(crate) fn start(bootstrap: &str, topic: &str, partitions: i32, from: u64) -> Self {
        let (rounds, stop) = (Arc::new(AtomicU64::new(from)), Arc::new(AtomicBool::new(false)));
        let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
        let (counted, stopped) = (Arc::clone(&rounds), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let producer = producer(&bootstrap);
            while !stopped.load(Ordering::Relaxed) {
                let payload = counted.load(Ordering::Relaxed).to_string();
                for partition in 0..partitions {
                    send(&producer, &topic, partition, b"k", payload.as_bytes());
                }
                producer.flush(SOON).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { rounds, stop, thread }
    }

    /// How many records of each partition are confirmed.
    pub(crate) fn confirmed(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Stops, and says how many records each partition has.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        blocking(|| self.thread.join().unwrap());
        self.rounds.load(Ordering::Relaxed)
    }
}

/// The committed positions of the group that has the topic's name, asked for by a client of our own. It asks until there is
/// an answer: a coordinator that comes back loads its groups first.
pub(crate) fn committed(bootstrap: &str, topic: &str, partitions: i32) -> BTreeMap<i32, i64> {
    blocking(|| {
        let consumer: BaseConsumer = client(bootstrap).set("group.id", topic).create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition(topic, partition);
        }
        let deadline = Instant::now() + SOON;
        let answer = loop {
            match consumer.committed_offsets(list.clone(), SOON) {
                Ok(answer) => break answer,
                Err(error) => assert!(Instant::now() < deadline, "no positions: {error}"),
            }
        };
        let position = |partition: i32, offset| match offset {
            Offset::Offset(offset) => Some((partition, offset)),
            _ => None,
        };
        answer
            .elements()
            .iter()
            .filter_map(|entry| position(entry.partition(), entry.offset()))
            .collect()
    })
}

/// How many records a partition has, asked for by a client of our own.
pub(crate) fn end_of(bootstrap: &str, topic: &str, partition: i32) -> i64 {
    blocking(|| {
        let consumer: BaseConsumer = client(bootstrap).create().unwrap();
        consumer.fetch_watermarks(topic, partition, SOON).unwrap().1
    })
}

/// How many members the classic group has, once it is stable.
pub(crate) fn stable_members(bootstrap: &str, group: &str) -> usize {
    blocking(|| {
        let consumer: BaseConsumer = client(bootstrap).create().unwrap();
        let groups = consumer.fetch_group_list(Some(group), SOON).unwrap();
        let stable = groups.groups().iter().filter(|group| group.state() == "Stable");
        stable.map(|group| group.members().len()).sum()
    })
}

/// Asks the outside world, which has no events, until it says what is wanted.
pub(crate) async fn poll_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a Java program of this folder on the cluster, and returns what it prints.
pub(crate) fn java<'a>(
    cluster: &Cluster,
    program: &str,
    arguments: impl IntoIterator<Item = &'a str>,
) -> String {
    let program = format!("{}/tests/live/{program}.java", env!("CARGO_MANIFEST_DIR"));
    let mut command = cluster.java();
    command.args([program, cluster.bootstrap()]).args(arguments);
    let output = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    String::from_utf8(output.stdout).unwrap()
}

/// This program again, in the role of the test `name`, which is no test without its `arguments`.
pub(crate) fn child(name: &str, arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", name, "--nocapture"])
        .env(ARGUMENTS, arguments.join("\n"))
        .stdout(std::process::Stdio::null());
    command
}

/// What [`child`] was given; `None` in a run of the tests.
pub(crate) fn arguments<const N: usize>() -> Option<[String; N]> {
    let given = std::env::var(ARGUMENTS).ok()?;
    let given: Vec<String> = given.split('\n').map(str::to_owned).collect();
    Some(given.try_into().unwrap())
}

const ARGUMENTS: &str = "RUSTSTREAM_LIVE_CHILD";
