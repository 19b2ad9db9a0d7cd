//! What becomes of nodes whose owner ends.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ruststream_kafka_cluster::Cluster;

const ROLE: &str = "RUSTSTREAM_TEST_OWNER";

/// Not a test of its own: the process that the tests below start as an owner.
#[test]
#[ignore = "started by the other tests"]
fn owner() {
    let Ok(file) = std::env::var(ROLE) else { return };
    let cluster = Cluster::start(1).unwrap();
    let log = cluster.node(1).unwrap().log();
    let run = log.ancestors().nth(2).unwrap();
    fs::write(format!("{file}.new"), run.to_str().unwrap()).unwrap();
    fs::rename(format!("{file}.new"), file).unwrap();
    std::thread::park();
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn the_node_of_a_killed_owner_dies_and_its_data_is_removed_by_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run");
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "owner"])
        .env(ROLE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let run = PathBuf::from(until("the owner has a cluster", || {
        fs::read_to_string(&file).ok()
    }));
    let pid = pid(&run);

    // A start beside a living owner ends nothing of it.
    drop(Cluster::start(1).unwrap());
    assert!(runs_java(pid));

    owner.kill().unwrap();
    owner.wait().unwrap();
    until("the watchdog has killed the node", || {
        (!runs_java(pid)).then_some(())
    });

    assert!(run.join("node-1/data").exists());
    drop(Cluster::start(1).unwrap());
    assert!(!run.join("node-1/data").exists());
    assert!(run.join("node-1/kafka.log").exists());
    fs::remove_dir_all(run).unwrap();
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn a_dropped_cluster_leaves_no_process_and_no_file() {
    let cluster = Cluster::start(1).unwrap();
    let run = cluster
        .node(1)
        .unwrap()
        .log()
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned();
    let pid = pid(&run);
    assert!(runs_java(pid));
    drop(cluster);
    assert!(!runs_java(pid));
    assert!(!run.exists());
}

fn pid(run: &Path) -> u64 {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    record["nodes"][0]["process"]["pid"].as_u64().unwrap()
}

fn runs_java(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains("(java)") && !stat.contains(") Z ")
}

#[expect(clippy::disallowed_methods, reason = "polls the outside of a process")]
fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
