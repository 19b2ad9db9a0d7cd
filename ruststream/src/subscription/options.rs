//! The options of a subscription, and their check.

use std::sync::Arc;
use std::time::Duration;

use super::{DeadLetterLimit, RetryPolicy};
use crate::Problem;
use crate::handler::Requirements;

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
    pub(crate) timeout: Option<Duration>,
    pub(crate) drain_timeout: Option<Duration>,
    pub(crate) reply: Option<String>,
    pub(crate) dead_letter: Option<String>,
    pub(crate) dead_letter_limit: DeadLetterLimit,
}

/// The checked options of a subscription.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) ordering: ProcessingOrder,
    /// How many handlers may be open at once in a partition; 1 for [`ProcessingOrder::Partition`].
    pub(crate) concurrency: usize,
    pub(crate) retry: RetryPolicy,
    /// How long one call of the handler may take.
    pub(crate) timeout: Option<Duration>,
    pub(crate) drain_timeout: Duration,
    /// The topic of replies.
    pub(crate) reply: Option<Arc<str>>,
    /// The topic of dead letters.
    pub(crate) dead_letter: Option<Arc<str>>,
    pub(crate) dead_letter_limit: DeadLetterLimit,
}

/// A handler place costs the handler's future once a partition: 10,000 of 1 kB are 10 MB a partition.
const MAX_CONCURRENCY: usize = 10_000;

impl Options {
    /// Parses the options of the subscription `name` of `topic`, whose handler needs `requirements`; what is wrong goes to
    /// `problems`.
    pub(crate) fn check(
        &self,
        name: &str,
        topic: &str,
        requirements: &Requirements,
        problems: &mut Vec<Problem>,
    ) -> Settings {
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
        match (&self.reply, requirements.replies()) {
            (None, true) => problem(
                "its handler replies, and there is no topic for it: add .reply(\"topic\"), or `reply = \"topic\"` to the \
                 attribute"
                    .to_owned(),
            ),
            (Some(reply), false) => problem(format!(
                "replies go to topic {reply}, but its handler returns none: write `reply = \"{reply}\"` in the attribute \
                 of the function, or remove .reply(..)"
            )),
            _ => {}
        }
        if self.dead_letter.as_deref() == Some(topic) {
            problem(format!(
                "its dead letters go to topic {topic}, which it consumes: they would come again for ever, use another topic"
            ));
        }
        if self.timeout == Some(Duration::ZERO) {
            problem(
                "its handler has no time at all (.timeout(0)): give it some, or leave the timeout out"
                    .to_owned(),
            );
        }
        let drain_timeout = self.drain_timeout.unwrap_or(DEFAULT_DRAIN_TIMEOUT);
        Settings {
            ordering: self.ordering,
            concurrency,
            retry: self.retry,
            timeout: self.timeout,
            drain_timeout,
            reply: self.reply.as_deref().map(Into::into),
            dead_letter: self.dead_letter.as_deref().map(Into::into),
            dead_letter_limit: self.dead_letter_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(options: &Options, requirements: &Requirements) -> String {
        let mut problems = Vec::new();
        options.check("bill", "orders", requirements, &mut problems);
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn concurrency_without_an_order_that_allows_it_is_a_problem_with_the_remedy() {
        let options = Options {
            concurrency: Some(8),
            ..Options::default()
        };
        insta::assert_snapshot!(problems(&options, &Requirements::default()), @"subscription bill: concurrency is 8, but the order is one after another within a partition: add .ordering(ProcessingOrder::Key) or .ordering(ProcessingOrder::Unordered)");
    }

    #[test]
    fn no_handler_place_is_a_problem() {
        let options = Options {
            concurrency: Some(0),
            ordering: ProcessingOrder::Key,
            ..Options::default()
        };
        insta::assert_snapshot!(problems(&options, &Requirements::default()), @"subscription bill: concurrency is 0: use 1 to 10000");
    }

    #[test]
    fn a_reply_without_a_topic_and_a_topic_without_a_reply_are_problems() {
        let mut replies = Requirements::default();
        replies.reply();
        insta::assert_snapshot!(problems(&Options::default(), &replies), @r#"subscription bill: its handler replies, and there is no topic for it: add .reply("topic"), or `reply = "topic"` to the attribute"#);
        let options = Options {
            reply: Some("invoices".to_owned()),
            ..Options::default()
        };
        assert_eq!(problems(&options, &replies), "");
        insta::assert_snapshot!(problems(&options, &Requirements::default()), @r#"subscription bill: replies go to topic invoices, but its handler returns none: write `reply = "invoices"` in the attribute of the function, or remove .reply(..)"#);
    }

    #[test]
    fn dead_letters_to_the_topic_itself_are_a_problem() {
        let options = Options {
            dead_letter: Some("orders".to_owned()),
            ..Options::default()
        };
        insta::assert_snapshot!(problems(&options, &Requirements::default()), @"subscription bill: its dead letters go to topic orders, which it consumes: they would come again for ever, use another topic");
    }
}
