//! What a handler sends itself, kept until its call is over.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use crate::broker::Publisher;
use crate::handler::Outlet;
use crate::{Confirmed, PublishError, Record};

/// The way out of one call, with the receipts of what it sent. Made for each call, used by few: so it begins as two words.
pub(super) struct Joined<'a, O: Publisher> {
    publisher: &'a O,
    /// `None` where the handler has seen the result.
    receipts: OnceLock<ReceiptsOf<O>>,
}

type ReceiptsOf<O> = Box<Mutex<Vec<Option<<O as Publisher>::Receipt>>>>;

impl<'a, O: Publisher> Joined<'a, O> {
    #[inline]
    pub(super) fn new(publisher: &'a O) -> Self {
        Self {
            publisher,
            receipts: OnceLock::new(),
        }
    }

    /// The receipts whose results the handler has not seen.
    #[inline]
    pub(super) fn unseen(self) -> Vec<O::Receipt> {
        self.receipts.into_inner().map(unseen::<O>).unwrap_or_default()
    }

    fn join(&self, receipt: O::Receipt) -> usize {
        let mut receipts = self.lock();
        receipts.push(Some(receipt));
        receipts.len() - 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<O::Receipt>>> {
        let receipts = self.receipts.get_or_init(Box::default);
        receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cold]
fn unseen<O: Publisher>(receipts: ReceiptsOf<O>) -> Vec<O::Receipt> {
    let receipts = receipts.into_inner().unwrap_or_else(PoisonError::into_inner);
    receipts.into_iter().flatten().collect()
}

impl<O: Publisher> Outlet for Joined<'_, O> {
    fn try_send(&self, record: Record) -> Result<usize, PublishError> {
        self.publisher.try_send(record).map(|receipt| self.join(receipt))
    }

    fn send(
        &self,
        record: Record,
    ) -> Pin<Box<dyn Future<Output = Result<usize, PublishError>> + Send + '_>> {
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
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}
