//! The embedded cluster: librdkafka's mock cluster, with its faults.

#[cfg(not(feature = "embedded"))]
pub(crate) use absent::EmbeddedCluster;
#[cfg(feature = "embedded")]
pub use present::{ApiKey, EmbeddedCluster};

#[cfg(feature = "embedded")]
mod present {
    use std::ffi::CString;
    use std::fmt;

    use crate::native::mock::Mock;

    /// A Kafka cluster of one broker in this process, and the ways to make it fail.
    ///
    /// Made by [`KafkaBroker::embedded`](crate::KafkaBroker::embedded). Every method asks the cluster's own thread and
    /// waits for its answer, which takes microseconds.
    pub struct EmbeddedCluster {
        mock: Mock,
    }

    /// A kind of request, by its number in Kafka's protocol.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ApiKey {
        /// Records on their way in.
        Produce = 0,
        /// Records on their way out.
        Fetch = 1,
        /// Start and end of partitions.
        ListOffsets = 2,
        /// Topics and brokers.
        Metadata = 3,
        /// Positions of a group, written.
        OffsetCommit = 8,
        /// Positions of a group, read.
        OffsetFetch = 9,
        /// Who coordinates a group.
        FindCoordinator = 10,
        /// The identity of a producer.
        InitProducerId = 22,
        /// A member's report under KIP-848.
        ConsumerGroupHeartbeat = 68,
    }

    impl EmbeddedCluster {
        pub(crate) fn start() -> Result<Self, String> {
            Ok(Self { mock: Mock::start()? })
        }

        pub(crate) fn bootstrap_servers(&self) -> String {
            self.mock.bootstrap_servers()
        }

        pub(crate) fn create_topic(&self, topic: &str, partitions: u16) -> Result<(), String> {
            let name = CString::new(topic).map_err(|_| "its name holds a NUL".to_owned())?;
            match self.mock.create_topic(&name, i32::from(partitions)) {
                Err(code) if code.known() != Some(rdkafka::types::RDKafkaErrorCode::TopicAlreadyExists) => {
                    Err(code.to_string())
                }
                _ => Ok(()),
            }
        }

        /// Takes the broker down: its port is closed, connections break. Records and positions are kept.
        pub fn stop_broker(&self) {
            self.mock.stop_broker();
        }

        /// Brings the broker back at the same port.
        pub fn start_broker(&self) {
            self.mock.start_broker();
        }

        /// Answers the next `times` requests of one kind with an error, by its number in Kafka's protocol (29:
        /// topic authorization failed, -1: unknown server error).
        pub fn fail_next(&self, requests: ApiKey, error: i16, times: usize) {
            self.mock
                .fail_next(requests as i16, &vec![i32::from(error); times]);
        }
    }

    impl fmt::Debug for EmbeddedCluster {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("EmbeddedCluster")
                .field("bootstrap_servers", &self.bootstrap_servers())
                .finish()
        }
    }
}

/// Without the feature there is no such cluster: the type has no value.
#[cfg(not(feature = "embedded"))]
mod absent {
    pub(crate) enum EmbeddedCluster {}

    impl EmbeddedCluster {
        #[allow(clippy::unnecessary_wraps, reason = "the shape of the present one")]
        pub(crate) fn create_topic(&self, _: &str, _: u16) -> Result<(), String> {
            match *self {}
        }
    }
}
