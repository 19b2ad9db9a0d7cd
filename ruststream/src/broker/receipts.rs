//! Many receipts of one task.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Publisher, Receipt, Sender};
use crate::{PublishError, PublishErrorKind, Record};

/// A [`Sender`] for any publisher, out of its receipts.
///
/// Results are noticed in the order in which the records were sent, others now and then: when twice as many are under way
/// as the last look at all of them left. One receipt in 64 wakes the task, the oldest among them.
#[derive(Debug)]
pub struct Receipts<P: Publisher> {
    /// `None`: for receipts that were made elsewhere only.
    publisher: Option<P>,
    /// Oldest first.
    under_way: VecDeque<(u32, P::Receipt)>,
    resolved: VecDeque<(u32, Result<(), PublishError>)>,
    /// How many records under way make a look at all of them worth it.
    sweep_at: usize,
}

/// One receipt in so many wakes the task.
const WAKING: usize = 64;

impl<P: Publisher> Receipts<P> {
    /// A sender through `publisher`.
    pub fn new(publisher: P) -> Self {
        Self {
            publisher: Some(publisher),
            ..Self::default()
        }
    }

    /// Adds the receipt of a record that was sent by another way.
    pub(crate) fn push(&mut self, name: u32, receipt: P::Receipt) {
        self.under_way.push_back((name, receipt));
    }

    /// Looks at every receipt.
    pub(crate) fn sweep(&mut self) {
        let Self {
            under_way, resolved, ..
        } = self;
        under_way.retain_mut(|(name, receipt)| match receipt.now() {
            None => true,
            Some(result) => {
                resolved.push_back((*name, result.map(drop)));
                false
            }
        });
        self.sweep_at = (2 * self.under_way.len()).max(WAKING);
    }
}

impl<P: Publisher> Default for Receipts<P> {
    fn default() -> Self {
        Self {
            publisher: None,
            under_way: VecDeque::new(),
            resolved: VecDeque::new(),
            sweep_at: WAKING,
        }
    }
}

impl<P: Publisher> Sender for Receipts<P> {
    fn try_send(&mut self, record: &Record, name: u32) -> Result<bool, PublishError> {
        let Some(publisher) = &self.publisher else {
            return Ok(false);
        };
        match publisher.try_send(record.clone()) {
            Ok(receipt) => {
                self.push(name, receipt);
                Ok(true)
            }
            Err(error) if error.kind() == PublishErrorKind::Full => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn next(&mut self) -> Option<(u32, Result<(), PublishError>)> {
        if let Some((name, oldest)) = self.under_way.front_mut()
            && let Some(result) = oldest.now()
        {
            let name = *name;
            self.under_way.pop_front();
            return Some((name, result.map(drop)));
        }
        if self.under_way.len() >= self.sweep_at {
            self.sweep();
        }
        self.resolved.pop_front()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.resolved.is_empty() {
            return Poll::Ready(());
        }
        let mut at = 0;
        while let Some((name, receipt)) = self.under_way.get_mut(at) {
            if let Poll::Ready(result) = Pin::new(receipt).poll(cx) {
                self.resolved.push_back((*name, result.map(drop)));
                self.under_way.remove(at);
                return Poll::Ready(());
            }
            at += WAKING;
        }
        Poll::Pending
    }
}
