//! What `store`, `close` and the end of an assignment promise.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Fixture;
use super::consumer::{Consumer, Event, MANY, Seen, ended};
use super::reading::check_numbers;
use super::scene::Scene;
use crate::broker::{Committed, End, Partition, Subscription};

/// Checks that the group goes on where it stored, after a close.
///
/// # Panics
///
/// When that is not so.
pub async fn a_stored_position_is_where_the_next_owner_starts(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "a_stored_position_is_where_the_next_owner_starts", 1).await;
    scene.publish_numbers(0, 5).await;
    let mut first = scene.subscribe().await;
    let seen = first.read(&scene, 5).await;
    first.store(&scene, 0, position_after(&scene, &seen, 0));
    first.store(&scene, 0, position_after(&scene, &seen, 2));
    scene.close(first).await;
    let mut next = scene.subscribe().await;
    let seen = next.read(&scene, 2).await;
    check_numbers(&scene, &seen, 3);
    scene.close(next).await;
}

/// Checks that deliveries that no stored position covers come again.
///
/// # Panics
///
/// When that is not so.
pub async fn unsettled_deliveries_come_again(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "unsettled_deliveries_come_again", 1).await;
    scene.publish_numbers(0, 5).await;
    for _ in 0..2 {
        let mut consumer = scene.subscribe().await;
        let seen = consumer.read(&scene, 5).await;
        check_numbers(&scene, &seen, 0);
        scene.close(consumer).await;
    }
}

/// Checks that `close` ends what was accepted with [`End::Closed`], and returns when it was dropped, not before.
///
/// # Panics
///
/// When that is not so.
pub async fn close_ends_partitions_and_waits_for_their_drop(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "close_ends_partitions_and_waits_for_their_drop", 1).await;
    let consumer = scene.subscribe_and_accept().await;
    let deadline = scene.deadline();
    // Tasks of their own: nobody polls them unless the broker wakes them.
    let mut draining = JoinSet::new();
    for mut partition in consumer.partitions {
        draining.spawn(async move { (ended(&mut partition).await, partition) });
    }
    scene
        .not_yet("an assignment has no end while it lasts", draining.join_next())
        .await;
    let mut closing = JoinSet::new();
    closing.spawn(consumer.subscription.close(deadline));
    let drained = scene
        .within(
            "`close` ends the partition, and wakes its task",
            draining.join_next(),
        )
        .await;
    let Some(Ok((end, mut partition))) = drained else {
        scene.fail("`poll_end` does not panic");
    };
    scene.same(
        &end,
        &End::Closed,
        "a partition ends with `Closed` when its subscription closes",
    );
    scene.same(&ended(&mut partition).await, &End::Closed, "an end stays");
    scene
        .not_yet("`close` waits for the drop of the partition", closing.join_next())
        .await;
    drop(partition);
    let closed = scene
        .within(
            "the drop of the partition lets `close` return",
            closing.join_next(),
        )
        .await;
    let Some(Ok(closed)) = closed else {
        scene.fail("`close` does not panic");
    };
    scene.expect(closed, "`close` succeeds");
}

/// Checks that `close` returns each position that was stored.
///
/// # Panics
///
/// When that is not so.
pub async fn close_returns_the_positions_that_were_committed(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "close_returns_the_positions_that_were_committed", 2).await;
    scene.publish_numbers(0, 3).await;
    scene.publish_numbers(1, 3).await;
    let mut consumer = scene.subscribe().await;
    let seen = consumer.read(&scene, 6).await;
    let mut stored = Vec::new();
    for (partition, nth) in [(0, 1), (1, 2)] {
        let of_partition: Vec<_> = seen
            .iter()
            .filter(|seen| seen.partition == partition)
            .cloned()
            .collect();
        let position = position_after(&scene, &of_partition, nth);
        consumer.store(&scene, partition, position);
        stored.push(Committed::new(&scene.topic, partition, position));
    }
    let committed = scene.close(consumer).await;
    scene.same(&committed, &stored, "`close` returns what was stored");
}

/// Checks that a subscription can be closed before it accepted anything.
///
/// # Panics
///
/// When that is not so.
pub async fn close_of_a_subscription_that_owns_nothing_returns(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "close_of_a_subscription_that_owns_nothing_returns", 1).await;
    let consumer = scene.subscribe().await;
    let committed = scene.close(consumer).await;
    scene.same(&committed, &Vec::new(), "nothing was committed");
}

/// Checks that `close` gives up at its deadline, and that what is stored later moves nothing.
///
/// # Panics
///
/// When that is not so.
pub async fn a_store_after_the_end_moves_nothing(fixture: &impl Fixture) {
    const SOON: Duration = Duration::from_millis(500);
    let scene = Scene::new(fixture, "a_store_after_the_end_moves_nothing", 1).await;
    scene.publish_numbers(0, 3).await;
    let mut first = scene.subscribe().await;
    let seen = first.read(&scene, 3).await;
    first.store(&scene, 0, position_after(&scene, &seen, 0));
    let Consumer {
        subscription,
        mut partitions,
    } = first;
    // Whether this is an error is the broker's affair: the position may have been committed in time.
    let _ = scene
        .within(
            "`close` gives up at its deadline",
            subscription.close(Instant::now() + SOON),
        )
        .await;
    for partition in &mut partitions {
        let _ = partition.store(position_after(&scene, &seen, 2));
    }
    drop(partitions);
    let mut next = scene.subscribe().await;
    let reading = async {
        loop {
            match next.next(MANY).await {
                Event::Batch(seen) if seen.iter().any(|seen| seen.text() == "1") => return,
                Event::Batch(_) | Event::Accepted(_) => {}
                other => scene.fail(&format!("the partition is read again, but: {other}")),
            }
        }
    };
    scene
        .within("what was stored too late comes again", reading)
        .await;
    scene.close(next).await;
}

/// The position that covers `seen` up to the one at `nth`.
pub(super) fn position_after<F: Fixture>(scene: &Scene<'_, F>, seen: &[Seen], nth: usize) -> i64 {
    match seen.get(nth) {
        Some(seen) => seen.offset + 1,
        None => scene.fail("every record is delivered"),
    }
}
