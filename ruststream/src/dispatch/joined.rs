//! What a handler sends itself, kept until its call is over.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::broker::Publisher;
use crate::handler::Outlet;
use crate::{Confirmed, PublishError, Record};

/// The receipts of one call, `None` where the handler has seen the result.
pub(super) struct Joined<'a, O: Publisher> {
    publisher: &'a O,
    receipts: Mutex<Vec<Option<O::Receipt>>>,
}

impl<'a, O: Publisher> Joined<'a, O> {
    #[inline]
    pub(super) fn new(publisher: &'a O) -> Self {
        Self {
            publisher,
            receipts: Mutex::new(Vec::new()),
        }
    }

    /// The receipts whose results the handler has not seen.
    #[inline]
    pub(super) fn unseen(self) -> Vec<O::Receipt> {
        let receipts = self.receipts.into_inner().unwrap_or_else(PoisonError::into_inner);
        if receipts.is_empty() {
            return Vec::new();
        }
        receipts.into_iter().flatten().collect()
    }

    fn join(&self, receipt: O::Receipt) -> usize {
        let mut receipts = self.lock();
        receipts.push(Some(receipt));
        receipts.len() - 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<O::Receipt>>> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Publisher> Outlet for Joined<'_, O> {
    fn try_send(&self, record: &Record) -> Result<Option<usize>, PublishError> {
        let receipt = self.publisher.try_send_copy(record)?;
        Ok(receipt.map(|receipt| self.join(receipt)))
    }

    fn send(&self, record: Record) -> Pin<Box<dyn Future<Output = Result<usize, PublishError>> + Send + '_>> {
        Box::pin(async move {
            let receipt = self.publisher.send(record).await?;
            Ok(self.join(receipt))
        })
    }

    fn poll_confirmed(&self, record: usize, cx: &mut Context<'_>) -> Poll<Result<Confirmed, PublishError>> {
        let mut receipts = self.lock();
        let place = receipts
            .get_mut(record)
            .expect("what was sent has a place until its call is over");
        let receipt = place.as_mut().expect("a record is not polled after it resolved");
        let polled = Pin::new(receipt).poll(cx);
        if polled.is_ready() {
            *place = None;
        }
        polled
    }
}

impl<O: Publisher> fmt::Debug for Joined<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined")
            .field("records", &self.lock().len())
            .finish_non_exhaustive()
    }
}
