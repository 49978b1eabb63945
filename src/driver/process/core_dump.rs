//! Settings of the core dumps that a driver writes after a fault of a kernel.

use std::ffi::{c_uint, c_void};

use crate::driver::device::context::Context;
use crate::driver::device::driver::Driver;
use crate::driver::error::Error;

/// `CU_COREDUMP_*`
const ENABLE_ON_EXCEPTION: c_uint = 1;
const ENABLE_USER_TRIGGER: c_uint = 4;
const FILE: c_uint = 5;
const PIPE: c_uint = 6;
const GENERATION_FLAGS: c_uint = 7;

/// The longest name of a file or pipe.
const LONGEST: usize = 1023;

/// Settings of the core dumps of a context ([`Context::core_dumps`]) or of all contexts
/// ([`Driver::core_dumps`]), from CUDA 12.1, for `cuda-gdb`. The driver's environment variables,
/// as `CUDA_ENABLE_COREDUMP_ON_EXCEPTION`, come before them. The CPU device writes none
/// (`CUDA_ERROR_NOT_SUPPORTED`).
///
/// ```no_run
/// use ptxkit::driver::{CoreDumpFlags, Driver};
/// let dumps = Driver::nvidia()?.core_dumps();
/// dumps.set_file("/var/tmp/core.gpu")?;
/// dumps.set_flags(CoreDumpFlags::LIGHTWEIGHT | CoreDumpFlags::SKIP_ABORT)?;
/// dumps.enable(true)?;
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoreDumps {
    of: Scope,
}

#[derive(Clone, Debug)]
enum Scope {
    Process(Driver),
    Context(Context),
}

/// What a core dump leaves out, and how it is written (`CUCoredumpGenerationFlags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoreDumpFlags(pub u32);

impl CoreDumpFlags {
    /// Code that is not relocated.
    pub const SKIP_CODE: CoreDumpFlags = CoreDumpFlags(1);
    /// Global memory.
    pub const SKIP_GLOBAL_MEMORY: CoreDumpFlags = CoreDumpFlags(1 << 1);
    /// Shared memory.
    pub const SKIP_SHARED_MEMORY: CoreDumpFlags = CoreDumpFlags(1 << 2);
    /// Local memory.
    pub const SKIP_LOCAL_MEMORY: CoreDumpFlags = CoreDumpFlags(1 << 3);
    /// The process is not aborted.
    pub const SKIP_ABORT: CoreDumpFlags = CoreDumpFlags(1 << 4);
    /// Constant memory.
    pub const SKIP_CONSTANT_MEMORY: CoreDumpFlags = CoreDumpFlags(1 << 5);
    /// No memory and no code.
    pub const LIGHTWEIGHT: CoreDumpFlags = CoreDumpFlags(0x2f);
}

impl std::ops::BitOr for CoreDumpFlags {
    type Output = CoreDumpFlags;

    fn bitor(self, other: CoreDumpFlags) -> CoreDumpFlags {
        CoreDumpFlags(self.0 | other.0)
    }
}

impl Driver {
    /// Settings of the core dumps of all contexts (`cuCoredumpGetAttributeGlobal`,
    /// `cuCoredumpSetAttributeGlobal`).
    pub fn core_dumps(&self) -> CoreDumps {
        CoreDumps {
            of: Scope::Process(*self),
        }
    }
}

impl Context {
    /// Settings of the core dumps of this context (`cuCoredumpGetAttribute`,
    /// `cuCoredumpSetAttribute`).
    pub fn core_dumps(&self) -> CoreDumps {
        CoreDumps {
            of: Scope::Context(self.clone()),
        }
    }
}

impl CoreDumps {
    /// Whether a fault of a kernel makes one.
    pub fn is_enabled(&self) -> Result<bool, Error> {
        Ok(self.number(ENABLE_ON_EXCEPTION)? != 0)
    }

    /// Sets it.
    pub fn enable(&self, on: bool) -> Result<(), Error> {
        self.set_number(ENABLE_ON_EXCEPTION, on.into())
    }

    /// Whether one is made when something is written into the [pipe](CoreDumps::pipe).
    pub fn is_triggered(&self) -> Result<bool, Error> {
        Ok(self.number(ENABLE_USER_TRIGGER)? != 0)
    }

