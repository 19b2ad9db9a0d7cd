use ruststream::subscriber;

struct Order;

#[subscriber("orders")]
async fn bill(_order: Option<&Order>) {}

fn main() {}
