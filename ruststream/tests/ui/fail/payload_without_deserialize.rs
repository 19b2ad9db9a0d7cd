use ruststream::subscriber;

struct Order;

#[subscriber("orders")]
async fn bill(_order: Order) {}

fn main() {}
