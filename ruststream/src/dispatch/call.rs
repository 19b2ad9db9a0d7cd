//! One call of a handler.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{self, Poll};
use std::time::Duration;

use tokio::time::timeout;

use super::joined::Joining;
use super::partition::{DeliveryOf, ReceiptOf};
use crate::broker::{Broker, Delivery};
use crate::handler::{Context, Scope};
use crate::{Failure, Handler, Outcome, Record};

/// How one call of a handler ended.
pub(super) enum Ended<B: Broker> {
    Acked,
    Replied(DeliveryOf<B>, Box<Record>),
    /// Anything else. Boxed, so that what every message hands over is small.
    Otherwise(Box<Rest<B>>),
}

/// What a call leaves behind.
pub(super) struct Rest<B: Broker> {
    pub(super) delivery: DeliveryOf<B>,
    pub(super) outcome: Outcome,
    /// Of what the handler sent itself.
    pub(super) receipts: Vec<ReceiptOf<B>>,
}

/// What all calls of a partition need.
pub(super) struct Calls<'a, B: Broker, H> {
    pub(super) handler: &'a H,
    pub(super) scope: &'a Scope,
    /// What handlers send themselves; `None` when they do not.
    pub(super) joining: Option<&'a Joining<B::Publisher>>,
    /// How long one may take.
    pub(super) timeout: Option<Duration>,
}

/// One call of the handler. It owns the delivery and lends it, so that a panic cannot take it away.
pub(super) async fn one_call<B: Broker, H: Handler>(
    calls: &Calls<'_, B, H>,
    delivery: DeliveryOf<B>,
    attempt: u32,
    number: u32,
) -> Ended<B> {
    let outcome = {
        let cx = Context::new(calls.scope, attempt, number);
        let mut call = pin!(calls.handler.call(&delivery, cx));
        if tracing::enabled!(tracing::Level::DEBUG) || calls.timeout.is_some() {
            let span = span(&delivery, calls.scope, attempt);
            // Boxed: what few calls need makes the others no larger.
            Box::pin(watched(call, span, calls.timeout)).await
        } else {
            poll_fn(|cx| poll_caught(call.as_mut(), cx)).await
        }
    };
    if let Some(joining) = calls.joining {
        let receipts = joining.end(number);
        return Ended::otherwise(delivery, outcome, receipts);
    }
    match outcome {
        Outcome::Ack => Ended::Acked,
        Outcome::Reply(record) => Ended::Replied(delivery, record),
        outcome => Ended::otherwise(delivery, outcome, Vec::new()),
    }
}

impl<B: Broker> Ended<B> {
    #[cold]
    fn otherwise(delivery: DeliveryOf<B>, outcome: Outcome, receipts: Vec<ReceiptOf<B>>) -> Self {
        Self::Otherwise(Box::new(Rest {
            delivery,
            outcome,
            receipts,
        }))
    }
}

/// A call in a span, and with a limit to its time.
async fn watched(
    mut call: Pin<&mut impl Future<Output = Outcome>>,
    span: tracing::Span,
    limit: Option<Duration>,
) -> Outcome {
    let call = poll_fn(|cx| {
        let _entered = span.enter();
        poll_caught(call.as_mut(), cx)
    });
    let Some(limit) = limit else { return call.await };
    timeout(limit, call)
        .await
        .unwrap_or_else(|_| Outcome::Failed(Failure::timed_out(limit)))
}

/// The one place where a handler's panic is caught.
#[inline]
fn poll_caught(call: Pin<&mut impl Future<Output = Outcome>>, cx: &mut task::Context<'_>) -> Poll<Outcome> {
    catch_unwind(AssertUnwindSafe(|| call.poll(cx))).unwrap_or_else(|panic| panicked(&*panic))
}

#[cold]
fn span(delivery: &impl Delivery, scope: &Scope, attempt: u32) -> tracing::Span {
    tracing::debug_span!(
        "handle",
        subscription = &*scope.subscription,
        topic = delivery.topic(),
        partition = delivery.partition(),
        offset = delivery.offset(),
        attempt,
    )
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Poll<Outcome> {
    Poll::Ready(Outcome::Failed(Failure::panic(panic)))
}
