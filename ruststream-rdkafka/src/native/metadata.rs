//! What the cluster knows about a topic.

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::bindings::{
    rd_kafka_metadata, rd_kafka_metadata_destroy, rd_kafka_topic_destroy, rd_kafka_topic_new,
};

use super::{Client, Code};

impl Client {
    /// Asks the cluster how many partitions `topic` has. Blocks for up to `timeout`.
    ///
    /// # Errors
    ///
    /// `Transport` or `OperationTimedOut` when no broker answered, else what the cluster says about the topic.
    pub(crate) fn partitions(&self, topic: &CStr, timeout: Duration) -> Result<usize, Code> {
        let millis = timeout.as_millis().try_into().unwrap_or(i32::MAX);
        let mut metadata = ptr::null();
        // SAFETY: the client is alive, the name is NUL-terminated; null takes the default configuration. The topic
        // handle is ours and freed once, after its only use.
        let code = unsafe {
            let handle = rd_kafka_topic_new(self.as_ptr(), topic.as_ptr(), ptr::null_mut());
            if handle.is_null() {
                return Err(Code::from(rdkafka::bindings::rd_kafka_last_error()));
            }
            let code = rd_kafka_metadata(self.as_ptr(), 0, handle, &raw mut metadata, millis);
            rd_kafka_topic_destroy(handle);
            Code::from(code)
        };
        let Some(metadata) = NonNull::new(metadata.cast_mut()) else {
            return Err(code);
        };
        // SAFETY: ours until it is freed below; `topics` holds `topic_cnt` elements, and we asked for one topic.
        unsafe {
            let answer = metadata.as_ptr();
            let found = if (*answer).topic_cnt > 0 {
                let topic = (*answer).topics;
                match Code::read(ptr::addr_of!((*topic).err)) {
                    Code::OK => Ok(usize::try_from((*topic).partition_cnt).unwrap_or(0)),
                    code => Err(code),
                }
            } else {
                Err(code)
            };
            rd_kafka_metadata_destroy(answer);
            found
        }
    }
}
