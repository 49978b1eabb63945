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
use crate::blob::Image;
use crate::merge;
use api::CUlinkState;
use ptx::text_of;

static SESSIONS: Handles<Mutex<Session>> = Handles::new();

/// `CU_JIT_INPUT_LIBRARY` and `_NVVM`: what the device cannot take. Of the
/// other kinds the bytes say what they are.
const LIBRARY: c_uint = 4;
const NVVM: c_uint = 5;

struct Session {
    options: Options,
    inputs: Vec<Input>,
    /// The binary, at an address that does not change.
    binary: Option<Box<[u8]>>,
    spent: Duration,
}

/// What was added to a session.
struct Input {
    /// `None` for a binary that was made without keeping its text.
    text: Option<String>,
    /// `None` for a module that needs others.
    binary: Option<Vec<u8>>,
}

impl Session {
    fn refuse<T>(&mut self, status: Status, why: &str) -> Answer<T> {
        self.options.error(&format!("error   : {why}\n"))?;
        Err(status.because(why))
    }

    fn add(&mut self, kind: c_uint, bytes: &[u8]) -> Answer {
        if matches!(kind, LIBRARY | NVVM) {
            return self.refuse(
                Status::NOT_SUPPORTED,
                "the CPU device links PTX and its own binaries, not libraries or NVVM IR",
            );
        }
        if kind > NVVM {
            return Err(Status::INVALID_VALUE.because(format!("no linker input is of kind {kind}")));
        }
        let start = Instant::now();
        let input = self.input(bytes);
        self.spent += start.elapsed();
        self.options.finish(self.spent)?;
        self.inputs.push(input?);
        self.binary = None;
        Ok(())
    }

    fn input(&mut self, bytes: &[u8]) -> Answer<Input> {
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        let text = text_of(&bytes[..end]);
        let text = text.contains(".version").then_some(&*text);
        if let Some(text) = text.filter(|text| merge::needs_others(text)) {
            return Ok(Input {
                text: Some(text.to_owned()),
                binary: None,
            });
        }
        let binary = image::assemble(bytes, &mut self.options)?;
        let kept = match text {
            Some(text) => Some(text.to_owned()),
            // SAFETY: its text is read, and its code is not loaded.
            None => unsafe { Image::read(&binary) }.ok().map(|image| image.ptx),
        };
        Ok(Input {
            text: kept.filter(|text| !text.is_empty()),
            binary: Some(binary),
        })
    }

    fn complete(&mut self) -> Answer<&[u8]> {
        if self.binary.is_none() {
            let start = Instant::now();
            let linked = self.link();
            self.spent += start.elapsed();
            self.options.finish(self.spent)?;
            self.binary = Some(linked?.into_boxed_slice());
        }
        Ok(self.binary.as_deref().unwrap_or_default())
    }

    fn link(&mut self) -> Answer<Vec<u8>> {
        if let [
            Input {
                binary: Some(binary),
                ..
            },
        ] = &mut self.inputs[..]
        {
            return Ok(std::mem::take(binary));
        }
        let texts: Option<Vec<&str>> = self
            .inputs
            .iter()
            .map(|input| input.text.as_deref())
            .collect();
        let merged = match texts.as_deref() {
            Some([]) => return Err(Status::INVALID_VALUE.because("nothing was added to link")),
            Some([text]) => Ok((*text).to_owned()),
            Some(texts) => merge::merge(texts),
            None => {
                return self.refuse(
                    Status::NOT_SUPPORTED,
                    "a binary of the CPU device that keeps no PTX cannot be linked with others",
                );
            }
        };
        match merged {
            Ok(text) => image::assemble(text.as_bytes(), &mut self.options),
            Err(why) => self.refuse(Status::INVALID_PTX, &why),
        }
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
            inputs: Vec::new(),
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
        let bytes = image::file(path)?;
        lock(&session).add(kind, &bytes)
    }

    fn cuLinkComplete(session: CUlinkState, binary: *mut *mut c_void, size: *mut usize) {
        let session = find(session)?;
        let mut session = lock(&session);
        let made = session.complete()?;
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
