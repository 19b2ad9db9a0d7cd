//! Testing without a broker, and testing a broker.

mod app;

pub use app::TestApp;
