//! The PTX compiler's logs: buffers handed to the driver, and their lines read back.

use std::ffi::{c_uint, c_void};
use std::fmt;

/// One line of a compiler's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The line in the PTX, from 1, where the compiler named one.
    pub line: Option<u32>,
    /// Its severity.
    pub severity: LogSeverity,
    /// The message without place and severity.
    pub message: String,
}

/// Severity of a line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSeverity {
    /// Informational.
    Info,
    /// Warning: the code compiles.
    Warning,
    /// Error: the code does not compile.
    Error,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Reads a log as ptxas and the driver write it:
/// `ptxas application ptx input, line 5; error   : Unknown symbol 'x'`.
pub fn read_log(log: &str) -> Vec<LogLine> {
    log.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(read_line)
        .collect()
}

/// The same log of a part of a text, with the lines of the whole text: `original` gives
/// them.
#[cfg(any(test, feature = "cache"))]
pub fn with_lines(log: &str, original: impl Fn(u32) -> Option<u32>) -> String {
    let lines: Vec<String> = log
        .lines()
        .map(|text| match place(text) {
            Some((digits, line)) => {
                let line = original(line).map_or("?".to_owned(), |line| line.to_string());
                format!("{}{line}{}", &text[..digits.start], &text[digits.end..])
            }
            None => text.to_owned(),
        })
        .collect();
    lines.join("\n")
}

/// The line that a line of a log names, and where.
fn place(text: &str) -> Option<(std::ops::Range<usize>, u32)> {
    let semicolon = text.find(';')?;
    let start = text[..semicolon].rfind("line ")? + 5;
    let line = text[start..semicolon].trim().parse().ok()?;
    Some((start..semicolon, line))
}

fn read_line(text: &str) -> LogLine {
    let mut rest = text.strip_prefix("ptxas").unwrap_or(text).trim_start();
    let mut line = None;
    if let Some((digits, number)) = place(rest) {
        line = Some(number);
        rest = rest[digits.end + 1..].trim_start();
    }
    let mut severity = LogSeverity::Info;
    if let Some((word, message)) = rest.split_once(':') {
        let known = match word.trim().to_ascii_lowercase().as_str() {
            "error" | "fatal" => Some(LogSeverity::Error),
            "warning" => Some(LogSeverity::Warning),
            "info" => Some(LogSeverity::Info),
            _ => None,
        };
        if let Some(known) = known {
            severity = known;
            rest = message.trim();
        }
    }
    LogLine {
        line,
        severity,
        message: rest.to_owned(),
    }
}

/// `CUjit_option` values as integers, since the bindings' enum is closed.
pub(crate) mod option {
    use std::ffi::c_uint;

    pub const MAX_REGISTERS: c_uint = 0;
    pub const THREADS_PER_BLOCK: c_uint = 1;
    pub const WALL_TIME: c_uint = 2;
    pub const INFO_LOG_BUFFER: c_uint = 3;
    pub const INFO_LOG_BUFFER_SIZE_BYTES: c_uint = 4;
    pub const ERROR_LOG_BUFFER: c_uint = 5;
    pub const ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
    pub const OPTIMIZATION_LEVEL: c_uint = 7;
    pub const TARGET: c_uint = 9;
    pub const GENERATE_DEBUG_INFO: c_uint = 11;
    pub const LOG_VERBOSE: c_uint = 12;
    pub const GENERATE_LINE_INFO: c_uint = 13;
    pub const CACHE_MODE: c_uint = 14;
    pub const GLOBAL_SYMBOL_NAMES: c_uint = 17;
    pub const GLOBAL_SYMBOL_ADDRESSES: c_uint = 18;
    pub const GLOBAL_SYMBOL_COUNT: c_uint = 19;
    pub const POSITION_INDEPENDENT_CODE: c_uint = 30;
    pub const MIN_CTA_PER_SM: c_uint = 31;
    pub const MAX_THREADS_PER_BLOCK: c_uint = 32;
    pub const OVERRIDE_DIRECTIVE_VALUES: c_uint = 33;
    /// Since CUDA 13.0.
    pub const SPLIT_COMPILE: c_uint = 34;
}

/// JIT options as the driver takes them: scalars by value in the pointer, logs in buffers
/// that stay in place until this is dropped. The driver writes the compile time back into
/// its value.
pub(crate) struct JitOptionList {
    options: Vec<c_uint>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    error: Vec<u8>,
}

