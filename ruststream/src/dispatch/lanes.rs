//! Places for handlers that are open at once in one partition, each polled only when it was woken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::{AtomicU64, AtomicWaker, Ordering};

/// Handler places of one partition: pinned once, reused for every message, so that a message allocates nothing.
pub(super) struct Lanes<F, T> {
    places: Vec<Lane<F, T>>,
    /// Free lanes; the last one is used next, so that a sequential partition always uses the same, warm one.
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// Where [`next_finished`](Self::next_finished) is: the word after the one it took, and what is left of that.
    word: usize,
    bits: u64,
}

struct Lane<F, T> {
    waker: Waker,
    /// The last future that started here; a finished one stays until the next takes its place, which costs nothing.
    future: Pin<Box<Option<F>>>,
    /// What the caller keeps for an open future; `None`: the lane is free.
    open: Option<T>,
}

impl<F: Future, T> Lanes<F, T> {
    /// At most `limit` lanes; they are made as they are needed.
    pub(super) fn new(limit: usize) -> Self {
        let words = (0..limit.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let woken = Arc::new(Woken {
            words,
            task: AtomicWaker::new(),
        });
        Self {
            places: Vec::new(),
            free: Vec::new(),
            woken,
            word: 0,
            bits: 0,
        }
    }

    /// Keeps the task's waker. Call it before looking at what was woken, and then look until `None`: a pass that began
    /// before this may have gone by what is woken now.
    pub(super) fn register(&self, task: &Waker) {
        self.woken.task.register(task);
    }

    /// Makes a future in a free lane and polls it once. If it is pending it stays there, and `kept` with it.
    ///
    /// The caller keeps the number of open futures below the limit.
    #[inline]
    pub(super) fn start(&mut self, kept: T, future: impl FnOnce() -> F) -> Poll<F::Output> {
        let free = match self.free.last() {
            Some(free) => *free,
            None => self.grow(),
        };
        let Some(lane) = self.places.get_mut(free) else {
            unreachable!("`free` holds lanes that exist")
        };
        lane.future.set(Some(future()));
        let polled = lane.poll();
        if polled.is_pending() {
            lane.open = Some(kept);
            self.free.pop();
        }
        polled
    }

    #[cold]
    fn grow(&mut self) -> usize {
        let index = self.places.len();
        let waker = Waker::from(Arc::new(LaneWaker {
            woken: Arc::clone(&self.woken),
            index,
        }));
        self.places.push(Lane {
            waker,
            future: Box::pin(None),
            open: None,
        });
        self.free.push(index);
        index
    }

    /// Polls the lanes that were woken until one is ready; `None` when each of them had its turn.
    #[inline]
    pub(super) fn next_finished(&mut self) -> Option<(T, F::Output)> {
        loop {
            while self.bits == 0 {
                if self.word == self.woken.words.len() {
                    self.word = 0;
                    return None;
                }
                self.bits = self.woken.take(self.word);
                self.word += 1;
            }
            let index = (self.word - 1) * 64 + self.bits.trailing_zeros() as usize;
            self.bits &= self.bits - 1;
            // A lane whose future finished meanwhile was woken for nothing.
            let Some(lane) = self.places.get_mut(index).filter(|lane| lane.open.is_some()) else {
                continue;
            };
            if let Poll::Ready(output) = lane.poll() {
                self.free.push(index);
                return lane.open.take().map(|kept| (kept, output));
            }
        }
    }

    /// Drops every open future: its handler is cancelled.
    pub(super) fn cancel(&mut self) {
        self.free.clear();
        for (index, lane) in self.places.iter_mut().enumerate() {
            lane.future.set(None);
            lane.open = None;
            self.free.push(index);
        }
    }
}

impl<F: Future, T> Lane<F, T> {
    #[inline]
    fn poll(&mut self) -> Poll<F::Output> {
        let Some(future) = self.future.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        future.poll(&mut Context::from_waker(&self.waker))
    }
}

/// Which lanes were woken, and the task that polls them.
struct Woken {
    words: Box<[AtomicU64]>,
    task: AtomicWaker,
}

impl Woken {
    /// Takes the woken lanes of one word, a bit each.
    #[inline]
    fn take(&self, word: usize) -> u64 {
        match self.words.get(word) {
            // Reading first keeps the common case, nothing woken, free of a locked instruction.
            Some(bits) if bits.load(Ordering::Acquire) != 0 => bits.swap(0, Ordering::AcqRel),
            _ => 0,
        }
    }
}

struct LaneWaker {
    woken: Arc<Woken>,
    index: usize,
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    // The bit is set before the task is woken, and the task registers before it reads the bits: either it sees the bit
    // in this poll, or the wake makes it poll again. `tools/loom` tries the interleavings.
    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(word) = self.woken.words.get(self.index / 64) {
            word.fetch_or(1 << (self.index % 64), Ordering::AcqRel);
        }
        self.woken.task.wake();
    }
}
