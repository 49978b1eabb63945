//! Selects the image for a device by the rules of the driver, on any machine.
//!
//! Images that cannot run are dropped. The order of preference of the others: binaries before PTX,
//! the closest architecture, binaries without bit 24 in the header, the first. But of PTX for the
//! device's own architecture without a suffix, the last is selected. There is no fallback.

use std::cmp::Reverse;
use std::fmt;

use super::entry::EntryKind;
use super::{Image, Suffix, Target};

/// The user's settings for just-in-time compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitPolicy {
    /// `CUDA_FORCE_PTX_JIT`: binaries are ignored.
    pub force_ptx: bool,
    /// `CUDA_DISABLE_PTX_JIT`: PTX is ignored.
    pub disable_ptx: bool,
}

/// The position of an image in the input of [`select`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The index of the image, from 0.
    pub image: usize,
    /// The entry of a fatbin.
    pub entry: Option<usize>,
}

/// The image selected for a device, and the reasons against the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The position of the selected image.
    pub place: Place,
    /// The selected image and the reason, for messages: `PTX for sm_80: the only image`.
    pub reason: String,
    /// All other images, each with the reason.
    pub rejected: Vec<(Place, String)>,
}

/// The error if no image can run on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingFits {
    /// The device.
    pub device: Target,
    /// All images, each with the reason why it cannot run.
    pub rejected: Vec<(Place, String)>,
}

