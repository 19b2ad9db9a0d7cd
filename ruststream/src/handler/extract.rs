//! Extractors: what a handler can take beside the payload.

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::{Context, Requirements};
use crate::broker::Delivery;
use crate::{Failure, Headers};

/// An argument that a handler can take after its payload.
///
/// [`State`](crate::State), [`Key`](crate::Key), [`Headers`], [`Meta`], [`Publisher`](crate::Publisher) and [`Shutdown`] are here; write your own for
/// what several handlers read from a delivery:
///
/// ```
/// use ruststream::broker::Delivery;
/// use ruststream::{Context, Failure, FromDelivery};
///
/// /// The tenant, from the header of that name.
/// struct Tenant<'m>(&'m str);
///
/// impl<'m> FromDelivery<'m> for Tenant<'m> {
///     fn from_delivery<D: Delivery>(delivery: &'m D, _cx: Context<'m>) -> Result<Self, Failure> {
///         let value = delivery.headers().get("tenant").flatten();
///         let value = value.ok_or_else(|| Failure::undecodable("the header `tenant` is missing"))?;
///         std::str::from_utf8(value).map(Tenant).map_err(Failure::undecodable)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a subscriber cannot take `{Self}` as an argument",
    label = "not an extractor",
    note = "the first argument is the payload; the others are `State<'_, T>`, `Key<T>`, `Headers<'_>`, `Meta<'_>`, `Publisher<'_>`, `Shutdown`, or a type that implements `FromDelivery`"
)]
pub trait FromDelivery<'m>: Sized {
    /// Reads the argument; a failure is the handler's, and follows its policy.
    fn from_delivery<D: Delivery>(delivery: &'m D, cx: Context<'m>) -> Result<Self, Failure>;

    /// Names what the extractor needs from the app. One that uses another extractor passes the question on.
    fn requires(requirements: &mut Requirements) {
        let _ = requirements;
    }
}

/// Where a delivery came from, and which attempt this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta<'m> {
    /// The topic.
    pub topic: &'m str,
    /// The partition's number in its topic.
    pub partition: i32,
    /// The position in the partition.
    pub offset: i64,
    /// The record's timestamp, where the broker has one.
    pub timestamp: Option<SystemTime>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

impl<'m> FromDelivery<'m> for Meta<'m> {
    fn from_delivery<D: Delivery>(delivery: &'m D, cx: Context<'m>) -> Result<Self, Failure> {
        Ok(Meta {
            topic: delivery.topic(),
            partition: delivery.partition(),
            offset: delivery.offset(),
            timestamp: delivery.timestamp(),
            attempt: cx.attempt(),
        })
    }
}

impl<'m> FromDelivery<'m> for Headers<'m> {
    fn from_delivery<D: Delivery>(delivery: &'m D, _cx: Context<'m>) -> Result<Self, Failure> {
        Ok(delivery.headers())
    }
}

/// Tells a long-running handler that its partition is to drain, by a rebalance or by shutdown.
///
/// A handler that returns within the drain timeout (default 5 s) is settled as usual; one that is still running then is
/// cancelled, and its delivery is seen again.
#[derive(Debug, Clone)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// Waits until the partition is to drain.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Whether the partition is to drain.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl<'m> FromDelivery<'m> for Shutdown {
    fn from_delivery<D: Delivery>(_delivery: &'m D, cx: Context<'m>) -> Result<Self, Failure> {
        Ok(Self(cx.shutdown().clone()))
    }
}
