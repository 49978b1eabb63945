//! The JIT linker.

use std::ffi::{c_char, c_uint, c_void};

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::options::Options;
use crate::state::{context, image, link};
use api::CUlinkState;

entries! {
    fn cuLinkCreate_v2(
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
        session: *mut CUlinkState,
    ) {
        context::working()?;
        let options = Options::read(count, numbers, values)?;
        session.put(pointer(link::create(options)?))
    }

    fn cuLinkAddData_v2(
        session: CUlinkState,
        kind: c_uint,
        data: *mut c_void,
        size: usize,
        _name: *const c_char,
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
    ) {
        let session = link::find(session.addr())?;
        Options::read(count, numbers, values)?;
        link::lock(&session).add(kind, data.bytes(size)?)
    }

    fn cuLinkAddFile_v2(
        session: CUlinkState,
        kind: c_uint,
        path: *const c_char,
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
    ) {
        let session = link::find(session.addr())?;
        Options::read(count, numbers, values)?;
        let bytes = image::file(&path.path()?)?;
        link::lock(&session).add(kind, &bytes)
    }

    fn cuLinkComplete(session: CUlinkState, binary: *mut *mut c_void, size: *mut usize) {
        let session = link::find(session.addr())?;
        let mut session = link::lock(&session);
        let made = session.complete()?;
        binary.put(made.as_ptr().cast_mut().cast())?;
        size.put_optional(made.len());
        Ok(())
    }

    fn cuLinkDestroy(session: CUlinkState) {
        link::destroy(session.addr())
    }
}
