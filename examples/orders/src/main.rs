//! The main job: makes orders, bills them with a `#[subscriber]` handler that replies with invoices, shows progress, and
//! ends with a summary. The exit code is 1 unless each order has its confirmed invoice.
//!
//! `cargo run -p orders` needs nothing installed: it runs on a Kafka inside the process. With
//! `KAFKA_BOOTSTRAP_SERVERS=host:9092` it does the same on a real one.
//!
//! On Ctrl-C no more orders are made, and those that are get billed; a second one leaves them to the next run.

#![allow(clippy::print_stdout, reason = "a program for people")]

mod producer;
mod progress;
mod service;
mod totals;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use ruststream::BoxError;
use ruststream_rdkafka::KafkaBroker;

use producer::Producer;
use service::{Billing, DEAD_LETTERS, INVOICES, ORDERS};
use watch::watch;

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

/// Partitions of each topic, if this program makes it.
const PARTITIONS: u16 = 4;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| "error,librdkafka=off".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&*error);
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), BoxError> {
    let count = if args.forever { u64::MAX } else { args.count };
    let kafka = match std::env::var_os("KAFKA_BOOTSTRAP_SERVERS") {
        Some(_) => KafkaBroker::from_env()?,
        None => KafkaBroker::embedded(),
    };
    for topic in [ORDERS, INVOICES, DEAD_LETTERS] {
        kafka.create_topic(topic, PARTITIONS).await?;
    }
    let orders = if args.forever {
        "endless".to_owned()
    } else {
        count.to_string()
    };
    println!("{orders} orders on {}", kafka.bootstrap_servers());

    let billing = Arc::new(Billing::new());
    let publisher = kafka.publisher()?;
    let running = service::app(kafka, Arc::clone(&billing)).start().await?;
    let mut producer = Producer::start(publisher, Arc::clone(&billing), count);
    let made = watch(&running, &mut producer, &billing, count).await;

    running.stop();
    let report = running.wait().await?;
    let invoices = billing.invoices(&report);
    progress::summary(&report, invoices);
    Ok(totals::compare(made?, invoices)?)
}

/// The error and what caused it, on standard error.
#[allow(clippy::print_stderr, reason = "a program for people")]
fn tell(error: &(dyn std::error::Error + 'static)) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
