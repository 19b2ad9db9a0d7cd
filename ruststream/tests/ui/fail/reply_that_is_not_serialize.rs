use ruststream::subscriber;

struct Invoice;

#[subscriber("orders", reply = "invoices")]
async fn bill(_order: u64) -> Result<Invoice, std::io::Error> {
    Ok(Invoice)
}

fn main() {}
