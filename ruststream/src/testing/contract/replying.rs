//! What an app whose handlers reply, send and fail promises on any broker: nothing settles before it is confirmed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PublishFixture;
use super::app::{
    app, check_committed, nothing_is_left, publish, read, replied, run, settled, start, stop,
    texts_until_the_end, until_the_end,
};
use super::consumer::Seen;
use super::publishing::now_in_millis;
use super::reading::check_numbers;
use super::scene::Scene;
use crate::broker::Publisher as _;
use crate::dead_letter::{self, Origin};
use crate::{
    BoxError, ErrorKind, Headers, IntoSubscriber, Publisher, Record, RetryPolicy, RustStream, State,
    subscriber,
};

/// The payload as it is; no reply to a payload that is empty.
#[subscriber("", reply = "", crate = crate)]
async fn answer(payload: &[u8]) -> Option<Vec<u8>> {
    (!payload.is_empty()).then(|| payload.to_vec())
}

#[subscriber("", dead_letter = "", crate = crate)]
async fn refuse(payload: &[u8]) -> Result<(), BoxError> {
    Err(format!("{} bytes are too many", payload.len()).into())
}

#[subscriber("", crate = crate)]
async fn triple(
    payload: &[u8],
    publisher: Publisher<'_>,
    State(copies): State<'_, Copies>,
) -> Result<(), BoxError> {
    for _ in 0..3 {
        let copy = Record::new(copies.topic.clone(), payload).to_partition(0);
        // Not awaited: its delivery waits for it in any case.
        drop(publisher.send(copy).await?);
    }
    Ok(())
}

/// Where [`triple`] sends.
struct Copies {
    topic: String,
}

/// Checks that a reply arrives with the key of its source and without its headers, and that the source's position is
/// committed when the app has stopped.
///
/// # Panics
///
/// When that is not so.
pub async fn a_reply_arrives_under_the_key_of_its_source(fixture: &impl PublishFixture) {
    const CHECK: &str = "a_reply_arrives_under_the_key_of_its_source";
    let (scene, replies) = (
        Scene::new(fixture, CHECK, 2).await,
        Scene::new(fixture, CHECK, 1).await,
    );
    let publisher = fixture.publisher().await;
    let sources = [
        Record::new(scene.topic.clone(), "first")
            .key("ada")
            .to_partition(0),
        Record::new(scene.topic.clone(), "second")
            .header("trace", "1")
            .to_partition(0),
        Record::new(scene.topic.clone(), "third").key("").to_partition(1),
    ];
    let mut ends = BTreeMap::new();
    for source in sources {
        let confirmed = publish(&scene, &publisher, source).await;
        ends.insert(confirmed.partition, confirmed.offset + 1);
    }
    let running = start(&scene, answer.topic(&*scene.topic).reply(&*replies.topic)).await;
    let mut seen = read(&replies, 3).await;
    let report = stop(&scene, running).await;
    check_committed(&scene, &report, &ends);
    seen.sort_by_key(|seen| seen.payload.clone());
    let seen: Vec<_> = seen
        .iter()
        .map(|seen| (seen.key.as_deref(), seen.text(), seen.headers.len()))
        .collect();
    let expected = [
        (Some(&b"ada"[..]), "first"),
        (None, "second"),
        (Some(&b""[..]), "third"),
    ];
    let expected = expected.map(|(key, text)| (key, text.to_owned(), 0)).to_vec();
    scene.same(
        &seen,
        &expected,
        "replies have the key of their source, and no headers",
    );
    scene.same(&replied(&report), &3, "confirmed replies are counted");
    nothing_is_left(&scene, &publisher, 2).await;
}

/// Checks that a handler that returns no reply settles its delivery, and that nothing is sent.
///
/// # Panics
///
/// When that is not so.
pub async fn no_reply_sends_nothing_and_settles(fixture: &impl PublishFixture) {
    const CHECK: &str = "no_reply_sends_nothing_and_settles";
    let (scene, replies) = (
        Scene::new(fixture, CHECK, 1).await,
        Scene::new(fixture, CHECK, 1).await,
    );
    let publisher = fixture.publisher().await;
    let mut ends = BTreeMap::new();
    for text in ["", "only", ""] {
        let confirmed = publish(&scene, &publisher, Record::new(scene.topic.clone(), text)).await;
        ends.insert(confirmed.partition, confirmed.offset + 1);
    }
    let running = start(&scene, answer.topic(&*scene.topic).reply(&*replies.topic)).await;
    settled(&scene, &running, 3).await;
    let report = stop(&scene, running).await;
    check_committed(&scene, &report, &ends);
    let texts = texts_until_the_end(&replies, &publisher, 1, 1).await;
    scene.same(&texts, &vec!["only".to_owned()], "there is one reply");
    scene.same(&replied(&report), &1, "one reply is counted");
    nothing_is_left(&scene, &publisher, 1).await;
}

