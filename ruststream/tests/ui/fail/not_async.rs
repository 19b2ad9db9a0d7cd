use ruststream::subscriber;

#[subscriber("orders")]
fn bill(_order: u64) {}

fn main() {
    let _ = bill();
}
