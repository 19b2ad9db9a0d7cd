use ruststream::subscriber;

#[subscriber("orders")]
async fn bill(order: u64) -> u64 {
    order
}

fn main() {}