impl fmt::Display for NothingFits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no image runs on {}", self.device)?;
        for (place, why) in &self.rejected {
            write!(f, "\n  image {}", place.image)?;
            if let Some(entry) = place.entry {
                write!(f, ", entry {entry}")?;
            }
            write!(f, ": {why}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NothingFits {}

struct Candidate {
    place: Place,
    name: String,
    kind: EntryKind,
    target: Target,
    deferred: bool,
}

/// Selects the image for `device`.
///
/// ```
/// use ptxkit_image::{self as image, JitPolicy};
///
/// let old = image::open(b".version 7.0\n.target sm_70\n").unwrap();
/// let new = image::open(b".version 8.0\n.target sm_90\n").unwrap();
/// let device = "sm_89".parse().unwrap();
/// let chosen = image::select(&[old, new], device, JitPolicy::default()).unwrap();
/// assert_eq!(chosen.place.image, 0);
/// assert_eq!(chosen.rejected[0].1, "PTX for sm_90 needs a newer device than sm_89");
/// ```
pub fn select(
    images: &[Image<'_>],
    device: Target,
    policy: JitPolicy,
) -> Result<Selection, NothingFits> {
    let candidates = candidates(images);
    let mut fitting = Vec::new();
    let mut rejected = Vec::new();
    for candidate in &candidates {
        match incompatibility(candidate, device, policy) {
            None => fitting.push(candidate),
            Some(why) => rejected.push((candidate.place, why)),
        }
    }
    let Some(&taken) = fitting
        .iter()
        .max_by_key(|candidate| rank(candidate, device))
    else {
        return Err(NothingFits { device, rejected });
    };
    for other in fitting.iter().filter(|other| other.place != taken.place) {
        rejected.push((
            other.place,
            format!("{}: {}", other.name, rejection_reason(other, taken, device)),
        ));
    }
    rejected.sort();
    let why = if candidates.len() == 1 {
        "the only image"
    } else if fitting.len() == 1 {
        "the only image that fits"
    } else {
        "the closest match"
    };
    Ok(Selection {
        place: taken.place,
        reason: format!("{}: {why}", taken.name),
        rejected,
    })
}

fn candidates(images: &[Image<'_>]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (image, content) in images.iter().enumerate() {
        let mut add = |entry, kind, name: &str, target, deferred| {
            candidates.push(Candidate {
                place: Place { image, entry },
                name: format!("{name} for {target}"),
                kind,
                target,
                deferred,
            });
        };
        match content {
            // The compiler reports a missing target.
            Image::Ptx(ptx) => {
                let target = ptx.target.unwrap_or(Target::new(10, Suffix::None));
                add(None, EntryKind::Ptx, "PTX", target, false);
            }
            Image::Cubin(cubin) => {
                add(None, EntryKind::Elf, "cubin", cubin.target, false);
            }
            Image::Fatbin(fatbin) => {
                for (index, entry) in fatbin.entries.iter().enumerate() {
                    let name = match entry.kind {
                        EntryKind::Ptx => "PTX",
                        EntryKind::Elf => "cubin",
                        EntryKind::LtoIr => "LTO-IR",
                        EntryKind::Index => "an index",
                        EntryKind::RelocatablePtx => "relocatable PTX",
                        EntryKind::TileIr => "tile IR",
                        EntryKind::Cpu | EntryKind::Other(_) => "an entry of unknown kind",
                    };
                    let deferred = entry.deferred;
                    add(Some(index), entry.kind, name, entry.target, deferred);
                }
            }
            // It is compiled for the CPU device, which loads it directly.
            Image::Cpu(_) => {}
        }
    }
    candidates
}

/// Why a candidate cannot run on the device.
fn incompatibility(candidate: &Candidate, device: Target, policy: JitPolicy) -> Option<String> {
    let Candidate {
        name, kind, target, ..
    } = candidate;
    match kind {
        EntryKind::Elf if policy.force_ptx => {
            Some(format!("{name} is ignored: CUDA_FORCE_PTX_JIT is set"))
        }
        EntryKind::Ptx if policy.disable_ptx => {
            Some(format!("{name} is ignored: CUDA_DISABLE_PTX_JIT is set"))
        }
        EntryKind::Elf if !target.binary_runs_on(device) => {
            Some(format!("{name} does not run on {device}"))
        }
        EntryKind::Ptx if target.number > device.number => {
            Some(format!("{name} needs a newer device than {device}"))
        }
        EntryKind::Ptx if !target.ptx_runs_on(device) => Some(format!(
            "{name} is specific to that architecture and does not run on {device}"
        )),
        EntryKind::Elf | EntryKind::Ptx => None,
        _ => Some(format!("{name} cannot be loaded by itself")),
    }
}

/// Greater is better.
fn rank(candidate: &Candidate, device: Target) -> impl Ord + use<> {
    let binary = candidate.kind == EntryKind::Elf;
    let order = if last_of_equals(candidate, device) {
        (Some(candidate.place), None)
    } else {
        (None, Some(Reverse(candidate.place)))
    };
    (binary, candidate.target, !candidate.deferred, order)
}

/// Whether the driver selects the last of such images. Undocumented: observed for version 13.0 with
/// all orders of up to four images.
fn last_of_equals(candidate: &Candidate, device: Target) -> bool {
    candidate.kind == EntryKind::Ptx && candidate.target == Target::new(device.number, Suffix::None)
}

fn rejection_reason(other: &Candidate, taken: &Candidate, device: Target) -> &'static str {
    if other.kind != taken.kind {
        "binaries are preferred"
    } else if other.target != taken.target {
        "another is closer to the device"
    } else if other.deferred != taken.deferred {
        "another for the same architecture has no flag bit 24"
    } else if taken.kind == EntryKind::Elf {
        "the first of equal binaries is selected"
    } else if last_of_equals(taken, device) {
        "the last of equal PTX for the device's own architecture is selected"
    } else {
        "the first of equal PTX is selected"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Fatbin, PtxText};

    fn ptx(target: &str) -> Image<'static> {
        Image::Ptx(PtxText {
            source: "".into(),
            original: b"",
            version: None,
            target: target.parse().ok(),
        })
    }

    fn cubin(target: &str, deferred: bool) -> Image<'static> {
        let target = target.parse().unwrap();
        let entry = Entry {
            deferred,
            ..Entry::whole(EntryKind::Elf, target, &[], 0)
        };
        Image::Fatbin(Fatbin {
            bytes: &[],
            entries: vec![entry],
        })
    }

    fn taken(images: &[Image<'_>], device: &str) -> Option<usize> {
        select(images, device.parse().unwrap(), JitPolicy::default())
            .ok()
            .map(|selection| selection.place.image)
    }

    #[test]
    fn the_rules_apply_in_order() {
        let images = [
            ptx("sm_80"),
            cubin("sm_80", true),
            cubin("sm_80", false),
            cubin("sm_80", false),
            cubin("sm_90", false),
            ptx("sm_90"),
            ptx("sm_90"),
            ptx("sm_90a"),
        ];
        assert_eq!(taken(&images, "sm_89"), Some(2));
        assert_eq!(taken(&images, "sm_90"), Some(4));
        assert_eq!(taken(&images, "sm_100"), Some(5));
        assert_eq!(taken(&images[5..7], "sm_90"), Some(1));
        assert_eq!(taken(&images, "sm_75"), None);
        assert_eq!(
            taken(&[ptx("sm_80"), cubin("sm_86", false)], "sm_80"),
            Some(0)
        );
    }

    #[test]
    fn the_environment_removes_kinds() {
        let images = [cubin("sm_90", false), ptx("sm_90")];
        let device = "sm_90".parse().unwrap();
        let force = JitPolicy {
            force_ptx: true,
            ..JitPolicy::default()
        };
        assert_eq!(select(&images, device, force).unwrap().place.image, 1);
        let neither = JitPolicy {
            force_ptx: true,
            disable_ptx: true,
        };
        let error = select(&images, device, neither).unwrap_err().to_string();
        assert!(error.contains("CUDA_FORCE_PTX_JIT") && error.contains("CUDA_DISABLE_PTX_JIT"));
    }

    #[test]
    fn every_rejected_image_has_a_reason() {
        let images = [ptx("sm_80"), cubin("sm_90", false), ptx("sm_100")];
        let device = "sm_90".parse().unwrap();
        let selection = select(&images, device, JitPolicy::default()).unwrap();
        let reasons: Vec<&str> = selection
            .rejected
            .iter()
            .map(|(_, why)| why.as_str())
            .collect();
        assert_eq!(
            reasons,
            [
                "PTX for sm_80: binaries are preferred",
                "PTX for sm_100 needs a newer device than sm_90"
            ]
        );
    }
}
