//! What a handler returns, as a record for its reply topic.

use std::borrow::Cow;

use serde::Serialize;

use super::Context;
use crate::broker::Delivery;
use crate::{Failure, Record};

/// A reply that says more than its value: another key, headers, a partition, another topic, or no value at all.
///
/// ```
/// use ruststream::prelude::*;
/// # #[derive(Deserialize)] struct Order { id: u64, customer: String, total: f64 }
/// # #[derive(Serialize)] struct Invoice { order: u64, total: f64 }
///
/// #[subscriber("orders", reply = "invoices")]
/// async fn bill(order: Order) -> Reply<Invoice> {
///     let invoice = Invoice { order: order.id, total: order.total };
///     Reply::new(invoice).key(order.customer).header("currency", "EUR")
/// }
/// ```
///
/// Without anything else it is what returning the value is: JSON under the source's key, in the partition that the key
/// decides, without headers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a reply is sent when the handler returns it"]
pub struct Reply<T> {
    value: Option<T>,
    topic: Option<Cow<'static, str>>,
    key: SetKey,
    partition: Option<i32>,
    headers: Vec<(Cow<'static, str>, Option<Vec<u8>>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SetKey {
    OfSource,
    To(Option<Vec<u8>>),
}

impl<T> Reply<T> {
    /// A reply with `value` as its payload.
    pub fn new(value: T) -> Self {
        Self {
            value: Some(value),
            ..Self::tombstone()
        }
    }

    /// A reply without a payload: what deletes the key from a compacted topic.
    pub fn tombstone() -> Self {
        Self {
            value: None,
            topic: None,
            key: SetKey::OfSource,
            partition: None,
            headers: Vec::new(),
        }
    }

    /// Sets the key instead of the source's.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = SetKey::To(Some(key.into()));
        self
    }

    /// Sends it without a key.
    pub fn null_key(mut self) -> Self {
        self.key = SetKey::To(None);
        self
    }

    /// Adds a header after those that are there; names may repeat.
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a header whose value is null, which is not the same as empty.
    pub fn null_header(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name.into(), None));
        self
    }

    /// Sets the partition instead of having it chosen by the key.
    pub fn to_partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sends it to `topic` instead of the subscription's reply topic.
    pub fn to_topic(mut self, topic: impl Into<Cow<'static, str>>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    fn address(self, record: &mut Record) -> Option<T> {
        if let Some(topic) = self.topic {
            record.set_topic(topic);
        }
        if let SetKey::To(key) = self.key {
            record.set_key(key);
        }
        if let Some(partition) = self.partition {
            record.set_partition(partition);
        }
        for (name, value) in self.headers {
            record.add_header(name, value);
        }
        self.value
    }
}

/// A value that a reply can carry: anything that is `Serialize`. It exists for its diagnostic.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a reply",
    label = "not `Serialize`",
    note = "a subscriber with `reply = ..` returns a value that is `Serialize` (sent as JSON), `Vec<u8>` or `&[u8]` (sent as it is), `Reply<T>` of one of these, an `Option` of it, or a `Result` of any of these"
)]
pub trait ReplyValue: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize> ReplyValue for T {}

/// What the body of a replying handler returned, on its way through the steps below: `Result`, then `Option`, then
/// `Reply`, then the value. At each step the inherent method is for the type that the step is about, and the trait's, which
/// method lookup tries second, for all others. So no types overlap, and aliases are seen through.
#[derive(Debug)]
pub struct Returned<T>(pub T);

impl<T, E> Returned<Result<T, E>> {
    /// The failure ends the steps.
    #[inline]
    pub fn result(self) -> Result<T, Failure>
    where
        E: Into<Failure>,
    {
        self.0.map_err(Into::into)
    }
}

impl<T> Returned<Option<T>> {
    /// `None` ends the steps: there is no reply.
    #[inline]
    pub fn option(self) -> Option<T> {
        self.0
    }
}

impl<T> Returned<Reply<T>> {
    /// Writes everything but the value; no value is a tombstone.
    #[inline]
    pub fn address(self, record: &mut Record) -> Option<T> {
        self.0.address(record)
    }
}

impl Returned<Vec<u8>> {
    /// The bytes as they are.
    #[inline]
    pub fn encode(self, record: &mut Record) -> Result<(), Failure> {
        record.set_payload(Some(self.0));
        Ok(())
    }
}

impl Returned<&[u8]> {
    /// The bytes as they are.
    #[inline]
    pub fn encode(self, record: &mut Record) -> Result<(), Failure> {
        record.payload_mut().extend_from_slice(self.0);
        Ok(())
    }
}

/// The steps for all other types.
pub trait ReplySteps<T>: Sized {
    /// No `Result`: a success.
    fn result(self) -> Result<T, Failure>;

    /// No `Option`: there is a reply.
    fn option(self) -> Option<T>;

    /// No `Reply`: only the value.
    fn address(self, record: &mut Record) -> Option<T>;

    /// The value as JSON.
    ///
    /// # Errors
    ///
    /// It has no JSON form: another attempt would not change that.
    fn encode(self, record: &mut Record) -> Result<(), Failure>
    where
        T: ReplyValue;
}

impl<T> ReplySteps<T> for Returned<T> {
    #[inline]
    fn result(self) -> Result<T, Failure> {
        Ok(self.0)
    }

    #[inline]
    fn option(self) -> Option<T> {
        Some(self.0)
    }

    #[inline]
    fn address(self, _: &mut Record) -> Option<T> {
        Some(self.0)
    }

    #[inline]
    fn encode(self, record: &mut Record) -> Result<(), Failure>
    where
        T: ReplyValue,
    {
        serde_json::to_writer(record.payload_mut(), &self.0).map_err(|error| not_json::<T>(&error))
    }
}

/// The record of a reply, its value not written.
#[inline]
pub fn reply_record<D: Delivery>(cx: Context<'_>, source: &D) -> Box<Record> {
    cx.reply(source)
}

/// A reply without a value.
#[inline]
pub fn no_value(record: &mut Record) {
    record.set_payload(None);
}

#[cold]
fn not_json<T>(error: &serde_json::Error) -> Failure {
    let of = std::any::type_name::<T>();
    Failure::permanent(format!(
        "the reply of type {of} cannot be written as JSON: {error}"
    ))
}
