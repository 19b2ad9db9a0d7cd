//! The app's state: one value per type, shared by all handlers.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use super::{Context, FromDelivery};
use crate::broker::Delivery;
use crate::{Failure, Problem};

/// The app's value of type `T`, given with [`RustStream::state`](crate::RustStream::state).
///
/// ```
/// use ruststream::prelude::*;
///
/// struct Rates { vat: f64 }
///
/// #[subscriber("orders")]
/// async fn bill(total: f64, State(rates): State<'_, Rates>) {
///     let _ = total * rates.vat;
/// }
/// ```
///
/// A state that is missing is a start-up error that names the type and every handler that needs it.
#[derive(Debug)]
pub struct State<'m, T>(pub &'m T);

impl<T> Clone for State<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for State<'_, T> {}

impl<'m, T: Send + Sync + 'static> FromDelivery<'m> for State<'m, T> {
    #[inline]
    fn from_delivery<D: Delivery>(_delivery: &'m D, cx: Context<'m>) -> Result<Self, Failure> {
        cx.state().map(State).ok_or_else(missing::<T>)
    }

    fn requires(requirements: &mut Requirements) {
        requirements.state::<T>();
    }
}

/// Only an extractor that hides its need from `requires` comes here: start-up refuses the others.
#[cold]
fn missing<T>() -> Failure {
    Failure::permanent(format!(
        "the app has no state of type {}: add .state(..)",
        type_name::<T>()
    ))
}

/// The values given to the app. A linear search: apps have a few, and the first ones cost two compares.
#[derive(Default)]
pub(crate) struct States {
    entries: Vec<Entry>,
}

/// A value with its type and the type's name.
type Entry = (TypeId, &'static str, Box<dyn Any + Send + Sync>);

impl States {
    /// Keeps `value`; gives back the type's name if there is one already.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> Result<(), &'static str> {
        if self.contains(TypeId::of::<T>()) {
            return Err(type_name::<T>());
        }
        self.entries
            .push((TypeId::of::<T>(), type_name::<T>(), Box::new(value)));
        Ok(())
    }

    #[inline]
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        // `downcast_ref` compares the type already: looking at the stored id first would do it twice.
        self.entries.iter().find_map(|(_, _, value)| value.downcast_ref())
    }

    fn contains(&self, id: TypeId) -> bool {
        self.entries.iter().any(|(other, _, _)| *other == id)
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.entries.iter().map(|(_, name, _)| name))
            .finish()
    }
}

/// What a handler needs from the app; checked at start-up.
#[derive(Debug, Default)]
pub struct Requirements {
    states: Vec<(TypeId, &'static str)>,
    replies: bool,
    sends: bool,
}

impl Requirements {
    /// The handler needs a state of type `T`.
    pub fn state<T: Send + Sync + 'static>(&mut self) {
        let id = TypeId::of::<T>();
        if !self.states.iter().any(|(other, _)| *other == id) {
            self.states.push((id, type_name::<T>()));
        }
    }

    /// The handler returns [`Outcome::Reply`](crate::Outcome::Reply).
    pub fn reply(&mut self) {
        self.replies = true;
    }

    /// The handler takes a [`Publisher`](crate::Publisher).
    pub fn publisher(&mut self) {
        self.sends = true;
    }

    pub(crate) fn replies(&self) -> bool {
        self.replies
    }

    pub(crate) fn sends(&self) -> bool {
        self.sends
    }

    /// One problem for each need of the subscription `name` that `states` does not meet.
    pub(crate) fn check(&self, name: &str, states: &States, problems: &mut Vec<Problem>) {
        for (_, state) in self.states.iter().filter(|(id, _)| !states.contains(*id)) {
            problems.push(Problem::new(
                format!("subscription {name}"),
                format!("needs a state of type {state}: add .state(..) with one to the app"),
            ));
        }
    }
}
