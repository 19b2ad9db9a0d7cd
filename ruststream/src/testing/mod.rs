//! Testing a service without a broker, and testing a broker against the contract.

mod app;
pub mod contract;

pub use app::TestApp;
