//! Fills the topic, with the client's own producer: the framework's publisher is not there yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use ruststream::BoxError;

use crate::service::{Billing, Order, TOPIC};

/// A thread that makes orders.
#[derive(Debug)]
pub(crate) struct Producer {
    thread: JoinHandle<Result<(), String>>,
    stop: Arc<AtomicBool>,
}

/// Orders made and not yet billed, at most: the embedded broker keeps only 5 MiB a partition.
const WINDOW: u64 = 20_000;

/// How long the producer waits for room in its window or in the client's queue.
const PAUSE: Duration = Duration::from_millis(1);

/// Without an order billed for so long, the producer gives up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Producer {
    /// Makes `count` orders, as fast as they are billed.
    pub(crate) fn start(servers: &str, billing: Arc<Billing>, count: u64) -> Result<Self, BoxError> {
        let producer: ThreadedProducer<DefaultProducerContext> = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", servers)
            .set("linger.ms", "5")
            .create()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("orders".to_owned())
            .spawn(move || make(&producer, &billing, count, &stopped))?;
        Ok(Self { thread, stop })
    }

    /// Stops making orders; an error if one could not be made.
    pub(crate) fn stop(self) -> Result<(), BoxError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| "the producer's thread panicked")??;
        Ok(())
    }
}

fn make(
    producer: &ThreadedProducer<DefaultProducerContext>,
    billing: &Billing,
    count: u64,
    stop: &AtomicBool,
) -> Result<(), String> {
    for id in 0..count {
        if !wait_for_room(billing, id, stop)? {
            break;
        }
        let customer = format!("customer-{}", id % 1_000);
        let order = Order {
            run: billing.run,
            id,
            customer: &customer,
            cents: 100 + id % 9_900,
        };
        let payload = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
        let mut record = BaseRecord::to(TOPIC).key(&customer).payload(&payload);
        while let Err((error, refused)) = producer.send(record) {
            if !matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) {
                return Err(format!("order {id} was not sent: {error}"));
            }
            std::thread::park_timeout(PAUSE);
            record = refused;
        }
    }
    producer
        .flush(PATIENCE)
        .map_err(|error| format!("not every order was sent: {error}"))
}

/// Waits until fewer than `WINDOW` orders are open. `false`: there is no need for more.
fn wait_for_room(billing: &Billing, made: u64, stop: &AtomicBool) -> Result<bool, String> {
    let begun = Instant::now();
    while made - billing.billed().min(made) >= WINDOW {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("no order was billed for {PATIENCE:?}"));
        }
        std::thread::park_timeout(PAUSE);
    }
    Ok(!stop.load(Ordering::Relaxed))
}
