//! What can be asked of the compiler.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::driver::log::{JitOptionList, option};

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
}

/// `CU_JIT_CACHE_MODE`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Without L1 (`-dlcm=cg`).
    L2Only,
    /// With L1 (`-dlcm=ca`).
    L1,
}

/// A compilation target, `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// 90 for `sm_90a`.
    number: u16,
    /// `a`, `f` or none.
    suffix: Option<u8>,
}

/// A word that names no target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no target: write it like sm_90 or sm_90a")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let error = || TargetError(text.to_owned());
        let rest = text.strip_prefix("sm_").ok_or_else(error)?;
        let (digits, suffix) = match rest.as_bytes().last() {
            Some(&suffix @ (b'a' | b'f')) => (&rest[..rest.len() - 1], Some(suffix)),
            _ => (rest, None),
        };
        match digits.parse() {
            Ok(number) if (2..=3).contains(&digits.len()) && !digits.starts_with('+') => {
                Ok(Target { number, suffix })
            }
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.number)?;
        self.suffix
            .map_or(Ok(()), |suffix| write!(f, "{}", suffix as char))
    }
}

impl Target {
    /// `CUjit_target`
    fn number(self) -> u32 {
        let base = match self.suffix {
            Some(b'a') => 0x1_0000,
            Some(_) => 0x2_0000,
            None => 0,
        };
        base + u32::from(self.number)
    }
}

impl JitOptions {
    /// The options that change the code, as bytes for a cache's key. Equal
    /// options give equal bytes, different ones different bytes.
    pub fn key_bytes(&self) -> Vec<u8> {
        // `verbose` changes the log only.
        let mut bytes = Vec::new();
        for (option, value) in self.scalars() {
            bytes.extend(option.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    pub(super) fn list(&self) -> JitOptionList {
        let mut list = JitOptionList::new();
        for (option, value) in self.scalars() {
            list.set(option, value);
        }
        if self.verbose {
            list.set(option::LOG_VERBOSE, 1);
        }
        list
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
            (option::TARGET, self.target.map(Target::number)),
        ]
        .into_iter()
        .filter_map(|(option, value)| Some((option, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_numbered() {
        let number = |text: &str| text.parse::<Target>().unwrap().number();
        assert_eq!(number("sm_90"), 90);
        assert_eq!(number("sm_90a"), 0x1_0000 + 90);
        assert_eq!(number("sm_120f"), 0x2_0000 + 120);
        for text in ["sm_103f", "sm_80", "sm_90a"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "sm_",
            "sm_9",
            "sm_9000",
            "sm_+9",
            "sm_90b",
            "compute_90",
            "90",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
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
        let verbose = JitOptions {
            verbose: true,
            ..plain
        };
        assert_eq!(verbose.key_bytes(), plain.key_bytes());
    }
}
