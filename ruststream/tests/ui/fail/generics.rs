use ruststream::subscriber;
use serde::Deserialize;

#[subscriber("orders")]
async fn bill<T: for<'de> Deserialize<'de>, const N: usize>(_order: T)
where
    T: Send,
{
}

fn main() {}
