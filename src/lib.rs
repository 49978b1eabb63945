//! PTX on any machine: read, compiled, cached, loaded and launched, on NVIDIA's
//! driver or on the embedded CPU device.
//!
//! The modules stand in the order of the data: [`ptx`] reads text, [`image`]
//! tells PTX from binaries and chooses, [`jit`] compiles, [`cache`] keeps what
//! was compiled, [`driver`] loads and launches, and [`loader`] is all of it in
//! one function.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod image;
pub mod ptx;

#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "driver")]
pub mod driver;
#[cfg(feature = "driver")]
pub mod jit;
#[cfg(all(feature = "driver", feature = "cache"))]
pub mod loader;

// Public for the two programs and their tests; no part of the API.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

// The README's example compiles and runs with the documentation tests.
#[cfg(all(doctest, feature = "cache", feature = "cpu"))]
#[doc = include_str!("../README.md")]
struct Readme;
