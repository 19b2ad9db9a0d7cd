//! The service app: what is mounted, how it starts, runs and stops.

mod builder;
mod mounts;
mod report;
mod running;
mod startup;
mod stopping;

pub use builder::RustStream;
pub use mounts::Mounts;
pub use report::{Report, SubscriptionReport};
pub use running::{Running, StopHandle};
pub(crate) use stopping::Stopping;
