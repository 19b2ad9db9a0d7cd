//! A crate that is strict with itself is not bothered by generated code.
#![deny(
    warnings,
    future_incompatible,
    let_underscore,
    nonstandard_style,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility,
    unused,
    dead_code,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]

use ruststream::{Key, Outcome, State, subscriber};
use serde::Deserialize;

/// An order.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Order<'a> {
    item: &'a str,
}

/// The rates.
#[derive(Debug, Clone, Copy)]
pub struct Rates(f64);

/// Bills an order.
#[subscriber("orders", name = "billing", retry = ruststream::RetryPolicy::attempts(3))]
pub async fn bill(order: Order<'_>, State(rates): State<'_, Rates>, key: Key<&str>) -> Outcome {
    tokio::task::yield_now().await;
    if rates.0 > 1.0 || key.0.is_empty() || order.item.is_empty() { Outcome::Skip } else { Outcome::Ack }
}

#[subscriber("orders")]
pub async fn without_a_comment(order: Option<&Order<'_>>) {
    tokio::task::yield_now().await;
    assert!(order.is_none_or(|order| !order.item.is_empty()));
}

/// Was replaced.
#[deprecated = "mount `bill`"]
#[subscriber("orders")]
pub async fn old(order: Order<'_>) {
    assert!(!order.item.is_empty());
}

#[subscriber("orders")]
#[allow(non_snake_case)]
async fn Bill(_: u64) {}

#[subscriber("orders")]
#[expect(unused_variables)]
async fn unused(order: u64) {}

#[expect(deprecated, reason = "mounting it is what the deprecation is about")]
fn main() {
    drop((bill(), old(), without_a_comment(), Bill(), unused()));
}
