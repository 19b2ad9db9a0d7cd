//! The loop of one partition: the hot path of the framework.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{self, Poll};

use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::Counters;
use super::call::{Calls, Ended, Rest, one_call};
use super::joined::Joining;
use super::lanes::Lanes;
use super::words::{at, stop_error};
use crate::app::Stopping;
use crate::broker::{Broker, Delivery, End, Partition, Publisher, Receipts, Subscription};
use crate::handler::{Outlets, Scope, States};
use crate::settlement::{Job, Letters, Limits, Outbox, Reason, Scheduler, Turn, Verdict};
use crate::subscription::Settings;
use crate::{Error, Handler, Outcome, PublishError};

pub(crate) type PartitionOf<B> = <<B as Broker>::Subscription as Subscription>::Partition;
pub(super) type DeliveryOf<B> = <PartitionOf<B> as Partition>::Delivery;
pub(super) type ReceiptOf<B> = <<B as Broker>::Publisher as Publisher>::Receipt;

/// What all partitions of one subscription share.
pub(crate) struct Serving<B: Broker, H> {
    pub(crate) name: Arc<str>,
    pub(crate) handler: Arc<H>,
    pub(crate) settings: Settings,
    pub(crate) states: Arc<States>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stopping: Stopping,
    /// Where replies, dead letters and what handlers send go; `None` when there are none.
    pub(crate) publisher: Option<B::Publisher>,
    /// The handler sends records itself.
    pub(crate) sends: bool,
}

/// How a partition's loop ended.
#[derive(Debug)]
pub(crate) struct PartitionEnd {
    /// The error that stops the subscription, if one does.
    pub(crate) stopped: Option<Error>,
}

/// Deliveries taken from the broker at once. 64 spread the cost of the call to 1 % of a message's (librdkafka's batch
/// call: 651 instructions a message at 8, 598 at 64, 593 at 256), and bound what a drain throws away.
const BATCH: usize = 64;

/// Deliveries held behind a busy key or for a retry. Bounds memory: each keeps its payload alive.
const BACKLOG: usize = 1_024;

/// Deliveries between the position and the newest one. Bounds what a restart repeats, and memory: 24 bytes each.
const SPAN: usize = 16_384;

/// Deliveries that wait for their records to be confirmed: as many as a Kafka publisher has unconfirmed by default. What a
/// crash sends again; 1.4 million replies a second at a round trip of 3 ms.
const WINDOW: usize = 4_096;

/// Serves one partition until its assignment ends or the subscription stops, then gives it back.
pub(crate) async fn serve<B: Broker, H: Handler>(
    partition: PartitionOf<B>,
    serving: Arc<Serving<B, H>>,
) -> PartitionEnd {
    let drain = CancellationToken::new();
    let publisher = serving.publisher.clone().filter(|_| serving.sends);
    let joining = publisher.map(|publisher| Arc::new(Joining::new(publisher)));
    let scope = Scope {
        subscription: Arc::clone(&serving.name),
        states: Arc::clone(&serving.states),
        shutdown: drain.clone(),
        reply: serving.settings.reply.clone(),
        outlets: joining.clone().map(|joining| joining as Arc<dyn Outlets>),
    };
    let calls = Calls::<B, H> {
        handler: &serving.handler,
        scope: &scope,
        joining: joining.as_deref(),
        timeout: serving.settings.timeout,
    };
    let call = |delivery, attempt, number| one_call(&calls, delivery, attempt, number);
    let mut driver = Driver::new(partition, &serving, drain, call);
    poll_fn(|cx| driver.poll(cx)).await
}

/// The state of the loop, between polls of its task.
pub(super) struct Driver<'a, B: Broker, M, F> {
    pub(super) partition: PartitionOf<B>,
    batch: VecDeque<DeliveryOf<B>>,
    pub(super) scheduler: Scheduler<DeliveryOf<B>>,
    pub(super) outbox: Outbox<DeliveryOf<B>>,
    pub(super) sender: Option<<B::Publisher as Publisher>::Sender>,
    /// Of records that did not go by the sender: what handlers sent, and what stood in line.
    pub(super) receipts: Receipts<B::Publisher>,
    pub(super) letters: Letters,
    lanes: Lanes<F, Turn>,
    /// Makes the future of one call: delivery, number of the attempt, number of the call.
    call: M,
    /// How many calls were made; wraps.
    calls: u32,
    pub(super) name: &'a str,
    pub(super) settings: &'a Settings,
    pub(super) counters: &'a Counters,
    pub(super) publisher: Option<&'a B::Publisher>,
    /// A place in the publisher's line, for the record that waits first.
    pub(super) line: Option<Line<'a, B>>,
    stopping: &'a Stopping,
    /// Tells running handlers that the partition is to drain.
    drain: CancellationToken,
    /// Set once the partition drains: by when.
    pub(super) drain_by: Option<Instant>,
    /// Set while it drains for a rebalance: the app's stop, which may come to an earlier deadline.
    app_stops: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    lost: bool,
    stopped: Option<Error>,
    timer: Pin<Box<Sleep>>,
    pub(super) jitter: RandomState,
    /// Since the last turn: received; acknowledged or skipped; settled by a confirmation; replies confirmed.
    received: u64,
    pub(super) settled: u64,
    pub(super) confirmed: u64,
    pub(super) replied: u64,
    /// Handled before this turn, or with records to be confirmed: what dead letters are counted against.
    pub(super) handled: u64,
}

