use ruststream::subscriber;

struct NoError;

#[subscriber("orders", reply = "invoices")]
async fn bill(_order: u64) -> Result<u64, NoError> {
    Err(NoError)
}

fn main() {}
