//! `#[subscriber]` functions, served: every form of payload, extractors, returns.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use ruststream::broker::Delivery;
use ruststream::memory::{MemoryBroker, MemoryRecord};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{BoxError, Context, ErrorKind, Failure, FromDelivery, Mounts};

/// What handlers saw.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

async fn start(mount: impl FnOnce(Mounts<MemoryBroker>) -> Mounts<MemoryBroker>) -> (TestApp, Seen) {
    let seen = Seen::default();
    let app = RustStream::new("test")
        .state(seen.clone())
        .broker(MemoryBroker::new(), mount);
    (
        TestApp::start_on(app, MemoryBroker::new().auto_create(1))
            .await
            .unwrap(),
        seen,
    )
}

#[derive(Debug, Deserialize)]
struct Order<'a> {
    id: u64,
    item: &'a str,
}

#[derive(Debug, Serialize, Deserialize)]
struct Owned {
    id: u64,
    item: String,
}

#[subscriber("orders")]
async fn by_value(order: Owned, State(seen): State<'_, Seen>) {
    seen.note(format!("{} {}", order.id, order.item));
}

#[subscriber("orders")]
async fn by_reference(order: &Owned, State(seen): State<'_, Seen>) {
    tokio::task::yield_now().await;
    seen.note(format!("{} {}", order.id, order.item));
}

#[subscriber("orders")]
async fn borrowed(order: Order<'_>, State(seen): State<'_, Seen>) {
    // Held across an await.
    tokio::task::yield_now().await;
    seen.note(format!("{} {}", order.id, order.item));
}

#[subscriber("orders")]
async fn raw(payload: &[u8], State(seen): State<'_, Seen>) {
    tokio::task::yield_now().await;
    seen.note(String::from_utf8_lossy(payload));
}

