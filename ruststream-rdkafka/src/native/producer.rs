//! The producer client.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::bindings::{
    RD_KAFKA_MSG_F_COPY, RD_KAFKA_PURGE_F_INFLIGHT, RD_KAFKA_PURGE_F_QUEUE, rd_kafka_destroy,
    rd_kafka_fatal_error, rd_kafka_flush, rd_kafka_header_add, rd_kafka_headers_destroy,
    rd_kafka_headers_new, rd_kafka_headers_t, rd_kafka_last_error, rd_kafka_poll, rd_kafka_produce,
    rd_kafka_producev, rd_kafka_purge, rd_kafka_t, rd_kafka_topic_destroy, rd_kafka_topic_new,
    rd_kafka_topic_t, rd_kafka_type_t, rd_kafka_vtype_t,
};
use ruststream::Record;

use super::code::Code;
use super::interceptor::{self, Results};
use super::make::{Text, make};
use crate::blocking::detached;

/// A producer client of librdkafka, whose results go to its [`Acks`](crate::publisher::Acks).
///
/// Dropping it ends it on a thread of its own: records under way get [`GRACE`] to be confirmed, then they are purged,
/// and every receipt has resolved when the client is gone.
pub(crate) struct Producer {
    owned: Owned,
    topics: Topics,
    results: Arc<Results>,
    /// Records under way were given up already.
    purged: AtomicBool,
    /// What must outlive the client (the embedded cluster that it talks to).
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// How long records that are under way when the last publisher is dropped may take: 5 s, enough for a cluster that is
/// well, and a service that ends is not delayed by it (it happens on a thread that does not hold the process).
const GRACE: Duration = Duration::from_secs(5);

/// "Have the partition chosen".
const CHOSEN: i32 = -1;

/// The pointer, so that it can move to the thread that destroys it.
#[derive(Clone, Copy)]
struct Owned(NonNull<rd_kafka_t>);

// SAFETY: every function of a producer may be called from any thread; destroying happens once, in `Drop`.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// A topic's handle, alive for as long as its producer.
#[derive(Clone, Copy)]
pub(crate) struct Topic(NonNull<rd_kafka_topic_t>);

// SAFETY: a topic handle may be used on any thread.
unsafe impl Send for Topic {}
// SAFETY: as above.
unsafe impl Sync for Topic {}

/// Topic handles by name: the first ones without a lock, which is a hundred instructions less.
#[derive(Default)]
struct Topics {
    first: [OnceLock<(String, Topic)>; FIRST_TOPICS],
    more: RwLock<BTreeMap<String, Topic>>,
}

/// A service sends to a few topics; looking through 8 names costs as much as the lock.
const FIRST_TOPICS: usize = 8;

impl Topics {
    #[inline]
    fn get(&self, name: &str) -> Option<Topic> {
        self.first(name).or_else(|| self.other(name))
    }

    #[inline]
    fn first(&self, name: &str) -> Option<Topic> {
        let known = self.first.iter().map_while(OnceLock::get);
        known
            .filter(|(known, _)| known == name)
            .map(|(_, topic)| *topic)
            .next()
    }

    fn other(&self, name: &str) -> Option<Topic> {
        let more = self.more.read().unwrap_or_else(PoisonError::into_inner);
        more.get(name).copied()
    }

