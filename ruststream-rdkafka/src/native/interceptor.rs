//! Where librdkafka says what became of a record: its acknowledgement interceptor.
//!
//! The usual way is a queue of delivery reports that some thread has to poll; here the broker's thread that parsed the
//! response hands each result over, and frees the message itself.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::time::{Duration, SystemTime};

use rdkafka::bindings::{
    rd_kafka_conf_interceptor_add_on_new, rd_kafka_conf_t, rd_kafka_header_get_all,
    rd_kafka_interceptor_add_on_acknowledgement, rd_kafka_message_headers, rd_kafka_message_produce_errstr,
    rd_kafka_message_status, rd_kafka_message_t, rd_kafka_message_timestamp, rd_kafka_msg_status_t,
    rd_kafka_resp_err_t, rd_kafka_t, rd_kafka_topic_name,
};
use ruststream::{PublishError, Record};

use super::code::Code;
use super::message::bytes;
use super::producer::fatal_error;
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
/// wait, and must not call into the client, but for [`given_up`].
unsafe extern "C" fn on_acknowledgement(
    rk: *mut rd_kafka_t,
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
        // SAFETY: as above; the client is alive.
        Err(unsafe { failure(rk, message, code, results) })
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
/// `rk` and `message` are alive; only for a call of the interceptor, with its arguments.
#[cold]
unsafe fn failure(
    rk: *mut rd_kafka_t,
    message: *mut rd_kafka_message_t,
    code: Code,
    results: &Results,
) -> PublishError {
    // SAFETY: the message is alive; the text lives as long as the call of the interceptor.
    let (may_be_persisted, detail, record) = unsafe {
        let status = rd_kafka_message_status(message);
        (
            status != rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED,
            text(rd_kafka_message_produce_errstr(message)),
            record(message, results.noted((*message)._private as usize)),
        )
    };
    // SAFETY: the contract of this function.
    let failure = match unsafe { given_up(rk, code, results) } {
        Some((cause, reason)) => Failure::of_client(cause, reason, may_be_persisted),
        None => Failure::reported(code, may_be_persisted, detail),
    };
    failure.of(record)
}

/// Why librdkafka gave up what was queued: it does so when the client fails for good. We do, too, but not before the
/// publisher is closed.
///
/// # Safety
///
/// As for [`failure`].
unsafe fn given_up(rk: *mut rd_kafka_t, code: Code, results: &Results) -> Option<(Code, String)> {
    if code != Code::PURGED || results.is_closed() {
        return None;
    }
    // SAFETY: the client is alive. Records are purged by its main thread, which holds its lock for reading then, or by the
    // threads of its brokers, which hold none.
    unsafe { fatal_error(rk) }
}

/// # Safety
///
/// `text` is null or a text that ends with NUL.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the contract of this function.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The record as it was sent.
///
/// # Safety
///
/// `message` is alive.
unsafe fn record(message: *mut rd_kafka_message_t, noted: Option<Landed>) -> Record {
    // SAFETY: the message is alive and holds its topic, whose name is NUL-terminated; payload and key belong to their
    // lengths.
    let (topic, payload, key) = unsafe {
        let topic = CStr::from_ptr(rd_kafka_topic_name((*message).rkt));
        (
            topic.to_string_lossy().into_owned(),
            bytes((*message).payload, (*message).len),
            bytes((*message).key, (*message).key_len),
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
    unsafe { with_headers(message, record) }
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
