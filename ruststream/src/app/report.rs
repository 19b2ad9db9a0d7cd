//! What an app did: per subscription, and per partition.

use std::fmt;
use std::process::{ExitCode, Termination};
use std::time::Duration;

use crate::broker::Committed;
use crate::dispatch::Counters;

/// What an app did until it stopped, or so far.
///
/// A `main` may return it: it ends the process with success.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// One for each subscription, in mount order.
    pub subscriptions: Vec<SubscriptionReport>,
    /// Since the app started.
    pub elapsed: Duration,
    /// Partitions whose handlers blocked their threads past the shutdown deadline and were left behind.
    pub abandoned: usize,
}

/// What one subscription did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubscriptionReport {
    /// The subscription's name.
    pub name: String,
    /// The topic it consumes.
    pub topic: String,
    /// Deliveries taken from the broker, each redelivery counted again.
    pub received: u64,
    /// Deliveries settled: acknowledged, replied to and confirmed, skipped, or dead-lettered.
    pub settled: u64,
    /// Attempts that failed, each counted.
    pub failed: u64,
    /// Attempts that were followed by another.
    pub retried: u64,
    /// Deliveries settled by [`Outcome::Skip`](crate::Outcome::Skip).
    pub skipped: u64,
    /// Dead letters that the broker confirmed.
    pub dead_lettered: u64,
    /// Replies that the broker confirmed.
    pub replied: u64,
    /// Deliveries whose records were not confirmed at a drain deadline; they come again.
    pub unconfirmed: u64,
    /// Handlers cancelled at a drain deadline; their deliveries come again.
    pub unfinished: u64,
    /// Settlements and stores that came after their assignment had ended, and moved nothing.
    pub late: u64,
    /// The positions that the broker confirmed, by topic and partition; filled when the subscription has closed.
    pub committed: Vec<Committed>,
}

impl SubscriptionReport {
    pub(crate) fn read(name: &str, topic: &str, counters: &Counters) -> Self {
        Self {
            name: name.to_owned(),
            topic: topic.to_owned(),
            received: Counters::read(&counters.received),
            settled: Counters::read(&counters.settled),
            failed: Counters::read(&counters.failed),
            retried: Counters::read(&counters.retried),
            skipped: Counters::read(&counters.skipped),
            dead_lettered: Counters::read(&counters.dead_lettered),
            replied: Counters::read(&counters.replied),
            unconfirmed: Counters::read(&counters.unconfirmed),
            unfinished: Counters::read(&counters.unfinished),
            late: Counters::read(&counters.late),
            committed: Vec::new(),
        }
    }
}

impl Termination for Report {
    fn report(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

/// A few lines for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for subscription in &self.subscriptions {
            let SubscriptionReport {
                name,
                received,
                settled,
                failed,
                retried,
                skipped,
                dead_lettered,
                replied,
                unconfirmed,
                unfinished,
                late,
                ..
            } = subscription;
            writeln!(
                f,
                "{name}: received {received}, settled {settled} ({skipped} skipped, {dead_lettered} dead-lettered), replied {replied}, \
                 failed {failed}, retried {retried}, unfinished {unfinished}, unconfirmed {unconfirmed}, late {late}"
            )?;
            for Committed {
                topic,
                partition,
                offset,
                ..
            } in &subscription.committed
            {
                writeln!(f, "  {topic}/{partition} committed at {offset}")?;
            }
        }
        if self.abandoned > 0 {
            writeln!(
                f,
                "{} partitions abandoned: a handler blocks its thread",
                self.abandoned
            )?;
        }
        write!(f, "in {:.1} s", self.elapsed.as_secs_f64())
    }
}
