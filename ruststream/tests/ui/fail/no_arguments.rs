use ruststream::subscriber;

#[subscriber("orders")]
async fn bill() {}

fn main() {}
