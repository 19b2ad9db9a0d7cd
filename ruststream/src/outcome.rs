//! What a handler decided, and how a failure is described.

use std::fmt;

use crate::{BoxError, Record};

/// What a handler decided about a delivery.
///
/// Handlers rarely name it: `()` is [`Ack`](Self::Ack), and the `Err` of a `Result` is a [`Failed`](Self::Failed) that
/// follows the subscription's failure policy.
#[derive(Debug)]
#[must_use = "an outcome that nobody looks at settles nothing: return it from the handler"]
#[non_exhaustive]
pub enum Outcome {
    /// Done: the delivery is settled.
    Ack,
    /// Done, with a record to be sent: the delivery is settled when that is confirmed. What a subscriber with `reply = ..`
    /// returns; a handler written by hand says so in [`Handler::requires`](crate::Handler::requires).
    Reply(Box<Record>),
    /// Same delivery again after a back-off, in place. Spends the same attempts as a failure.
    Retry,
    /// A copy goes to the dead-letter topic: the delivery is settled when that is confirmed. Without such a topic the
    /// subscription stops.
    DeadLetter,
    /// Knowingly not processed: settled, counted and logged.
    Skip,
    /// The subscription stops, and with it the app; the delivery is never settled.
    Stop,
    /// The handler failed: the subscription's policy decides between another attempt, a dead letter and a stop.
    Failed(Failure),
}

/// Why a handler did not succeed.
///
/// Any error becomes a failure with `?` or `into()`, so a handler returns its own error type, a boxed error or
/// `anyhow::Error`. It is transient, and tried again, unless [`Permanent`] stands somewhere in its source chain.
///
/// ```
/// use ruststream::{Failure, FailureKind, Permanent};
///
/// let failure: Failure = std::io::Error::other("connection reset").into();
/// assert_eq!(failure.kind(), FailureKind::Transient);
///
/// let failure: Failure = Permanent::new("no such customer").into();
/// assert_eq!(failure.kind(), FailureKind::Permanent);
/// ```
pub struct Failure {
    kind: FailureKind,
    error: BoxError,
}

impl Outcome {
    /// [`Reply`](Self::Reply) with `record`.
    pub fn reply(record: Record) -> Self {
        Self::Reply(Box::new(record))
    }
}

/// What kind of failure a [`Failure`] is; decides whether another attempt makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// May pass: tried again by the retry policy.
    Transient,
    /// Will not pass: no retry.
    Permanent,
    /// Payload, key or header could not be turned into the handler's argument: no retry.
    Undecodable,
    /// The handler panicked: no retry.
    Panic,
    /// The handler did not end within its [`timeout`](crate::IntoSubscriber::timeout): tried again by the retry policy.
    TimedOut,
}

impl Failure {
    /// A failure that another attempt will not heal.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self {
            kind: FailureKind::Permanent,
            error: error.into(),
        }
    }

    /// A payload, key or header that could not be decoded. What extractors return.
    #[cold]
    pub fn undecodable(error: impl Into<BoxError>) -> Self {
        Self {
            kind: FailureKind::Undecodable,
            error: error.into(),
        }
    }

    #[cold]
    pub(crate) fn timed_out(limit: std::time::Duration) -> Self {
        Self {
            kind: FailureKind::TimedOut,
            error: format!("the handler did not end within {limit:?}").into(),
        }
    }

    #[cold]
    pub(crate) fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a text".to_owned());
        Self {
            kind: FailureKind::Panic,
            error: text.into(),
        }
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The error, with its source chain.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.error
    }

    pub(crate) fn into_error(self) -> BoxError {
        self.error
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    #[cold]
    fn from(error: E) -> Self {
        let error = error.into();
        let kind = if is_permanent(&*error) {
            FailureKind::Permanent
        } else {
            FailureKind::Transient
        };
        Self { kind, error }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("kind", &self.kind)
            .field("error", &self.error)
            .finish()
    }
}

fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<Permanent>)
}

/// Marks an error as one that another attempt will not heal, wherever it stands in a source chain.
pub struct Permanent(BoxError);

impl Permanent {
    /// Wraps `error`; the text stays the same.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permanent").field(&self.0).finish()
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Permanent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What a handler may return: `()`, [`Outcome`], or a `Result` of one of these.
#[diagnostic::on_unimplemented(
    message = "a subscriber cannot return `{Self}`",
    label = "returns `{Self}`",
    note = "return `()`, `Outcome`, or `Result<(), E>` / `Result<Outcome, E>` where `E` is an error",
    note = "to return a value that is sent on, name its topic: `#[subscriber(\"orders\", reply = \"invoices\")]`"
)]
pub trait IntoOutcome {
    /// The decision behind the return value.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    #[inline]
    fn into_outcome(self) -> Outcome {
        Outcome::Ack
    }
}

impl IntoOutcome for Outcome {
    #[inline]
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: IntoOutcome, E: Into<Failure>> IntoOutcome for Result<T, E> {
    #[inline]
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(Permanent);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("billing failed")
        }
    }

    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn permanent_is_found_along_the_whole_source_chain() {
        let failure = Failure::from(Wrapped(Permanent::new("no such customer")));
        assert_eq!(failure.kind(), FailureKind::Permanent);
        assert_eq!(failure.error().to_string(), "billing failed");
    }

    #[test]
    fn an_ordinary_error_is_transient() {
        assert_eq!(Failure::from("try later").kind(), FailureKind::Transient);
    }

    #[test]
    fn results_nest_into_outcomes() {
        let skip: Result<Outcome, BoxError> = Ok(Outcome::Skip);
        assert!(matches!(skip.into_outcome(), Outcome::Skip));
        let failed: Result<(), BoxError> = Err("no".into());
        assert!(matches!(failed.into_outcome(), Outcome::Failed(_)));
    }
}
