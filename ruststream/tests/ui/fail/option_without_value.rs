use ruststream::subscriber;

#[subscriber("orders", concurrency(8))]
async fn bill(_order: u64) {}

#[subscriber("orders", "invoices")]
async fn audit(_order: u64) {}

fn main() {}
