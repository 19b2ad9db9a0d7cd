//! The main rules, by example.

use std::time::{Duration, Instant};

use super::ledger::retry_after;
use crate::broker::Commit;
use crate::settlement::{Job, Limits, Scheduler, Verdict, Watermark};
use crate::subscription::ProcessingOrder;

/// A watermark with these offsets delivered and open, and their tickets.
macro_rules! opened {
    ($($offset:expr),*) => {{
        let mut watermark = Watermark::new(1);
        let tickets = [$($offset),*].map(|offset| {
            let ticket = watermark.deliver(offset);
            watermark.open(ticket);
            ticket
        });
        (watermark, tickets)
    }};
}

#[test]
fn what_settles_in_order_moves_the_position_and_keeps_nothing() {
    let mut watermark = Watermark::new(1);
    for offset in [0, 1, 2, 40] {
        let ticket = watermark.deliver(offset);
        watermark.pass(ticket);
        assert_eq!(watermark.take(), Some(offset + 1));
        assert_eq!(watermark.take(), None);
        assert_eq!(watermark.span(), 0);
    }
}

#[test]
fn a_gap_holds_nothing_up() {
    let (mut watermark, [fifth, ninth, last]) = opened!(5, 9, 1_000);
    assert!(watermark.settle(ninth));
    assert_eq!(watermark.take(), None);
    assert!(watermark.settle(fifth));
    assert_eq!(watermark.take(), Some(1_000));
    assert!(watermark.settle(last));
    assert_eq!(watermark.take(), Some(1_001));
}

#[test]
fn a_redelivery_below_the_position_takes_it_down() {
    let mut watermark = Watermark::new(1);
    for offset in 0..10 {
        let ticket = watermark.deliver(offset);
        watermark.pass(ticket);
    }
    assert_eq!(watermark.take(), Some(10));
    let again = watermark.deliver(4);
    watermark.open(again);
    assert_eq!(watermark.take(), Some(4));
    assert_eq!(watermark.blocking(), Some(4));
    assert!(watermark.settle(again));
    assert_eq!(watermark.take(), Some(5));
}

#[test]
fn a_ticket_from_before_a_redelivery_settles_nothing() {
    let (mut watermark, [kept, old]) = opened!(3, 4);
    let again = watermark.deliver(4);
    watermark.open(again);
    assert!(!watermark.settle(old));
    assert_eq!(watermark.late(), 1);
    assert!(watermark.settle(kept), "below the redelivery nothing changed");
    assert_eq!(watermark.take(), Some(4));
    assert!(watermark.settle(again));
    assert_eq!(watermark.take(), Some(5));
}

#[test]
fn a_ticket_of_another_assignment_settles_nothing() {
    let (mut watermark, [_]) = opened!(3);
    let other = Watermark::new(2).deliver(3);
    assert!(!watermark.settle(other));
    assert_eq!(watermark.late(), 1);
    assert_eq!(watermark.blocking(), Some(3));
}

#[test]
fn a_second_settlement_moves_nothing_and_counts_as_late() {
    let (mut watermark, [_, second]) = opened!(0, 1);
    assert!(watermark.settle(second));
    assert!(!watermark.settle(second));
    assert_eq!(watermark.late(), 1);
    assert_eq!(watermark.take(), None);
}

fn scheduler(ordering: ProcessingOrder, commit: Commit) -> Scheduler<()> {
    Scheduler::new(
        Limits {
            ordering,
            concurrency: 3,
            backlog: 2,
            span: 4,
            window: 2,
            commit,
        },
        1,
    )
}

fn by_key() -> Scheduler<()> {
    scheduler(ProcessingOrder::Key, Commit::Tracked)
}

const A: Option<u64> = Some(1);
const B: Option<u64> = Some(2);

/// Delivers, and opens what may start.
fn deliver(scheduler: &mut Scheduler<()>, offset: i64, group: Option<u64>) -> Option<Job<()>> {
    let job = scheduler.deliver(offset, group, ())?;
    scheduler.open(&job.turn);
    Some(job)
}

