//! Everything that can stand after the payload, held across awaits.
#![deny(warnings)]

use std::time::SystemTime;

use ruststream::broker::Delivery;
use ruststream::{
    BigEndian, Context, Failure, FromDelivery, Headers, Key, Meta, Outcome, Shutdown, State, subscriber,
};

struct Rates {
    vat: f64,
}

struct Clients<T>(Vec<T>);

/// Borrows from the delivery.
struct Tenant<'m>(&'m str);

impl<'m> FromDelivery<'m> for Tenant<'m> {
    fn from_delivery<D: Delivery>(delivery: &'m D, _cx: Context<'m>) -> Result<Self, Failure> {
        Ok(Tenant(delivery.topic()))
    }
}

/// Owned.
struct Received(SystemTime);

impl FromDelivery<'_> for Received {
    fn from_delivery<D: Delivery>(delivery: &D, _cx: Context<'_>) -> Result<Self, Failure> {
        delivery.timestamp().map(Received).ok_or_else(|| Failure::undecodable("no timestamp"))
    }
}

mod own {
    use ruststream::broker::Delivery;
    use ruststream::{Context, Failure, FromDelivery};

    /// Not ruststream's: named by a path, it is left alone.
    pub struct State<T>(pub T);

    impl<T: Default> FromDelivery<'_> for State<T> {
        fn from_delivery<D: Delivery>(_delivery: &D, _cx: Context<'_>) -> Result<Self, Failure> {
            Ok(State(T::default()))
        }
    }
}

#[subscriber("orders")]
async fn all(
    order: &[u8],
    State(rates): State<'_, Rates>,
    State(clients): State<Clients<String>>,
    Key(key): Key<&str>,
    headers: Headers<'_>,
    Meta { topic, offset, .. }: Meta<'_>,
    shutdown: Shutdown,
    Tenant(tenant): Tenant<'_>,
    Received(received): Received,
) -> Outcome {
    tokio::task::yield_now().await;
    shutdown.requested().await;
    if rates.vat > 1.0 || clients.0.is_empty() || order.is_empty() {
        return Outcome::Skip;
    }
    let _ = (key, headers, topic, offset, tenant, received);
    Outcome::Ack
}

#[subscriber("orders")]
async fn keys(_: u64, number: Key<BigEndian<u64>>, _: Key<Option<&[u8]>>, ruststream::State(rates): ruststream::State<Rates>) {
    tokio::task::yield_now().await;
    assert!(number.0.0 as f64 > rates.vat);
}

#[subscriber("orders")]
async fn of_my_own(_: u64, own::State(count): own::State<u64>) {
    assert_eq!(count, 0);
}

#[subscriber("orders")]
async fn declared<'a>(_: u64, tenant: Tenant<'a>, State(rates): State<'a, Rates>) {
    tokio::task::yield_now().await;
    let (_, _): (&'a str, &'a Rates) = (tenant.0, rates);
}

fn main() {}
