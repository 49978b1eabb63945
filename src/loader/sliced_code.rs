//! The code of slices, for other libraries.

use std::sync::Arc;

use super::cores::{cores, on_all_cores};
use super::cut::{CompileSettings, Cut};
use super::plan::Plan;
use super::sliced::SlicedReport;
use super::{CacheUse, LoadError, Loader, Source};
use crate::driver::{Context, Error};
use crate::jit::JitOptions;
use ptx::slice::HostAccess;

/// The device code of a module that is cut as [`Loader::load_sliced`] cuts it, for
/// another library to load slice by slice. Code of a slice is compiled, or found in the
/// cache, when it is asked for.
///
/// A variable is in one slice, so the host may use its address.
#[derive(Clone, Debug)]
pub struct SlicedCode {
    parts: Parts,
    report: Arc<SlicedReport>,
}

#[derive(Clone, Debug)]
enum Parts {
    Cut(Arc<Cut>),
    Whole(Arc<Vec<u8>>),
}

impl Loader {
    /// As [`code`](Loader::code), by slices. A module that is not cut is compiled now.
    pub fn code_sliced(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<SlicedCode, LoadError> {
        let (parts, report) = match self.plan(source, options, HostAccess::Addresses)? {
            Plan::Cut(cut, report) => (Parts::Cut(cut), report),
            Plan::Whole(request, report) => {
                let code = self.code_for_others(&request)?;
                (Parts::Whole(Arc::new(code)), report)
            }
            Plan::Binary(image, binary) => {
                let report = SlicedReport::whole(image, "it is a binary".to_owned());
                (Parts::Whole(Arc::new(binary.into_owned())), report)
            }
        };
        let report = Arc::new(report);
        Ok(SlicedCode { parts, report })
    }
}

impl Loader {
    /// As [`code_sliced`](Loader::code_sliced), and `None` for a module that is not cut. It compiles nothing, and
    /// calls no entry of the driver that needs a context.
    pub fn cut(
        &self,
        source: &Source<'_>,
        options: &JitOptions,
    ) -> Result<Option<SlicedCode>, LoadError> {
        Ok(match self.plan(source, options, HostAccess::Addresses)? {
            Plan::Cut(cut, report) => Some(SlicedCode {
                parts: Parts::Cut(cut),
                report: Arc::new(report),
            }),
            Plan::Whole(..) | Plan::Binary(..) => None,
        })
    }
}

impl SlicedCode {
    /// How it was cut, or why it was not.
    pub fn report(&self) -> &SlicedReport {
        &self.report
    }

    /// The number of the slice that has a kernel; 0 for any name where the module is
    /// whole.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`]
    pub fn slice_of(&self, kernel: &str) -> Result<usize, Error> {
        match &self.parts {
            Parts::Whole(_) => Ok(0),
            Parts::Cut(cut) => cut.slice_of(kernel),
        }
    }

    /// The number of the slice that has a variable; 0 for any name where the module is
    /// whole.
    ///
    /// # Errors
    /// [`Error::UnknownGlobal`]
    pub fn slice_of_variable(&self, name: &str) -> Result<usize, Error> {
        let Parts::Cut(cut) = &self.parts else {
            return Ok(0);
        };
        let variable = cut.index.variable(name);
        let slice = variable.and_then(|variable| variable.slices.first());
        slice.copied().ok_or_else(|| Error::UnknownGlobal {
            name: name.to_owned(),
        })
    }

    /// The names of its kernels, sorted; none where the module is whole.
    pub fn kernel_names(&self) -> Vec<String> {
        match &self.parts {
            Parts::Whole(_) => Vec::new(),
            Parts::Cut(cut) => cut.index.kernel_names(),
        }
    }

    /// How many slices it has.
    pub fn slices(&self) -> usize {
        match &self.parts {
            Parts::Whole(_) => 1,
            Parts::Cut(cut) => cut.index.slices.len(),
        }
    }

    /// The code of a slice.
    ///
    /// # Errors
    /// As for [`Loader::code`]; [`Error::BadImage`] for a number that is none.
    pub fn code(&self, slice: usize) -> Result<Vec<u8>, LoadError> {
        Ok(self.code_with(slice, CompileSettings::default())?.0)
    }

    /// The code of a slice, and how the cache was used. If it is compiled, the compiler runs in this context, which
    /// must be of the loader's device, and not in the loader's. `threads` is the number of its threads; `None` for
    /// its own choice.
    ///
    /// # Errors
    /// As for [`code`](SlicedCode::code).
    pub fn code_in(
        &self,
        context: &Context,
        slice: usize,
        threads: Option<u32>,
    ) -> Result<(Vec<u8>, CacheUse), LoadError> {
        let settings = CompileSettings {
            threads,
            context: Some(context),
            ..CompileSettings::default()
        };
        self.code_with(slice, settings)
    }

    /// Compiles slices that are not in the cache, on all cores. Hands each that is done to `progress`, from any
    /// thread. Returns the slices that were compiled.
    ///
    /// # Errors
    /// The first in the order given, after all slices were tried.
    pub fn prepare(
        &self,
        slices: &[usize],
        mut progress: impl FnMut(usize) + Send,
    ) -> Result<usize, LoadError> {
        let settings = CompileSettings {
            threads: (slices.len() >= cores()).then_some(1),
            ..CompileSettings::default()
        };
        let done = |slice: &usize, _: &_| progress(*slice);
        let made = on_all_cores(slices, done, |slice| self.code_with(*slice, settings));
        let mut compiled = 0;
        for made in made {
            compiled += usize::from(made?.1 == CacheUse::Miss);
        }
        Ok(compiled)
    }

    /// Quarantines the cache's code of a slice, which a driver refuses to load.
    pub fn discard(&self, slice: usize, why: &str) {
        if let Parts::Cut(cut) = &self.parts {
            cut.discard(slice, why);
        }
    }

    /// Whether the code of a slice is in the cache; true where the module is whole.
    pub fn is_cached(&self, slice: usize) -> bool {
        match &self.parts {
            Parts::Whole(_) => true,
            Parts::Cut(cut) => slice < cut.index.slices.len() && cut.is_cached(slice),
        }
    }

    fn code_with(
        &self,
        slice: usize,
        settings: CompileSettings<'_>,
    ) -> Result<(Vec<u8>, CacheUse), LoadError> {
        match &self.parts {
            Parts::Whole(code) if slice == 0 => Ok((code.to_vec(), self.report.cache)),
            Parts::Cut(cut) if slice < cut.index.slices.len() => {
                cut.code_for_others(slice, settings)
            }
            _ => Err(Error::BadImage(format!("there is no slice {slice}")).into()),
        }
    }
}
