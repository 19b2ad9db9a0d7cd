//! Starts real Kafka nodes.
