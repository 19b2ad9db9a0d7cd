//! Replies and dead letters on real nodes: what dies, freezes, joins and is deleted loses no reply, and no committed
//! position is above a record without one.

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use ruststream::prelude::*;
use ruststream::{ErrorKind, Running};
use ruststream_kafka_cluster::Cluster;
use ruststream_rdkafka::KafkaBroker;
use tokio::time::timeout;

use crate::outcomes::*;
use crate::support::*;

/// Replies with where its record came from.
#[subscriber("records", reply = "replies")]
async fn answer(number: u64, meta: Meta<'_>, State(ledger): State<'_, Arc<Ledger>>) -> Source {
    assert_eq!(number, meta.offset as u64, "the offset is the number");
    ledger.note(&meta);
    (meta.partition, meta.offset)
}

/// Every record is poison.
#[subscriber("records", dead_letter = "letters")]
async fn refuse(number: u64, meta: Meta<'_>, State(ledger): State<'_, Arc<Ledger>>) -> Result<(), Permanent> {
    ledger.note(&meta);
    Err(Permanent::new(format!("number {number}")))
}

/// A topic of sources with `each` records in each partition, and one for what becomes of them.
fn topics(cluster: &Cluster, topic: &str, each: u64) {
    blocking(|| {
        cluster.create_topic(topic, PARTITIONS, 1).unwrap();
        cluster.create_topic(&out(topic), PARTITIONS, 1).unwrap();
        produce(&cluster.bootstrap(), topic, PARTITIONS, 0..each);
    });
}

fn kafka(cluster: &Cluster) -> KafkaBroker {
    Protocol::Cooperative
        .brisk(&cluster.bootstrap())
        .set("auto.commit.interval.ms", "100")
        .set("reconnect.backoff.max.ms", "500")
}

async fn start_answering(kafka: KafkaBroker, topic: &str, ledger: &Arc<Ledger>) -> Running {
    start(kafka, topic, ledger, answer.reply(out(topic))).await
}

async fn start_refusing(kafka: KafkaBroker, topic: &str, ledger: &Arc<Ledger>) -> Running {
    let subscriber = refuse
        .dead_letter(out(topic))
        .dead_letter_limit(DeadLetterLimit::none());
    start(kafka, topic, ledger, subscriber).await
}

/// Another member of the group finds nothing that it has to do again.
async fn assert_nothing_is_left(cluster: &Cluster, topic: &str, each: u64) {
    let bootstrap = cluster.bootstrap();
    blocking(|| produce(&bootstrap, topic, PARTITIONS, each..each + 1));
    let ledger = Ledger::new();
    let running = start(kafka(cluster), topic, &ledger, note).await;
    ledger
        .until("the last ones are handled", |handled| {
            total(handled) >= PARTITIONS as usize
        })
        .await;
    stop(running).await;
    let last = (0..PARTITIONS).map(|partition| (partition, vec![each as i64]));
    assert_eq!(ledger.handled(), last.collect());
}

async fn settled(running: &Running, count: u64) {
    let settled = || running.report().subscriptions[0].settled;
    poll_until(&format!("{count} records are settled"), || {
        assert!(!running.is_stopping(), "the app stops");
        settled() >= count
    })
    .await;
}

