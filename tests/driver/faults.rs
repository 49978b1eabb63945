//! Kernels that go wrong: the error names what happened, the context is lost,
//! and so each test has a process of its own.

use ptxkit::driver::{CudaError, DeviceBuffer, Error, LaunchConfig, Module, Stream};

use crate::kernels::{ADD, STRAY, TRAPPED};
use crate::support::{is_gpu, is_sliced, isolated, kernel};

/// Launches `stray` at an address that `place` makes from a buffer's.
fn stray(place: impl FnOnce(u64) -> u64) -> Error {
    let (context, stream, stray) = kernel(STRAY, "stray");
    let buffer = DeviceBuffer::<u32>::zeroed(&context, 4).unwrap();
    let config = LaunchConfig::new([2, 1, 1], [3, 1, 1]);
    let address = place(buffer.address());
    let error = match unsafe { stray.launch(config, &stream, (address,)) } {
        Ok(()) => stream.synchronize().unwrap_err(),
        Err(error) => error,
    };
    assert!(error.is_sticky(), "{error}");
    assert!(error.is_asynchronous(), "{error}");
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
            for part in ["kernel stray", "0x10"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            // A slice has lines of its own.
            if !is_sliced() {
                assert!(text.contains(&format!("line {line}")), "{line}: {text}");
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

#[test]
fn a_trap() {
    isolated("faults::a_trap", &[], || {
        let (context, stream, trapped) = kernel(TRAPPED, "trapped");
        unsafe { trapped.launch(LaunchConfig::default(), &stream, (0_u32,)) }.unwrap();
        stream.synchronize().unwrap();
        unsafe { trapped.launch(LaunchConfig::default(), &stream, (1_u32,)) }.unwrap();
        let error = stream.synchronize().unwrap_err();
        let expected = [CudaError::LAUNCH_FAILED, CudaError::ILLEGAL_INSTRUCTION];
        assert!(
            error.code().is_some_and(|code| expected.contains(&code)),
            "{error}"
        );
        assert!(error.is_sticky() && error.is_asynchronous(), "{error}");
        // A call that is not to blame tells of it.
        let error = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap_err();
        assert!(error.is_asynchronous(), "{error}");
    });
}

#[test]
fn check_mode_names_the_launch() {
    isolated(
        "faults::check_mode_names_the_launch",
        &[("PTXKIT_CHECK", "1")],
        || {
            let (context, stream, add) = kernel(ADD, "add");
            assert!(context.check_mode());
            let stray = Module::load(&context, STRAY.as_bytes())
                .unwrap()
                .kernel("stray")
                .unwrap();
            let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
            let one = LaunchConfig::default();
            unsafe { add.launch(one, &stream, (&data, 1_u32)) }.unwrap();
            let config = LaunchConfig::new([2, 1, 1], [3, 1, 1]);
            let error = unsafe { stray.launch(config, &stream, (0x10_u64,)) }.unwrap_err();
            let text = error.to_string();
            for part in ["kernel `stray`", "grid 2 x 1 x 1", "block 3 x 1 x 1"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
            assert!(error.is_sticky() && !error.is_asynchronous(), "{error}");
        },
    );
}

/// Without check mode the launch succeeds, and something later fails.
#[test]
fn an_error_that_comes_late_is_told_apart() {
    isolated(
        "faults::an_error_that_comes_late_is_told_apart",
        &[],
        || {
            let (context, stream, stray) = kernel(STRAY, "stray");
            assert!(!context.check_mode());
            let early = unsafe { stray.launch(LaunchConfig::default(), &stream, ()) }.unwrap_err();
            assert!(!early.is_asynchronous() && !early.is_sticky(), "{early}");
            unsafe { stray.launch(LaunchConfig::default(), &stream, (0x10_u64,)) }.unwrap();
            let late = stream.synchronize().unwrap_err();
            assert!(late.is_asynchronous(), "{late}");
            assert!(Stream::new(&context).is_err());
        },
    );
}

/// Each thread reads the number after its own; the last one reads past the buffer.
const NEXT: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry next(.param .u64 a, .param .u64 out, .param .u32 step)\n{\n\
    .reg .b64 %a, %o, %i; .reg .b32 %t, %s, %v;\n\
    ld.param.u64 %a, [a]; ld.param.u64 %o, [out]; ld.param.u32 %s, [step];\n\
    mov.u32 %t, %tid.x; mul.wide.u32 %i, %t, 4; add.u64 %o, %o, %i;\n\
    add.u32 %t, %t, %s; mul.wide.u32 %i, %t, 4; add.u64 %a, %a, %i;\n\
    ld.global.u32 %v, [%a]; st.global.u32 [%o], %v; ret;\n}\n";

/// With `PTXKIT_CPU_READ_PAST=report` a launch continues after a read just past a buffer, as on a
/// GPU. A read far from the buffer is still a fault.
fn read_past(name: &str, lanes: &str) {
    let environment = [
        ("PTXKIT_CPU_READ_PAST", "report"),
        ("PTXKIT_CPU_LANES", lanes),
    ];
    isolated(name, &environment, || {
        let (context, stream, next) = kernel(NEXT, "next");
        let numbers: Vec<u32> = (0..96).collect();
        let buffer = DeviceBuffer::from_slice(&context, &numbers).unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&context, 96).unwrap();
        let config = LaunchConfig::for_elements(96, 96);
        unsafe { next.launch(config, &stream, (&buffer, &mut out, 1_u32)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(out.to_vec().unwrap()[..95], numbers[1..]);
        if is_gpu() {
            return;
        }
        let launched = unsafe { next.launch(config, &stream, (&buffer, &mut out, 4096_u32)) };
        let error = launched.and_then(|()| stream.synchronize()).unwrap_err();
        assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
    });
}

#[test]
fn a_read_just_past_a_buffer_goes_on() {
    read_past("faults::a_read_just_past_a_buffer_goes_on", "never");
}

#[test]
fn vectors_that_end_past_a_buffer_go_on() {
    read_past("faults::vectors_that_end_past_a_buffer_go_on", "always");
}
