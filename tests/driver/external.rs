//! Memory and semaphores of other libraries: what is refused. `examples/vulkan` imports some.
#![cfg(unix)]

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use ptxkit::driver::external::{Memory, Semaphore, SemaphoreKind};
use ptxkit::driver::{CudaError, Error};

use crate::support::{context, is_gpu, isolated};

/// Imports one end of a pipe, and fails if the other end still has somebody to talk to.
fn refused<T: std::fmt::Debug>(import: impl FnOnce(OwnedFd) -> Result<T, Error>) -> Error {
    let (mut from, mut to) = std::io::pipe().unwrap();
    to.write_all(b"kept").unwrap();
    let error = import(to.into()).unwrap_err();
    let mut told = String::new();
    from.read_to_string(&mut told).unwrap(); // ends when nobody can write any more
    assert_eq!(told, "kept");
    error
}

#[test]
fn what_is_no_memory_is_refused_and_closed() {
    isolated(
        "external::what_is_no_memory_is_refused_and_closed",
        &[],
        || {
            let context = context();
            // SAFETY: a pipe is of no device: the call fails before it is used.
            let errors = unsafe {
                [
                    refused(|pipe| Memory::import(&context, pipe, 4096)),
                    refused(|pipe| Memory::import_dedicated(&context, pipe, 4096)),
                    refused(|pipe| Semaphore::import(&context, SemaphoreKind::Binary, pipe)),
                    refused(|pipe| Semaphore::import(&context, SemaphoreKind::Timeline, pipe)),
                ]
            };
            for error in errors {
                if is_gpu() {
                    eprintln!("{error}");
                    continue;
                }
                assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
                assert!(error.to_string().contains("other libraries"), "{error}");
            }
            // Nothing is left of it.
            context.synchronize().unwrap();
        },
    );
}

#[test]
fn memory_has_bytes() {
    let context = context();
    let (_, pipe) = std::io::pipe().unwrap();
    // SAFETY: as above.
    let error = unsafe { Memory::import(&context, pipe.into(), 0) }.unwrap_err();
    if !is_gpu() {
        assert_eq!(error.code(), Some(CudaError::INVALID_VALUE), "{error}");
    }
}
