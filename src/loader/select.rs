//! Selects the image that is loaded, and says why.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::{LoadError, Loader, Source};
use crate::jit::{JitOptions, PtxCompiler};
use image::{self, EntryKind, Image, ImageError, JitPolicy, PtxText, Target, newest_ptx};
use ptx::ast::Version;

/// The image that was selected.
pub(super) struct Selected<'a> {
    pub payload: Payload<'a>,
    /// Which image it is, and why.
    pub reason: String,
}

pub(super) enum Payload<'a> {
    /// Device code, loaded as it is.
    Binary(Cow<'a, [u8]>),
    /// To be compiled.
    Ptx(SelectedPtx<'a>),
}

pub(super) struct SelectedPtx<'a> {
    text: Cow<'a, str>,
    /// `.version`
    pub version: Option<Version>,
    /// The driver's, as `cuDriverGetVersion` gives it, where it reads only older
    /// PTX than this is.
    lower_for: Option<u32>,
}

impl Loader {
    /// Selects the image of `source` that the device takes: of a source that is not
    /// trusted, PTX. PTX is not read beyond its head.
    pub(super) fn select<'a>(
        &self,
        source: &Source<'a>,
        options: &JitOptions,
    ) -> Result<Selected<'a>, LoadError> {
        let policy = self.cache().policy().jit();
        let best = self.select_with(source, options, policy)?;
        if source.is_trusted() || matches!(best.payload, Payload::Ptx(_)) {
            return Ok(best);
        }
        // A fatbin may have PTX beside its binaries.
        let only_ptx = JitPolicy {
            force_ptx: true,
            ..policy
        };
        match self.select_with(source, options, only_ptx) {
            Ok(Selected {
                payload: payload @ Payload::Ptx(_),
                reason,
            }) => Ok(Selected {
                payload,
                reason: format!("{reason}; its binaries are not trusted"),
            }),
            _ => Err(LoadError::Binary {
                name: source.name.to_owned(),
            }),
        }
    }

    fn select_with<'a>(
        &self,
        source: &Source<'a>,
        options: &JitOptions,
        policy: JitPolicy,
    ) -> Result<Selected<'a>, LoadError> {
        let image = source.open().map_err(|error| source.unreadable(error))?;
        match self.compiler()?.architecture {
            None => self.select_for_cpu(source, image, policy),
            Some(own) => {
                let target = options.target.unwrap_or(own);
                self.select_for_gpu(source, image, (target, options), policy)
            }
        }
    }

    fn select_for_gpu<'a>(
        &self,
        source: &Source<'a>,
        image: Image<'a>,
        (target, options): (Target, &JitOptions),
        policy: JitPolicy,
    ) -> Result<Selected<'a>, LoadError> {
        if let Image::Cpu(_) = image {
            return Err(LoadError::ForTheCpu {
                name: source.name.to_owned(),
            });
        }
        let selection =
            image::select(std::slice::from_ref(&image), target, policy).map_err(|error| {
                LoadError::NothingFits {
                    name: source.name.to_owned(),
                    source: error,
                }
            })?;
        let mut reason = selection.reason;
        let mut payload = payload(source, image, selection.place.entry)?;
        let driver_version = self.compiler()?.driver_version;
        if let Payload::Ptx(ptx) = &mut payload
            && let (Some(version), Some(newest)) = (ptx.version, newest_ptx(driver_version))
            && version > newest
        {
            let driver = self.context().device().driver();
            if options.compiler_for(driver, ptx.version)? == PtxCompiler::Driver {
                ptx.lower_for = Some(driver_version);
                reason += &format!(", its .version lowered from {version} to {newest}");
            } else {
                reason += ", compiled by nvptxcompiler";
            }
        }
        Ok(Selected { payload, reason })
    }

    /// The CPU device compiles PTX for any architecture.
    fn select_for_cpu<'a>(
        &self,
        source: &Source<'a>,
        image: Image<'a>,
        policy: JitPolicy,
    ) -> Result<Selected<'a>, LoadError> {
        let (entry, reason) = match &image {
            Image::Cpu(_) => (None, "compiled for the CPU device".to_owned()),
            Image::Ptx(_) | Image::Fatbin(_) if policy.disable_ptx => {
                return Err(LoadError::JitDisabled {
                    name: source.name.to_owned(),
                });
            }
            Image::Ptx(ptx) => {
                let target = ptx.target.map(|target| format!(" for {target}"));
                let target = target.unwrap_or_default();
                (None, format!("PTX{target}: the only image"))
            }
            Image::Fatbin(fatbin) => {
                let entries = fatbin.entries.iter().enumerate();
                let newest = entries
                    .filter(|(_, entry)| entry.kind == EntryKind::Ptx)
                    .max_by_key(|(index, entry)| (entry.target, Reverse(*index)));
                let Some((index, entry)) = newest else {
                    return Err(no_ptx(source));
                };
                (
                    Some(index),
                    format!("PTX for {}: the newest PTX", entry.target),
                )
            }
            _ => return Err(no_ptx(source)),
        };
        let payload = payload(source, image, entry)?;
        Ok(Selected { payload, reason })
    }
}

