//! PTX on any machine: read, compiled, cached, loaded and launched, on NVIDIA's
//! driver or on the embedded CPU device.
//!
//! The modules stand in the order of the data: [`ptx`] reads text, [`image`]
//! tells PTX from binaries and chooses, [`jit`] compiles, [`cache`] keeps what
//! was compiled, [`driver`] loads and launches, and [`loader`] is all of it in
//! one function.
//!
//! # What is safe
//!
//! **No program without `unsafe` reaches host memory that is not its own.** Device
//! code can: a GPU does not check addresses, and one with pageable memory access
//! reaches all of the process. So device code is vouched for where it enters, or
//! where it runs:
//!
//! - *Loading PTX is safe*, on both devices: it is compiled, and nothing of it
//!   runs. Initial values of variables stay within the module.
//! - *Loading a binary is `unsafe`* ([`Module::load_image`](driver::Module::load_image),
//!   [`Source::image`](loader::Source::image), [`LinkInput::cubin`](driver::LinkInput::cubin)):
//!   a binary of the CPU device is machine code of this process, and a driver
//!   takes a cubin apart on the host without verifying it.
//! - *A launch by raw arguments is `unsafe`* ([`Kernel::launch`](driver::Kernel::launch),
//!   [`launch!`], [`Graph::add_kernel`](driver::Graph::add_kernel)): a wrong number
//!   of elements or an address passed as a number reaches anything.
//! - *A [`TypedKernel`](driver::TypedKernel) is launched safely.* Whoever declares its
//!   parameters ([`Kernel::typed`](driver::Kernel::typed), or a `safe fn` in the
//!   `unsafe extern` block of [`kernels!`]) vouches for the kernel, once. Slices carry their
//!   lengths, and what is passed stays allocated until the kernel is done.
//! - *Memory that a device can write is never behind a Rust reference.* The host
//!   reads and writes it by copies, which wait for the work that uses it. Freeing
//!   waits too. Addresses are handed out as numbers, and who passes one to a raw
//!   launch answers for it.
//! - *Handles of other libraries and processes enter by `unsafe`* (`from_raw`,
//!   `from_shared`, `borrow_raw`, [`IpcBuffer::open`](driver::IpcBuffer::open),
//!   OpenGL's objects).
//! - *The compute cache is trusted*: its folders belong to the user who runs the
//!   program, and nobody else can write there, else they are not used. Whoever
//!   writes files as this user can replace the program too. Code enters it from a
//!   compiler, or by `unsafe` ([`CompileLock::put`](cache::CompileLock::put),
//!   [`Cache::import`](cache::Cache::import), [`Cache::record`](cache::Cache::record)). From a
//!   store that machines share it comes if it is signed with a key that the user's environment or
//!   `unsafe` code trusts.
//!
//! On the CPU device every address that a kernel compiled from PTX uses is checked,
//! against device memory and pinned memory: a wrong kernel is an error there that
//! names thread, line and address.

// `unsafe` is for what talks to a driver, for the CPU device, and where code is
// vouched for that comes from the cache or that the user of a program names.
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]
// The documentation tells of all modules, those left out of a build too.
#![cfg_attr(
    not(all(
        feature = "driver",
        feature = "cache",
        feature = "cpu",
        feature = "macros"
    )),
    allow(rustdoc::broken_intra_doc_links)
)]

pub use ::{image, occupancy, ptx};

/// For macros: a program may have another crate under the name `core`.
#[doc(hidden)]
pub use ::core as __core;

#[cfg(feature = "build")]
pub use ::build;
#[cfg(feature = "cache")]
pub use ::cache;
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
#[cfg(all(feature = "driver", feature = "cache"))]
#[allow(unsafe_code)]
pub mod kernels;
#[cfg(feature = "lint")]
pub use ::lint;
#[cfg(all(feature = "driver", feature = "cache"))]
#[allow(unsafe_code)]
pub mod loader;
/// A structure that lies in memory as device code lays it out: an element of buffers, and a
/// parameter by value.
///
/// It is `#[repr(C)]`, its fields are numbers, arrays of them, CUDA's vectors, or structures
/// of this kind, and it is `Copy`. Padding has a name: where CUDA C++ and `repr(C)` leave
/// bytes between two fields, or after the last, it does not compile and says where to write a
/// field of how many bytes. `device_param!` is for structures with unnamed padding, which
/// buffers cannot hold.
///
/// ```
/// use ptxkit::DeviceRepr;
/// use ptxkit::driver::Float4;
///
/// #[derive(Clone, Copy, DeviceRepr)]
/// #[repr(C)]
/// struct Particle {
///     position: Float4,
///     mass: f32,
///     _padding: [u32; 3],
/// }
/// ```
///
/// Without the last field:
///
/// ```text
/// error[E0080]: evaluation panicked: `Particle` has 12 bytes of padding after `mass`: write
///               a field of type `[u8; 12]` there
/// ```
#[doc(inline)]
#[cfg(all(feature = "driver", feature = "macros"))]
pub use macros::DeviceRepr;

// The programs of the README and of the book in `docs` are compiled and run with
// the other examples.
#[cfg(all(doctest, feature = "cpu", feature = "cache", feature = "macros"))]
mod documentation {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[cfg(feature = "build")]
    #[doc = include_str!("../docs/build.md")]
    mod build {}
    #[doc = include_str!("../docs/check.md")]
    mod check {}
    #[doc = include_str!("../docs/driver.md")]
    mod driver {}
    #[doc = include_str!("../docs/from-cudarc.md")]
    mod from_cudarc {}
    #[doc = include_str!("../docs/from-cust.md")]
    mod from_cust {}
    #[doc = include_str!("../docs/kernels.md")]
    mod kernels {}
    #[doc = include_str!("../docs/loader.md")]
    mod loader {}
    #[doc = include_str!("../docs/occupancy.md")]
    mod occupancy {}
    #[doc = include_str!("../docs/sliced.md")]
    mod sliced {}
    #[doc = include_str!("../docs/top.md")]
    mod top {}
}
