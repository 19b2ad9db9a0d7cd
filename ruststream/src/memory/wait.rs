//! Waiting for a change of the state, or for the next deadline, whichever comes first.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Poll, Waker, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// Calls `check` until it breaks: now, when the waker it was given is woken, and at the instant it continued with.
pub(super) async fn until<T>(mut check: impl FnMut(&Waker) -> ControlFlow<T, Option<Instant>>) -> T {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        loop {
            let deadline = match check(cx.waker()) {
                ControlFlow::Break(value) => return Poll::Ready(value),
                ControlFlow::Continue(Some(deadline)) => deadline,
                ControlFlow::Continue(None) => return Poll::Pending,
            };
            let sleep = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if sleep.deadline() != deadline {
                sleep.as_mut().reset(deadline);
            }
            ready!(sleep.as_mut().poll(cx));
        }
    })
    .await
}
