//! What a group with several members promises.

use std::collections::BTreeMap;

use super::Fixture;
use super::closing::position_after;
use super::consumer::{Consumer, Event, MANY, Seen};
use super::scene::{Scene, SubscriptionOf};
use crate::broker::{End, SubscribeRequest, Subscription};

/// Checks that a new member of a group gets some of the partitions, with the deliveries that were not stored.
///
/// # Panics
///
/// When that is not so.
pub async fn a_second_member_takes_its_share_and_what_was_not_stored(fixture: &impl Fixture) {
    let scene = Scene::new(
        fixture,
        "a_second_member_takes_its_share_and_what_was_not_stored",
        4,
    )
    .await;
    for partition in 0..4 {
        scene.publish_numbers(partition, 4).await;
    }
    let mut first = scene.subscribe().await;
    let seen = first.read(&scene, 16).await;
    for partition in 0..4 {
        let of_partition: Vec<_> = seen
            .iter()
            .filter(|seen| seen.partition == partition)
            .cloned()
            .collect();
        first.store(&scene, partition, position_after(&scene, &of_partition, 1));
    }
    let mut second = scene.subscribe().await;
    let mut seen = BTreeMap::<i32, Vec<String>>::new();
    let sharing = async {
        while !(shared(&first, &second, 4) && second.indices().iter().all(|index| read(&seen, *index) >= 2)) {
            tokio::select! {
                event = first.next(MANY) => give_back(&scene, &mut first, event),
                event = second.next(MANY) => match event {
                    Event::Batch(batch) => note(&mut seen, &batch),
                    event => give_back(&scene, &mut second, event),
                },
            }
        }
    };
    scene
        .within("the second member takes its share and reads it", sharing)
        .await;
    for index in second.indices() {
        let texts = seen.remove(&index).unwrap_or_default();
        scene.same(
            &texts,
            &vec!["2".to_owned(), "3".to_owned()],
            "the new owner gets what was not stored",
        );
    }
    close_both(&scene, first, second).await;
}

/// Checks that a revoked partition is nobody else's before its owner dropped it.
///
/// # Panics
///
/// When that is not so.
pub async fn a_partition_moves_only_after_its_drop(fixture: &impl Fixture) {
    let scene = Scene::new(fixture, "a_partition_moves_only_after_its_drop", 2).await;
    let request = || {
        let mut request: SubscribeRequest = scene.request();
        request.drain_timeout = fixture.patience();
        request
    };
    let mut first = scene.subscribe_with(request()).await;
    let accepting = async {
        while first.partitions.len() < 2 {
            let event = first.next(MANY).await;
            give_back(&scene, &mut first, event);
        }
    };
    scene
        .within("the first member accepts both partitions", accepting)
        .await;
    let mut second = scene.subscribe_with(request()).await;
    let revoking = async {
        loop {
            tokio::select! {
                event = first.next(MANY) => match event {
                    Event::Ended(index, End::Revoked) => return index,
                    event => give_back(&scene, &mut first, event),
                },
                event = second.next(MANY) => give_back(&scene, &mut second, event),
            }
        }
    };
    let moving = scene
        .within("a partition is revoked when a second member joins", revoking)
        .await;
    let revoked = first.take(moving);
    scene
        .not_yet(
            "a revoked partition is handed on only after its drop",
            accepted(&scene, &mut first, &mut second, moving),
        )
        .await;
    drop(revoked);
    scene
        .within(
            "the partition is handed on",
            accepted(&scene, &mut first, &mut second, moving),
        )
        .await;
    close_both(&scene, first, second).await;
}

/// Drives both members until one of them has the partition `index`.
async fn accepted<F: Fixture>(
    scene: &Scene<'_, F>,
    first: &mut Consumer<SubscriptionOf<F>>,
    second: &mut Consumer<SubscriptionOf<F>>,
    index: i32,
) {
    while !first.indices().contains(&index) && !second.indices().contains(&index) {
        tokio::select! {
            event = first.next(MANY) => give_back(scene, first, event),
            event = second.next(MANY) => give_back(scene, second, event),
        }
    }
}

/// Drops a partition that was revoked; anything but that and an assignment is a fault.
fn give_back<F: Fixture>(scene: &Scene<'_, F>, consumer: &mut Consumer<SubscriptionOf<F>>, event: Event) {
    match event {
        Event::Ended(index, End::Revoked) => drop(consumer.take(index)),
        Event::Accepted(_) | Event::Batch(_) => {}
        other => scene.fail(&format!("a rebalance revokes and assigns, but: {other}")),
    }
}

fn shared<S: Subscription>(first: &Consumer<S>, second: &Consumer<S>, partitions: usize) -> bool {
    let (first, second) = (first.partitions.len(), second.partitions.len());
    first > 0 && second > 0 && first + second == partitions
}

fn read(seen: &BTreeMap<i32, Vec<String>>, partition: i32) -> usize {
    seen.get(&partition).map_or(0, Vec::len)
}

fn note(seen: &mut BTreeMap<i32, Vec<String>>, batch: &[Seen]) {
    for delivery in batch {
        seen.entry(delivery.partition).or_default().push(delivery.text());
    }
}

async fn close_both<F: Fixture>(
    scene: &Scene<'_, F>,
    first: Consumer<SubscriptionOf<F>>,
    second: Consumer<SubscriptionOf<F>>,
) {
    tokio::join!(scene.close(first), scene.close(second));
}
