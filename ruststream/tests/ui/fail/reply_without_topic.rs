use ruststream::subscriber;

#[derive(serde::Serialize)]
struct Invoice;

#[subscriber("orders")]
async fn bill(_order: u64) -> Invoice {
    Invoice
}

fn main() {}
