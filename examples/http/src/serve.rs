//! The life of the server, and an end that leaves nothing unanswered.

use std::time::Duration;

use ruststream::BoxError;
use ruststream::broker::Publisher;
use ruststream_rdkafka::KafkaPublisher;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::router;

/// What requests get to end, and then records: twice an order's time limit, so each is confirmed or has failed by then.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until `stop` resolves; then accepts no more connections, lets requests end for at most 10 s, and closes the
/// publisher, which gets 10 s more.
///
/// # Errors
///
/// The listener's, and those of [`Publisher::close`]: records were given up, or failed after their clients had hung
/// up, so that nobody was told.
///
/// # Cancel safety
///
/// A future that is dropped accepts no more connections; those that are open are served until `stop` resolves or the
/// runtime ends, and the publisher stays open.
pub async fn serve(
    listener: TcpListener,
    publisher: KafkaPublisher,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    let (stopping, stopped) = oneshot::channel();
    let serving = axum::serve(listener, router(publisher.clone())).with_graceful_shutdown(async move {
        stop.await;
        let _ = stopping.send(()); // nobody listens once this function's future was dropped
    });
    let overdue = async {
        let _ = stopped.await;
        sleep(GRACE).await;
    };
    let served = tokio::select! {
        served = serving.into_future() => served,
        () = overdue => {
            tracing::warn!("requests did not end within {GRACE:?} and are left behind");
            Ok(())
        }
    };
    publisher.close(Instant::now() + GRACE).await?;
    Ok(served?)
}
