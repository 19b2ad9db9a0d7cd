//! A real app on the broker under test: start it, wait until it has settled, stop it, and look at what it left.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::PublishFixture;
use super::consumer::Seen;
use super::scene::Scene;
use crate::broker::{Committed, Publisher as _, SubscribeRequest};
use crate::{Confirmed, IntoSubscriber, Record, Report, Running, RustStream};

/// How often an app is asked what it has done: it makes no event of that.
const GLANCE: Duration = Duration::from_millis(1);

/// What comes after everything else.
const END: &str = "the end";

/// An app in the scene's group.
pub(super) async fn app<F: PublishFixture>(
    scene: &Scene<'_, F>,
    subscriber: impl IntoSubscriber,
) -> RustStream {
    let broker = scene.fixture.broker().await;
    RustStream::new(&*scene.group)
        .shutdown_timeout(scene.fixture.patience())
        .broker(broker, |broker| broker.mount(subscriber))
}

pub(super) async fn run<F: PublishFixture>(scene: &Scene<'_, F>, app: RustStream) -> Running {
    let started = scene.within("the app starts", app.start()).await;
    scene.expect(started, "the app starts")
}

pub(super) async fn start<F: PublishFixture>(
    scene: &Scene<'_, F>,
    subscriber: impl IntoSubscriber,
) -> Running {
    run(scene, app(scene, subscriber).await).await
}

pub(super) async fn stop<F: PublishFixture>(scene: &Scene<'_, F>, running: Running) -> Report {
    running.stop();
    let stopped = scene.within("the app stops", running.wait()).await;
    scene.expect(stopped, "the app stops in order")
}

/// Waits until `count` deliveries are settled.
pub(super) async fn settled<F: PublishFixture>(scene: &Scene<'_, F>, running: &Running, count: u64) {
    let settled = || -> u64 {
        let report = running.report();
        report.subscriptions.iter().map(|it| it.settled).sum()
    };
    let settling = async {
        while settled() < count {
            if running.is_stopping() {
                scene.fail("an app whose records are confirmed goes on");
            }
            sleep(GLANCE).await;
        }
    };
    scene
        .within(&format!("{count} deliveries are settled"), settling)
        .await;
    scene.same(&settled(), &count, "each delivery is settled once");
}

pub(super) fn replied(report: &Report) -> u64 {
    report.subscriptions.iter().map(|it| it.replied).sum()
}

/// `ends`: by partition, the position after its last source.
pub(super) fn check_committed<F: PublishFixture>(
    scene: &Scene<'_, F>,
    report: &Report,
    ends: &BTreeMap<i32, i64>,
) {
    let committed = report.subscriptions.iter().flat_map(|it| it.committed.clone());
    let mut committed: Vec<_> = committed.collect();
    committed.sort();
    let expected: Vec<_> = ends
        .iter()
        .map(|(partition, end)| Committed::new(&scene.topic, *partition, *end))
        .collect();
    scene.same(
        &committed,
        &expected,
        "the positions of all sources are committed at the stop",
    );
}

/// Checks that the group has read everything: what is published now comes next.
pub(super) async fn nothing_is_left<F: PublishFixture>(
    scene: &Scene<'_, F>,
    publisher: &F::Publisher,
    partitions: i32,
) {
    publish_end_marks(scene, publisher, partitions).await;
    let seen = read(scene, partitions as usize).await;
    let marks = seen.iter().all(|seen| seen.text() == END);
    scene.check(marks, "no source that is settled comes again");
}

pub(super) async fn publish<F: PublishFixture>(
    scene: &Scene<'_, F>,
    publisher: &F::Publisher,
    record: Record,
) -> Confirmed {
    let published = scene
        .within("a record is published", publisher.publish(record))
        .await;
    scene.expect(published, "a record is published")
}

pub(super) async fn publish_end_marks<F: PublishFixture>(
    scene: &Scene<'_, F>,
    publisher: &F::Publisher,
    partitions: i32,
) {
    for partition in 0..partitions {
        let mark = Record::new(scene.topic.clone(), END).to_partition(partition);
        publish(scene, publisher, mark).await;
    }
}

/// The first `count` unread records of a scene's topic.
pub(super) async fn read<F: PublishFixture>(scene: &Scene<'_, F>, count: usize) -> Vec<Seen> {
    let request = SubscribeRequest::new("reader", &scene.topic, &scene.group);
    let mut consumer = scene.subscribe_with(request).await;
    let seen = consumer.read(scene, count).await;
    scene.close(consumer).await;
    seen
}

/// All `count` records of a scene's topic: one too many would come before an end mark.
pub(super) async fn until_the_end<F: PublishFixture>(
    scene: &Scene<'_, F>,
    publisher: &F::Publisher,
    partitions: i32,
    count: usize,
) -> Vec<Seen> {
    publish_end_marks(scene, publisher, partitions).await;
    let mut seen = read(scene, count + partitions as usize).await;
    seen.retain(|seen| seen.payload.as_deref() != Some(END.as_bytes()));
    scene.same(&seen.len(), &count, "there are as many records as were sent");
    seen
}

pub(super) async fn texts_until_the_end<F: PublishFixture>(
    scene: &Scene<'_, F>,
    publisher: &F::Publisher,
    partitions: i32,
    count: usize,
) -> Vec<String> {
    let seen = until_the_end(scene, publisher, partitions, count).await;
    seen.iter().map(Seen::text).collect()
}
