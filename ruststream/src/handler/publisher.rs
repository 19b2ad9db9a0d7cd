//! The extractor that sends on behalf of a delivery.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use super::{Context, FromDelivery, Requirements};
use crate::broker::Delivery;
use crate::{Confirmed, Failure, PublishError, Record};

/// Sends records from a handler, to the broker that its delivery came from. What it sent joins the delivery: that is
/// settled when everything is confirmed.
///
/// ```
/// use ruststream::prelude::*;
/// use ruststream::testing::TestApp;
/// # use ruststream::{BoxError, memory::MemoryBroker};
///
/// #[subscriber("orders")]
/// async fn split(order: Vec<String>, publisher: Publisher<'_>) -> Result<(), BoxError> {
///     for item in order {
///         // Not awaited: all of them are under way at once, and the order is settled when the last one is confirmed.
///         let _ = publisher.send(Record::json("items", &item)?.key(item)).await?;
///     }
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let app = RustStream::new("shop").broker(MemoryBroker::new(), |broker| broker.mount(split));
/// let t = TestApp::start(app).await?;
/// t.publish("orders", &["tea", "milk"])?;
/// t.settled().await;
/// assert_eq!(t.published::<String>("items")?.len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// A record that fails after the handler is done is sent again by the subscription's retry policy; the handler does not
/// run again for it. When that is in vain, the delivery goes to the dead-letter topic if there is one, else the
/// subscription stops. A failure that the handler saw is the handler's: return it, and the delivery is tried again.
///
/// What a handler sends is not taken back when it then fails: the next attempt sends it again.
#[derive(Clone, Copy)]
pub struct Publisher<'m>(&'m dyn Outlet);

/// A record on its way. Await it for the confirmation, or drop it: the delivery waits for it in any case.
#[must_use = "await it for the confirmation, or drop it with `let _ =`: its delivery is settled after it in any case"]
pub struct Sending<'m> {
    outlet: &'m dyn Outlet,
    record: usize,
}

/// Where the records of one call go; what they are stays with the partition's loop.
pub(crate) trait Outlet: Send + Sync {
    /// Sends a record if there is room; `None` when there is none.
    fn try_send(&self, record: &Record) -> Result<Option<usize>, PublishError>;

    /// Waits for room, and sends. Boxed: it is called when there is no room.
    fn send(&self, record: Record) -> Pin<Box<dyn Future<Output = Result<usize, PublishError>> + Send + '_>>;

    /// The result of a record, once.
    fn poll_confirmed(&self, record: usize, cx: &mut Task<'_>) -> Poll<Result<Confirmed, PublishError>>;
}

impl<'m> Publisher<'m> {
    /// Waits for room and sends the record. Does not wait for the broker.
    ///
    /// # Errors
    ///
    /// The record was refused and not sent; the error has it.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before it is ready has sent nothing.
    pub async fn send(&self, record: Record) -> Result<Sending<'m>, PublishError> {
        let outlet = self.0;
        let record = match outlet.try_send(&record) {
            Ok(Some(sent)) => sent,
            Ok(None) => outlet.send(record).await?,
            Err(error) => return Err(error.with_record(record)),
        };
        Ok(Sending { outlet, record })
    }

    /// Sends the record if there is room. Never waits.
    ///
    /// # Errors
    ///
    /// [`Full`](crate::PublishErrorKind::Full) when there is no room, else the record was refused; the error has it.
    pub fn try_send(&self, record: Record) -> Result<Sending<'m>, PublishError> {
        let outlet = self.0;
        match outlet.try_send(&record) {
            Ok(Some(record)) => Ok(Sending { outlet, record }),
            Ok(None) => Err(PublishError::full(&record).with_record(record)),
            Err(error) => Err(error.with_record(record)),
        }
    }

    /// Sends the record and waits for its confirmation.
    ///
    /// # Errors
    ///
    /// The record was refused, or not confirmed; the error has it.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may have sent the record; the delivery then waits for it.
    pub async fn publish(&self, record: Record) -> Result<Confirmed, PublishError> {
        self.send(record).await?.await
    }
}

impl<'m> FromDelivery<'m> for Publisher<'m> {
    fn from_delivery<D: Delivery>(_delivery: &'m D, cx: Context<'m>) -> Result<Self, Failure> {
        cx.outlet().map(Self).ok_or_else(missing)
    }

    fn requires(requirements: &mut Requirements) {
        requirements.publisher();
    }
}

/// Only an extractor that hides its need from `requires` comes here.
#[cold]
fn missing() -> Failure {
    Failure::permanent(
        "the subscription has no publisher: call `Publisher::requires` in the `requires` of the extractor or handler",
    )
}

impl Future for Sending<'_> {
    type Output = Result<Confirmed, PublishError>;

    /// # Panics
    ///
    /// When it has resolved before.
    fn poll(self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<Self::Output> {
        self.outlet.poll_confirmed(self.record, cx)
    }
}

impl fmt::Debug for Publisher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

impl fmt::Debug for Sending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
