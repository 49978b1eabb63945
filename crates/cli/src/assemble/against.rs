//! `--deny`, `--save` and `--against`: resources as a check.

use std::fmt;
use std::path::Path;

use crate::written;
use input::ShowName as _;
use serde::{Deserialize, Serialize};

use super::resources::Resources;
use terminal::failure::Failure;

/// What `--deny` rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Denied {
    /// Kernels that spill registers to local memory
    Spills,
}

/// The kernels of one file for one target, in the file of `--save`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub source: String,
    pub target: String,
    pub kernels: Vec<Resources>,
}

/// A resource of a kernel that is too large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kernel: String,
    pub resource: &'static str,
    pub value: u64,
    /// The value of the baseline; `null` for what `--deny` rejects.
    pub baseline: Option<u64>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kernel, resource, value) = (&self.kernel, self.resource, self.value);
        match self.baseline {
            Some(baseline) => write!(f, "`{kernel}`: {resource} grew from {baseline} to {value}"),
            None => write!(f, "`{kernel}`: {value} {resource}, which --deny rejects"),
        }
    }
}

/// The kernels that `--deny` rejects.
///
/// # Errors
/// The code does not say whether a kernel spills.
pub fn denied(rules: &[Denied], kernels: &[Resources]) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    if !rules.contains(&Denied::Spills) {
        return Ok(findings);
    }
    for kernel in kernels {
        let Some(value) = kernel.spills else {
            return Err(Failure::new(format!(
                "`{}`: whether it spills is not known, because CUDA before 12.6 does not mark spills",
                kernel.name
            ))
            .help("compile with a newer ptxas (--ptxas), or without --deny spills"));
        };
        if value > 0 {
            findings.push(Finding {
                kernel: kernel.name.clone(),
                resource: "spills",
                value,
                baseline: None,
            });
        }
    }
    Ok(findings)
}

/// Writes resources for a later `--against`, in lines that a diff shows well.
///
/// # Errors
/// The file cannot be written.
pub fn save(path: &Path, all: &[Saved]) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(all).unwrap_or_default() + "\n";
    written::replace(path, text.as_bytes())
        .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))
}

/// The resources of an earlier `--save`, or of `--format json`.
pub struct Baseline {
    name: String,
    saved: Vec<Saved>,
}

impl Baseline {
    /// # Errors
    /// The file cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Baseline, Failure> {
        let name = path.shown().to_string();
        let text = input::read(path)
            .map_err(|error| Failure::new(format!("{name}: {error}")).help("--save writes it"))?;
        let saved = serde_json::from_slice(&text).map_err(|error| {
            Failure::new(format!("{name} is not a file of resources: {error}"))
                .help("--save writes such a file")
        })?;
        Ok(Baseline { name, saved })
    }

    /// The error if none of the files is in the baseline, so that nothing was compared.
    pub fn useless(&self) -> Failure {
        Failure::new(format!("{} has none of these files and targets", self.name))
            .help("write it with --save, with the same paths and --arch")
    }

    /// The kernels of this file for this target.
    pub fn kernels(&self, source: &str, target: &str) -> Option<&[Resources]> {
        let plain = |source: &str| source.trim_start_matches("./").to_owned();
        let of = |saved: &&Saved| plain(&saved.source) == plain(source) && saved.target == target;
        self.saved.iter().find(of).map(|saved| &*saved.kernels)
    }

    /// What grew, and notes about kernels without a counterpart and smaller resources.
    pub fn compare(
        &self,
        source: &str,
        target: &str,
        now: &[Resources],
    ) -> (Vec<Finding>, Vec<String>) {
        let name = &self.name;
        let Some(before) = self.kernels(source, target) else {
            return (
                Vec::new(),
                vec![format!("not in {name}: update it with --save")],
            );
        };
        let (mut findings, mut notes) = (Vec::new(), Vec::new());
        for kernel in now {
            let Some(old) = before.iter().find(|old| old.name == kernel.name) else {
                notes.push(format!("`{}` is not in {name}", kernel.name));
                continue;
            };
            for ((resource, value), (_, baseline)) in kernel.values().into_iter().zip(old.values())
            {
                let (Some(value), Some(baseline)) = (value, baseline) else {
                    continue;
                };
                if value > baseline {
                    findings.push(Finding {
                        kernel: kernel.name.clone(),
                        resource,
                        value,
                        baseline: Some(baseline),
                    });
                } else if value < baseline {
                    let kernel = &kernel.name;
                    notes.push(format!(
                        "`{kernel}`: {resource} fell from {baseline} to {value}"
                    ));
                }
            }
        }
        for old in before {
            if !now.iter().any(|kernel| kernel.name == old.name) {
                notes.push(format!("`{}` is only in {name}", old.name));
            }
        }
        (findings, notes)
    }
}
