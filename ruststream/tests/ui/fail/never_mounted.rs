//! Said once, about the function that the user wrote.
#![deny(dead_code)]

use ruststream::subscriber;

#[subscriber("orders")]
pub async fn mounted(_order: u64) {}

mod handlers {
    #[ruststream::subscriber("orders")]
    pub async fn never_mounted(_order: u64) {}
}

fn main() {
    let _ = mounted();
}
