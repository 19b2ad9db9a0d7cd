//! The program, and a look into its topics.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use ruststream::BoxError;
use ruststream::dead_letter::Origin;
use ruststream::prelude::*;
use ruststream_rdkafka::KafkaBroker;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long a test waits for something that must happen: generous, because machines that run tests are slow.
const SOON: Duration = Duration::from_secs(60);

const PARTITIONS: u16 = 4;

/// Runs what blocks its thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.unwrap()
}

/// A cluster in this process, with the topics: over its port it has no admin API.
pub(crate) async fn embedded() -> KafkaBroker {
    let kafka = KafkaBroker::embedded();
    for topic in ["orders", "invoices", "orders.dlq"] {
        kafka.create_topic(topic, PARTITIONS).await.unwrap();
    }
    kafka
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    status: ExitStatus,
    out: String,
    err: String,
}

impl Run {
    /// What it wrote to standard output.
    pub(crate) fn succeeded(&self) -> &str {
        let Self { status, out, err } = self;
        assert!(status.success(), "{status}\n{out}\n{err}");
        out
    }

    /// What it wrote to standard error.
    pub(crate) fn failed(&self) -> &str {
        let Self { status, out, err } = self;
        assert_eq!(status.code(), Some(1), "{status}\n{out}\n{err}");
        err
    }
}

/// Where the program finds a cluster of this process. On it, classic groups and empty fetches take long.
pub(crate) fn over_port(kafka: &KafkaBroker) -> [(&str, &str); 3] {
    [
        ("KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers()),
        ("KAFKA_GROUP_PROTOCOL", "consumer"),
        ("KAFKA_FETCH_WAIT_MAX_MS", "10"),
    ]
}

fn start(env: &[(&str, &str)], args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orders"))
        .args(args)
        .env_remove("KAFKA_BOOTSTRAP_SERVERS")
        .envs(env.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Runs the program to its end.
pub(crate) async fn orders(env: &[(&str, &str)], args: &[&str]) -> Run {
    let output = start(env, args).wait_with_output();
    let output = timeout(SOON, output).await.expect("an end").unwrap();
    Run {
        status: output.status,
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the program until it shows progress, then interrupts it.
pub(crate) async fn interrupted(args: &[&str]) -> Run {
    let mut child = start(&[], args);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut out, mut err) = (String::new(), String::new());
    let run = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("confirmed ") && out.lines().count() == 1 {
                let id = child.id().expect("a running program").to_string();
                let sent = Command::new("kill").args(["-INT", &id]).status().await;
                assert!(sent.unwrap().success());
            }
            out.push_str(&line);
            out.push('\n');
        }
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).await.unwrap();
        child.wait().await.unwrap()
    };
    let status = timeout(SOON, run).await.expect("an end");
    Run { status, out, err }
}

/// The sum of the committed positions.
pub(crate) fn committed(out: &str) -> u64 {
    let of = |line: &str| {
        line.rsplit_once(" at ")
            .map_or(0, |(_, at)| at.parse::<u64>().unwrap())
    };
    out.lines()
        .filter(|line| line.starts_with("committed orders/"))
        .map(of)
        .sum()
}

/// What runs left behind.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) invoices: Vec<Invoice>,
    /// Why each order was given up, sorted.
    pub(crate) letters: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Invoice {
    #[serde(skip)]
    pub(crate) key: Option<String>,
    pub(crate) run: u64,
    pub(crate) order: u64,
    pub(crate) customer: String,
    pub(crate) cents: u64,
}

/// What a reader found.
enum Found {
    Invoice(Invoice),
    Letter(String),
    /// The record that this test put behind the others of a partition.
    End,
}

type Finder = mpsc::Sender<Found>;

#[subscriber("invoices")]
async fn read_invoice(
    invoice: Option<Invoice>,
    Key(key): Key<Option<String>>,
    State(finder): State<'_, Finder>,
) -> Result<(), BoxError> {
    let found = match invoice {
        Some(invoice) => Found::Invoice(Invoice { key, ..invoice }),
        None => Found::End,
    };
    Ok(finder.send(found).await?)
}

#[subscriber("orders.dlq")]
async fn read_letter(
    _: Option<&[u8]>,
    headers: Headers<'_>,
    State(finder): State<'_, Finder>,
) -> Result<(), BoxError> {
    let found = match Origin::of(&headers) {
        Some(origin) => Found::Letter(format!("{}: {}", origin.error_kind, origin.error_message)),
        None => Found::End,
    };
    Ok(finder.send(found).await?)
}

/// Reads invoices and dead letters back, all that are there now.
pub(crate) async fn left(servers: &str) -> Left {
    let kafka = KafkaBroker::new(servers)
        .set("group.protocol", "consumer")
        .set("fetch.wait.max.ms", "10");
    let publisher = kafka.publisher().unwrap();
    for topic in ["invoices", "orders.dlq"] {
        for partition in 0..PARTITIONS {
            let end = Record::tombstone(topic).to_partition(partition.into());
            publisher.publish(end).await.unwrap();
        }
    }
    let (finder, mut found) = mpsc::channel(1_000);
    let reader = RustStream::new("reader")
        .state(finder)
        .broker(kafka, |kafka| kafka.mount(read_invoice).mount(read_letter));
    let running = reader.start().await.unwrap();
    let (mut left, mut ends) = (Left::default(), 0);
    while ends < 2 * PARTITIONS {
        match timeout(SOON, found.recv()).await.expect("a record").unwrap() {
            Found::Invoice(invoice) => left.invoices.push(invoice),
            Found::Letter(why) => left.letters.push(why),
            Found::End => ends += 1,
        }
    }
    running.stop();
    running.wait().await.unwrap();
    left.letters.sort();
    left
}
