use ruststream::{State, subscriber};

struct Rates;

#[subscriber("orders")]
async fn bill(_order: u64, _state: State<'_, Rates>, _rates: Rates) {}

fn main() {}
