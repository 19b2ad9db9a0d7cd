//! Random deliveries, redeliveries and settlements: the watermark is the plain one after every step.

use proptest::prelude::*;
use proptest::sample::Index;

use super::config;
use super::plain::Plain;
use crate::settlement::{Ticket, Watermark};

#[derive(Debug, Clone)]
enum Event {
    /// `gap` above the newest offset.
    Deliver {
        gap: i64,
        settled: bool,
    },
    /// An offset that was delivered before, or up to a few below it.
    Redeliver {
        seen: Index,
        below: i64,
        settled: bool,
    },
    /// One that can be settled.
    Settle(Index),
    /// Any ticket that was ever given: settled, forgotten or open.
    SettleAny(Index),
    /// The ticket of the same delivery in another assignment.
    SettleForeign(Index),
    Take,
}

fn event() -> impl Strategy<Value = Event> {
    let gap = prop_oneof![6 => Just(1), 3 => 2..=4_i64, 1 => 1_000_000..2_000_000_i64];
    let below = prop_oneof![4 => Just(0), 1 => 1..=5_i64];
    prop_oneof![
        10 => (gap, any::<bool>()).prop_map(|(gap, settled)| Event::Deliver { gap, settled }),
        2 => (any::<Index>(), below, any::<bool>())
            .prop_map(|(seen, below, settled)| Event::Redeliver { seen, below, settled }),
        8 => any::<Index>().prop_map(Event::Settle),
        3 => any::<Index>().prop_map(Event::SettleAny),
        1 => any::<Index>().prop_map(Event::SettleForeign),
        3 => Just(Event::Take),
    ]
}

/// The watermark, its model, and the watermark of another assignment that gets the same deliveries.
struct Trial {
    watermark: Watermark,
    plain: Plain,
    other: Watermark,
    tickets: Vec<Ticket>,
    foreign: Vec<Ticket>,
}

impl Trial {
    fn new(epoch: u64) -> Self {
        Self {
            watermark: Watermark::new(epoch),
            plain: Plain::default(),
            other: Watermark::new(epoch + 1),
            tickets: Vec::new(),
            foreign: Vec::new(),
        }
    }

    fn apply(&mut self, event: &Event) {
        let before = self.plain.position();
        match event {
            Event::Deliver { gap, settled } => {
                let offset = self.plain.last().map_or(*gap, |last| last + gap);
                self.deliver(offset, *settled);
                assert!(
                    self.watermark.position() >= before,
                    "a delivery moved the position down"
                );
            }
            Event::Redeliver { seen, below, settled } => {
                let offsets: Vec<_> = self.plain.offsets().collect();
                if !offsets.is_empty() {
                    self.deliver(seen.get(&offsets) - below, *settled);
                }
            }
            Event::Settle(which) => {
                let unsettled = self.plain.unsettled();
                if !unsettled.is_empty() {
                    assert!(self.settle(*which.get(&unsettled)));
                }
            }
            Event::SettleAny(which) => {
                if !self.tickets.is_empty() {
                    self.settle(which.index(self.tickets.len()));
                }
            }
            Event::SettleForeign(which) => {
                if !self.foreign.is_empty() {
                    assert!(!self.watermark.settle(*which.get(&self.foreign)));
                    self.plain.settle_foreign();
                }
            }
            Event::Take => assert_eq!(self.watermark.take(), self.plain.take()),
        }
    }

    fn deliver(&mut self, offset: i64, settled: bool) {
        let ticket = self.watermark.deliver(offset);
        self.plain.deliver(offset);
        if settled {
            self.watermark.pass(ticket);
            self.plain.settle(self.tickets.len());
        } else {
            self.watermark.open(ticket);
        }
        self.tickets.push(ticket);
        let foreign = self.other.deliver(offset);
        self.other.open(foreign);
        self.foreign.push(foreign);
    }

    fn settle(&mut self, number: usize) -> bool {
        let (before, held) = (self.watermark.position(), self.plain.holds());
        let settled = self.watermark.settle(self.tickets[number]);
        assert_eq!(settled, self.plain.settle(number));
        if settled {
            assert!(
                self.watermark.position() >= before,
                "a settlement moved the position down"
            );
        } else {
            assert_eq!(
                self.watermark.position(),
                before,
                "a late settlement moved the position"
            );
            assert_eq!(self.plain.holds(), held);
        }
        settled
    }

    fn check(&mut self) {
        let position = self.watermark.position();
        assert_eq!(position, self.plain.position());
        let (covered, blocking) = self.plain.bounds();
        assert!(
            position >= covered,
            "{position:?} is below {covered:?}, all of which is settled"
        );
        assert!(
            position.is_none_or(|position| position <= blocking),
            "{position:?} covers {blocking}"
        );
        assert_eq!(self.watermark.blocking(), self.plain.blocking());
        assert_eq!(self.watermark.span(), self.plain.span());
        assert_eq!(self.watermark.late(), self.plain.late());
        for (ticket, holds) in self.tickets.iter().zip(self.plain.holds()) {
            assert_eq!(self.watermark.holds(*ticket), holds, "{ticket:?}");
        }
        for ticket in &self.foreign {
            assert!(!self.watermark.holds(*ticket), "{ticket:?}");
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_position_is_what_a_list_of_all_deliveries_says(
        epoch in 0..3_u64,
        events in prop::collection::vec(event(), 1..64),
    ) {
        let mut trial = Trial::new(epoch);
        for event in &events {
            trial.apply(event);
            trial.check();
        }
        for number in trial.plain.unsettled() {
            assert!(trial.settle(number));
            trial.check();
        }
        assert_eq!(trial.watermark.position(), trial.plain.last().map(|last| last + 1));
        assert_eq!(trial.watermark.span(), 0);
    }
}
