//! `--arch`: the targets to compile for.

use std::collections::HashSet;
use std::str::FromStr;

use ptxkit::driver::Driver;
use ptxkit::image::{Suffix, Target};

use crate::compiler::Compiler;
use crate::errors::of_driver;
use terminal::failure::Failure;

/// A value of `--arch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// `sm_90`
    One(Target),
    /// `all`: each target of the compiler on which the PTX runs.
    All,
    /// `all-major`: the first of these for each major version.
    AllMajor,
    /// `native`: the GPUs of this machine.
    Native,
}

impl FromStr for Arch {
    type Err = String;

    fn from_str(text: &str) -> Result<Arch, String> {
        Ok(match text {
            "all" => Arch::All,
            "all-major" => Arch::AllMajor,
            "native" => Arch::Native,
            _ => Arch::One(
                text.parse()
                    .map_err(|error| format!("{error}, or all, all-major or native"))?,
            ),
        })
    }
}

/// The targets of the GPUs of this machine.
///
/// # Errors
/// There is none.
pub fn native() -> Result<Vec<Target>, Failure> {
    let none = |error: &dyn std::fmt::Display| {
        Failure::new(format!("--arch native: {error}"))
            .help("name the targets, such as --arch sm_90, or write --arch all-major")
    };
    let devices = Driver::nvidia()
        .and_then(|driver| driver.devices())
        .map_err(|error| none(&error))?;
    let mut targets = Vec::new();
    for device in &devices {
        let target = device.target().map_err(|error| of_driver(&error))?;
        targets.extend(target.parse::<Target>().ok());
    }
    if targets.is_empty() {
        return Err(none(&"this machine has no GPU"));
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(targets)
}

/// The targets of a PTX file, in order. `native` are the GPUs of this machine, if they are needed.
///
/// # Errors
/// The compiler has no target on which the PTX runs.
pub fn targets(
    wanted: &[Arch],
    compiler: &Compiler,
    ptx: Option<Target>,
    native: &[Target],
) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for arch in wanted {
        match arch {
            Arch::One(target) => targets.push(*target),
            Arch::Native => targets.extend_from_slice(native),
            Arch::All | Arch::AllMajor => {
                let known = compiler.targets()?;
                let mut fitting = fitting(&known, ptx);
                if fitting.is_empty() {
                    let ptx =
                        ptx.map_or("PTX without .target".into(), |ptx| format!("PTX for {ptx}"));
                    return Err(
                        Failure::new(format!("the compiler has no target for {ptx}"))
                            .help("name a target with --arch"),
                    );
                }
                if *arch == Arch::AllMajor {
                    fitting = first_of_major(&fitting);
                }
                targets.append(&mut fitting);
            }
        }
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(targets)
}

/// The first target of each major version. They are sorted by number, and sm_101 is of version 11.
fn first_of_major(targets: &[Target]) -> Vec<Target> {
    let mut seen = HashSet::new();
    let mut first = targets.to_vec();
    first.retain(|target| seen.insert(target.major()));
    first
}

/// The targets on which the PTX runs. PTX for features of one family or architecture runs on those
/// with the same suffix.
fn fitting(known: &[Target], ptx: Option<Target>) -> Vec<Target> {
    let suffix = ptx.map_or(Suffix::None, |ptx| ptx.suffix);
    let fits = |target: &&Target| {
        target.suffix == suffix && ptx.is_none_or(|ptx| ptx.ptx_runs_on(**target))
    };
    known.iter().filter(fits).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_major_version_has_one_target() {
        let targets: Vec<Target> = ["sm_86", "sm_89", "sm_100", "sm_101", "sm_103", "sm_120"]
            .map(|name| name.parse().unwrap())
            .to_vec();
        let numbers: Vec<u32> = first_of_major(&targets)
            .iter()
            .map(|target| target.number)
            .collect();
        assert_eq!(numbers, [86, 100, 101, 120]);
    }

    #[test]
    fn targets_fit_the_ptx() {
        let known: Vec<Target> = [
            "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_103f",
        ]
        .map(|name| name.parse().unwrap())
        .to_vec();
        let names = |ptx: &str| {
            let found = fitting(&known, ptx.parse().ok());
            let names: Vec<String> = found.iter().map(Target::to_string).collect();
            names.join(" ")
        };
        assert_eq!(names("sm_50"), "sm_75 sm_80 sm_90 sm_100");
        assert_eq!(names("sm_86"), "sm_90 sm_100");
        assert_eq!(names("sm_90a"), "sm_90a");
        assert_eq!(names("sm_100f"), "sm_100f sm_103f");
        assert_eq!(names("sm_121a"), "");
    }
}
