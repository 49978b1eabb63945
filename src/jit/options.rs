//! What can be asked of the compiler.

use super::PtxCompiler;
use crate::driver::log::{JitOptionList, option};
use crate::driver::{Driver, DriverKind};
use image::{Suffix, Target};

/// The first CUDA version whose driver knows `CU_JIT_SPLIT_COMPILE`: others
/// refuse options that they do not know.
const SPLIT_COMPILE_SINCE: i32 = 13000;
/// From so many bytes of PTX on, all cores are used.
const SPLIT_COMPILE_FROM: usize = 100_000;

/// Options of a compilation (`CUjit_option`). The default asks for nothing: the
/// compiler's own defaults, for the context's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct JitOptions {
    /// 0 to 4; the compiler's default is 4.
    pub optimization: Option<u8>,
    /// The most registers a thread may use.
    pub max_registers: Option<u32>,
    /// Line tables, for profilers and for faults with lines.
    pub line_info: bool,
    /// Debug information.
    pub debug: bool,
    /// Registers, spills and memory of each kernel in the log.
    pub verbose: bool,
    /// Where global loads are cached.
    pub cache_mode: Option<CacheMode>,
    /// Another target than the context's device. The driver takes the device's
    /// by itself; on some devices an explicit one fails where that works.
    pub target: Option<Target>,
    /// Threads that compile one module; 0 is one for each core
    /// (`CU_JIT_SPLIT_COMPILE`). The default is one for each core from 100 KB of PTX
    /// on, else one. Drivers before CUDA 13.0 always use one, and the CPU device its
    /// default. It changes how long a compilation takes, not what its code does.
    pub threads: Option<u32>,
    /// Registers are limited so that blocks of so many threads can run. Not with
    /// a `target`.
    pub threads_per_block: Option<u32>,
    /// Code that can lie anywhere (from CUDA 12.0).
    pub position_independent: bool,
    /// `.minnctapersm` for kernels without one (from CUDA 12.4).
    pub min_blocks_per_multiprocessor: Option<u32>,
    /// `.maxntid` for kernels without one (from CUDA 12.4).
    pub max_threads_per_block: Option<u32>,
    /// The limits above count also for kernels that have their own (from CUDA
    /// 12.4).
    pub override_directives: bool,
    /// The compiler. By default the driver's, or [`NvPtxCompiler`](crate::driver::nvptxcompiler::NvPtxCompiler) for
    /// PTX of a newer version than the driver reads. The CPU device always compiles with its own. What is
    /// [linked](super::link) is compiled by the driver.
    pub compiler: Option<PtxCompiler>,
}

/// `CU_JIT_CACHE_MODE`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Without L1 (`-dlcm=cg`).
    L2Only,
    /// With L1 (`-dlcm=ca`).
    L1,
}

/// `CUjit_target`
fn target_number(target: Target) -> u32 {
    let suffix = match target.suffix {
        Suffix::None => 0,
        Suffix::Architecture => 0x1_0000,
        Suffix::Family => 0x2_0000,
    };
    suffix + target.number
}

