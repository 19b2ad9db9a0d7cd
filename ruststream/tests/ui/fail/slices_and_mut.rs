use ruststream::subscriber;

#[subscriber("orders")]
async fn bill(_lines: &[u64]) {}

#[subscriber("orders")]
async fn audit(_order: &mut u64) {}

fn main() {}
