//! Shows the fault of librdkafka 2.12 that `consumer/partition.rs` works around.
//!
//! When this test fails, the bundled librdkafka has the fix (2.13.2), and the work-around can go.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::bindings::{rd_kafka_pause_partitions, rd_kafka_resume_partitions};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use ruststream::broker::Delivery;

use super::mock::Mock;
use super::{Client, KafkaDelivery, List, PartitionQueue};

const TOPIC: &CStr = c"orders";
const SOON: Duration = Duration::from_secs(20);

fn produce(mock: &Mock, payloads: &[&str]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", mock.bootstrap_servers());
    let producer: BaseProducer = config.create().expect("a producer");
    for payload in payloads {
        let record = BaseRecord::<str, str>::to("orders").partition(0).payload(payload);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("room for a record");
    }
    producer.flush(SOON).expect("a confirmation");
}

/// Reads until `done`, without the work-around.
fn read(queue: &PartitionQueue, done: impl Fn(&KafkaDelivery) -> bool) -> Vec<KafkaDelivery> {
    let until = Instant::now() + SOON;
    let mut all = VecDeque::new();
    while !all.back().is_some_and(&done) {
        assert!(Instant::now() < until, "nothing came");
        queue.read(1, &mut all);
        std::thread::yield_now();
    }
    all.into()
}

/// What every rebalance does to every partition.
fn pause_and_resume(client: &Client, list: &List) {
    // SAFETY: both are alive; the calls wait for the main thread's answer.
    unsafe {
        rd_kafka_pause_partitions(client.as_ptr(), list.as_ptr());
        rd_kafka_resume_partitions(client.as_ptr(), list.as_ptr());
    }
}

#[test]
fn without_the_work_around_librdkafka_skips_the_record_after_an_error() {
    let mock = Mock::start().unwrap();
    mock.create_topic(&TOPIC.to_owned(), 1).unwrap();
    produce(&mock, &["0", "1"]);
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", mock.bootstrap_servers())
        .set("group.id", "billing")
        .set("fetch.wait.max.ms", "10")
        .set("fetch.error.backoff.ms", "300")
        .set("enable.auto.offset.store", "false");
    let client = Client::new(&config, Some(Arc::new(()))).unwrap();
    let queue = PartitionQueue::new(&client, TOPIC, 0).unwrap();
    let mut list = List::new();
    list.add(TOPIC, 0, Some(0));
    client.assign(&list).unwrap();
    read(&queue, |delivery| delivery.offset() == 1);

    // Unknown server error, for two fetches: an error in the response that first reaches the end is overlooked.
    mock.fail_next(1, &[-1, -1]);
    let error = read(&queue, KafkaDelivery::is_fault).pop().unwrap();
    assert_eq!(error.offset(), 2);
    pause_and_resume(&client, &list);
    produce(&mock, &["2", "3"]);
    let next = read(&queue, |delivery| !delivery.is_fault()).pop().unwrap();
    assert_eq!(
        next.offset(),
        3,
        "librdkafka does not skip record 2 any more: remove the work-around"
    );

    drop((error, next, queue, list));
    client.set_left(); // it never joined
}
