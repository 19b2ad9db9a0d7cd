//! Runs the program as a person would.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

fn orders(servers: Option<&str>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orders"));
    command
        .args(["--count", "20000"])
        .env_remove("KAFKA_BOOTSTRAP_SERVERS");
    if let Some(servers) = servers {
        command.env("KAFKA_BOOTSTRAP_SERVERS", servers);
    }
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// The sum of the committed positions.
fn committed(out: &str) -> u64 {
    let of = |line: &str| {
        line.rsplit_once(" at ")
            .map_or(0, |(_, at)| at.parse::<u64>().unwrap())
    };
    out.lines()
        .filter(|line| line.starts_with("committed orders/"))
        .map(of)
        .sum()
}

#[test]
fn the_main_job_runs_on_the_embedded_broker() {
    let out = orders(None);
    assert!(out.contains("billed    20000 orders of this run"), "{out}");
    assert!(out.contains("received  20000, failed 1, retried 1"), "{out}");
    assert_eq!(committed(&out), 20_000, "{out}");
}

#[test]
#[ignore = "needs Java: just test-kafka"]
fn the_main_job_runs_on_a_real_broker_and_goes_on_where_it_stopped() {
    let cluster = ruststream_kafka_cluster::Cluster::start(1).unwrap();
    let servers = cluster.bootstrap();
    for run in 1..=2 {
        let out = orders(Some(&servers));
        assert!(out.contains("received  20000, failed 1, retried 1"), "{out}");
        assert_eq!(committed(&out), run * 20_000, "{out}");
    }
}