type Line<'a, B> = Pin<Box<dyn Future<Output = Result<ReceiptOf<B>, PublishError>> + Send + 'a>>;

/// Differs for every assignment in this process, so that no ticket of one settles anything in another.
static EPOCH: AtomicU64 = AtomicU64::new(1);

impl<'a, B, M, F> Driver<'a, B, M, F>
where
    B: Broker,
    M: Fn(DeliveryOf<B>, u32, u32) -> F,
    F: Future<Output = Ended<B>>,
{
    fn new<H>(
        partition: PartitionOf<B>,
        serving: &'a Serving<B, H>,
        drain: CancellationToken,
        call: M,
    ) -> Self {
        let settings = &serving.settings;
        let limits = Limits {
            ordering: settings.ordering,
            concurrency: settings.concurrency,
            backlog: BACKLOG,
            span: SPAN,
            window: WINDOW,
            commit: partition.commit(),
        };
        Self {
            partition,
            batch: VecDeque::with_capacity(BATCH),
            scheduler: Scheduler::new(limits, EPOCH.fetch_add(1, Ordering::Relaxed)),
            outbox: Outbox::new(),
            sender: serving.publisher.as_ref().map(Publisher::sender),
            receipts: Receipts::default(),
            letters: Letters::new(settings.dead_letter_limit),
            lanes: Lanes::new(settings.concurrency),
            call,
            calls: 0,
            name: &serving.name,
            settings,
            counters: &serving.counters,
            publisher: serving.publisher.as_ref(),
            line: None,
            stopping: &serving.stopping,
            drain,
            drain_by: None,
            app_stops: None,
            lost: false,
            stopped: None,
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            jitter: RandomState::new(),
            received: 0,
            settled: 0,
            confirmed: 0,
            replied: 0,
            handled: 0,
        }
    }

    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<PartitionEnd> {
        self.lanes.register(cx.waker());
        loop {
            if let Poll::Ready(end) = self.partition.poll_end(cx) {
                self.end(end);
            }
            self.poll_app_stops(cx);
            self.settle_confirmed();
            self.poll_woken();
            self.send_waiting(cx);
            self.start_held();
            let more = self.start_fresh(cx);
            self.flush();
            if let Some(end) = self.finish() {
                return Poll::Ready(end);
            }
            if more {
                // A whole batch is done: let the runtime's other tasks and timers have their turn.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.must_stand_in_line() {
                continue;
            }
            if self.poll_results(cx).is_pending() && self.poll_timer(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// The assignment ends: no new starts; what runs may finish by the deadline, unless the partition is lost.
    fn end(&mut self, end: End) {
        match end {
            End::Lost if !self.lost => {
                self.lost = true;
                self.begin_drain(Instant::now());
            }
            End::Revoked if self.drain_by.is_none() => {
                self.begin_drain(Instant::now() + self.settings.drain_timeout);
                self.app_stops = Some(Box::pin(self.stopping.begun()));
            }
            End::Closed if self.drain_by.is_none() => self.begin_drain(self.stopping.drain_by()),
            End::Lost | End::Revoked | End::Closed => {}
        }
    }

    /// A stop of the app shortens a drain that a rebalance began: its partition hears of no second end.
    fn poll_app_stops(&mut self, cx: &mut task::Context<'_>) {
        let Some(stops) = &mut self.app_stops else { return };
        if stops.as_mut().poll(cx).is_ready() {
            self.app_stops = None;
            let stop_by = self.stopping.drain_by();
            self.drain_by = self.drain_by.map(|by| by.min(stop_by));
        }
    }

    fn begin_drain(&mut self, by: Instant) {
        self.scheduler.drain();
        for _ in 0..self.outbox.drain() {
            self.scheduler.give_up();
        }
        self.batch.clear();
        self.drain_by = Some(by);
        self.drain.cancel();
    }

    /// Polls the open handlers that were woken.
    fn poll_woken(&mut self) {
        while let Some((turn, ended)) = self.lanes.next_finished() {
            self.complete(turn, ended);
        }
    }

    /// Starts what waited for a retry or behind its ordering group.
    fn start_held(&mut self) {
        // One look at the clock: what becomes due meanwhile has its turn later, so that this ends.
        let clock = std::cell::OnceCell::new();
        while let Some(job) = self.scheduler.next(|| *clock.get_or_init(now)) {
            let Job { turn, delivery } = job;
            let number = self.next_call();
            if let Poll::Ready(ended) = self
                .lanes
                .start(turn, || (self.call)(delivery, turn.attempt, number))
            {
                self.complete(turn, ended);
            }
        }
    }

    /// Starts new deliveries as far as the order allows. `true`: there may be more, after a turn of the runtime.
    #[inline]
    fn start_fresh(&mut self, cx: &mut task::Context<'_>) -> bool {
        let mut started = 0;
        while self.scheduler.admits() {
            let Some(delivery) = self.batch.pop_front() else {
                if started >= BATCH {
                    return true;
                }
                match self.partition.poll_batch(cx, BATCH, &mut self.batch) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(error)) => self.stop(error),
                    Poll::Pending => {}
                }
                return false;
            };
            started += 1;
            self.received += 1;
            self.start(delivery);
        }
        false
    }

    #[inline]
    fn start(&mut self, delivery: DeliveryOf<B>) {
        let offset = delivery.offset();
        let job = if self.scheduler.needs_key() {
            let group = delivery.key().map(|key| self.scheduler.group(key));
            self.scheduler.deliver(offset, group, delivery)
        } else {
            self.scheduler.deliver(offset, None, delivery)
        };
        let Some(Job { turn, delivery }) = job else { return };
        let number = self.next_call();
        let polled = self
            .lanes
            .start(turn, || (self.call)(delivery, turn.attempt, number));
        if matches!(polled, Poll::Ready(Ended::Acked)) {
            // It holds nothing. Dropping it would look for that: 20 instructions of 240.
            std::mem::forget(polled);
            self.scheduler.pass(turn.ticket);
            self.settled += 1;
            return;
        }
        match polled {
            Poll::Pending => self.scheduler.open(&turn),
            Poll::Ready(Ended::Replied(delivery, record)) => {
                self.scheduler.pass_unconfirmed(&turn);
                self.reply(turn, delivery, record);
            }
            Poll::Ready(ended) => {
                self.scheduler.open(&turn);
                self.complete(turn, ended);
            }
        }
    }

    #[inline]
    fn next_call(&mut self) -> u32 {
        self.calls = self.calls.wrapping_add(1);
        self.calls
    }

    /// Ends an open job by its outcome.
    #[inline]
    fn complete(&mut self, turn: Turn, ended: Ended<B>) {
        match ended {
            Ended::Acked => {
                self.settled += 1;
                self.scheduler.settle(&turn);
            }
            Ended::Replied(delivery, record) => {
                self.scheduler.finish_unconfirmed(&turn);
                self.reply(turn, delivery, record);
            }
            Ended::Otherwise(rest) => self.complete_otherwise(turn, *rest),
        }
    }

    #[cold]
    fn complete_otherwise(&mut self, turn: Turn, rest: Rest<B>) {
        let Rest {
            delivery,
            outcome,
            receipts,
        } = rest;
        match outcome {
            Outcome::Ack if receipts.is_empty() => {
                self.settled += 1;
                self.scheduler.settle(&turn);
            }
            Outcome::Reply(record) if receipts.is_empty() => {
                self.scheduler.finish_unconfirmed(&turn);
                self.reply(turn, delivery, record);
            }
            Outcome::Ack | Outcome::Skip if !receipts.is_empty() => {
                if matches!(outcome, Outcome::Skip) {
                    Counters::add(&self.counters.skipped, 1);
                }
                self.scheduler.finish_unconfirmed(&turn);
                self.join(turn, delivery, receipts, None);
            }
            Outcome::Reply(record) => {
                self.scheduler.finish_unconfirmed(&turn);
                self.join(turn, delivery, receipts, Some(record));
            }
            // What an attempt sent that is not the last one is not waited for: a failure of it is logged.
            outcome => self.follow_policy(Job { turn, delivery }, outcome),
        }
    }

    /// Ends an open job that was not acknowledged.
    #[cold]
    fn follow_policy(&mut self, job: Job<DeliveryOf<B>>, outcome: Outcome) {
        let Turn { ticket, attempt, .. } = job.turn;
        let random = self.jitter.hash_one((ticket.offset, attempt));
        if matches!(outcome, Outcome::Failed(_)) {
            Counters::add(&self.counters.failed, 1);
        }
        let has_dead_letters = self.settings.dead_letter.is_some();
        let (verdict, reason) = Verdict::of(outcome, attempt, &self.settings.retry, has_dead_letters, random);
        let turn = job.turn;
        match (self.scheduler.complete(job, &verdict, now), reason) {
            (Some(job), Some(reason)) => self.dead_letter(job, &reason),
            (_, reason) => self.report(turn, &verdict, reason),
        }
    }

    /// Says what happened to a delivery that was not acknowledged.
    #[cold]
    fn report(&mut self, turn: Turn, verdict: &Verdict, reason: Option<Reason>) {
        let (name, at, attempt) = (self.name, at(&self.partition, turn), turn.attempt);
        match verdict {
            Verdict::Settle => {
                Counters::add(&self.counters.skipped, 1);
                self.settled += 1;
                tracing::info!(subscription = name, at, "skipped");
            }
            Verdict::RetryAfter(wait) => {
                Counters::add(&self.counters.retried, 1);
                let error = reason.map(Reason::into_source);
                tracing::warn!(subscription = name, at, attempt, ?wait, ?error, "will try again");
            }
            Verdict::DeadLetter | Verdict::Stop => {
                let reason = reason.unwrap_or(Reason::Stop);
                self.stop(stop_error(name, &at, attempt, reason));
            }
        }
    }

    #[cold]
    pub(super) fn stop(&mut self, error: Error) {
        tracing::error!(subscription = self.name, %error, "stops");
        self.scheduler.stop();
        if self.stopped.is_none() {
            self.stopped = Some(error);
        }
        if self.drain_by.is_none() {
            self.begin_drain(Instant::now() + self.settings.drain_timeout);
        }
    }

    /// Stores the position and adds to the shared counters, once a turn.
    pub(super) fn flush(&mut self) {
        if !self.lost
            && let Some(position) = self.scheduler.take_position()
            && self.partition.store(position).is_err()
        {
            // Normal when an assignment ends: nothing was moved, the next owner sees the records again.
            Counters::add(&self.counters.late, 1);
        }
        let settled = std::mem::take(&mut self.settled);
        self.handled += settled;
        let confirmed = std::mem::take(&mut self.confirmed);
        Counters::add(&self.counters.received, std::mem::take(&mut self.received));
        Counters::add(&self.counters.settled, settled + confirmed);
        Counters::add(&self.counters.replied, std::mem::take(&mut self.replied));
    }

    /// The loop ends once nothing runs, or the drain deadline passed: then what runs is cancelled, unsettled.
    fn finish(&mut self) -> Option<PartitionEnd> {
        let by = self.drain_by?;
        if !self.scheduler.is_idle() {
            if Instant::now() < by {
                return None;
            }
            self.confirm_late();
        }
        if !self.scheduler.is_idle() {
            let unfinished = self.scheduler.running();
            let unconfirmed = self.scheduler.unconfirmed();
            let (name, partition, blocking) = (self.name, self.partition.index(), self.scheduler.blocking());
            tracing::warn!(
                subscription = name,
                partition,
                unfinished,
                unconfirmed,
                ?blocking,
                "handlers were cancelled, or their records not confirmed: unsettled"
            );
            Counters::add(&self.counters.unfinished, unfinished as u64);
            Counters::add(&self.counters.unconfirmed, unconfirmed as u64);
            self.lanes.cancel();
        }
        Counters::add(&self.counters.late, self.scheduler.late());
        Some(PartitionEnd {
            stopped: self.stopped.take(),
        })
    }

    /// Ready when a retry is due or the drain deadline passed; otherwise the task is woken then.
    fn poll_timer(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let [retry, again] =
            [self.scheduler.next_due(), self.outbox.next_due()].map(|due| due.map(Instant::from_std));
        let Some(next) = [retry, again, self.drain_by].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        if self.timer.deadline() != next {
            self.timer.as_mut().reset(next);
        }
        self.timer.as_mut().poll(cx)
    }
}

pub(super) fn now() -> std::time::Instant {
    Instant::now().into_std()
}
