//! What a replying subscriber may return; aliases are seen through.
use ruststream::prelude::*;
use ruststream::BoxError;

#[derive(Serialize)]
struct Invoice<'a> {
    item: &'a str,
}

type Maybe<T> = Option<T>;
type Answer<T> = std::result::Result<T, BoxError>;

#[subscriber("orders", reply = "invoices")]
async fn value(item: String) -> String {
    item
}

#[subscriber("orders", reply = "invoices")]
async fn borrowed<'a>(item: &'a str) -> Invoice<'a> {
    Invoice { item }
}

#[subscriber("orders", reply = "invoices", dead_letter = "dlq", dead_letter_limit = DeadLetterLimit::none())]
async fn result_of_option_of_reply(item: &str) -> Answer<Maybe<Reply<Invoice<'_>>>> {
    Ok(Some(Reply::new(Invoice { item }).key("k")))
}

#[subscriber("orders", reply = "invoices")]
async fn bytes(item: &[u8]) -> Option<Vec<u8>> {
    Some(item.to_vec())
}

#[subscriber("orders", reply = "invoices")]
async fn tombstone(_: &[u8]) -> Reply<()> {
    Reply::tombstone()
}

#[subscriber("orders", reply = "invoices")]
async fn opaque(item: u64) -> impl Serialize {
    item
}

#[subscriber("orders", reply = "invoices")]
async fn with_publisher(item: u64, publisher: Publisher<'_>) -> Result<u64, BoxError> {
    let confirmed = publisher.publish(Record::json("items", &item)?).await?;
    publisher.try_send(Record::tombstone("items"))?;
    Ok(confirmed.offset as u64)
}

fn main() {
    let broker = ruststream::memory::MemoryBroker::new();
    let _ = RustStream::new("all").broker(broker, |broker| {
        broker
            .mount(value.name("a").reply("elsewhere"))
            .mount(borrowed)
            .mount(result_of_option_of_reply)
            .mount(bytes)
            .mount(tombstone)
            .mount(opaque)
            .mount(with_publisher)
    });
}
