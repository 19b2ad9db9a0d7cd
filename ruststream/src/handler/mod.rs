//! The user's function, seen through one trait, and what it can ask for.

mod context;
mod extract;
mod key;
pub(crate) mod payload;
mod publisher;
pub(crate) mod reply;
mod state;

pub use context::Context;
pub(crate) use context::{Scope, spare};
pub use extract::{FromDelivery, Meta, Shutdown};
pub use key::{BigEndian, FromKey, Key, LittleEndian};
pub(crate) use publisher::{Outlet, Outlets};
pub use publisher::{Publisher, Sent};
pub use reply::Reply;
pub(crate) use state::States;
pub use state::{Requirements, State};

use std::future::Future;

use crate::Outcome;
use crate::broker::Delivery;

/// A handler: one delivery in, one outcome out.
///
/// `#[subscriber]` writes the implementation. By hand it is three lines, for a handler that is not a function:
///
/// ```
/// use ruststream::broker::Delivery;
/// use ruststream::{Context, Handler, IntoSubscriber, Outcome, Subscriber};
///
/// struct Count(std::sync::atomic::AtomicU64);
///
/// impl Handler for Count {
///     async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, _cx: Context<'m>) -> Outcome {
///         self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         Outcome::Ack
///     }
/// }
///
/// let counted = Subscriber::new("orders", Count(0.into())).name("count");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "annotate the function with `#[subscriber(\"topic\")]`, or implement `Handler`"
)]
pub trait Handler: Send + Sync + 'static {
    /// Handles one delivery.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the partition's drain deadline passes; nothing is settled then, so the delivery is
    /// seen again. A panic is caught and is a failure.
    fn call<'m, D: Delivery>(
        &'m self,
        delivery: &'m D,
        cx: Context<'m>,
    ) -> impl Future<Output = Outcome> + Send + 'm;

    /// Names what the handler needs from the app, so that start-up can report what is missing.
    fn requires(&self, requirements: &mut Requirements) {
        let _ = requirements;
    }
}