const LOG_BYTES: usize = 64 * 1024;

impl JitOptionList {
    const TIME: usize = 4;

    pub fn new() -> JitOptionList {
        let mut list = JitOptionList {
            options: Vec::with_capacity(16),
            values: Vec::with_capacity(16),
            info: vec![0; LOG_BYTES],
            error: vec![0; LOG_BYTES],
        };
        let (info, error) = (list.info.as_mut_ptr(), list.error.as_mut_ptr());
        list.options.extend([
            option::INFO_LOG_BUFFER,
            option::INFO_LOG_BUFFER_SIZE_BYTES,
            option::ERROR_LOG_BUFFER,
            option::ERROR_LOG_BUFFER_SIZE_BYTES,
            option::WALL_TIME,
        ]);
        let size = std::ptr::without_provenance_mut(LOG_BYTES);
        list.values
            .extend([info.cast(), size, error.cast(), size, std::ptr::null_mut()]);
        list
    }

    /// Adds a scalar option.
    pub fn set(&mut self, option: c_uint, value: u32) {
        self.options.push(option);
        self.values
            .push(std::ptr::without_provenance_mut(value as usize));
    }

    /// Adds an option whose value is an array; the array must outlive the call.
    pub fn set_array<T>(&mut self, option: c_uint, array: &[T]) {
        self.options.push(option);
        self.values.push(array.as_ptr().cast_mut().cast());
    }

    pub fn count(&self) -> c_uint {
        self.options.len() as c_uint
    }

    pub fn options(&mut self) -> *mut c_uint {
        self.options.as_mut_ptr()
    }

    pub fn values(&mut self) -> *mut *mut c_void {
        self.values.as_mut_ptr()
    }

    pub fn info_log(&self) -> String {
        text(&self.info)
    }

    pub fn error_log(&self) -> String {
        text(&self.error)
    }

    /// Compile time in milliseconds, a float in the low four bytes of the value; `None` if
    /// the driver did not write it.
    pub fn wall_time_ms(&self) -> Option<f32> {
        let time = f32::from_bits(self.values[Self::TIME].addr() as u32);
        (time.is_finite() && time > 0.0).then_some(time)
    }
}

/// A log up to its NUL. The length that comes back in the options is not
/// needed, and after an error not every driver writes it.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&buffer[..end.unwrap_or(buffer.len())])
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_out_of_a_ptxas_log() {
        let log = "ptxas application ptx input, line 5; error   : Unknown symbol 'x'\n\
                   ptxas fatal   : Ptx assembly aborted due to errors\n\
                   ptxas warning : Too big maxrregcount value\n\n\
                   ptxas info    : 0 bytes gmem\n";
        let lines = read_log(log);
        assert_eq!(
            lines[0],
            LogLine {
                line: Some(5),
                severity: LogSeverity::Error,
                message: "Unknown symbol 'x'".into()
            }
        );
        assert_eq!(lines[1].line, None);
        assert_eq!(lines[1].severity, LogSeverity::Error);
        assert_eq!(lines[2].severity, LogSeverity::Warning);
        assert_eq!(lines[3].message, "0 bytes gmem");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn lines_of_a_part_become_lines_of_the_whole() {
        let log = "ptxas application ptx input, line 5; error   : Unknown symbol 'x'\n\
                   ptxas application ptx input, line 6; error   : line 6; again\n\
                   ptxas fatal   : Ptx assembly aborted due to errors";
        let whole = with_lines(log, |line| (line == 5).then_some(105));
        assert_eq!(
            whole,
            "ptxas application ptx input, line 105; error   : Unknown symbol 'x'\n\
             ptxas application ptx input, line ?; error   : line 6; again\n\
             ptxas fatal   : Ptx assembly aborted due to errors"
        );
    }

    #[test]
    fn a_log_of_another_shape_is_kept() {
        let lines = read_log("JIT: line; of; nothing: known");
        assert_eq!(lines[0].message, "JIT: line; of; nothing: known");
        assert_eq!(lines[0].line, None);
    }

    #[test]
    fn a_log_ends_at_its_nul_or_its_buffer() {
        assert_eq!(text(b"one\n\0two"), "one");
        assert_eq!(text(b"one"), "one");
        assert_eq!(text(b""), "");
    }
}
