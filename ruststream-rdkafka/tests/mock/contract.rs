//! The contract of every broker, on the embedded cluster.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use ruststream::testing::contract::{Fixture, TestRecord, contract_suite};
use ruststream_rdkafka::KafkaBroker;

use crate::support::*;

struct Embedded {
    broker: KafkaBroker,
    producer: BaseProducer,
}

impl Fixture for Embedded {
    type Broker = KafkaBroker;

    async fn broker(&self) -> KafkaBroker {
        self.broker.clone()
    }

    async fn create_topic(&self, topic: &str, partitions: i32) {
        let partitions = u16::try_from(partitions).unwrap();
        self.broker.create_topic(topic, partitions).await.unwrap();
    }

    async fn publish(&self, test: TestRecord) {
        let add = |headers: OwnedHeaders, (key, value): &(String, Option<Vec<u8>>)| {
            let value = value.as_deref();
            headers.insert(Header { key, value })
        };
        let mut record = BaseRecord::<[u8], [u8]>::to(&test.topic)
            .partition(test.partition)
            .headers(test.headers.iter().fold(OwnedHeaders::new(), add));
        record.key = test.key.as_deref();
        record.payload = test.payload.as_deref();
        self.producer.send(record).map_err(|(error, _)| error).unwrap();
        tokio::task::block_in_place(|| self.producer.flush(SOON).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_on_the_embedded_cluster() {
    let broker = cluster("warm-up", 1).await;
    let producer = producer(&broker);
    contract_suite(&Embedded { broker, producer }).await;
}
