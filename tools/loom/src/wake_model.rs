//! `Wake` between a queue that calls back at its edge and a task that reads it, as librdkafka and `KafkaPartition` do.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};

use loom::future::block_on;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::model_of_three;
use crate::wake::Wake;

/// A queue like librdkafka's: the callback runs on the thread that enqueues, under the lock, when the queue was empty.
struct Queue {
    items: Mutex<usize>,
    wake: Wake,
}

impl Queue {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            items: Mutex::new(0),
            wake: Wake::new(),
        })
    }

    fn enqueue(&self) {
        let mut items = self.items.lock().unwrap();
        *items += 1;
        if *items == 1 {
            self.wake.poke();
        }
    }

    fn read(&self) -> usize {
        std::mem::take(&mut *self.items.lock().unwrap())
    }
}

/// Reads as `KafkaPartition::poll_batch` does: after a read that saw the queue empty, not before the flag is set.
struct Reader {
    queue: Arc<Queue>,
    seen_empty: bool,
}

impl Reader {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        loop {
            if self.seen_empty {
                ready!(self.queue.wake.poll_ready(cx));
            }
            let read = self.queue.read();
            self.seen_empty = true;
            if read > 0 {
                return Poll::Ready(read);
            }
        }
    }
}

/// Reads until `items` items have come. A wake-up that is lost leaves every thread asleep, and loom reports that.
fn read_all(queue: &Arc<Queue>, items: usize) {
    let mut reader = Reader {
        queue: Arc::clone(queue),
        seen_empty: false,
    };
    let mut read = 0;
    while read < items {
        read += block_on(poll_fn(|cx| reader.poll_read(cx)));
    }
    assert_eq!(read, items);
}

fn spawn(queue: &Arc<Queue>, run: impl FnOnce(&Queue) + 'static) -> thread::JoinHandle<()> {
    let queue = Arc::clone(queue);
    thread::spawn(move || run(&queue))
}

#[test]
fn an_item_that_comes_while_the_reader_goes_to_sleep_is_read() {
    loom::model(|| {
        let queue = Queue::new();
        let producer = spawn(&queue, Queue::enqueue);
        read_all(&queue, 1);
        producer.join().unwrap();
    });
}

#[test]
fn items_that_come_one_after_another_are_read() {
    loom::model(|| {
        let queue = Queue::new();
        let producer = spawn(&queue, |queue| {
            queue.enqueue();
            queue.enqueue();
        });
        read_all(&queue, 2);
        producer.join().unwrap();
    });
}

#[test]
fn items_that_come_at_once_from_two_threads_are_read() {
    model_of_three(|| {
        let queue = Queue::new();
        let producers = [spawn(&queue, Queue::enqueue), spawn(&queue, Queue::enqueue)];
        read_all(&queue, 2);
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

#[test]
fn a_tick_beside_an_edge_does_no_harm() {
    model_of_three(|| {
        let queue = Queue::new();
        let tick = spawn(&queue, |queue| queue.wake.poke());
        let producer = spawn(&queue, Queue::enqueue);
        read_all(&queue, 1);
        tick.join().unwrap();
        producer.join().unwrap();
    });
}

/// Without the queue's lock, which orders everything in the other models.
#[test]
fn what_came_before_a_poke_is_seen_after_it() {
    loom::model(|| {
        let shared = Arc::new((Wake::new(), AtomicU64::new(0)));
        let (wake, _) = &*shared;
        // The flag that every `Wake` starts with.
        assert!(
            wake.poll_ready(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        );
        let poker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(1, Ordering::Relaxed);
                shared.0.poke();
            })
        };
        block_on(poll_fn(|cx| shared.0.poll_ready(cx)));
        assert_eq!(shared.1.load(Ordering::Relaxed), 1);
        poker.join().unwrap();
    });
}
