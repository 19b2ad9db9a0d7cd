//! A stop ends by its deadline, whatever the broker does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ruststream::prelude::*;
use ruststream::{Error, ErrorKind, Running};
use ruststream_kafka_cluster::Cluster;

use crate::support::*;

const DEADLINE: Duration = Duration::from_secs(8);

/// What the framework may take beyond the deadline, and a busy machine.
const GRACE: Duration = Duration::from_millis(1_500);

/// One record in a millisecond: the backlog outlasts the test.
#[subscriber("records")]
async fn slow(number: u64, meta: Meta<'_>, State(ledger): State<'_, Arc<Ledger>>) {
    assert_eq!(number, meta.offset as u64);
    tokio::time::sleep(Duration::from_millis(1)).await;
    ledger.note(&meta);
}

async fn service(cluster: &Cluster, topic: &str, ledger: &Arc<Ledger>) -> Running {
    app(
        Protocol::Cooperative.brisk(&cluster.bootstrap()),
        topic,
        ledger,
        slow,
    )
    .shutdown_timeout(DEADLINE)
    .start()
    .await
    .unwrap()
}

/// A service in a backlog, and one that never got a partition: a group of two has one partition only.
struct Services {
    busy: Running,
    ledger: Arc<Ledger>,
    holder: Running,
    idle: Running,
    idle_ledger: Arc<Ledger>,
}

impl Services {
    async fn start(cluster: &Cluster) -> Self {
        let bootstrap = cluster.bootstrap();
        blocking(|| {
            cluster.create_topic("backlog", 4, 1).unwrap();
            cluster.create_topic("narrow", 1, 1).unwrap();
            produce(&bootstrap, "backlog", 4, 0..20_000);
            produce(&bootstrap, "narrow", 1, 0..20_000);
        });
        let (ledger, holders, idle_ledger) = (Ledger::new(), Ledger::new(), Ledger::new());
        let holder = service(cluster, "narrow", &holders).await;
        holders
            .until("the partition is taken", |handled| each(handled, 1, 1))
            .await;
        let idle = service(cluster, "narrow", &idle_ledger).await;
        poll_until("the group has two members", || {
            stable_members(&bootstrap, "narrow") == 2
        })
        .await;
        let busy = service(cluster, "backlog", &ledger).await;
        ledger
            .until("each partition is in its backlog", |handled| each(handled, 4, 50))
            .await;
        Self {
            busy,
            ledger,
            holder,
            idle,
            idle_ledger,
        }
    }
}

/// Stops, and says how long that took.
async fn timed(running: Running) -> (Result<Report, Error>, Duration) {
    let begun = Instant::now();
    running.stop();
    let ended = running.wait().await;
    (ended, begun.elapsed())
}

