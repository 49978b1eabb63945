//! The JIT linker: PTX in, a binary of the CPU device out.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context;
use super::fatbin;
use super::handle::Handles;
use super::image;
use super::options::Options;
use super::status::{Failure, Result, Status};
use crate::blob::Image;
use crate::merge;
use ptx::text_of;

static SESSIONS: Handles<Mutex<Session>> = Handles::new();

/// `CU_JIT_INPUT_NVVM`, which is not supported. The other kinds are recognised by their bytes.
const NVVM: c_uint = 5;

pub(crate) struct Session {
    options: Options,
    inputs: Vec<Input>,
    /// The result, at an address that does not change.
    binary: Option<Box<[u8]>>,
    spent: Duration,
}

/// An input of a session.
struct Input {
    /// PTX; `None` for a binary that does not include it.
    text: Option<String>,
    /// `None` for a module that needs others.
    binary: Option<Vec<u8>>,
}

impl Session {
    fn refuse<T>(&mut self, status: Status, why: &str) -> Result<T> {
        self.options.error(&format!("error   : {why}\n"))?;
        Err(status.because(why))
    }

    pub(crate) fn add(&mut self, kind: c_uint, bytes: &[u8]) -> Result {
        if kind <= NVVM && merge::is_device_runtime(bytes) {
            return Ok(()); // its functions are the device's
        }
        if kind == NVVM {
            return self.refuse(
                Status::NOT_SUPPORTED,
                "the CPU device links PTX and its own binaries, not NVVM IR",
            );
        }
        if kind > NVVM {
            return Err(Status::INVALID_VALUE.because(format!("no linker input is of kind {kind}")));
        }
        let start = Instant::now();
        let inputs = self.inputs_of(bytes);
        self.spent += start.elapsed();
        self.options.finish(self.spent)?;
        self.inputs.extend(inputs?);
        self.binary = None;
        // NVIDIA's linker finds these errors here.
        match merge::check_definitions(&self.texts()) {
            Ok(()) => Ok(()),
            Err(why) => self.refuse(Status::INVALID_SOURCE, &why),
        }
    }

    /// The input, or those in an object file or an archive.
    fn inputs_of(&mut self, bytes: &[u8]) -> Result<Vec<Input>> {
        if !fatbin::is_of_host(bytes) {
            return Ok(vec![self.input(bytes)?]);
        }
        let texts = fatbin::ptx_of_host(bytes)?;
        texts
            .iter()
            .map(|text| self.input(text.as_bytes()))
            .collect()
    }

    fn input(&mut self, bytes: &[u8]) -> Result<Input> {
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
        let text = match text {
            Some(text) => Some(text.to_owned()),
            // SAFETY: its text is read, and its code is not loaded.
            None => unsafe { Image::read(&binary) }.ok().map(|image| image.ptx),
        };
        Ok(Input {
            text: text.filter(|text| !text.is_empty()),
            binary: Some(binary),
        })
    }

    /// The PTX of the inputs that have it.
    fn texts(&self) -> Vec<&str> {
        let texts = self.inputs.iter();
        texts.filter_map(|input| input.text.as_deref()).collect()
    }

    /// Links the inputs; returns the binary.
    pub(crate) fn complete(&mut self) -> Result<&[u8]> {
        if self.binary.is_none() {
            let start = Instant::now();
            let linked = self.link();
            self.spent += start.elapsed();
            self.options.finish(self.spent)?;
            self.binary = Some(linked?.into_boxed_slice());
        }
        Ok(self.binary.as_deref().unwrap_or_default())
    }

    fn link(&mut self) -> Result<Vec<u8>> {
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
            // As NVIDIA's linker: a module without kernels.
            Some([]) => Ok(".version 7.0\n.target sm_50\n.address_size 64\n".to_owned()),
            Some([text]) => Ok((*text).to_owned()),
            Some(texts) => merge::merge(texts),
            None => {
                return self.refuse(
                    Status::NOT_SUPPORTED,
                    "a binary of the CPU device without its PTX cannot be linked with others",
                );
            }
        };
        match merged {
            Ok(text) => {
                let linked = image::assemble(text.as_bytes(), &mut self.options);
                linked.map_err(|failure| {
                    if merge::needs_others(&text) {
                        Failure {
                            status: Status::INVALID_SOURCE,
                            ..failure
                        }
                    } else {
                        failure
                    }
                })
            }
            Err(why) => self.refuse(Status::INVALID_SOURCE, &why),
        }
    }
}

pub(crate) fn find(session: usize) -> Result<Arc<Mutex<Session>>> {
    context::working()?;
    SESSIONS
        .get(session)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no linking session has this handle"))
}

pub(crate) fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a session; returns its handle.
pub(crate) fn create(mut options: Options) -> Result<usize> {
    options.finish(Duration::ZERO)?;
    Ok(SESSIONS.insert(Arc::new(Mutex::new(Session {
        options,
        inputs: Vec::new(),
        binary: None,
        spent: Duration::ZERO,
    }))))
}

pub(crate) fn destroy(session: usize) -> Result {
    context::working()?;
    match SESSIONS.remove(session) {
        Some(_) => Ok(()),
        None => Err(Status::INVALID_HANDLE.because("no linking session has this handle")),
    }
}
