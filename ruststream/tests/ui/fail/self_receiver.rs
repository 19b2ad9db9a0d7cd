use ruststream::subscriber;

#[subscriber("orders")]
async fn bill(&self, _order: u64) {}

fn main() {}
