//! How a client of librdkafka is made, and the texts that it writes into a buffer.

use std::ffi::{CStr, c_char};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use rdkafka::ClientConfig;
use rdkafka::bindings::{
    rd_kafka_conf_set_log_cb, rd_kafka_conf_t, rd_kafka_new, rd_kafka_t, rd_kafka_type_t,
};

use super::log::on_log;

/// Makes a client, whose log lines become `tracing` events; starts its threads, connects in the background. Blocks for as
/// long as TLS files are read.
///
/// `prepare` is given the configuration, alive, before the client is made from it.
///
/// # Errors
///
/// librdkafka's text: settings that contradict each other, or no more threads.
pub(super) fn make(
    kind: rd_kafka_type_t,
    config: &ClientConfig,
    prepare: impl FnOnce(*mut rd_kafka_conf_t),
) -> Result<NonNull<rd_kafka_t>, String> {
    let native = config.create_native_config().map_err(|error| error.to_string())?;
    // Never freed here: on success the client owns it, and when `rd_kafka_new` fails, librdkafka 2.12 has freed parts of
    // it already, the interceptors among them (its issue 4142), so freeing the rest would free those twice.
    let native = ManuallyDrop::new(native);
    prepare(native.ptr());
    let mut text = Text::new();
    // SAFETY: the configuration is alive, the callback is `extern "C"` and lives for ever, and the buffer is as long as we
    // say.
    let rk = unsafe {
        rd_kafka_conf_set_log_cb(native.ptr(), Some(on_log));
        rd_kafka_new(kind, native.ptr(), text.as_mut_ptr(), Text::SIZE)
    };
    NonNull::new(rk).ok_or_else(|| text.read())
}

/// A buffer for a text that librdkafka ends with NUL.
pub(super) struct Text([u8; Self::SIZE]);

impl Text {
    /// librdkafka's own size for such texts, in bytes; it cuts what is longer.
    pub(super) const SIZE: usize = 512;

    pub(super) fn new() -> Self {
        Self([0; Self::SIZE])
    }

    /// Where to write, at most [`SIZE`](Self::SIZE) bytes.
    pub(super) fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast::<c_char>()
    }

    /// What was written, up to the NUL.
    pub(super) fn read(&self) -> String {
        CStr::from_bytes_until_nul(&self.0)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}
