//! Start-up: everything that is wrong, at once, with the remedy.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::time::Duration;

use ruststream::broker::{Broker, Delivery, Destination, SubscribeRequest};
use ruststream::memory::{MemoryBroker, MemoryPublisher, MemorySubscription};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{Context, Error, ErrorKind, Handler, Problem, Requirements};

struct Nothing;

impl Handler for Nothing {
    async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, _cx: Context<'m>) -> Outcome {
        Outcome::Ack
    }
}

struct Rates;

struct NeedsRates;

impl Handler for NeedsRates {
    async fn call<'m, D: Delivery>(&'m self, _delivery: &'m D, cx: Context<'m>) -> Outcome {
        assert!(cx.state::<Rates>().is_some());
        Outcome::Ack
    }

    fn requires(&self, requirements: &mut Requirements) {
        requirements.state::<Rates>();
    }
}

#[tokio::test]
async fn every_misconfiguration_is_reported_at_once_in_mount_order() {
    let app = RustStream::new("billing")
        .state(7_u32)
        .state(8_u32)
        .broker(MemoryBroker::new(), |memory| {
            memory
                .mount(Subscriber::new("orders", NeedsRates).name("bill"))
                .mount(Subscriber::new("orders", Nothing).name("bill").concurrency(4))
                .mount(Subscriber::new("payments", Nothing).name("pay"))
        });
    let error = app.start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Startup);
    insta::assert_snapshot!(error, @r"
    the app cannot start, 8 problems
      - state u32: is given twice: wrap one of them in a type of its own
      - subscription bill: needs a state of type startup::Rates: add .state(..) with one to the app
      - subscription bill: is mounted twice: give one of them another name with .name(..)
      - subscription bill: concurrency is 4, but the order is one after another within a partition: add .ordering(ProcessingOrder::Key) or .ordering(ProcessingOrder::Unordered)
      - subscription bill: subscription bill consumes topic orders in group billing already: use another group
      - subscription bill: topic orders does not exist: create it with `create_topic`, or use `auto_create`
      - subscription bill: topic orders does not exist: create it with `create_topic`, or use `auto_create`
      - subscription pay: topic payments does not exist: create it with `create_topic`, or use `auto_create`
    ");
}

#[tokio::test]
async fn an_app_without_a_broker_or_a_subscriber_does_not_start() {
    let error = RustStream::new("billing").start().await.unwrap_err();
    insta::assert_snapshot!(error, @r"
    the app cannot start, 1 problem
      - app billing: has no broker: add .broker(..) with a subscriber
    ");
    let error = RustStream::new("billing")
        .broker(MemoryBroker::new(), |memory| memory)
        .start()
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @r"
    the app cannot start, 1 problem
      - memory broker: has no subscriber: mount one, or remove the broker
    ");
}

/// A broker that answers never.
struct Silent;

impl Broker for Silent {
    type Subscription = MemorySubscription;
    type Publisher = MemoryPublisher;

    fn describe(&self) -> String {
        "a silent broker".to_owned()
    }

    async fn subscribe(
        &self,
        _requests: Vec<SubscribeRequest>,
    ) -> Result<Vec<MemorySubscription>, Vec<Problem>> {
        std::future::pending().await
    }

    async fn open_publisher(&self, _: Vec<Destination>) -> Result<MemoryPublisher, Vec<Problem>> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn start_up_has_a_deadline_and_still_reports_everything() {
    let app = RustStream::new("billing")
        .startup_timeout(Duration::from_secs(3))
        .broker(Silent, |silent| {
            silent.mount(Subscriber::new("orders", NeedsRates))
        });
    let begun = tokio::time::Instant::now();
    let error = app.start().await.unwrap_err();
    insta::assert_snapshot!(error, @r"
    the app cannot start, 2 problems
      - subscription orders: needs a state of type startup::Rates: add .state(..) with one to the app
      - a silent broker: did not answer within the start-up deadline of 3s: check that it is reachable, or raise .startup_timeout(..)
    ");
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn a_failing_start_up_hook_ends_the_start_and_gives_the_group_back() {
    let broker = MemoryBroker::new().auto_create(2);
    let app = RustStream::new("billing")
        .on_startup(async || Err::<(), _>("no database"))
        .broker(MemoryBroker::new(), |memory| {
            memory.mount(Subscriber::new("orders", Nothing))
        });
    let error = TestApp::start_on(app, broker.clone()).await.unwrap_err();
    insta::assert_snapshot!(format!("{error:?}"), @r"
    a start-up hook failed, the app did not start
      caused by: no database
    ");
    assert!(broker.assignment("billing").is_empty());
}

#[tokio::test]
async fn hooks_run_around_the_service() -> Result<(), Error> {
    let (started, mut was_started) = tokio::sync::mpsc::channel(1);
    let (stopped, mut was_stopped) = tokio::sync::mpsc::channel(1);
    let app = RustStream::new("billing")
        .on_startup(async move || started.send(()).await)
        .on_shutdown(async move || stopped.send(()).await)
        .broker(MemoryBroker::new(), |memory| {
            memory.mount(Subscriber::new("orders", Nothing))
        });
    let t = TestApp::start(app).await?;
    assert_eq!(was_started.try_recv(), Ok(()));
    assert!(was_stopped.try_recv().is_err());
    t.stop().await?;
    assert_eq!(was_stopped.try_recv(), Ok(()));
    Ok(())
}
