//! Drivers that are missing, broken, older or newer than this program, played
//! by libraries of a few lines of C. `PTXKIT_LIBCUDA` names the one to open.

use std::path::{Path, PathBuf};
use std::process::Command;

use ptxkit::driver::api::Api;
use ptxkit::driver::{Context, Driver, DriverKind, EntryMissing, Error, Selection, select};

use crate::support::{in_child, isolated};

const FAKE: &str = "PTXKIT_LIBCUDA";

/// Builds the library; `None` on a machine without a C compiler, where there
/// is nothing to play with.
fn library(folder: &Path, source: &str) -> Option<PathBuf> {
    let (input, output) = (folder.join("fake.c"), folder.join("libfake.so"));
    std::fs::write(&input, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&output, &input])
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the fake driver does not build");
            Some(output)
        }
        Err(error) => {
            eprintln!("not tested: cc: {error}");
            None
        }
    }
}

/// Runs `test` in a process whose driver is made from `source`.
pub fn with_driver(name: &str, source: &str, test: impl FnOnce()) {
    // The child opens the library that its parent has built.
    if in_child(name) {
        return test();
    }
    let folder = tempfile::tempdir().unwrap();
    if let Some(library) = library(folder.path(), source) {
        isolated(name, &[(FAKE, library.to_str().unwrap())], test);
    }
}

#[test]
fn no_library_at_all() {
    isolated(
        "missing::no_library_at_all",
        &[(FAKE, "/nowhere/libcuda.so.1")],
        || {
            let error = Driver::nvidia().unwrap_err();
            let Error::DriverMissing(missing) = &error else {
                panic!("{error}")
            };
            assert_eq!(missing.tried.len(), 1);
            for part in ["/nowhere/libcuda.so.1", "install the driver"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            // Asked again, it is the same answer.
            assert!(Driver::nvidia().is_err());

            assert!(select(Selection::Nvidia(None)).is_err());
            let chosen = select(Selection::Auto).unwrap();
            assert_eq!(chosen.device.driver().kind(), DriverKind::Cpu);
            assert!(
                chosen.why.contains("/nowhere/libcuda.so.1"),
                "{}",
                chosen.why
            );
        },
    );
}

#[test]
fn a_file_that_is_no_library() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libcuda.so.1");
    std::fs::write(&file, "not a library").unwrap();
    isolated(
        "missing::a_file_that_is_no_library",
        &[(FAKE, file.to_str().unwrap())],
        || {
            assert!(matches!(Driver::nvidia(), Err(Error::DriverMissing(_))));
        },
    );
}

#[test]
fn an_error_number_newer_than_this_program() {
    let source = "int cuInit(unsigned flags) { return 98765; }";
    with_driver(
        "missing::an_error_number_newer_than_this_program",
        source,
        || {
            let error = Driver::nvidia().unwrap_err();
            assert_eq!(error.code().map(|code| code.0), Some(98765));
            let text = error.to_string();
            assert!(text.contains("cuInit") && text.contains("98765"), "{text}");
            let chosen = select(Selection::Auto).unwrap();
            assert_eq!(chosen.device.driver().kind(), DriverKind::Cpu);
            assert!(chosen.why.contains("98765"), "{}", chosen.why);
        },
    );
}

#[test]
fn a_driver_without_devices() {
    let source = "int cuInit(unsigned flags) { return 100; }";
    with_driver("missing::a_driver_without_devices", source, || {
        let error = Driver::nvidia().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("CUDA_ERROR_NO_DEVICE (100)"), "{text}");
        assert!(text.contains("CUDA_VISIBLE_DEVICES"), "{text}");
    });
}

#[test]
fn a_count_of_zero_is_no_device() {
    let source = "int cuInit(unsigned flags) { return 0; }
                  int cuDeviceGetCount(int *count) { *count = 0; return 0; }";
    with_driver("missing::a_count_of_zero_is_no_device", source, || {
        let error = select(Selection::Nvidia(None)).unwrap_err();
        assert!(
            matches!(error, Error::NoSuchDevice { count: 0, .. }),
            "{error}"
        );
        let chosen = select(Selection::Auto).unwrap();
        assert_eq!(chosen.device.driver().kind(), DriverKind::Cpu);
    });
}

#[test]
fn an_entry_the_driver_is_too_old_for() {
    let source = "int cuInit(unsigned flags) { return 0; }
                  int cuDriverGetVersion(int *version) { *version = 10020; return 0; }
                  int cuDeviceGetCount(int *count) { *count = 1; return 0; }
                  int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }";
    with_driver(
        "missing::an_entry_the_driver_is_too_old_for",
        source,
        || {
            let device = Driver::nvidia().unwrap().device(0).unwrap();
            let error = device.uuid().unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(
                    error,
                    Error::EntryMissing(EntryMissing {
                        entry: "cuDeviceGetUuid_v2",
                        version: 10020,
                        ..
                    })
                ),
                "{text}"
            );
            for part in [
                "cuDeviceGetUuid_v2",
                "CUDA 10.2",
                "CUDA 11.4",
                "newer driver",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(matches!(
                Context::primary(&device),
                Err(Error::EntryMissing(_))
            ));
        },
    );
}

/// Where there is `cuGetProcAddress`, it is asked with the base name and the
/// version of the form wanted, and what it lacks is looked up by name.
#[test]
fn entries_come_from_get_proc_address() {
    let source = r#"
        #include <string.h>
        static int total(unsigned long *bytes, int device) { *bytes = 12345; return 0; }
        int cuGetProcAddress_v2(const char *name, void **address, int version,
                                unsigned long flags, int *status) {
            *status = 0;
            if (!strcmp(name, "cuDeviceTotalMem") && version == 3020) {
                *address = (void *)total;
                return 0;
            }
            *address = 0;
            *status = 1;
            return 500;
        }
        int cuInit(unsigned flags) { return 0; }
        int cuDeviceGetCount(int *count) { *count = 1; return 0; }
        int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
        int cuDeviceTotalMem_v2(unsigned long *bytes, int device) { return 999; }
    "#;
    with_driver(
        "missing::entries_come_from_get_proc_address",
        source,
        || {
            let device = Driver::nvidia().unwrap().device(0).unwrap();
            assert_eq!(device.total_memory().unwrap(), 12345);
            let there: Vec<_> = Api::nvidia()
                .unwrap()
                .entries()
                .filter(|entry| entry.1)
                .collect();
            assert_eq!(there.len(), 4, "{there:?}");
        },
    );
}

/// A driver gives the newest form of an entry that it knows: one that is older
/// than the form wanted has other parameters, and is not taken.
#[test]
fn an_older_form_of_an_entry_is_not_taken() {
    let source = r#"
        #include <string.h>
        static int none(void) { return 801; }
        int cuGetProcAddress_v2(const char *name, void **address, int version,
                                unsigned long flags, int *status) {
            int known = !strcmp(name, "cuMemAdvise") || !strcmp(name, "cuMemcpyBatchAsync");
            *status = !known;
            *address = known ? (void *)none : 0;
            return known ? 0 : 500;
        }
        int cuInit(unsigned flags) { return 0; }
        int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
    "#;
    with_driver(
        "missing::an_older_form_of_an_entry_is_not_taken",
        source,
        || {
            let api = Api::nvidia().unwrap();
            assert!(api.cuMemAdvise.is_some() && api.cuMemAdvise_v2.is_some());
            assert!(api.cuMemcpyBatchAsync.is_some());
            assert!(api.cuMemcpyBatchAsync_v2.is_none());
        },
    );
}
