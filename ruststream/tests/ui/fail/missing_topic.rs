use ruststream::subscriber;

#[subscriber]
async fn bill(_order: u64) {}

#[subscriber(concurrency = 8)]
async fn audit(_order: u64) {}

#[subscriber(topic = "orders")]
async fn count(_order: u64) {}

fn main() {}