async fn all_committed(bootstrap: &str, topic: &str, each: u64) {
    poll_until("everything is committed", || {
        let positions = committed(bootstrap, topic, PARTITIONS);
        positions.len() == PARTITIONS as usize && positions.values().all(|position| *position == each as i64)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn no_reply_is_lost_or_out_of_order_while_the_broker_is_killed_twice() {
    const EACH: u64 = 50_000;
    let (cluster, topic) = (blocking(|| own_cluster(1)), "killed");
    let bootstrap = cluster.bootstrap();
    topics(&cluster, topic, EACH);
    let ledger = Ledger::new();
    let running = start_answering(kafka(&cluster), topic, &ledger).await;
    let mut moments = Vec::new();
    for handled in [30_000, 100_000] {
        let some = |all: &Handled| total(all) >= handled;
        ledger.until("some are handled", some).await;
        blocking(|| cluster.kill(1).unwrap());
        let settled = running.report().subscriptions[0].settled;
        assert!(settled < PARTITIONS as u64 * EACH, "killed in the middle");
        blocking(|| cluster.restart(1).unwrap());
        moments.push(Moment::now(&bootstrap, topic));
    }
    settled(&running, PARTITIONS as u64 * EACH).await;
    // A stop within a second of the coordinator's return was once seen to leave a position lower than what was settled.
    all_committed(&bootstrap, topic, EACH).await;
    running.stop();
    let report = running.wait().await.unwrap();
    let outcomes = assert_complete(&bootstrap, topic, EACH, answered, &[&ledger]);
    for moment in moments {
        moment.assert_covered(&outcomes);
    }
    let delivered_again = report.subscriptions[0].received - PARTITIONS as u64 * EACH;
    assert!(again(&outcomes) as u64 <= delivered_again);
    assert_nothing_is_left(&cluster, topic, EACH).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_service_that_is_dropped_in_the_middle_is_caught_up_by_the_next_one() {
    const EACH: u64 = 20_000;
    let (cluster, topic) = (cluster(), "replies-dropped");
    let bootstrap = cluster.bootstrap();
    topics(cluster, topic, EACH);
    let mut lives = Vec::new();
    let mut covered = BTreeMap::new();
    for life in 1..=2 {
        let ledger = Ledger::new();
        let running = start_answering(kafka(cluster), topic, &ledger).await;
        ledger
            .until("some are handled", |handled| total(handled) >= 15_000)
            .await;
        drop(running);
        assert!(
            total(&ledger.handled()) < 60_000,
            "life {life} was dropped in the middle"
        );
        let moment = Moment::now(&bootstrap, topic);
        moment.assert_covered(&outcomes(&bootstrap, topic, answered));
        covered = moment.positions;
        lives.push(ledger);
    }
    let ledger = Ledger::new();
    let running = start_answering(kafka(cluster), topic, &ledger).await;
    all_committed(&bootstrap, topic, EACH).await;
    stop(running).await;
    lives.push(ledger);
    assert_complete(
        &bootstrap,
        topic,
        EACH,
        answered,
        &lives.iter().collect::<Vec<_>>(),
    );
    for (partition, offsets) in lives.last().unwrap().handled() {
        let position = covered.get(&partition).copied();
        assert!(
            offsets.first().copied() >= position,
            "{partition} was committed at {position:?}"
        );
    }
    assert_nothing_is_left(cluster, topic, EACH).await;
}

/// Not a test of its own: the process that the next test kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the next test"]
async fn a_process_that_replies() {
    let Some([bootstrap, topic]) = arguments() else {
        return;
    };
    init_logs();
    let kafka = Protocol::Cooperative
        .brisk(&bootstrap)
        .set("session.timeout.ms", "6000")
        .set("auto.commit.interval.ms", "100");
    let running = start_answering(kafka, &topic, &Ledger::new()).await;
    running.wait().await.unwrap();
}

/// A process that is not left behind by a test that fails.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_service_that_is_killed_in_the_middle_is_caught_up_by_the_next_one() {
    const EACH: u64 = 50_000;
    let (cluster, topic) = (cluster(), "replies-killed");
    let bootstrap = cluster.bootstrap();
    topics(cluster, topic, EACH);
    let child = blocking(|| child("replies::a_process_that_replies", &[&bootstrap, topic]).spawn());
    let service = Service(child.unwrap());
    poll_until("positions are committed", || {
        committed(&bootstrap, topic, PARTITIONS).len() == PARTITIONS as usize
    })
    .await;
    blocking(|| drop(service)); // SIGKILL
    let moment = Moment::now(&bootstrap, topic);
    let before = outcomes(&bootstrap, topic, answered);
    assert!(
        before.len() < PARTITIONS as usize * EACH as usize,
        "killed in the middle"
    );
    moment.assert_covered(&before);

    let positions = moment.positions;
    let ledger = Ledger::new();
    let running = start_answering(kafka(cluster), topic, &ledger).await;
    let left = i64::from(PARTITIONS) * EACH as i64 - positions.values().sum::<i64>();
    settled(&running, left as u64).await;
    stop(running).await;
    let after = outcomes(&bootstrap, topic, answered);
    let ends: BTreeMap<i32, i64> = (0..PARTITIONS)
        .map(|partition| (partition, EACH as i64))
        .collect();
    assert_eq!(without_outcome(&after, &ends), []);
    assert_eq!(committed(&bootstrap, topic, PARTITIONS), ends);
    // There again is only what was not committed.
    for ((partition, offset), Made { times, .. }) in after {
        let most = if offset < positions[&partition] { 1 } else { 2 };
        assert!(times <= most, "{partition}/{offset} has {times} replies");
    }
    assert_nothing_is_left(cluster, topic, EACH).await;
}

/// Lets two services of a group go on until the second one has its share, and checks that each record has its reply.
/// Before that there are `each` records in each partition.
async fn both_handle_the_rest(
    cluster: &Cluster,
    topic: &str,
    each: u64,
    services: [(Running, Arc<Ledger>); 2],
) {
    let bootstrap = cluster.bootstrap();
    let [(one, first), (two, second)] = services;
    let load = Load::start(&bootstrap, topic, PARTITIONS, each);
    second
        .until("the second service has its share", |handled| {
            handled.len() == PARTITIONS as usize / 2
        })
        .await;
    let each = load.stop();
    let all = || missing(&[&first.handled(), &second.handled()], PARTITIONS, each as i64).is_empty();
    poll_until("all is handled by one or the other", all).await;
    all_committed(&bootstrap, topic, each).await;
    stop(two).await;
    stop(one).await;
    assert_complete(&bootstrap, topic, each, answered, &[&first, &second]);
    assert_nothing_is_left(cluster, topic, each).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_revocation_while_the_broker_freezes_and_replies_are_pending_loses_none() {
    const EACH: u64 = 30_000;
    let (cluster, topic) = (blocking(|| own_cluster(1)), "frozen");
    topics(&cluster, topic, EACH);
    let (first, second) = (Ledger::new(), Ledger::new());
    let one = start_answering(kafka(&cluster), topic, &first).await;
    first
        .until("some are handled", |handled| total(handled) >= 20_000)
        .await;
    blocking(|| cluster.freeze(1).unwrap());
    let joining = start_answering(kafka(&cluster), topic, &second);
    let thawing = async {
        let unconfirmed = || total(&first.handled()) as u64 - one.report().subscriptions[0].settled;
        poll_until("no more replies can be sent", || unconfirmed() >= 4_096).await;
        blocking(|| cluster.thaw(1).unwrap());
    };
    let (two, ()) = tokio::join!(joining, thawing);
    let settled = one.report().subscriptions[0].settled;
    assert!(settled < PARTITIONS as u64 * EACH, "frozen in the middle");
    both_handle_the_rest(&cluster, topic, EACH, [(one, first), (two, second)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn replies_that_are_pending_at_the_drain_deadline_of_a_revocation_are_sent_by_the_next_owner() {
    const EACH: u64 = 3_000;
    let (cluster, topic) = (cluster(), "replies-late");
    topics(cluster, topic, EACH);
    let (first, second) = (Ledger::new(), Ledger::new());
    // Replies stay with the first service for much longer than a drain may take.
    let late = kafka(cluster).set_producer("linger.ms", "4000");
    let subscriber = answer.reply(out(topic)).drain_timeout(Duration::from_millis(300));
    let one = start(late, topic, &first, subscriber).await;
    first
        .until("each partition has a reply to wait for", |handled| {
            each(handled, PARTITIONS as usize, 1)
        })
        .await;
    let two = start_answering(kafka(cluster), topic, &second).await;
    poll_until("a drain deadline passes", || {
        one.report().subscriptions[0].unconfirmed > 0
    })
    .await;
    both_handle_the_rest(cluster, topic, EACH, [(one, first), (two, second)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn every_poison_record_is_in_the_dead_letter_topic_after_a_restart_of_the_broker() {
    const EACH: u64 = 250;
    let (cluster, topic) = (blocking(|| own_cluster(1)), "poison");
    let bootstrap = cluster.bootstrap();
    topics(&cluster, topic, 20);
    let ledger = Ledger::new();
    let running = start_refusing(kafka(&cluster), topic, &ledger).await;
    settled(&running, 80).await;
    blocking(|| {
        produce(&bootstrap, topic, PARTITIONS, 20..EACH);
        cluster.kill(1).unwrap();
        cluster.restart(1).unwrap();
    });
    let moment = Moment::now(&bootstrap, topic);
    settled(&running, PARTITIONS as u64 * EACH).await;
    // See the test of the two kills.
    all_committed(&bootstrap, topic, EACH).await;
    stop(running).await;
    let outcomes = assert_complete(&bootstrap, topic, EACH, dead_lettered, &[&ledger]);
    moment.assert_covered(&outcomes);
    assert_nothing_is_left(&cluster, topic, EACH).await;
}

/// Stops with a position below each record whose dead letter is not there.
async fn stops_below_what_has_no_letter(cluster: &Cluster, topic: &str, running: Running, letters: usize) {
    let bootstrap = cluster.bootstrap();
    let stopped = timeout(SOON, running.wait()).await.expect("an app that stops");
    let error = stopped.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    let text = error.to_string();
    assert!(text.starts_with("subscription refuse stopped at "), "{text}");
    assert!(text.contains("its dead letter was not confirmed in"), "{text}");
    let positions = committed(&bootstrap, topic, PARTITIONS);
    let settled: i64 = positions.values().sum();
    assert_eq!(settled, letters as i64, "{positions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_dead_letter_topic_that_is_deleted_stops_the_app_below_what_it_did_not_take() {
    let (cluster, topic) = (cluster(), "letters-deleted");
    topics(cluster, topic, 20);
    let ledger = Ledger::new();
    let kafka = kafka(cluster).set_producer("topic.metadata.propagation.max.ms", "500");
    let subscriber = refuse.dead_letter(out(topic)).retry(RetryPolicy::attempts(3));
    let running = start(kafka, topic, &ledger, subscriber).await;
    settled(&running, 80).await;
    blocking(|| {
        cluster.delete_topic(&out(topic)).unwrap();
        produce(&cluster.bootstrap(), topic, PARTITIONS, 20..40);
    });
    stops_below_what_has_no_letter(cluster, topic, running, 80).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_dead_letter_topic_that_is_too_small_stops_the_app_below_what_it_did_not_take() {
    let (cluster, topic) = (cluster(), "letters-too-large");
    blocking(|| {
        cluster.create_topic(topic, PARTITIONS, 1).unwrap();
        let small = [("max.message.bytes", "2000")];
        cluster
            .create_topic_with(&out(topic), PARTITIONS, 1, &small)
            .unwrap();
        produce(&cluster.bootstrap(), topic, PARTITIONS, 0..20);
    });
    let ledger = Ledger::new();
    // The limit is for a whole batch.
    let kafka = kafka(cluster).set_producer("batch.num.messages", "1");
    let running = start_refusing(kafka, topic, &ledger).await;
    settled(&running, 80).await;
    blocking(|| {
        let producer = producer(&cluster.bootstrap());
        let large = format!("20{}", " ".repeat(3_000));
        send(&producer, topic, 2, b"k", large.as_bytes());
        rdkafka::producer::Producer::flush(&producer, SOON).unwrap();
    });
    stops_below_what_has_no_letter(cluster, topic, running, 80).await;
    let bootstrap = cluster.bootstrap();
    Moment::now(&bootstrap, topic).assert_covered(&outcomes(&bootstrap, topic, dead_lettered));
}