    /// Sets it, of all contexts alone.
    pub fn enable_trigger(&self, on: bool) -> Result<(), Error> {
        self.set_number(ENABLE_USER_TRIGGER, on.into())
    }

    /// The file that it goes into.
    pub fn file(&self) -> Result<String, Error> {
        self.text(FILE)
    }

    /// Sets it; a name has at most 1023 bytes ([`Error::Length`]).
    pub fn set_file(&self, name: &str) -> Result<(), Error> {
        self.set_text(FILE, name)
    }

    /// The pipe that is watched.
    pub fn pipe(&self) -> Result<String, Error> {
        self.text(PIPE)
    }

    /// Sets it, of all contexts alone.
    pub fn set_pipe(&self, name: &str) -> Result<(), Error> {
        self.set_text(PIPE, name)
    }

    /// What is left out (from CUDA 12.5).
    pub fn flags(&self) -> Result<CoreDumpFlags, Error> {
        self.number(GENERATION_FLAGS).map(CoreDumpFlags)
    }

    /// Sets it, in place of all flags before.
    pub fn set_flags(&self, flags: CoreDumpFlags) -> Result<(), Error> {
        self.set_number(GENERATION_FLAGS, flags.0)
    }

    fn number(&self, attribute: c_uint) -> Result<u32, Error> {
        let value = self.bytes(attribute)?;
        let mut number = [0; 4];
        let len = value.len().min(4);
        number[..len].copy_from_slice(&value[..len]);
        Ok(u32::from_le_bytes(number))
    }

    fn set_number(&self, attribute: c_uint, number: u32) -> Result<(), Error> {
        // A truth value has one byte, flags have four.
        let mut size = 0;
        self.set(attribute, std::ptr::null_mut(), &mut size)?;
        let mut value = vec![0; size];
        let len = size.min(4);
        value[..len].copy_from_slice(&number.to_le_bytes()[..len]);
        self.set(attribute, value.as_mut_ptr().cast(), &mut size)
    }

    fn text(&self, attribute: c_uint) -> Result<String, Error> {
        let value = self.bytes(attribute)?;
        let end = value.iter().position(|&byte| byte == 0);
        Ok(String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]).into_owned())
    }

    fn set_text(&self, attribute: c_uint, name: &str) -> Result<(), Error> {
        let end = name.find('\0').unwrap_or(name.len());
        if end != name.len() || end > LONGEST {
            return Err(Error::Length {
                what: "name of a core dump up to a NUL",
                given: name.len(),
                capacity: end.min(LONGEST),
            });
        }
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        let mut size = value.len();
        self.set(attribute, value.as_mut_ptr().cast(), &mut size)
    }

    /// What an attribute has.
    fn bytes(&self, attribute: c_uint) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        self.get(attribute, std::ptr::null_mut(), &mut size)?;
        let mut value = vec![0; size];
        self.get(attribute, value.as_mut_ptr().cast(), &mut size)?;
        value.truncate(size);
        Ok(value)
    }

    /// `value` is null, or has `size` bytes.
    fn get(&self, attribute: c_uint, value: *mut c_void, size: &mut usize) -> Result<(), Error> {
        // SAFETY: as said above; the context is current.
        unsafe {
            match &self.of {
                Scope::Process(driver) => {
                    let api = driver.api();
                    Ok(api.cuCoredumpGetAttributeGlobal(attribute, value, size)?)
                }
                Scope::Context(context) => Ok(context
                    .bind()?
                    .cuCoredumpGetAttribute(attribute, value, size)?),
            }
        }
    }

    /// The same to set it.
    fn set(&self, attribute: c_uint, value: *mut c_void, size: &mut usize) -> Result<(), Error> {
        // SAFETY: as above.
        unsafe {
            match &self.of {
                Scope::Process(driver) => {
                    let api = driver.api();
                    Ok(api.cuCoredumpSetAttributeGlobal(attribute, value, size)?)
                }
                Scope::Context(context) => Ok(context
                    .bind()?
                    .cuCoredumpSetAttribute(attribute, value, size)?),
            }
        }
    }
}
