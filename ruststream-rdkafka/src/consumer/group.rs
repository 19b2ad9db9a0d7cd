//! What the subscriptions of a client tell its control task.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ruststream::broker::Committed;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How the client's life ended: the positions that the broker confirmed, or why some may be missing.
pub(super) type Outcome = Arc<Result<Vec<Committed>, String>>;

/// The seats of a client's subscriptions.
pub(super) struct Group {
    name: String,
    /// Until when each subscription wants to be closed; `None` while it is open.
    seats: Mutex<Vec<Option<Instant>>>,
    changed: Notify,
}

/// How long closing may take when nobody waits for it, because the subscription was dropped.
const UNATTENDED: Duration = Duration::from_secs(10);

impl Group {
    pub(super) fn new(name: &str, seats: usize) -> Self {
        Self {
            name: name.to_owned(),
            seats: Mutex::new(vec![None; seats]),
            changed: Notify::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks for the subscription in `seat` to be closed; a deadline given before stays.
    pub(super) fn close(&self, seat: usize, deadline: Option<Instant>) {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + UNATTENDED);
        if let Some(seat) = self
            .seats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(seat)
        {
            seat.get_or_insert(deadline);
        }
        self.notify();
    }

    /// Whether the subscription in `seat` is to be closed.
    pub(super) fn is_closing(&self, seat: usize) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.get(seat).is_some_and(Option::is_some)
    }

    /// Until when the whole client is to be closed; `None` while a subscription is open.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats
            .iter()
            .copied()
            .collect::<Option<Vec<Instant>>>()?
            .into_iter()
            .max()
    }

    /// Makes the control task look around.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    /// Waits for [`notify`](Self::notify), which is not lost when it comes first.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_closes_when_its_last_subscription_does_and_by_the_latest_deadline() {
        let group = Group::new("billing", 2);
        let now = Instant::now();
        group.close(0, Some(now + Duration::from_secs(5)));
        assert!(group.is_closing(0) && !group.is_closing(1));
        assert_eq!(group.deadline(), None);
        group.close(1, Some(now + Duration::from_secs(3)));
        group.close(1, None);
        assert_eq!(group.deadline(), Some(now + Duration::from_secs(5)));
    }
}
