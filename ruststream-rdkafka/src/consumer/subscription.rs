//! A subscription: hands partitions out, and closes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ruststream::broker::{Committed, Subscription};
use ruststream::{Error, ErrorKind};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::group::{Group, Outcome};
use super::inbox::Inbox;
use super::{KafkaPartition, Topic};

/// One handler's membership in a topic.
///
/// Subscriptions of one group share a client. It leaves the group when the last of them is closed or dropped.
pub struct KafkaSubscription {
    name: String,
    seat: Seat,
}

/// A subscription's place at its client.
pub(super) struct Seat {
    pub(super) index: usize,
    pub(super) topic: Arc<Topic>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) group: Arc<Group>,
    pub(super) outcome: watch::Receiver<Option<Outcome>>,
}

/// How long after its deadline a close is given up: the control task keeps the deadline, and says what is missing; this
/// is for the case that other subscriptions of the group stay open.
const PATIENCE: Duration = Duration::from_millis(250);

impl KafkaSubscription {
    pub(super) fn new(name: String, seat: Seat) -> Self {
        Self { name, seat }
    }

    fn error(&self, kind: ErrorKind, reason: &str) -> Error {
        Error::new(
            kind,
            format!(
                "subscription {} (group {}): {reason}",
                self.name,
                self.seat.group.name()
            ),
        )
    }
}

impl Subscription for KafkaSubscription {
    type Partition = KafkaPartition;

    async fn accept(&mut self) -> Result<Option<KafkaPartition>, Error> {
        self.seat
            .inbox
            .next()
            .await
            .map_err(|reason| self.error(ErrorKind::Broker, &reason))
    }

    /// Waits until *every* subscription of the group was closed or dropped: the client leaves the group once.
    ///
    /// Up to two seconds before the deadline (a quarter of the time, if that is less) are kept for leaving: partitions
    /// that are still held then are abandoned, so that the positions of the others are committed in time.
    async fn close(mut self, deadline: Instant) -> Result<Vec<Committed>, Error> {
        self.seat.group.close(self.seat.index, Some(deadline));
        let ended = async {
            self.seat
                .outcome
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|o| o.clone())
        };
        let outcome = match timeout_at(deadline + PATIENCE, ended).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                let reason = "its control task ended early, positions may not be committed";
                return Err(self.error(ErrorKind::Broker, reason));
            }
            Err(_) => {
                let reason = "other subscriptions of the group stayed open until the deadline, positions are committed \
                              when they close";
                return Err(self.error(ErrorKind::Deadline, reason));
            }
        };
        match &*outcome {
            Ok(committed) => Ok(committed
                .iter()
                .filter(|c| c.topic == self.seat.topic.name)
                .cloned()
                .collect()),
            Err(reason) => Err(self.error(ErrorKind::Broker, reason)),
        }
    }
}

/// Closes in the background.
impl Drop for KafkaSubscription {
    fn drop(&mut self) {
        self.seat.group.close(self.seat.index, None);
    }
}

impl fmt::Debug for KafkaSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSubscription")
            .field("name", &self.name)
            .field("topic", &self.seat.topic.name)
            .field("group", &self.seat.group.name())
            .finish_non_exhaustive()
    }
}