#[tokio::test]
async fn a_payload_comes_by_value_by_reference_borrowed_or_raw() -> Result<(), BoxError> {
    let (t, seen) = start(|memory| memory.mount(by_value)).await;
    t.publish(
        "orders",
        &Owned {
            id: 1,
            item: "tea".into(),
        },
    )?;
    t.settled().await;
    assert_eq!(seen.take(), ["1 tea"]);

    let (t, seen) = start(|memory| memory.mount(by_reference)).await;
    t.publish(
        "orders",
        &Owned {
            id: 1,
            item: "tea".into(),
        },
    )?;
    t.settled().await;
    assert_eq!(seen.take(), ["1 tea"]);

    let (t, seen) = start(|memory| memory.mount(borrowed)).await;
    t.publish(
        "orders",
        &Owned {
            id: 1,
            item: "tea".into(),
        },
    )?;
    t.settled().await;
    assert_eq!(seen.take(), ["1 tea"]);

    let (t, seen) = start(|memory| memory.mount(raw)).await;
    t.publish(
        "orders",
        &Owned {
            id: 1,
            item: "tea".into(),
        },
    )?;
    t.broker().publish(MemoryRecord::new("orders").payload(""))?;
    t.settled().await;
    assert_eq!(seen.take(), [r#"{"id":1,"item":"tea"}"#, ""]);
    Ok(())
}

#[subscriber("orders")]
async fn with_tombstones(order: Option<Owned>, State(seen): State<'_, Seen>) {
    seen.note(order.map_or("tombstone".to_owned(), |order| order.item));
}

#[subscriber("orders")]
async fn null_is_a_value(order: Option<serde_json::Value>, State(seen): State<'_, Seen>) {
    seen.note(format!("{order:?}"));
}

#[tokio::test]
async fn an_option_is_none_for_a_tombstone_and_json_null_is_a_value() -> Result<(), BoxError> {
    let (t, seen) = start(|memory| memory.mount(with_tombstones)).await;
    t.publish(
        "orders",
        &Owned {
            id: 1,
            item: "tea".into(),
        },
    )?;
    t.broker().publish(MemoryRecord::new("orders"))?;
    t.settled().await;
    assert_eq!(seen.take(), ["tea", "tombstone"]);

    let (t, seen) = start(|memory| memory.mount(null_is_a_value)).await;
    t.broker().publish(MemoryRecord::new("orders").payload("null"))?;
    t.broker().publish(MemoryRecord::new("orders"))?;
    t.settled().await;
    assert_eq!(seen.take(), ["Some(Null)", "None"]);
    Ok(())
}

#[tokio::test]
async fn what_does_not_decode_stops_with_the_reason_and_is_not_lost() -> Result<(), BoxError> {
    let (t, _) = start(|memory| memory.mount(by_value)).await;
    let broker = t.broker().clone();
    broker.publish(MemoryRecord::new("orders").payload(r#"{"id":"x"}"#))?;
    let error = t.stopped().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    insta::assert_snapshot!(format!("{error:?}"), @r#"
    subscription by_value stopped at orders/0 offset 0: the delivery could not be decoded; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it
      caused by: the payload is not JSON of handlers::Owned: invalid type: string "x", expected u64 at line 1 column 9
    "#);
    assert_eq!(broker.position("test", "orders", 0), None);

    let (t, _) = start(|memory| memory.mount(raw)).await;
    t.broker().publish(MemoryRecord::new("orders"))?;
    insta::assert_snapshot!(format!("{:?}", t.stopped().await.unwrap_err()), @r"
    subscription raw stopped at orders/0 offset 0: the delivery could not be decoded; the record is not committed and comes again: fix the cause and restart, or return Outcome::Skip for it
      caused by: the payload is null (a tombstone): take Option<_> to accept that
    ");
    Ok(())
}

#[tokio::test]
async fn json_that_is_not_utf8_does_not_decode_even_in_a_field_that_nobody_reads() -> Result<(), BoxError> {
    let (t, _) = start(|memory| memory.mount(by_value)).await;
    let payload = b"{\"id\":1,\"item\":\"tea\",\"note\":\"\xff\"}";
    t.broker().publish(MemoryRecord::new("orders").payload(payload))?;
    let error = format!("{:?}", t.stopped().await.unwrap_err());
    assert!(
        error.ends_with("caused by: the payload is not JSON: it is not UTF-8 from byte 29 on"),
        "{error}"
    );
    Ok(())
}

/// Written by a user.
struct Tenant<'m>(&'m str);

impl<'m> FromDelivery<'m> for Tenant<'m> {
    fn from_delivery<D: Delivery>(delivery: &'m D, _cx: Context<'m>) -> Result<Self, Failure> {
        let value = delivery.headers().get("tenant").flatten();
        let value = value.ok_or_else(|| Failure::undecodable("the header `tenant` is missing"))?;
        std::str::from_utf8(value)
            .map(Tenant)
            .map_err(Failure::undecodable)
    }
}

#[allow(clippy::too_many_arguments, reason = "every extractor there is")]
#[subscriber("orders", name = "everything")]
async fn extracts(
    _order: Owned,
    key: Key<&str>,
    headers: Headers<'_>,
    meta: Meta<'_>,
    Tenant(tenant): Tenant<'_>,
    shutdown: Shutdown,
    State(seen): State<'_, Seen>,
) -> Outcome {
    tokio::task::yield_now().await;
    if meta.attempt == 1 {
        return Outcome::Retry;
    }
    assert!(!shutdown.is_requested());
    assert!(meta.timestamp.is_some());
    let traces: Vec<_> = headers.all("trace").collect();
    let Meta {
        topic,
        partition,
        offset,
        attempt,
        ..
    } = meta;
    seen.note(format!(
        "{} {tenant} {traces:?} {topic}/{partition}@{offset} attempt {attempt}",
        key.0
    ));
    Outcome::Ack
}

#[tokio::test(start_paused = true)]
async fn extractors_see_the_delivery_and_attempts_count_per_offset() -> Result<(), BoxError> {
    let (t, seen) = start(|memory| memory.mount(extracts)).await;
    let record = || {
        MemoryRecord::new("orders")
            .key("ada")
            .payload(r#"{"id":1,"item":"tea"}"#)
            .header("trace", "a")
            .null_header("trace")
            .header("tenant", "acme")
    };
    t.broker().publish(record())?;
    t.broker().publish(record())?;
    t.settled().await;
    assert_eq!(
        seen.take(),
        [
            "ada acme [Some([97]), None] orders/0@0 attempt 2",
            "ada acme [Some([97]), None] orders/0@1 attempt 2",
        ]
    );
    assert_eq!(t.report().subscriptions[0].name, "everything");
    Ok(())
}

#[subscriber("orders")]
async fn fails(payload: &[u8]) -> Result<(), std::str::Utf8Error> {
    std::str::from_utf8(payload)?;
    Ok(())
}

#[subscriber("orders", retry = RetryPolicy::never())]
async fn fails_once(_payload: &[u8]) -> Result<Outcome, BoxError> {
    Err("no".into())
}

#[tokio::test(start_paused = true)]
async fn a_result_follows_the_policy_of_the_attribute() -> Result<(), BoxError> {
    let (t, _) = start(|memory| memory.mount(fails)).await;
    t.broker().publish(MemoryRecord::new("orders").payload("x"))?;
    t.settled().await;
    t.broker().publish(MemoryRecord::new("orders").payload([0xff]))?;
    let error = t.stopped().await.unwrap_err();
    assert!(
        error.to_string().contains("its handler failed 10 times"),
        "{error}"
    );

    let (t, _) = start(|memory| memory.mount(fails_once)).await;
    t.broker().publish(MemoryRecord::new("orders").payload("x"))?;
    let error = t.stopped().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("its handler failed, and is not tried again"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn one_handler_twice_needs_two_names_and_options_stand_on_the_function() -> Result<(), BoxError> {
    let (t, seen) = start(|memory| {
        memory
            .mount(raw.ordering(ProcessingOrder::Key).concurrency(4))
            .mount(raw.topic("returns").name("raw returns"))
    })
    .await;
    t.broker().publish(MemoryRecord::new("orders").payload("a"))?;
    t.settled().await;
    t.broker().publish(MemoryRecord::new("returns").payload("b"))?;
    t.settled().await;
    assert_eq!(seen.take(), ["a", "b"]);
    Ok(())
}

#[tokio::test]
async fn a_missing_state_is_a_start_up_error_that_names_type_and_handler() {
    let app = RustStream::new("test").broker(MemoryBroker::new().auto_create(1), |memory| {
        memory.mount(raw).mount(by_value)
    });
    let error = app.start().await.unwrap_err();
    let problems: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems[0],
        "subscription raw: needs a state of type handlers::Seen: add .state(..) with one to the app"
    );
    assert!(
        problems[1].starts_with("subscription by_value: needs a state"),
        "{problems:?}"
    );
}

#[tokio::test]
async fn the_body_stays_callable_in_a_unit_test() {
    let seen = Seen::default();
    raw::body(b"bytes", State(&seen)).await;
    assert_eq!(seen.take(), ["bytes"]);
}
