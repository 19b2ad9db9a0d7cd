//! Serves `POST /orders` on a Kafka inside the process, or, with `KAFKA_BOOTSTRAP_SERVERS=host:9092`, on a real one.
//!
//! SIGINT or SIGTERM ends it, within 10 s for the requests under way and then 10 s for their records. The exit code is 1 if
//! a record was given up, or failed after its client had hung up.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::io;
use std::net::SocketAddr;

use clap::Parser;
use orders_http::TOPIC;
use ruststream::BoxError;
use ruststream_rdkafka::KafkaBroker;
use tokio::net::TcpListener;

/// Takes orders over HTTP and publishes them to Kafka.
#[derive(Debug, Parser)]
struct Args {
    /// Where to listen; port 0 has the system choose one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
}

/// Partitions of the topic, if this program makes it.
const PARTITIONS: u16 = 4;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| "warn,librdkafka=off".into()),
        )
        .with_writer(io::stderr)
        .init();
    let args = Args::parse();
    let stop = signal()?;

    let kafka = match std::env::var_os("KAFKA_BOOTSTRAP_SERVERS") {
        Some(_) => KafkaBroker::from_env()?,
        None => KafkaBroker::embedded(),
    };
    kafka.create_topic(TOPIC, PARTITIONS).await?;
    let publisher = orders_http::publisher(&kafka)?;
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    println!("orders go to topic {TOPIC} on {}", kafka.bootstrap_servers());
    println!("listening on http://{}", listener.local_addr()?);

    orders_http::serve(listener, publisher, stop).await
}

/// Resolves on the first SIGINT or SIGTERM after this call.
#[cfg(unix)]
fn signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Resolves on Ctrl-C.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "as the other one")]
fn signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
