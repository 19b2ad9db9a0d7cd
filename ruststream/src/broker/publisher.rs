//! The way out.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::Receipts;
use crate::{Confirmed, Error, PublishError, Record, SendAllError};

/// The way out: sends records, and says what became of each.
///
/// A clone sends through the same client. Records of one publisher and its clones that go to one partition are written in
/// the order in which they were enqueued.
///
/// ```
/// use ruststream::Record;
/// use ruststream::broker::Publisher;
/// use ruststream::memory::MemoryBroker;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ruststream::Error> {
/// let publisher = MemoryBroker::new().auto_create(1).publisher();
/// // One at a time: sent and confirmed.
/// let confirmed = publisher.publish(Record::new("orders", "first")).await?;
/// // Many at a time: sent in order, confirmed together.
/// let second = publisher.send(Record::new("orders", "second")).await?;
/// let third = publisher.send(Record::new("orders", "third")).await?;
/// assert_eq!((confirmed.offset, second.await?.offset, third.await?.offset), (0, 1, 2));
/// # Ok(())
/// # }
/// ```
pub trait Publisher: Clone + Send + Sync + 'static {
    /// What [`send`](Self::send) yields: resolves when the broker confirmed the record.
    type Receipt: Receipt;

    /// What [`sender`](Self::sender) yields; [`Receipts`](super::Receipts) does for any publisher.
    type Sender: Sender;

    /// Makes a way out for one task that sends many records and awaits none: the runtime has one for each partition.
    fn sender(&self) -> Self::Sender;

    /// Waits for room, enqueues the record, and yields its receipt. Does not wait for the broker.
    ///
    /// Calls that wait for room are served in the order in which they were first polled.
    ///
    /// # Errors
    ///
    /// The record was refused and not sent; the error has it.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before it is ready has sent nothing; its record is dropped with it, and its place in the
    /// queue is given up.
    fn send(&self, record: Record) -> impl Future<Output = Result<Self::Receipt, PublishError>> + Send;

    /// Enqueues the record if there is room and nobody waits for it. Never waits.
    ///
    /// # Errors
    ///
    /// [`PublishErrorKind::Full`](crate::PublishErrorKind::Full) when there is no room, else the record was refused; the
    /// error has it.
    fn try_send(&self, record: Record) -> Result<Self::Receipt, PublishError>;

    /// Refuses records from now on, by all clones, waits for what was sent until the deadline, and gives up the rest.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped leaves the publisher closed.
    fn close(&self, deadline: Instant) -> impl Future<Output = Result<(), Error>> + Send {
        self.flush(deadline)
    }

    /// Waits until nothing that was sent, by this publisher and its clones, is unconfirmed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Deadline`](crate::ErrorKind::Deadline) with the number of records that are unconfirmed; they stay on
    /// their way. [`ErrorKind::Broker`](crate::ErrorKind::Broker) when a record whose receipt was dropped has failed since
    /// the last flush.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future abandons the wait.
    fn flush(&self, deadline: Instant) -> impl Future<Output = Result<(), Error>> + Send;

    /// Sends a record and waits for its confirmation.
    ///
    /// # Errors
    ///
    /// The record was refused, or not confirmed; the error has it.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may have sent the record; what became of it is then not known.
    fn publish(&self, record: Record) -> impl Future<Output = Result<Confirmed, PublishError>> + Send {
        async move { self.send(record).await?.await }
    }

    /// Sends every record, in order, many of them unconfirmed at a time, and waits for all confirmations. Yields their
    /// number.
    ///
    /// After the first failure nothing more is sent (pass `&mut records` to see what is left), and what is under way is
    /// waited for.
    ///
    /// # Errors
    ///
    /// A record was refused, or not confirmed; the error has all of those, at most as many as are unconfirmed at a time.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may have sent any number of the records.
    fn send_all<I>(&self, records: I) -> impl Future<Output = Result<u64, SendAllError>> + Send
    where
        I: IntoIterator<Item = Record> + Send,
        I::IntoIter: Send,
    {
        async move {
            let mut all = SendAll::default();
            for record in records {
                if all.under_way.len() == UNDER_WAY {
                    all.confirm_oldest().await;
                }
                if !all.failed.is_empty() {
                    break;
                }
                match self.send(record).await {
                    Ok(receipt) => all.under_way.push_back(receipt),
                    Err(refused) => {
                        all.refused = Some(refused);
                        break;
                    }
                }
            }
            all.finish().await
        }
    }
}

