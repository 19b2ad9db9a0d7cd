//! How many deliveries of a partition were dead-lettered, against the limit.

use crate::subscription::DeadLetterLimit;

/// Counts at a dead letter only: what is handled costs nothing.
#[derive(Debug)]
pub(crate) struct Letters {
    limit: DeadLetterLimit,
    /// How many deliveries were handled when the last dead letter was counted, and how many dead letters there were since
    /// one was handled.
    handled: u64,
    consecutive: u64,
    /// Deliveries, handled or dead-lettered, before the present stretch of `limit.of`; dead letters in it; and in all.
    stretch: u64,
    in_stretch: u64,
    all: u64,
}

/// A dead letter too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// So many one after another.
    Consecutive(u64),
    /// So many of so many.
    Share(u64, u64),
}

impl Letters {
    pub(crate) fn new(limit: DeadLetterLimit) -> Self {
        Self {
            limit,
            handled: 0,
            consecutive: 0,
            stretch: 0,
            in_stretch: 0,
            all: 0,
        }
    }

    /// Counts a dead letter, after `handled` deliveries that were handled.
    ///
    /// # Errors
    ///
    /// It is one too many, and was not counted.
    pub(crate) fn count(&mut self, handled: u64) -> Result<(), TooMany> {
        let DeadLetterLimit {
            consecutive,
            most,
            of,
            ..
        } = self.limit;
        if handled != self.handled {
            (self.handled, self.consecutive) = (handled, 0);
        }
        if self.consecutive >= consecutive {
            return Err(TooMany::Consecutive(consecutive));
        }
        let seen = handled + self.all;
        if seen - self.stretch >= of {
            (self.stretch, self.in_stretch) = (seen, 0);
        }
        if self.in_stretch >= most {
            return Err(TooMany::Share(most, of));
        }
        self.consecutive += 1;
        self.in_stretch += 1;
        self.all += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(limit: DeadLetterLimit) -> Letters {
        Letters::new(limit)
    }

    #[test]
    fn one_that_is_handled_ends_a_row() {
        let mut letters = letters(DeadLetterLimit::none().consecutive(2));
        assert_eq!(letters.count(0), Ok(()));
        assert_eq!(letters.count(0), Ok(()));
        assert_eq!(letters.count(0), Err(TooMany::Consecutive(2)));
        assert_eq!(letters.count(1), Ok(()));
        assert_eq!(letters.count(1), Ok(()));
        assert_eq!(letters.count(1), Err(TooMany::Consecutive(2)));
    }

    #[test]
    fn a_share_is_counted_anew_after_each_stretch() {
        let mut letters = letters(DeadLetterLimit::none().share(2, 10));
        assert_eq!(letters.count(0), Ok(()));
        assert_eq!(letters.count(3), Ok(()));
        assert_eq!(letters.count(7), Err(TooMany::Share(2, 10)), "the tenth");
        assert_eq!(letters.count(8), Ok(()), "the eleventh");
    }

    #[test]
    fn no_limit_never_stops() {
        let mut letters = letters(DeadLetterLimit::none());
        assert!((0..10_000).all(|_| letters.count(0).is_ok()));
    }

    #[test]
    fn none_at_all_may_be_allowed() {
        let mut letters = letters(DeadLetterLimit::default().consecutive(0));
        assert_eq!(letters.count(5), Err(TooMany::Consecutive(0)));
    }
}
