//! The driver's linker, through which PTX becomes device code.

use std::borrow::Cow;
use std::ffi::{CString, c_void};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::log::JitOptionList;
use crate::driver::module::image_bounds::{self, CheckedImage};
use crate::driver::module::jit_error;
use api::{Api, CUlinkState};

/// A linking session, ended when dropped.
struct Session {
    api: &'static Api,
    state: CUlinkState,
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        report_drop(unsafe { self.api.cuLinkDestroy(self.state) });
    }
}

/// What is linked with other inputs: PTX, or a binary of the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInput<'a> {
    name: &'a str,
    bytes: &'a [u8],
    kind: LinkKind,
}

/// `CUjitInputType`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    Cubin = 0,
    Ptx = 1,
    Fatbin = 2,
    Object = 3,
    Library = 4,
    /// `CU_JIT_INPUT_NVVM`
    Lto = 5,
}

impl<'a> LinkInput<'a> {
    /// PTX text; `name` stands for it in messages.
    pub fn ptx(name: &'a str, text: &'a str) -> LinkInput<'a> {
        LinkInput {
            name,
            bytes: text.as_bytes(),
            kind: LinkKind::Ptx,
        }
    }

    /// A cubin that was made to be linked (`-rdc`), or a binary of the CPU device.
    ///
    /// # Safety
    /// It must come from a compiler, unchanged: what is linked is loaded, and the
    /// linker does not verify it.
    pub unsafe fn cubin(name: &'a str, bytes: &'a [u8]) -> LinkInput<'a> {
        LinkInput {
            name,
            bytes,
            kind: LinkKind::Cubin,
        }
    }

    /// A fatbin.
    ///
    /// # Safety
    /// As for [`cubin`](LinkInput::cubin).
    pub unsafe fn fatbin(name: &'a str, bytes: &'a [u8]) -> LinkInput<'a> {
        LinkInput {
            name,
            bytes,
            kind: LinkKind::Fatbin,
        }
    }

    /// An object file of the host with device code in it.
    ///
    /// # Safety
    /// As for [`cubin`](LinkInput::cubin).
    pub unsafe fn object(name: &'a str, bytes: &'a [u8]) -> LinkInput<'a> {
        LinkInput {
            name,
            bytes,
            kind: LinkKind::Object,
        }
    }

    /// An archive of such object files, `libcudadevrt.a`.
    ///
    /// # Safety
    /// As for [`cubin`](LinkInput::cubin).
    pub unsafe fn library(name: &'a str, bytes: &'a [u8]) -> LinkInput<'a> {
        LinkInput {
            name,
            bytes,
            kind: LinkKind::Library,
        }
    }

    /// Code for link-time optimisation, which is compiled when it is linked
    /// (`nvcc -dlto -ltoir`). A driver's linker takes what toolkits before CUDA
    /// 12.0 made; [`NvJitLink::link`](crate::driver::module::nvjitlink::NvJitLink::link) takes what
    /// its own toolkit and earlier ones made, with the option `-lto`.
    ///
    /// # Safety
    /// As for [`cubin`](LinkInput::cubin).
    pub unsafe fn lto(name: &'a str, bytes: &'a [u8]) -> LinkInput<'a> {
        LinkInput {
            name,
            bytes,
            kind: LinkKind::Lto,
        }
    }

    /// What stands for it in messages.
    pub fn name(&self) -> &'a str {
        self.name
    }

    pub(super) fn kind(&self) -> LinkKind {
        self.kind
    }

    /// Bytes of PTX that the linker compiles: none of other inputs.
    pub(crate) fn ptx_bytes(&self) -> usize {
        match self.kind {
            LinkKind::Ptx => self.bytes.len(),
            _ => 0,
        }
    }

    /// The bytes for the driver, which neither lead outside nor lack a NUL.
    pub(super) fn checked(&self) -> Result<Cow<'a, [u8]>, Error> {
        if self.kind == LinkKind::Library {
            // Its members have sizes of their own; the driver is given all of them at once.
            return if self.bytes.starts_with(b"!<arch>\n") {
                Ok(Cow::Borrowed(self.bytes))
            } else {
                Err(Error::BadImage(format!("{} is no archive", self.name)))
            };
        }
        if self.kind == LinkKind::Lto {
            // It comes with its length.
            return Ok(Cow::Borrowed(self.bytes));
        }
        match (image_bounds::check(self.bytes)?, self.kind) {
            (CheckedImage::Ptx(text), LinkKind::Ptx) => Ok(text),
            (CheckedImage::Binary(bytes), kind) if kind != LinkKind::Ptx => {
                Ok(Cow::Borrowed(bytes))
            }
            _ => Err(Error::BadImage(format!(
                "{} is another kind of file than was said",
                self.name
            ))),
        }
    }
}

/// Compiles and links for the device of `context`. The logs are left in
/// `options`; an error takes them along.
pub(crate) fn link(
    context: &Context,
    inputs: &[LinkInput<'_>],
    options: &mut JitOptionList,
) -> Result<Vec<u8>, Error> {
    let checked: Vec<_> = inputs
        .iter()
        .map(LinkInput::checked)
        .collect::<Result<_, _>>()?;
    let api = context.bind()?;
    link_in_session(api, inputs, &checked, options).map_err(|error| jit_error(error, options))
}

fn link_in_session(
    api: &'static Api,
    inputs: &[LinkInput<'_>],
    checked: &[Cow<'_, [u8]>],
    options: &mut JitOptionList,
) -> Result<Vec<u8>, Error> {
    let mut state = std::ptr::null_mut();
    // SAFETY: options and values have the count given; `options` outlives the session, which
    // writes to it until its end.
    unsafe {
        api.cuLinkCreate_v2(
            options.count(),
            options.options(),
            options.values(),
            &mut state,
        )
    }?;
    let session = Session { api, state };
    let none = std::ptr::null_mut::<c_void>();
    for (input, bytes) in inputs.iter().zip(checked) {
        // A name with a NUL in it is no name for the driver.
        let name = CString::new(input.name).unwrap_or_default();
        // SAFETY: the bytes have the length given, and their headers stay within it; the
        // linker copies what it keeps.
        unsafe {
            api.cuLinkAddData_v2(
                session.state,
                input.kind as u32,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                name.as_ptr(),
                0,
                none.cast(),
                none.cast(),
            )
        }?;
    }
    let (mut binary, mut len) = (none, 0);
    // SAFETY: the session is live; writes an address and a length.
    unsafe { api.cuLinkComplete(session.state, &mut binary, &mut len) }?;
    if binary.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the driver gave `len` bytes that live as long as the session.
    Ok(unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), len) }.to_vec())
}
