//! When dead-lettering is no longer the answer.

/// How many deliveries of a partition may be dead-lettered before the subscription stops instead.
///
/// A few bad records belong into the dead-letter topic. When nearly all are bad, the handler is, or what it depends on,
/// and a topic would be drained into its dead-letter topic. Then the subscription stops: what is not settled comes again
/// once the cause is fixed.
///
/// ```
/// use ruststream::DeadLetterLimit;
///
/// let limit = DeadLetterLimit::default().consecutive(20).share(100, 10_000);
/// # let _ = limit;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a limit does nothing until it is given to a subscriber: `.dead_letter_limit(limit)`"]
pub struct DeadLetterLimit {
    pub(crate) consecutive: u64,
    pub(crate) most: u64,
    pub(crate) of: u64,
}

impl DeadLetterLimit {
    /// No limit: the whole topic may go to its dead-letter topic. Never the default: say it knowingly.
    pub const fn none() -> Self {
        Self {
            consecutive: u64::MAX,
            most: u64::MAX,
            of: u64::MAX,
        }
    }

    /// At most `deliveries` one after another (default 100).
    pub const fn consecutive(mut self, deliveries: u64) -> Self {
        self.consecutive = deliveries;
        self
    }

    /// At most `most` of `of` deliveries (default 500 of 1,000).
    pub const fn share(mut self, most: u64, of: u64) -> Self {
        self.most = most;
        self.of = of;
        self
    }
}

impl Default for DeadLetterLimit {
    fn default() -> Self {
        Self::none().consecutive(100).share(500, 1_000)
    }
}
