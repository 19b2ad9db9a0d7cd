//! The loop of one partition: the hot path of the framework.

use std::any::Any;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{self, Poll};

use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::Counters;
use super::lanes::Lanes;
use crate::app::Stopping;
use crate::broker::{Delivery, End, Partition};
use crate::handler::{Context, Scope, States};
use crate::settlement::{Job, Limits, Reason, Scheduler, Turn, Verdict};
use crate::subscription::Settings;
use crate::{BoxError, Error, ErrorKind, Failure, Handler, Outcome};

/// What all partitions of one subscription share.
pub(crate) struct Serving<H> {
    pub(crate) name: Arc<str>,
    pub(crate) handler: Arc<H>,
    pub(crate) settings: Settings,
    pub(crate) states: Arc<States>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stopping: Stopping,
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

/// Serves one partition until its assignment ends or the subscription stops, then gives it back.
pub(crate) async fn serve<P: Partition, H: Handler>(partition: P, serving: Arc<Serving<H>>) -> PartitionEnd {
    let drain = CancellationToken::new();
    let scope = Scope {
        subscription: Arc::clone(&serving.name),
        states: Arc::clone(&serving.states),
        shutdown: drain.clone(),
    };
    let call = |delivery, number| attempt(&*serving.handler, &scope, number, delivery);
    let mut driver = Driver::new(partition, &serving, drain, call);
    poll_fn(|cx| driver.poll(cx)).await
}

/// How one call of a handler ended.
enum Ended<D> {
    Acked,
    /// Any other outcome, with the delivery. Boxed, so that what every message hands over is a pointer.
    Otherwise(Box<(D, Outcome)>),
}

/// One call of the handler. It owns the delivery and lends it, so that a panic cannot take it away.
async fn attempt<D: Delivery, H: Handler>(handler: &H, scope: &Scope, attempt: u32, delivery: D) -> Ended<D> {
    let outcome = {
        let mut call = pin!(handler.call(&delivery, Context::new(scope, attempt)));
        if tracing::enabled!(tracing::Level::DEBUG) {
            let span = span(&delivery, scope, attempt);
            poll_fn(|cx| {
                let _entered = span.enter();
                poll_caught(call.as_mut(), cx)
            })
            .await
        } else {
            poll_fn(|cx| poll_caught(call.as_mut(), cx)).await
        }
    };
    match outcome {
        Outcome::Ack => Ended::Acked,
        outcome => Ended::Otherwise(Box::new((delivery, outcome))),
    }
}

/// The one place where a handler's panic is caught.
#[inline]
fn poll_caught(call: Pin<&mut impl Future<Output = Outcome>>, cx: &mut task::Context<'_>) -> Poll<Outcome> {
    catch_unwind(AssertUnwindSafe(|| call.poll(cx))).unwrap_or_else(|panic| panicked(&*panic))
}

#[cold]
fn span(delivery: &impl Delivery, scope: &Scope, attempt: u32) -> tracing::Span {
    tracing::debug_span!(
        "handle",
        subscription = &*scope.subscription,
        topic = delivery.topic(),
        partition = delivery.partition(),
        offset = delivery.offset(),
        attempt,
    )
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Poll<Outcome> {
    Poll::Ready(Outcome::Failed(Failure::panic(panic)))
}

/// The state of the loop, between polls of its task.
struct Driver<'a, P: Partition, M, F> {
    partition: P,
    batch: VecDeque<P::Delivery>,
    scheduler: Scheduler<P::Delivery>,
    lanes: Lanes<F, Turn>,
    /// Makes the future of one call: delivery, number of the attempt.
    call: M,
    name: &'a str,
    settings: &'a Settings,
    counters: &'a Counters,
    stopping: &'a Stopping,
    /// Tells running handlers that the partition is to drain.
    drain: CancellationToken,
    /// Set once the partition drains: by when.
    drain_by: Option<Instant>,
    /// Set while it drains for a rebalance: the app's stop, which may come to an earlier deadline.
    app_stops: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    lost: bool,
    stopped: Option<Error>,
    timer: Pin<Box<Sleep>>,
    jitter: RandomState,
    received: u64,
    settled: u64,
}

/// Differs for every assignment in this process, so that no ticket of one settles anything in another.
static EPOCH: AtomicU64 = AtomicU64::new(1);

impl<'a, P, M, F> Driver<'a, P, M, F>
where
    P: Partition,
    M: Fn(P::Delivery, u32) -> F,
    F: Future<Output = Ended<P::Delivery>>,
{
    fn new<H>(partition: P, serving: &'a Serving<H>, drain: CancellationToken, call: M) -> Self {
        let settings = &serving.settings;
        let limits = Limits {
            ordering: settings.ordering,
            concurrency: settings.concurrency,
            backlog: BACKLOG,
            span: SPAN,
            commit: partition.commit(),
        };
        Self {
            partition,
            batch: VecDeque::with_capacity(BATCH),
            scheduler: Scheduler::new(limits, EPOCH.fetch_add(1, Ordering::Relaxed)),
            lanes: Lanes::new(settings.concurrency),
            call,
            name: &serving.name,
            settings,
            counters: &serving.counters,
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
        }
    }

    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<PartitionEnd> {
        self.lanes.register(cx.waker());
        loop {
            if let Poll::Ready(end) = self.partition.poll_end(cx) {
                self.end(end);
            }
            self.poll_app_stops(cx);
            self.poll_woken();
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
            if self.poll_timer(cx).is_pending() {
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
            if let Poll::Ready(ended) = self.lanes.start(turn, || (self.call)(delivery, turn.attempt)) {
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
    fn start(&mut self, delivery: P::Delivery) {
        let offset = delivery.offset();
        let job = if self.scheduler.needs_key() {
            let group = delivery.key().map(|key| self.scheduler.group(key));
            self.scheduler.deliver(offset, group, delivery)
        } else {
            self.scheduler.deliver(offset, None, delivery)
        };
        let Some(Job { turn, delivery }) = job else { return };
        match self.lanes.start(turn, || (self.call)(delivery, turn.attempt)) {
            Poll::Ready(Ended::Acked) => {
                self.scheduler.pass(turn.ticket);
                self.settled += 1;
            }
            Poll::Pending => self.scheduler.open(&turn),
            Poll::Ready(ended) => {
                self.scheduler.open(&turn);
                self.complete(turn, ended);
            }
        }
    }

    /// Ends an open job by its outcome.
    #[inline]
    fn complete(&mut self, turn: Turn, ended: Ended<P::Delivery>) {
        match ended {
            Ended::Acked => {
                self.settled += 1;
                self.scheduler.settle(&turn);
            }
            Ended::Otherwise(rest) => {
                let (delivery, outcome) = *rest;
                self.follow_policy(Job { turn, delivery }, outcome);
            }
        }
    }

    /// Ends an open job that was not acknowledged.
    #[cold]
    fn follow_policy(&mut self, job: Job<P::Delivery>, outcome: Outcome) {
        let Turn { ticket, attempt, .. } = job.turn;
        let random = self.jitter.hash_one((ticket.offset, attempt));
        if matches!(outcome, Outcome::Failed(_)) {
            Counters::add(&self.counters.failed, 1);
        }
        let (verdict, reason) = Verdict::of(outcome, attempt, &self.settings.retry, random);
        self.report(&job.turn, &verdict, reason);
        self.scheduler.complete(job, &verdict, now);
    }

    /// Says what happened to a delivery that was not acknowledged.
    #[cold]
    fn report(&mut self, turn: &Turn, verdict: &Verdict, reason: Option<Reason>) {
        let (name, offset, attempt) = (self.name, turn.ticket.offset, turn.attempt);
        let (topic, partition) = (self.partition.topic(), self.partition.index());
        match verdict {
            Verdict::Settle => {
                Counters::add(&self.counters.skipped, 1);
                self.settled += 1;
                tracing::info!(subscription = name, topic, partition, offset, "skipped");
            }
            Verdict::RetryAfter(wait) => {
                Counters::add(&self.counters.retried, 1);
                let error = reason.map(Reason::into_source);
                tracing::warn!(
                    subscription = name,
                    topic,
                    partition,
                    offset,
                    attempt,
                    ?wait,
                    ?error,
                    "will try again"
                );
            }
            Verdict::Stop => {
                let reason = reason.unwrap_or(Reason::Asked);
                let error = stop_error(
                    name,
                    &format!("{topic}/{partition} offset {offset}"),
                    attempt,
                    reason,
                );
                self.stop(error);
            }
        }
    }

    #[cold]
    fn stop(&mut self, error: Error) {
        tracing::error!(subscription = self.name, %error, "stops");
        if self.stopped.is_none() {
            self.stopped = Some(error);
        }
        if self.drain_by.is_none() {
            self.begin_drain(Instant::now() + self.settings.drain_timeout);
        }
    }

    /// Stores the position and adds to the shared counters, once a turn.
    fn flush(&mut self) {
        if !self.lost
            && let Some(position) = self.scheduler.take_position()
            && self.partition.store(position).is_err()
        {
            // Normal when an assignment ends: nothing was moved, the next owner sees the records again.
            Counters::add(&self.counters.late, 1);
        }
        Counters::add(&self.counters.received, std::mem::take(&mut self.received));
        Counters::add(&self.counters.settled, std::mem::take(&mut self.settled));
    }

    /// The loop ends once nothing runs, or the drain deadline passed: then what runs is cancelled, unsettled.
    fn finish(&mut self) -> Option<PartitionEnd> {
        let by = self.drain_by?;
        if !self.scheduler.is_idle() {
            if Instant::now() < by {
                return None;
            }
            let unfinished = self.scheduler.running();
            let (name, partition, blocking) = (self.name, self.partition.index(), self.scheduler.blocking());
            tracing::warn!(
                subscription = name,
                partition,
                unfinished,
                ?blocking,
                "handlers were cancelled, unsettled"
            );
            Counters::add(&self.counters.unfinished, unfinished as u64);
            self.lanes.cancel();
        }
        Counters::add(&self.counters.late, self.scheduler.late());
        Some(PartitionEnd {
            stopped: self.stopped.take(),
        })
    }

    /// Ready when a retry is due or the drain deadline passed; otherwise the task is woken then.
    fn poll_timer(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let retry = self.scheduler.next_due().map(Instant::from_std);
        let Some(next) = [retry, self.drain_by].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        if self.timer.deadline() != next {
            self.timer.as_mut().reset(next);
        }
        self.timer.as_mut().poll(cx)
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cold]
fn stop_error(name: &str, at: &str, attempt: u32, reason: Reason) -> Error {
    let why = match &reason {
        Reason::Asked => "its handler asked for it".to_owned(),
        Reason::Exhausted => format!("its handler asked for a retry and all {attempt} attempts are spent"),
        Reason::Failed(failure) => match failure.kind() {
            crate::FailureKind::Panic => "its handler panicked".to_owned(),
            crate::FailureKind::Undecodable => "the delivery could not be decoded".to_owned(),
            crate::FailureKind::Permanent => "its handler failed for good".to_owned(),
            crate::FailureKind::Transient if attempt == 1 => {
                "its handler failed, and is not tried again".to_owned()
            }
            crate::FailureKind::Transient => format!("its handler failed {attempt} times"),
        },
    };
    let error = Error::new(
        ErrorKind::Stopped,
        format!(
            "subscription {name} stopped at {at}: {why}; the record is not committed and comes again: \
             fix the cause and restart, or return Outcome::Skip for it"
        ),
    );
    match reason {
        Reason::Failed(failure) => error.with_source(failure.into_error()),
        Reason::Asked | Reason::Exhausted => error,
    }
}

impl Reason {
    fn into_source(self) -> BoxError {
        match self {
            Self::Failed(failure) => failure.into_error(),
            Self::Asked | Self::Exhausted => "the handler asked for it".into(),
        }
    }
}
