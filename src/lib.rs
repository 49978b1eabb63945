//! PTX on any machine: read, compiled, cached, loaded and launched, on NVIDIA's
//! driver or on the embedded CPU device.
//!
//! The modules stand in the order of the data: [`ptx`] reads text, [`image`]
//! tells PTX from binaries and chooses, [`jit`] compiles, [`cache`] keeps what
//! was compiled, [`driver`] loads and launches, and [`loader`] is all of it in
//! one function.

// `unsafe` is for what talks to a driver, and for the CPU device.
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]
// The documentation tells of all modules, those left out of a build too.
#![cfg_attr(
    not(all(feature = "driver", feature = "cache", feature = "cpu")),
    allow(rustdoc::broken_intra_doc_links)
)]

pub use ::{image, ptx};

#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "cpu")]
pub use ::cpu;
#[cfg(feature = "driver")]
#[allow(unsafe_code)]
pub mod driver;
#[cfg(feature = "cudarc-interop")]
#[allow(unsafe_code)]
pub mod interop;
#[cfg(feature = "driver")]
pub mod jit;
#[cfg(feature = "lint")]
pub use ::lint;
#[cfg(all(feature = "driver", feature = "cache"))]
pub mod loader;

// The programs of the README and of the book in `docs` are compiled and run with
// the other examples.
#[cfg(all(doctest, feature = "cpu", feature = "cache"))]
mod documentation {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/check.md")]
    mod check {}
    #[doc = include_str!("../docs/driver.md")]
    mod driver {}
    #[doc = include_str!("../docs/loader.md")]
    mod loader {}
}
