//! The life of one subscription: accept partitions, give each a task, close.

use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout_at;

use super::PartitionEnd;
use crate::app::Stopping;
use crate::broker::{Committed, Subscription};
use crate::{Error, ErrorKind};

/// Starts the loop of a partition. The only box between a handler and its messages, once an assignment.
pub(crate) type Start<P> = Box<dyn Fn(P) -> Serve + Send + Sync>;

/// The loop of a partition.
type Serve = std::pin::Pin<Box<dyn Future<Output = PartitionEnd> + Send>>;

/// How a subscription ended.
#[derive(Debug)]
pub(crate) struct SubscriptionEnd {
    /// Its place in mount order.
    pub(crate) index: usize,
    /// The positions that the broker confirmed, or what went wrong when it closed.
    pub(crate) closed: Result<Vec<Committed>, Error>,
    /// Partition loops that had to be abandoned at the deadline: a handler blocks its thread.
    pub(crate) abandoned: usize,
}

/// Serves a subscription until it stops or the app does, then closes it.
pub(crate) async fn run<S: Subscription>(
    index: usize,
    mut subscription: S,
    start: Start<S::Partition>,
    stopping: Stopping,
) -> SubscriptionEnd {
    let mut partitions = JoinSet::new();
    match accept(&mut subscription, &start, &stopping, &mut partitions).await {
        Some(error) => stopping.fail(error),
        None => stopping.begin(),
    }
    // The partition loops see `End::Closed` and drain in their own tasks meanwhile.
    let closed = subscription.close(stopping.deadline()).await;
    let drained = timeout_at(stopping.deadline(), async {
        while let Some(end) = partitions.join_next().await {
            if let Some(error) = stopped_by(end) {
                stopping.fail(error);
            }
        }
    });
    // What is left when the deadline passes is counted; dropping the set aborts it as soon as it yields.
    let _ = drained.await;
    SubscriptionEnd {
        index,
        closed,
        abandoned: partitions.len(),
    }
}

/// Accepts partitions until the app stops, or the subscription does: then with the reason.
async fn accept<S: Subscription>(
    subscription: &mut S,
    start: &Start<S::Partition>,
    stopping: &Stopping,
    partitions: &mut JoinSet<PartitionEnd>,
) -> Option<Error> {
    loop {
        tokio::select! {
            biased;
            () = stopping.begun() => return None,
            Some(end) = partitions.join_next() => {
                if let Some(error) = stopped_by(end) {
                    return Some(error);
                }
            }
            accepted = subscription.accept() => match accepted {
                Ok(Some(partition)) => { partitions.spawn(start(partition)); }
                Ok(None) => return None,
                Err(error) => return Some(error),
            },
        }
    }
}

fn stopped_by(end: Result<PartitionEnd, JoinError>) -> Option<Error> {
    match end {
        Ok(end) => end.stopped,
        Err(error) if error.is_cancelled() => None,
        Err(error) => {
            let text = "a partition's loop panicked outside its handler (in a destructor, or a defect of the framework)";
            Some(Error::new(ErrorKind::Internal, text).with_source(error))
        }
    }
}