/// Checks that deliveries that fail arrive in the dead-letter topic as they were, with where they came from and why.
///
/// # Panics
///
/// When that is not so.
pub async fn a_dead_letter_is_the_record_as_it_came_and_says_why(fixture: &impl PublishFixture) {
    const CHECK: &str = "a_dead_letter_is_the_record_as_it_came_and_says_why";
    let (scene, letters) = (
        Scene::new(fixture, CHECK, 2).await,
        Scene::new(fixture, CHECK, 1).await,
    );
    let publisher = fixture.publisher().await;
    let at = now_in_millis();
    let sources = [
        Record::new(scene.topic.clone(), [0xff, 0x00])
            .key([0x00, 0xfe])
            .header("trace", "1")
            .null_header("trace")
            .header("trace", "")
            .header("Trace", [0xff])
            .at(at)
            .to_partition(1),
        Record::tombstone(scene.topic.clone())
            .key("gone")
            .null_header("trace")
            .to_partition(0),
        Record::new(scene.topic.clone(), "").to_partition(0),
    ];
    let mut expected = Vec::new();
    let mut ends = BTreeMap::new();
    for (source, (kind, attempts)) in
        sources
            .into_iter()
            .zip([("transient", 2), ("undecodable", 1), ("transient", 2)])
    {
        let confirmed = publish(&scene, &publisher, source.clone()).await;
        ends.insert(confirmed.partition, confirmed.offset + 1);
        expected.push(((confirmed.partition, confirmed.offset), source, kind, attempts));
    }
    let policy = RetryPolicy::attempts(2).initial(Duration::from_millis(1));
    let subscriber = refuse
        .topic(&*scene.topic)
        .dead_letter(&*letters.topic)
        .retry(policy);
    let running = start(&scene, subscriber).await;
    settled(&scene, &running, 3).await;
    let report = stop(&scene, running).await;
    check_committed(&scene, &report, &ends);
    let seen = read(&letters, 3).await;
    for (position, source, kind, attempts) in &expected {
        let Some(letter) = seen.iter().find(|letter| came_from(letter) == Some(*position)) else {
            scene.fail(&format!("there is a dead letter of {position:?}"));
        };
        check_letter(&scene, letter, source, kind, *attempts);
    }
    nothing_is_left(&scene, &publisher, 2).await;
}

fn check_letter<F: PublishFixture>(
    scene: &Scene<'_, F>,
    letter: &Seen,
    source: &Record,
    kind: &str,
    attempts: u32,
) {
    scene.same(
        &letter.key.as_deref(),
        &source.key_bytes(),
        "the key is as it was",
    );
    scene.same(
        &letter.payload.as_deref(),
        &source.payload(),
        "the payload is as it was, null or not",
    );
    let headers = headers(letter);
    let before: Vec<_> = source.headers().collect();
    let kept: Vec<_> = headers.iter().take(before.len()).collect();
    scene.same(&kept, &before, "the headers come first, as they were");
    // Not every broker has timestamps.
    let added = headers.iter().skip(before.len()).map(|(name, _)| name);
    let added: Vec<_> = added.filter(|name| *name != dead_letter::TIMESTAMP).collect();
    scene.same(
        &added,
        &ADDED.to_vec(),
        "the headers of a dead letter follow, and no others",
    );
    let Some(origin) = Origin::of(&headers) else {
        scene.fail("a dead letter says where it came from");
    };
    scene.same(&origin.topic, &&*scene.topic, "the origin names the topic");
    scene.same(&origin.group, &&*scene.group, "the origin names the group");
    scene.same(
        &origin.subscription,
        &"refuse",
        "the origin names the subscription",
    );
    scene.same(
        &(origin.error_kind, origin.attempts),
        &(kind, attempts),
        "the origin says why",
    );
    scene.check(!origin.error_message.is_empty(), "the origin has a message");
    if source.timestamp().is_some() {
        scene.same(
            &letter.timestamp,
            &source.timestamp(),
            "the timestamp is as it was",
        );
    }
}

/// Checks that what a handler sent is in its topic when its delivery is settled, though it did not wait for it.
///
/// # Panics
///
/// When that is not so.
pub async fn what_a_handler_sends_is_there_when_its_source_is_settled(fixture: &impl PublishFixture) {
    const CHECK: &str = "what_a_handler_sends_is_there_when_its_source_is_settled";
    let (scene, copies) = (
        Scene::new(fixture, CHECK, 1).await,
        Scene::new(fixture, CHECK, 1).await,
    );
    let publisher = fixture.publisher().await;
    let mut ends = BTreeMap::new();
    for number in 0..20 {
        let source = Record::new(scene.topic.clone(), number.to_string());
        let confirmed = publish(&scene, &publisher, source).await;
        ends.insert(confirmed.partition, confirmed.offset + 1);
    }
    let app = app(&scene, triple.topic(&*scene.topic)).await.state(Copies {
        topic: copies.topic.clone(),
    });
    let running = run(&scene, app).await;
    settled(&scene, &running, 20).await;
    // Its end mark comes after whatever is in the topic at this moment.
    let texts = texts_until_the_end(&copies, &publisher, 1, 60).await;
    let expected: Vec<_> = (0..60).map(|copy| (copy / 3).to_string()).collect();
    scene.same(
        &texts,
        &expected,
        "three records of each source are there, in order",
    );
    let report = stop(&scene, running).await;
    check_committed(&scene, &report, &ends);
    nothing_is_left(&scene, &publisher, 1).await;
}

