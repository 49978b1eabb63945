//! Architectures such as `sm_90a`, and their compatibility.

use std::fmt;
use std::str::FromStr;

use ptx::isa::target;
pub use ptx::isa::target::NotATarget;

/// An architecture of NVIDIA GPUs, as named by `.target` and compilers.
///
/// ```
/// use ptxkit_image::Target;
///
/// let device: Target = "sm_90a".parse().unwrap();
/// let older: Target = "sm_80".parse().unwrap();
/// assert!(older.ptx_runs_on(device));
/// assert!(!older.binary_runs_on(device));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Ten times the major version plus the minor: 90, 120.
    pub number: u32,
    /// The suffix: `a`, `f` or none.
    pub suffix: Suffix,
}

/// The features that code for a target may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suffix {
    /// Only features of all later architectures: its PTX runs on these.
    #[default]
    None,
    /// `f`: also features of the family, that is, of one major version.
    Family,
    /// `a`: also features of only this architecture.
    Architecture,
}

impl Target {
    /// The target `sm_` with this number and suffix.
    pub const fn new(number: u32, suffix: Suffix) -> Target {
        Target { number, suffix }
    }

    /// The major version: 9 for 90. That of sm_101 is 11, since it was renamed to sm_110.
    pub fn major(self) -> u32 {
        u32::from(self.in_ptx().architecture()) / 10
    }

    /// Whether PTX for this target can be compiled for `device`.
    pub fn ptx_runs_on(self, device: Target) -> bool {
        self.in_ptx().compiles_for(device.in_ptx())
    }

    /// Whether a cubin for this target runs on `device`.
    pub fn binary_runs_on(self, device: Target) -> bool {
        self.major() == device.major() && self.ptx_runs_on(device)
    }

    fn in_ptx(self) -> target::Target {
        target::Target {
            // A file may have any number: no architecture has the largest.
            number: u16::try_from(self.number).unwrap_or(u16::MAX),
            suffix: match self.suffix {
                Suffix::None => target::Suffix::None,
                Suffix::Family => target::Suffix::Family,
                Suffix::Architecture => target::Suffix::Specific,
            },
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.suffix {
            Suffix::None => "",
            Suffix::Family => "f",
            Suffix::Architecture => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

impl From<target::Target> for Target {
    fn from(target::Target { number, suffix }: target::Target) -> Target {
        let suffix = match suffix {
            target::Suffix::None => Suffix::None,
            target::Suffix::Family => Suffix::Family,
            target::Suffix::Specific => Suffix::Architecture,
        };
        Target::new(number.into(), suffix)
    }
}

impl FromStr for Target {
    type Err = NotATarget;

    /// Parses `sm_90a`, `compute_90a` or `90a`.
    fn from_str(text: &str) -> Result<Target, NotATarget> {
        text.parse().map(|target: target::Target| target.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_parsed_and_printed() {
        for name in ["sm_52", "sm_90a", "sm_120f"] {
            assert_eq!(target(name).to_string(), name);
        }
        for name in ["90a", "compute_90a"] {
            assert_eq!(target(name).to_string(), "sm_90a");
        }
        for invalid_field in [
            "", "sm_", "sm_a", "90b", "sm_90b", "sm_99999", "sm_+9", "sm_é",
        ] {
            assert!(invalid_field.parse::<Target>().is_err(), "{invalid_field}");
        }
    }

    #[test]
    fn compatibility() {
        // (image, device, as PTX, as a binary)
        for (image, device, ptx, binary) in [
            ("sm_80", "sm_80", true, true),
            ("sm_80", "sm_89", true, true),
            ("sm_80", "sm_90", true, false),
            ("sm_89", "sm_80", false, false),
            ("sm_90a", "sm_90a", true, true),
            ("sm_90a", "sm_100a", false, false),
            ("sm_100f", "sm_103a", true, true),
            ("sm_100f", "sm_120a", false, false),
            ("sm_100a", "sm_103a", false, false),
            ("sm_101a", "sm_110", true, true),
            ("sm_101f", "sm_110a", true, true),
            ("sm_101f", "sm_103", false, false),
            ("sm_101", "sm_103", true, false),
            ("sm_110a", "sm_101", true, true),
        ] {
            let (image, device) = (target(image), target(device));
            assert_eq!(image.ptx_runs_on(device), ptx, "{image} on {device}");
            assert_eq!(image.binary_runs_on(device), binary, "{image} on {device}");
        }
    }
}
