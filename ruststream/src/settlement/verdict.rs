//! What becomes of a delivery after its handler answered: the failure policy.

use std::time::Duration;

use crate::subscription::RetryPolicy;
use crate::{Failure, FailureKind, Outcome};

/// What the policy makes of an outcome.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Settled.
    Settle,
    /// Again after this wait; the position and the ordering group stay held.
    RetryAfter(Duration),
    /// The subscription stops; never settled.
    Stop,
}

/// Why a subscription stops.
#[derive(Debug)]
pub(crate) enum Reason {
    /// The handler returned [`Outcome::Stop`].
    Asked,
    /// [`Outcome::Retry`] with no attempts left.
    Exhausted,
    /// A failure with no attempts left, or one that another attempt does not heal.
    Failed(Failure),
}

impl Verdict {
    /// Applies the policy to `outcome` of attempt number `attempt`.
    ///
    /// The default loses nothing: what cannot be retried stops the subscription. A dead-letter topic, once there is one,
    /// is asked before that.
    pub(crate) fn of(
        outcome: Outcome,
        attempt: u32,
        policy: &RetryPolicy,
        random: u64,
    ) -> (Self, Option<Reason>) {
        let (retriable, reason) = match outcome {
            Outcome::Ack | Outcome::Skip => return (Self::Settle, None),
            Outcome::Stop => (false, Reason::Asked),
            Outcome::Retry => (true, Reason::Exhausted),
            Outcome::Failed(failure) => (failure.kind() == FailureKind::Transient, Reason::Failed(failure)),
        };
        match policy.wait_after(attempt, random) {
            Some(wait) if retriable => (Self::RetryAfter(wait), Some(reason)),
            _ => (Self::Stop, Some(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(outcome: Outcome, attempt: u32) -> Verdict {
        Verdict::of(outcome, attempt, &RetryPolicy::attempts(3), 0).0
    }

    #[test]
    fn only_ack_and_skip_settle() {
        assert!(matches!(verdict(Outcome::Ack, 1), Verdict::Settle));
        assert!(matches!(verdict(Outcome::Skip, 1), Verdict::Settle));
        assert!(matches!(verdict(Outcome::Stop, 1), Verdict::Stop));
    }

    #[test]
    fn retry_spends_the_same_attempts_as_a_failure() {
        for outcome in [|| Outcome::Retry, || Outcome::Failed("no".into())] {
            assert!(matches!(verdict(outcome(), 1), Verdict::RetryAfter(_)));
            assert!(matches!(verdict(outcome(), 2), Verdict::RetryAfter(_)));
            assert!(matches!(verdict(outcome(), 3), Verdict::Stop));
        }
    }

    #[test]
    fn what_another_attempt_does_not_heal_stops_at_once() {
        assert!(matches!(
            verdict(Outcome::Failed(Failure::permanent("no")), 1),
            Verdict::Stop
        ));
        assert!(matches!(
            verdict(Outcome::Failed(Failure::undecodable("no")), 1),
            Verdict::Stop
        ));
        assert!(matches!(
            verdict(Outcome::Failed(Failure::panic(&"no")), 1),
            Verdict::Stop
        ));
    }
}