    fn into_all(self) -> impl Iterator<Item = Topic> {
        let first = self.first.into_iter().filter_map(OnceLock::into_inner);
        let more = self.more.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map(|(_, topic)| topic).chain(more.into_values())
    }
}

impl Producer {
    /// Creates a producer; starts its threads, connects in the background. Blocks for as long as TLS files are read.
    ///
    /// # Errors
    ///
    /// librdkafka's text: settings that contradict each other, or no more threads.
    pub(crate) fn new(
        config: &ClientConfig,
        results: Arc<Results>,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Self, String> {
        let rk = make(rd_kafka_type_t::RD_KAFKA_PRODUCER, config, |native| {
            // SAFETY: the configuration is alive; the results outlive the client (`Drop` lets go of them after it is
            // destroyed). No delivery report callback and no such event is set: with the interceptor alone, librdkafka
            // frees each message right there.
            unsafe { interceptor::install(native, Arc::as_ptr(&results)) };
        })?;
        Ok(Self {
            owned: Owned(rk),
            topics: Topics::default(),
            results,
            purged: AtomicBool::new(false),
            keep,
        })
    }

    /// The handle of a topic that was used before.
    #[inline]
    pub(crate) fn topic(&self, name: &str) -> Option<Topic> {
        self.topics.get(name)
    }

    /// Makes the handle of a topic. Does not wait for the cluster.
    #[cold]
    pub(crate) fn new_topic(&self, name: &str) -> Result<Topic, Code> {
        let mut more = self.topics.more.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(topic) = self.topics.first(name).or_else(|| more.get(name).copied()) {
            return Ok(topic);
        }
        let native = CString::new(name).map_err(|_| Code::INVALID_ARGUMENT)?;
        // SAFETY: the client is alive, the name is NUL-terminated and copied; null means "the client's own settings".
        let topic = unsafe { rd_kafka_topic_new(self.as_ptr(), native.as_ptr(), ptr::null_mut()) };
        let Some(topic) = NonNull::new(topic) else {
            // SAFETY: reads a thread-local.
            return Err(unsafe { rd_kafka_last_error() }.into());
        };
        // Under the lock of the others, so that nobody else fills the same slot.
        let slot = self.topics.first.iter().find(|slot| slot.get().is_none());
        match slot {
            Some(slot) => drop(slot.set((name.to_owned(), Topic(topic)))),
            None => drop(more.insert(name.to_owned(), Topic(topic))),
        }
        Ok(Topic(topic))
    }

    /// Enqueues a copy of the record. Never waits.
    ///
    /// `timestamp`: milliseconds since 1970, 0 for now.
    ///
    /// # Errors
    ///
    /// It was not enqueued. Where the partition is known not to exist, the results have been told nevertheless.
    #[inline]
    pub(crate) fn enqueue(
        &self,
        topic: Topic,
        record: &Record,
        timestamp: i64,
        opaque: usize,
    ) -> Result<(), Code> {
        if record.headers().len() > 0 || timestamp != 0 {
            return self.enqueue_full(topic, record, timestamp, opaque);
        }
        let (payload, payload_size) = raw(record.payload());
        let (key, key_size) = raw(record.key_bytes());
        // SAFETY: client and topic are alive; payload and key are as long as we say, and are copied.
        unsafe {
            let refused = rd_kafka_produce(
                topic.0.as_ptr(),
                record.partition().unwrap_or(CHOSEN),
                RD_KAFKA_MSG_F_COPY,
                payload,
                payload_size,
                key,
                key_size,
                opaque as *mut c_void,
            );
            if refused == 0 {
                Ok(())
            } else {
                Err(rd_kafka_last_error().into())
            }
        }
    }

    /// The way that takes headers and a timestamp: 250 instructions more, and 800 for the first header.
    fn enqueue_full(&self, topic: Topic, record: &Record, timestamp: i64, opaque: usize) -> Result<(), Code> {
        use rd_kafka_vtype_t as V;
        let headers = Headers::of(record)?;
        let (payload, payload_size) = raw(record.payload());
        let (key, key_size) = raw(record.key_bytes());
        // SAFETY: client and topic are alive; payload and key are as long as we say, and are copied. Each tag is followed
        // by values of the types that librdkafka reads for it, and the list ends with `END`. Null headers mean none.
        let code: Code = unsafe {
            rd_kafka_producev(
                self.as_ptr(),
                V::RD_KAFKA_VTYPE_RKT,
                topic.0.as_ptr(),
                V::RD_KAFKA_VTYPE_PARTITION,
                record.partition().unwrap_or(CHOSEN),
                V::RD_KAFKA_VTYPE_MSGFLAGS,
                RD_KAFKA_MSG_F_COPY,
                V::RD_KAFKA_VTYPE_VALUE,
                payload,
                payload_size,
                V::RD_KAFKA_VTYPE_KEY,
                key,
                key_size,
                V::RD_KAFKA_VTYPE_TIMESTAMP,
                timestamp,
                V::RD_KAFKA_VTYPE_OPAQUE,
                opaque as *mut c_void,
                V::RD_KAFKA_VTYPE_HEADERS,
                headers.0,
                V::RD_KAFKA_VTYPE_END,
            )
        }
        .into();
        if !code.is_ok() {
            return Err(code); // the headers are still ours
        }
        std::mem::forget(headers);
        Ok(())
    }

    /// Waits until nothing is under way, without lingering; `false` when something still is. Blocks, at most for
    /// `timeout`.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        flush(self.owned, timeout)
    }

