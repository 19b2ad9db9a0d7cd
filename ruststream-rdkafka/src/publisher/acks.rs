//! The way of a result from the client's threads to its receipt.
//!
//! ```text
//! acknowledge (a thread of the client): write the result ─▶ push on a stack; was it empty? wake the dispatcher
//! drain (the dispatcher, a receipt that is polled, a sender that waits): take the whole stack
//!        ─▶ for each, oldest first: mark it done, wake its receipt (or free its place, if the receipt is gone)
//! ```
//!
//! A response of a broker confirms hundreds of records: so one wake from a foreign thread, and hundreds on the
//! dispatcher's own. When a single record is unconfirmed, or no dispatcher lives, the client's thread resolves it itself.
//!
//! A sender's records go another way, with one wake for each response and nothing for each record: their results wait on a
//! stack of their own until the sender takes them all.
//!
//! No code of librdkafka, no runtime, no unsafe: atomics in and out.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::places::{Addressee, DONE, FAILED, GONE, Landed, NIL, Place, Places, RAN, Ticket};
use super::stacks::Stacks;
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, AtomicWaker, Mutex, MutexGuard, Ordering};

/// The results of one client's records; `F` is a failure.
pub(crate) struct Acks<F> {
    pub(super) places: Places,
    /// Results of senders' records.
    pub(super) stacks: Stacks,
    /// Results that wait to be handed to their receipts: a stack of places.
    acked: AtomicU32,
    /// Drains that have begun and not ended.
    draining: AtomicUsize,
    /// A dispatcher lives.
    served: AtomicBool,
    dispatcher: AtomicWaker,
    /// How many records may be unconfirmed.
    bound: usize,
    unconfirmed: AtomicUsize,
    /// Senders that wait.
    waiting: AtomicUsize,
    /// The first of them.
    room: AtomicWaker,
    closed: AtomicBool,
    ended: AtomicBool,
    /// By place. Failures are rare: a lock is fine.
    failures: Mutex<HashMap<u32, F>>,
    unseen: Mutex<Unseen<F>>,
    on_unseen: fn(&F),
    /// Held by who forgets the results of a sender that is gone.
    pub(super) clearing: Mutex<()>,
}

/// Failures whose receipt was dropped.
#[derive(Debug)]
pub(crate) struct Unseen<F> {
    pub(crate) count: u64,
    pub(crate) first: Option<F>,
}

impl<F> Default for Unseen<F> {
    fn default() -> Self {
        Self {
            count: 0,
            first: None,
        }
    }
}

impl<F> Acks<F> {
    /// `bound` records may be unconfirmed; `on_unseen` hears of failures whose receipt was dropped.
    pub(crate) fn new(bound: usize, on_unseen: fn(&F)) -> Self {
        Self {
            places: Places::new(),
            stacks: Stacks::new(),
            acked: AtomicU32::new(NIL),
            draining: AtomicUsize::new(0),
            served: AtomicBool::new(false),
            dispatcher: AtomicWaker::new(),
            bound,
            unconfirmed: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            room: AtomicWaker::new(),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            failures: Mutex::new(HashMap::new()),
            unseen: Mutex::new(Unseen::default()),
            on_unseen,
            clearing: Mutex::new(()),
        }
    }

    // For whoever sends.

    /// Takes room for one record; `None` when there is none.
    ///
    /// The bound is taken by compare and swap. Adding first and taking back what was too much would be shorter, and
    /// would make a sender that was woken for room see none, with nobody left to wake it.
    ///
    /// `addressee` gets its result, or else a receipt. `partition` and `timestamp` are kept because the client cannot say
    /// them of a record that fails ([`noted`](Self::noted)).
    #[inline]
    pub(crate) fn take(
        &self,
        addressee: Option<Addressee>,
        partition: i32,
        timestamp: i64,
    ) -> Option<Ticket> {
        let mut unconfirmed = self.unconfirmed.load(Ordering::SeqCst);
        loop {
            if unconfirmed >= self.bound {
                return None;
            }
            match self.unconfirmed.compare_exchange_weak(
                unconfirmed,
                unconfirmed + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => break,
                Err(found) => unconfirmed = found,
            }
        }
        let Some((ticket, place)) = self.places.take() else {
            self.land(1);
            return None;
        };
        place.address(addressee);
        place.write(Landed {
            partition,
            offset: 0,
            timestamp,
        });
        Some(ticket)
    }

    /// Gives the room of a record back that the client refused.
    pub(crate) fn give_back(&self, ticket: Ticket) {
        self.free(ticket.index(), self.place(ticket));
        self.land(1);
    }

    /// Whether the result of a record has arrived: for one that the client refused *and* acknowledged.
    pub(crate) fn has_result(&self, ticket: Ticket) -> bool {
        self.place(ticket).flags() & RAN != 0
    }

