//! What every broker has to do, as one suite that runs against any [`Broker`].
//!
//! A broker crate implements [`Fixture`] and calls [`contract_suite`], or the checks one by one, each a test of its
//! own. A check panics with a text that says what was expected. It uses topics and groups of its own, waits for events
//! with a deadline, and assumes neither that offsets start at 0 nor that they are dense; so the suite runs on a shared
//! cluster, and on one that is slow.
//!
//! A broker with a publisher implements [`PublishFixture`] as well, and calls [`publishing_suite`] and
//! [`replying_suite`].
//!
//! # Cancel safety
//!
//! Dropping a check's future leaves its topic behind, and members that were not closed.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use ruststream::memory::{MemoryBroker, MemoryRecord};
//! use ruststream::testing::contract::{Fixture, TestRecord, contract_suite};
//!
//! struct InMemory(MemoryBroker);
//!
//! impl Fixture for InMemory {
//!     type Broker = MemoryBroker;
//!
//!     async fn broker(&self) -> MemoryBroker {
//!         self.0.clone()
//!     }
//!
//!     async fn create_topic(&self, topic: &str, partitions: i32) {
//!         self.0.create_topic(topic, partitions).expect("a new topic");
//!     }
//!
//!     async fn publish(&self, test: TestRecord) {
//!         let mut record = MemoryRecord::new(test.topic).partition(test.partition);
//!         // ... key, payload, headers
//! #       if let Some(key) = test.key { record = record.key(key); }
//! #       if let Some(payload) = test.payload { record = record.payload(payload); }
//! #       for (name, value) in test.headers {
//! #           record = match value { Some(value) => record.header(name, value), None => record.null_header(name) };
//! #       }
//!         self.0.publish(record).expect("an existing partition");
//!     }
//! }
//!
//! contract_suite(&InMemory(MemoryBroker::new())).await;
//! # }
//! ```

mod app;
mod closing;
mod consumer;
mod publishing;
mod reading;
mod rebalancing;
mod replying;
mod scene;
mod subscribing;

use std::future::Future;
use std::time::Duration;

use crate::broker::{Broker, Publisher};

pub use closing::{
    a_store_after_the_end_moves_nothing, a_stored_position_is_where_the_next_owner_starts,
    close_ends_partitions_and_waits_for_their_drop, close_of_a_subscription_that_owns_nothing_returns,
    close_returns_the_positions_that_were_committed, unsettled_deliveries_come_again,
};
pub use publishing::{
    a_confirmed_record_is_delivered_as_it_was_sent, a_dropped_receipt_loses_no_record,
    a_record_for_an_unknown_partition_comes_back, a_tombstone_is_published, flush_waits_for_what_was_sent,
    records_of_a_publisher_keep_their_order, send_all_confirms_every_record, try_send_hands_over_a_receipt,
};
pub use reading::{
    a_batch_grows_by_at_most_max_deliveries, an_empty_partition_is_pending_and_wakes_for_a_record,
    deliveries_of_a_partition_come_in_order, every_record_of_every_partition_comes_once,
    headers_keep_their_order_duplicates_and_nulls, null_and_empty_are_different_things,
};
pub use rebalancing::{
    a_partition_moves_only_after_its_drop, a_second_member_takes_its_share_and_what_was_not_stored,
};
pub use replying::{
    a_dead_letter_is_the_record_as_it_came_and_says_why,
    a_missing_reply_or_dead_letter_topic_is_a_problem_of_its_subscription,
    a_reply_arrives_under_the_key_of_its_source, no_reply_sends_nothing_and_settles,
    replies_arrive_once_and_in_the_order_of_their_sources,
    what_a_handler_sends_is_there_when_its_source_is_settled,
};
pub use subscribing::{
    a_missing_topic_is_a_problem_that_names_it, accept_is_cancel_safe,
    two_subscriptions_of_one_topic_in_one_group_are_a_problem,
};

/// The cluster under test, as the suite sees it.
pub trait Fixture: Send + Sync {
    /// The broker under test.
    type Broker: Broker;

    /// Makes a client of the cluster; each one may belong to another process.
    fn broker(&self) -> impl Future<Output = Self::Broker> + Send;

    /// Creates a topic that can be used when this returns.
    fn create_topic(&self, topic: &str, partitions: i32) -> impl Future<Output = ()> + Send;

