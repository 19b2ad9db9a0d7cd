//! `Acks` between the client's threads, which acknowledge, and receipts, a dispatcher, and drops.
//!
//! Not modelled: waiting for room. Its two sides write one variable each and then read the other's, which `SeqCst` makes
//! safe, and loom has no total order of `SeqCst` accesses: it would report a wake-up that cannot be lost.

use std::future::poll_fn;

use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;

use crate::acks::Acks;
use crate::model_of_three;
use crate::places::{Addressee, Landed, Ticket};

type Results = Acks<&'static str>;

const LANDED: Landed = Landed {
    partition: 1,
    offset: 2,
    timestamp: 3,
};

fn acks() -> Arc<Results> {
    Arc::new(Acks::new(8, |_| {}))
}

fn spawn(acks: &Arc<Results>, run: impl FnOnce(&Results) + 'static) -> thread::JoinHandle<()> {
    let acks = Arc::clone(acks);
    thread::spawn(move || run(&acks))
}

fn confirm(acks: &Results, ticket: Ticket) {
    assert!(acks.acknowledge(ticket.opaque(), Ok(LANDED)));
}

/// A wake-up that is lost leaves every thread asleep, and loom reports that.
fn resolve(acks: &Results, ticket: Ticket) {
    assert_eq!(block_on(poll_fn(|cx| acks.poll(ticket, cx))), Ok(LANDED));
}

fn serve(acks: &Results) {
    let served = acks.serve();
    block_on(poll_fn(|cx| served.poll(cx)));
}

#[test]
fn a_record_on_its_own_reaches_its_receipt() {
    loom::model(|| {
        let acks = acks();
        let ticket = acks.take(None, -1, 0).unwrap();
        let client = spawn(&acks, move |acks| confirm(acks, ticket));
        resolve(&acks, ticket);
        client.join().unwrap();
        assert_eq!(acks.unconfirmed(), 0);
    });
}

#[test]
fn two_records_of_two_threads_reach_their_receipts_without_a_dispatcher() {
    model_of_three(|| {
        let acks = acks();
        let tickets = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
        let clients = tickets.map(|ticket| spawn(&acks, move |acks| confirm(acks, ticket)));
        for ticket in tickets {
            resolve(&acks, ticket);
        }
        for client in clients {
            client.join().unwrap();
        }
    });
}

/// The second record is on the stack while the first is, or finds it empty; the first receipt was dropped.
#[test]
fn a_record_reaches_its_receipt_through_the_dispatcher() {
    model_of_three(|| {
        let acks = acks();
        let [dropped, kept] = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
        acks.forget(dropped);
        let dispatcher = spawn(&acks, serve);
        let client = spawn(&acks, move |acks| {
            confirm(acks, dropped);
            confirm(acks, kept);
            acks.end();
        });
        resolve(&acks, kept);
        client.join().unwrap();
        dispatcher.join().unwrap();
        assert_eq!(acks.unconfirmed(), 0);
    });
}

/// Nobody polls a receipt: only the dispatcher at its end, or the client's thread after it, can hand the results out.
#[test]
fn a_dispatcher_that_ends_leaves_no_result_behind() {
    model_of_three(|| {
        let acks = acks();
        let tickets = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
        let served = acks.serve();
        let client = spawn(&acks, move |acks| {
            for ticket in tickets {
                confirm(acks, ticket);
            }
        });
        drop(served);
        client.join().unwrap();
        for ticket in tickets {
            assert_eq!(acks.claim(ticket), Some(Ok(LANDED)));
        }
    });
}

#[test]
fn the_place_of_a_dropped_receipt_is_freed_once() {
    loom::model(|| {
        let acks = acks();
        let ticket = acks.take(None, -1, 0).unwrap();
        let client = spawn(&acks, move |acks| {
            assert!(acks.acknowledge(ticket.opaque(), Err("lost")));
        });
        acks.forget(ticket);
        client.join().unwrap();
        assert_eq!(acks.take_unseen().count, 1);
        // The first chunk has two places: both can be had, each once.
        let again = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
        assert_ne!(again[0], again[1]);
        assert!(!acks.acknowledge(ticket.opaque(), Ok(LANDED)), "an old ticket");
    });
}

