//! Descriptors of files, by which processes share memory and pools.

use std::ffi::{c_int, c_uint};
use std::fs::File;

use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
pub(super) const FILE_DESCRIPTOR: c_uint = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`: a machine without an IMEX domain makes pools for such handles, and no
/// handle.
pub(super) const FABRIC: c_uint = 8;

/// The caller owns the descriptor.
#[cfg(unix)]
pub(super) fn export(result: UserPointer<c_int>, file: File) -> Result {
    use std::os::fd::IntoRawFd;
    result.put(file.into_raw_fd())
}

#[cfg(not(unix))]
pub(super) fn export(_: UserPointer<c_int>, _: File) -> Result {
    Err(Status::NOT_SUPPORTED.into())
}

/// The caller keeps the descriptor, which is duplicated.
#[cfg(unix)]
pub(super) fn import(descriptor: usize) -> Result<File> {
    use std::os::fd::BorrowedFd;
    let bad = || Status::INVALID_VALUE.because("the descriptor is of no open file");
    let number = c_int::try_from(descriptor)
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(bad)?;
    // SAFETY: the caller answers for the descriptor; it is borrowed for the copy below.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(file.try_clone_to_owned().map_err(|_| bad())?.into())
}

#[cfg(not(unix))]
pub(super) fn import(_: usize) -> Result<File> {
    Err(Status::NOT_SUPPORTED.into())
}
