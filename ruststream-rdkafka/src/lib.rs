//! Kafka for ruststream.
