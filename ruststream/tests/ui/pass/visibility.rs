//! The subscriber, its type and its body are as visible as the function was.
#![deny(warnings, unreachable_pub, private_interfaces, private_bounds)]

use ruststream::{IntoSubscriber, Subscriber, subscriber};

mod handlers {
    use ruststream::{State, subscriber};

    #[subscriber("orders")]
    pub(crate) async fn bill(order: u64) {
        let _ = order;
    }

    mod nested {
        use ruststream::{State, subscriber};

        pub(super) struct Rates(pub(super) f64);

        #[subscriber("orders")]
        pub(in crate::handlers) async fn audit(order: u64, State(rates): State<'_, Rates>) {
            tokio::task::yield_now().await;
            let _ = (order, rates.0);
        }

        #[subscriber("orders")]
        pub(super) async fn count(order: u64) {
            let _ = order;
        }
    }

    pub(crate) fn mounted() {
        let _ = (nested::audit(), nested::count());
        let _ = nested::audit::body(1, State(&nested::Rates(0.2)));
        let _ = nested::count::body(1);
    }
}

#[subscriber("orders")]
async fn private(order: u64) {
    let _ = order;
}

/// The state is nobody's business, and the subscriber is public all the same.
struct Secret;

#[subscriber("orders")]
pub async fn public(order: u64, _: ruststream::State<'_, Secret>) {
    let _ = order;
}

fn main() {
    use handlers::bill;

    #[subscriber("orders")]
    async fn local(order: u64) {
        let _ = order;
    }

    let bill: Subscriber<bill> = bill.concurrency(8);
    let _ = (bill, private(), local(), public());
    let _ = (handlers::bill::body(1), private::body(1), local::body(1));
    let _ = public::body(1, ruststream::State(&Secret));
    handlers::mounted();
}
