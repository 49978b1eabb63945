//! A session: inputs are collected, and linked at its end.

use std::ffi::c_uint;

use crate::driver;
use crate::options::Options;
use crate::original;

/// `nvJitLinkResult`
pub(crate) const INVALID_INPUT: i32 = 3;
const PTX_COMPILE: i32 = 4;
const NVVM_COMPILE: i32 = 5;
const INCORRECT_INPUT_TYPE: i32 = 12;
const LTO_NOT_ENABLED: i32 = 18;

/// `nvJitLinkInputType`
const LTOIR: c_uint = 3;
const ANY: c_uint = 10;
const KINDS: [c_uint; 8] = [1, 2, LTOIR, 4, 5, 6, 7, ANY];

/// The first bytes of LTO-IR.
const LTOIR_MAGIC: [u8; 4] = 0x7f4e_43ed_u32.to_le_bytes();

/// Why a call is refused: the code for the caller, and the sentence for the log.
pub(crate) struct Refusal {
    pub(crate) code: i32,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn new(code: i32, why: impl Into<String>) -> Refusal {
        let why = why.into();
        Refusal { code, why }
    }
}

/// An input, with the kind that NVIDIA's library has for it.
pub(crate) struct Input {
    pub(crate) kind: c_uint,
    pub(crate) bytes: Vec<u8>,
    pub(crate) name: String,
}

/// What is linked. PTX ends with a NUL.
#[derive(Default)]
pub(crate) struct Linked {
    pub(crate) cubin: Option<Vec<u8>>,
    pub(crate) ptx: Option<Vec<u8>>,
    pub(crate) ltoir: Option<Vec<u8>>,
    pub(crate) info: String,
}

pub(crate) struct Session {
    options: Options,
    /// The binary is for another device: NVIDIA's library makes it.
    is_foreign: bool,
    inputs: Vec<Input>,
    linked: Linked,
    info: String,
    errors: String,
}

impl Session {
    pub(crate) fn create(given: Vec<String>) -> Result<Session, Refusal> {
        let options = Options::read(given)?;
        Ok(Session {
            is_foreign: !libraries::is_of_cpu_device(&options.arch),
            options,
            inputs: Vec::new(),
            linked: Linked::default(),
            info: String::new(),
            errors: String::new(),
        })
    }

    pub(crate) fn add(
        &mut self,
        kind: c_uint,
        bytes: Vec<u8>,
        name: String,
    ) -> Result<(), Refusal> {
        if !KINDS.contains(&kind) {
            return Err(Refusal::new(
                INVALID_INPUT,
                format!("no input is of kind {kind}"),
            ));
        }
        let is_ltoir = bytes.starts_with(&LTOIR_MAGIC);
        match kind {
            LTOIR if !is_ltoir => {
                return Err(Refusal::new(
                    INCORRECT_INPUT_TYPE,
                    format!("{name} is no LTO-IR"),
                ));
            }
            LTOIR | ANY if is_ltoir && !self.options.lto => {
                return Err(Refusal::new(
                    LTO_NOT_ENABLED,
                    format!("{name} is LTO-IR, which needs -lto"),
                ));
            }
            _ => {}
        }
        let kind = if is_ltoir { LTOIR } else { kind };
        self.inputs.push(Input { kind, bytes, name });
        Ok(())
    }

    pub(crate) fn complete(&mut self) -> Result<(), Refusal> {
        if self.is_foreign {
            self.linked = original::link(&self.options.given, &self.inputs)?;
        } else if !self.inputs.is_empty() {
            self.linked = self.link()?;
        }
        self.info.push_str(&self.linked.info);
        Ok(())
    }

    /// Links for the CPU device.
    fn link(&self) -> Result<Linked, Refusal> {
        let is_ltoir = |input: &&Input| input.kind == LTOIR;
        let optimized = if self.inputs.iter().any(|input| input.kind == LTOIR) {
            let mut options = self.options.given.clone();
            if !self.options.ptx {
                options.push("-ptx".into());
            }
            let made = original::link(&options, self.inputs.iter().filter(is_ltoir));
            let made = made.map_err(|refusal| {
                let why = format!(
                    "LTO-IR becomes PTX by NVIDIA's library alone: {}",
                    refusal.why
                );
                Refusal::new(NVVM_COMPILE, why)
            })?;
            made.ptx
        } else {
            None
        };
        if self.options.ptx {
            return Ok(Linked {
                ptx: optimized,
                ..Linked::default()
            });
        }
        let others = self.inputs.iter().filter(|input| input.kind != LTOIR);
        let texts: Vec<&[u8]> = optimized
            .iter()
            .map(Vec::as_slice)
            .chain(others.map(|input| input.bytes.as_slice()))
            .collect();
        let (cubin, info) = driver::link(&texts, self.options.verbose)
            .map_err(|why| Refusal::new(PTX_COMPILE, why))?;
        Ok(Linked {
            cubin: Some(cubin),
            info,
            ..Linked::default()
        })
    }

    /// Notes why a call is refused; returns the code.
    pub(crate) fn refused(&mut self, refusal: Refusal) -> i32 {
        self.errors.push_str(&refusal.why);
        self.errors.push('\n');
        refusal.code
    }

    pub(crate) fn cubin(&self) -> Result<&[u8], Refusal> {
        Ok(self.linked.cubin.as_deref().unwrap_or_default())
    }

    pub(crate) fn ptx(&self) -> Result<&[u8], Refusal> {
        let none = || Refusal::new(INVALID_INPUT, "there is no linked PTX: it needs -lto -ptx");
        self.linked.ptx.as_deref().ok_or_else(none)
    }

    pub(crate) fn ltoir(&self) -> Result<&[u8], Refusal> {
        let none = || Refusal::new(INVALID_INPUT, "there is no linked LTO-IR");
        self.linked.ltoir.as_deref().ok_or_else(none)
    }

    pub(crate) fn info_log(&self) -> Vec<u8> {
        terminated(&self.info)
    }

    pub(crate) fn error_log(&self) -> Vec<u8> {
        terminated(&self.errors)
    }
}

/// The text with a NUL, or nothing if it is empty.
fn terminated(text: &str) -> Vec<u8> {
    if text.is_empty() {
        Vec::new()
    } else {
        [text.as_bytes(), b"\0"].concat()
    }
}
