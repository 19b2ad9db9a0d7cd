//! Events of the control queue.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use rdkafka::bindings::{
    RD_KAFKA_EVENT_ERROR, RD_KAFKA_EVENT_OFFSET_COMMIT, RD_KAFKA_EVENT_REBALANCE, rd_kafka_event_destroy,
    rd_kafka_event_error, rd_kafka_event_error_is_fatal, rd_kafka_event_error_string,
    rd_kafka_event_topic_partition, rd_kafka_event_topic_partition_list, rd_kafka_event_type,
    rd_kafka_resp_err_t, rd_kafka_topic_partition_destroy,
};

use super::{Client, Code, List};

/// `rd_kafka_event_t`, which the bindings name only as the operation that it is.
type RawEvent = rdkafka::bindings::rd_kafka_event_t;

/// What a client reports.
pub(crate) enum Event {
    /// These partitions are to be assigned; the group waits for the answer.
    Assign(List),
    /// These partitions are to be given back; the group waits for the answer.
    Revoke {
        partitions: List,
        /// They are gone already.
        lost: bool,
    },
    /// A commit ended; each partition has its own code.
    Committed { code: Code, partitions: List },
    /// An error of the client, or of a topic.
    Error {
        code: Code,
        text: String,
        fatal: bool,
        topic: Option<String>,
    },
    /// Something that needs no answer.
    Other,
}

impl Event {
    /// Reads and frees an event.
    ///
    /// # Safety
    ///
    /// `event` came from a queue of `client` and is ours.
    pub(super) unsafe fn take(client: &Arc<Client>, event: NonNull<RawEvent>) -> Self {
        let event = event.as_ptr();
        // SAFETY: the event is alive until the last line; everything that leaves is copied.
        unsafe {
            let taken = match rd_kafka_event_type(event) {
                RD_KAFKA_EVENT_REBALANCE => Self::rebalance(client, event),
                RD_KAFKA_EVENT_OFFSET_COMMIT => {
                    match List::copy(rd_kafka_event_topic_partition_list(event)) {
                        Some(partitions) => Self::Committed {
                            code: code_of(event),
                            partitions,
                        },
                        None => Self::Other,
                    }
                }
                RD_KAFKA_EVENT_ERROR => Self::error(event),
                _ => Self::Other,
            };
            rd_kafka_event_destroy(event);
            taken
        }
    }

    /// # Safety
    ///
    /// `event` is alive and a rebalance.
    unsafe fn rebalance(client: &Client, event: *mut RawEvent) -> Self {
        // SAFETY: alive by the contract of this function; the list is copied, so that the event need not be kept while
        // the partitions drain (librdkafka waits for an `assign` call, not for the event).
        let partitions = unsafe { List::copy(rd_kafka_event_topic_partition_list(event)) };
        let partitions = partitions.unwrap_or_else(List::new);
        // SAFETY: as above.
        let assign =
            unsafe { code_of(event) } == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS.into();
        if assign {
            Self::Assign(partitions)
        } else {
            Self::Revoke {
                partitions,
                lost: client.assignment_lost(),
            }
        }
    }

    /// # Safety
    ///
    /// `event` is alive and an error.
    unsafe fn error(event: *mut RawEvent) -> Self {
        // SAFETY: alive by the contract of this function; the text is NUL-terminated, and copied like the topic. The
        // partition returned is ours.
        unsafe {
            let partition = rd_kafka_event_topic_partition(event);
            let topic = if partition.is_null() {
                None
            } else {
                let topic = CStr::from_ptr((*partition).topic).to_string_lossy().into_owned();
                rd_kafka_topic_partition_destroy(partition);
                Some(topic)
            };
            Self::Error {
                code: code_of(event),
                text: CStr::from_ptr(rd_kafka_event_error_string(event))
                    .to_string_lossy()
                    .into_owned(),
                fatal: rd_kafka_event_error_is_fatal(event) != 0,
                topic,
            }
        }
    }
}

/// The code of an event, whatever number it is.
///
/// # Safety
///
/// `event` is alive.
unsafe fn code_of(event: *mut RawEvent) -> Code {
    type AsNumber = unsafe extern "C" fn(*mut RawEvent) -> i32;
    let declared: unsafe extern "C" fn(*mut RawEvent) -> rd_kafka_resp_err_t = rd_kafka_event_error;
    // SAFETY: the C function returns an int; the bindings declare the `repr(i32)` enum, which must not hold a code that
    // it does not list (a broker may send any). The signatures are otherwise the same.
    let as_number: AsNumber = unsafe { std::mem::transmute(declared) };
    // SAFETY: alive by the contract of this function.
    Code::from_number(unsafe { as_number(event) })
}
