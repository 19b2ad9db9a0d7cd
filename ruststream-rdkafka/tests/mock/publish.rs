//! The way out: every receipt resolves, once, whatever happens to the broker, the publisher and the runtime.

use std::time::{Duration, SystemTime};

use futures_util::future::{join_all, poll_immediate};
use ruststream::broker::{Publisher, Receipt};
use ruststream::testing::contract::{Fixture, PublishFixture, TestRecord, publishing_suite, replying_suite};
use ruststream::{Confirmed, ErrorKind, PublishError, PublishErrorKind as Kind, Record};
use ruststream_rdkafka::{KafkaBroker, KafkaPublisher, KafkaReceipt};
use tokio::time::{Instant, timeout};

use crate::support::*;

struct Embedded(KafkaBroker);

impl Fixture for Embedded {
    type Broker = KafkaBroker;

    async fn broker(&self) -> KafkaBroker {
        self.0.clone()
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        let partitions = u16::try_from(partitions).unwrap();
        self.0.create_topic(topic, partitions).await.unwrap();
    }

    async fn publish(&self, _: TestRecord) {
        unreachable!("the suite of publishing has a publisher")
    }
}

impl PublishFixture for Embedded {
    type Publisher = KafkaPublisher;

    async fn publisher(&self) -> KafkaPublisher {
        self.0.publisher().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_of_publishing_holds() {
    publishing_suite(&Embedded(cluster("any", 1).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_of_replying_holds() {
    replying_suite(&Embedded(cluster("any", 1).await)).await;
}

pub(crate) async fn resolved(receipt: KafkaReceipt) -> Result<Confirmed, PublishError> {
    timeout(SOON, receipt).await.expect("a receipt that resolves")
}

pub(crate) fn record(number: usize) -> Record {
    Record::new("orders", number.to_string()).to_partition(0)
}

/// With everything that a record can have.
pub(crate) fn rich() -> Record {
    Record::new("orders", "payload")
        .key("ada")
        .header("trace", "1")
        .null_header("trace")
        .header("empty", "")
        .at(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123))
        .to_partition(0)
}

/// A publisher that knows its topic, and whose broker is then down.
async fn cut_off(broker: &KafkaBroker) -> KafkaPublisher {
    let publisher = broker.publisher().unwrap();
    publisher.publish(record(0)).await.unwrap();
    broker.cluster().unwrap().stop_broker();
    publisher
}

async fn send(publisher: &KafkaPublisher, count: usize) -> Vec<KafkaReceipt> {
    let mut receipts = Vec::new();
    for number in 0..count {
        receipts.push(publisher.send(record(number)).await.unwrap());
    }
    receipts
}

/// The publisher goes on: perhaps not at once, when it has to connect, or looked the topic up while it was refused.
pub(crate) async fn publishes_again(publisher: &KafkaPublisher) {
    let again = async { while publisher.publish(rich()).await.is_err() {} };
    timeout(SOON, again).await.expect("a publisher that goes on");
}

async fn all_fail_with(kind: Kind, receipts: Vec<KafkaReceipt>) {
    for (number, receipt) in receipts.into_iter().enumerate() {
        let error = resolved(receipt).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.into_record(), Some(record(number)), "the record comes back");
    }
}

/// As `org.apache.kafka.common.utils.Utils.murmur2` in Java.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (nth, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * nth);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The vectors of Kafka's own test (`UtilsTest.testMurmur2`), and many more keys by the same function.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_go_where_the_java_client_sends_them() {
    const PARTITIONS: u16 = 7;
    let broker = cluster("orders", PARTITIONS).await;
    let publisher = broker.publisher().unwrap();
    let vectors = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];
    for (key, hash) in vectors {
        assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
    }
    let more: Vec<String> = (0..500)
        .map(|number| "k".repeat(number % 9) + &number.to_string())
        .collect();
    let keys = vectors
        .iter()
        .map(|(key, _)| *key)
        .chain(more.iter().map(String::as_str))
        .chain([""]);
    for key in keys {
        let confirmed = publisher
            .publish(Record::new("orders", "").key(key))
            .await
            .unwrap();
        let expected = (murmur2(key.as_bytes()) & 0x7fff_ffff) % u32::from(PARTITIONS);
        assert_eq!(confirmed.partition, expected as i32, "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_records_in_windows_are_confirmed_in_order() {
    const PARTITIONS: usize = 4;
    let broker = cluster("orders", PARTITIONS as u16).await;
    let publisher = broker.publisher().unwrap();
    let mut next = [0; PARTITIONS];
    for window in 0..100 {
        let mut receipts = Vec::new();
        for number in 0..1_000 {
            let record = Record::new("orders", "0123456789").to_partition((number % PARTITIONS) as i32);
            receipts.push(publisher.send(record).await.unwrap());
        }
        // Sometimes all are polled by tasks' wakers, sometimes one after another.
        let confirmed: Vec<_> = if window % 2 == 0 {
            timeout(SOON, join_all(receipts)).await.unwrap()
        } else {
            let mut confirmed = Vec::new();
            for receipt in receipts {
                confirmed.push(resolved(receipt).await);
            }
            confirmed
        };
        for confirmed in confirmed {
            let confirmed = confirmed.unwrap();
            let expected = &mut next[confirmed.partition as usize];
            assert_eq!(confirmed.offset, *expected);
            *expected += 1;
        }
    }
    assert_eq!(next, [25_000; PARTITIONS]);
    assert_eq!(publisher.unconfirmed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_publish_through_one_publisher() {
    let broker = cluster("orders", 4).await.max_unconfirmed(64);
    let publisher = broker.publisher().unwrap();
    let tasks: Vec<_> = (0..500)
        .map(|number| {
            let publisher = publisher.clone();
            spawn(async move {
                for round in 0..20 {
                    let record = Record::new("orders", round.to_string()).key(number.to_string());
                    publisher.publish(record).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(SOON, task).await.expect("a task that ends").unwrap();
    }
    assert_eq!(publisher.unconfirmed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_publisher_hands_the_record_back_and_makes_senders_wait_in_order() {
    const BOUND: usize = 3;
    let broker = cluster("orders", 1).await.max_unconfirmed(BOUND);
    let publisher = cut_off(&broker).await;
    let mut receipts = send(&publisher, BOUND).await;
    let error = publisher.try_send(rich()).unwrap_err();
    assert_eq!(error.kind(), Kind::Full);
    assert!(!error.may_be_persisted());
    assert_eq!(
        error.to_string(),
        "a record for topic orders was not sent: 3 records are unconfirmed, or others wait: await `send`"
    );
    assert_eq!(error.into_record(), Some(rich()));

    let mut waiting: Vec<_> = (BOUND..20)
        .map(|number| Box::pin(publisher.send(record(number))))
        .collect();
    for send in &mut waiting {
        assert!(poll_immediate(send).await.is_none(), "no room");
    }
    // The first one and another give up: nobody else is held up by it, and they send nothing.
    drop(waiting.remove(7));
    drop(waiting.remove(0));
    broker.cluster().unwrap().start_broker();
    // Polled in the wrong order, sent in the right one.
    waiting.reverse();
    let mut sent = timeout(SOON, join_all(waiting)).await.expect("room for all");
    sent.reverse();
    receipts.extend(sent.into_iter().map(Result::unwrap));
    for (number, receipt) in receipts.into_iter().enumerate() {
        // One record went before the broker was cut off.
        assert_eq!(resolved(receipt).await.unwrap().offset, number as i64 + 1);
    }
    let last = publisher.try_send(rich()).expect("room again");
    resolved(last).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_ends_at_its_deadline_and_says_what_is_unconfirmed() {
    let broker = cluster("orders", 1).await;
    let publisher = cut_off(&broker).await;
    let receipts = send(&publisher, 5).await;
    let begun = Instant::now();
    let error = publisher
        .flush(begun + Duration::from_millis(200))
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(
        error
            .to_string()
            .starts_with("5 records were not confirmed by Kafka at "),
        "{error}"
    );
    broker.cluster().unwrap().start_broker();
    publisher.flush(soon()).await.unwrap();
    for mut receipt in receipts {
        receipt.now().expect("a result after a flush").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_sends_what_lingers() {
    let broker = cluster("orders", 1).await.set_producer("linger.ms", "60000");
    let publisher = broker.publisher().unwrap();
    let mut receipts = send(&publisher, 5).await;
    publisher.flush(soon()).await.unwrap();
    assert!(receipts.iter_mut().all(|receipt| receipt.now().unwrap().is_ok()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_not_confirmed_in_time_comes_back_whole() {
    let broker = cluster("orders", 1)
        .await
        .set_producer("message.timeout.ms", "4000");
    let publisher = cut_off(&broker).await;
    let (kept, dropped) = (
        publisher.send(rich()).await.unwrap(),
        publisher.send(rich()).await.unwrap(),
    );
    drop(dropped);
    let error = resolved(kept).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TimedOut);
    assert!(error.to_string().contains("Local: Message timed out"), "{error}");
    assert_eq!(error.into_record(), Some(rich()));
    // The one that nobody waits for is not forgotten.
    let unseen = publisher.flush(soon()).await.unwrap_err();
    assert_eq!(unseen.kind(), ErrorKind::Broker);
    assert_eq!(
        unseen.to_string(),
        "1 records whose receipts were dropped were not confirmed"
    );
    logged(&["its receipt was dropped", "Local: Message timed out"]).await;
    publisher.flush(soon()).await.expect("it was reported");
    // And the publisher goes on.
    broker.cluster().unwrap().start_broker();
    publishes_again(&publisher).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_waits_for_what_was_sent_and_ends_all_clones() {
    let broker = cluster("orders", 1).await;
    let publisher = broker.publisher().unwrap();
    let mut receipts = send(&publisher, 100).await;
    publisher.close(soon()).await.unwrap();
    assert!(receipts.iter_mut().all(|receipt| receipt.now().unwrap().is_ok()));
    let error = publisher.clone().publish(rich()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Closed);
    assert_eq!(error.into_record(), Some(rich()));
    publisher.close(soon()).await.expect("nothing is left to do");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_without_a_broker_resolves_every_receipt_and_every_sender_by_its_deadline() {
    let broker = cluster("orders", 1).await.max_unconfirmed(500);
    let publisher = cut_off(&broker).await;
    let receipts = send(&publisher, 500).await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let publisher = publisher.clone();
            spawn(async move { publisher.send(rich()).await })
        })
        .collect();
    let begun = Instant::now();
    let error = publisher
        .close(begun + Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(
        error
            .to_string()
            .starts_with("500 records were not confirmed by Kafka at "),
        "{error}"
    );
    assert_eq!(publisher.unconfirmed(), 0);
    all_fail_with(Kind::Closed, receipts).await;
    for sender in waiting {
        let error = timeout(SOON, sender)
            .await
            .expect("a sender that ends")
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Closed);
        assert_eq!(error.into_record(), Some(rich()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_publisher_sends_what_is_under_way() {
    let broker = cluster("orders", 1).await.set_producer("linger.ms", "60000");
    let publisher = broker.publisher().unwrap();
    let mut receipts = send(&publisher, 1_000).await;
    let kept = receipts.split_off(500);
    drop((receipts, publisher));
    for receipt in kept {
        resolved(receipt).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_publisher_without_a_broker_resolves_every_receipt() {
    let broker = cluster("orders", 1).await;
    let publisher = cut_off(&broker).await;
    let mut receipts = send(&publisher, 1_000).await;
    let dropped = receipts.split_off(500);
    drop(dropped);
    let tasks: Vec<_> = receipts
        .into_iter()
        .map(|receipt| spawn(resolved(receipt)))
        .collect();
    drop(publisher);
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Closed, "{error}");
        assert!(error.record().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_resolve_when_the_runtime_of_their_publisher_is_gone() {
    let broker = cluster("orders", 1).await.set_producer("linger.ms", "300");
    let other = {
        let broker = broker.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let publisher = broker.publisher().unwrap();
                let receipts = send(&publisher, 100).await;
                (publisher, receipts)
            })
        })
    };
    let (publisher, receipts) = tokio::task::spawn_blocking(|| other.join().unwrap())
        .await
        .unwrap();
    for receipt in receipts {
        resolved(receipt).await.unwrap();
    }
    for receipt in send(&publisher, 100).await {
        resolved(receipt).await.unwrap();
    }
}

async fn send_until_refused(publisher: KafkaPublisher) -> Vec<KafkaReceipt> {
    let mut receipts = Vec::new();
    while let Ok(receipt) = publisher.send(record(0)).await {
        receipts.push(receipt);
    }
    receipts
}

/// A sender that was about to enqueue when the publisher was closed is waited for, or refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_beside_busy_senders_leaves_nothing_unconfirmed() {
    let broker = cluster("orders", 1).await;
    for _ in 0..20 {
        let publisher = broker.publisher().unwrap();
        let senders = [(); 4].map(|()| spawn(send_until_refused(publisher.clone())));
        publisher.publish(record(0)).await.unwrap();
        let _ = publisher.close(Instant::now()).await;
        assert_eq!(publisher.unconfirmed(), 0);
        for sender in senders {
            for mut receipt in timeout(SOON, sender).await.expect("a sender that ends").unwrap() {
                assert!(receipt.now().is_some(), "a receipt that has resolved");
            }
        }
    }
}

#[test]
fn a_publisher_needs_a_runtime_and_says_so() {
    let error = KafkaBroker::new("localhost:1").publisher().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Startup);
    assert!(
        error.to_string().contains("a publisher needs a tokio runtime"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_do_not_go_together_are_reported_in_librdkafkas_words() {
    let broker = KafkaBroker::new("localhost:1").set_producer("acks", "1");
    let error = broker.publisher().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Startup);
    assert!(error.to_string().contains("acks"), "{error}");
}