    pub(crate) fn unconfirmed(&self) -> usize {
        self.unconfirmed.load(Ordering::SeqCst)
    }

    /// Whether senders wait: those who come now must not overtake them.
    #[inline]
    pub(crate) fn has_line(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Joins those who wait, until dropped.
    pub(crate) fn join_line(&self) -> InLine<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        InLine(&self.waiting)
    }

    /// Has `waker` woken when there may be room, or when the publisher is closed. Only the first of those who wait calls
    /// this; it must be counted in the line, and try again afterwards.
    pub(crate) fn wait_for_room(&self, waker: &Waker) {
        self.room.register(waker);
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.room.wake();
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    // For the client's threads.

    /// Takes the result of a record. `false`: there was one already, or there is no such record; nothing happened.
    ///
    /// Does not wait, but for the lock of failures.
    #[inline]
    pub(crate) fn acknowledge(&self, opaque: usize, result: Result<Landed, F>) -> bool {
        let ticket = Ticket::from_opaque(opaque);
        let index = ticket.index();
        let Some(place) = self.places.at(index) else {
            return false;
        };
        if !place.begin(ticket, if result.is_err() { FAILED } else { 0 }) {
            return false;
        }
        match result {
            Ok(landed) => place.write(landed),
            Err(failure) => {
                lock(&self.failures).insert(index, failure);
            }
        }
        if let Some(Addressee { stack, .. }) = place.addressee() {
            self.push_to_sender(stack, index, place);
            return true;
        }
        // A record on its own is resolved here: one wake instead of two, which is what a service notices that awaits each.
        if self.unconfirmed.load(Ordering::Relaxed) == 1 || !self.served.load(Ordering::Relaxed) {
            self.land(1);
            self.resolve(index, place);
        } else {
            self.push(index, place);
        }
        true
    }

    /// What was kept of a record when it was [taken](Self::take), whose result has not arrived.
    pub(crate) fn noted(&self, opaque: usize) -> Option<Landed> {
        let ticket = Ticket::from_opaque(opaque);
        Some(self.places.at(ticket.index())?.read())
    }

    /// Resolves every record whose result never came.
    pub(crate) fn fail_missing(&self, mut failure: impl FnMut() -> F) -> usize {
        let missing = self.places.missing();
        for ticket in &missing {
            self.acknowledge(ticket.opaque(), Err(failure()));
        }
        missing.len()
    }

    /// Puts a result on the stack, and wakes the dispatcher if it was empty.
    ///
    /// No result stays behind. Whoever finds the stack empty is responsible for all that follow until it is taken:
    /// - the dispatcher lives: it is woken, and drains;
    /// - it ends meanwhile: it clears `served` and then takes the stack ([`Served`]). Either the stack that it takes has
    ///   this result, or this thread pushed on what it left, and so sees `served` cleared.
    ///
    /// `tools/loom` tries the interleavings.
    #[inline]
    fn push(&self, index: u32, place: &Place) {
        let mut head = self.acked.load(Ordering::Relaxed);
        loop {
            place.next.store(head, Ordering::Relaxed);
            match self
                .acked
                .compare_exchange_weak(head, index, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(found) => head = found,
            }
        }
        if head == NIL {
            self.dispatcher.wake();
            if !self.served.load(Ordering::SeqCst) {
                self.drain();
            }
        }
    }

    // For whoever has a moment.

    /// Hands every result that waits to its receipt; returns how many. Anyone may call it, on any thread.
    pub(crate) fn drain(&self) -> usize {
        if self.acked.load(Ordering::SeqCst) == NIL {
            return 0;
        }
        self.drain_all()
    }

    fn drain_all(&self) -> usize {
        self.draining.fetch_add(1, Ordering::SeqCst);
        let (mut index, count) = self.reversed(self.acked.swap(NIL, Ordering::SeqCst));
        // Before a receipt is woken: whoever has seen all of theirs resolve finds the room that they took.
        if count > 0 {
            self.land(count);
        }
        while let Some(place) = self.places.at(index) {
            let next = place.next.load(Ordering::Relaxed); // before the place may be used again
            self.resolve(index, place);
            index = next;
        }
        self.draining.fetch_sub(1, Ordering::SeqCst);
        count
    }

    /// Whether somebody is about to hand results to receipts.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst) > 0
    }

    /// Turns the stack, which has the newest first, and counts.
    fn reversed(&self, mut index: u32) -> (u32, usize) {
        let (mut reversed, mut count) = (NIL, 0);
        while let Some(place) = self.places.at(index) {
            let next = place.next.load(Ordering::Relaxed);
            place.next.store(reversed, Ordering::Relaxed);
            reversed = index;
            index = next;
            count += 1;
        }
        (reversed, count)
    }