#[test]
fn in_partition_order_a_retry_holds_the_partition() {
    let mut scheduler = scheduler(ProcessingOrder::Partition, Commit::Tracked);
    let now = Instant::now();
    let job = deliver(&mut scheduler, 0, None).unwrap();
    assert!(!scheduler.admits());
    scheduler.complete(job, &retry_after(10), || now);
    assert!(!scheduler.admits());
    let due = now + Duration::from_millis(10);
    assert_eq!(scheduler.next_due(), Some(due));
    let again = scheduler.next(|| due).unwrap();
    assert_eq!(again.turn.attempt, 2);
    scheduler.complete(again, &Verdict::Settle, || due);
    assert!(scheduler.admits());
    assert_eq!(scheduler.take_position(), Some(1));
}

#[test]
fn in_key_order_a_retry_holds_its_key_and_lets_others_pass() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let first = deliver(&mut scheduler, 0, A).unwrap();
    scheduler.complete(first, &retry_after(10), || now);
    assert!(deliver(&mut scheduler, 1, A).is_none());
    let other = scheduler.deliver(2, B, ()).unwrap();
    scheduler.pass(other.turn.ticket);
    assert!(scheduler.next(|| now).is_none());

    let due = now + Duration::from_millis(10);
    let again = scheduler.next(|| due).unwrap();
    assert_eq!((again.turn.ticket.offset, again.turn.attempt), (0, 2));
    assert!(scheduler.next(|| due).is_none(), "1 waits for 0");
    scheduler.complete(again, &Verdict::Settle, || due);
    assert_eq!(scheduler.take_position(), Some(1));
    let second = scheduler.next(|| due).unwrap();
    assert_eq!((second.turn.ticket.offset, second.turn.attempt), (1, 1));
    scheduler.complete(second, &Verdict::Settle, || due);
    assert_eq!(scheduler.take_position(), Some(3));
    assert_eq!((scheduler.held(), scheduler.busy_groups()), (0, 0));
}

#[test]
fn null_keys_wait_for_nothing() {
    let mut scheduler = by_key();
    for offset in 0..3 {
        assert!(scheduler.admits());
        assert!(deliver(&mut scheduler, offset, None).is_some());
    }
    assert!(!scheduler.admits(), "every handler place is taken");
}

#[test]
fn a_due_retry_goes_first_then_what_became_free_first() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let [a, b, failed] =
        [(0, A), (1, B), (2, None)].map(|(offset, group)| deliver(&mut scheduler, offset, group).unwrap());
    for (offset, group) in [(3, A), (4, B)] {
        assert!(deliver(&mut scheduler, offset, group).is_none());
    }
    scheduler.complete(b, &Verdict::Settle, || now);
    scheduler.complete(a, &Verdict::Settle, || now);
    scheduler.complete(failed, &retry_after(10), || now);
    let due = now + Duration::from_millis(10);
    let order = [(); 3].map(|()| scheduler.next(|| due).unwrap().turn.ticket.offset);
    assert_eq!(order, [2, 4, 3]);
}

#[test]
fn a_full_backlog_stops_intake() {
    let mut scheduler = by_key();
    let _running = deliver(&mut scheduler, 0, A);
    assert!(deliver(&mut scheduler, 1, A).is_none());
    assert!(scheduler.admits());
    assert!(deliver(&mut scheduler, 2, A).is_none());
    assert!(!scheduler.admits());
}

#[test]
fn a_full_span_stops_intake_until_what_blocks_it_settles() {
    let mut scheduler = by_key();
    let blocking = deliver(&mut scheduler, 0, A).unwrap();
    for offset in 1..4 {
        assert!(scheduler.admits());
        let job = scheduler.deliver(offset, B, ()).unwrap();
        scheduler.pass(job.turn.ticket);
    }
    assert!(!scheduler.admits());
    let named = scheduler.blocking().unwrap();
    assert_eq!((named.offset, named.span), (0, 4));
    scheduler.complete(blocking, &Verdict::Settle, Instant::now);
    assert!(scheduler.admits());
    assert_eq!(scheduler.take_position(), Some(4));
}

