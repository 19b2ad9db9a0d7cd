//! A broker in memory, for tests: topics, partitions, keys, groups, rebalances and positions, without a network.
//!
//! [`MemoryBroker`] keeps the same contract as a real broker, and passes the same
//! [contract suite](crate::testing::contract). Beyond that a test can see and move everything: what was
//! [published](MemoryBroker::records), who [owns](MemoryBroker::assignment) which partition, up to where a group
//! [got](MemoryBroker::position); other members [join](MemoryBroker::join) and leave, partitions get
//! [lost](MemoryBroker::lose), positions are [rewound](MemoryBroker::set_position).
//!
//! Time is tokio's: with a paused clock, drain deadlines pass without waiting.
//!
//! ```
//! use ruststream::memory::{MemoryBroker, MemoryRecord};
//!
//! let broker = MemoryBroker::new();
//! broker.create_topic("orders", 2)?;
//! let (partition, offset) = broker.publish(MemoryRecord::new("orders").key("ada").payload("{}"))?;
//! assert_eq!(broker.records("orders").len(), 1);
//! assert_eq!((0..2).contains(&partition), offset == 0);
//! # Ok::<(), ruststream::Error>(())
//! ```

mod broker;
mod control;
mod delivery;
mod group;
mod log;
mod member;
mod membership;
mod partition;
mod publisher;
mod rebalance;
mod record;
mod state;
mod subscription;
mod wait;

pub use broker::MemoryBroker;
pub use delivery::MemoryDelivery;
pub use group::DRAIN_GRACE;
pub use member::MemoryMember;
pub use partition::MemoryPartition;
pub use publisher::{MemoryPublisher, MemoryReceipt};
pub use record::MemoryRecord;
pub use subscription::MemorySubscription;
