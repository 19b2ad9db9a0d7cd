//! Names of the prelude, of std and of ruststream mean something else here.
#![deny(warnings)]
#![allow(dead_code, non_snake_case, unused_macros)]

#[derive(Debug)]
struct Option;
#[derive(Debug)]
struct Result;
struct String;
struct Vec;
struct Box;
struct Outcome;
struct Subscriber;
struct Context;
struct Requirements;
struct Handler;
struct ProcessingOrder;
struct RetryPolicy;
trait Send {}
trait Sync {}
trait Copy {}
trait Clone {}
trait Debug {}
trait Future {}
trait Into {}
trait From {}
trait FromDelivery {}
trait IntoOutcome {}
trait IntoSubscriber {}
trait Delivery {}
fn Some() {}
fn None() {}
fn Ok() {}
fn Err() {}
mod std {}
mod core {}
mod alloc {}
mod serde {}
mod ruststream {}
mod __private {}
macro_rules! compile_error { () => {} }
macro_rules! matches { () => {} }

#[::ruststream::subscriber("orders", concurrency = 2, ordering = ::ruststream::ProcessingOrder::Key)]
async fn optional(
    order: ::core::option::Option<&u64>,
    ::ruststream::State(rates): ::ruststream::State<'_, f64>,
    key: ::ruststream::Key<&str>,
) -> ::core::result::Result<(), ::ruststream::BoxError> {
    ::tokio::task::yield_now().await;
    drop((order, rates, key));
    ::core::result::Result::Ok(())
}

#[::ruststream::subscriber("orders")]
async fn lent(order: &u64) {
    drop(order);
}

#[::ruststream::subscriber("orders")]
async fn value(order: u64) -> ::ruststream::Outcome {
    drop(order);
    ::ruststream::Outcome::Ack
}

fn drop<T>(_: T) {}

fn main() {
    drop((optional(), lent(), value()));
}
