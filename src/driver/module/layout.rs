//! Kernel layouts: offsets and sizes of parameters, and the required block.

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use api::CUfunction;
use api::CudaError;
use image::{self, CubinKernel, Image};
use ptx::signature::{KernelSignature, ParamSignature, signatures};
use ptx::text_of;

/// The largest parameter space there is (PTX 8.1, sm_70).
const MAX_PARAMETER_BYTES: usize = 32_764;

/// The layout that launches of a kernel are checked against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelLayout {
    /// Parameters in order.
    pub params: Vec<ParamLayout>,
    /// The only block size it runs with, if its PTX is known and has `.reqntid`.
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
    /// The alignment of the memory whose address it is, in bytes, if its PTX is known and says so
    /// (`.ptr .align`); else 1.
    pub pointer_align: u32,
    /// Its PTX declaration if known: `.u64 output`.
    pub declaration: Option<String>,
}

/// What a launch compares of a parameter. Eight of them are one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParamSlot {
    /// The offset, and the size in the upper half.
    place: u32,
    /// The bits of an address that are 0.
    pointer_mask: u32,
}

impl ParamSlot {
    /// Those of a layout; `None` where one lies beyond what a parameter space can have.
    pub fn of(layout: &KernelLayout) -> Option<Box<[ParamSlot]>> {
        let slot = |param: &ParamLayout| {
            let size = u16::try_from(param.size).ok()?;
            let offset = u16::try_from(param.offset).ok()?;
            Some(ParamSlot {
                place: u32::from(size) << 16 | u32::from(offset),
                pointer_mask: param.pointer_align.saturating_sub(1),
            })
        };
        layout.params.iter().map(slot).collect()
    }

    #[inline]
    pub fn offset(&self) -> usize {
        self.place as usize & 0xffff
    }

    #[inline]
    pub fn size(&self) -> usize {
        self.place as usize >> 16
    }

    /// 0 if a value of this size and alignment may be passed for it. Of most arguments both are
    /// constants.
    #[inline(always)]
    pub fn difference(&self, size: usize, align: usize) -> u32 {
        match u16::try_from(size) {
            Ok(size) => self.place & (0xffff_0000 | low_bits(align) as u32) ^ u32::from(size) << 16,
            Err(_) => 1,
        }
    }

    /// The bits of an address that is passed for it which should be 0.
    #[inline(always)]
    pub fn wrong_bits(&self, address: u64) -> u32 {
        address as u32 & self.pointer_mask
    }

    /// Whether an address may be passed for it.
    #[inline]
    pub fn takes_address(&self, address: u64) -> bool {
        self.wrong_bits(address) == 0
    }
}

/// The bits that are 0 in the offset of a parameter whose type has this alignment.
#[inline(always)]
pub(crate) fn low_bits(align: usize) -> usize {
    // Alignments are powers of two. Parameters begin at a multiple of 16 bytes of a GPU's
    // constant bank, and not always at one of 64: one of that alignment is at 48 on sm_90.
    align.min(16) - 1
}

impl KernelLayout {
    /// Bytes of a parameter buffer.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.size)
    }

    /// The layout as the driver reports it (`cuFuncGetParamInfo`, from CUDA 12.4); `None`
    /// if it cannot.
    pub(crate) fn of(
        context: &Context,
        function: CUfunction,
    ) -> Result<Option<KernelLayout>, Error> {
        let api = context.bind()?;
        if api.cuFuncGetParamInfo.is_none() {
            return Ok(None);
        }
        KernelLayout::from_param_info(|index, offset, size| {
            // SAFETY: the function is live; writes two integers.
            unsafe { Ok(api.cuFuncGetParamInfo(function, index, offset, size)?) }
        })
        .map(Some)
    }

    /// The layout read by an entry, one parameter at a time.
    pub(crate) fn from_param_info(
        entry: impl Fn(usize, *mut usize, *mut usize) -> Result<(), Error>,
    ) -> Result<KernelLayout, Error> {
        let mut layout = KernelLayout::default();
        // The list ends with `INVALID_VALUE`. Each parameter has at least one byte, which
        // bounds the loop.
        while layout.params.len() < MAX_PARAMETER_BYTES {
            let (mut offset, mut size) = (0, 0);
            let index = layout.params.len();
            match entry(index, &mut offset, &mut size) {
                Ok(()) => {}
                Err(error) if error.code() == Some(CudaError::INVALID_VALUE) => break,
                // With a truncated list the driver would read pointers past the end of the
                // arguments.
                Err(error) => return Err(error),
            }
            layout.params.push(ParamLayout {
                offset,
                size,
                pointer_align: 1,
                declaration: None,
            });
        }
        Ok(layout)
    }
}

impl KernelLayout {
    /// This layout with the declarations of `known`, if both have the same parameters.
    pub(crate) fn with_declarations_of(mut self, known: KernelLayout) -> KernelLayout {
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

/// A kernel known from PTX or a cubin, without the driver.
#[derive(Debug, Clone)]
pub(crate) struct KernelInfo {
    pub name: String,
    /// `None` if its parameters are not fully known.
    pub layout: Option<KernelLayout>,
}

impl From<&KernelSignature> for KernelInfo {
    fn from(signature: &KernelSignature) -> KernelInfo {
        KernelInfo {
            name: signature.name.clone(),
            layout: Some(KernelLayout::from(signature)),
        }
    }
}

impl From<&CubinKernel> for KernelInfo {
    fn from(kernel: &CubinKernel) -> KernelInfo {
        let params = kernel.params.iter().map(|param| ParamLayout {
            offset: param.offset as usize,
            size: param.size as usize,
            pointer_align: 1,
            declaration: None,
        });
        let layout = KernelLayout {
            params: params.collect(),
            required_block: kernel.required_threads,
        };
        // A kernel without records may still have parameters.
        let is_whole = layout.bytes() > 0 && layout.bytes() == kernel.param_bytes as usize;
        KernelInfo {
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
            pointer_align: param.pointer.and_then(|pointer| pointer.align).unwrap_or(1),
            declaration: Some(format!(
                "{vector}.{} {}{array}",
                param.ty.text(),
                param.name
            )),
        }
    }
}

/// The kernels of PTX text.
pub(crate) fn kernels_of_ptx(ptx: &[u8]) -> Vec<KernelInfo> {
    let text = text_of(ptx);
    let text = text.trim_end_matches('\0');
    let kernels = signatures(&ptx::read(text).module, text);
    kernels.iter().map(KernelInfo::from).collect()
}

/// The kernels of a cubin, from its records; none for other binaries.
pub(crate) fn kernels_of_binary(binary: &[u8]) -> Vec<KernelInfo> {
    let Ok(Image::Cubin(cubin)) = image::open(binary) else {
        return Vec::new();
    };
    let contents = cubin.contents().unwrap_or_default();
    contents.kernels.iter().map(KernelInfo::from).collect()
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