/// Resolves exactly once: when the broker confirmed the record, or when it is certain that this will not happen.
///
/// Dropping a receipt forgets the result, not the record. A failure is then logged, and reported by the next
/// [`flush`](Publisher::flush).
pub trait Receipt: Future<Output = Result<Confirmed, PublishError>> + Send + Unpin + 'static {
    /// Takes the result if it is there. Cheap, and keeps no waker: for many receipts that are looked through when one of
    /// them woke their task.
    ///
    /// After `Some` the receipt has resolved and must not be polled.
    fn now(&mut self) -> Option<Result<Confirmed, PublishError>>;
}

/// One task's way out through a publisher: it names each record by a number, and takes results by that name, many at a time.
///
/// A receipt for each record would wake its task for each. Dropping a sender forgets the results, not the records.
pub trait Sender: Send + 'static {
    /// Enqueues a copy of the record if there is room; `false` when there is none. Never waits.
    ///
    /// `name` is the caller's; it may use it again once it has the result.
    ///
    /// # Errors
    ///
    /// The record was refused, and not sent: there will be no result. The error need not have the record.
    fn try_send(&mut self, record: &Record, name: u32) -> Result<bool, PublishError>;

    /// The result of a record that has resolved, by its name; `None` when there is none now. Keeps no waker.
    fn next(&mut self) -> Option<(u32, Result<(), PublishError>)>;

    /// Ready when [`next`](Self::next) may have something; otherwise keeps the waker until then.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The publisher of a broker that is only read: there is none.
#[derive(Debug, Clone)]
pub enum NoPublisher {}

impl Publisher for NoPublisher {
    type Receipt = NoReceipt;
    type Sender = Receipts<Self>;

    fn sender(&self) -> Receipts<Self> {
        match *self {}
    }

    async fn send(&self, _: Record) -> Result<NoReceipt, PublishError> {
        match *self {}
    }

    fn try_send(&self, _: Record) -> Result<NoReceipt, PublishError> {
        match *self {}
    }

    async fn flush(&self, _: Instant) -> Result<(), Error> {
        match *self {}
    }
}

/// The receipt of a publisher that there is none of.
#[derive(Debug)]
pub enum NoReceipt {}

impl Future for NoReceipt {
    type Output = Result<Confirmed, PublishError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match *self {}
    }
}

impl Receipt for NoReceipt {
    fn now(&mut self) -> Option<Result<Confirmed, PublishError>> {
        match *self {}
    }
}

/// How many records [`Publisher::send_all`] has under way: as many as a Kafka publisher has unconfirmed by default.
const UNDER_WAY: usize = 4_096;

struct SendAll<R> {
    under_way: VecDeque<R>,
    confirmed: u64,
    failed: Vec<PublishError>,
    refused: Option<PublishError>,
}

impl<R> Default for SendAll<R> {
    fn default() -> Self {
        Self {
            under_way: VecDeque::new(),
            confirmed: 0,
            failed: Vec::new(),
            refused: None,
        }
    }
}

impl<R: Receipt> SendAll<R> {
    /// The oldest receipt is the only one that is waited for: the others wake nobody.
    async fn confirm_oldest(&mut self) {
        if let Some(receipt) = self.under_way.pop_front() {
            match receipt.await {
                Ok(_) => self.confirmed += 1,
                Err(error) => self.failed.push(error),
            }
        }
    }

    async fn finish(mut self) -> Result<u64, SendAllError> {
        while !self.under_way.is_empty() {
            self.confirm_oldest().await;
        }
        self.failed.extend(self.refused);
        if self.failed.is_empty() {
            return Ok(self.confirmed);
        }
        Err(SendAllError {
            confirmed: self.confirmed,
            failed: self.failed,
        })
    }
}
