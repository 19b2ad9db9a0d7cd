//! The one error of the crate: what failed, on what, and what to do.

use std::fmt;

/// Any error that can cross a thread: what handlers return and what [`Error`] keeps as its source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error of the framework.
///
/// [`kind`](Self::kind) tells programs what happened; the text tells people what failed, on what, and what to do.
/// The text never repeats the source: print the chain, as `anyhow` and `eyre` do.
///
/// ```
/// use ruststream::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Broker, "the consumer of group billing lost its broker");
/// assert_eq!(error.kind(), ErrorKind::Broker);
/// assert_eq!(error.to_string(), "the consumer of group billing lost its broker");
/// ```
pub struct Error {
    kind: ErrorKind,
    message: String,
    problems: Vec<Problem>,
    source: Option<BoxError>,
}

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The app was not started: [`Error::problems`] lists everything that has to be put right.
    Startup,
    /// The broker failed in a way that the client could not heal.
    Broker,
    /// A subscription stopped because its failure policy, or its handler, said so.
    Stopped,
    /// A deadline passed; the text says which, and what was left undone.
    Deadline,
    /// A second signal ended the app before it had drained.
    Interrupted,
    /// A value could not be written in the form that its topic needs.
    Encode,
    /// A defect of the framework or of a broker crate: please report it.
    Internal,
}

/// One thing that is wrong with the configuration or the surroundings of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    subject: String,
    message: String,
}

impl Problem {
    /// Names what is wrong (`subject`: a subscription, a broker) and what to do about it.
    pub fn new(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            message: message.into(),
        }
    }

    /// What the problem is about: `subscription bill`, `Kafka at localhost:9092`.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// What is wrong, and the remedy.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.message)
    }
}

impl Error {
    /// An error with a text of the form "what failed, on what, what to do", in lower case and without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            problems: Vec::new(),
            source: None,
        }
    }

    /// A start-up error that lists every problem found, in the order given.
    pub fn startup(problems: Vec<Problem>) -> Self {
        let message = match problems.len() {
            1 => "the app cannot start, 1 problem".to_owned(),
            n => format!("the app cannot start, {n} problems"),
        };
        Self {
            kind: ErrorKind::Startup,
            message,
            problems,
            source: None,
        }
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The problems of a [`Startup`](ErrorKind::Startup) error, in mount order; empty for other kinds.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

/// The same text as `Display`, then the chain of sources: what `main` prints when it returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            write!(f, "\n  caused by: {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
