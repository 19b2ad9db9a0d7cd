//! What real nodes refuse, or do not answer: each error is typed, says what to do, and has the record; the publisher goes on
//! where it can.

use std::time::{Duration, SystemTime};

use ruststream::broker::Publisher;
use ruststream::{Confirmed, PublishError, PublishErrorKind as Kind, Record};
use ruststream_kafka_cluster::Cluster;
use ruststream_rdkafka::KafkaPublisher;
use tokio::time::{Instant, sleep, timeout};

use crate::publish::{breakable, kafka, payloads, resolved};
use crate::support::*;

/// A record with some of everything that has to come back.
fn rich(topic: &'static str, number: u64) -> Record {
    Record::new(topic, number.to_string())
        .key("ada")
        .null_header("trace")
        .header("trace", "")
        .to_partition(0)
}

async fn publish(publisher: &KafkaPublisher, record: Record) -> Result<Confirmed, PublishError> {
    timeout(SOON, publisher.publish(record)).await.expect("a result")
}

/// Publishes what will not be confirmed and is known not to be written.
async fn refused(publisher: &KafkaPublisher, record: Record, kind: Kind, remedy: &str) {
    let error = publish(publisher, record.clone()).await.unwrap_err();
    check(error, kind, remedy, false, &record);
}

fn check(error: PublishError, kind: Kind, remedy: &str, may_be_persisted: bool, record: &Record) {
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.may_be_persisted(), may_be_persisted, "{error}");
    let text = error.to_string();
    assert!(text.contains(record.topic()) && text.contains(remedy), "{text}");
    assert_eq!(error.into_record().as_ref(), Some(record));
}

/// Perhaps not at once: the publisher may have to connect, or to ask for the topic again.
async fn goes_on(publisher: &KafkaPublisher, record: Record) {
    let again = async {
        while publisher.publish(record.clone()).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, again).await.expect("a publisher that goes on");
}

/// A node that asks who may do what: everyone may do everything that no rule speaks of.
fn guarded(topics: &[&str], rules: &[&str]) -> Cluster {
    init_logs();
    blocking(|| {
        let cluster = Cluster::builder()
            .property(
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            )
            .property("allow.everyone.if.no.acl.found", "true")
            .start()
            .unwrap();
        for topic in topics {
            cluster.create_topic(topic, 1, 1).unwrap();
        }
        change_rules(&cluster, "add", rules);
        cluster
    })
}

fn change_rules(cluster: &Cluster, change: &str, rules: &[&str]) {
    java(cluster, "Acls", [change].into_iter().chain(rules.iter().copied()));
}

const GRANT: &str = "grant this user `Write` on the topic";
const ANOTHER: &str = "make another one";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK: just test-kafka"]
async fn topics_that_a_user_may_not_write_to_are_errors_until_the_right_is_granted() {
    // The second one cannot even be seen: where there are rules, what none of them allows is denied.
    let rules = [
        "DENY TOPIC sealed WRITE",
        "ALLOW TOPIC sealed DESCRIBE",
        "DENY TOPIC hidden WRITE",
    ];
    let cluster = guarded(&["open", "sealed", "hidden"], &rules);
    let publisher = kafka(&cluster).publisher().unwrap();
    for round in 0..2 {
        publish(&publisher, rich("open", round)).await.unwrap();
        for topic in ["sealed", "hidden"] {
            refused(&publisher, rich(topic, round), Kind::Unauthorized, GRANT).await;
        }
    }
    publish(&publisher, rich("open", 2)).await.unwrap();
    blocking(|| change_rules(&cluster, "remove", &rules));
    for topic in ["sealed", "hidden"] {
        goes_on(&publisher, rich(topic, 2)).await;
        assert_eq!(payloads(&cluster.bootstrap(), topic, 0), [2]);
    }
}

