//! Where a kernel's parameters lie.

use super::api::CUfunction;
use super::context::Context;
use super::error::Error;

/// The largest parameter space there is (PTX 8.1, sm_70).
const MAX_PARAMETER_BYTES: usize = 32_764;

/// The parameters of a kernel, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelLayout {
    pub params: Vec<ParamLayout>,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        let mut params = Vec::new();
        // The end of the list is told by an error; parameters take a byte at least.
        while params.len() < MAX_PARAMETER_BYTES {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function is live; writes two integers.
            let info =
                unsafe { api.cuFuncGetParamInfo(function, params.len(), &mut offset, &mut size) };
            if info.is_err() {
                break;
            }
            params.push(ParamLayout {
                offset,
                size,
                declaration: None,
            });
        }
        Ok(Some(KernelLayout { params }))
    }
}
