use ruststream::subscriber;

#[derive(serde::Deserialize)]
struct Order<'a> {
    _item: &'a str,
}

#[subscriber("orders")]
async fn bill(_order: Order) {}

fn main() {}
