//! An HTTP service that publishes orders to Kafka and answers once the cluster has confirmed them.
//!
//! `POST /orders` with `{ "id": 7, "customer": "ada", "item": "book", "total": 12.5 }` writes the order to the topic
//! `web-orders`, with the customer as the key, and answers:
//!
//! | status | when | body |
//! |---|---|---|
//! | 201 | the cluster has confirmed the order | `{ "partition": 2, "offset": 41 }` |
//! | 400, 413, 415, 422 | there is no order in the request, or an impossible one; it is too large | a problem |
//! | 503, with `Retry-After` | the cluster did not confirm it in time, or there is no room now | a problem |
//! | 500 | the topic does not take it; the reason is in the log, for those who run the service | a problem |
//!
//! A problem is RFC 9457's `application/problem+json`. Its `may_be_persisted` says whether the order may be in the topic
//! all the same: sent again, it may then be there twice, with the same `id`. `GET /health` answers 200.
//!
//! A request waits about 5 s for Kafka, no longer: `message.timeout.ms` of [`publisher`], which librdkafka looks at
//! about once a second. A client that hangs up takes nothing back: the order may be written. Slow clients are left to a
//! proxy in front: there is no time limit for sending a request.

mod problem;
mod serve;
mod service;

pub use serve::serve;
pub use service::{Order, TOPIC, publisher, router};
