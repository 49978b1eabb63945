//! JIT options, and the buffers of a caller for the logs.

use std::ffi::{c_char, c_uint, c_void};
use std::time::Duration;

use super::status::{Result, Status};
use super::user_pointer::UserPointer;

/// `CU_JIT_…`
const WALL_TIME: c_uint = 2;
const INFO_LOG: c_uint = 3;
const INFO_LOG_SIZE: c_uint = 4;
const ERROR_LOG: c_uint = 5;
const ERROR_LOG_SIZE: c_uint = 6;
const LOG_VERBOSE: c_uint = 12;
const SYMBOL_NAMES: c_uint = 17;
const SYMBOL_ADDRESSES: c_uint = 18;
const SYMBOL_COUNT: c_uint = 19;
/// Above the numbers of CUDA 13 and of some versions to come. The other options, such
/// as the number of registers, have no effect here.
const NUMBERS: c_uint = 64;

/// The options of one call, or of a linking session, whose buffers stay valid as the
/// documentation of `cuLinkCreate` demands.
#[derive(Default)]
pub(crate) struct Options {
    values: Option<UserPointer<*mut c_void>>,
    wall_time: Option<usize>,
    info: Log,
    error: Log,
    verbose: bool,
    /// Variables that a module declares and others define: names and addresses.
    symbols: [Option<UserPointer<c_void>>; 2],
    symbol_count: usize,
}

/// The buffer of a log, and the index of its size among the values.
#[derive(Default)]
struct Log {
    buffer: Option<UserPointer<c_void>>,
    size: Option<usize>,
    /// Bytes of the buffer; the value becomes the length of the log.
    capacity: usize,
    text: String,
}

impl Options {
    pub(crate) fn read(
        count: c_uint,
        numbers: UserPointer<c_uint>,
        values: UserPointer<*mut c_void>,
    ) -> Result<Options> {
        let mut options = Options::default();
        if count > NUMBERS {
            return Err(Status::INVALID_VALUE.because("there are not that many JIT options"));
        }
        for index in 0..count as usize {
            let (number, value) = (numbers.get_at(index)?, values.follow(index)?);
            options.values = Some(values);
            match number {
                WALL_TIME => options.wall_time = Some(index),
                INFO_LOG => options.info.buffer = Some(value),
                INFO_LOG_SIZE => options.info.set_size(index, value),
                ERROR_LOG => options.error.buffer = Some(value),
                ERROR_LOG_SIZE => options.error.set_size(index, value),
                LOG_VERBOSE => options.verbose = value.addr() as u32 != 0,
                SYMBOL_NAMES => options.symbols[0] = Some(value),
                SYMBOL_ADDRESSES => options.symbols[1] = Some(value),
                SYMBOL_COUNT => options.symbol_count = value.addr() as u32 as usize,
                _ if number < NUMBERS => (),
                _ => {
                    let detail = format!("no JIT option has the number {number}");
                    return Err(Status::INVALID_VALUE.because(detail));
                }
            }
        }
        Ok(options)
    }

    /// The variables that the caller defines, and where they are.
    pub(crate) fn symbols(&self) -> Result<Vec<(String, u64)>> {
        let [Some(names), Some(addresses)] = self.symbols else {
            return Ok(Vec::new());
        };
        let (names, addresses) = (names.cast::<*mut c_char>(), addresses.cast::<*mut c_void>());
        (0..self.symbol_count)
            .map(|index| {
                let name = names.follow(index)?.text()?.to_string_lossy().into_owned();
                Ok((name, addresses.follow(index)?.addr() as u64))
            })
            .collect()
    }

    /// Whether the log of information is asked for.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Adds to the log of errors.
    pub(crate) fn error(&mut self, text: &str) -> Result {
        self.error.add(self.values, text)
    }

    /// Adds to the log of information, if it is verbose.
    pub(crate) fn verbose(&mut self, text: impl FnOnce() -> String) -> Result {
        if self.verbose {
            self.info.add(self.values, &text())
        } else {
            Ok(())
        }
    }

    /// Writes the time of the compilation and the lengths of the logs, also of empty
    /// ones.
    pub(crate) fn finish(&mut self, spent: Duration) -> Result {
        self.info.add(self.values, "")?;
        self.error.add(self.values, "")?;
        if let (Some(values), Some(index)) = (self.values, self.wall_time) {
            // A float in the low four bytes, in milliseconds.
            let bits = (spent.as_secs_f32() * 1e3).to_bits();
            values.put_at(index, std::ptr::without_provenance_mut(bits as usize))?;
        }
        Ok(())
    }
}

impl Log {
    fn set_size(&mut self, index: usize, value: UserPointer<c_void>) {
        (self.size, self.capacity) = (Some(index), value.addr() as u32 as usize);
    }

    fn add(&mut self, values: Option<UserPointer<*mut c_void>>, text: &str) -> Result {
        self.text.push_str(text);
        let (Some(values), Some(buffer), Some(index)) = (values, self.buffer, self.size) else {
            return Ok(());
        };
        if self.capacity == 0 || buffer.is_null() {
            return Ok(());
        }
        let length = self.text.floor_char_boundary(self.capacity - 1);
        buffer
            .cast()
            .put_text(&self.text[..length], self.capacity)?;
        values.put_at(index, std::ptr::without_provenance_mut(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_go_to_the_callers_buffers_and_their_lengths_to_the_values() {
        let mut error = [0xff_u8; 8];
        let mut numbers = [ERROR_LOG, ERROR_LOG_SIZE, WALL_TIME, LOG_VERBOSE];
        let mut values = [
            error.as_mut_ptr().cast::<c_void>(),
            std::ptr::without_provenance_mut(8),
            std::ptr::null_mut(),
            std::ptr::without_provenance_mut(1),
        ];
        // SAFETY: both arrays outlive the options.
        let (numbers, pointers) = unsafe {
            (
                UserPointer::new(numbers.as_mut_ptr()),
                UserPointer::new(values.as_mut_ptr()),
            )
        };
        let mut options = Options::read(4, numbers, pointers).unwrap();
        options.error("line 5").unwrap();
        options.error("; more").unwrap();
        options.verbose(|| "no buffer".into()).unwrap();
        options.finish(Duration::from_micros(1500)).unwrap();
        assert_eq!(&error, b"line 5;\0");
        assert_eq!(values[1].addr(), 7);
        assert_eq!(f32::from_bits(values[2].addr() as u32), 1.5);
    }

    #[test]
    fn an_unknown_option_is_refused() {
        let (mut number, mut value) = (1000, std::ptr::null_mut::<c_void>());
        // SAFETY: both outlive the call.
        let (numbers, values) = unsafe {
            (
                UserPointer::new(&raw mut number),
                UserPointer::new(&raw mut value),
            )
        };
        assert_eq!(
            Options::read(1, numbers, values).err().unwrap().status,
            Status::INVALID_VALUE
        );
        assert!(Options::read(0, numbers, values).is_ok());
    }
}