/// Checks that hundreds of replies, many of them unconfirmed at a time, arrive once each and in the order of their
/// sources under each key.
///
/// # Panics
///
/// When that is not so.
pub async fn replies_arrive_once_and_in_the_order_of_their_sources(fixture: &impl PublishFixture) {
    const CHECK: &str = "replies_arrive_once_and_in_the_order_of_their_sources";
    const PARTITIONS: i32 = 3;
    const KEYS: usize = 5;
    const EACH: usize = 40;
    let scene = Scene::new(fixture, CHECK, PARTITIONS).await;
    let replies = Scene::new(fixture, CHECK, PARTITIONS).await;
    let publisher = fixture.publisher().await;
    let mut records = Vec::new();
    for number in 0..EACH {
        for partition in 0..PARTITIONS {
            let keys = (0..KEYS).map(|key| format!("{partition}-{key}"));
            records.extend(keys.map(|key| {
                let record = Record::new(scene.topic.clone(), number.to_string());
                record.key(key).to_partition(partition)
            }));
        }
    }
    let count = records.len();
    let sent = scene
        .within("the sources are published", publisher.send_all(records))
        .await;
    scene.expect(sent, "the sources are published");
    let running = start(&scene, answer.topic(&*scene.topic).reply(&*replies.topic)).await;
    settled(&scene, &running, count as u64).await;
    let report = stop(&scene, running).await;
    scene.same(&replied(&report), &(count as u64), "each reply is confirmed");
    let mut by_key = BTreeMap::<_, Vec<Seen>>::new();
    for seen in until_the_end(&replies, &publisher, PARTITIONS, count).await {
        by_key.entry(seen.key.clone()).or_default().push(seen);
    }
    scene.same(
        &by_key.len(),
        &(KEYS * PARTITIONS as usize),
        "every key has its replies",
    );
    for seen in by_key.values() {
        scene.same(&seen.len(), &EACH, "each reply of a key arrives once");
        check_numbers(&scene, seen, 0);
    }
    nothing_is_left(&scene, &publisher, PARTITIONS).await;
}

/// Checks that topics for replies and dead letters that do not exist are problems of their subscriptions, at the start.
///
/// # Panics
///
/// When that is not so.
pub async fn a_missing_reply_or_dead_letter_topic_is_a_problem_of_its_subscription(
    fixture: &impl PublishFixture,
) {
    const CHECK: &str = "a_missing_reply_or_dead_letter_topic_is_a_problem_of_its_subscription";
    let (first, second) = (
        Scene::new(fixture, CHECK, 1).await,
        Scene::new(fixture, CHECK, 1).await,
    );
    let (replies, letters) = (Scene::bare(fixture, CHECK), Scene::bare(fixture, CHECK));
    let app = RustStream::new(&*first.group).broker(fixture.broker().await, |broker| {
        broker
            .mount(answer.topic(&*first.topic).reply(&*replies.topic))
            .mount(refuse.topic(&*second.topic).dead_letter(&*letters.topic))
    });
    let started = first.within("the start answers", app.start()).await;
    let Err(error) = started else {
        first.fail("an app whose topics are missing does not start");
    };
    first.same(&error.kind(), &ErrorKind::Startup, "it is an error of the start");
    for (subscription, topic) in [("answer", &replies.topic), ("refuse", &letters.topic)] {
        let named = error.problems().iter().any(|problem| {
            problem.subject() == format!("subscription {subscription}") && problem.message().contains(topic)
        });
        first.check(
            named,
            &format!("a problem of {subscription} names its topic: {error}"),
        );
    }
    first.same(&error.problems().len(), &2, "there are no other problems");
}

/// The headers that every dead letter has, in order.
const ADDED: [&str; 9] = [
    dead_letter::TOPIC,
    dead_letter::PARTITION,
    dead_letter::OFFSET,
    dead_letter::GROUP,
    dead_letter::SUBSCRIPTION,
    dead_letter::ATTEMPTS,
    dead_letter::ERROR_KIND,
    dead_letter::ERROR_MESSAGE,
    dead_letter::TIME,
];

fn headers(seen: &Seen) -> Headers<'_> {
    let headers = seen.headers.iter();
    headers
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect()
}

/// Where a dead letter came from.
fn came_from(letter: &Seen) -> Option<(i32, i64)> {
    let headers = headers(letter);
    let origin = Origin::of(&headers)?;
    Some((origin.partition, origin.offset))
}
