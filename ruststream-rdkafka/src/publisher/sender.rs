//! The way out of one task that sends many records and awaits none.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use ruststream::broker::Sender;
use ruststream::{PublishError, Record};

use super::handle::{Refusal, Shared};
use super::places::Addressee;

/// Sends records by numbers, and takes their results by these, a whole response of a broker at a time. Made by
/// [`KafkaPublisher::sender`](ruststream::broker::Publisher::sender).
///
/// It keeps its client alive. Dropping it forgets the results of what is under way: a failure is then logged.
pub struct KafkaSender {
    shared: Arc<Shared>,
    /// `None` when there were too many.
    number: Option<u32>,
    /// Records whose results it has not taken.
    under_way: usize,
    /// Taken, not handed out; the oldest is the last.
    results: Vec<(u32, Result<(), PublishError>)>,
}

impl KafkaSender {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            number: shared.results.open_sender(),
            shared,
            under_way: 0,
            results: Vec::new(),
        }
    }
}

impl Sender for KafkaSender {
    #[inline]
    fn try_send(&mut self, record: &Record, name: u32) -> Result<bool, PublishError> {
        // Without a number its records stand in line, one by one.
        let Some(stack) = self.number else {
            return Ok(false);
        };
        match self.shared.offer_to(record, Some(Addressee { stack, name })) {
            Ok(_) => {
                self.under_way += 1;
                Ok(true)
            }
            Err(Refusal::Full | Refusal::QueueFull) => Ok(false),
            Err(Refusal::Final(error)) => Err(error),
        }
    }

    #[inline]
    fn next(&mut self) -> Option<(u32, Result<(), PublishError>)> {
        if self.results.is_empty() && self.under_way > 0 {
            self.shared.results.take_results(self.number?, &mut self.results);
            self.under_way -= self.results.len();
        }
        self.results.pop()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.number {
            _ if !self.results.is_empty() => Poll::Ready(()),
            Some(number) if self.under_way > 0 => self.shared.results.poll_sender(number, cx),
            _ => Poll::Pending,
        }
    }
}

impl Drop for KafkaSender {
    fn drop(&mut self) {
        let results = &self.shared.results;
        for failure in self.results.drain(..).filter_map(|(_, result)| result.err()) {
            results.forget_failure(failure);
        }
        if let Some(number) = self.number {
            results.close_sender(number, self.under_way);
        }
    }
}

impl fmt::Debug for KafkaSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSender")
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}
