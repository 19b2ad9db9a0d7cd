//! librdkafka's log lines, as `tracing` events of the target `librdkafka`.

use std::ffi::{CStr, c_char, c_int};

use rdkafka::bindings::rd_kafka_t;

/// The log callback; librdkafka calls it on any of its threads.
pub(super) unsafe extern "C" fn on_log(
    _: *const rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    // SAFETY: librdkafka passes two NUL-terminated texts that live until the callback returns.
    let (facility, line) = unsafe { (CStr::from_ptr(facility), CStr::from_ptr(line)) };
    let (facility, line) = (facility.to_string_lossy(), line.to_string_lossy());
    // Levels of syslog: 0 emergency, 3 error, 4 warning, 5 notice, 6 info, 7 debug.
    match level {
        ..=3 => tracing::error!(target: "librdkafka", %facility, "{line}"),
        4 => tracing::warn!(target: "librdkafka", %facility, "{line}"),
        5 | 6 => tracing::info!(target: "librdkafka", %facility, "{line}"),
        _ => tracing::debug!(target: "librdkafka", %facility, "{line}"),
    }
}