#[test]
fn a_place_that_is_used_again_wakes_its_new_receipt() {
    model_of_three(|| {
        let acks = acks();
        let first = acks.take(None, -1, 0).unwrap();
        let client = spawn(&acks, move |acks| confirm(acks, first));
        resolve(&acks, first);
        // The thread above may still be about to wake the place.
        let second = acks.take(None, -1, 0).unwrap();
        let other = spawn(&acks, move |acks| confirm(acks, second));
        resolve(&acks, second);
        client.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn places_are_taken_and_given_by_two_threads() {
    model_of_three(|| {
        let acks = acks();
        let turn = |acks: &Results| {
            let ticket = acks.take(None, -1, 0).unwrap();
            confirm(acks, ticket);
            assert_eq!(acks.claim(ticket), Some(Ok(LANDED)));
        };
        let other = spawn(&acks, turn);
        turn(&acks);
        other.join().unwrap();
        assert_eq!(acks.unconfirmed(), 0);
    });
}

fn sent_by(acks: &Results, sender: u32, name: u32) -> Ticket {
    acks.take(Some(Addressee { stack: sender, name }), -1, 0).unwrap()
}

/// A wake-up that is lost leaves the sender asleep.
#[test]
fn a_sender_gets_the_results_of_two_threads() {
    model_of_three(|| {
        let acks = acks();
        let sender = acks.open_sender().unwrap();
        let clients = [1, 2].map(|name| {
            let ticket = sent_by(&acks, sender, name);
            spawn(&acks, move |acks| confirm(acks, ticket))
        });
        let (mut results, mut seen) = (Vec::new(), 0);
        while seen < 2 {
            block_on(poll_fn(|cx| acks.poll_sender(sender, cx)));
            acks.take_results(sender, &mut results);
            seen += results.drain(..).count();
        }
        for client in clients {
            client.join().unwrap();
        }
        acks.land_all();
        assert_eq!(acks.unconfirmed(), 0);
        // The first chunk has two places: both were given back, each once.
        let again = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
        assert_ne!(again[0], again[1]);
    });
}

#[test]
fn a_sender_that_is_dropped_leaves_no_place_behind_and_its_number_is_used_once() {
    model_of_three(|| {
        let acks = acks();
        let sender = acks.open_sender().unwrap();
        let clients = [1, 2].map(|name| {
            let ticket = sent_by(&acks, sender, name);
            spawn(&acks, move |acks| confirm(acks, ticket))
        });
        acks.close_sender(sender, 2);
        for client in clients {
            client.join().unwrap();
        }
        assert_eq!(acks.unconfirmed(), 0);
        let again = [acks.take(None, -1, 0).unwrap(), acks.take(None, -1, 0).unwrap()];
        assert_ne!(again[0], again[1]);
        let senders = [acks.open_sender().unwrap(), acks.open_sender().unwrap()];
        assert_ne!(senders[0], senders[1]);
    });
}

/// The number comes back while a thread that pushed to it is still looking: it must not take what is not its own.
#[test]
fn a_late_look_at_a_sender_that_is_gone_takes_nothing_of_the_next_one() {
    model_of_three(|| {
        let acks = acks();
        let gone = acks.open_sender().unwrap();
        let ticket = sent_by(&acks, gone, 1);
        let client = spawn(&acks, move |acks| confirm(acks, ticket));
        acks.close_sender(gone, 1);
        let next = acks.open_sender().unwrap();
        let ticket = sent_by(&acks, next, 2);
        confirm(&acks, ticket);
        let mut results = Vec::new();
        acks.take_results(next, &mut results);
        assert_eq!(results.len(), 1);
        client.join().unwrap();
    });
}
