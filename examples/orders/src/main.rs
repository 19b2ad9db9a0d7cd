//! The main job: makes orders, serves them with a `#[subscriber]` handler, shows progress, ends with a summary.
//!
//! `cargo run -p orders` needs nothing installed: it runs on a Kafka inside the process. With
//! `KAFKA_BOOTSTRAP_SERVERS=host:9092` it does the same on a real one.

#![allow(clippy::print_stdout, reason = "a program for people")]

mod producer;
mod progress;
mod service;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use ruststream::{BoxError, Running};
use ruststream_rdkafka::KafkaBroker;

use producer::Producer;
use progress::Progress;
use service::{Billing, TOPIC};

/// Makes orders and bills them.
#[derive(Debug, Parser)]
struct Args {
    /// How many orders to make.
    #[arg(long, default_value_t = 200_000, conflicts_with = "forever")]
    count: u64,

    /// Go on until interrupted.
    #[arg(long)]
    forever: bool,
}

/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Partitions of the topic, if this program makes it.
const PARTITIONS: u16 = 4;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| "error,librdkafka=off".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let args = Args::parse();
    let count = if args.forever { u64::MAX } else { args.count };

    let kafka = match std::env::var_os("KAFKA_BOOTSTRAP_SERVERS") {
        Some(_) => KafkaBroker::from_env()?,
        None => KafkaBroker::embedded(),
    };
    kafka.create_topic(TOPIC, PARTITIONS).await?;
    let servers = kafka.bootstrap_servers().to_owned();
    println!(
        "{} orders on {servers}",
        if args.forever {
            "endless".to_owned()
        } else {
            count.to_string()
        }
    );

    let billing = Arc::new(Billing::new());
    let running = service::app(kafka, Arc::clone(&billing)).start().await?;
    let producer = Producer::start(&servers, Arc::clone(&billing), count)?;
    watch(&running, &billing, count).await?;

    producer.stop()?;
    running.stop();
    let report = running.wait().await?;
    progress::summary(&report, &billing);
    Ok(())
}

/// Shows progress until every order is billed, the app stops, or Ctrl-C.
async fn watch(running: &Running, billing: &Billing, count: u64) -> Result<(), BoxError> {
    let mut progress = Progress::new(count);
    let mut tick = tokio::time::interval(TICK);
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    while billing.billed() < count && !running.is_stopping() {
        tokio::select! {
            _ = tick.tick() => progress.show(billing.billed(), &running.report()),
            interrupted = &mut interrupt => {
                interrupted?;
                break;
            }
        }
    }
    progress.finish(billing.billed());
    Ok(())
}
