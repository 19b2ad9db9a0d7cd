//! When a failed delivery is tried again.

use std::time::Duration;

/// When, and how often, a failed delivery is tried again.
///
/// The default loses nothing and stops rather than spin: 10 attempts in total, waiting 100 ms after the first and twice
/// as long after each further one, up to 30 s, each wait shortened by up to a quarter at random so that many failing
/// partitions do not return in step. When the attempts are spent the delivery is dead-lettered, or the subscription stops.
///
/// ```
/// use std::time::Duration;
/// use ruststream::RetryPolicy;
///
/// let policy = RetryPolicy::attempts(5).initial(Duration::from_millis(20)).max(Duration::from_secs(1));
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a policy does nothing until it is given to a subscriber: `.retry(policy)`"]
pub struct RetryPolicy {
    attempts: u32,
    initial: Duration,
    max: Duration,
}

impl RetryPolicy {
    /// At most `attempts` calls of the handler for one delivery, the first included; 0 counts as 1.
    pub const fn attempts(attempts: u32) -> Self {
        Self {
            attempts,
            initial: Duration::from_millis(100),
            max: Duration::from_secs(30),
        }
    }

    /// No second attempt.
    pub const fn never() -> Self {
        Self::attempts(1)
    }

    /// Tries again for ever: the partition waits until the failure passes. Never the default: say it knowingly.
    pub const fn forever() -> Self {
        Self::attempts(u32::MAX)
    }

    /// The wait after the first attempt (default 100 ms, at least 1 ms); doubles with each further one.
    pub const fn initial(mut self, wait: Duration) -> Self {
        self.initial = wait;
        self
    }

    /// The longest wait (default 30 s, at most a year).
    pub const fn max(mut self, wait: Duration) -> Self {
        self.max = wait;
        self
    }

    /// How long to wait after attempt number `attempt` failed; `None` when the attempts are spent.
    ///
    /// `random` shortens the wait by up to a quarter; any value will do.
    pub(crate) fn wait_after(&self, attempt: u32, random: u64) -> Option<Duration> {
        if attempt >= self.attempts && self.attempts != u32::MAX {
            return None;
        }
        // 2^20 times any useful wait is past any useful bound.
        let doubled = self
            .initial
            .saturating_mul(1 << attempt.saturating_sub(1).min(20));
        let wait = doubled.min(self.max);
        let shortened = 1.0 - (random % 1024) as f64 / 4096.0;
        Some(wait.mul_f64(shortened))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::attempts(10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_end_with_the_attempts() {
        let policy = RetryPolicy::attempts(5)
            .initial(Duration::from_millis(100))
            .max(Duration::from_millis(300));
        let waits: Vec<_> = (1..=5)
            .map(|attempt| policy.wait_after(attempt, 0).map(|w| w.as_millis()))
            .collect();
        assert_eq!(waits, [Some(100), Some(200), Some(300), Some(300), None]);
    }

    #[test]
    fn jitter_shortens_a_wait_by_at_most_a_quarter() {
        let policy = RetryPolicy::default();
        for random in 0..2048 {
            let wait = policy.wait_after(1, random).unwrap();
            assert!(
                (Duration::from_millis(75)..=Duration::from_millis(100)).contains(&wait),
                "{wait:?}"
            );
        }
    }

    #[test]
    fn forever_never_ends_and_never_overflows() {
        let policy = RetryPolicy::forever();
        assert_eq!(policy.wait_after(u32::MAX, 0), Some(Duration::from_secs(30)));
        assert_eq!(RetryPolicy::never().wait_after(1, 0), None);
    }
}
