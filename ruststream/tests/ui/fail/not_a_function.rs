use ruststream::subscriber;

#[subscriber("orders")]
struct Bill;

fn main() {
    let _ = Bill;
}
