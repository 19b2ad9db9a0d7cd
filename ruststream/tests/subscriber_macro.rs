//! What `#[subscriber]` makes of a function, without an app around it. Dispatch is tested with the test kit.

use std::time::Duration;

use ruststream::{
    BoxError, DeadLetterLimit, Handler, IntoSubscriber, Key, Meta, Outcome, ProcessingOrder, Requirements,
    RetryPolicy, Shutdown, State, Subscriber, subscriber,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Order<'a> {
    id: u64,
    item: &'a str,
}

struct Rates {
    vat: f64,
}

struct Clients(Vec<&'static str>);

/// Bills an order.
#[subscriber("orders")]
async fn bill(order: Order<'_>, State(rates): State<'_, Rates>) -> Result<(), BoxError> {
    tokio::task::yield_now().await;
    if order.item.is_empty() || rates.vat < 0.0 {
        return Err(format!("order {} cannot be billed", order.id).into());
    }
    Ok(())
}

const AUDITED: &str = "orders.audited";

#[subscriber(
    AUDITED,
    name = "audit-trail",
    ordering = ProcessingOrder::Key,
    concurrency = 8,
    retry = RetryPolicy::attempts(5),
    timeout = Duration::from_secs(9),
    dead_letter = "orders.dlq",
    dead_letter_limit = DeadLetterLimit::none(),
    drain_timeout = Duration::from_secs(2),
)]
async fn audit(
    order: Option<&Order<'_>>,
    State(clients): State<'_, Clients>,
    State(rates): State<Rates>,
) -> Outcome {
    tokio::task::yield_now().await;
    match order {
        Some(order) if clients.0.contains(&order.item) && rates.vat > 0.0 => Outcome::Ack,
        _ => Outcome::Skip,
    }
}

#[subscriber("orders")]
async fn stateless(_: &[u8], _: Key<Option<&str>>, _: Meta<'_>, _: Shutdown) {}

#[tokio::test]
async fn the_function_itself_is_callable_in_a_unit_test() {
    let rates = Rates { vat: 0.2 };
    bill::body(Order { id: 1, item: "tea" }, State(&rates))
        .await
        .unwrap();
    let error = bill::body(Order { id: 2, item: "" }, State(&rates))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "order 2 cannot be billed");

    let order = Order { id: 3, item: "tea" };
    let clients = Clients(vec!["tea"]);
    assert!(matches!(
        audit::body(Some(&order), State(&clients), State(&rates)).await,
        Outcome::Ack
    ));
    assert!(matches!(
        audit::body(None, State(&clients), State(&rates)).await,
        Outcome::Skip
    ));
}

#[test]
fn a_subscriber_is_named_after_its_function_and_has_the_topic_of_the_attribute() {
    let text = format!("{:?}", bill());
    assert!(text.contains(r#"name: "bill", topic: "orders""#), "{text}");
}

#[test]
fn every_option_of_the_attribute_is_set() {
    let by_hand = Subscriber::new("orders.audited", audit {})
        .name("audit-trail")
        .ordering(ProcessingOrder::Key)
        .concurrency(8)
        .retry(RetryPolicy::attempts(5))
        .timeout(Duration::from_secs(9))
        .dead_letter("orders.dlq")
        .dead_letter_limit(DeadLetterLimit::none())
        .drain_timeout(Duration::from_secs(2));
    assert_eq!(format!("{:?}", audit()), format!("{by_hand:?}"));
}

#[subscriber("orders", reply = "echoes")]
async fn echo(order: u64) -> u64 {
    order
}

#[test]
fn a_reply_topic_is_set_by_the_attribute_and_on_the_function() {
    let by_hand = Subscriber::new("orders", echo {}).name("echo").reply("echoes");
    assert_eq!(format!("{:?}", echo()), format!("{by_hand:?}"));
    assert_eq!(
        format!("{:?}", echo.reply("elsewhere")),
        format!("{:?}", by_hand.reply("elsewhere"))
    );
}

#[test]
fn options_can_be_set_on_the_function_and_win_over_the_attribute() {
    let by_hand = audit().concurrency(2);
    assert_eq!(format!("{:?}", audit.concurrency(2)), format!("{by_hand:?}"));
    let _: Subscriber<bill> = bill.topic("orders.eu").into_subscriber();
}

#[test]
fn a_handler_names_the_states_that_it_needs() {
    fn names(name: impl FnOnce(&mut Requirements)) -> String {
        let mut requirements = Requirements::default();
        name(&mut requirements);
        format!("{requirements:?}")
    }
    assert_eq!(
        names(|needs| bill {}.requires(needs)),
        names(Requirements::state::<Rates>)
    );
    let both = |needs: &mut Requirements| {
        needs.state::<Clients>();
        needs.state::<Rates>();
    };
    assert_eq!(names(|needs| audit {}.requires(needs)), names(both));
    assert_eq!(names(|needs| stateless {}.requires(needs)), names(|_| ()));
}

#[test]
fn a_raw_identifier_is_named_without_its_prefix() {
    #[subscriber("orders")]
    async fn r#match(_: u64) {}

    let text = format!("{:?}", r#match());
    assert!(text.contains(r#"name: "match""#), "{text}");
}

#[test]
fn a_handler_costs_nothing_to_keep_and_to_copy() {
    fn check<H: Handler + Copy + std::fmt::Debug>(_: &Subscriber<H>) {
        assert_eq!(size_of::<H>(), 0);
    }
    check(&bill());
    check(&audit());
    check(&stateless());
}

#[test]
fn a_function_that_borrows_across_an_await_can_move_between_threads() {
    fn check<T: Send>(_: &T) {}
    let rates = Rates { vat: 0.2 };
    check(&bill::body(Order { id: 1, item: "tea" }, State(&rates)));
    check(&audit::body(None, State(&Clients(Vec::new())), State(&rates)));
}
