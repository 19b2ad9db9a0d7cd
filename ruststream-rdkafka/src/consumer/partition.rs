//! An assigned partition, as the runtime drives it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ruststream::broker::{Commit, Delivery as _, End, Partition, StoreError};
use ruststream::{Error, ErrorKind};
use tokio::time::Instant;

use super::assignment::Assignment;
use super::fault::{DAMAGED, Fault, classify};
use crate::native::KafkaDelivery;

/// A partition that this process owns for now.
///
/// Its records wait in a queue of their own: not polling it is back-pressure, and costs the other partitions nothing.
/// Dropping it stops its consumption and, in a rebalance or when closing, lets the group go on.
pub struct KafkaPartition {
    assignment: Arc<Assignment>,
    commit: Commit,
    /// The last read saw the queue empty: before the next one, wait for an edge.
    seen_empty: bool,
    /// Where librdkafka may have lost its place.
    suspect: Option<Suspect>,
    /// When librdkafka was last sent back.
    sought: Option<Instant>,
    /// How often in a row a damaged offset was read again.
    rereads: (i64, u8),
    /// What the next poll reports.
    failed: Option<Error>,
}

/// An error arrived in place of the record at `offset`.
///
/// librdkafka 2.12 takes such an error for a record that was consumed (its issue 4844): if the partition is paused
/// before the next record arrives, as every rebalance does, it goes on at `offset + 1`. That skips a record, or, at the
/// end of the partition, counts as out of range and starts it over. So librdkafka is sent back to `offset`:
/// - at once after the first error;
/// - after a second for errors that follow. A seek ends librdkafka's back-off, and a broker that answers with errors
///   would be asked again immediately, for as long as it does;
/// - meanwhile, when the next record is not the one at `offset`: the batch is discarded, and what comes after the seek
///   is believed, because there may be a gap.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    offset: i64,
    damaged: bool,
}

/// How long to wait between two seeks: a little less than the control task's tick, which wakes the partition.
const RECHECK: Duration = Duration::from_millis(900);

/// How often a damaged batch is read again. The damage may have happened on the way, but then not three times.
const REREADS: u8 = 3;

impl KafkaPartition {
    pub(super) fn new(assignment: Arc<Assignment>, commit: Commit) -> Self {
        Self {
            assignment,
            commit,
            seen_empty: false,
            suspect: None,
            sought: None,
            rereads: (-1, 0),
            failed: None,
        }
    }

    pub(super) fn is(&self, assignment: &Arc<Assignment>) -> bool {
        Arc::ptr_eq(&self.assignment, assignment)
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// Takes the errors out of what was read, from index `from` on.
    #[cold]
    fn sift(&mut self, from: usize, batch: &mut VecDeque<KafkaDelivery>) {
        for delivery in batch.split_off(from) {
            if delivery.is_fault() {
                self.note(&delivery);
            } else if self.is_trusted(delivery.offset()) {
                batch.push_back(delivery);
            } else {
                self.read_again();
                break;
            }
            if self.failed.is_some() {
                break;
            }
        }
        if self.suspect.is_some() {
            self.recheck();
        }
    }

    /// Whether a record may be handed out, after an error before it.
    fn is_trusted(&mut self, offset: i64) -> bool {
        if self.suspect.is_some_and(|suspect| offset != suspect.offset) {
            return false;
        }
        self.suspect = None;
        true
    }

    fn note(&mut self, error: &KafkaDelivery) {
        let (fault, text) = (classify(error.code()), error.fault());
        if let Fault::Permanent(remedy) = fault {
            self.fail(&text, remedy);
            return;
        }
        let (topic, partition) = (&self.assignment.topic().name, self.assignment.index());
        tracing::warn!(
            topic,
            partition,
            offset = error.offset(),
            error = text,
            "a fetch failed, it is tried again"
        );
        // Without an offset there is no place to return to.
        if error.offset() >= 0 && self.suspect.is_none() {
            self.suspect = Some(Suspect {
                offset: error.offset(),
                damaged: fault == Fault::Damaged,
            });
        }
    }

    /// Reads again from the offset of the last error on.
    fn read_again(&mut self) {
        let Some(suspect) = self.suspect.take() else {
            return;
        };
        self.sought = Some(Instant::now());
        let (last, times) = self.rereads;
        let times = if last == suspect.offset {
            times.saturating_add(1)
        } else {
            1
        };
        self.rereads = (suspect.offset, times);
        if suspect.damaged && times > REREADS {
            let text = format!("the records at offset {} cannot be decoded", suspect.offset);
            self.fail(&text, DAMAGED);
            return;
        }
        let topic = self.assignment.topic();
        let queue = self.assignment.queue();
        let Some(queue) = queue.as_ref() else { return };
        if let Err((_, text)) = queue.seek(&topic.native, self.assignment.index(), suspect.offset) {
            tracing::warn!(
                topic = topic.name,
                partition = self.assignment.index(),
                text,
                "a seek was refused"
            );
        }
    }

    /// Reads again after an error, now or at a later tick.
    #[cold]
    fn recheck(&mut self) {
        if self.sought.is_none_or(|sought| sought.elapsed() >= RECHECK) {
            self.read_again();
        } else {
            self.assignment.recheck();
        }
    }

    fn fail(&mut self, text: &str, remedy: &str) {
        let (topic, partition) = (&self.assignment.topic().name, self.assignment.index());
        let message = format!("partition {partition} of topic {topic} cannot be read ({text}): {remedy}");
        self.failed = Some(Error::new(ErrorKind::Broker, message));
    }
}

impl Partition for KafkaPartition {
    type Delivery = KafkaDelivery;

    fn topic(&self) -> &str {
        &self.assignment.topic().name
    }

    fn index(&self) -> i32 {
        self.assignment.index()
    }

    fn group(&self) -> &str {
        self.assignment.group()
    }

    fn commit(&self) -> Commit {
        self.commit
    }

    /// Takes what librdkafka has fetched already, at most 64 records a call.
    #[inline]
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        batch: &mut VecDeque<KafkaDelivery>,
    ) -> Poll<Result<(), Error>> {
        let from = batch.len();
        loop {
            if self.failed.is_some() {
                let error = self.failed.take();
                return error.map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
            }
            // A short read has seen the queue empty. Anything that came after it made an edge, so there is no need to
            // ask librdkafka again before the edge's flag is set (`Wake::poll_ready` walks the interleavings).
            if self.seen_empty {
                ready!(self.assignment.wake().poll_ready(cx));
            }
            let read = match &*self.assignment.queue() {
                Some(queue) => queue.read(max.max(1), batch),
                // Over: `poll_end` is ready, and has woken the task.
                None => return Poll::Pending,
            };
            self.seen_empty = read.short;
            if read.faulty || self.suspect.is_some() {
                self.sift(from, batch);
            }
            if batch.len() > from {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.assignment.poll_end(cx)
    }

    fn store(&mut self, position: i64) -> Result<(), StoreError> {
        self.assignment.store(position)
    }
}

impl Drop for KafkaPartition {
    fn drop(&mut self) {
        self.assignment.release();
    }
}

impl fmt::Debug for KafkaPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPartition")
            .field("topic", &self.topic())
            .field("index", &self.index())
            .finish_non_exhaustive()
    }
}
