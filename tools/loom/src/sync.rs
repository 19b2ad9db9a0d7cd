//! What the production crates' `sync` modules export, as loom has it.

use std::task::Waker;

pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Few: each place is made anew in every interleaving.
pub(crate) const FIRST_CHUNK: u32 = 2;

/// With the signatures of `futures_util`'s.
pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

impl AtomicWaker {
    pub(crate) fn new() -> Self {
        Self(loom::future::AtomicWaker::new())
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.0.register_by_ref(waker);
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        self.0.take_waker()
    }
}