    /// Whoever comes second, the result or the drop of the receipt, frees the place.
    #[inline]
    fn resolve(&self, index: u32, place: &Place) {
        let before = place.set(DONE);
        if before & GONE == 0 {
            // The receipt may have freed the place by now, and another may use it: then that one is woken for nothing.
            place.waker.wake();
        } else {
            self.abandon(index, place, before);
        }
    }

    /// Records are not unconfirmed any more.
    #[inline]
    pub(super) fn land(&self, records: usize) {
        self.unconfirmed.fetch_sub(records, Ordering::SeqCst);
        self.wake_line();
    }

    #[inline]
    pub(super) fn wake_line(&self) {
        if self.has_line() {
            self.room.wake();
        }
    }

    fn free(&self, index: u32, place: &Place) {
        self.places.give(index, place);
        self.wake_line(); // it may be a place that the first one waits for
    }

    // For receipts.

    /// Takes the result if it is there; the ticket is used up then.
    #[inline]
    pub(crate) fn claim(&self, ticket: Ticket) -> Option<Result<Landed, F>> {
        let (index, place) = (ticket.index(), self.place(ticket));
        let flags = place.flags();
        if flags & DONE == 0 {
            return None;
        }
        let result = if flags & FAILED == 0 {
            Ok(place.read())
        } else {
            Err(self.failure(index))
        };
        self.free(index, place);
        Some(result)
    }

    /// Takes the result, or keeps the waker.
    ///
    /// No wake is lost: a result that is marked done after the last look here finds the waker that was registered before
    /// it; one on the stack has woken the dispatcher, or will be drained by the client's thread.
    #[inline]
    pub(crate) fn poll(&self, ticket: Ticket, cx: &Context<'_>) -> Poll<Result<Landed, F>> {
        if let Some(result) = self.claim(ticket) {
            return Poll::Ready(result);
        }
        self.drain();
        if let Some(result) = self.claim(ticket) {
            return Poll::Ready(result);
        }
        self.place(ticket).waker.register(cx.waker());
        match self.claim(ticket) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }

    /// Forgets the receipt of a record.
    pub(crate) fn forget(&self, ticket: Ticket) {
        let (index, place) = (ticket.index(), self.place(ticket));
        drop(place.waker.take());
        let before = place.set(GONE);
        if before & DONE != 0 {
            self.abandon(index, place, before);
        }
    }

    /// Frees the place of a result that nobody will read.
    fn abandon(&self, index: u32, place: &Place, flags: usize) {
        if flags & FAILED != 0 {
            self.forget_failure(self.failure(index));
        }
        self.free(index, place);
    }

    pub(crate) fn forget_failure(&self, failure: F) {
        (self.on_unseen)(&failure);
        let mut unseen = lock(&self.unseen);
        unseen.count += 1;
        unseen.first.get_or_insert(failure);
    }

    /// Failures whose receipt was dropped, since the last call.
    pub(crate) fn take_unseen(&self) -> Unseen<F> {
        std::mem::take(&mut *lock(&self.unseen))
    }

    pub(super) fn failure(&self, index: u32) -> F {
        lock(&self.failures)
            .remove(&index)
            .expect("a failure is kept before its place is marked, and taken by the one who frees the place")
    }

    fn place(&self, ticket: Ticket) -> &Place {
        self.places
            .at(ticket.index())
            .expect("tickets are made of places, and places stay")
    }

    // For the dispatcher.

    /// Makes results go through the dispatcher, until the value is dropped.
    pub(crate) fn serve(&self) -> Served<'_, F> {
        self.served.store(true, Ordering::SeqCst);
        Served(self)
    }

    /// Ends the dispatcher.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.dispatcher.wake();
    }
}

/// The dispatcher's life.
pub(crate) struct Served<'a, F>(&'a Acks<F>);

impl<F> Served<'_, F> {
    /// Drains; ready when the dispatcher should end.
    ///
    /// After work it looks again on its next turn before it sleeps: while results keep coming, no thread has to wake it.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let acks = self.0;
        if acks.drain() > 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        acks.dispatcher.register(cx.waker());
        if acks.drain() > 0 {
            cx.waker().wake_by_ref();
        }
        if acks.ended.load(Ordering::SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl<F> Drop for Served<'_, F> {
    fn drop(&mut self) {
        // First this, then the drain: see `Acks::push`.
        self.0.served.store(false, Ordering::SeqCst);
        self.0.drain_all();
    }
}

/// A place in the line of those who wait.
pub(crate) struct InLine<'a>(&'a AtomicUsize);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What is in there is whole after a panic elsewhere.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
#[path = "acks/tests.rs"] // said, because `tools/loom` takes this file in from elsewhere
mod tests;
