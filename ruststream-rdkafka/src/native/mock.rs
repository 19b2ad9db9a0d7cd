//! librdkafka's mock cluster: brokers in this process that speak the real protocol over real sockets.

use std::ffi::{CStr, CString, c_int};
use std::ptr::NonNull;

use rdkafka::ClientConfig;
use rdkafka::bindings::{
    rd_kafka_destroy, rd_kafka_mock_broker_set_down, rd_kafka_mock_broker_set_up,
    rd_kafka_mock_cluster_bootstraps, rd_kafka_mock_cluster_destroy, rd_kafka_mock_cluster_new,
    rd_kafka_mock_cluster_t, rd_kafka_mock_group_initial_rebalance_delay_ms,
    rd_kafka_mock_push_request_errors_array, rd_kafka_mock_set_group_consumer_heartbeat_interval_ms,
    rd_kafka_mock_topic_create, rd_kafka_resp_err_t, rd_kafka_t, rd_kafka_type_t,
};

use super::Code;
use super::make::make;
use crate::blocking::detached;

/// A mock cluster with one broker, on a client of its own.
pub(crate) struct Mock {
    owned: Owned,
}

#[derive(Clone, Copy)]
struct Owned {
    rk: NonNull<rd_kafka_t>,
    cluster: NonNull<rd_kafka_mock_cluster_t>,
}

// SAFETY: the functions of a mock cluster send operations to the cluster's own thread; any thread may call them.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// The number of the only broker; librdkafka counts from 1.
const BROKER: i32 = 1;

/// How often members of a KIP-848 group report, and so learn about rebalances: 3 s by default, which tests would spend
/// waiting.
const HEARTBEAT_MS: c_int = 100;

impl Mock {
    /// Starts the cluster; takes some milliseconds.
    pub(crate) fn start() -> Result<Self, String> {
        let rk = make(rd_kafka_type_t::RD_KAFKA_PRODUCER, &ClientConfig::new(), |_| ())?;
        // SAFETY: the client is alive.
        let cluster = unsafe { rd_kafka_mock_cluster_new(rk.as_ptr(), 1) };
        let Some(cluster) = NonNull::new(cluster) else {
            // SAFETY: ours, and nothing else uses it. A client without brokers ends at once.
            unsafe { rd_kafka_destroy(rk.as_ptr()) };
            return Err("the mock cluster could not open its ports".to_owned());
        };
        // SAFETY: the cluster is alive.
        unsafe {
            rd_kafka_mock_group_initial_rebalance_delay_ms(cluster.as_ptr(), 0);
            rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(cluster.as_ptr(), HEARTBEAT_MS);
        }
        Ok(Self {
            owned: Owned { rk, cluster },
        })
    }

    pub(crate) fn bootstrap_servers(&self) -> String {
        // SAFETY: the cluster is alive; the text belongs to it and is copied.
        let servers = unsafe { CStr::from_ptr(rd_kafka_mock_cluster_bootstraps(self.ptr())) };
        servers.to_string_lossy().into_owned()
    }

    pub(crate) fn create_topic(&self, topic: &CString, partitions: i32) -> Result<(), Code> {
        // SAFETY: the cluster is alive; the name is NUL-terminated and copied.
        let code = unsafe { rd_kafka_mock_topic_create(self.ptr(), topic.as_ptr(), partitions, 1) };
        if Code::from(code).is_ok() {
            Ok(())
        } else {
            Err(code.into())
        }
    }

    /// Closes the broker's port and its connections.
    pub(crate) fn stop_broker(&self) {
        // SAFETY: the cluster is alive, the broker exists.
        unsafe { rd_kafka_mock_broker_set_down(self.ptr(), BROKER) };
    }

    /// Opens the broker's port again.
    pub(crate) fn start_broker(&self) {
        // SAFETY: the cluster is alive, the broker exists.
        unsafe { rd_kafka_mock_broker_set_up(self.ptr(), BROKER) };
    }

    /// Answers the next requests of the kind `api_key` with `errors`, one after another.
    pub(crate) fn fail_next(&self, api_key: i16, errors: &[i32]) {
        // SAFETY: the cluster is alive; the array has as many elements as we say, and is copied. C reads numbers: the
        // cast makes no value of the Rust enum.
        unsafe {
            rd_kafka_mock_push_request_errors_array(
                self.ptr(),
                api_key,
                errors.len(),
                errors.as_ptr().cast::<rd_kafka_resp_err_t>(),
            );
        }
    }

    fn ptr(&self) -> *mut rd_kafka_mock_cluster_t {
        self.owned.cluster.as_ptr()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let owned = self.owned;
        detached("destroy-mock", move || {
            let Owned { rk, cluster } = { owned };
            // SAFETY: this was the last reference. The cluster has to go before the client that it runs on.
            unsafe {
                rd_kafka_mock_cluster_destroy(cluster.as_ptr());
                rd_kafka_destroy(rk.as_ptr());
            }
        });
    }
}
