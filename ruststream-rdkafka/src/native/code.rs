//! Error codes, kept as numbers.

use std::ffi::CStr;
use std::fmt;

use rdkafka::bindings::{rd_kafka_err2str, rd_kafka_error_code, rd_kafka_error_destroy};
use rdkafka::bindings::{rd_kafka_error_string, rd_kafka_error_t, rd_kafka_resp_err_t};
use rdkafka::types::RDKafkaErrorCode;

/// An error code of librdkafka or of a broker.
///
/// A number and not the generated enum: a broker may answer with a code that is newer than the enum, and an enum with
/// a value that it does not list is undefined behaviour in Rust.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(i32);

impl Code {
    pub(crate) const OK: Self = Self(0);
    /// librdkafka's own, -186.
    pub(crate) const INVALID_ARGUMENT: Self = Self(-186);
    /// The client's queue is full: librdkafka's own, -184.
    pub(crate) const QUEUE_FULL: Self = Self(-184);

    /// Given up while it was queued: librdkafka's own, -152.
    pub(crate) const PURGED: Self = Self(-152);
    /// Refused for another record of its batch: librdkafka's own, -138.
    pub(crate) const OTHER_INVALID: Self = Self(-138);

    /// Reads a code in place, whatever number it is.
    ///
    /// # Safety
    ///
    /// `field` points to a readable code.
    pub(super) unsafe fn read(field: *const rd_kafka_resp_err_t) -> Self {
        // SAFETY: the enum is `repr(i32)`, so the field can be read as the number that it is.
        Self(unsafe { field.cast::<i32>().read() })
    }

    pub(crate) fn from_number(number: i32) -> Self {
        Self(number)
    }

    pub(crate) fn is_ok(self) -> bool {
        self == Self::OK
    }

    /// The code's name in Rust, where it has one.
    pub(crate) fn known(self) -> Option<RDKafkaErrorCode> {
        rd_kafka_resp_err_t::try_from(self.0)
            .ok()
            .map(RDKafkaErrorCode::from)
    }
}

impl From<rd_kafka_resp_err_t> for Code {
    fn from(code: rd_kafka_resp_err_t) -> Self {
        Self(code as i32)
    }
}

/// librdkafka's own text.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match rd_kafka_resp_err_t::try_from(self.0) {
            // SAFETY: err2str returns a static, NUL-terminated text for every value of the enum.
            Ok(code) => f.write_str(&unsafe { CStr::from_ptr(rd_kafka_err2str(code)) }.to_string_lossy()),
            Err(_) => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}: {self})", self.0)
    }
}

/// Takes over an error object that a call returned: `Ok` for null, else its code and text.
///
/// # Safety
///
/// `error` is null or an error object that nobody else frees.
pub(super) unsafe fn check(error: *mut rd_kafka_error_t) -> Result<(), (Code, String)> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, ours by the contract of this function, and freed exactly once, after the text was copied.
    unsafe {
        let code = Code::from(rd_kafka_error_code(error));
        let text = CStr::from_ptr(rd_kafka_error_string(error))
            .to_string_lossy()
            .into_owned();
        rd_kafka_error_destroy(error);
        Err((code, text))
    }
}
