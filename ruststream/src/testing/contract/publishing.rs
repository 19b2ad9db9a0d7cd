//! What a publisher promises.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::PublishFixture;
use super::consumer::Seen;
use super::reading::check_numbers;
use super::scene::Scene;
use crate::broker::{Publisher, Receipt};
use crate::{PublishErrorKind, Record};

/// More than any client sends at once, and few enough to be quick everywhere.
const SEVERAL: usize = 200;

/// Checks that key, payload, headers, timestamp and partition arrive as they were sent, at the confirmed position.
///
/// # Panics
///
/// When that is not so.
pub async fn a_confirmed_record_is_delivered_as_it_was_sent(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "a_confirmed_record_is_delivered_as_it_was_sent", 3).await;
    let publisher = fixture.publisher().await;
    let at = now_in_millis();
    let record = Record::new(scene.topic.clone(), "")
        .key("ada")
        .header("trace", "2")
        .null_header("retry")
        .header("trace", "")
        .header("Trace", "1")
        .at(at)
        .to_partition(2);
    let published = scene
        .within("a record is confirmed", publisher.publish(record.clone()))
        .await;
    let confirmed = scene.expect(published, "a record is confirmed");
    let seen = read(&scene, 1).await;
    let Some(seen) = seen.first() else {
        scene.fail("the record is delivered");
    };
    scene.same(
        &(confirmed.partition, confirmed.offset),
        &(2, seen.offset),
        "the confirmation names the position",
    );
    let headers: Vec<_> = seen
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect();
    scene.same(&seen.partition, &2, "an explicit partition is obeyed");
    scene.same(&seen.key.as_deref(), &record.key_bytes(), "the key arrives");
    scene.same(
        &seen.payload.as_deref(),
        &record.payload(),
        "an empty payload arrives",
    );
    scene.same(&headers, &record.headers().collect(), "the headers arrive");
    scene.same(&seen.timestamp, &Some(at), "the timestamp arrives");
}

/// Checks that a record without key and payload arrives with both null.
///
/// # Panics
///
/// When that is not so.
pub async fn a_tombstone_is_published(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "a_tombstone_is_published", 1).await;
    let publisher = fixture.publisher().await;
    let published = publisher.publish(Record::tombstone(scene.topic.clone()));
    let published = scene.within("a tombstone is confirmed", published).await;
    scene.expect(published, "a tombstone is confirmed");
    let seen: Vec<_> = read(&scene, 1)
        .await
        .into_iter()
        .map(|seen| (seen.key, seen.payload))
        .collect();
    scene.same(&seen, &vec![(None, None)], "key and payload are null");
}

/// Checks that records that are sent before earlier ones were confirmed keep their order, clones of the publisher
/// included, and that each receipt resolves.
///
/// # Panics
///
/// When that is not so.
pub async fn records_of_a_publisher_keep_their_order(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "records_of_a_publisher_keep_their_order", 1).await;
    let publishers = [fixture.publisher().await, fixture.publisher().await];
    let Some(publisher) = publishers.first() else {
        scene.fail("there is a publisher");
    };
    let clone = publisher.clone();
    let mut receipts = Vec::new();
    for number in 0..SEVERAL {
        let publisher = if number % 2 == 0 { publisher } else { &clone };
        let sent = publisher.send(numbered(&scene, number)).await;
        receipts.push(scene.expect(sent, "a record is enqueued"));
    }
    let mut offsets = Vec::new();
    // The newest first: a receipt does not need its elders to be asked.
    for receipt in receipts.into_iter().rev() {
        let confirmed = scene.within("a receipt resolves", receipt).await;
        offsets.push(scene.expect(confirmed, "a record is confirmed").offset);
    }
    let seen = read(&scene, SEVERAL).await;
    check_numbers(&scene, &seen, 0);
    offsets.reverse();
    let delivered: Vec<_> = seen.iter().map(|seen| seen.offset).collect();
    scene.same(&offsets, &delivered, "confirmations name the positions");
}

