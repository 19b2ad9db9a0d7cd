//! `crate = path`: ruststream under another name, and re-exported by another crate.
#![deny(warnings)]

extern crate ruststream as streams;

mod company {
    pub mod kafka {
        pub use ruststream::*;
    }
}

/// What a path without `::` would find.
#[allow(unused)]
mod ruststream {}

use streams::{State, subscriber};

#[subscriber("orders", crate = streams)]
async fn renamed(order: u64, State(rates): State<'_, f64>) {
    tokio::task::yield_now().await;
    let _ = (order, rates);
}

#[subscriber("orders", name = "other", crate = crate::company::kafka, concurrency = 1)]
async fn re_exported(order: &u64, State(rates): State<'_, f64>) {
    tokio::task::yield_now().await;
    let _ = (order, rates);
}

fn main() {
    let _ = (renamed(), re_exported());
}
