#![allow(
    clippy::unwrap_used,
    reason = "tests; clippy's exception does not reach helper functions"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::Wake;
use std::thread;

use futures_util::FutureExt;

use super::*;

const OFFSET: Landed = Landed {
    partition: 1,
    offset: 2,
    timestamp: 3,
};

fn acks(bound: usize) -> Arc<Acks<&'static str>> {
    Arc::new(Acks::new(bound, |_| {}))
}

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll(acks: &Acks<&'static str>, ticket: Ticket, bell: &Arc<Bell>) -> Poll<Result<Landed, &'static str>> {
    let waker = Waker::from(Arc::clone(bell));
    acks.poll(ticket, &Context::from_waker(&waker))
}

fn confirm(acks: &Acks<&'static str>, ticket: Ticket) {
    assert!(acks.acknowledge(ticket.opaque(), Ok(OFFSET)));
}

#[test]
fn a_receipt_that_waits_is_woken_once_and_resolves_once() {
    let (acks, bell) = (acks(2), Arc::new(Bell::default()));
    let ticket = acks.take(None, -1, 0).unwrap();
    assert!(poll(&acks, ticket, &bell).is_pending());
    confirm(&acks, ticket);
    assert_eq!(bell.rings(), 1);
    assert!(
        !acks.acknowledge(ticket.opaque(), Ok(OFFSET)),
        "there is a result already"
    );
    assert_eq!(poll(&acks, ticket, &bell), Poll::Ready(Ok(OFFSET)));
    assert!(
        !acks.acknowledge(ticket.opaque(), Ok(OFFSET)),
        "the ticket is used up"
    );
    assert_eq!(acks.unconfirmed(), 0);
}

#[test]
fn a_receipt_polled_before_the_dispatcher_hands_out_helps_itself() {
    let (acks, bell) = (acks(2), Arc::new(Bell::default()));
    let served = acks.serve();
    let tickets = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
    for ticket in tickets {
        confirm(&acks, ticket);
    }
    assert_eq!(acks.claim(tickets[0]), None, "on the stack");
    assert_eq!(poll(&acks, tickets[0], &bell), Poll::Ready(Ok(OFFSET)));
    assert_eq!(acks.claim(tickets[1]), Some(Ok(OFFSET)));
    assert_eq!(bell.rings(), 0);
    drop(served);
}

#[test]
fn the_dispatcher_is_woken_once_for_many_results() {
    let (acks, bell) = (acks(10), Arc::new(Bell::default()));
    let served = acks.serve();
    let waker = Waker::from(Arc::clone(&bell));
    let cx = Context::from_waker(&waker);
    assert!(served.poll(&cx).is_pending());
    let tickets: Vec<_> = (0..10).map(|_| acks.take(None, -1, 0).unwrap()).collect();
    for ticket in &tickets {
        confirm(&acks, *ticket);
    }
    assert_eq!(bell.rings(), 1);
    assert!(served.poll(&cx).is_pending());
    for ticket in tickets {
        assert_eq!(acks.claim(ticket), Some(Ok(OFFSET)));
    }
    assert_eq!(bell.rings(), 2, "after work it looks again before it sleeps");
    assert!(served.poll(&cx).is_pending());
    acks.end();
    assert_eq!(bell.rings(), 3);
    assert!(served.poll(&cx).is_ready());
}

#[test]
fn a_single_record_is_resolved_without_the_dispatcher() {
    let (acks, bell) = (acks(2), Arc::new(Bell::default()));
    let _served = acks.serve();
    let ticket = acks.take(None, -1, 0).unwrap();
    assert!(poll(&acks, ticket, &bell).is_pending());
    confirm(&acks, ticket);
    assert_eq!(bell.rings(), 1);
    assert_eq!(acks.claim(ticket), Some(Ok(OFFSET)));
}

#[test]
fn without_a_dispatcher_results_find_their_receipts() {
    let (acks, bell) = (acks(4), Arc::new(Bell::default()));
    let tickets = [
        acks.take(None, -1, 0).unwrap(),
        acks.take(None, -1, 0).unwrap(),
        acks.take(None, -1, 0).unwrap(),
    ];
    let served = acks.serve();
    confirm(&acks, tickets[0]);
    assert!(poll(&acks, tickets[1], &bell).is_pending());
    let before_its_end = acks.take(None, -1, 0).unwrap();
    confirm(&acks, before_its_end);
    drop(served);
    assert_eq!(
        acks.claim(before_its_end),
        Some(Ok(OFFSET)),
        "handed out at its end"
    );
    assert_eq!(acks.claim(tickets[0]), Some(Ok(OFFSET)));
    confirm(&acks, tickets[1]);
    assert_eq!(bell.rings(), 1);
    assert_eq!(acks.claim(tickets[1]), Some(Ok(OFFSET)));
    confirm(&acks, tickets[2]);
    assert_eq!(acks.claim(tickets[2]), Some(Ok(OFFSET)));
}

#[test]
fn a_dropped_receipt_frees_its_place_whoever_comes_second() {
    let acks = acks(1);
    for dropped_first in [true, false].repeat(2_000) {
        let ticket = acks.take(None, -1, 0).expect("room");
        if dropped_first {
            acks.forget(ticket);
            confirm(&acks, ticket);
        } else {
            confirm(&acks, ticket);
            acks.forget(ticket);
        }
    }
    assert!(acks.places.missing().is_empty());
    assert_eq!(acks.unconfirmed(), 0);
}

#[test]
fn a_failure_reaches_its_receipt_or_is_counted_as_unseen() {
    let acks = acks(3);
    let [seen, early, late] = [(); 3].map(|()| acks.take(None, -1, 0).unwrap());
    acks.forget(early);
    for (ticket, failure) in [(seen, "seen"), (early, "early"), (late, "late")] {
        assert!(acks.acknowledge(ticket.opaque(), Err(failure)));
    }
    acks.forget(late);
    assert_eq!(acks.claim(seen), Some(Err("seen")));
    let unseen = acks.take_unseen();
    assert_eq!((unseen.count, unseen.first), (2, Some("early")));
    assert_eq!(acks.take_unseen().count, 0);
    assert!(acks.failures.lock().unwrap().is_empty());
}

#[test]
fn what_never_came_is_failed_and_nothing_else() {
    let acks = acks(3);
    let [confirmed, lost, refused] = [(); 3].map(|()| acks.take(None, -1, 0).unwrap());
    confirm(&acks, confirmed);
    acks.give_back(refused);
    assert_eq!(acks.fail_missing(|| "lost"), 1);
    assert_eq!(acks.claim(confirmed), Some(Ok(OFFSET)));
    assert_eq!(acks.claim(lost), Some(Err("lost")));
    assert_eq!(acks.unconfirmed(), 0);
}

#[test]
fn the_bound_counts_unconfirmed_records_not_receipts() {
    let (acks, bell) = (acks(2), Arc::new(Bell::default()));
    let mut kept = Vec::new();
    for _ in 0..5_000 {
        let ticket = acks.take(None, -1, 0).unwrap();
        confirm(&acks, ticket);
        kept.push(ticket);
    }
    let [one, _] = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
    assert_eq!(acks.take(None, -1, 0), None);
    let line = acks.join_line();
    acks.wait_for_room(&Waker::from(Arc::clone(&bell)));
    confirm(&acks, one);
    assert_eq!(bell.rings(), 1, "whoever waits is woken");
    assert!(acks.take(None, -1, 0).is_some());
    drop(line);
    assert!(
        kept.into_iter()
            .all(|ticket| acks.claim(ticket) == Some(Ok(OFFSET)))
    );
}

/// Looks, when woken, how many records are unconfirmed.
struct Looker {
    acks: Arc<Acks<&'static str>>,
    seen: AtomicU64,
}

impl Wake for Looker {
    fn wake(self: Arc<Self>) {
        self.seen.store(self.acks.unconfirmed() as u64, Ordering::Relaxed);
    }
}

#[test]
fn whoever_is_woken_finds_the_room_of_their_record() {
    let acks = acks(3);
    let served = acks.serve();
    for count in 1..=3 {
        let tickets: Vec<_> = (0..count).map(|_| acks.take(None, -1, 0).unwrap()).collect();
        let looker = Arc::new(Looker {
            acks: Arc::clone(&acks),
            seen: AtomicU64::new(u64::MAX),
        });
        let waker = Waker::from(Arc::clone(&looker));
        assert!(acks.poll(tickets[0], &Context::from_waker(&waker)).is_pending());
        for ticket in &tickets {
            confirm(&acks, *ticket);
        }
        acks.drain();
        assert_eq!(looker.seen.load(Ordering::Relaxed), 0);
        assert!(tickets.into_iter().all(|ticket| acks.claim(ticket).is_some()));
    }
    drop(served);
}

/// Threads that confirm, beside threads that send, wait, or drop receipts: each receipt resolves, with its own result.
#[test]
fn results_of_many_threads_reach_their_receipts() {
    const EACH: i64 = 20_000;
    let acks = acks(64);
    let (sender, receiver) = sync_channel::<(Ticket, i64)>(64);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| confirm_all(&acks, &receiver));
            let (acks, sender) = (&acks, sender.clone());
            scope.spawn(move || send_all(acks, EACH, &sender));
        }
        drop(sender);
        // A dispatcher that comes and goes.
        for _ in 0..200 {
            let served = acks.serve();
            let _ = poll_fn(|cx| served.poll(cx)).now_or_never();
            thread::yield_now();
        }
    });
    assert_eq!(acks.unconfirmed(), 0);
    assert!(acks.places.missing().is_empty());
    // Of each sender, every 21st record failed without a receipt.
    assert_eq!(acks.take_unseen().count, 2 * (EACH as u64).div_ceil(21));
}

