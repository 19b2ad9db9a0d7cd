//! Partitions that reply share one publisher, and its room.

use ruststream::prelude::*;
use tokio::time::{sleep, timeout};

use crate::support::*;

#[subscriber("orders", reply = "invoices")]
async fn bill(order: u64) -> u64 {
    order
}

/// With room for one record, a partition finds none nearly always, and has none of its own under way that would wake it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_take_the_room_of_one_another_all_go_on() {
    const EACH: u64 = 250;
    let broker = cluster("orders", 4).await.max_unconfirmed(1);
    broker.create_topic("invoices", 4).await.unwrap();
    let app = RustStream::new("billing").broker(broker.clone(), |kafka| kafka.mount(bill));
    let running = app.start().await.unwrap();
    for partition in 0..4 {
        produce(&broker, "orders", partition, 0..EACH);
    }
    let replied = || {
        running
            .report()
            .subscriptions
            .iter()
            .map(|each| each.replied)
            .sum::<u64>()
    };
    let all = async {
        while replied() < 4 * EACH {
            sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let waited = timeout(SOON, all).await;
    assert!(waited.is_ok(), "a partition hangs: {:?}", running.report());
    running.stop();
    running.wait().await.unwrap();
}
