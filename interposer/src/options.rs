//! The options of a load (`CUjit_option`), as ptxkit's compiler takes them.

use std::ffi::{c_uint, c_void};

use ptxkit::jit::{CacheMode, JitOptions};

const MAX_REGISTERS: c_uint = 0;
const WALL_TIME: c_uint = 2;
const INFO_LOG_BUFFER: c_uint = 3;
const INFO_LOG_BUFFER_SIZE_BYTES: c_uint = 4;
const ERROR_LOG_BUFFER: c_uint = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
const OPTIMIZATION_LEVEL: c_uint = 7;
const TARGET_FROM_CUCONTEXT: c_uint = 8;
const FALLBACK_STRATEGY: c_uint = 10;
const GENERATE_DEBUG_INFO: c_uint = 11;
const LOG_VERBOSE: c_uint = 12;
const GENERATE_LINE_INFO: c_uint = 13;
const CACHE_MODE: c_uint = 14;

/// The options of a load.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    pub jit: JitOptions,
    /// Whether nothing in them is of the load as a whole, such as a log or its time.
    pub can_be_cut: bool,
}

impl Options {
    /// Those of a load without options.
    pub fn none() -> Options {
        Options {
            jit: JitOptions::default(),
            can_be_cut: true,
        }
    }
}

/// Returns the options; an error names one with which a load is forwarded.
///
/// # Safety
/// Both arrays must have `count` elements.
pub unsafe fn read(
    count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
) -> Result<Options, String> {
    let mut all = Options::none();
    if count == 0 {
        return Ok(all);
    }
    if options.is_null() || values.is_null() {
        return Err("options without an array".to_owned());
    }
    let count = count as usize;
    // SAFETY: the caller's.
    let (options, values) = unsafe {
        (
            std::slice::from_raw_parts(options, count),
            std::slice::from_raw_parts(values, count),
        )
    };
    let found = &mut all.jit;
    for (&option, value) in options.iter().zip(values) {
        // Numbers are in the place of the pointer.
        let number = value.addr() as u32;
        match option {
            MAX_REGISTERS => found.max_registers = (number != 0).then_some(number),
            OPTIMIZATION_LEVEL => {
                let level = u8::try_from(number).ok().filter(|level| *level <= 4);
                found.optimization = Some(level.ok_or("an optimization level above 4")?);
            }
            GENERATE_DEBUG_INFO => found.debug = number != 0,
            GENERATE_LINE_INFO => found.line_info = number != 0,
            CACHE_MODE => {
                found.cache_mode = match number {
                    0 => None,
                    1 => Some(CacheMode::L2Only),
                    2 => Some(CacheMode::L1),
                    _ => return Err(format!("cache mode {number}")),
                }
            }
            // The driver writes these for a cubin too.
            WALL_TIME | INFO_LOG_BUFFER..=ERROR_LOG_BUFFER_SIZE_BYTES => all.can_be_cut = false,
            TARGET_FROM_CUCONTEXT | FALLBACK_STRATEGY => {}
            LOG_VERBOSE if number == 0 => {}
            other => return Err(format!("option {other}")),
        }
    }
    Ok(all)
}

/// The arrays of a link's options, into which the driver writes when the link is completed.
#[derive(Clone, Copy)]
pub struct Outputs {
    count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
}

// SAFETY: the arrays are the program's, which keeps them as long as the link; they are used by the threads that call
// the driver's entries with the link.
unsafe impl Send for Outputs {}

impl Outputs {
    pub fn new(count: c_uint, options: *const c_uint, values: *const *mut c_void) -> Outputs {
        Outputs {
            count,
            options,
            values,
        }
    }

    /// The options.
    ///
    /// # Safety
    /// As for [`read`].
    pub unsafe fn options(self) -> Result<Options, String> {
        // SAFETY: the caller's.
        unsafe { read(self.count, self.options, self.values) }
    }

    /// Writes the time, and empty logs.
    ///
    /// # Safety
    /// The arrays must be those of the link, and valid for writes.
    pub unsafe fn write(self, milliseconds: f32) {
        if self.count == 0 || self.options.is_null() || self.values.is_null() {
            return;
        }
        let count = self.count as usize;
        // SAFETY: the caller's.
        let (options, values) = unsafe {
            (
                std::slice::from_raw_parts(self.options, count),
                std::slice::from_raw_parts_mut(self.values.cast_mut(), count),
            )
        };
        let find = |wanted| options.iter().position(|option| *option == wanted);
        if let Some(time) = find(WALL_TIME) {
            values[time] = std::ptr::without_provenance_mut(milliseconds.to_bits() as usize);
        }
        for (log, size) in [
            (INFO_LOG_BUFFER, INFO_LOG_BUFFER_SIZE_BYTES),
            (ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES),
        ] {
            let (Some(log), Some(size)) = (find(log), find(size)) else {
                continue;
            };
            if !values[log].is_null() && values[size].addr() > 0 {
                // SAFETY: the program's buffer has as many bytes as it says.
                unsafe { values[log].cast::<u8>().write(0) };
            }
            values[size] = std::ptr::null_mut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    fn read_all(options: &[(c_uint, usize)]) -> Result<Options, String> {
        let names: Vec<c_uint> = options.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = options
            .iter()
            .map(|(_, value)| without_provenance_mut(*value))
            .collect();
        // SAFETY: the arrays are as long.
        unsafe { read(names.len() as c_uint, names.as_ptr(), values.as_ptr()) }
    }

    #[test]
    fn known_options_are_taken_and_others_named() {
        let found = read_all(&[(MAX_REGISTERS, 32), (OPTIMIZATION_LEVEL, 1), (5, 0), (2, 0)]);
        let jit = JitOptions {
            max_registers: Some(32),
            optimization: Some(1),
            ..JitOptions::default()
        };
        let expected = Options {
            jit,
            can_be_cut: false,
        };
        assert_eq!(found, Ok(expected));
        let cut = |options: &[_]| read_all(options).map(|options| options.can_be_cut);
        assert_eq!(cut(&[(MAX_REGISTERS, 32)]), Ok(true));
        assert_eq!(cut(&[(WALL_TIME, 0)]), Ok(false));
        assert_eq!(read_all(&[(9, 90)]), Err("option 9".to_owned()));
        assert_eq!(read_all(&[(LOG_VERBOSE, 1)]), Err("option 12".to_owned()));
        assert!(read_all(&[(OPTIMIZATION_LEVEL, 300)]).is_err());
    }
}