/// An idempotent producer asks for its id first, and is refused for good: librdkafka gives up what waits behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK: just test-kafka"]
async fn a_user_who_may_write_nothing_is_told_so_for_what_waits_and_what_comes() {
    let rules = [
        "ALLOW CLUSTER kafka-cluster ALL",
        "DENY CLUSTER kafka-cluster IDEMPOTENT_WRITE",
        "DENY TOPIC * WRITE",
        "ALLOW TOPIC * DESCRIBE",
    ];
    let cluster = guarded(&["orders"], &rules);
    let publisher = kafka(&cluster).publisher().unwrap();
    let mut waiting = Vec::new();
    for number in 0..100 {
        waiting.push(publisher.send(rich("orders", number)).await.unwrap());
    }
    for (number, receipt) in (0..).zip(waiting) {
        let error = resolved(receipt).await.unwrap_err();
        assert!(error.to_string().contains(ANOTHER), "{error}");
        check(error, Kind::Unauthorized, GRANT, false, &rich("orders", number));
    }
    refused(&publisher, rich("orders", 0), Kind::Unauthorized, GRANT).await;
    blocking(|| change_rules(&cluster, "remove", &rules));
    refused(&publisher, rich("orders", 0), Kind::Unauthorized, ANOTHER).await;
    let another = kafka(&cluster).publisher().unwrap();
    goes_on(&another, rich("orders", 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK: just test-kafka"]
async fn a_publisher_whose_place_was_taken_says_so_and_another_one_goes_on() {
    blocking(|| cluster().create_topic("fenced", 2, 1).unwrap());
    let publisher = kafka(cluster()).publisher().unwrap();
    publish(&publisher, rich("fenced", 0)).await.unwrap();
    blocking(|| java(cluster(), "Fence", ["fenced", "99"]));
    for number in 1..4 {
        refused(&publisher, rich("fenced", number), Kind::Fenced, ANOTHER).await;
    }
    // It was fenced off where the other one wrote, and only there.
    let elsewhere = rich("fenced", 4).to_partition(1);
    publish(&publisher, elsewhere).await.unwrap();
    let another = kafka(cluster()).publisher().unwrap();
    publish(&another, rich("fenced", 5)).await.unwrap();
    assert_eq!(payloads(&cluster().bootstrap(), "fenced", 0), [0, 99, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_stopped_broker_costs_the_time_limit_and_records_come_back() {
    let cluster = breakable("orders", 1);
    let publisher = kafka(&cluster)
        .set_producer("message.timeout.ms", "2000")
        .publisher()
        .unwrap();
    publish(&publisher, rich("orders", 0)).await.unwrap();
    blocking(|| cluster.terminate(1).unwrap());
    let begun = Instant::now();
    let mut receipts = Vec::new();
    for number in 1..=500 {
        receipts.push(publisher.send(rich("orders", number)).await.unwrap());
    }
    for (number, receipt) in (1..).zip(receipts) {
        let error = resolved(receipt).await.unwrap_err();
        check(error, Kind::TimedOut, REACH, false, &rich("orders", number));
    }
    // Time limits are looked at once a second, and between attempts to connect, which are at most a second apart.
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    blocking(|| cluster.restart(1).unwrap());
    goes_on(&publisher, rich("orders", 0)).await;
    let written = payloads(&cluster.bootstrap(), "orders", 0);
    assert!(written.iter().all(|number| *number == 0), "{written:?}");
}

const REACH: &str = "check that the cluster can be reached, or raise `message.timeout.ms`";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_frozen_broker_costs_the_time_limit_and_only_what_was_under_way_may_be_written() {
    let cluster = breakable("orders", 1);
    // One record a request, and one request under way: the rest waits.
    let publisher = kafka(&cluster)
        .set_producer("message.timeout.ms", "2000")
        .set_producer("batch.num.messages", "1")
        .set_producer("max.in.flight.requests.per.connection", "1")
        .publisher()
        .unwrap();
    publish(&publisher, rich("orders", 0)).await.unwrap();
    blocking(|| cluster.freeze(1).unwrap());
    let begun = Instant::now();
    let mut receipts = Vec::new();
    for number in 1..=500 {
        receipts.push(publisher.send(rich("orders", number)).await.unwrap());
    }
    for (number, receipt) in (1..).zip(receipts) {
        let error = resolved(receipt).await.unwrap_err();
        let under_way = number == 1;
        check(error, Kind::TimedOut, REACH, under_way, &rich("orders", number));
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    blocking(|| cluster.thaw(1).unwrap());
    goes_on(&publisher, rich("orders", 0)).await;
    let written = payloads(&cluster.bootstrap(), "orders", 0);
    assert!(written.iter().all(|number| *number <= 1), "{written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn a_topic_that_does_not_exist_is_an_error_until_it_does() {
    let publisher = kafka(cluster())
        .set_producer("topic.metadata.propagation.max.ms", "1000")
        .publisher()
        .unwrap();
    for number in 0..2 {
        let record = rich("later", number);
        refused(&publisher, record, Kind::UnknownTopic, "create the topic").await;
    }
    blocking(|| cluster().create_topic("later", 1, 1).unwrap());
    goes_on(&publisher, rich("later", 2)).await;
    // And once more: its positions begin anew.
    blocking(|| {
        cluster().delete_topic("later").unwrap();
        cluster().create_topic("later", 1, 1).unwrap();
    });
    goes_on(&publisher, rich("later", 3)).await;
    assert_eq!(payloads(&cluster().bootstrap(), "later", 0), [3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn what_is_too_large_for_the_topic_or_for_the_publisher_comes_back() {
    let settings = [("max.message.bytes", "1000")];
    blocking(|| {
        cluster()
            .create_topic_with("small-records", 1, 1, &settings)
            .unwrap();
    });
    let by_broker = kafka(cluster()).publisher().unwrap();
    let by_itself = kafka(cluster())
        .set_producer("message.max.bytes", "1000")
        .publisher()
        .unwrap();
    let large = Record::new("small-records", vec![b'x'; 2_000]).key("ada");
    for publisher in [by_broker, by_itself] {
        let (large, remedy) = (large.clone(), "raise `message.max.bytes`");
        refused(&publisher, large, Kind::TooLarge, remedy).await;
        publish(&publisher, rich("small-records", 0)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn what_the_topic_forbids_comes_back_in_the_brokers_words_and_its_neighbours_are_called_valid() {
    let settings = [("cleanup.policy", "compact")];
    blocking(|| {
        cluster().create_topic_with("compacted", 1, 1, &settings).unwrap();
    });
    // Time for three records to become one batch.
    let publisher = kafka(cluster())
        .set_producer("linger.ms", "300")
        .publisher()
        .unwrap();
    publish(&publisher, rich("compacted", 0)).await.unwrap();
    let keyless = Record::new("compacted", "").to_partition(0);
    let batch = [rich("compacted", 1), keyless.clone(), rich("compacted", 2)];
    let mut receipts = Vec::new();
    for record in batch.clone() {
        receipts.push(publisher.send(record).await.unwrap());
    }
    for (record, receipt) in batch.into_iter().zip(receipts) {
        let error = resolved(receipt).await.unwrap_err();
        let (kind, remedy) = if record == keyless {
            (Kind::Invalid, "Compacted topic cannot accept message without key")
        } else {
            (Kind::Broker, "this one is valid: send it again")
        };
        check(error, kind, remedy, false, &record);
    }
    // By default, brokers take what is an hour early at most.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let early = SystemTime::UNIX_EPOCH + Duration::from_secs(now + 2 * 60 * 60);
    let early = rich("compacted", 3).at(early);
    refused(&publisher, early, Kind::Invalid, "out of range").await;
    publish(&publisher, rich("compacted", 4)).await.unwrap();
}
