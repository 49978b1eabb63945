//! Which of the images at hand is loaded, and why.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::{LoadError, Source};
use crate::driver::{self, DriverKind};
use image::{self, EntryKind, Image, ImageError, JitPolicy, NotATarget, Place, PtxText, Target};

/// What is handed on from the choice of an image.
pub(super) enum Chosen<'a> {
    Binary(Cow<'a, [u8]>),
    Ptx(Cow<'a, str>),
}

/// Chooses what a device of `driver` and `target` takes. `driver_version` is as
/// `cuDriverGetVersion` gives it.
pub(super) fn choose<'a>(
    driver: DriverKind,
    driver_version: u32,
    target: &str,
    policy: JitPolicy,
    source: &Source<'a>,
    image: &Image<'a>,
) -> Result<(Chosen<'a>, String), LoadError> {
    if driver == DriverKind::Cpu {
        return choose_for_cpu(source, image, policy);
    }
    if let Image::Cpu(_) = image {
        return Err(LoadError::ForTheCpu {
            name: source.name.to_owned(),
        });
    }
    // Every name that a driver's device can have is one of an architecture.
    let target: Target = target
        .parse()
        .map_err(|error: NotATarget| driver::Error::BadImage(error.to_string()))?;
    let selection =
        image::select(std::slice::from_ref(image), target, policy).map_err(|error| {
            LoadError::NothingFits {
                name: source.name.to_owned(),
                source: error,
            }
        })?;
    let chosen = place(source, image, selection.place)?;
    let head = match image {
        Image::Ptx(ptx) => Some(ptx.clone()),
        _ => None,
    };
    readable(driver_version, source, chosen, head, selection.reason)
}

/// PTX under a `.version` that the driver reads, where its own is newer and it
/// uses nothing that is. Its `head` may be known.
fn readable<'a>(
    driver_version: u32,
    source: &Source<'_>,
    chosen: Chosen<'a>,
    head: Option<PtxText<'_>>,
    reason: String,
) -> Result<(Chosen<'a>, String), LoadError> {
    let Chosen::Ptx(text) = &chosen else {
        return Ok((chosen, reason));
    };
    let Some(ptx) = head.or_else(|| PtxText::read(text)) else {
        return Ok((chosen, reason));
    };
    match (ptx.for_driver(driver_version), ptx.version) {
        (Ok(Some(lowered)), Some(version)) => {
            let newest = image::newest_ptx(driver_version).unwrap_or(version);
            let reason = format!("{reason}, its .version lowered from {version} to {newest}");
            Ok((Chosen::Ptx(lowered.into()), reason))
        }
        (Err(error), _) => Err(LoadError::PtxUsesNewer {
            name: source.name.to_owned(),
            source: error,
        }),
        _ => Ok((chosen, reason)),
    }
}

/// The CPU device compiles PTX for any architecture.
fn choose_for_cpu<'a>(
    source: &Source<'a>,
    image: &Image<'a>,
    policy: JitPolicy,
) -> Result<(Chosen<'a>, String), LoadError> {
    match image {
        Image::Cpu(bytes) => Ok((
            Chosen::Binary((*bytes).into()),
            "compiled for the CPU device".into(),
        )),
        Image::Ptx(_) | Image::Fatbin(_) if policy.disable_ptx => Err(LoadError::JitDisabled {
            name: source.name.to_owned(),
        }),
        Image::Ptx(ptx) => {
            let target = ptx
                .target
                .map_or(String::new(), |target| format!(" for {target}"));
            Ok((
                Chosen::Ptx(ptx.source.clone()),
                format!("PTX{target}: the only image"),
            ))
        }
        Image::Fatbin(fatbin) => {
            let newest = fatbin
                .entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.kind == EntryKind::Ptx)
                .max_by_key(|(index, entry)| (entry.target, Reverse(*index)));
            let Some((index, entry)) = newest else {
                return Err(no_ptx(source));
            };
            let at = Place {
                image: 0,
                entry: Some(index),
            };
            let reason = format!("PTX for {}: the newest PTX", entry.target);
            Ok((place(source, image, at)?, reason))
        }
        _ => Err(no_ptx(source)),
    }
}

fn no_ptx(source: &Source<'_>) -> LoadError {
    LoadError::NoPtx {
        name: source.name.to_owned(),
    }
}

/// The bytes of the image at `place`.
fn place<'a>(
    source: &Source<'a>,
    image: &Image<'a>,
    place: Place,
) -> Result<Chosen<'a>, LoadError> {
    match image {
        Image::Ptx(ptx) => Ok(Chosen::Ptx(ptx.source.clone())),
        Image::Cubin(cubin) => Ok(Chosen::Binary(cubin.bytes.into())),
        Image::Cpu(bytes) => Ok(Chosen::Binary((*bytes).into())),
        Image::Fatbin(fatbin) => {
            let unknown = |why: &str| LoadError::Image {
                name: source.name.to_owned(),
                source: ImageError::Unknown(why.to_owned()),
            };
            let entry = place
                .entry
                .and_then(|index| fatbin.entries.get(index))
                .ok_or_else(|| unknown("its choice is out of range"))?;
            let failed = |error| LoadError::Image {
                name: source.name.to_owned(),
                source: error,
            };
            match entry.kind {
                EntryKind::Ptx => entry.ptx().map(Chosen::Ptx).map_err(failed),
                _ => entry.unpack().map(Chosen::Binary).map_err(failed),
            }
        }
    }
}
