//! The driver's linker, through which PTX becomes device code.

use std::ffi::{CStr, c_void};

use super::api::{Api, CUlinkState};
use super::context::{Context, report_drop};
use super::error::Error;
use super::log::JitOptionList;
use super::module::jit_error;

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

/// Compiles and links PTX for the device of `context`. The logs are left in
/// `options`; an error takes them along.
pub(crate) fn link(
    context: &Context,
    ptx: &CStr,
    options: &mut JitOptionList,
) -> Result<Vec<u8>, Error> {
    let api = context.bind()?;
    link_in_session(api, ptx, options).map_err(|error| jit_error(error, options))
}

fn link_in_session(
    api: &'static Api,
    ptx: &CStr,
    options: &mut JitOptionList,
) -> Result<Vec<u8>, Error> {
    const PTX: u32 = 1;
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
    let text = ptx.to_bytes_with_nul();
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the text has the length given, NUL included; the linker copies what it keeps.
    unsafe {
        api.cuLinkAddData_v2(
            session.state,
            PTX,
            text.as_ptr().cast_mut().cast(),
            text.len(),
            c"ptx".as_ptr(),
            0,
            none.cast(),
            none.cast(),
        )
    }?;
    let (mut binary, mut len) = (none, 0);
    // SAFETY: the session is live; writes an address and a length.
    unsafe { api.cuLinkComplete(session.state, &mut binary, &mut len) }?;
    if binary.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the driver gave `len` bytes that live as long as the session.
    Ok(unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), len) }.to_vec())
}
