//! The driver API, safe, on two drivers.
