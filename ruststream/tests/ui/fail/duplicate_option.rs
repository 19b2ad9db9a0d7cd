use ruststream::{ProcessingOrder, subscriber};

#[subscriber("orders", ordering = ProcessingOrder::Key, concurrency = 8, concurrency = 16)]
async fn bill(_order: u64) {}

fn main() {}
