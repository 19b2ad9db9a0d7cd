//! A service that is killed, and a broker that is killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::Duration;

use ruststream::prelude::*;

use crate::support::*;

const PARTITIONS: i32 = 4;
const NUMBERS: u64 = 5_000;

/// Where the process of the service writes down what it handled: one line a record, which outlives a kill.
struct Journal(Mutex<File>);

/// Records of a partition end in another order than they began, so that the position is not simply the last one.
#[subscriber("records")]
async fn journal(number: u64, meta: Meta<'_>, State(journal): State<'_, Journal>) {
    assert_eq!(number, meta.offset as u64);
    tokio::time::sleep(Duration::from_millis(number * 7 % 5)).await;
    let line = format!("{} {}\n", meta.partition, meta.offset);
    journal.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
}

/// Not a test of its own: the process that the next test kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the next test"]
async fn a_process_with_a_journal() {
    let Some([bootstrap, topic, file]) = arguments() else {
        return;
    };
    init_logs();
    let file = File::options().append(true).create(true).open(file).unwrap();
    let kafka = Protocol::Cooperative
        .brisk(&bootstrap)
        .set("session.timeout.ms", "6000")
        .set("auto.commit.interval.ms", "100");
    let subscriber = journal
        .topic(&topic)
        .ordering(ProcessingOrder::Key)
        .concurrency(16);
    RustStream::new(&topic)
        .state(Journal(Mutex::new(file)))
        .broker(kafka, |kafka| kafka.mount(subscriber))
        .run()
        .await
        .unwrap();
}

/// A process that is not left behind by a test that fails.
struct Service(Child);

impl Service {
    fn start(bootstrap: &str, topic: &str, file: &Path) -> Self {
        let arguments = [bootstrap, topic, file.to_str().unwrap()];
        let child = child("crash::a_process_with_a_journal", &arguments).spawn();
        Self(child.unwrap())
    }

    fn terminate(mut self) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(file: &Path) -> Handled {
    let mut handled = Handled::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let (partition, offset) = line.split_once(' ').unwrap();
        let offsets: &mut Vec<i64> = handled.entry(partition.parse().unwrap()).or_default();
        offsets.push(offset.parse().unwrap());
    }
    handled
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_service_that_is_killed_loses_nothing_and_repeats_only_what_was_not_committed() {
    let (bootstrap, topic) = (cluster().bootstrap(), "killed");
    blocking(|| {
        cluster().create_topic(topic, PARTITIONS, 1).unwrap();
        produce(&bootstrap, topic, PARTITIONS, 0..NUMBERS);
    });
    let dir = tempfile();
    let (before, after) = (dir.0.join("before"), dir.0.join("after"));

    let service = Service::start(&bootstrap, topic, &before);
    poll_until("each partition is handled and committed in part", || {
        each(&read(&before), PARTITIONS as usize, 300)
            && committed(&bootstrap, topic, PARTITIONS).len() == PARTITIONS as usize
    })
    .await;
    drop(service); // SIGKILL
    let first = read(&before);
    assert!(
        total(&first) < PARTITIONS as usize * NUMBERS as usize,
        "killed in the middle"
    );
    let position = committed(&bootstrap, topic, PARTITIONS);
    for (partition, position) in &position {
        let unhandled = (0..*position).find(|offset| !first[partition].contains(offset));
        assert_eq!(
            unhandled, None,
            "partition {partition} is committed at {position}"
        );
    }

    let service = Service::start(&bootstrap, topic, &after);
    let ends = |handled: &Handled| -> bool {
        missing(&[&first, handled], PARTITIONS, NUMBERS as i64).is_empty()
            && handled
                .values()
                .all(|offsets| offsets.contains(&(NUMBERS as i64 - 1)))
    };
    poll_until("all is handled in one life or the other", || ends(&read(&after))).await;
    blocking(|| service.terminate());
    let second = read(&after);
    for (partition, position) in position {
        let mut offsets = second[&partition].clone();
        offsets.sort_unstable();
        let expected: Vec<i64> = (position..NUMBERS as i64).collect();
        assert_eq!(
            offsets, expected,
            "the second life of partition {partition} begins at its position"
        );
    }
    let all: BTreeMap<i32, i64> = (0..PARTITIONS)
        .map(|partition| (partition, NUMBERS as i64))
        .collect();
    assert_eq!(committed(&bootstrap, topic, PARTITIONS), all);
}

/// A folder that goes with the value.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempfile() -> Folder {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

/// The partition of `__consumer_offsets` that a group's positions are in: its leader coordinates the group.
fn coordinated_by(group: &str, partitions: i32) -> i32 {
    // Java's `String.hashCode`.
    let hash = group.bytes().fold(0_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte))
    });
    (hash & i32::MAX) % partitions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_broker_of_three_is_killed_under_load_and_comes_back_and_nothing_is_lost() {
    const PARTITIONS: i32 = 6;
    let cluster = blocking(|| own_cluster(3));
    let (bootstrap, topic) = (cluster.bootstrap(), "outage");
    blocking(|| {
        let safe = [("min.insync.replicas", "2")];
        cluster.create_topic_with(topic, PARTITIONS, 3, &safe).unwrap();
    });
    let ledger = Ledger::new();
    let running = start(Protocol::Cooperative.brisk(&bootstrap), topic, &ledger, note).await;
    let load = Load::start(&bootstrap, topic, PARTITIONS, 0);
    let more = async |what: &str| {
        let from = load.confirmed() as usize;
        let passed = |handled: &Handled| each(handled, PARTITIONS as usize, from + 50);
        ledger.until(what, passed).await;
    };
    more("all partitions are handled").await;

    // The worst one: it coordinates the group, and leads partitions.
    let coordinator = blocking(|| {
        cluster
            .leader("__consumer_offsets", coordinated_by(topic, 4))
            .unwrap()
    });
    blocking(|| cluster.kill(coordinator).unwrap());
    more("all partitions are handled without the broker").await;
    assert!(!running.is_stopping());
    blocking(|| cluster.restart(coordinator).unwrap());
    more("all partitions are handled after its return").await;

    let rounds = load.stop() as i64;
    let all = |handled: &Handled| missing(&[handled], PARTITIONS, rounds).is_empty();
    ledger.until("every record is handled", all).await;
    let reported = stop(running).await;
    let ends: BTreeMap<i32, i64> = (0..PARTITIONS).map(|partition| (partition, rounds)).collect();
    for partition in 0..PARTITIONS {
        assert_eq!(end_of(&bootstrap, topic, partition), rounds);
    }
    assert_eq!(committed(&bootstrap, topic, PARTITIONS), ends);
    assert_eq!(reported, ends);
}
