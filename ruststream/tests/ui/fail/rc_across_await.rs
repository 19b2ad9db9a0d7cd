use std::rc::Rc;

use ruststream::subscriber;

#[subscriber("orders")]
async fn bill(order: u64) {
    let shared = Rc::new(order);
    std::future::ready(()).await;
    drop(shared);
}

fn main() {}
