//! Where the results of a sender's records wait for it: a stack for each sender.

use std::sync::PoisonError;

use super::chunks::Chunks;
use super::places::NIL;
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, AtomicWaker, Mutex, MutexGuard};

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
