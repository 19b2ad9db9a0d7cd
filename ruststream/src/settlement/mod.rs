//! Settlement: turning outcomes into a position that is safe to commit, and deciding what may start next.
//!
//! Sans-IO: plain structs fed with events (delivered, finished, time passed, drain, cancel) that answer with decisions
//! (start, hold, store). No runtime, no broker, no clock of their own, so they are tested against a plain model and
//! every broker behaves alike. One partition assignment has one [`Scheduler`], owned by the task that drives it.
//!
//! Receipts (a reply or a dead-letter copy that must be confirmed before its source settles) will be one more reason
//! for a job to stay open: [`Scheduler::complete`] with a verdict that keeps the job until its receipt resolves.

mod scheduler;
mod verdict;
mod watermark;

#[cfg(test)]
mod model;

pub(crate) use scheduler::{Job, Limits, Scheduler, Turn};
pub(crate) use verdict::{Reason, Verdict};
pub(crate) use watermark::{Ticket, Watermark};
