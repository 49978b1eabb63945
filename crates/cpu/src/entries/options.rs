//! JIT options: what a caller asks of a compilation, and where it wants the
//! logs.

use std::ffi::{c_char, c_uint, c_void};
use std::time::Duration;

use super::entry::Given;
use super::status::{Answer, Status};

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
/// The numbers of CUDA 13 and room for newer ones: the other options ask for
/// what has no meaning here, as a number of registers.
const NUMBERS: c_uint = 64;

/// The options of one call, or of a linking session, for which its buffers
/// stay good as the documentation of `cuLinkCreate` asks.
#[derive(Default)]
pub(super) struct Options {
    values: Option<Given<*mut c_void>>,
    wall_time: Option<usize>,
    info: Log,
    error: Log,
    verbose: bool,
    /// Variables that a module declares and others define: names and addresses.
    symbols: [Option<Given<c_void>>; 2],
    symbol_count: usize,
}

/// A log's buffer, and where among the values its size stands.
#[derive(Default)]
struct Log {
    buffer: Option<Given<c_void>>,
    size: Option<usize>,
    /// Bytes of the buffer; the value becomes the length of the log.
    room: usize,
    text: String,
}

impl Options {
    pub(super) fn read(
        count: c_uint,
        numbers: Given<c_uint>,
        values: Given<*mut c_void>,
    ) -> Answer<Options> {
        let mut options = Options::default();
        for index in 0..count as usize {
            let (number, value) = (numbers.get_at(index)?, values.follow(index)?);
            options.values = Some(values);
            match number {
                WALL_TIME => options.wall_time = Some(index),
                INFO_LOG => options.info.buffer = Some(value),
                INFO_LOG_SIZE => options.info.sized(index, value),
                ERROR_LOG => options.error.buffer = Some(value),
                ERROR_LOG_SIZE => options.error.sized(index, value),
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
    pub(super) fn symbols(&self) -> Answer<Vec<(String, u64)>> {
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

    /// Adds to the log of errors.
    pub(super) fn error(&mut self, text: &str) -> Answer {
        self.error.add(self.values, text)
    }

    /// Adds to the log of what went well, if it is to be told.
    pub(super) fn verbose(&mut self, text: impl FnOnce() -> String) -> Answer {
        if self.verbose {
            self.info.add(self.values, &text())
        } else {
            Ok(())
        }
    }

    /// Says how long the compilation took, and how long the logs are, which
    /// callers also want to know of empty ones.
    pub(super) fn finish(&mut self, spent: Duration) -> Answer {
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
    fn sized(&mut self, index: usize, value: Given<c_void>) {
        (self.size, self.room) = (Some(index), value.addr() as u32 as usize);
    }

    fn add(&mut self, values: Option<Given<*mut c_void>>, text: &str) -> Answer {
        self.text.push_str(text);
        let (Some(values), Some(buffer), Some(index)) = (values, self.buffer, self.size) else {
            return Ok(());
        };
        if self.room == 0 || buffer.is_null() {
            return Ok(());
        }
        let kept = self.text.floor_char_boundary(self.room - 1);
        buffer.cast().put_text(&self.text[..kept], self.room)?;
        values.put_at(index, std::ptr::without_provenance_mut(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::entry::Argument;

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
        let (given, at) = unsafe { (numbers.as_mut_ptr().seen(), values.as_mut_ptr().seen()) };
        let mut options = Options::read(4, given, at).unwrap();
        options.error("line 5").unwrap();
        options.error("; more").unwrap();
        options.verbose(|| "nowhere to go".into()).unwrap();
        options.finish(Duration::from_micros(1500)).unwrap();
        assert_eq!(&error, b"line 5;\0");
        assert_eq!(values[1].addr(), 7);
        assert_eq!(f32::from_bits(values[2].addr() as u32), 1.5);
    }

    #[test]
    fn an_unknown_option_is_refused() {
        let (mut number, mut value) = (1000, std::ptr::null_mut::<c_void>());
        // SAFETY: both outlive the call.
        let (given, at) = unsafe { ((&raw mut number).seen(), (&raw mut value).seen()) };
        assert_eq!(
            Options::read(1, given, at).err().unwrap().status,
            Status::INVALID_VALUE
        );
        assert!(Options::read(0, given, at).is_ok());
    }
}
