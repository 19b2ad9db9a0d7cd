//! Models of the lock-free protocols: every interleaving of two threads, and of three with at most three preemptions.
//!
//! The files under test are the production ones, taken in by path: they name their atomics through `crate::sync`, which is
//! the standard library's in their own crates and loom's here. A crate of its own, because `--cfg loom` reaches every
//! dependency: tokio has no `signal` under it, so `ruststream` itself does not build that way, and `ruststream-rdkafka`
//! would bring a build of librdkafka to test 20 lines that do not use it.
//!
//! What is not modelled: the inside of `AtomicWaker`, for which loom has a mutex, and the callers, `Driver::poll` and
//! `KafkaPartition::poll_batch`, whose few lines the models repeat.
//!
//! Run by `just test-loom`; without `--cfg loom` there is nothing here.

#[cfg(all(test, loom))]
mod sync;

#[cfg(all(test, loom))]
#[path = "../../../ruststream/src/dispatch/lanes.rs"]
#[allow(dead_code, reason = "the models need a part of it")]
mod lanes;

#[cfg(all(test, loom))]
#[path = "../../../ruststream-rdkafka/src/native/wake.rs"]
mod wake;

#[cfg(all(test, loom))]
#[path = "../../../ruststream-rdkafka/src/publisher/acks.rs"]
#[allow(dead_code, reason = "the models need a part of it")]
mod acks;
#[cfg(all(test, loom))]
#[path = "../../../ruststream-rdkafka/src/publisher/chunks.rs"]
mod chunks;
#[cfg(all(test, loom))]
#[path = "../../../ruststream-rdkafka/src/publisher/places.rs"]
mod places;
#[cfg(all(test, loom))]
#[path = "../../../ruststream-rdkafka/src/publisher/stacks.rs"]
mod stacks;

#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod acks_model;
#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod lanes_model;
#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod wake_model;

/// A model with two threads beside the test's own, which has too many interleavings to try them all.
#[cfg(all(test, loom))]
fn model_of_three(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // Switches away from a thread that could go on. With 3, all models together take some seconds; loom's
    // documentation: 2 or 3 catch most bugs.
    model.preemption_bound.get_or_insert(3);
    model.check(run);
}
