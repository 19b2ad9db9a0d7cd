//! Random histories of a partition: the scheduler does what the ledger allows, all of it, and nothing else.

use proptest::prelude::*;
use proptest::sample::Index;

use super::config;
use super::driver::{Answer, Driver, Record};
use crate::broker::Commit;
use crate::settlement::Limits;
use crate::subscription::ProcessingOrder;

#[derive(Debug, Clone)]
enum Event {
    Turn,
    Publish(usize),
    Rewind(usize),
    Finish(Index, Answer),
    Advance(u64),
    /// The publisher takes so many more records.
    Room(usize),
    /// One of the records on the wire is confirmed, or fails.
    Resolve(Index, bool),
    End,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        24 => Just(Event::Turn),
        12 => (1..=4_usize).prop_map(Event::Publish),
        2 => (1..=5_usize).prop_map(Event::Rewind),
        16 => (any::<Index>(), answer()).prop_map(|(handler, answer)| Event::Finish(handler, answer)),
        8 => (0..=30_u64).prop_map(Event::Advance),
        8 => (1..=4_usize).prop_map(Event::Room),
        16 => (any::<Index>(), prop::bool::weighted(0.8)).prop_map(|(record, ok)| Event::Resolve(record, ok)),
        1 => Just(Event::End),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        // Few different waits, so that some are due at the same time.
        24 => prop::sample::select(vec![0, 10, 20]).prop_map(Answer::Retry),
        24 => Just(Answer::Ack),
        12 => Just(Answer::Skip),
        12 => Just(Answer::Reply),
        6 => (1..=2_usize).prop_map(Answer::Own),
        3 => Just(Answer::DeadLetter),
        1 => Just(Answer::Stop),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let gap = prop_oneof![4 => Just(1), 1 => 2..=50_i64];
    let key = prop_oneof![1 => Just(None), 4 => (0..3_u8).prop_map(Some)];
    let poll = || prop_oneof![1 => Just(Answer::Pending), 1 => answer()];
    // The offset is a gap until the log is put together.
    (gap, key, poll(), poll()).prop_map(|(offset, key, first, again)| Record {
        offset,
        key,
        polls: [first, again],
    })
}

fn log() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec(record(), 1..24).prop_map(|mut log| {
        let mut last = 0;
        for record in &mut log {
            last += record.offset;
            record.offset = last;
        }
        log
    })
}

fn limits(ordering: ProcessingOrder) -> impl Strategy<Value = Limits> {
    let commit = prop::sample::select(vec![Commit::Tracked, Commit::Auto]);
    let numbers = (1..=5_usize, 1..=4_usize, 1..=8_usize, 1..=4_usize);
    (numbers, commit).prop_map(move |((concurrency, backlog, span, window), commit)| Limits {
        ordering,
        concurrency,
        backlog,
        span,
        window,
        commit,
    })
}

/// What the broker has, and what happens.
#[derive(Debug, Clone)]
struct History {
    log: Vec<Record>,
    batch_size: usize,
    dead_letters: bool,
    events: Vec<Event>,
}

fn history() -> impl Strategy<Value = History> {
    let events = prop::collection::vec(event(), 1..64);
    (log(), 1..=4_usize, any::<bool>(), events).prop_map(|(log, batch_size, dead_letters, events)| History {
        log,
        batch_size,
        dead_letters,
        events,
    })
}

fn run(limits: Limits, history: History) {
    let History {
        log,
        batch_size,
        dead_letters,
        events,
    } = history;
    let mut driver = Driver::new(limits, log, batch_size, dead_letters);
    for event in events {
        match event {
            Event::Turn => driver.turn(),
            Event::Publish(records) => driver.publish(records),
            Event::Rewind(back) => driver.rewind(back),
            Event::Finish(handler, answer) => {
                let open = driver.open_handlers();
                if open > 0 {
                    driver.finish(handler.index(open), answer);
                }
            }
            Event::Advance(milliseconds) => driver.advance(milliseconds),
            Event::Room(records) => driver.give_room(records),
            Event::Resolve(record, ok) => {
                let on_the_wire = driver.on_the_wire();
                if on_the_wire > 0 {
                    driver.resolve(record.index(on_the_wire), ok);
                }
            }
            Event::End => driver.ask_for_the_end(),
        }
    }
    driver.run_to_the_end();
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn in_partition_order_one_delivery_at_a_time_is_with_its_handler_or_waits_for_a_retry(
        limits in limits(ProcessingOrder::Partition),
        history in history(),
    ) {
        run(limits, history);
    }

    #[test]
    fn in_key_order_a_delivery_waits_for_those_of_its_key_and_for_no_other(
        limits in limits(ProcessingOrder::Key),
        history in history(),
    ) {
        run(limits, history);
    }

    #[test]
    fn without_an_order_only_the_bounds_hold_a_delivery_back(
        limits in limits(ProcessingOrder::Unordered),
        history in history(),
    ) {
        run(limits, history);
    }
}
