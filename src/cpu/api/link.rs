//! The JIT linker: PTX in, a binary of the CPU device out.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context;
use super::entry::{Given, entries};
use super::handle::{Handles, pointer};
use super::image;
use super::options::Options;
use super::status::{Answer, Status};
use crate::driver::api::CUlinkState;

static SESSIONS: Handles<Mutex<Session>> = Handles::new();

/// `CU_JIT_INPUT_LIBRARY` and `_NVVM`: what the device cannot take. Of the
/// other kinds the bytes say what they are.
const LIBRARY: c_uint = 4;
const NVVM: c_uint = 5;

struct Session {
    options: Options,
    /// The binary, at an address that does not change.
    binary: Option<Box<[u8]>>,
    spent: Duration,
}

impl Session {
    fn add(&mut self, kind: c_uint, bytes: &[u8]) -> Answer {
        let refuse = |session: &mut Session, why: &str| {
            session.options.error(&format!("error   : {why}\n"))?;
            Err(Status::NOT_SUPPORTED.because(why))
        };
        if matches!(kind, LIBRARY | NVVM) {
            return refuse(
                self,
                "the CPU device links PTX and its own binaries, not libraries or NVVM IR",
            );
        }
        if kind > NVVM {
            return Err(Status::INVALID_VALUE.because(format!("no linker input is of kind {kind}")));
        }
        if self.binary.is_some() {
            return refuse(
                self,
                "the CPU device links one input alone: put all kernels into one PTX text",
            );
        }
        let start = Instant::now();
        let binary = image::assemble(bytes, &mut self.options);
        self.spent += start.elapsed();
        self.options.finish(self.spent)?;
        self.binary = Some(binary?.into_boxed_slice());
        Ok(())
    }
}

fn find<H>(session: Given<H>) -> Answer<Arc<Mutex<Session>>> {
    context::working()?;
    SESSIONS
        .get(session)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no linking session has this handle"))
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

entries! {
    fn cuLinkCreate_v2(
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
        session: *mut CUlinkState,
    ) {
        context::working()?;
        let mut options = Options::read(count, numbers, values)?;
        options.finish(Duration::ZERO)?;
        let made = Session {
            options,
            binary: None,
            spent: Duration::ZERO,
        };
        session.put(pointer(SESSIONS.insert(Arc::new(Mutex::new(made)))))
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
        let session = find(session)?;
        Options::read(count, numbers, values)?;
        lock(&session).add(kind, data.bytes(size)?)
    }

    fn cuLinkAddFile_v2(
        session: CUlinkState,
        kind: c_uint,
        path: *const c_char,
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
    ) {
        let session = find(session)?;
        Options::read(count, numbers, values)?;
        let path = path.path()?;
        let bytes = std::fs::read(&path);
        let bytes = bytes.map_err(|error| {
            Status::FILE_NOT_FOUND.because(format!("{}: {error}", path.display()))
        })?;
        lock(&session).add(kind, &bytes)
    }

    fn cuLinkComplete(session: CUlinkState, binary: *mut *mut c_void, size: *mut usize) {
        let session = find(session)?;
        let session = lock(&session);
        let made = session
            .binary
            .as_ref()
            .ok_or_else(|| Status::INVALID_VALUE.because("nothing was added to link"))?;
        binary.put(made.as_ptr().cast_mut().cast())?;
        size.put_if_asked(made.len());
        Ok(())
    }

    fn cuLinkDestroy(session: CUlinkState) {
        context::working()?;
        match SESSIONS.remove(session.addr()) {
            Some(_) => Ok(()),
            None => Err(Status::INVALID_HANDLE.because("no linking session has this handle")),
        }
    }
}