impl SelectedPtx<'_> {
    fn new(text: Cow<'_, str>, version: Option<Version>) -> SelectedPtx<'_> {
        SelectedPtx {
            text,
            version,
            lower_for: None,
        }
    }

    /// The text as it was selected.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text for the driver's compiler: under an older `.version` where its own
    /// is newer than the driver reads and it uses nothing newer.
    pub(super) fn to_compile(&self, name: &str) -> Result<Cow<'_, str>, LoadError> {
        let lowered = match (self.lower_for, PtxText::read(&self.text)) {
            (Some(driver_version), Some(ptx)) => ptx.for_driver(driver_version),
            _ => Ok(None),
        };
        match lowered {
            Ok(Some(lowered)) => Ok(lowered.into()),
            Ok(None) => Ok((&*self.text).into()),
            Err(error) => Err(LoadError::PtxUsesNewer {
                name: name.to_owned(),
                source: error,
            }),
        }
    }

    /// The same with another text, of the same head.
    pub(super) fn with_text<'s>(&self, text: &'s str) -> SelectedPtx<'s> {
        SelectedPtx {
            text: text.into(),
            version: self.version,
            lower_for: self.lower_for,
        }
    }

    /// Whether the text is that of the source and not a copy.
    pub(super) fn is_borrowed(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    /// The same with a text of its own, which `copy` makes.
    pub(super) fn copy(&self, copy: impl Fn(&str) -> String) -> SelectedPtx<'static> {
        SelectedPtx {
            text: copy(&self.text).into(),
            version: self.version,
            lower_for: self.lower_for,
        }
    }

    pub(super) fn into_owned(self) -> SelectedPtx<'static> {
        SelectedPtx {
            text: self.text.into_owned().into(),
            version: self.version,
            lower_for: self.lower_for,
        }
    }
}

fn no_ptx(source: &Source<'_>) -> LoadError {
    LoadError::NoPtx {
        name: source.name.to_owned(),
    }
}

/// The bytes of an image, or of the entry of a fatbin.
fn payload<'a>(
    source: &Source<'a>,
    image: Image<'a>,
    entry: Option<usize>,
) -> Result<Payload<'a>, LoadError> {
    let fatbin = match image {
        Image::Ptx(ptx) => {
            let version = ptx.version;
            return Ok(Payload::Ptx(SelectedPtx::new(ptx.source, version)));
        }
        Image::Cubin(cubin) => return Ok(Payload::Binary(cubin.bytes.into())),
        Image::Cpu(bytes) => return Ok(Payload::Binary(bytes.into())),
        Image::Fatbin(fatbin) => fatbin,
    };
    let unreadable = |error| source.unreadable(error);
    let entry = entry
        .and_then(|index| fatbin.entries.get(index))
        .ok_or_else(|| {
            let why = "the selected entry is out of range".to_owned();
            unreadable(ImageError::Unknown(why))
        })?;
    if entry.kind != EntryKind::Ptx {
        return entry.unpack().map(Payload::Binary).map_err(unreadable);
    }
    let text = entry.ptx().map_err(unreadable)?;
    let version = PtxText::read(&text).and_then(|ptx| ptx.version);
    Ok(Payload::Ptx(SelectedPtx::new(text, version)))
}