fn result_of(offset: i64) -> Result<Landed, &'static str> {
    if offset % 7 == 0 {
        Err("seventh")
    } else {
        Ok(Landed { offset, ..OFFSET })
    }
}

fn confirm_all(acks: &Acks<&'static str>, sent: &Mutex<Receiver<(Ticket, i64)>>) {
    let next = || sent.lock().unwrap().recv();
    while let Ok((ticket, offset)) = next() {
        assert!(acks.acknowledge(ticket.opaque(), result_of(offset)));
    }
}

fn send_all(acks: &Acks<&'static str>, count: i64, sent: &SyncSender<(Ticket, i64)>) {
    for offset in 0..count {
        let ticket = loop {
            if let Some(ticket) = acks.take(None, -1, 0) {
                break ticket;
            }
            acks.drain();
            thread::yield_now();
        };
        sent.send((ticket, offset)).unwrap();
        if offset % 3 == 0 {
            acks.forget(ticket);
        } else {
            assert_eq!(block_on(|cx| acks.poll(ticket, cx)), result_of(offset));
        }
    }
}

/// Blocks this thread until ready.
fn block_on<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match poll(&Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Sends a record for a sender.
fn send(acks: &Acks<&'static str>, sender: u32, name: u32) -> Ticket {
    acks.take(Some(Addressee { stack: sender, name }), -1, 0).unwrap()
}

fn results(acks: &Acks<&'static str>, sender: u32) -> Vec<(u32, Result<(), &'static str>)> {
    let mut results = Vec::new();
    acks.take_results(sender, &mut results);
    results.reverse();
    results
}

#[test]
fn a_sender_takes_its_results_by_name_oldest_first_and_no_others() {
    let acks = acks(4);
    let [one, other] = [acks.open_sender().unwrap(), acks.open_sender().unwrap()];
    let tickets = [
        send(&acks, one, 7),
        send(&acks, other, 7),
        send(&acks, one, 8),
        send(&acks, one, 9),
    ];
    assert!(acks.take(None, -1, 0).is_none());
    for ticket in tickets.iter().rev() {
        let result = if *ticket == tickets[2] {
            Err("no")
        } else {
            Ok(OFFSET)
        };
        assert!(acks.acknowledge(ticket.opaque(), result));
        assert!(!acks.acknowledge(ticket.opaque(), Ok(OFFSET)), "a second result");
    }
    assert_eq!(results(&acks, one), [(9, Ok(())), (8, Err("no")), (7, Ok(()))]);
    assert_eq!(results(&acks, one), []);
    assert_eq!(acks.unconfirmed(), 1);
    assert_eq!(results(&acks, other), [(7, Ok(()))]);
    assert_eq!(acks.unconfirmed(), 0);
    assert!(
        !acks.acknowledge(tickets[0].opaque(), Ok(OFFSET)),
        "an old ticket"
    );
}

#[test]
fn a_sender_is_woken_once_until_it_has_taken_its_results() {
    let (acks, bell) = (acks(4), Arc::new(Bell::default()));
    let sender = acks.open_sender().unwrap();
    let tickets = [1, 2, 3].map(|name| send(&acks, sender, name));
    let waker = Waker::from(Arc::clone(&bell));
    let cx = Context::from_waker(&waker);
    assert!(acks.poll_sender(sender, &cx).is_pending());
    confirm(&acks, tickets[0]);
    confirm(&acks, tickets[1]);
    assert_eq!(bell.rings(), 1);
    assert!(acks.poll_sender(sender, &cx).is_ready());
    assert_eq!(results(&acks, sender).len(), 2);
    assert!(acks.poll_sender(sender, &cx).is_pending());
    confirm(&acks, tickets[2]);
    assert_eq!(bell.rings(), 2);
}

#[test]
fn a_sender_that_is_gone_leaves_no_place_and_no_room_behind_and_its_number_is_used_again() {
    let acks = acks(3);
    let sender = acks.open_sender().unwrap();
    let tickets = [1, 2, 3].map(|name| send(&acks, sender, name));
    confirm(&acks, tickets[0]);
    acks.close_sender(sender, 3);
    assert_eq!(acks.unconfirmed(), 2);
    confirm(&acks, tickets[1]);
    let next = acks.open_sender().unwrap();
    assert_ne!(next, sender, "a result is still to come");
    assert!(acks.acknowledge(tickets[2].opaque(), Err("lost")));
    assert_eq!(acks.unconfirmed(), 0);
    let unseen = acks.take_unseen();
    assert_eq!((unseen.count, unseen.first), (1, Some("lost")));
    assert_eq!(acks.open_sender(), Some(sender));
    let again = send(&acks, sender, 4);
    confirm(&acks, again);
    assert_eq!(results(&acks, sender), [(4, Ok(()))]);
    acks.close_sender(sender, 0);
    assert_eq!(acks.open_sender(), Some(sender));
}

#[test]
fn who_waits_for_room_does_not_wait_for_a_sender_that_does_not_look() {
    let (acks, bell) = (acks(2), Arc::new(Bell::default()));
    let sender = acks.open_sender().unwrap();
    let [early, late] = [1, 2].map(|name| send(&acks, sender, name));
    confirm(&acks, early);
    assert!(
        acks.take(None, -1, 0).is_none(),
        "its room is given back when it is taken"
    );
    let in_line = acks.join_line();
    acks.land_all();
    assert!(acks.take(None, -1, 0).is_some());
    acks.wait_for_room(&Waker::from(Arc::clone(&bell)));
    assert!(acks.take(None, -1, 0).is_none());
    confirm(&acks, late);
    assert_eq!(bell.rings(), 1);
    assert!(acks.take(None, -1, 0).is_some());
    drop(in_line);
    assert_eq!(results(&acks, sender).len(), 2);
    assert_eq!(acks.unconfirmed(), 2, "no room was given back twice");
}

/// Sends `names` and has them confirmed by a thread of the client's.
fn send_and_confirm(acks: &Arc<Acks<&'static str>>, sender: u32, names: Vec<u32>) -> thread::JoinHandle<()> {
    let tickets: Vec<Ticket> = names.into_iter().map(|name| send(acks, sender, name)).collect();
    let acks = Arc::clone(acks);
    thread::spawn(move || tickets.into_iter().for_each(|ticket| confirm(&acks, ticket)))
}

#[test]
fn results_reach_their_senders_from_many_threads() {
    const ROUNDS: u32 = 300;
    const EACH: u32 = 8;
    let acks = acks(3 * EACH as usize);
    let work = |acks: Arc<Acks<&'static str>>| {
        let sender = acks.open_sender().unwrap();
        for round in 0..ROUNDS {
            let names: Vec<u32> = (round * EACH..(round + 1) * EACH).collect();
            let client = send_and_confirm(&acks, sender, names.clone());
            let mut found = Vec::new();
            while found.len() < names.len() {
                found.extend(results(&acks, sender).into_iter().map(|(name, _)| name));
            }
            assert_eq!(found, names);
            client.join().unwrap();
        }
        acks.close_sender(sender, 0);
    };
    let senders = [(); 3].map(|()| {
        let acks = Arc::clone(&acks);
        thread::spawn(move || work(acks))
    });
    for sender in senders {
        sender.join().unwrap();
    }
    assert_eq!(acks.unconfirmed(), 0);
}

#[test]
fn senders_leave_an_eighth_of_the_room_to_those_who_stand_in_line() {
    let acks = acks(16);
    let sender = acks.open_sender().unwrap();
    let addressee = Some(Addressee {
        stack: sender,
        name: 0,
    });
    let in_line = acks.join_line();
    let sent = (0..100)
        .take_while(|_| acks.take(addressee, -1, 0).is_some())
        .count();
    assert_eq!(sent, 14);
    assert!(acks.take(None, -1, 0).is_some(), "the line has room");
    drop(in_line);
    assert!(acks.take(addressee, -1, 0).is_some(), "nobody stands in line");
    assert!(acks.take(addressee, -1, 0).is_none());
}
