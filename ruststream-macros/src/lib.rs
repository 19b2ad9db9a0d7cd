//! The `#[subscriber]` attribute.
