//! What compiled code asks of the device itself.

use crate::cpu::block::BlockContext;

pub(super) extern "C" fn clock() -> u64 {
    0
}

pub(super) extern "C" fn global_timer() -> u64 {
    0
}

pub(super) unsafe extern "C" fn check_slow(
    _context: *mut BlockContext,
    _thread: u32,
    _address: u64,
    _access: u32,
    _line: u32,
) -> u32 {
    0
}

pub(super) unsafe extern "C" fn fault(
    _context: *mut BlockContext,
    _kind: u32,
    _thread: u32,
    _address: u64,
    _access: u32,
    _line: u32,
) -> u32 {
    0
}

pub(super) unsafe extern "C" fn vprintf(
    _context: *mut BlockContext,
    _format: u64,
    _arguments: u64,
) -> i32 {
    0
}

pub(super) unsafe extern "C" fn assertfail(
    _context: *mut BlockContext,
    _thread: u32,
    _ptx_line: u32,
    _message: u64,
    _file: u64,
    _line: u32,
    _function: u64,
) -> u32 {
    0
}

pub(super) unsafe extern "C" fn malloc(_context: *mut BlockContext, _bytes: u64) -> u64 {
    0
}

pub(super) unsafe extern "C" fn free(
    _context: *mut BlockContext,
    _thread: u32,
    _line: u32,
    _address: u64,
) -> u32 {
    0
}
