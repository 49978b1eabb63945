//! Random PTX kernels, run in every mode of the CPU device and on a GPU. The program is
//! `fuzz-kernels`; `scripts/fuzz-kernels` builds and runs it.
//!
//! | module | subject |
//! |---|---|
//! | [`generate`] | a kernel of a seed, by the rows of `templates.txt` ([`template`]) |
//! | [`kernel`] | the representation of kernels, a tree of statements |
//! | [`mod@print`] | kernels as PTX |
//! | [`child`] | one process for each mode ([`mode`]), which runs jobs ([`job`]) on a device ([`device`]) |
//! | [`runner`] | one kernel in several modes |
//! | [`mod@reference`] | an interpreter for a subset |
//! | [`reduce`] | smaller kernels with the same difference |
//!
//! A kernel has no undefined behaviour, and its results do not depend on the order of threads:
//! [`generate`] says how. The reducer keeps this ([`reduce::is_valid`]).
//!
//! # Checking the fuzzer
//!
//! Make a mistake in the compiler, run `scripts/fuzz-kernels --count 1000`, and expect exit status
//! 1 with a kernel of few instructions. Undo the mistake afterwards. Examples:
//!
//! | mistake | place | modes that differ |
//! |---|---|---|
//! | `addc` ignores the carry | `crates/cpu/src/codegen/instructions/integer.rs` | `nvidia`, or all CPU modes alike |
//! | a masked write stores in all lanes | `crates/cpu/src/simd/lower/results.rs` | `vectors`, `avx2`, `hot` |
//! | a register is not restored behind a barrier | `crates/cpu/src/simd/lower/control/packed.rs` | `vectors`, `avx2`, `hot` |
//! | signed and unsigned `min` exchanged | `crates/cpu/src/codegen/instructions/integer.rs` | `reference` |
//! | a value counts as uniform that is not | `crates/cpu/src/simd/result_shape.rs` | `vectors`, `avx2`, `hot` |
//!
//! A mistake that all modes of the CPU device share shows in `reference` or against the recorded
//! results of a GPU alone.
//!
//! On a GPU, kernels also run without NVIDIA's optimizer ([`mode::Mode::NvidiaUnoptimized`]). Where that code alone
//! agrees with the CPU device, NVIDIA's compiler is wrong, and the kernel is not a finding.

pub mod child;
pub mod device;
pub mod generate;
pub mod job;
pub mod kernel;
pub mod memory;
pub mod mode;
pub mod print;
pub mod random;
pub mod reduce;
pub mod reference;
pub mod runner;
pub mod template;
pub mod tier_up;
