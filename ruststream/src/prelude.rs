//! What a service usually needs: `use ruststream::prelude::*;`

pub use crate::broker::Commit;
/// For its methods: `send`, `publish`, ..
pub use crate::broker::Publisher as _;
pub use crate::{
    BigEndian, DeadLetterLimit, Headers, IntoSubscriber, Key, Meta, Outcome, Permanent, ProcessingOrder,
    Publisher, Record, Reply, Report, RetryPolicy, RustStream, Shutdown, State, Subscriber, subscriber,
};
pub use serde::{Deserialize, Serialize};
