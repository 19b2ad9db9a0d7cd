//! Settlement: turning outcomes into a position that is safe to commit, and deciding what may start next.
//!
//! Sans-IO: plain structs fed with events (delivered, finished, time passed, drain, cancel) that answer with decisions
//! (start, hold, store). No runtime, no broker, no clock of their own, so they are tested against a plain model and
//! every broker behaves alike. One partition assignment has one [`Scheduler`], owned by the task that drives it.
//!
//! A delivery whose handler is done may wait for records that were sent on its behalf (a reply, what its handler sent, a
//! dead letter): the [`Outbox`] has those, and the scheduler holds the position until [`Scheduler::confirm`].

mod letters;
mod outbox;
mod scheduler;
mod verdict;
mod watermark;

#[cfg(test)]
mod model;

pub(crate) use letters::{Letters, TooMany};
pub(crate) use outbox::{Name, Outbox, Role, View};
pub(crate) use scheduler::{Job, Limits, Scheduler, Turn};
pub(crate) use verdict::{Reason, Verdict};
pub(crate) use watermark::{Ticket, Watermark};