/// Stops all while the broker does not answer; the errors of the busy and of the idle service.
async fn stop_without_a_broker(services: Services) -> (Error, Result<Report, Error>) {
    let (busy, holder, idle) =
        tokio::join!(timed(services.busy), timed(services.holder), timed(services.idle));
    for (_, took) in [&busy, &holder, &idle] {
        assert!(*took < DEADLINE + GRACE, "{took:?}");
    }
    assert!(
        total(&services.ledger.handled()) < 80_000,
        "in the middle of the backlog"
    );
    assert_eq!(total(&services.idle_ledger.handled()), 0);
    let error = busy.0.expect_err("positions that nobody confirmed");
    assert_eq!(error.kind(), ErrorKind::Broker);
    assert_eq!(holder.0.unwrap_err().kind(), ErrorKind::Broker);
    (error, idle.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_with_the_broker_up_takes_no_deadline() {
    let bootstrap = cluster().bootstrap();
    let ledger = Ledger::new();
    blocking(|| {
        cluster().create_topic("up", 4, 1).unwrap();
        produce(&bootstrap, "up", 4, 0..20_000);
    });
    let running = service(cluster(), "up", &ledger).await;
    ledger
        .until("each partition is in its backlog", |handled| each(handled, 4, 50))
        .await;
    let (ended, took) = timed(running).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    let ends = ledger
        .handled()
        .iter()
        .map(|(partition, offsets)| (*partition, offsets.len() as i64))
        .collect();
    assert_eq!(positions(&ended.unwrap()), ends);
    assert_eq!(committed(&bootstrap, "up", 4), ends);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_of_a_service_without_a_partition_takes_no_deadline() {
    let bootstrap = cluster().bootstrap();
    let (holders, idles) = (Ledger::new(), Ledger::new());
    blocking(|| {
        cluster().create_topic("one", 1, 1).unwrap();
        produce(&bootstrap, "one", 1, 0..20_000);
    });
    let holder = service(cluster(), "one", &holders).await;
    holders
        .until("the partition is taken", |handled| each(handled, 1, 1))
        .await;
    let idle = service(cluster(), "one", &idles).await;
    poll_until("the group has two members", || {
        stable_members(&bootstrap, "one") == 2
    })
    .await;
    let (ended, took) = timed(idle).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(positions(&ended.unwrap()).len(), 0);
    // Well within the session timeout of 45 s: it has said goodbye.
    let begun = Instant::now();
    poll_until("it has left the group", || stable_members(&bootstrap, "one") == 1).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    stop(holder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_with_the_broker_down_ends_by_its_deadline_and_says_what_is_not_committed() {
    let cluster = blocking(|| own_cluster(1));
    let services = Services::start(&cluster).await;
    blocking(|| cluster.terminate(1).unwrap());
    let (error, idle) = stop_without_a_broker(services).await;
    insta::assert_snapshot!(error, @"subscription slow (group backlog): the group was not left in order (the deadline passed, is the broker down?); positions may not be committed");
    insta::assert_snapshot!(idle.map_or_else(|error| error.to_string(), |_| "success".to_owned()), @"success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stop_with_the_broker_frozen_ends_by_its_deadline_and_says_what_is_not_committed() {
    let cluster = blocking(|| own_cluster(1));
    let services = Services::start(&cluster).await;
    cluster.freeze(1).unwrap();
    let (error, idle) = stop_without_a_broker(services).await;
    insta::assert_snapshot!(error, @"subscription slow (group backlog): the group was not left in order (the deadline passed, is the broker down?); positions may not be committed");
    insta::assert_snapshot!(idle.map_or_else(|error| error.to_string(), |_| "success".to_owned()), @"success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_service_that_is_stopped_while_its_broker_freezes_at_the_start_ends_by_its_deadline() {
    let cluster = blocking(|| own_cluster(1));
    blocking(|| cluster.create_topic("early", 1, 1).unwrap());
    let running = service(&cluster, "early", &Ledger::new()).await;
    // It is about to join.
    cluster.freeze(1).unwrap();
    let (_, took) = timed(running).await;
    assert!(took < DEADLINE + GRACE, "{took:?}");
}

/// The names of librdkafka's threads in this process.
fn client_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| name(task.unwrap()));
    names.filter(|name| name.starts_with("rdk:")).collect()
}

/// Not a test of its own: a process of its own, whose threads nobody else's test adds to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the next test"]
async fn a_process_with_one_service() {
    let Some([bootstrap, topic]) = arguments() else {
        return;
    };
    let ledger = Ledger::new();
    let running = start(Protocol::Cooperative.brisk(&bootstrap), &topic, &ledger, slow).await;
    ledger
        .until("it handles its backlog", |handled| each(handled, 4, 50))
        .await;
    assert!(
        !client_threads().is_empty(),
        "the client's threads have these names"
    );
    stop(running).await;
    poll_until("the client is gone", || client_threads().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_service_that_was_stopped_leaves_no_client_behind() {
    let (bootstrap, topic) = (cluster().bootstrap(), "threads");
    let status = blocking(|| {
        cluster().create_topic(topic, 4, 1).unwrap();
        produce(&bootstrap, topic, 4, 0..20_000);
        child("shutdown::a_process_with_one_service", &[&bootstrap, topic])
            .status()
            .unwrap()
    });
    assert!(status.success(), "{status}");
}
