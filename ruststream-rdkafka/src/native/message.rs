//! One received message.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rdkafka::bindings::{
    rd_kafka_header_get_all, rd_kafka_headers_t, rd_kafka_message_destroy, rd_kafka_message_headers,
    rd_kafka_message_t, rd_kafka_message_timestamp, rd_kafka_resp_err_t, rd_kafka_topic_name,
};
use ruststream::Headers;
use ruststream::broker::Delivery;

use super::Code;

/// A record, in the buffer in which librdkafka received it: one pointer, nothing copied.
///
/// Dropping it gives the buffer back. A delivery that is kept delays the end of its client (which is destroyed in the
/// background), nothing else.
#[repr(transparent)]
pub struct KafkaDelivery(NonNull<rd_kafka_message_t>);

// SAFETY: a message has one owner; librdkafka allows to destroy it on any thread.
unsafe impl Send for KafkaDelivery {}
// SAFETY: every field that is read here is constant for the message's life, but for the parsed headers, which the
// first access fills in: `headers` does that under a lock, and nothing else looks at them.
unsafe impl Sync for KafkaDelivery {}

/// Guards the lazy parse of headers. Sharded by address: handlers of several partitions read headers at the same time,
/// and a parse takes a few hundred nanoseconds. 16 is more than the cores that do nothing but parse headers.
static PARSE: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

impl KafkaDelivery {
    /// Takes over a message.
    ///
    /// # Safety
    ///
    /// `message` is a message that librdkafka handed out and nobody else destroys.
    #[inline]
    pub(super) unsafe fn own(message: *mut rd_kafka_message_t) -> Self {
        debug_assert!(!message.is_null());
        // SAFETY: librdkafka hands out no null messages.
        Self(unsafe { NonNull::new_unchecked(message) })
    }

    /// Whether this is an error and not a record. Such a value never leaves the crate.
    #[inline]
    pub(crate) fn is_fault(&self) -> bool {
        !self.code().is_ok()
    }

    #[inline]
    pub(crate) fn code(&self) -> Code {
        // SAFETY: the message is alive.
        unsafe { Code::read(ptr::addr_of!((*self.0.as_ptr()).err)) }
    }

    /// The text of an error.
    pub(crate) fn fault(&self) -> String {
        match self.payload() {
            Some(text) => String::from_utf8_lossy(text).trim_end_matches('\0').to_owned(),
            None => self.code().to_string(),
        }
    }

    fn parse_headers(&self) -> Option<NonNull<rd_kafka_headers_t>> {
        let mut headers = ptr::null_mut();
        let shard = (self.0.as_ptr() as usize >> 6) % PARSE.len();
        let _parsing = PARSE
            .get(shard)
            .map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: the message is alive. The call parses the headers and keeps them in the message when it is the first
        // one, and only reads them later; the lock keeps two first calls apart and orders them before later reads.
        let code = unsafe { rd_kafka_message_headers(self.0.as_ptr(), &raw mut headers) };
        if code == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__BAD_MSG {
            tracing::warn!(
                topic = self.topic(),
                partition = self.partition(),
                offset = self.offset(),
                "headers cannot be parsed"
            );
        }
        NonNull::new(headers)
    }
}

impl Delivery for KafkaDelivery {
    /// A call into librdkafka and a UTF-8 check: not for the hot path.
    fn topic(&self) -> &str {
        // SAFETY: the message is alive and holds a reference to its topic, whose name is NUL-terminated and constant.
        unsafe {
            let topic = (*self.0.as_ptr()).rkt;
            if topic.is_null() {
                return "";
            }
            // Kafka allows ASCII letters, digits, '.', '_' and '-' in the name of a topic.
            CStr::from_ptr(rd_kafka_topic_name(topic))
                .to_str()
                .unwrap_or_default()
        }
    }

    #[inline]
    fn partition(&self) -> i32 {
        // SAFETY: the message is alive.
        unsafe { (*self.0.as_ptr()).partition }
    }

    #[inline]
    fn offset(&self) -> i64 {
        // SAFETY: the message is alive.
        unsafe { (*self.0.as_ptr()).offset }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        // SAFETY: the message is alive; key and length belong together.
        unsafe { bytes((*self.0.as_ptr()).key, (*self.0.as_ptr()).key_len) }
    }

    #[inline]
    fn payload(&self) -> Option<&[u8]> {
        // SAFETY: the message is alive; payload and length belong together.
        unsafe { bytes((*self.0.as_ptr()).payload, (*self.0.as_ptr()).len) }
    }

    fn timestamp(&self) -> Option<SystemTime> {
        // SAFETY: the message is alive; the kind of the timestamp may be null.
        let millis = unsafe { rd_kafka_message_timestamp(self.0.as_ptr(), ptr::null_mut()) };
        // -1: none. Milliseconds since 1970.
        u64::try_from(millis)
            .ok()
            .map(|millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
    }

    /// Parses on the first call: two allocations and one for each header inside librdkafka, and one for the view. A
    /// name that is not UTF-8 is repaired; headers that cannot be parsed at all are logged and read as none.
    fn headers(&self) -> Headers<'_> {
        let Some(headers) = self.parse_headers() else {
            return Headers::new();
        };
        (0..)
            .map_while(|index| {
                let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
                // SAFETY: the headers live in the message, which is alive for as long as `self` is borrowed, and are
                // not changed after the parse. Past the last one the call says so and writes nothing.
                unsafe {
                    let code = rd_kafka_header_get_all(
                        headers.as_ptr(),
                        index,
                        &raw mut name,
                        &raw mut value,
                        &raw mut size,
                    );
                    if code != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                        return None;
                    }
                    Some((CStr::from_ptr(name).to_string_lossy(), bytes(value, size)))
                }
            })
            .collect::<Headers<'_>>()
    }
}

/// Null and empty are different things.
///
/// # Safety
///
/// `start` is null, or `length` bytes from there on are readable and constant for `'a`.
#[inline]
pub(super) unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the contract of this function.
    Some(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
}

impl Drop for KafkaDelivery {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: ours, and destroyed once.
        unsafe { rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

/// Where the record stands, not what is in it: payloads may be secret.
impl fmt::Debug for KafkaDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaDelivery")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}