    /// Appends a record, and returns when the cluster has it.
    fn publish(&self, record: TestRecord) -> impl Future<Output = ()> + Send;

    /// Whether the members of a group share its partitions. Without it [`contract_suite`] leaves the checks about
    /// rebalances out.
    fn rebalances(&self) -> bool {
        true
    }

    /// How long an expected event may take before its check fails: 30 s, because a Kafka group takes several seconds
    /// to form.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// A cluster that can be published to.
pub trait PublishFixture: Fixture {
    /// The publisher under test.
    type Publisher: Publisher;

    /// Makes a publisher with a client of its own.
    fn publisher(&self) -> impl Future<Output = Self::Publisher> + Send;
}

/// A record that the suite wants to have published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestRecord {
    /// The topic.
    pub topic: String,
    /// The partition, always explicit.
    pub partition: i32,
    /// The key; `None` is a null key.
    pub key: Option<Vec<u8>>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// The headers, in order; a value of `None` is null.
    pub headers: Vec<TestHeader>,
}

/// A header's name and value.
pub type TestHeader = (String, Option<Vec<u8>>);

/// Runs every check, one after another.
///
/// # Panics
///
/// When the broker breaks the contract.
///
/// # Cancel safety
///
/// Dropping the future leaves a topic behind, and members that were not closed.
pub async fn contract_suite(fixture: &impl Fixture) {
    a_missing_topic_is_a_problem_that_names_it(fixture).await;
    two_subscriptions_of_one_topic_in_one_group_are_a_problem(fixture).await;
    accept_is_cancel_safe(fixture).await;
    deliveries_of_a_partition_come_in_order(fixture).await;
    a_batch_grows_by_at_most_max_deliveries(fixture).await;
    every_record_of_every_partition_comes_once(fixture).await;
    null_and_empty_are_different_things(fixture).await;
    headers_keep_their_order_duplicates_and_nulls(fixture).await;
    an_empty_partition_is_pending_and_wakes_for_a_record(fixture).await;
    a_stored_position_is_where_the_next_owner_starts(fixture).await;
    unsettled_deliveries_come_again(fixture).await;
    close_ends_partitions_and_waits_for_their_drop(fixture).await;
    close_returns_the_positions_that_were_committed(fixture).await;
    close_of_a_subscription_that_owns_nothing_returns(fixture).await;
    a_store_after_the_end_moves_nothing(fixture).await;
    if fixture.rebalances() {
        a_second_member_takes_its_share_and_what_was_not_stored(fixture).await;
        a_partition_moves_only_after_its_drop(fixture).await;
    }
}

/// Runs every check of publishing, one after another.
///
/// # Panics
///
/// When the broker breaks the contract.
///
/// # Cancel safety
///
/// Dropping the future leaves a topic behind, and members that were not closed.
pub async fn publishing_suite(fixture: &impl PublishFixture) {
    a_confirmed_record_is_delivered_as_it_was_sent(fixture).await;
    a_tombstone_is_published(fixture).await;
    records_of_a_publisher_keep_their_order(fixture).await;
    send_all_confirms_every_record(fixture).await;
    try_send_hands_over_a_receipt(fixture).await;
    a_dropped_receipt_loses_no_record(fixture).await;
    flush_waits_for_what_was_sent(fixture).await;
    a_record_for_an_unknown_partition_comes_back(fixture).await;
}

/// Runs every check of an app that replies, sends and dead-letters, one after another.
///
/// Sources are published by the fixture's publisher.
///
/// # Panics
///
/// When the broker breaks the contract.
///
/// # Cancel safety
///
/// Dropping the future aborts an app that runs, and leaves topics behind.
pub async fn replying_suite(fixture: &impl PublishFixture) {
    a_missing_reply_or_dead_letter_topic_is_a_problem_of_its_subscription(fixture).await;
    a_reply_arrives_under_the_key_of_its_source(fixture).await;
    no_reply_sends_nothing_and_settles(fixture).await;
    replies_arrive_once_and_in_the_order_of_their_sources(fixture).await;
    what_a_handler_sends_is_there_when_its_source_is_settled(fixture).await;
    a_dead_letter_is_the_record_as_it_came_and_says_why(fixture).await;
}
