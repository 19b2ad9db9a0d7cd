//! The subscriber, its type and its body are as visible as the function was.
#![deny(warnings, unreachable_pub, private_interfaces, private_bounds)]

use ruststream::{IntoSubscriber, Subscriber, subscriber};

mod handlers {
    use ruststream::subscriber;

    #[subscriber("orders")]
    pub(crate) async fn bill(order: u64) {
        let _ = order;
    }

    pub mod nested {
        use ruststream::{State, subscriber};

        pub(crate) struct Rates(pub(crate) f64);

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

    pub(crate) fn all() -> (ruststream::Subscriber<nested::audit>, ruststream::Subscriber<nested::count>) {
        let _ = nested::audit::body(1, State(&nested::Rates(0.2)));
        let _ = nested::count::body(1);
        (nested::audit(), nested::count())
    }

    use ruststream::State;
}

#[subscriber("orders")]
async fn private(order: u64) {
    let _ = order;
}

fn main() {
    use handlers::bill;

    #[subscriber("orders")]
    async fn local(order: u64) {
        let _ = order;
    }

    let bill: Subscriber<bill> = bill.concurrency(8);
    let _ = handlers::bill::body(1);
    let _ = (bill, handlers::all(), private(), private::body(1), local(), local::body(1));
}
