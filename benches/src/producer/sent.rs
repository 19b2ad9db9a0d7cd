//! What a measured producer counts, and the line that it prints.

use ruststream::{BoxError, Confirmed};
use serde::{Deserialize, Serialize};

use super::{Latency, Mode};
use crate::meter::Spent;

/// Counts confirmations, and checks that each partition is written without a gap, in the order of sending.
#[derive(Debug, Default)]
pub struct Tally {
    confirmed: u64,
    /// By partition: the next offset.
    ends: Vec<i64>,
}

/// What a run measured: one line of JSON on standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    /// Records measured.
    pub count: u64,
    /// Records confirmed in all, with those that warm up.
    pub confirmed: u64,
    /// By partition: the offset after the last confirmed record. Empty where nobody was told.
    pub ends: Vec<i64>,
    /// From before the first measured record was sent until the last one was confirmed.
    #[serde(flatten)]
    pub spent: Spent,
    /// From before a record was sent until its sender knew, in paced runs.
    pub latency: Option<Latency>,
    /// The same until the delivery callback ran, where there is one.
    pub callback: Option<Latency>,
}

impl Tally {
    /// A record of ours was confirmed.
    #[inline]
    pub fn ours(&mut self, confirmed: &Confirmed) -> Result<(), BoxError> {
        self.confirmed(confirmed.partition, confirmed.offset)
    }

    /// A record was confirmed there.
    ///
    /// # Errors
    ///
    /// It should be elsewhere: one was lost, written twice, or overtaken.
    #[inline]
    pub fn confirmed(&mut self, partition: i32, offset: i64) -> Result<(), BoxError> {
        let partition = usize::try_from(partition)?;
        if partition >= self.ends.len() {
            self.ends.resize(partition + 1, 0);
        }
        let Some(end) = self.ends.get_mut(partition).filter(|end| **end == offset) else {
            return Err(self.misplaced(partition, offset));
        };
        *end += 1;
        self.confirmed += 1;
        Ok(())
    }

    #[cold]
    fn misplaced(&self, partition: usize, offset: i64) -> BoxError {
        let expected = self.ends.get(partition).copied().unwrap_or_default();
        format!("a record was confirmed at {partition}/{offset}, not at {expected}: no figure").into()
    }

    /// Records were confirmed, and nobody was told where.
    pub fn unplaced(&mut self, records: u64) {
        self.confirmed += records;
    }

    /// What was measured.
    pub fn sent(self, count: u64, spent: Spent) -> Sent {
        Sent {
            count,
            confirmed: self.confirmed,
            ends: self.ends,
            spent,
            latency: None,
            callback: None,
        }
    }
}

impl Sent {
    /// Fails unless `count` records and those that warm up were confirmed, and the topic ends where they do.
    ///
    /// # Errors
    ///
    /// It says what was seen instead.
    pub fn check(self, mode: Mode, count: u64, topic: &[i64]) -> Result<Self, BoxError> {
        let all = count + mode.warm_up();
        let (confirmed, written) = (self.confirmed, topic.iter().sum::<i64>());
        if (self.count, confirmed) != (count, all) || u64::try_from(written) != Ok(all) {
            let text = format!("of {all} records {confirmed} were confirmed, {written} written: no figure");
            return Err(text.into());
        }
        let mut ends = self.ends.clone();
        ends.resize(topic.len().max(ends.len()), 0);
        if !self.ends.is_empty() && ends != topic {
            return Err(format!("confirmed up to {ends:?}, the topic ends at {topic:?}: no figure").into());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(offsets: &[(i32, i64)]) -> Result<Tally, BoxError> {
        let mut tally = Tally::default();
        for (partition, offset) in offsets {
            tally.confirmed(*partition, *offset)?;
        }
        Ok(tally)
    }

    fn sent(tally: Tally) -> Sent {
        let spent = Spent {
            seconds: 1.0,
            cpu_seconds: 1.0,
            blocks: 0,
        };
        tally.sent(3, spent)
    }

    #[test]
    fn a_gap_a_repetition_and_an_overtaken_record_give_no_figure() {
        assert!(tally(&[(0, 0), (3, 0), (0, 1)]).is_ok());
        for wrong in [[(0, 0), (0, 2)], [(0, 0), (0, 0)], [(1, 1), (1, 0)]] {
            let error = tally(&wrong).unwrap_err().to_string();
            assert!(error.contains("was confirmed at"), "{error}");
        }
    }

    #[test]
    fn a_topic_that_ends_elsewhere_gives_no_figure() {
        let mut placed = tally(&[(0, 0), (1, 0)]).unwrap();
        for offset in 1..102 {
            placed.confirmed(1, offset).unwrap();
        }
        let sent = sent(placed);
        assert!(sent.clone().check(Mode::RawPaced, 3, &[1, 102, 0]).is_ok());
        for (count, topic) in [
            (3, [2, 101, 0]),
            (3, [1, 102, 1]),
            (4, [1, 102, 0]),
            (3, [1, 101, 0]),
        ] {
            let error = sent.clone().check(Mode::RawPaced, count, &topic).unwrap_err();
            assert!(error.to_string().ends_with("no figure"), "{error}");
        }
    }

    #[test]
    fn records_without_places_are_counted() {
        let mut unplaced = Tally::default();
        unplaced.unplaced(5_003);
        assert!(sent(unplaced).check(Mode::SendAll, 3, &[5_000, 3]).is_ok());
    }
}
