//! `Lanes` between handlers that are woken from other threads and the task that polls them.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::lanes::Lanes;
use crate::model_of_three;

/// What a handler waits for. `done` is relaxed: that the handler sees it is up to the lanes.
struct Event {
    done: AtomicBool,
    /// Filled by the first poll, before any other thread exists.
    waker: Mutex<Option<Waker>>,
}

impl Event {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            done: AtomicBool::new(false),
            waker: Mutex::new(None),
        })
    }

    fn waker(&self) -> Waker {
        self.waker.lock().unwrap().clone().unwrap()
    }

    /// Happens on another thread.
    fn fire(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let (event, waker) = (Arc::clone(self), self.waker());
        thread::spawn(move || {
            event.done.store(true, Ordering::Relaxed);
            waker.wake();
        })
    }

    /// Wakes for nothing, on another thread.
    fn tease(&self) -> thread::JoinHandle<()> {
        let waker = self.waker();
        thread::spawn(move || waker.wake())
    }
}

struct Handler(Arc<Event>);

impl Future for Handler {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.done.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        self.0
            .waker
            .lock()
            .unwrap()
            .get_or_insert_with(|| cx.waker().clone());
        Poll::Pending
    }
}

type Calls = Lanes<Handler, usize>;

/// Starts a handler that waits.
fn start(lanes: &mut Calls, kept: usize) -> Arc<Event> {
    let event = Event::new();
    assert!(lanes.start(kept, || Handler(Arc::clone(&event))).is_pending());
    event
}

/// Waits until `count` handlers have finished, as `Driver::poll` does: registers, then looks until there is nothing more.
/// A wake-up that is lost leaves every thread asleep, and loom reports that.
fn finished(lanes: &mut Calls, count: usize) -> Vec<usize> {
    let mut finished = Vec::new();
    block_on(poll_fn(|cx| {
        lanes.register(cx.waker());
        while let Some((kept, ())) = lanes.next_finished() {
            finished.push(kept);
        }
        if finished.len() < count {
            return Poll::Pending;
        }
        Poll::Ready(())
    }));
    finished.sort_unstable();
    finished
}

#[test]
fn a_handler_woken_while_the_task_goes_to_sleep_is_polled() {
    loom::model(|| {
        let mut lanes = Calls::new(64);
        let thread = start(&mut lanes, 7).fire();
        assert_eq!(finished(&mut lanes, 1), [7]);
        thread.join().unwrap();
    });
}

#[test]
fn handlers_woken_at_once_from_two_threads_are_polled() {
    model_of_three(|| {
        let mut lanes = Calls::new(64);
        let threads = [0, 1]
            .map(|kept| start(&mut lanes, kept))
            .map(|event| event.fire());
        assert_eq!(finished(&mut lanes, 2), [0, 1]);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// The 65th lane has its bit in the next word, which is read after the task has registered, too.
#[test]
fn handlers_in_different_words_are_polled() {
    model_of_three(|| {
        let mut lanes = Calls::new(65);
        let events: Vec<_> = (0..65).map(|kept| start(&mut lanes, kept)).collect();
        let (first, last) = (events.first().unwrap().fire(), events.last().unwrap().fire());
        assert_eq!(finished(&mut lanes, 2), [0, 64]);
        first.join().unwrap();
        last.join().unwrap();
    });
}

#[test]
fn a_wake_for_nothing_beside_a_real_one_does_no_harm() {
    model_of_three(|| {
        let mut lanes = Calls::new(64);
        let event = start(&mut lanes, 7);
        let threads = [event.tease(), event.fire()];
        assert_eq!(finished(&mut lanes, 1), [7]);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A handler may keep its waker, and a lane outlives its handlers.
#[test]
fn a_late_wake_of_a_finished_handler_does_no_harm_to_the_next_in_its_lane() {
    model_of_three(|| {
        let mut lanes = Calls::new(64);
        let first = start(&mut lanes, 1);
        first.done.store(true, Ordering::Relaxed);
        first.waker().wake();
        assert_eq!(finished(&mut lanes, 1), [1]);
        let late = first.tease();
        let second = start(&mut lanes, 2).fire();
        assert_eq!(finished(&mut lanes, 1), [2]);
        late.join().unwrap();
        second.join().unwrap();
    });
}
