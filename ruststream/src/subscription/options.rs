//! The options of a subscription, and their check.

use std::time::Duration;

use super::RetryPolicy;
use crate::Problem;

/// How long a revoked partition may take to drain, unless set otherwise: 5 s, well below any sane rebalance timeout
/// (`max.poll.interval.ms` is 5 min by default), because the whole group waits meanwhile.
pub(crate) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Which deliveries of a partition must wait for which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ProcessingOrder {
    /// One after another within a partition; partitions in parallel.
    #[default]
    Partition,
    /// One after another per key, up to `concurrency` handlers at once; a null key waits for nothing.
    Key,
    /// In any order, up to `concurrency` handlers at once.
    Unordered,
}

/// What a user set; turned into [`Settings`] once, at start-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) ordering: ProcessingOrder,
    pub(crate) concurrency: Option<usize>,
    pub(crate) retry: RetryPolicy,
    pub(crate) drain_timeout: Option<Duration>,
}

/// The checked options of a subscription.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) ordering: ProcessingOrder,
    /// How many handlers may be open at once in a partition; 1 for [`ProcessingOrder::Partition`].
    pub(crate) concurrency: usize,
    pub(crate) retry: RetryPolicy,
    pub(crate) drain_timeout: Duration,
}

/// A handler place costs the handler's future once a partition: 10,000 of 1 kB are 10 MB a partition.
const MAX_CONCURRENCY: usize = 10_000;

impl Options {
    /// Parses the options of the subscription `name`; what is wrong goes to `problems`.
    pub(crate) fn check(&self, name: &str, problems: &mut Vec<Problem>) -> Settings {
        let mut problem = |text: String| problems.push(Problem::new(format!("subscription {name}"), text));
        let concurrency = self.concurrency.unwrap_or(match self.ordering {
            ProcessingOrder::Partition => 1,
            ProcessingOrder::Key | ProcessingOrder::Unordered => 16,
        });
        if concurrency == 0 || concurrency > MAX_CONCURRENCY {
            problem(format!(
                "concurrency is {concurrency}: use 1 to {MAX_CONCURRENCY}"
            ));
        }
        if self.ordering == ProcessingOrder::Partition && concurrency > 1 {
            problem(format!(
                "concurrency is {concurrency}, but the order is one after another within a partition: \
                 add .ordering(ProcessingOrder::Key) or .ordering(ProcessingOrder::Unordered)"
            ));
        }
        let drain_timeout = self.drain_timeout.unwrap_or(DEFAULT_DRAIN_TIMEOUT);
        Settings {
            ordering: self.ordering,
            concurrency,
            retry: self.retry,
            drain_timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_without_an_order_that_allows_it_is_a_problem_with_the_remedy() {
        let mut problems = Vec::new();
        let options = Options {
            concurrency: Some(8),
            ..Options::default()
        };
        options.check("bill", &mut problems);
        insta::assert_snapshot!(problems[0], @"subscription bill: concurrency is 8, but the order is one after another within a partition: add .ordering(ProcessingOrder::Key) or .ordering(ProcessingOrder::Unordered)");
    }

    #[test]
    fn no_handler_place_is_a_problem() {
        let mut problems = Vec::new();
        let options = Options {
            concurrency: Some(0),
            ordering: ProcessingOrder::Key,
            ..Options::default()
        };
        options.check("bill", &mut problems);
        insta::assert_snapshot!(problems[0], @"subscription bill: concurrency is 0: use 1 to 10000");
    }
}
