//! What `places` and `acks` are made of. Here, so that a model checker can take the same files with its own types.

pub(super) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(super) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(super) use futures_util::task::AtomicWaker;

/// Places in the first chunk: 64 KiB of them. A power of two.
pub(super) const FIRST_CHUNK: u32 = 1_024;
