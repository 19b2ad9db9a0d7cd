//! Kafka for `ruststream`, over librdkafka.
//!
//! [`KafkaBroker`] is what an app is given; the rest is what the runtime sees of it.
//!
//! ```no_run
//! # async fn run() -> Result<(), ruststream::Error> {
//! use ruststream_rdkafka::KafkaBroker;
//!
//! let broker = KafkaBroker::from_env()?;
//! broker.create_topic("orders", 12).await?;
//! # Ok(())
//! # }
//! ```

mod admin;
mod blocking;
mod broker;
mod config;
mod consumer;
mod embedded;
mod env;
mod native;
mod publisher;
mod sync;

pub use broker::{KafkaBroker, StartPosition};
pub use consumer::{KafkaPartition, KafkaSubscription};
#[cfg(feature = "embedded")]
pub use embedded::{ApiKey, EmbeddedCluster};
pub use native::KafkaDelivery;
pub use publisher::{KafkaPublisher, KafkaReceipt, KafkaSender};

/// The README's examples, compiled and run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
