use ruststream::subscriber;

#[subscriber("orders", concurency = 8)]
async fn bill(_order: u64) {}

fn main() {}
