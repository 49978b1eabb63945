//! The driver's log, core dumps, checkpoints and notifications.

use std::sync::{Arc, Mutex};

use ptxkit::driver::api::MulticastProp;
use ptxkit::driver::{
    Context, CoreDumpFlags, CudaError, DeviceBuffer, Driver, Error, Limit, MessageLevel,
    ProcessState,
};

use crate::missing::with_driver;
use crate::support::{alone, context, device, is_gpu, isolated};

/// Whether the driver has a log, which came with CUDA 12.9.
fn has_log() -> bool {
    device().driver().api().cuLogsCurrent.is_some()
}

/// Calls that fail.
fn fail(context: &Context) {
    context.set_limit(Limit(99), 1).unwrap_err();
    DeviceBuffer::<u8>::new(context, usize::MAX / 2).unwrap_err();
    assert!(
        context
            .device()
            .driver()
            .device_by_pci("ffff:ff:1f.0")
            .is_err()
    );
}

#[test]
fn the_log_says_why() {
    alone();
    if !has_log() {
        return;
    }
    let context = context();
    let mut log = device().driver().log().unwrap();
    assert_eq!(log.read().unwrap(), "");
    fail(&context);
    let mut again = log.clone();
    let text = log.read().unwrap();
    assert!(!text.trim().is_empty());
    if !is_gpu() {
        assert!(text.contains("CUDA_ERROR_OUT_OF_MEMORY: "), "{text}");
    }
    eprintln!("{text}");
    assert_eq!(log.read().unwrap(), "", "it was read");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    again.write_to(&path).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().is_empty());
    let inner = std::path::Path::new("a\0b");
    assert!(matches!(log.write_to(inner), Err(Error::File { .. })));
}

#[test]
fn messages_are_told() {
    alone();
    if !has_log() {
        return;
    }
    let context = context();
    let told = Arc::new(Mutex::new(Vec::new()));
    let keep = told.clone();
    let listener = device().driver().on_message(move |level, text| {
        keep.lock().unwrap().push((level, text.to_owned()));
    });
    let listener = listener.unwrap();
    fail(&context);
    drop(listener);
    let before = told.lock().unwrap().len();
    fail(&context);
    let told = told.lock().unwrap();
    assert!(before > 0);
    assert_eq!(told.len(), before, "it is told no more");
    assert!(
        told.iter().all(|(level, _)| *level == MessageLevel::Error),
        "{told:?}"
    );
    assert!(
        told.iter().all(|(_, text)| !text.contains('\n')),
        "{told:?}"
    );
}

#[test]
fn errors_carry_what_the_driver_says() {
    isolated("process::errors_carry_what_the_driver_says", &[], || {
        if !has_log() {
            return;
        }
        let context = context();
        device().driver().explain_errors().unwrap();
        let error = context.set_limit(Limit(99), 1).unwrap_err();
        let error = error.to_string();
        let other = DeviceBuffer::<u8>::new(&context, usize::MAX / 2).unwrap_err();
        let Error::Driver(other) = &other else {
            panic!("{other}")
        };
        eprintln!("{error}\n{other}");
        assert!(other.detail.is_some(), "{other}");
    });
}

#[test]
fn core_dumps_are_set() {
    isolated("process::core_dumps_are_set", &[], || {
        let all = device().driver().core_dumps();
        all.set_file("/tmp/core.ptxkit").unwrap();
        assert_eq!(all.file().unwrap(), "/tmp/core.ptxkit");
        assert!(!all.is_enabled().unwrap());
        let of_context = context().core_dumps();
        match of_context.enable(true) {
            Ok(()) => assert!(of_context.is_enabled().unwrap()),
            Err(error) => {
                assert!(!is_gpu(), "{error}");
                assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
                assert!(error.to_string().contains("core dumps"), "{error}");
            }
        }
        of_context.enable(false).unwrap();
        assert!(!of_context.is_enabled().unwrap());
        let flags = CoreDumpFlags::LIGHTWEIGHT | CoreDumpFlags::SKIP_ABORT;
        all.set_flags(flags).unwrap();
        assert_eq!(all.flags().unwrap(), flags);
        // Without a name of a pipe, which is the default, the driver answers with none.
        assert_eq!(all.pipe().unwrap(), "");
        assert!(!all.is_triggered().unwrap());
    });
}

