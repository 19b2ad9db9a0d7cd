//! What a client reads when its order was not confirmed.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ruststream::{Error, PublishError, PublishErrorKind as Kind};
use serde::Serialize;

/// An answer that is not 201.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    may_be_persisted: bool,
}

/// As RFC 9457 has it, and one member of our own.
#[derive(Serialize)]
struct Body {
    status: u16,
    title: Option<&'static str>,
    detail: String,
    may_be_persisted: bool,
}

/// Seconds after which another attempt is worth while: a broker that is shut down in order is replaced by then.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("2");

impl Problem {
    /// The order was read, and cannot be one.
    pub(crate) fn unprocessable(detail: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            may_be_persisted: false,
        }
    }
}

/// The status and the text are axum's: what it says is about the request only.
impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

/// An order can be JSON always, so this is a defect of the service.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        tracing::error!(?error, "an order could not be written as JSON");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, NOT_ACCEPTED)
    }
}

const NOT_ACCEPTED: &str = "the order was not accepted because of a fault of this service";

/// The publisher's own text is for those who run the service, and goes to the log: it names topics and settings.
impl From<PublishError> for Problem {
    fn from(error: PublishError) -> Self {
        let kind = error.kind();
        let (status, detail) = match kind {
            Kind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the order is too large"),
            Kind::UnknownTopic
            | Kind::UnknownPartition
            | Kind::Unauthorized
            | Kind::Fenced
            | Kind::Fatal
            | Kind::Invalid => (StatusCode::INTERNAL_SERVER_ERROR, NOT_ACCEPTED),
            // Full, closed, timed out, and whatever else the broker said: another attempt may well succeed.
            _ => (StatusCode::SERVICE_UNAVAILABLE, "the order was not confirmed"),
        };
        if kind != Kind::TooLarge {
            tracing::warn!(?kind, %error, "an order was not confirmed");
        }
        let detail = if error.may_be_persisted() {
            format!("{detail}; it may have been written all the same: keep its id if you send it again")
        } else {
            detail.to_owned()
        };
        Self {
            may_be_persisted: error.may_be_persisted(),
            ..Self::new(status, detail)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            status: self.status.as_u16(),
            title: self.status.canonical_reason(),
            detail: self.detail,
            may_be_persisted: self.may_be_persisted,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_succeed_later_is_503_and_what_will_not_is_500_or_413() {
        let statuses = [
            Kind::Full,
            Kind::Closed,
            Kind::TimedOut,
            Kind::Broker,
            Kind::TooLarge,
            Kind::UnknownTopic,
            Kind::UnknownPartition,
            Kind::Unauthorized,
            Kind::Fenced,
            Kind::Fatal,
            Kind::Invalid,
        ]
        .map(|kind| {
            let response = Problem::from(PublishError::new(kind, "no")).into_response();
            (
                response.status().as_u16(),
                response.headers().contains_key(RETRY_AFTER),
            )
        });
        assert_eq!(statuses[..4], [(503, true); 4]);
        assert_eq!(statuses[4], (413, false));
        assert_eq!(statuses[5..], [(500, false); 6]);
    }

    #[test]
    fn what_the_cluster_said_is_not_told() {
        let error =
            PublishError::new(Kind::Unauthorized, "grant `billing` on secret-topic").possibly_persisted();
        let problem = Problem::from(error);
        assert!(problem.may_be_persisted);
        assert_eq!(
            problem.detail,
            "the order was not accepted because of a fault of this service; it may have been written all the same: keep \
             its id if you send it again"
        );
    }
}
