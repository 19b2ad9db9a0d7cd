//! What handlers send themselves, kept until their calls are over.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::broker::Publisher;
use crate::handler::{Outlet, Outlets};
use crate::{Confirmed, PublishError, Record};

/// The open calls of one partition that send. A call that does not costs nothing here.
pub(super) struct Joining<O: Publisher> {
    publisher: O,
    /// Few.
    calls: Mutex<Vec<Call<O>>>,
}

/// A call's number, and what it sent.
type Call<O> = (u32, Arc<Joined<O>>);

/// The way out of one call, with the receipts of what it sent.
struct Joined<O: Publisher> {
    publisher: O,
    /// `None` where the handler has seen the result.
    receipts: Mutex<Vec<Option<O::Receipt>>>,
}

impl<O: Publisher> Joining<O> {
    pub(super) fn new(publisher: O) -> Self {
        Self {
            publisher,
            calls: Mutex::default(),
        }
    }

    /// The receipts of a call that is over, but for those whose results its handler has seen.
    pub(super) fn end(&self, call: u32) -> Vec<O::Receipt> {
        let mut calls = lock(&self.calls);
        let Some(at) = calls.iter().position(|(number, _)| *number == call) else {
            return Vec::new();
        };
        let (_, joined) = calls.swap_remove(at);
        let receipts = std::mem::take(&mut *lock(&joined.receipts));
        receipts.into_iter().flatten().collect()
    }
}

impl<O: Publisher> Outlets for Joining<O> {
    fn of(&self, call: u32) -> Arc<dyn Outlet> {
        let mut calls = lock(&self.calls);
        if let Some((_, joined)) = calls.iter().find(|(number, _)| *number == call) {
            return Arc::clone(joined) as _;
        }
        let joined = Arc::new(Joined {
            publisher: self.publisher.clone(),
            receipts: Mutex::default(),
        });
        calls.push((call, Arc::clone(&joined)));
        joined
    }
}

impl<O: Publisher> Joined<O> {
    fn join(&self, receipt: O::Receipt) -> usize {
        let mut receipts = lock(&self.receipts);
        receipts.push(Some(receipt));
        receipts.len() - 1
    }
}

impl<O: Publisher> Outlet for Joined<O> {
    fn try_send(&self, record: Record) -> Result<usize, PublishError> {
        self.publisher.try_send(record).map(|receipt| self.join(receipt))
    }

    fn send(&self, record: Record) -> Pin<Box<dyn Future<Output = Result<usize, PublishError>> + Send + '_>> {
        Box::pin(async move {
            let receipt = self.publisher.send(record).await?;
            Ok(self.join(receipt))
        })
    }

    fn poll_confirmed(&self, record: usize, cx: &mut Context<'_>) -> Poll<Result<Confirmed, PublishError>> {
        let mut receipts = lock(&self.receipts);
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

impl<O: Publisher> fmt::Debug for Joining<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining")
            .field("calls", &lock(&self.calls).len())
            .finish_non_exhaustive()
    }
}

/// What is in there is whole after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
