//! Where the results of a sender's records wait for it: a stack for each sender.

use std::sync::PoisonError;
use std::task::{Context, Poll};

use super::acks::{Acks, lock};
use super::chunks::Chunks;
use super::places::{FAILED, NIL, Place};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, AtomicWaker, Mutex, MutexGuard, Ordering};

/// All stacks, used again when their senders are gone and their last result has come.
pub(super) struct Stacks {
    chunks: Chunks<Stack>,
    free: Mutex<Vec<u32>>,
}

/// Results of one sender's records.
pub(super) struct Stack {
    /// The newest one's place.
    pub(super) head: AtomicU32,
    pub(super) waker: AtomicWaker,
    /// Results that were pushed, or are about to be; and those of them whose room was given back.
    pub(super) pushed: AtomicUsize,
    pub(super) landed: AtomicUsize,
    /// The sender was dropped: nobody will take what is here.
    pub(super) gone: AtomicBool,
    /// How many results are still to come after that.
    pub(super) left: AtomicUsize,
}

impl Stack {
    fn new() -> Self {
        Self {
            head: AtomicU32::new(NIL),
            waker: AtomicWaker::new(),
            pushed: AtomicUsize::new(0),
            landed: AtomicUsize::new(0),
            gone: AtomicBool::new(false),
            left: AtomicUsize::new(0),
        }
    }
}

impl Stacks {
    pub(super) fn new() -> Self {
        Self {
            chunks: Chunks::new(),
            free: Mutex::new(Vec::new()),
        }
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&Stack> {
        self.chunks.at(index)
    }

    /// A stack for a new sender; `None` when there are 4 million.
    pub(super) fn take(&self) -> Option<u32> {
        loop {
            if let Some(index) = self.lock().pop() {
                return Some(index);
            }
            let grown = self.chunks.grow(
                || self.has_free(),
                |_| Stack::new(),
                |indices| self.lock().extend(indices.rev()),
            );
            if !grown {
                return None;
            }
        }
    }

    /// Gives a stack back to which nothing will be pushed any more.
    pub(super) fn give(&self, index: u32) {
        self.lock().push(index);
    }

    /// Every stack there is.
    pub(super) fn all(&self) -> impl Iterator<Item = &Stack> {
        (0..).map_while(|index| self.at(index))
    }

    fn has_free(&self) -> bool {
        !self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For senders, and the client's threads on their behalf.
impl<F> Acks<F> {
    /// Puts a result on the stack of its sender, and wakes that if the stack was empty.
    ///
    /// No result stays behind: a sender that lives registers before it looks ([`poll_sender`](Self::poll_sender)); one that
    /// is dropped sets `gone` and then takes what is there, so either it takes this, or this thread sees `gone`.
    #[inline]
    pub(super) fn push_to_sender(&self, number: u32, index: u32, place: &Place) {
        let stack = self.stack(number);
        // First: whoever takes the result must find it counted, or its room would wait for the next one.
        stack.pushed.fetch_add(1, Ordering::SeqCst);
        let mut head = stack.head.load(Ordering::Relaxed);
        loop {
            place.next.store(head, Ordering::Relaxed);
            match stack
                .head
                .compare_exchange_weak(head, index, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(found) => head = found,
            }
        }
        if head == NIL {
            stack.waker.wake();
        }
        // Its sender gives the room back when it takes the result; who waits for room cannot wait for that.
        if self.has_line() {
            self.land_pushed(stack);
        }
        if stack.gone.load(Ordering::SeqCst) {
            self.clear_gone(number, stack);
        }
    }

    /// A new sender; `None` when there are 4 million.
    pub(crate) fn open_sender(&self) -> Option<u32> {
        self.stacks.take()
    }

    /// Appends every result that a sender has, newest first.
    #[inline]
    pub(crate) fn take_results(&self, sender: u32, results: &mut Vec<(u32, Result<(), F>)>) {
        let stack = self.stack(sender);
        if stack.head.load(Ordering::Acquire) == NIL {
            return;
        }
        self.take_stack(stack, |name, result| results.push((name, result)));
    }

    /// Takes a stack, newest first, and gives its places and their room back.
    #[inline]
    fn take_stack(&self, stack: &Stack, mut take: impl FnMut(u32, Result<(), F>)) -> usize {
        let first = stack.head.swap(NIL, Ordering::SeqCst);
        let (mut index, mut last, mut count) = (first, None, 0);
        while let Some(place) = self.places.at(index) {
            let result = if place.flags() & FAILED == 0 {
                Ok(())
            } else {
                Err(self.failure(index))
            };
            take(place.addressee().map_or(0, |addressee| addressee.name), result);
            place.void();
            index = place.next.load(Ordering::Relaxed);
            last = Some(place);
            count += 1;
        }
        self.land_pushed(stack);
        if let Some(last) = last {
            self.places.push(first, last);
            self.wake_line(); // it may be a place that the first one waits for
        }
        count
    }

    /// Gives the room of a sender's results back, once for each; anyone may call it.
    fn land_pushed(&self, stack: &Stack) {
        let pushed = stack.pushed.load(Ordering::SeqCst);
        // Most stacks that `land_all` passes have nothing new: a look is cheaper than a write.
        if stack.landed.load(Ordering::SeqCst) == pushed {
            return;
        }
        let landed = stack.landed.fetch_max(pushed, Ordering::SeqCst);
        if pushed > landed {
            self.land(pushed - landed);
        }
    }

    /// As [`land_pushed`](Self::land_pushed), for all: before somebody waits for room.
    pub(crate) fn land_all(&self) {
        self.stacks.all().for_each(|stack| self.land_pushed(stack));
    }

    /// Ready when a sender has results; otherwise keeps the waker.
    pub(crate) fn poll_sender(&self, sender: u32, cx: &Context<'_>) -> Poll<()> {
        let stack = self.stack(sender);
        let is_empty = || stack.head.load(Ordering::SeqCst) == NIL;
        if is_empty() {
            stack.waker.register(cx.waker());
        }
        if is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Ends a sender that has not got the results of `left` records.
    pub(crate) fn close_sender(&self, sender: u32, left: usize) {
        let stack = self.stack(sender);
        drop(stack.waker.take());
        if left == 0 {
            return self.stacks.give(sender);
        }
        stack.left.store(left, Ordering::SeqCst);
        stack.gone.store(true, Ordering::SeqCst);
        self.clear_gone(sender, stack);
    }

    /// Forgets what a sender that is gone would have taken; whoever forgets the last of it gives the stack back.
    #[cold]
    fn clear_gone(&self, number: u32, stack: &Stack) {
        let _one_at_a_time = lock(&self.clearing);
        // Or another thread has given the stack back meanwhile, and its results are a new sender's.
        if !stack.gone.load(Ordering::SeqCst) {
            return;
        }
        let count = self.take_stack(stack, |_, result| {
            if let Err(failure) = result {
                self.forget_failure(failure);
            }
        });
        if count > 0 && stack.left.fetch_sub(count, Ordering::SeqCst) == count {
            stack.gone.store(false, Ordering::SeqCst);
            self.stacks.give(number);
        }
    }

    fn stack(&self, number: u32) -> &Stack {
        self.stacks
            .at(number)
            .expect("senders are numbered by their stacks, and stacks stay")
    }
}
