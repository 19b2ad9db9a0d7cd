//! Queues: the control queue of a client, and one queue for each assigned partition.

use std::collections::VecDeque;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdkafka::bindings::{
    rd_kafka_consume_batch_queue, rd_kafka_consumer_close_queue, rd_kafka_message_t, rd_kafka_offsets_store,
    rd_kafka_queue_cb_event_enable, rd_kafka_queue_destroy, rd_kafka_queue_forward,
    rd_kafka_queue_get_consumer, rd_kafka_queue_get_partition, rd_kafka_queue_length, rd_kafka_queue_poll,
    rd_kafka_queue_t, rd_kafka_seek_partitions, rd_kafka_t,
};

use super::client::Refusal;
use super::code::{Code, check};
use super::{Client, Event, KafkaDelivery, List, Wake};

/// How many messages one read takes at most. 64 is where the cost of the call stops to matter (598 instructions a
/// message, 591 at 1,024), and the array of pointers (512 bytes) still lives on the stack.
pub(crate) const READ: usize = 64;

/// A queue handle with an edge callback.
struct Queue {
    raw: NonNull<rd_kafka_queue_t>,
    wake: Arc<Wake>,
    client: Arc<Client>,
}

// SAFETY: queue handles may be used from any thread; batch reads are serialised by `Client::reading`.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Takes over a handle and installs the edge callback.
    fn armed(client: &Arc<Client>, raw: NonNull<rd_kafka_queue_t>) -> Self {
        let wake = Arc::new(Wake::new());
        // SAFETY: the handle is ours. The `Wake` is alive until `drop` has taken the callback out again.
        unsafe {
            let opaque = Arc::as_ptr(&wake).cast::<c_void>().cast_mut();
            rd_kafka_queue_cb_event_enable(raw.as_ptr(), Some(on_edge), opaque);
        }
        Self {
            raw,
            wake,
            client: Arc::clone(client),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and destroyed once. Taking the callback out takes the queue's lock, under which
        // the callback runs: when it returns, the callback does not run any more and will not again, so the `Wake` may
        // go. A queue is dropped before its partition is given back, so the callback that is taken out here is never
        // the one of a newer assignment of the same partition.
        unsafe {
            rd_kafka_queue_cb_event_enable(self.raw.as_ptr(), None, ptr::null_mut());
            rd_kafka_queue_destroy(self.raw.as_ptr());
        }
    }
}

/// The edge callback. librdkafka calls it on the thread that enqueued, with the queue's lock held: it must not call
/// librdkafka on that queue, and must not block.
unsafe extern "C" fn on_edge(_: *mut rd_kafka_t, wake: *mut c_void) {
    // SAFETY: the pointer is the `Wake` of a `Queue` that is alive: `Queue` takes the callback out, under the lock that
    // is held now, before it lets go of its `Wake`.
    let wake = unsafe { &*wake.cast_const().cast::<Wake>() };
    wake.poke();
}

/// The queue on which a client's rebalances, errors and commit results arrive.
pub(crate) struct ControlQueue(Queue);

impl ControlQueue {
    /// `None` for a client without a group.
    pub(crate) fn new(client: &Arc<Client>) -> Option<Self> {
        // SAFETY: the client is alive; the handle returned is ours.
        let queue = unsafe { rd_kafka_queue_get_consumer(client.as_ptr()) };
        NonNull::new(queue).map(|queue| Self(Queue::armed(client, queue)))
    }

    pub(crate) fn wake(&self) -> &Wake {
        &self.0.wake
    }

    /// The next event, if there is one. Never waits.
    pub(crate) fn next(&self) -> Option<Event> {
        // SAFETY: the handle is alive; the event returned is ours.
        let event = NonNull::new(unsafe { rd_kafka_queue_poll(self.0.raw.as_ptr(), 0) })?;
        // SAFETY: as above.
        Some(unsafe { Event::take(&self.0.client, event) })
    }

    /// Begins to close the consumer: its last events arrive on this queue, until [`Client::is_closed`].
    pub(crate) fn close(&self) -> Result<(), Refusal> {
        // SAFETY: both are alive; the error object is ours.
        unsafe {
            check(rd_kafka_consumer_close_queue(
                self.0.client.as_ptr(),
                self.0.raw.as_ptr(),
            ))
        }
    }
}

