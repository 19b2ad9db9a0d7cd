//! SIGINT and SIGTERM end `run()`: the first one drains, a second one ends it at once.
//!
//! One test: signals go to the whole process.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::{Error, ErrorKind};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// When a handler has started, and when it may end.
#[derive(Clone, Default)]
struct Gate {
    started: Arc<Notify>,
    open: Arc<Notify>,
}

#[subscriber("orders")]
async fn waits(_payload: &[u8], State(gate): State<'_, Gate>) {
    gate.started.notify_one();
    gate.open.notified().await;
}

fn signal(name: &str) {
    let pid = std::process::id().to_string();
    assert!(
        Command::new("kill")
            .args([name, &pid])
            .status()
            .unwrap()
            .success()
    );
}

/// An app whose handler has one delivery and waits in it.
async fn run(gate: &Gate) -> (MemoryBroker, tokio::task::JoinHandle<Result<Report, Error>>) {
    let broker = MemoryBroker::new().auto_create(1);
    let app = RustStream::new("billing")
        .state(gate.clone())
        .broker(broker.clone(), |memory| memory.mount(waits));
    broker.publish(MemoryRecord::new("orders").payload("{}")).unwrap();
    #[allow(clippy::disallowed_methods, reason = "the test owns the handle")]
    let running = tokio::spawn(app.run());
    gate.started.notified().await;
    (broker, running)
}

#[tokio::test]
async fn the_first_signal_drains_and_commits_and_a_second_one_ends_at_once() {
    const DEADLINE: Duration = Duration::from_secs(10);

    for name in ["-TERM", "-INT"] {
        let gate = Gate::default();
        let (broker, running) = run(&gate).await;
        signal(name);
        gate.open.notify_one();
        let report = timeout(DEADLINE, running).await.unwrap().unwrap().unwrap();
        assert_eq!(report.subscriptions.first().unwrap().settled, 1);
        assert_eq!(broker.position("billing", "orders", 0), Some(1));
    }

    let gate = Gate::default();
    let (broker, running) = run(&gate).await;
    let begun = Instant::now();
    signal("-TERM");
    // Two signals of one kind may become one: the other kind, until the app has ended.
    while !running.is_finished() {
        signal("-INT");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    assert_eq!(broker.position("billing", "orders", 0), None);
}