impl JitOptions {
    /// The options that change the code, as bytes for a cache's key. Equal
    /// options give equal bytes, different ones different bytes.
    pub fn key_bytes(&self) -> Vec<u8> {
        // `verbose` changes only the log, `threads` only the time: each thread
        // compiles other kernels, with the same options.
        let mut bytes = Vec::new();
        for (option, value) in self.scalars() {
            bytes.extend(option.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// The options as `driver` takes them, for so many bytes of PTX.
    pub(super) fn list(&self, driver: Driver, ptx_bytes: usize) -> JitOptionList {
        let mut list = JitOptionList::new();
        for (option, value) in self.scalars() {
            list.set(option, value);
        }
        if self.verbose {
            list.set(option::LOG_VERBOSE, 1);
        }
        if driver.kind() == DriverKind::Nvidia
            && driver.version() >= SPLIT_COMPILE_SINCE
            && let Some(threads) = self.threads_for(ptx_bytes)
        {
            list.set(option::SPLIT_COMPILE, threads);
        }
        list
    }

    /// Returns the command-line options of `ptxas` and nvptxcompiler for PTX of `ptx_bytes` bytes.
    pub(super) fn arguments(&self, target: Target, ptx_bytes: usize) -> Vec<String> {
        let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name}={value}"));
        let flag = |name: &str, is_set: bool| is_set.then(|| name.to_owned());
        let all = [
            Some(format!("-arch={target}")),
            self.optimization.map(|level| format!("-O{level}")),
            number("-maxrregcount", self.max_registers),
            flag("-lineinfo", self.line_info),
            flag("-g", self.debug),
            flag("-v", self.verbose),
            self.cache_mode.map(|mode| match mode {
                CacheMode::L2Only => "-dlcm=cg".to_owned(),
                CacheMode::L1 => "-dlcm=ca".to_owned(),
            }),
            number("--minnctapersm", self.min_blocks_per_multiprocessor),
            number("--maxntid", self.max_threads_per_block),
            flag("--override-directive-values", self.override_directives),
            number(
                "--split-compile",
                self.threads_for(ptx_bytes).filter(|threads| *threads != 1),
            ),
        ];
        all.into_iter().flatten().collect()
    }

    /// The threads that compile so many bytes of PTX; `None` is the compiler's
    /// default, one.
    fn threads_for(&self, ptx_bytes: usize) -> Option<u32> {
        self.threads
            .or((ptx_bytes >= SPLIT_COMPILE_FROM).then_some(0))
    }

    /// Number and value of each option that is set and changes the code.
    fn scalars(&self) -> impl Iterator<Item = (u32, u32)> {
        [
            (option::OPTIMIZATION_LEVEL, self.optimization.map(u32::from)),
            (option::MAX_REGISTERS, self.max_registers),
            (option::GENERATE_LINE_INFO, self.line_info.then_some(1)),
            (option::GENERATE_DEBUG_INFO, self.debug.then_some(1)),
            (
                option::CACHE_MODE,
                self.cache_mode.map(|mode| match mode {
                    CacheMode::L2Only => 1,
                    CacheMode::L1 => 2,
                }),
            ),
            (option::TARGET, self.target.map(target_number)),
            (option::THREADS_PER_BLOCK, self.threads_per_block),
            (
                option::POSITION_INDEPENDENT_CODE,
                self.position_independent.then_some(1),
            ),
            (option::MIN_CTA_PER_SM, self.min_blocks_per_multiprocessor),
            (option::MAX_THREADS_PER_BLOCK, self.max_threads_per_block),
            (
                option::OVERRIDE_DIRECTIVE_VALUES,
                self.override_directives.then_some(1),
            ),
        ]
        .into_iter()
        .filter_map(|(option, value)| Some((option, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_numbered() {
        let number = |text: &str| target_number(text.parse().unwrap());
        assert_eq!(number("sm_90"), 90);
        assert_eq!(number("sm_90a"), 0x1_0000 + 90);
        assert_eq!(number("sm_120f"), 0x2_0000 + 120);
    }

    #[test]
    fn keys_differ_where_the_code_may() {
        let plain = JitOptions::default();
        let all = [
            plain,
            JitOptions {
                optimization: Some(0),
                ..plain
            },
            JitOptions {
                optimization: Some(1),
                ..plain
            },
            JitOptions {
                max_registers: Some(1),
                ..plain
            },
            JitOptions {
                line_info: true,
                ..plain
            },
            JitOptions {
                debug: true,
                ..plain
            },
            JitOptions {
                cache_mode: Some(CacheMode::L1),
                ..plain
            },
            JitOptions {
                cache_mode: Some(CacheMode::L2Only),
                ..plain
            },
            JitOptions {
                target: "sm_90".parse().ok(),
                ..plain
            },
            JitOptions {
                target: "sm_90a".parse().ok(),
                ..plain
            },
        ];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(one.key_bytes() == other.key_bytes(), i == j, "{i} {j}");
            }
        }
        let same_code = JitOptions {
            verbose: true,
            threads: Some(0),
            ..plain
        };
        assert_eq!(same_code.key_bytes(), plain.key_bytes());
    }

    #[test]
    fn large_inputs_are_compiled_on_all_cores() {
        let plain = JitOptions::default();
        assert_eq!(plain.threads_for(7_000), None);
        assert_eq!(plain.threads_for(3_500_000), Some(0));
        for threads in [0, 1, 4] {
            let asked = JitOptions {
                threads: Some(threads),
                ..plain
            };
            for bytes in [7_000, 3_500_000] {
                assert_eq!(asked.threads_for(bytes), Some(threads));
            }
        }
    }
}
