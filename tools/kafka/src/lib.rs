//! Starts real Kafka nodes on this machine, for tests, examples and benchmarks.
//!
//! A [`Cluster`] is one or more Kafka nodes, each a broker and a controller in a Java process of its own, reachable
//! on loopback only. Its nodes can be killed, frozen and restarted, and all of them end when it is dropped. Kafka
//! itself comes from Maven on first use.
//!
//! ```no_run
//! # fn main() -> Result<(), ruststream_kafka_cluster::Error> {
//! use ruststream_kafka_cluster::Cluster;
//!
//! let cluster = Cluster::start(3)?;
//! cluster.create_topic("orders", 4, 3)?;
//! let leader = cluster.leader("orders", 0)?;
//! cluster.kill(leader)?;
//! cluster.restart(leader)?;
//! # Ok(())
//! # }
//! ```
//!
//! Every call blocks its thread, also inside an async test; calls take milliseconds, except those that start or end
//! a node. Needs Linux (it tells processes apart by `/proc`), Java 17 or later and, the first time, Maven.
//!
//! # Files
//!
//! Everything lives in `kafka` under the target directory:
//!
//! * `libs`: Kafka's jars, fetched once.
//! * `run-<id>`: one cluster, with `run.json` (its processes), `owner.lock` (held as long as its owner lives) and
//!   `node-<id>` (settings, data and log of a node).
//! * `up.json`: what `kafka up` left running.
//!
//! # What ends a node
//!
//! Dropping the cluster. If the owner dies without that, a watchdog beside each node kills it at once, and the next
//! start ends what may still be left. A process is named by its pid and its start time, so that a pid that the
//! system gave to another program is never signalled, and a run whose `owner.lock` is held is never touched.

mod admin;
mod builder;
mod cluster;
mod config;
mod error;
mod files;
mod jars;
mod node;
mod ports;
mod process;
mod run;
pub mod standing;
mod watchdog;

pub use builder::Builder;
pub use cluster::Cluster;
pub use error::{Error, ErrorKind};
pub use node::Node;
