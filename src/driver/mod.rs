//! The driver API, safe, on two drivers.

pub mod api;
mod entries;
mod error;

pub use error::{DriverError, DriverMissing, Error};