#[test]
fn a_drain_forgets_retries_at_once_and_lets_what_runs_finish() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let running = deliver(&mut scheduler, 0, A).unwrap();
    let failed = deliver(&mut scheduler, 1, B).unwrap();
    scheduler.complete(failed, &retry_after(0), || now);
    assert!(deliver(&mut scheduler, 2, A).is_none());
    scheduler.drain();
    assert!(!scheduler.admits());
    assert_eq!(scheduler.next_due(), None);
    assert!(!scheduler.is_idle());
    scheduler.complete(running, &Verdict::Settle, || now);
    assert!(scheduler.next(|| now + Duration::from_secs(1)).is_none());
    assert!(scheduler.is_idle());
    assert_eq!(
        scheduler.take_position(),
        Some(1),
        "what was forgotten is not covered"
    );
}

#[test]
fn a_retry_that_is_asked_for_during_a_drain_settles_nothing() {
    let mut scheduler = by_key();
    let job = deliver(&mut scheduler, 0, A).unwrap();
    scheduler.drain();
    scheduler.complete(job, &retry_after(10), Instant::now);
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.next_due(), None);
    assert_eq!(scheduler.take_position(), None);
}

#[test]
fn a_stop_settles_nothing_and_starts_nothing() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let stopping = deliver(&mut scheduler, 0, A).unwrap();
    let running = deliver(&mut scheduler, 1, B).unwrap();
    assert!(deliver(&mut scheduler, 2, B).is_none());
    scheduler.complete(stopping, &Verdict::Stop, || now);
    assert!(!scheduler.admits());
    scheduler.complete(running, &retry_after(0), || now);
    assert!(scheduler.next(|| now + Duration::from_secs(1)).is_none());
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.take_position(), None);
}

#[test]
fn a_retry_of_what_was_delivered_again_is_left_to_the_newer_copy() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let old = deliver(&mut scheduler, 0, A).unwrap();
    assert!(
        deliver(&mut scheduler, 0, A).is_none(),
        "the copy waits for its key"
    );
    scheduler.complete(old, &retry_after(10), || now);
    let newer = scheduler.next(|| now).unwrap();
    assert_eq!(newer.turn.attempt, 1);
    scheduler.complete(newer, &Verdict::Settle, || now);
    assert_eq!(scheduler.take_position(), Some(1));
    assert_eq!((scheduler.held(), scheduler.busy_groups()), (0, 0));
}

#[test]
fn with_auto_commit_the_position_passes_what_was_handed_over_and_nothing_else() {
    let mut scheduler = scheduler(ProcessingOrder::Key, Commit::Auto);
    let now = Instant::now();
    let first = deliver(&mut scheduler, 0, A).unwrap();
    assert_eq!(scheduler.take_position(), Some(1));
    assert!(deliver(&mut scheduler, 1, A).is_none());
    let _other = deliver(&mut scheduler, 2, B).unwrap();
    assert_eq!(
        scheduler.take_position(),
        None,
        "1 was not handed over, so 2 is not covered either"
    );
    scheduler.complete(first, &Verdict::Settle, || now);
    assert!(scheduler.next(|| now).is_some());
    assert_eq!(scheduler.take_position(), Some(3));
}

#[test]
fn a_retry_without_a_wait_is_not_due_within_the_same_turn() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let job = deliver(&mut scheduler, 0, A).unwrap();
    scheduler.complete(job, &Verdict::RetryAfter(Duration::ZERO), || now);
    assert!(scheduler.next(|| now).is_none());
    let due = scheduler.next_due().unwrap();
    assert!(scheduler.next(|| due).is_some());
}

#[test]
fn a_wait_longer_than_the_clock_goes_is_long_and_no_panic() {
    let mut scheduler = by_key();
    let now = Instant::now();
    let job = deliver(&mut scheduler, 0, A).unwrap();
    scheduler.complete(job, &Verdict::RetryAfter(Duration::MAX), || now);
    assert!(scheduler.next_due().unwrap() > now + Duration::from_secs(86_400));
}
