//! The plain watermark: a list of everything that was ever delivered.

#[derive(Debug, Default)]
pub(super) struct Plain {
    delivered: Vec<Delivered>,
    position: Option<i64>,
    taken: Option<i64>,
    late: u64,
}

#[derive(Debug, Clone, Copy)]
struct Delivered {
    offset: i64,
    settled: bool,
    /// Delivered again since, or behind one that was.
    forgotten: bool,
}

impl Plain {
    /// Notes a delivery, unsettled; deliveries are named by their number, from 0.
    pub(super) fn deliver(&mut self, offset: i64) {
        if self.view().any(|delivered| delivered.offset >= offset) {
            for delivered in &mut self.delivered {
                delivered.forgotten |= delivered.offset >= offset;
            }
            self.position = self.position.map(|position| position.min(offset));
        }
        self.delivered.push(Delivered {
            offset,
            settled: false,
            forgotten: false,
        });
    }

    /// Settles a delivery; `false` if that comes too late.
    pub(super) fn settle(&mut self, number: usize) -> bool {
        let Delivered {
            offset,
            settled,
            forgotten,
        } = self.delivered[number];
        if settled || forgotten {
            self.late += 1;
            return false;
        }
        let held_the_position = self.blocking() == Some(offset);
        self.delivered[number].settled = true;
        if held_the_position {
            self.position = self.blocking().or(self.last().map(|last| last + 1));
        }
        true
    }

    /// A ticket of another assignment was settled.
    pub(super) fn settle_foreign(&mut self) {
        self.late += 1;
    }

    pub(super) fn take(&mut self) -> Option<i64> {
        if self.position == self.taken {
            return None;
        }
        self.taken = self.position;
        self.position
    }

    pub(super) fn position(&self) -> Option<i64> {
        self.position
    }

    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// The lowest unsettled offset.
    pub(super) fn blocking(&self) -> Option<i64> {
        self.view()
            .filter(|delivered| !delivered.settled)
            .map(|delivered| delivered.offset)
            .min()
    }

    pub(super) fn span(&self) -> usize {
        let Some(blocking) = self.blocking() else { return 0 };
        self.view()
            .filter(|delivered| delivered.offset >= blocking)
            .count()
    }

    /// For every delivery, whether its settlement would still count, or did and is not covered by the position yet.
    pub(super) fn holds(&self) -> Vec<bool> {
        let blocking = self.blocking().unwrap_or(i64::MAX);
        self.delivered
            .iter()
            .map(|delivered| !delivered.forgotten && delivered.offset >= blocking)
            .collect()
    }

    /// The newest offset that counts.
    pub(super) fn last(&self) -> Option<i64> {
        self.view().map(|delivered| delivered.offset).max()
    }

    pub(super) fn is_forgotten(&self, number: usize) -> bool {
        self.delivered[number].forgotten
    }

    /// The deliveries that can be settled.
    pub(super) fn unsettled(&self) -> Vec<usize> {
        let can_settle = |number: &usize| {
            let delivered = self.delivered[*number];
            !delivered.settled && !delivered.forgotten
        };
        (0..self.delivered.len()).filter(can_settle).collect()
    }

    /// The offsets that were ever delivered, in the order they came.
    pub(super) fn offsets(&self) -> impl Iterator<Item = i64> + '_ {
        self.delivered.iter().map(|delivered| delivered.offset)
    }

    /// Where the position may be: above all that is settled without a hole, and not above what is unsettled.
    pub(super) fn bounds(&self) -> (Option<i64>, i64) {
        let blocking = self.blocking().unwrap_or(i64::MAX);
        let below = self
            .view()
            .map(|delivered| delivered.offset)
            .filter(|offset| *offset < blocking)
            .max();
        (below.map(|offset| offset + 1), blocking)
    }

    /// What counts since the last redelivery.
    fn view(&self) -> impl Iterator<Item = &Delivered> {
        self.delivered.iter().filter(|delivered| !delivered.forgotten)
    }
}
