//! `--arch`: the targets to compile for.

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
    let devices = Driver::nvidia()
        .and_then(|driver| driver.devices())
        .map_err(|error| of_driver(&error))?;
    let mut targets = Vec::new();
    for device in &devices {
        let target = device.target().map_err(|error| of_driver(&error))?;
        targets.extend(target.parse::<Target>().ok());
    }
    if targets.is_empty() {
        return Err(Failure::new("--arch native: this machine has no GPU")
            .help("name the targets with --arch"));
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
                    fitting.dedup_by_key(|target| target.major());
                }
                targets.append(&mut fitting);
            }
        }
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(targets)
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
