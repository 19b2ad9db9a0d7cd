use ruststream::subscriber;

#[subscriber("orders")]
async fn bill(_order: impl Send, _all: Vec<impl Send>) {}

fn main() {}
