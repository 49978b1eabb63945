//! The code of slices, for other libraries.

use std::sync::Arc;

use super::cut::Cut;
use super::plan::Plan;
use super::{LoadError, Loader, Source};
use crate::driver::Error;
use crate::jit::JitOptions;

/// The device code of a module that is cut as [`Loader::load_sliced`] cuts it, for
/// another library to load slice by slice. Code of a slice is compiled, or found in the
/// cache, when it is asked for.
#[derive(Clone, Debug)]
pub struct SlicedCode(Parts);

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
        Ok(SlicedCode(match self.plan(source, options)? {
            Plan::Cut(cut, _) => Parts::Cut(cut),
            Plan::Whole(request, _) => Parts::Whole(Arc::new(self.code_for_others(&request)?)),
            Plan::Binary(_, binary) => Parts::Whole(Arc::new(binary.into_owned())),
        }))
    }
}

impl SlicedCode {
    /// The number of the slice that has a kernel; 0 for any name where the module is
    /// whole.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`]
    pub fn slice_of(&self, kernel: &str) -> Result<usize, Error> {
        match &self.0 {
            Parts::Whole(_) => Ok(0),
            Parts::Cut(cut) => cut.slice_of(kernel),
        }
    }

    /// The code of a slice.
    ///
    /// # Errors
    /// As for [`Loader::code`]; [`Error::BadImage`] for a number that is none.
    pub fn code(&self, slice: usize) -> Result<Vec<u8>, LoadError> {
        match &self.0 {
            Parts::Whole(code) if slice == 0 => Ok(code.to_vec()),
            Parts::Cut(cut) if slice < cut.index.slices.len() => Ok(cut.code_for_others(slice)?),
            _ => Err(Error::BadImage(format!("there is no slice {slice}")).into()),
        }
    }
}
