//! The routes, and what an order is.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use ruststream::broker::Publisher;
use ruststream::{Confirmed, Error, Record};
use ruststream_rdkafka::{KafkaBroker, KafkaPublisher};
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The topic of the orders.
pub const TOPIC: &str = "web-orders";

/// An order, as it is in the request and in the topic: JSON, no other fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Chosen by the client: tells an order that was sent again from another one.
    pub id: u64,
    /// Not empty. Orders of one customer stay in order.
    pub customer: String,
    /// What was ordered.
    pub item: String,
    /// Not negative.
    pub total: f64,
}

/// Where the order is.
#[derive(Debug, Serialize)]
struct Written {
    partition: i32,
    /// -1 if the cluster did not say: it had the order already when the client repeated a request.
    offset: i64,
}

/// How long an order may be unconfirmed. A person waits for the answer, so not librdkafka's 5 minutes; a broker that is
/// shut down in order is replaced within it. One that crashes is missed after 9 s only (`broker.session.timeout.ms`):
/// until then its partitions' clients get 503.
const MESSAGE_TIMEOUT_MS: &str = "5000";

/// The service's publisher: gives up an order that is not confirmed within 5 s.
///
/// # Errors
///
/// Those of [`KafkaBroker::publisher`].
pub fn publisher(kafka: &KafkaBroker) -> Result<KafkaPublisher, Error> {
    kafka
        .clone()
        .set_producer("message.timeout.ms", MESSAGE_TIMEOUT_MS)
        .publisher()
}

/// The routes, with what they publish through.
pub fn router(publisher: KafkaPublisher) -> Router {
    Router::new()
        .route("/orders", post(order))
        .route("/health", get(async || StatusCode::OK))
        .with_state(publisher)
}

async fn order(
    State(publisher): State<KafkaPublisher>,
    order: Result<Json<Order>, JsonRejection>,
) -> Result<(StatusCode, Json<Written>), Problem> {
    let Json(order) = order?;
    order.check()?;
    let record = Record::json(TOPIC, &order)?.key(order.customer);
    // Not `publish`, which waits for room: while the cluster is away, a line of requests would outlast the time limit.
    let receipt = publisher.try_send(record)?;
    let Confirmed {
        partition, offset, ..
    } = receipt.await?;
    Ok((StatusCode::CREATED, Json(Written { partition, offset })))
}

impl Order {
    fn check(&self) -> Result<(), Problem> {
        if self.customer.is_empty() {
            return Err(Problem::unprocessable("`customer` is empty"));
        }
        if !self.total.is_finite() || self.total < 0.0 {
            return Err(Problem::unprocessable("`total` is not a number from 0 up"));
        }
        Ok(())
    }
}
