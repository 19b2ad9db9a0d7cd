//! What a service usually needs: `use ruststream::prelude::*;`

pub use crate::broker::Commit;
pub use crate::{
    BigEndian, Headers, IntoSubscriber, Key, Meta, Outcome, Permanent, ProcessingOrder, Report, RetryPolicy,
    RustStream, Shutdown, State, Subscriber, subscriber,
};
pub use serde::{Deserialize, Serialize};
