//! The attributes of core dumps. They can be read and set, but no core dump is written: the error of
//! a fault names its place.

use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use super::status::{Result, Status};
use super::user_pointer::UserPointer;

/// For which kernels an attribute holds. The CPU device has one value for all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Context,
    Process,
}

/// `CU_COREDUMP_…`
const ENABLE_ON_EXCEPTION: c_uint = 1;
const TRIGGER_HOST: c_uint = 2;
const LIGHTWEIGHT: c_uint = 3;
const ENABLE_USER_TRIGGER: c_uint = 4;
const FILE: c_uint = 5;
const PIPE: c_uint = 6;
const GENERATION_FLAGS: c_uint = 7;

struct Values {
    trigger_host: bool,
    lightweight: bool,
    file: Vec<u8>,
    pipe: Vec<u8>,
    flags: u32,
}

static VALUES: Mutex<Values> = Mutex::new(Values {
    trigger_host: true,
    lightweight: false,
    file: Vec::new(),
    pipe: Vec::new(),
    flags: 0,
});

/// What the bytes of an attribute are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Truth,
    Text,
    Flags,
}

fn kind(attribute: c_uint, scope: Scope) -> Result<Kind> {
    match (attribute, scope) {
        (ENABLE_ON_EXCEPTION | TRIGGER_HOST | LIGHTWEIGHT, _) => Ok(Kind::Truth),
        (ENABLE_USER_TRIGGER, Scope::Process) => Ok(Kind::Truth),
        (FILE, _) | (PIPE, Scope::Process) => Ok(Kind::Text),
        (GENERATION_FLAGS, _) => Ok(Kind::Flags),
        (ENABLE_USER_TRIGGER | PIPE, Scope::Context) => {
            Err(Status::INVALID_VALUE.because(format!(
                "attribute {attribute} of core dumps is the process's: \
             use cuCoredumpGetAttributeGlobal or cuCoredumpSetAttributeGlobal"
            )))
        }
        _ => Err(Status::INVALID_VALUE.because(format!(
            "no attribute of core dumps has the number {attribute}"
        ))),
    }
}

/// # Errors
/// A boolean takes one byte, and flags take four.
fn check_size(kind: Kind, size: usize) -> Result {
    match (kind, size) {
        (Kind::Truth, 1) | (Kind::Flags, 4) | (Kind::Text, _) => Ok(()),
        _ => Err(Status::INVALID_VALUE.because(format!(
            "the size is {size}: a boolean has 1 byte, flags have 4"
        ))),
    }
}

impl Values {
    fn text(&mut self, attribute: c_uint) -> &mut Vec<u8> {
        match attribute {
            FILE => &mut self.file,
            _ => &mut self.pipe,
        }
    }

    /// The bytes that an attribute takes.
    fn size(&mut self, kind: Kind, attribute: c_uint) -> usize {
        match kind {
            Kind::Truth => 1,
            Kind::Flags => 4,
            Kind::Text => self.text(attribute).len() + 1,
        }
    }
}

/// Writes an attribute; without a place for the value, its size.
pub(crate) fn get(
    attribute: c_uint,
    value: UserPointer<c_void>,
    size: UserPointer<usize>,
    scope: Scope,
) -> Result {
    let space = size.get()?;
    let kind = kind(attribute, scope)?;
    let mut values = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    if value.is_null() {
        return size.put(values.size(kind, attribute));
    }
    check_size(kind, space)?;
    match attribute {
        TRIGGER_HOST => value.cast::<bool>().put(values.trigger_host),
        LIGHTWEIGHT => value.cast::<bool>().put(values.lightweight),
        GENERATION_FLAGS => value.cast::<u32>().put(values.flags),
        FILE | PIPE => {
            let text = values.text(attribute).iter().copied();
            let bytes = text.chain([0]).take(space);
            for (index, byte) in bytes.enumerate() {
                value.cast::<u8>().put_at(index, byte)?;
            }
            Ok(())
        }
        _ => value.cast::<bool>().put(false),
    }
}

/// Sets an attribute; without a value, writes its size.
pub(crate) fn set(
    attribute: c_uint,
    value: UserPointer<c_void>,
    size: UserPointer<usize>,
    scope: Scope,
) -> Result {
    let given = size.get()?;
    let kind = kind(attribute, scope)?;
    let mut values = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    if value.is_null() {
        return size.put(values.size(kind, attribute));
    }
    check_size(kind, given)?;
    match attribute {
        TRIGGER_HOST => values.trigger_host = value.cast::<u8>().get()? != 0,
        LIGHTWEIGHT => values.lightweight = value.cast::<u8>().get()? != 0,
        GENERATION_FLAGS => values.flags = value.cast::<u32>().get()?,
        FILE | PIPE => {
            let bytes = (0..given).map(|index| value.cast::<u8>().get_at(index));
            let text = bytes.collect::<Result<Vec<u8>>>()?;
            *values.text(attribute) = text.into_iter().take_while(|byte| *byte != 0).collect();
        }
        _ if value.cast::<u8>().get()? == 0 => {}
        _ => {
            return Err(Status::NOT_SUPPORTED.because(
                "the CPU device writes no core dumps: the error of a fault names its place",
            ));
        }
    }
    Ok(())
}
