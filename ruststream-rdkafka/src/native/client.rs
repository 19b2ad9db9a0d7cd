//! The client handle: owns one `rd_kafka_t`.

use std::any::Any;
use std::ffi::{CString, c_int};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::bindings::{
    RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE, RD_KAFKA_EVENT_ERROR, RD_KAFKA_EVENT_OFFSET_COMMIT,
    RD_KAFKA_EVENT_REBALANCE, rd_kafka_assign, rd_kafka_assignment_lost, rd_kafka_conf_set_events,
    rd_kafka_consumer_closed, rd_kafka_destroy_flags, rd_kafka_incremental_assign,
    rd_kafka_incremental_unassign, rd_kafka_poll_set_consumer, rd_kafka_subscribe, rd_kafka_subscription,
    rd_kafka_t, rd_kafka_type_t, rd_kafka_unsubscribe,
};
use tokio::sync::oneshot;

use super::List;
use super::code::{Code, check};
use super::make::make;
use crate::blocking::detached;

/// What a refused call said: a code for programs, a text for people.
pub(crate) type Refusal = (Code, String);

/// A consumer client of librdkafka.
///
/// Shared by its control task and its partitions' queues. Dropping the last reference destroys it on a thread of its
/// own, because destroying blocks: for good while a message or a stored list is alive, which also makes it safe to
/// keep a delivery for longer than its client.
pub(crate) struct Client {
    rk: Handle,
    /// Makes batch reads of this client run one after another, as librdkafka demands. Held for microseconds.
    consume: Mutex<()>,
    /// The group was left in order: destroying need not, and must not, try again.
    left: AtomicBool,
    /// Who waits for the destruction.
    destroyed: Mutex<Option<oneshot::Sender<()>>>,
    /// What must outlive the client (the embedded cluster that it talks to).
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// The pointer, so that it can move to the thread that destroys it.
#[derive(Clone, Copy)]
struct Handle(NonNull<rd_kafka_t>);

// SAFETY: every function of librdkafka that takes an `rd_kafka_t` may be called from any thread; the two exceptions
// (batch reads, destroying) are serialised by `Client::consume` and by `Drop`.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Client {
    /// Creates a consumer; starts its threads, connects in the background. Blocks for as long as TLS files are read.
    ///
    /// # Errors
    ///
    /// librdkafka's text: settings that contradict each other, or no more threads.
    pub(crate) fn new(
        config: &ClientConfig,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Arc<Self>, String> {
        let rk = make(rd_kafka_type_t::RD_KAFKA_CONSUMER, config, |native| {
            let events = RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_OFFSET_COMMIT;
            // SAFETY: the configuration is alive.
            unsafe { rd_kafka_conf_set_events(native, events) };
        })?;
        // SAFETY: a new consumer. Its main queue now ends in the consumer queue, which we poll. Without a group
        // (a probe) the call is refused, and there is nothing to redirect.
        unsafe { rd_kafka_poll_set_consumer(rk.as_ptr()) };
        Ok(Arc::new(Self {
            rk: Handle(rk),
            consume: Mutex::new(()),
            left: AtomicBool::new(false),
            destroyed: Mutex::new(None),
            keep,
        }))
    }

    pub(super) fn as_ptr(&self) -> *mut rd_kafka_t {
        self.rk.0.as_ptr()
    }

    /// Makes batch reads run one after another.
    #[inline]
    pub(super) fn reading(&self) -> MutexGuard<'_, ()> {
        self.consume.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to `topics`. Blocks until the client's main thread has answered.
    pub(crate) fn subscribe(&self, topics: &[CString]) -> Result<(), Code> {
        let list = List::of_topics(topics);
        // SAFETY: both are alive; the list is copied.
        ok(unsafe { rd_kafka_subscribe(self.as_ptr(), list.as_ptr()) }.into())
    }

    /// Gives the subscription up, or puts that off while a rebalance is under way. Blocks until the client's main thread
    /// has answered.
    pub(crate) fn unsubscribe(&self) -> Result<(), Code> {
        // SAFETY: the client is alive.
        ok(unsafe { rd_kafka_unsubscribe(self.as_ptr()) }.into())
    }

    /// Whether the client is subscribed to any topic. Blocks; for ever once the group has terminated.
    pub(crate) fn is_subscribed(&self) -> Result<bool, Code> {
        let mut topics = ptr::null_mut();
        // SAFETY: the client is alive; on success the list is ours, and freed by `List`.
        ok(unsafe { rd_kafka_subscription(self.as_ptr(), &raw mut topics) }.into())?;
        // SAFETY: as above.
        let topics = unsafe { List::take(topics) };
        Ok(topics.is_some_and(|topics| topics.len() > 0))
    }

    /// Answers an eager assignment. Blocks; for ever once the group has terminated.
    pub(crate) fn assign(&self, partitions: &List) -> Result<(), Refusal> {
        // SAFETY: both are alive; the list is copied.
        let code = Code::from(unsafe { rd_kafka_assign(self.as_ptr(), partitions.as_ptr()) });
        ok(code).map_err(|code| (code, code.to_string()))
    }

    /// Answers an eager revocation. Blocks; for ever once the group has terminated.
    pub(crate) fn unassign_all(&self) -> Result<(), Refusal> {
        // SAFETY: the client is alive; null means "nothing assigned".
        let code = Code::from(unsafe { rd_kafka_assign(self.as_ptr(), ptr::null()) });
        ok(code).map_err(|code| (code, code.to_string()))
    }

    /// Answers an incremental assignment. Blocks; for ever once the group has terminated.
    pub(crate) fn assign_more(&self, partitions: &List) -> Result<(), Refusal> {
        // SAFETY: both are alive; the list is copied, the error object is ours.
        unsafe { check(rd_kafka_incremental_assign(self.as_ptr(), partitions.as_ptr())) }
    }

    /// Answers an incremental revocation. Blocks; for ever once the group has terminated.
    pub(crate) fn unassign(&self, partitions: &List) -> Result<(), Refusal> {
        // SAFETY: both are alive; the list is copied, the error object is ours.
        unsafe { check(rd_kafka_incremental_unassign(self.as_ptr(), partitions.as_ptr())) }
    }

    /// Whether the assignment is lost, not just revoked. One atomic load.
    pub(crate) fn assignment_lost(&self) -> bool {
        // SAFETY: the client is alive.
        unsafe { rd_kafka_assignment_lost(self.as_ptr()) != 0 }
    }

    /// Whether a close that was begun has finished. One atomic load.
    pub(crate) fn is_closed(&self) -> bool {
        // SAFETY: the client is alive.
        unsafe { rd_kafka_consumer_closed(self.as_ptr()) != 0 }
    }

    /// Notes that the group was left in order.
    pub(crate) fn set_left(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Resolves when the client has been destroyed, after its last reference was dropped.
    pub(crate) fn destroyed(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        *self.destroyed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }
}

fn ok(code: Code) -> Result<(), Code> {
    if code.is_ok() { Ok(()) } else { Err(code) }
}

impl Drop for Client {
    fn drop(&mut self) {
        let rk = self.rk;
        // A group that was not left in order is not left now: leaving needs the coordinator, and may wait for it for
        // the whole session timeout. The group finds out by itself.
        let flags = if *self.left.get_mut() {
            0
        } else {
            RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE as c_int
        };
        let keep = self.keep.take();
        let waiting = self
            .destroyed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        detached("destroy", move || {
            let Handle(rk) = { rk };
            // SAFETY: this was the last reference, so nobody calls into the client any more; this thread is not one of
            // librdkafka's.
            unsafe { rd_kafka_destroy_flags(rk.as_ptr(), flags) };
            drop(keep);
            if let Some(waiting) = waiting {
                let _ = waiting.send(()); // nobody waits any more: fine
            }
        });
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
