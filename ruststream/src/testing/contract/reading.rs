//! What `poll_batch` and the deliveries promise.

use std::collections::VecDeque;
use std::future::poll_fn;

use tokio::task::JoinSet;

use super::consumer::{self, Event, MANY, Seen};
use super::scene::Scene;
use super::{Fixture, TestRecord};
use crate::broker::Partition;

/// Checks that the deliveries of a partition come in the order of publishing, with ascending offsets.
///
/// # Panics
///
/// When that is not so.
pub async fn deliveries_of_a_partition_come_in_order(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "deliveries_of_a_partition_come_in_order", 1).await;
    scene.publish_numbers(0, 20).await;
    let mut consumer = scene.subscribe().await;
    let seen = consumer.read(&scene, 20).await;
    check_numbers(&scene, &seen, 0);
    scene.close(consumer).await;
}

/// Checks that `poll_batch` adds at least one and at most `max` deliveries to what its caller has already.
///
/// # Panics
///
/// When that is not so.
pub async fn a_batch_grows_by_at_most_max_deliveries(fixture: &impl Fixture) {
    const MAX: usize = 3;
    let scene = Scene::new(fixture, "a_batch_grows_by_at_most_max_deliveries", 1).await;
    scene.publish_numbers(0, 10).await;
    let mut consumer = scene.subscribe_and_accept().await;
    let mut batch = VecDeque::new();
    for partition in &mut consumer.partitions {
        while batch.len() < 10 {
            let before = batch.len();
            let reading = poll_fn(|cx| partition.poll_batch(cx, MAX, &mut batch));
            let read = scene.within("deliveries come", reading).await;
            scene.expect(read, "a partition can be read");
            let grown = batch.len().saturating_sub(before);
            scene.check(
                (1..=MAX).contains(&grown),
                "a batch grows by at least one and at most `max` deliveries",
            );
        }
    }
    let seen: Vec<_> = batch.iter().map(consumer::seen).collect();
    drop(batch);
    check_numbers(&scene, &seen, 0);
    scene.close(consumer).await;
}

/// Checks that every record of several partitions is delivered, and none twice.
///
/// # Panics
///
/// When that is not so.
pub async fn every_record_of_every_partition_comes_once(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "every_record_of_every_partition_comes_once", 3).await;
    for partition in 0..3 {
        scene.publish_numbers(partition, 10).await;
    }
    let mut consumer = scene.subscribe().await;
    let mut seen = consumer.read(&scene, 30).await;
    // Had something come twice, it would come before these.
    for partition in 0..3 {
        scene.publish(scene.record(partition, "10")).await;
    }
    seen.extend(consumer.read(&scene, 3).await);
    for partition in 0..3 {
        let of_partition: Vec<_> = seen
            .iter()
            .filter(|seen| seen.partition == partition)
            .cloned()
            .collect();
        scene.same(&of_partition.len(), &11, "every record comes once");
        check_numbers(&scene, &of_partition, 0);
    }
    scene.close(consumer).await;
}

/// Checks that null and empty keys and payloads are told apart.
///
/// # Panics
///
/// When that is not so.
pub async fn null_and_empty_are_different_things(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "null_and_empty_are_different_things", 1).await;
    let empty = Some(Vec::new());
    let published = [
        (None, None),
        (None, empty.clone()),
        (empty.clone(), None),
        (empty.clone(), empty.clone()),
    ];
    for (key, payload) in published.clone() {
        scene
            .publish(TestRecord {
                key,
                payload,
                ..scene.tombstone(0)
            })
            .await;
    }
    let mut consumer = scene.subscribe().await;
    let seen = consumer.read(&scene, published.len()).await;
    let seen: Vec<_> = seen.into_iter().map(|seen| (seen.key, seen.payload)).collect();
    scene.same(
        &seen,
        &published.to_vec(),
        "null and empty keys and payloads arrive as they were published",
    );
    scene.close(consumer).await;
}

/// Checks that headers arrive in order, with repeated names, null and empty values, and names that differ by case.
///
/// # Panics
///
/// When that is not so.
pub async fn headers_keep_their_order_duplicates_and_nulls(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "headers_keep_their_order_duplicates_and_nulls", 1).await;
    let header =
        |name: &str, value: Option<&str>| (name.to_owned(), value.map(|value| value.as_bytes().to_vec()));
    let headers = vec![
        header("trace", Some("2")),
        header("retry", None),
        header("trace", Some("1")),
        header("Trace", Some("")),
        header("trace", None),
        header("trace", Some("2")),
    ];
    scene
        .publish(TestRecord {
            headers: headers.clone(),
            ..scene.record(0, "with")
        })
        .await;
    scene.publish(scene.record(0, "without")).await;
    let mut consumer = scene.subscribe().await;
    let seen = consumer.read(&scene, 2).await;
    let seen: Vec<_> = seen.into_iter().map(|seen| seen.headers).collect();
    scene.same(
        &seen,
        &vec![headers, Vec::new()],
        "headers arrive as they were published",
    );
    scene.close(consumer).await;
}

/// Checks that a partition without records is pending, has no end, and wakes its task when a record comes.
///
/// # Panics
///
/// When that is not so.
pub async fn an_empty_partition_is_pending_and_wakes_for_a_record(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "an_empty_partition_is_pending_and_wakes_for_a_record", 1).await;
    let mut consumer = scene.subscribe_and_accept().await;
    scene
        .not_yet("an empty partition is pending", consumer.next(MANY))
        .await;
    // A task of its own: nobody polls it unless the partition wakes it.
    let mut reader = JoinSet::new();
    reader.spawn(async move { (consumer.next(MANY).await, consumer) });
    scene
        .not_yet("an empty partition stays pending", reader.join_next())
        .await;
    scene.publish(scene.record(0, "0")).await;
    let read = scene
        .within("a record wakes the task of its partition", reader.join_next())
        .await;
    let Some(Ok((Event::Batch(seen), consumer))) = read else {
        scene.fail("the record is delivered");
    };
    check_numbers(&scene, &seen, 0);
    scene.close(consumer).await;
}

/// Checks that `seen` are numbers from `first` on, with ascending offsets.
pub(super) fn check_numbers<F: Fixture>(scene: &Scene<'_, F>, seen: &[Seen], first: usize) {
    let texts: Vec<_> = seen.iter().map(Seen::text).collect();
    let expected: Vec<_> = (first..first + seen.len())
        .map(|number| number.to_string())
        .collect();
    scene.same(
        &texts,
        &expected,
        "the deliveries come in the order of publishing",
    );
    let ascending = seen
        .iter()
        .zip(seen.iter().skip(1))
        .all(|(one, next)| one.offset < next.offset);
    scene.check(ascending, "offsets ascend");
}
