//! What the lock-free part of `dispatch` is made of. Here, so that `tools/loom` can take the same files with loom's types.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use futures_util::task::AtomicWaker;