/// The queue of one assigned partition, and the place where its position is stored.
///
/// Must be dropped before the partition is given back: a stored position would else reach a newer assignment, and the
/// list keeps the client from being destroyed.
pub(crate) struct PartitionQueue {
    position: List,
    queue: Queue,
}

/// What a read found.
pub(crate) struct Read {
    /// Fewer than asked for: the queue was seen empty, under its lock.
    pub(crate) short: bool,
    /// Some of what was appended are errors, not records.
    pub(crate) faulty: bool,
}

impl PartitionQueue {
    /// Splits the partition's queue off, before it is assigned. Takes the client's lock, does not wait for the network.
    pub(crate) fn new(client: &Arc<Client>, topic: &CStr, partition: i32) -> Option<Self> {
        // SAFETY: the client is alive, the topic is NUL-terminated; the handle returned is ours.
        let queue = unsafe { rd_kafka_queue_get_partition(client.as_ptr(), topic.as_ptr(), partition) };
        let queue = NonNull::new(queue)?;
        // SAFETY: the handle is alive. Forwarding to nowhere keeps the partition's messages on its own queue; it has to
        // be said again for each assignment, and before it, because the end of fetching resets it.
        unsafe { rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut()) };
        let mut position = List::new();
        position.add(topic, partition, None);
        Some(Self {
            position,
            queue: Queue::armed(client, queue),
        })
    }

    pub(crate) fn wake(&self) -> &Arc<Wake> {
        &self.queue.wake
    }

    /// Appends up to `max` messages, at most [`READ`], that are there already.
    #[inline]
    pub(crate) fn read(&self, max: usize, batch: &mut VecDeque<KafkaDelivery>) -> Read {
        let mut found = [const { MaybeUninit::<*mut rd_kafka_message_t>::uninit() }; READ];
        let max = max.min(READ);
        let taken = {
            let _reading = self.queue.client.reading();
            // SAFETY: the handle is alive; the array holds at least `max` pointers; no other batch read of this client
            // runs, because we hold its lock.
            unsafe {
                rd_kafka_consume_batch_queue(self.queue.raw.as_ptr(), 0, found.as_mut_ptr().cast(), max)
            }
        };
        let taken = usize::try_from(taken).unwrap_or(0); // -1: the queue is being destroyed
        let found = found.get(..taken).unwrap_or_default();
        let mut faulty = false;
        batch.extend(found.iter().map(|message| {
            // SAFETY: librdkafka has filled the first `taken` places with messages that are now ours.
            let delivery = unsafe { KafkaDelivery::own(message.assume_init()) };
            faulty |= delivery.is_fault();
            delivery
        }));
        Read {
            short: taken < max,
            faulty,
        }
    }

    /// Whether anything waits to be read. Takes the queue's lock.
    pub(crate) fn is_behind(&self) -> bool {
        // SAFETY: the handle is alive.
        unsafe { rd_kafka_queue_length(self.queue.raw.as_ptr()) > 0 }
    }

    /// Stores the position that the next commit takes. Never waits for the network.
    ///
    /// The leader epoch stays unknown (-1): an epoch belongs to the record before the position, which may be gone when
    /// the position is stored, and it only lets the next owner notice a truncated log a little earlier.
    pub(crate) fn store(&mut self, position: i64) -> Result<(), Code> {
        if let Some(element) = self.position.first_mut() {
            element.offset = position;
        }
        // SAFETY: both are alive, and `&mut self` makes the access to the list exclusive. The list keeps a reference to
        // the partition from now on; it is dropped before the client (field order of `Self`, `queue` holds the client).
        let code = unsafe { rd_kafka_offsets_store(self.queue.client.as_ptr(), self.position.as_ptr()) };
        let code = Code::from(code);
        if code.is_ok() { Ok(()) } else { Err(code) }
    }

    /// Makes the partition be fetched from `offset` on. Returns at once; what was fetched before is discarded.
    pub(crate) fn seek(&self, topic: &CStr, partition: i32, offset: i64) -> Result<(), Refusal> {
        let mut list = List::new();
        list.add(topic, partition, Some(offset));
        let _reading = self.queue.client.reading();
        // SAFETY: both are alive; the error object is ours. A timeout of 0 means "do not wait for the result".
        unsafe {
            check(rd_kafka_seek_partitions(
                self.queue.client.as_ptr(),
                list.as_ptr(),
                0,
            ))
        }
    }
}
