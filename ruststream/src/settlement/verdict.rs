//! What becomes of a delivery after its handler answered: the failure policy.

use std::time::Duration;

use crate::dead_letter::with_sources;
use crate::subscription::RetryPolicy;
use crate::{Failure, FailureKind, Outcome, PublishError};

/// What the policy makes of an outcome.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Settled.
    Settle,
    /// Again after this wait; the position and the ordering group stay held.
    RetryAfter(Duration),
    /// Settled when its copy is confirmed.
    DeadLetter,
    /// The subscription stops; never settled.
    Stop,
}

/// Why a delivery was not handled.
#[derive(Debug)]
pub(crate) enum Reason {
    /// The handler returned [`Outcome::Stop`].
    Stop,
    /// The handler returned [`Outcome::DeadLetter`].
    DeadLetter,
    /// [`Outcome::Retry`] with no attempts left.
    Exhausted,
    /// A failure with no attempts left, or one that another attempt does not heal.
    Failed(Failure),
    /// A record that was sent on its behalf was not confirmed.
    Unpublished(PublishError),
}

impl Verdict {
    /// Applies the policy to `outcome` of attempt number `attempt`.
    ///
    /// The default loses nothing: what cannot be retried is dead-lettered if there is a topic for it
    /// (`has_dead_letters`), else it stops the subscription.
    pub(crate) fn of(
        outcome: Outcome,
        attempt: u32,
        policy: &RetryPolicy,
        has_dead_letters: bool,
        random: u64,
    ) -> (Self, Option<Reason>) {
        let (retriable, reason) = match outcome {
            Outcome::Ack | Outcome::Skip | Outcome::Reply(_) => return (Self::Settle, None),
            Outcome::Stop => return (Self::Stop, Some(Reason::Stop)),
            Outcome::DeadLetter => (false, Reason::DeadLetter),
            Outcome::Retry => (true, Reason::Exhausted),
            Outcome::Failed(failure) => {
                let retriable = matches!(failure.kind(), FailureKind::Transient | FailureKind::TimedOut);
                (retriable, Reason::Failed(failure))
            }
        };
        let verdict = match policy.wait_after(attempt, random) {
            Some(wait) if retriable => Self::RetryAfter(wait),
            _ if has_dead_letters => Self::DeadLetter,
            _ => Self::Stop,
        };
        (verdict, Some(reason))
    }
}

impl Reason {
    /// What a dead letter says: the kind of error, and the error.
    pub(crate) fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Stop | Self::DeadLetter => ("requested", "the handler asked for it".to_owned()),
            Self::Exhausted => ("exhausted", "the handler asked for a retry".to_owned()),
            Self::Failed(failure) => {
                let kind = match failure.kind() {
                    FailureKind::Transient => "transient",
                    FailureKind::Permanent => "permanent",
                    FailureKind::Undecodable => "undecodable",
                    FailureKind::Panic => "panic",
                    FailureKind::TimedOut => "timed-out",
                };
                (kind, with_sources(failure.error()))
            }
            Self::Unpublished(error) => ("unpublished", with_sources(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(outcome: Outcome, attempt: u32) -> Verdict {
        Verdict::of(outcome, attempt, &RetryPolicy::attempts(3), false, 0).0
    }

    fn with_dead_letters(outcome: Outcome, attempt: u32) -> Verdict {
        Verdict::of(outcome, attempt, &RetryPolicy::attempts(3), true, 0).0
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
    fn retries_come_before_the_dead_letter() {
        let failed = || Outcome::Failed("no".into());
        assert!(matches!(with_dead_letters(failed(), 2), Verdict::RetryAfter(_)));
        assert!(matches!(with_dead_letters(failed(), 3), Verdict::DeadLetter));
        assert!(matches!(
            with_dead_letters(Outcome::Retry, 3),
            Verdict::DeadLetter
        ));
    }

    #[test]
    fn what_another_attempt_does_not_heal_is_dead_lettered_at_once() {
        for failure in [
            Failure::permanent("no"),
            Failure::undecodable("no"),
            Failure::panic(&"no"),
        ] {
            assert!(matches!(
                with_dead_letters(Outcome::Failed(failure), 1),
                Verdict::DeadLetter
            ));
        }
        assert!(matches!(
            with_dead_letters(Outcome::DeadLetter, 1),
            Verdict::DeadLetter
        ));
    }

    #[test]
    fn a_stop_stops_whether_there_are_dead_letters_or_not() {
        assert!(matches!(with_dead_letters(Outcome::Stop, 1), Verdict::Stop));
        assert!(matches!(verdict(Outcome::DeadLetter, 1), Verdict::Stop));
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