/// Checks that `send_all` sends in order and counts the confirmations.
///
/// # Panics
///
/// When that is not so.
pub async fn send_all_confirms_every_record(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "send_all_confirms_every_record", 1).await;
    let publisher = fixture.publisher().await;
    let records = (0..SEVERAL).map(|number| numbered(&scene, number));
    let records: Vec<_> = records.collect();
    let sent = scene
        .within("all records are confirmed", publisher.send_all(records))
        .await;
    let confirmed = scene.expect(sent, "all records are confirmed");
    scene.same(&confirmed, &(SEVERAL as u64), "confirmations are counted");
    check_numbers(&scene, &read(&scene, SEVERAL).await, 0);
}

/// Checks that `try_send` enqueues where there is room, and that its receipt can be looked at without waiting.
///
/// # Panics
///
/// When that is not so.
pub async fn try_send_hands_over_a_receipt(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "try_send_hands_over_a_receipt", 1).await;
    let publisher = fixture.publisher().await;
    let tried = publisher.try_send(numbered(&scene, 0));
    let mut receipt = scene.expect(tried, "a record is enqueued where there is room");
    let flushed = scene
        .within("a flush ends", publisher.flush(scene.deadline()))
        .await;
    scene.expect(flushed, "a flush ends");
    let Some(confirmed) = receipt.now() else {
        scene.fail("a receipt has its result after a flush");
    };
    scene.expect(confirmed, "the record is confirmed");
    check_numbers(&scene, &read(&scene, 1).await, 0);
}

/// Checks that a record whose receipt was dropped at once arrives.
///
/// # Panics
///
/// When that is not so.
pub async fn a_dropped_receipt_loses_no_record(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "a_dropped_receipt_loses_no_record", 1).await;
    let publisher = fixture.publisher().await;
    for number in 0..SEVERAL {
        let sent = publisher.send(numbered(&scene, number)).await;
        drop(scene.expect(sent, "a record is enqueued"));
    }
    check_numbers(&scene, &read(&scene, SEVERAL).await, 0);
}

/// Checks that everything is confirmed when `flush` returns.
///
/// # Panics
///
/// When that is not so.
pub async fn flush_waits_for_what_was_sent(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "flush_waits_for_what_was_sent", 1).await;
    let publisher = fixture.publisher().await;
    let mut receipts = Vec::new();
    for number in 0..SEVERAL {
        let sent = publisher.send(numbered(&scene, number)).await;
        receipts.push(scene.expect(sent, "a record is enqueued"));
    }
    let flushed = scene
        .within("a flush ends", publisher.flush(scene.deadline()))
        .await;
    scene.expect(flushed, "a flush ends");
    let confirmed = receipts.iter_mut().filter_map(Receipt::now).flatten().count();
    scene.same(&confirmed, &SEVERAL, "everything is confirmed after a flush");
}

/// Checks that a record for a partition that does not exist is refused, or its receipt fails, with the record.
///
/// # Panics
///
/// When that is not so.
pub async fn a_record_for_an_unknown_partition_comes_back(fixture: &impl PublishFixture) {
    let scene = Scene::new(fixture, "a_record_for_an_unknown_partition_comes_back", 1).await;
    let publisher = fixture.publisher().await;
    let record = numbered(&scene, 0)
        .to_partition(7)
        .key("ada")
        .header("trace", "a");
    let published = publisher.publish(record.clone());
    let published = scene.within("an unknown partition is noticed", published).await;
    let Err(error) = published else {
        scene.fail("a record for an unknown partition fails");
    };
    scene.same(
        &error.kind(),
        &PublishErrorKind::UnknownPartition,
        "the error says that the partition is unknown",
    );
    scene.check(!error.may_be_persisted(), "the record is nowhere");
    scene.same(&error.into_record(), &Some(record), "the record comes back");
}

async fn read<F: PublishFixture>(scene: &Scene<'_, F>, count: usize) -> Vec<Seen> {
    let mut consumer = scene.subscribe().await;
    let seen = consumer.read(scene, count).await;
    scene.close(consumer).await;
    seen
}

fn numbered<F: PublishFixture>(scene: &Scene<'_, F>, number: usize) -> Record {
    Record::new(scene.topic.clone(), number.to_string()).to_partition(0)
}

/// Brokers keep milliseconds.
pub(super) fn now_in_millis() -> SystemTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_millis(now.as_millis() as u64)
}
