//! The extractor that sends on behalf of a delivery.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use super::{Context, FromDelivery, Requirements};
use crate::broker::Delivery;
use crate::{Confirmed, Failure, PublishError, PublishErrorKind, Record};

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
///         publisher.send(Record::json("items", &item)?.key(item)).await?;
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
#[derive(Clone)]
pub struct Publisher<'m> {
    outlet: Arc<dyn Outlet>,
    /// It is of no use when its call is over.
    call: PhantomData<&'m ()>,
}

/// A record on its way. Its delivery waits for it; a handler that wants to know awaits [`confirmed`](Self::confirmed).
pub struct Sent<'m> {
    publisher: Publisher<'m>,
    record: usize,
}

/// The ways out of a partition's calls.
pub(crate) trait Outlets: fmt::Debug + Send + Sync {
    /// The one of an open call.
    fn of(&self, call: u32) -> Arc<dyn Outlet>;
}

/// Where the records of one call go; what their receipts are is known to the partition's loop only.
pub(crate) trait Outlet: Send + Sync {
    /// Sends a record if there is room; the error has it when there is none.
    fn try_send(&self, record: Record) -> Result<usize, PublishError>;

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
    pub async fn send(&self, record: Record) -> Result<Sent<'m>, PublishError> {
        let error = match self.outlet.try_send(record) {
            Ok(record) => return Ok(self.sent(record)),
            Err(error) if error.kind() == PublishErrorKind::Full => error,
            Err(error) => return Err(error),
        };
        let Some(record) = error.into_record() else {
            unreachable!("a full publisher hands the record back")
        };
        self.outlet.send(record).await.map(|record| self.sent(record))
    }

    /// Sends the record if there is room. Never waits.
    ///
    /// # Errors
    ///
    /// [`Full`](crate::PublishErrorKind::Full) when there is no room, else the record was refused; the error has it.
    pub fn try_send(&self, record: Record) -> Result<Sent<'m>, PublishError> {
        self.outlet.try_send(record).map(|record| self.sent(record))
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
        self.send(record).await?.confirmed().await
    }

    fn sent(&self, record: usize) -> Sent<'m> {
        Sent {
            publisher: self.clone(),
            record,
        }
    }
}

impl<'m> FromDelivery<'m> for Publisher<'m> {
    fn from_delivery<D: Delivery>(_delivery: &'m D, cx: Context<'m>) -> Result<Self, Failure> {
        let outlet = cx.outlet().ok_or_else(missing)?;
        Ok(Self {
            outlet,
            call: PhantomData,
        })
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

impl Sent<'_> {
    /// Waits until the broker confirmed the record, or until it is certain that this will not happen.
    ///
    /// # Errors
    ///
    /// It was not confirmed; the error has it. The failure is the handler's then: nobody sends the record again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the result to the delivery, as not calling this does.
    pub async fn confirmed(self) -> Result<Confirmed, PublishError> {
        poll_fn(|cx| self.publisher.outlet.poll_confirmed(self.record, cx)).await
    }
}

impl fmt::Debug for Publisher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

impl fmt::Debug for Sent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
