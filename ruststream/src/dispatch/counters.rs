//! What a subscription has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one subscription, shared by its partition tasks; each adds to them once a turn, not once a message.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) dead_lettered: AtomicU64,
    pub(crate) replied: AtomicU64,
    pub(crate) unconfirmed: AtomicU64,
    pub(crate) unfinished: AtomicU64,
    pub(crate) late: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        if n > 0 {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
