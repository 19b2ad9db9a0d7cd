//! One assignment of one partition: what its task and the control task share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use ruststream::broker::{End, StoreError};

use super::Topic;
use super::group::Group;
use crate::native::{PartitionQueue, Wake};

/// From the moment a partition is assigned until it is given back. The same partition coming back to this process is
/// another value: nothing that a late task does to this one reaches that one.
pub(super) struct Assignment {
    topic: Arc<Topic>,
    index: i32,
    wake: Arc<Wake>,
    end: EndSignal,
    /// `None` once the assignment is over. Reads and stores happen under this lock, and so does taking the queue out:
    /// after that, neither can happen any more.
    queue: Mutex<Option<PartitionQueue>>,
    /// The position stored last, or [`NOTHING`].
    stored: AtomicI64,
    /// The partition's task wants to be woken at the next tick.
    recheck: AtomicBool,
    /// The `KafkaPartition` was dropped.
    released: AtomicBool,
    group: Arc<Group>,
}

/// Below every offset.
const NOTHING: i64 = -1;

impl Assignment {
    pub(super) fn new(topic: Arc<Topic>, index: i32, queue: PartitionQueue, group: Arc<Group>) -> Self {
        Self {
            topic,
            index,
            wake: Arc::clone(queue.wake()),
            end: EndSignal::default(),
            queue: Mutex::new(Some(queue)),
            stored: AtomicI64::new(NOTHING),
            recheck: AtomicBool::new(false),
            released: AtomicBool::new(false),
            group,
        }
    }

    pub(super) fn topic(&self) -> &Topic {
        &self.topic
    }

    pub(super) fn index(&self) -> i32 {
        self.index
    }

    pub(super) fn group(&self) -> &str {
        self.group.name()
    }

    #[inline]
    pub(super) fn wake(&self) -> &Wake {
        &self.wake
    }

    /// The queue while the assignment lasts. Held for one read or store.
    #[inline]
    pub(super) fn queue(&self) -> MutexGuard<'_, Option<PartitionQueue>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self, position: i64) -> Result<(), StoreError> {
        let mut queue = self.queue();
        let queue = queue.as_mut().ok_or(StoreError)?;
        queue.store(position).map_err(|code| {
            tracing::debug!(topic = self.topic.name, partition = self.index, %code, "a position was not stored");
            StoreError
        })?;
        self.stored.store(position, Ordering::Release);
        Ok(())
    }

    /// The position stored last.
    pub(super) fn stored(&self) -> Option<i64> {
        let position = self.stored.load(Ordering::Acquire);
        (position > NOTHING).then_some(position)
    }

    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<End> {
        self.end.poll(cx)
    }

    /// Tells the partition's task that the assignment ends.
    pub(super) fn end(&self, end: End) {
        self.end.raise(end);
    }

    /// Ends the assignment for good: no read or store happens after this.
    pub(super) fn detach(&self) {
        let queue = self.queue().take();
        drop(queue); // not under the lock: dropping it calls librdkafka
    }

    /// The task has let go of the partition.
    pub(super) fn release(&self) {
        self.detach();
        self.released.store(true, Ordering::Release);
        self.group.notify();
    }

    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Asks for a wake-up at the next tick.
    pub(super) fn recheck(&self) {
        self.recheck.store(true, Ordering::Release);
    }

    /// Once a second: wakes the task if its queue is not empty, so that a lost edge heals itself, or if it asked to be
    /// woken. Idle tasks sleep on.
    pub(super) fn tick(&self) {
        let behind = self.queue().as_ref().is_some_and(PartitionQueue::is_behind);
        if behind | self.recheck.swap(false, Ordering::AcqRel) {
            self.wake.poke();
        }
    }
}

/// Tells one task why its assignment ends.
#[derive(Default)]
struct EndSignal {
    state: AtomicU8,
    waker: AtomicWaker,
}

const REVOKED: u8 = 1;
const CLOSED: u8 = 2;
const LOST: u8 = 3;

impl EndSignal {
    /// The first reason stays, unless the partition turns out to be lost.
    fn raise(&self, end: End) {
        let state = match end {
            End::Revoked => REVOKED,
            End::Closed => CLOSED,
            End::Lost => LOST,
        };
        let worse = |current| (current == 0 || state == LOST).then_some(state);
        if self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, worse)
            .is_ok()
        {
            self.waker.wake();
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<End> {
        // Before the look, or a `raise` between the two would find no waker; and also when there is an end already,
        // because a revoked partition that is draining may turn out to be lost.
        self.waker.register(cx.waker());
        self.get().map_or(Poll::Pending, Poll::Ready)
    }

    fn get(&self) -> Option<End> {
        match self.state.load(Ordering::Acquire) {
            REVOKED => Some(End::Revoked),
            CLOSED => Some(End::Closed),
            LOST => Some(End::Lost),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_drain_hears_that_its_partition_was_lost_meanwhile() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let signal = EndSignal::default();
        signal.raise(End::Revoked);
        assert_eq!(signal.poll(&mut cx), Poll::Ready(End::Revoked));
        signal.raise(End::Lost);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(signal.poll(&mut cx), Poll::Ready(End::Lost));
    }

    #[test]
    fn an_end_gets_worse_but_never_better() {
        let mut cx = Context::from_waker(Waker::noop());
        let signal = EndSignal::default();
        assert!(signal.poll(&mut cx).is_pending());
        signal.raise(End::Revoked);
        signal.raise(End::Closed);
        assert_eq!(signal.poll(&mut cx), Poll::Ready(End::Revoked));
        signal.raise(End::Lost);
        signal.raise(End::Revoked);
        assert_eq!(signal.poll(&mut cx), Poll::Ready(End::Lost));
    }
}
