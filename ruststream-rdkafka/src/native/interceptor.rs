//! Where librdkafka says what became of a record: its acknowledgement interceptor.
//!
//! The usual way is a queue of delivery reports that some thread has to poll; here the broker's thread that parsed the
//! response hands each result over, and frees the message itself.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::time::{Duration, SystemTime};

use rdkafka::bindings::{
    rd_kafka_conf_interceptor_add_on_new, rd_kafka_conf_t, rd_kafka_header_get_all,
    rd_kafka_interceptor_add_on_acknowledgement, rd_kafka_message_headers, rd_kafka_message_status,
    rd_kafka_message_t, rd_kafka_message_timestamp, rd_kafka_msg_status_t, rd_kafka_resp_err_t, rd_kafka_t,
    rd_kafka_topic_name,
};
use ruststream::{PublishError, Record};

use super::code::Code;
use super::message::bytes;
use crate::publisher::{Acks, Failure, Landed};

const NAME: &CStr = c"ruststream";

/// What a client's results go to.
pub(super) type Results = Acks<PublishError>;

/// Has every result of the client that is made from `config` handed to `results`.
///
/// # Safety
///
/// `config` is alive; `results` outlives the client.
pub(super) unsafe fn install(config: *mut rd_kafka_conf_t, results: *const Results) {
    // SAFETY: the contract of this function; the name is NUL-terminated, and copied.
    unsafe {
        rd_kafka_conf_interceptor_add_on_new(
            config,
            NAME.as_ptr(),
            Some(on_new),
            results.cast_mut().cast::<c_void>(),
        );
    }
}

unsafe extern "C" fn on_new(
    rk: *mut rd_kafka_t,
    _: *const rd_kafka_conf_t,
    results: *mut c_void,
    _: *mut c_char,
    _: usize,
) -> rd_kafka_resp_err_t {
    // SAFETY: librdkafka calls this once, with the client that it is making, before the client has any record.
    unsafe {
        rd_kafka_interceptor_add_on_acknowledgement(rk, NAME.as_ptr(), Some(on_acknowledgement), results)
    }
}

/// Runs on the threads of librdkafka, several at a time, and for a record that is refused late on the sender's: must not
/// wait, and must not call into the client.
unsafe extern "C" fn on_acknowledgement(
    _: *mut rd_kafka_t,
    message: *mut rd_kafka_message_t,
    results: *mut c_void,
) -> rd_kafka_resp_err_t {
    // SAFETY: `install` was promised that the results outlive the client.
    let results = unsafe { &*results.cast_const().cast::<Results>() };
    // SAFETY: the message is alive and ours to read until this returns; only messages with a ticket are produced.
    let (opaque, code) = unsafe {
        (
            (*message)._private as usize,
            Code::read(ptr::addr_of!((*message).err)),
        )
    };
    let result = if code.is_ok() {
        // SAFETY: as above; the kind of the timestamp may be null.
        Ok(unsafe {
            Landed {
                partition: (*message).partition,
                offset: (*message).offset,
                timestamp: rd_kafka_message_timestamp(message, ptr::null_mut()),
            }
        })
    } else {
        // SAFETY: as above.
        Err(unsafe { failure(message, code, results.noted(opaque)) })
    };
    if !results.acknowledge(opaque, result) {
        tracing::error!(
            "librdkafka acknowledged a record twice, or one that was never sent: please report this"
        );
    }
    rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// Makes the error, with the record as it was sent: so that the way of a record that succeeds pays nothing for it.
///
/// # Safety
///
/// `message` is alive.
#[cold]
unsafe fn failure(message: *mut rd_kafka_message_t, code: Code, noted: Option<Landed>) -> PublishError {
    // SAFETY: the message is alive and holds its topic, whose name is NUL-terminated; payload and key belong to their
    // lengths.
    let (topic, payload, key, may_be_persisted) = unsafe {
        let topic = CStr::from_ptr(rd_kafka_topic_name((*message).rkt));
        (
            topic.to_string_lossy().into_owned(),
            bytes((*message).payload, (*message).len),
            bytes((*message).key, (*message).key_len),
            rd_kafka_message_status(message) != rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED,
        )
    };
    let mut record = match payload {
        Some(payload) => Record::new(topic, payload),
        None => Record::tombstone(topic),
    };
    if let Some(key) = key {
        record = record.key(key);
    }
    // librdkafka forgets the timestamp of a failed record, and whether its partition was chosen or given.
    if let Some(partition) = noted
        .map(|noted| noted.partition)
        .filter(|partition| *partition >= 0)
    {
        record = record.to_partition(partition);
    }
    if let Some(at) = noted
        .filter(|noted| noted.timestamp > 0)
        .and_then(|noted| time(noted.timestamp))
    {
        record = record.at(at);
    }
    // SAFETY: the message is alive.
    record = unsafe { with_headers(message, record) };
    Failure {
        code,
        may_be_persisted,
    }
    .of(record)
}

/// # Safety
///
/// `message` is alive.
unsafe fn with_headers(message: *mut rd_kafka_message_t, mut record: Record) -> Record {
    let mut headers = ptr::null_mut();
    // SAFETY: the message is alive. The headers stay its own: where the sender still owns them, detaching them here
    // would have them freed twice.
    unsafe { rd_kafka_message_headers(message, &raw mut headers) };
    if headers.is_null() {
        return record;
    }
    for index in 0.. {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the headers are alive; past the last one the call says so and writes nothing.
        let (name, value) = unsafe {
            let code = rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut size);
            if !Code::from(code).is_ok() {
                break;
            }
            let name = CStr::from_ptr(name).to_string_lossy().into_owned();
            (name, bytes(value, size))
        };
        record = match value {
            Some(value) => record.header(name, value),
            None => record.null_header(name),
        };
    }
    record
}

/// Milliseconds since 1970; negative: none.
pub(crate) fn time(millis: i64) -> Option<SystemTime> {
    let millis = u64::try_from(millis).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
}
