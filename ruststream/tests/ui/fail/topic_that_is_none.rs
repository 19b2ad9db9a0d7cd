use ruststream::subscriber;

#[subscriber(name = "billing", "orders")]
async fn bill(_order: u64) {}

#[subscriber(7, name = "audit")]
async fn audit(_order: u64) {}

fn main() {}
