//! The `#[subscriber]` attribute of `ruststream`. Use it through `ruststream`, which re-exports it.
#![forbid(unsafe_code)]

mod subscriber;

/// Makes an async function a subscriber of a topic: something that can be mounted in an app.
///
/// ```
/// use ruststream::{BoxError, IntoSubscriber, ProcessingOrder, State, subscriber};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Order<'a> { id: u64, item: &'a str, total: f64 }
///
/// struct Rates { vat: f64 }
///
/// #[subscriber("orders", ordering = ProcessingOrder::Key, concurrency = 16)]
/// async fn bill(order: Order<'_>, State(rates): State<'_, Rates>) -> Result<(), BoxError> {
///     println!("{} x {}: {}", order.id, order.item, order.total * (1.0 + rates.vat));
///     Ok(())
/// }
///
/// // What is mounted; options can be set here, too.
/// let subscriber = bill.name("billing");
/// # let _ = subscriber;
///
/// // In a unit test: the function itself.
/// let _ = bill::body(Order { id: 1, item: "tea", total: 5.0 }, State(&Rates { vat: 0.2 }));
/// ```
///
/// # Arguments of the attribute
///
/// The topic stands first: a string, or any expression that turns into a `String`. Then, in any order:
///
/// | argument | sets | default |
/// |---|---|---|
/// | `name = "billing"` | the subscription's name in errors, logs and reports | the function's name |
/// | `ordering = ProcessingOrder::Key` | which deliveries of a partition wait for which | one after another |
/// | `concurrency = 16` | how many handlers may be open at once in a partition | 1, or 16 with an ordering that allows it |
/// | `retry = RetryPolicy::attempts(5)` | when a failed delivery is tried again | 10 attempts with back-off |
/// | `timeout = Duration::from_secs(5)` | how long one call may take; then it is cancelled, and tried again | as long as it takes |
/// | `reply = "invoices"` | the topic that what the function returns goes to | none: the function returns no reply |
/// | `dead_letter = "orders.dlq"` | the topic for copies of deliveries that could not be handled | none: the app stops |
/// | `dead_letter_limit = DeadLetterLimit::default()` | how many dead letters are too many | 100 one after another, 500 of 1,000 |
/// | `drain_timeout = Duration::from_secs(2)` | how long a revoked partition may take to drain | 5 s |
/// | `crate = path` | where `ruststream` is to be found | `::ruststream` |
///
/// Values are expressions. Each option is a method of `IntoSubscriber`, which says more about it, and can be set on the
/// function instead: `bill.concurrency(16)`.
///
/// # Arguments of the function
///
/// The first one is the payload; its type says how it is read:
///
/// | payload | what it is |
/// |---|---|
/// | `Order`, `Order<'_>` | a value, decoded from JSON; it may borrow from the payload |
/// | `&Order`, `&Order<'_>` | the same, lent by the runtime |
/// | `&str` | a JSON string, borrowed; one with escapes does not decode (`String` and `Cow<'_, str>` take any) |
/// | `&[u8]` | the bytes as they came; `_: &[u8]` ignores them |
/// | `Option<_>` of any of these | `None` for a tombstone (a null payload); without `Option` it does not decode |
///
/// `Vec<u8>` is a value like any other: a JSON array of numbers. `Option` is recognized by its name (`Option`,
/// `std::option::Option`, `core::option::Option`): behind a type alias it is a value, and `None` is JSON `null`.
///
/// Every further argument is an extractor: `State<'_, T>` (`State<T>` means the same), `Key<T>`, `Headers<'_>`,
/// `Meta<'_>`, `Publisher<'_>`, `Shutdown`, or a type of your own that implements `FromDelivery`. Arguments can be patterns. Lifetimes
/// can be declared (`async fn bill<'a>(order: Order<'a>)`); type parameters cannot.
///
/// # What the function returns
///
/// `()`, `Outcome`, or a `Result` of one of these whose error turns into a `Failure`: any `std::error::Error`, a boxed
/// one, or `anyhow::Error`. Its future must be `Send`.
///
/// With `reply = ".."` it returns what is sent there: a value that is `Serialize`, which goes as JSON and under the key of its
/// source; `Vec<u8>` or `&[u8]`, which go as they are; `Reply<T>` of one of these, which says more; an `Option` of any of
/// these, where `None` is no reply; or a `Result` of any of these. The delivery is settled when the reply is confirmed; the
/// next one starts before that.
///
/// ```
/// use ruststream::{BoxError, Reply, subscriber};
/// # #[derive(serde::Deserialize)] struct Order { id: u64, total: f64 }
/// # #[derive(serde::Serialize)] struct Invoice { order: u64, total: f64 }
///
/// #[subscriber("orders", reply = "invoices", dead_letter = "orders.dlq")]
/// async fn bill(order: Order) -> Result<Option<Reply<Invoice>>, BoxError> {
///     if order.total == 0.0 {
///         return Ok(None);
///     }
///     let invoice = Invoice { order: order.id, total: order.total };
///     Ok(Some(Reply::new(invoice).header("currency", "EUR")))
/// }
/// ```
///
/// # Attributes, names and visibility
///
/// - Doc comments and `#[deprecated]` describe what is mounted; lint levels apply to it and to the body; all other
///   attributes go to the body. `#[tracing::instrument]` stands *above* `#[subscriber]`, so that the span has the
///   function's name.
/// - The name is taken twice: by the function that makes the subscriber, and by the handler's type. Locals, arguments and
///   functions elsewhere can be named alike; a type or module beside it cannot. In documentation, link to it as
///   `` [`bill()`] ``.
/// - All items are as visible as the function was.
///
#[doc = include_str!("expansion.md")]
#[proc_macro_attribute]
pub fn subscriber(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    subscriber::subscriber(args.into(), &item.into()).into()
}
