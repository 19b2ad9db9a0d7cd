//! What the lock-free parts of `native` and `publisher` are made of. Here, so that `tools/loom` can take the same files with
//! loom's types.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::sync::{Mutex, MutexGuard};

pub(crate) use futures_util::task::AtomicWaker;

/// Places of a publisher's first chunk: 64 KiB of them. A power of two.
pub(crate) const FIRST_CHUNK: u32 = 1_024;
