//! What an edge callback does: set a flag, wake a task.

use std::task::{Context, Poll};

use crate::sync::{AtomicBool, AtomicWaker, Ordering};

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
    ///
    /// `tools/loom` tries the interleavings.
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
        // Not a store: that would cut off what the poke before it published. (And loom lets a store slip in between the
        // two halves of a swap.)
        self.flag.swap(true, Ordering::Release);
        self.waker.wake();
    }
}

#[cfg(all(test, not(loom)))]
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
