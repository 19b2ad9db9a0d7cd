//! What an edge callback does: set a flag, wake a task.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use rdkafka::bindings::rd_kafka_t;

/// A flag that says "the queue may hold something", and the task that waits for it.
///
/// One task waits; any thread wakes. Starts set, so that the first look at a queue is a real one: librdkafka calls the
/// callback for what arrives after it was installed, not for what is there already.
pub(crate) struct Wake {
    flag: AtomicBool,
    waker: AtomicWaker,
}

impl Wake {
    pub(super) fn new() -> Self {
        Self {
            flag: AtomicBool::new(true),
            waker: AtomicWaker::new(),
        }
    }

    /// Takes the flag, or keeps the waker.
    ///
    /// No wake-up is lost. The caller has seen the queue empty, under the queue's lock; whatever is enqueued after that
    /// makes an edge, and the edge's two steps (set the flag, wake) can fall anywhere between the three steps here:
    /// - flag set before the first look: taken there;
    /// - flag set between the first look and `register`, wake before `register` (it finds no waker): the second look,
    ///   which comes after `register`, sees the flag, because `AtomicWaker` orders a `wake` that missed a `register`
    ///   before what follows that `register`;
    /// - wake after `register`: the task is woken and looks again.
    #[inline]
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.flag.swap(false, Ordering::AcqRel) {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        if self.flag.swap(false, Ordering::AcqRel) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Makes the waiting task look at its queue.
    pub(crate) fn poke(&self) {
        self.flag.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// The edge callback. librdkafka calls it on the thread that enqueued, with the queue's lock held: it must not call
/// librdkafka on that queue, and must not block.
pub(super) unsafe extern "C" fn on_edge(_: *mut rd_kafka_t, wake: *mut c_void) {
    // SAFETY: the pointer is the `Wake` of a `Queue` that is alive: `Queue` takes the callback out, under the lock that
    // is held now, before it lets go of its `Wake`.
    let wake = unsafe { &*wake.cast_const().cast::<Wake>() };
    wake.poke();
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_flag_is_taken_once_and_an_edge_sets_it_again() {
        let wake = Wake::new();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wake.poll_ready(&mut cx).is_ready());
        assert!(wake.poll_ready(&mut cx).is_pending());
        wake.poke();
        assert!(wake.poll_ready(&mut cx).is_ready());
    }
}