    /// Gives up everything that is under way: its receipts resolve. Blocks until the broker threads have answered.
    pub(crate) fn purge(&self) {
        self.purged.store(true, Ordering::Release);
        purge(self.owned);
    }

    /// Why the client failed for good, if it did.
    pub(crate) fn fatal_error(&self) -> Option<(Code, String)> {
        // SAFETY: the client is alive, and this thread holds none of its locks.
        unsafe { fatal_error(self.as_ptr()) }
    }

    /// Lets the client log its errors and renew its tokens; these wait for it. Never waits.
    pub(crate) fn tick(&self) {
        // SAFETY: the client is alive.
        unsafe { rd_kafka_poll(self.as_ptr(), 0) };
    }

    fn as_ptr(&self) -> *mut rd_kafka_t {
        self.owned.0.as_ptr()
    }
}

/// Why a client failed for good, if it did.
///
/// # Safety
///
/// The client is alive; this thread holds no lock of librdkafka, or holds the client's for reading.
pub(super) unsafe fn fatal_error(rk: *mut rd_kafka_t) -> Option<(Code, String)> {
    let mut text = Text::new();
    // SAFETY: the contract of this function: the call takes the client's lock for reading, which a thread may do twice.
    // The buffer is as long as we say.
    let code: Code = unsafe { rd_kafka_fatal_error(rk, text.as_mut_ptr(), Text::SIZE) }.into();
    (!code.is_ok()).then(|| (code, text.read()))
}

fn flush(Owned(rk): Owned, timeout: Duration) -> bool {
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the client is alive.
    Code::from(unsafe { rd_kafka_flush(rk.as_ptr(), millis) }).is_ok()
}

fn purge(Owned(rk): Owned) {
    // SAFETY: the client is alive.
    unsafe { rd_kafka_purge(rk.as_ptr(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT) };
}

/// Null and empty are different things: an empty slice is not at null.
#[inline]
fn raw(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    match bytes {
        Some(bytes) => (bytes.as_ptr().cast_mut().cast::<c_void>(), bytes.len()),
        None => (ptr::null_mut(), 0),
    }
}

/// Headers on their way into a message; null for none.
struct Headers(*mut rd_kafka_headers_t);

impl Headers {
    fn of(record: &Record) -> Result<Self, Code> {
        let count = record.headers().len();
        if count == 0 {
            return Ok(Self(ptr::null_mut()));
        }
        // SAFETY: no precondition; the object returned is ours.
        let headers = Self(unsafe { rd_kafka_headers_new(count) });
        for (name, value) in record.headers() {
            let (value, size) = raw(value);
            // SAFETY: the headers are alive; name and value are as long as we say, and are copied.
            let code = unsafe {
                rd_kafka_header_add(
                    headers.0,
                    name.as_ptr().cast::<c_char>(),
                    name.len() as isize,
                    value,
                    size as isize,
                )
            };
            if !Code::from(code).is_ok() {
                return Err(code.into());
            }
        }
        Ok(headers)
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: ours, and freed once: the one that a message took over was forgotten.
            unsafe { rd_kafka_headers_destroy(self.0) };
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.results.close();
        self.results.end();
        let (owned, results, keep) = (self.owned, Arc::clone(&self.results), self.keep.take());
        let topics = std::mem::take(&mut self.topics);
        let grace = if *self.purged.get_mut() {
            Duration::ZERO
        } else {
            GRACE
        };
        detached("destroy-producer", move || {
            let owned = { owned };
            flush(owned, grace);
            // Destroying drops what is queued without a word; purging says what becomes of each record.
            purge(owned);
            for Topic(topic) in topics.into_all() {
                // SAFETY: ours, and given back once; nobody sends any more.
                unsafe { rd_kafka_topic_destroy(topic.as_ptr()) };
            }
            // SAFETY: this was the last reference, so nobody calls into the client any more; this thread is not one of
            // librdkafka's.
            unsafe { rd_kafka_destroy(owned.0.as_ptr()) };
            results.drain();
            crate::publisher::fail_missing(&results);
            drop((results, keep));
        });
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}
