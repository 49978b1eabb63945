//! Where a kernel's parameters lie, and what block it wants.

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use api::CUfunction;
use api::CudaError;
use image::{self, CubinKernel, Image};
use ptx::signature::{KernelSignature, ParamSignature, signatures};
use ptx::text_of;

/// The largest parameter space there is (PTX 8.1, sm_70).
const MAX_PARAMETER_BYTES: usize = 32_764;

/// What a launch of a kernel is checked against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelLayout {
    /// In order.
    pub params: Vec<ParamLayout>,
    /// The only block it runs with, if its PTX is known and has `.reqntid`.
    pub required_block: Option<[u32; 3]>,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamLayout {
    /// Bytes from the start of the parameter buffer.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// As the PTX declares it, where that is known: `.u64 output`.
    pub declaration: Option<String>,
}

impl KernelLayout {
    /// Bytes of a parameter buffer.
    pub fn bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.size)
    }

    /// As the driver knows it (`cuFuncGetParamInfo`, from CUDA 12.4); `None`
    /// where it does not say.
    pub(crate) fn of(
        context: &Context,
        function: CUfunction,
    ) -> Result<Option<KernelLayout>, Error> {
        let api = context.bind()?;
        if api.cuFuncGetParamInfo.is_none() {
            return Ok(None);
        }
        KernelLayout::told_by(|index, offset, size| {
            // SAFETY: the function is live; writes two integers.
            unsafe { Ok(api.cuFuncGetParamInfo(function, index, offset, size)?) }
        })
        .map(Some)
    }

    /// As an entry tells it, parameter by parameter.
    pub(crate) fn told_by(
        entry: impl Fn(usize, *mut usize, *mut usize) -> Result<(), Error>,
    ) -> Result<KernelLayout, Error> {
        let mut layout = KernelLayout::default();
        // The end of the list is told by `INVALID_VALUE`; parameters take a byte at least.
        while layout.params.len() < MAX_PARAMETER_BYTES {
            let (mut offset, mut size) = (0, 0);
            let index = layout.params.len();
            match entry(index, &mut offset, &mut size) {
                Ok(()) => {}
                Err(error) if error.code() == Some(CudaError::INVALID_VALUE) => break,
                // A list cut short would make the driver read pointers that nobody gave.
                Err(error) => return Err(error),
            }
            layout.params.push(ParamLayout {
                offset,
                size,
                declaration: None,
            });
        }
        Ok(layout)
    }
}

impl KernelLayout {
    /// This layout with what `known` says beyond it, if both mean the same parameters.
    pub(crate) fn named_after(mut self, known: KernelLayout) -> KernelLayout {
        let places = |layout: &KernelLayout| -> Vec<(usize, usize)> {
            let params = layout.params.iter();
            params.map(|param| (param.offset, param.size)).collect()
        };
        if places(&self) == places(&known) {
            self = known;
        }
        self
    }
}

impl From<&KernelSignature> for KernelLayout {
    fn from(signature: &KernelSignature) -> KernelLayout {
        KernelLayout {
            params: signature.params.iter().map(ParamLayout::from).collect(),
            required_block: signature.required_threads,
        }
    }
}

/// A kernel that is known without asking the driver.
#[derive(Debug, Clone)]
pub(crate) struct KnownKernel {
    pub name: String,
    /// `None` where its parameters are not told as a whole.
    pub layout: Option<KernelLayout>,
}

impl From<&KernelSignature> for KnownKernel {
    fn from(signature: &KernelSignature) -> KnownKernel {
        KnownKernel {
            name: signature.name.clone(),
            layout: Some(KernelLayout::from(signature)),
        }
    }
}

impl From<&CubinKernel> for KnownKernel {
    fn from(kernel: &CubinKernel) -> KnownKernel {
        let params = kernel.params.iter().map(|param| ParamLayout {
            offset: param.offset as usize,
            size: param.size as usize,
            declaration: None,
        });
        let layout = KernelLayout {
            params: params.collect(),
            required_block: kernel.required_threads,
        };
        // A kernel without records is not one without parameters.
        let is_whole = layout.bytes() > 0 && layout.bytes() == kernel.param_bytes as usize;
        KnownKernel {
            name: kernel.name.clone(),
            layout: is_whole.then_some(layout),
        }
    }
}

impl From<&ParamSignature> for ParamLayout {
    fn from(param: &ParamSignature) -> ParamLayout {
        let vector = match param.vector {
            1 => String::new(),
            width => format!(".v{width} "),
        };
        let array = param
            .dims
            .map_or(String::new(), |bytes| format!("[{bytes}]"));
        ParamLayout {
            offset: param.offset as usize,
            size: param.size as usize,
            declaration: Some(format!(
                "{vector}.{} {}{array}",
                param.ty.text(),
                param.name
            )),
        }
    }
}

/// The kernels of PTX text.
pub(crate) fn kernels_of_ptx(ptx: &[u8]) -> Vec<KnownKernel> {
    let text = text_of(ptx);
    let text = text.trim_end_matches('\0');
    let kernels = signatures(&ptx::read(text).module, text);
    kernels.iter().map(KnownKernel::from).collect()
}

/// The kernels of a cubin, by its records; of another binary, none.
pub(crate) fn kernels_of_binary(binary: &[u8]) -> Vec<KnownKernel> {
    let Ok(Image::Cubin(cubin)) = image::open(binary) else {
        return Vec::new();
    };
    let contents = cubin.contents().unwrap_or_default();
    contents.kernels.iter().map(KnownKernel::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_come_from_ptx() {
        let kernels = kernels_of_ptx(
            b".version 8.0\n.target sm_80\n.address_size 64\n\
              .entry k(.param .u8 flag, .param .align 16 .b8 big[20], .param .u64 out)\n\
              .reqntid 32, 2\n{ ret; }\0",
        );
        let layout = kernels[0].layout.as_ref().unwrap();
        let places: Vec<_> = layout.params.iter().map(|p| (p.offset, p.size)).collect();
        assert_eq!(places, [(0, 1), (16, 20), (40, 8)]);
        assert_eq!(layout.bytes(), 48);
        assert_eq!(layout.params[1].declaration.as_deref(), Some(".b8 big[20]"));
        assert_eq!(layout.required_block, Some([32, 2, 1]));
    }
}