#[test]
fn a_name_of_a_core_dump_is_short_and_whole() {
    let dumps = device().driver().core_dumps();
    for name in ["a\0b", &"x".repeat(1024)] {
        let error = dumps.set_file(name).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
    }
}

#[test]
fn a_process_says_what_it_does() {
    let process = device().driver().process(std::process::id());
    match process.state() {
        Ok(state) => assert_eq!(state, ProcessState::Running),
        Err(error) if is_gpu() => {
            assert!(matches!(error, Error::EntryMissing(_)), "{error}");
        }
        Err(error) => {
            assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
            for error in [process.lock(None), process.checkpoint(), process.restore()] {
                assert_eq!(error.unwrap_err().code(), Some(CudaError::NOT_SUPPORTED));
            }
            process.unlock().unwrap_err();
            process.restore_thread().unwrap_err();
        }
    }
}

#[test]
fn a_budget_is_watched_or_there_is_none() {
    match device().on_over_budget(|_| ()) {
        Ok(listener) => {
            assert!(is_gpu());
            drop(listener);
        }
        Err(error) => {
            let known = error.code() == Some(CudaError::NOT_SUPPORTED)
                || matches!(error, Error::EntryMissing(_));
            assert!(known, "{error}");
        }
    }
}

/// No test creates a multicast object.
#[test]
fn multicast_refuses_what_is_none() {
    let _context = context();
    let api = device().driver().api();
    let (mut bytes, none) = (0, MulticastProp::default());
    // SAFETY: no object is made, and none of the handles is one.
    unsafe {
        // Several GPUs that are linked have one.
        let asked = api.cuMulticastGetGranularity(&mut bytes, &none, 0);
        assert_eq!(asked.is_ok(), bytes > 0);
        api.cuMulticastAddDevice(0, device().raw()).unwrap_err();
        api.cuMulticastBindMem(0, 0, 0, 0, 0, 0).unwrap_err();
        api.cuMulticastBindAddr(0, 0, 0, 0, 0).unwrap_err();
        api.cuMulticastUnbind(0, device().raw(), 0, 0).unwrap_err();
    }
}

/// A driver that has two messages in its log when a call fails first.
const LOGGING: &str = r#"
    #include <string.h>
    int cuInit(unsigned flags) { return 0; }
    int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
    int cuDeviceGetCount(int *count) { *count = 1; return 0; }
    int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
    int cuDeviceGetName(char *name, int length, int device) { return 1; }
    int cuLogsCurrent(unsigned *next, unsigned flags) { *next = 7; return 0; }
    int cuLogsDumpToMemory(unsigned *next, char *text, unsigned long *size, unsigned flags) {
        if (*next < 7 || *size < 25600) return 1;
        strcpy(text, *next == 7 ? "[E] the name is too long\n[E] shorten it\n" : "");
        *size = strlen(text);
        *next = 9;
        return 0;
    }"#;

#[test]
fn an_error_has_what_was_logged_since_the_last() {
    let name = "process::an_error_has_what_was_logged_since_the_last";
    with_driver(name, LOGGING, || {
        let driver = Driver::nvidia().unwrap();
        let device = driver.device(0).unwrap();
        let detail = || match device.name().unwrap_err() {
            Error::Driver(error) => error.detail,
            other => panic!("{other}"),
        };
        assert_eq!(detail(), None);
        driver.explain_errors().unwrap();
        let why = "[E] the name is too long; [E] shorten it";
        assert_eq!(detail().as_deref(), Some(why));
        assert_eq!(detail(), None, "nothing was logged meanwhile");
    });
}
