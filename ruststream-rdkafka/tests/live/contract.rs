//! The contract of every broker, on a real one, under each group protocol.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use ruststream::testing::contract::{Fixture, TestRecord, contract_suite};
use ruststream_rdkafka::KafkaBroker;

use crate::support::*;

struct Live {
    bootstrap: String,
    protocol: Protocol,
    producer: BaseProducer,
}

impl Live {
    fn new(protocol: Protocol) -> Self {
        let bootstrap = cluster().bootstrap();
        let producer = producer(&bootstrap);
        Self {
            bootstrap,
            protocol,
            producer,
        }
    }
}

impl Fixture for Live {
    type Broker = KafkaBroker;

    async fn broker(&self) -> KafkaBroker {
        self.protocol.on(&self.bootstrap)
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        blocking(|| cluster().create_topic(topic, partitions, 1).unwrap());
    }

    async fn publish(&self, test: TestRecord) {
        let headers = test
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header {
                    key,
                    value: value.as_deref(),
                })
            });
        let mut record = BaseRecord::<[u8], [u8]>::to(&test.topic)
            .partition(test.partition)
            .headers(headers);
        record.key = test.key.as_deref();
        record.payload = test.payload.as_deref();
        self.producer.send(record).map_err(|(error, _)| error).unwrap();
        blocking(|| self.producer.flush(SOON).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_contract_holds_in_a_cooperative_group() {
    contract_suite(&Live::new(Protocol::Cooperative)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_contract_holds_in_an_eager_group() {
    contract_suite(&Live::new(Protocol::Eager)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Java: just test-kafka"]
async fn the_contract_holds_in_a_group_of_the_next_generation() {
    contract_suite(&Live::new(Protocol::NextGeneration)).await;
}
