//! `ptxkit isa --targets` and `--features`: the compute capabilities.

use std::fmt::Write as _;

use ptxkit::occupancy::Multiprocessor;
use ptxkit::ptx::isa::target::{Suffix, Target};
use ptxkit::ptx::{CheckOptions, check_with, read, version};
use serde::Serialize;

/// A target, and the limits of its multiprocessor where they are published.
#[derive(Serialize)]
pub struct Described {
    target: String,
    ptx: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
}

#[derive(Serialize)]
struct Limits {
    warps: u32,
    blocks: u32,
    registers: u32,
    registers_of_block: u32,
    shared: u32,
    shared_of_block: u32,
    shared_reserved: u32,
    carveouts: &'static [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    barriers: Option<u32>,
}

impl From<&Multiprocessor> for Limits {
    fn from(of: &Multiprocessor) -> Limits {
        Limits {
            warps: of.warps,
            blocks: of.blocks,
            registers: of.registers,
            registers_of_block: of.registers_of_block,
            shared: of.shared,
            shared_of_block: of.shared_of_block,
            shared_reserved: of.reserved,
            carveouts: of.carveouts,
            barriers: of.barriers,
        }
    }
}

/// All targets of which limits are published, and those of NVIDIA's compiler from sm_50 on.
pub fn targets() -> Vec<Described> {
    let targets = Target::all().filter(|target| target.number >= 50);
    targets
        .map(|target| Described {
            target: target.to_string(),
            ptx: target
                .since()
                .map_or_else(String::new, |since| since.to_string()),
            limits: Multiprocessor::of(target.number).map(Limits::from),
        })
        .collect()
}

/// The targets as a table. Those with a suffix have the limits of the one without.
pub fn targets_text(targets: &[Described]) -> String {
    const K: u32 = 1024;
    let mut out = String::from(
        "target   PTX  warps  blocks  registers  of a block  shared KiB  of a block  barriers  carveouts KiB\n",
    );
    for target in targets {
        // Writing to a String cannot fail.
        let _ = write!(out, "{:<9}{:<5}", target.target, target.ptx);
        let has_suffix = target.target.ends_with(['a', 'f']);
        let _ = match &target.limits {
            Some(_) if has_suffix => writeln!(out),
            None => writeln!(out, "not published"),
            Some(limits) => {
                let barriers = limits.barriers.map(|barriers| barriers.to_string());
                let sizes: Vec<String> = limits.carveouts.iter().map(u32::to_string).collect();
                let line = format!(
                    "{:<7}{:<8}{:<11}{:<12}{:<12}{:<12}{:<10}{}",
                    limits.warps,
                    limits.blocks,
                    limits.registers,
                    limits.registers_of_block,
                    limits.shared / K,
                    limits.shared_of_block / K,
                    barriers.as_deref().unwrap_or("–"),
                    if sizes.is_empty() {
                        "–".to_owned()
                    } else {
                        sizes.join(" ")
                    },
                );
                writeln!(out, "{line}")
            }
        };
    }
    out.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// A feature, and who has it.
#[derive(Serialize)]
pub struct Feature {
    name: &'static str,
    instruction: &'static str,
    ptx: String,
    targets: Vec<String>,
    /// Whether these are one target and all later ones.
    from_there_on: bool,
}

/// The features of `features.txt`, by the table of instructions.
pub fn features() -> Vec<Feature> {
    let lines = include_str!("features.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.filter_map(|row| {
        let (name, instruction) = row.split_once('|')?;
        Some(feature(name.trim(), instruction.trim()))
    })
    .collect()
}

fn feature(name: &'static str, instruction: &'static str) -> Feature {
    // Registers of 128 bits are a feature themselves, so only those that are named are declared.
    let registers = [
        (".pred", "%p"),
        (".b16", "%h"),
        (".b32", "%r"),
        (".b64", "%l"),
        (".b128", "%q"),
        (".f32", "%f"),
        (".f64", "%d"),
    ];
    let named = registers
        .iter()
        .filter(|(_, name)| instruction.contains(name));
    let declared: String = named
        .map(|(ty, name)| format!("\t.reg {ty} {name};\n"))
        .collect();
    // Features are no newer than the newest target.
    let newest = Target::all()
        .filter_map(Target::since)
        .max()
        .unwrap_or_default();
    let source = format!(
        ".version {newest}\n.target sm_50\n.address_size 64\n\
         .entry k()\n{{\n{declared}\t{instruction}\n}}\n"
    );
    let module = read(&source).module;
    let has = |target: Target| {
        let options = CheckOptions {
            target: Some(target),
            ..CheckOptions::default()
        };
        check_with(&module, &source, &options).is_empty()
    };
    let all: Vec<Target> = Target::all().filter(|target| target.number >= 50).collect();
    let targets: Vec<Target> = all.iter().copied().filter(|target| has(*target)).collect();
    let first = targets.first().copied();
    let ptx = first.and_then(|first| version::lowest_version(&module, &source, first));
    // Targets that have left the language since are no gap.
    let missing = |target: &Target| {
        first.is_some_and(|first| target.number >= first.number && target.suffix == Suffix::None)
            && !targets.contains(target)
    };
    Feature {
        name,
        instruction,
        ptx: ptx.map_or_else(String::new, |(version, _)| version.to_string()),
        from_there_on: !all.iter().any(missing) && !targets.is_empty(),
        targets: targets.iter().map(Target::to_string).collect(),
    }
}

/// The features as a table.
pub fn features_text(features: &[Feature]) -> String {
    let mut out = format!("{:<35}{:<5}targets\n", "feature", "PTX");
    for feature in features {
        let targets = match (feature.from_there_on, feature.targets.first()) {
            (true, Some(first)) => format!("{first} and later"),
            _ => feature.targets.join(" "),
        };
        let _ = writeln!(out, "{:<35}{:<5}{targets}", feature.name, feature.ptx);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_target() {
        let features = features();
        assert!(features.len() > 30);
        for feature in &features {
            assert!(
                !feature.targets.is_empty() && !feature.ptx.is_empty(),
                "{}",
                feature.name
            );
        }
    }
}
