use ruststream::subscriber;

#[subscriber("orders", retries = 3, name = "a", name = "b")]
fn bill(_order: impl Send) {}

fn main() {
    let _ = bill();
}
