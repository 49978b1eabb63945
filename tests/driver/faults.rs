//! Kernels that go wrong: the error names what happened, the context is lost,
//! and so each test has a process of its own.

use ptxkit::driver::{CudaError, DeviceBuffer, Error, LaunchConfig};

use crate::kernels::STRAY;
use crate::support::{is_gpu, isolated, kernel};

/// Launches `stray` at an address that `place` makes from a buffer's.
fn stray(place: impl FnOnce(u64) -> u64) -> Error {
    let (context, stream, stray) = kernel(STRAY, "stray");
    let buffer = DeviceBuffer::<u32>::zeroed(&context, 4).unwrap();
    let config = LaunchConfig::new([2, 1, 1], [3, 1, 1]);
    let address = place(buffer.address());
    let error = match stray.launch(config, &stream, (address,)) {
        Ok(()) => stream.synchronize().unwrap_err(),
        Err(error) => error,
    };
    assert!(error.is_sticky(), "{error}");
    // Everything after it fails too, and nothing crashes.
    assert!(context.synchronize().is_err());
    assert!(buffer.to_vec().is_err());
    error
}

#[test]
fn an_illegal_address() {
    isolated("faults::an_illegal_address", &[], || {
        let error = stray(|_| 0x10);
        assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
        if !is_gpu() {
            let text = error.to_string();
            let line = STRAY
                .lines()
                .position(|line| line.contains("st.global"))
                .unwrap()
                + 1;
            for part in ["kernel stray", "0x10", &format!("line {line}")] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    });
}

#[test]
fn a_misaligned_address() {
    isolated("faults::a_misaligned_address", &[], || {
        let error = stray(|address| address + 1);
        assert_eq!(error.code(), Some(CudaError::MISALIGNED_ADDRESS), "{error}");
    });
}

/// A GPU sees pages only; the CPU device sees every buffer's end.
#[test]
fn an_access_just_past_a_buffer() {
    isolated("faults::an_access_just_past_a_buffer", &[], || {
        if is_gpu() {
            return;
        }
        let error = stray(|address| address + 16);
        assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
    });
}
