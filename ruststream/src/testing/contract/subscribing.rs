//! What `subscribe` and `accept` promise.

use std::time::Duration;

use tokio::time::timeout;

use super::Fixture;
use super::consumer::Consumer;
use super::scene::{Scene, SubscriptionOf};
use crate::Problem;
use crate::broker::{Broker, Partition, SubscribeRequest, Subscription};

/// Checks that a subscription to a topic that does not exist is refused with its name.
///
/// # Panics
///
/// When that is not so.
pub async fn a_missing_topic_is_a_problem_that_names_it(fixture: &impl Fixture) {
    let scene = Scene::bare(fixture, "a_missing_topic_is_a_problem_that_names_it");
    let problems = refused(&scene, vec![scene.request()]).await;
    let named = problems
        .iter()
        .any(|problem| problem.to_string().contains(&scene.topic));
    scene.check(named, &format!("a problem names the missing topic: {problems:?}"));
}

/// Checks that two requests for one topic in one group are refused.
///
/// # Panics
///
/// When that is not so.
pub async fn two_subscriptions_of_one_topic_in_one_group_are_a_problem(fixture: &impl Fixture) {
    let scene = Scene::new(
        fixture,
        "two_subscriptions_of_one_topic_in_one_group_are_a_problem",
        1,
    )
    .await;
    let other = SubscribeRequest::new("other", &scene.topic, &scene.group);
    let problems = refused(&scene, vec![scene.request(), other]).await;
    let named = problems
        .iter()
        .any(|problem| problem.to_string().contains(&scene.topic));
    scene.check(named, &format!("a problem names the topic: {problems:?}"));
}

/// Checks that no partition is forgotten, or yielded twice, when `accept` is dropped again and again.
///
/// # Panics
///
/// When that is not so.
pub async fn accept_is_cancel_safe(fixture: &impl Fixture) {
    /// So short that nearly every call is dropped.
    const GLANCE: Duration = Duration::from_millis(1);

    let scene = Scene::new(fixture, "accept_is_cancel_safe", 3).await;
    let mut consumer: Consumer<_> = scene.subscribe().await;
    let accepting = async {
        while consumer.partitions.len() < 3 {
            let Ok(accepted) = timeout(GLANCE, consumer.subscription.accept()).await else {
                continue;
            };
            let accepted = scene.expect(accepted, "a partition is accepted");
            consumer.partitions.extend(accepted);
        }
    };
    scene.within("three partitions are accepted", accepting).await;
    scene.same(
        &consumer.indices(),
        &vec![0, 1, 2],
        "each partition is accepted once",
    );
    let of_the_topic = consumer
        .partitions
        .iter()
        .all(|partition| partition.topic() == scene.topic);
    scene.check(of_the_topic, "a partition knows its topic");
    scene.close(consumer).await;
}

async fn refused<F: Fixture>(scene: &Scene<'_, F>, requests: Vec<SubscribeRequest>) -> Vec<Problem> {
    let broker = scene.fixture.broker().await;
    let subscribed: Result<Vec<SubscriptionOf<F>>, _> = scene
        .within("`subscribe` answers", broker.subscribe(requests))
        .await;
    let Err(problems) = subscribed else {
        scene.fail("`subscribe` refuses the requests")
    };
    problems
}
