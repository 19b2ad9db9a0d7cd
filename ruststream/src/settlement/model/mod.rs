//! The core against plain models that keep every delivery and work everything out again from all of them.
//!
//! - [`plain`]: the plain watermark; [`watermark`]: random deliveries, redeliveries and settlements against it.
//! - [`ledger`]: the plain scheduler; [`driver`]: a copy of the partition loop that drives both through a random
//!   history, with [`wire`] as its publisher; [`scheduler`]: the histories.
//! - [`rules`]: the main rules by example, for people.
//!
//! 256 cases each, or `PROPTEST_CASES`. A failure prints its shortest history: make it a test in [`rules`].

mod driver;
mod ledger;
mod plain;
mod rules;
mod scheduler;
mod watermark;
mod wire;

use proptest::test_runner::Config;

/// Nothing is written next to the sources; the number of cases is the environment's, or 256.
fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}
