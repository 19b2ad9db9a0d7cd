use ruststream::subscriber;

struct BillError;

#[subscriber("orders")]
async fn bill(_order: u64) -> Result<(), BillError> {
    Err(BillError)
}

fn main() {}
