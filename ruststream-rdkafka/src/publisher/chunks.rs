//! Values that never move, however many there are.

use std::ops::Range;
use std::sync::{OnceLock, PoisonError};

use crate::sync::{FIRST_CHUNK, Mutex};

/// Each chunk is twice as large as the one before: together 4 million values.
const CHUNKS: usize = 12;

pub(super) struct Chunks<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
    /// Chunks that exist.
    grown: Mutex<usize>,
}

impl<T> Chunks<T> {
    pub(super) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            grown: Mutex::new(0),
        }
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&T> {
        let shifted = index.checked_add(FIRST_CHUNK)?;
        let chunk = shifted.ilog2() - FIRST_CHUNK.ilog2();
        let within = shifted - (FIRST_CHUNK << chunk);
        self.chunks.get(chunk as usize)?.get()?.get(within as usize)
    }

    /// Makes the next chunk, and has `publish` make its indices known; `false` when there will be no more. Nothing, if
    /// `done` says that somebody else just did.
    #[cold]
    pub(super) fn grow(
        &self,
        done: impl FnOnce() -> bool,
        make: impl Fn(u32) -> T,
        publish: impl FnOnce(Range<u32>),
    ) -> bool {
        let mut grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        if done() {
            return true;
        }
        let Some(chunk) = self.chunks.get(*grown) else {
            return false;
        };
        let size = FIRST_CHUNK << *grown;
        let first = size - FIRST_CHUNK;
        let indices = first..first + size;
        chunk.get_or_init(|| indices.clone().map(make).collect());
        *grown += 1;
        publish(indices);
        true
    }
}
