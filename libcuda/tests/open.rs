//! The shared library as a program that knows nothing of ptxkit opens it.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::process::Command;

use libloading::{Library, Symbol};

mod hostile;

/// Cargo puts the library beside the test.
fn library() -> Library {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let name = libloading::library_filename("cuda");
    let path: PathBuf = folder.join(name);
    // SAFETY: the library has no initialisers of its own.
    unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn entries_are_there_by_symbol_and_by_get_proc_address() {
    type GetProcAddress =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_int;
    type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
    let library = library();
    // SAFETY: the symbols have these signatures in CUDA's headers, and the
    // results go to variables of their types.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(c_uint) -> c_int> = library.get(b"cuInit").unwrap();
        assert_eq!(init(0), 0);
        let get: Symbol<GetProcAddress> = library.get(b"cuGetProcAddress_v2").unwrap();
        let (mut address, mut status, mut count) = (std::ptr::null_mut(), 9, 0);
        let code = get(
            c"cuDeviceGetCount".as_ptr(),
            &mut address,
            12000,
            0,
            &mut status,
        );
        assert_eq!((code, status), (0, 0));
        let get_count: GetCount = std::mem::transmute(address);
        assert_eq!(get_count(&mut count), 0);
        assert!(count >= 1);
        let code = get(
            c"cuNoSuchEntry".as_ptr(),
            &mut address,
            12000,
            0,
            &mut status,
        );
        assert_eq!((code, status, address), (500, 1, std::ptr::null_mut()));
    }
    // Its threads may still run.
    std::mem::forget(library);
}

/// The codes of `cuInit` and of another entry in a forked process.
#[cfg(unix)]
#[test]
fn a_forked_process_has_no_driver() {
    type Init = unsafe extern "C" fn(c_uint) -> c_int;
    type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
    unsafe extern "C" {
        fn fork() -> c_int;
        fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
        fn _exit(code: c_int) -> !;
    }
    let library = library();
    let (mut status, mut count) = (0, 0);
    // SAFETY: the declarations are POSIX's and those of CUDA's headers. The child calls two
    // entries, which neither wait for a thread nor return to the test.
    unsafe {
        let init: Symbol<Init> = library.get(b"cuInit").unwrap();
        let get_count: Symbol<GetCount> = library.get(b"cuDeviceGetCount").unwrap();
        assert_eq!(init(0), 0);
        let child = fork();
        if child == 0 {
            let codes = (get_count(&mut count), init(0));
            _exit(c_int::from(codes != (3, 3)));
        }
        assert_eq!(waitpid(child, &mut status, 0), child);
        assert_eq!(get_count(&mut count), 0, "the parent goes on");
    }
    assert_eq!(status, 0);
    std::mem::forget(library);
}

#[test]
fn a_private_table_is_asked_for_in_vain() {
    type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_int;
    let library = library();
    let mut table: *const c_void = std::ptr::dangling();
    // SAFETY: the symbol has this signature; the result goes to a pointer.
    let code = unsafe {
        let get: Symbol<GetExportTable> = library.get(b"cuGetExportTable").unwrap();
        get(&mut table, &[7; 16])
    };
    assert_eq!((code, table), (801, std::ptr::null()));
    std::mem::forget(library);
}

/// What the process of [`who_asks_for_the_runtimes_table_is_told_what_to_do`] does.
#[test]
#[ignore = "it is run with a report"]
fn the_runtimes_table_is_asked_for() {
    type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const u128) -> c_int;
    const NUMBER: u128 = 0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9;
    let library = library();
    let mut table: *const c_void = std::ptr::dangling();
    // SAFETY: the symbol has this signature, a UUID is 16 bytes, and the result goes to a
    // pointer.
    let code = unsafe {
        let get: Symbol<GetExportTable> = library.get(b"cuGetExportTable").unwrap();
        get(&mut table, &NUMBER.to_be())
    };
    assert_eq!((code, table), (801, std::ptr::null()));
    std::mem::forget(library);
}

#[test]
fn who_asks_for_the_runtimes_table_is_told_what_to_do() {
    let asked = |report: &str| {
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("the_runtimes_table_is_asked_for")
            .env("PTXKIT_CPU_REPORT", report)
            .output()
            .unwrap();
        assert!(ran.status.success());
        String::from_utf8(ran.stderr).unwrap()
    };
    let told = asked("stderr");
    assert!(told.contains("libcudart_static.a"), "{told}");
    assert!(told.contains("-cudart shared"), "{told}");
    assert!(!asked("").contains("libcudart"));
}

#[test]
fn ptxkit_itself_does_not_take_the_library_for_a_gpu() {
    // Cargo's search path holds the library, as a user's may.
    if let Ok(driver) = api::Api::nvidia() {
        assert!(driver.ptxkitGetLastFault.is_none());
    }
}

const KERNEL: &CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry nothing() { ret; }\n";
const REFUSED: &CStr = c".version 8.6\n.target sm_100a\n.address_size 64\n\
    .visible .entry k() { tcgen05.wait::ld.sync.aligned; ret; }\n";

/// What the process of [`what_ran_is_reported`] does.
#[test]
#[ignore = "it is run with a report"]
fn a_kernel_runs_and_another_is_refused() {
    type Launch = unsafe extern "C" fn(
        *mut c_void,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        *mut c_void,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> c_int;
    let library = library();
    let null = std::ptr::null_mut();
    let (mut context, mut module, mut function) = (null, null, null);
    // SAFETY: the symbols have these signatures, and the results go to pointers.
    unsafe {
        type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
        type Load = unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> c_int;
        type Get = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
        let init: Symbol<unsafe extern "C" fn(c_uint) -> c_int> = library.get(b"cuInit").unwrap();
        let retain: Symbol<Retain> = library.get(b"cuDevicePrimaryCtxRetain").unwrap();
        let current: Symbol<unsafe extern "C" fn(*mut c_void) -> c_int> =
            library.get(b"cuCtxSetCurrent").unwrap();
        let load: Symbol<Load> = library.get(b"cuModuleLoadData").unwrap();
        let get: Symbol<Get> = library.get(b"cuModuleGetFunction").unwrap();
        let launch: Symbol<Launch> = library.get(b"cuLaunchKernel").unwrap();
        let wait: Symbol<unsafe extern "C" fn() -> c_int> =
            library.get(b"cuCtxSynchronize").unwrap();
        assert_eq!(
            (init(0), retain(&mut context, 0), current(context)),
            (0, 0, 0)
        );
        assert_eq!(load(&mut module, REFUSED.as_ptr()), 801);
        assert_eq!(load(&mut module, KERNEL.as_ptr()), 0);
        assert_eq!(get(&mut function, module, c"nothing".as_ptr()), 0);
        for _ in 0..3 {
            let launched = launch(
                function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                null,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
            assert_eq!(launched, 0);
        }
        assert_eq!(wait(), 0);
    }
    std::mem::forget(library);
}

#[test]
fn what_ran_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "a_kernel_runs_and_another_is_refused",
        ])
        .env("PTXKIT_EXEC_REPORT", &report)
        .status()
        .unwrap();
    assert!(ran.success());
    let text = std::fs::read_to_string(&report).unwrap();
    let records: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |key: &str| -> Vec<&serde_json::Value> {
        let lists = records.iter().filter_map(|record| record[key].as_array());
        lists.flatten().collect()
    };
    let launches = of("kernels").into_iter().map(|kernel| {
        assert_eq!(kernel["name"], "nothing");
        kernel["launches"].as_u64().unwrap()
    });
    assert_eq!(launches.sum::<u64>(), 3);
    let failures = of("failures");
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0]["kind"], "refused");
    assert_eq!(failures[0]["entry"], "cuModuleLoadData");
    let cause = failures[0]["cause"].as_str().unwrap();
    assert!(cause.contains("tcgen05"), "{cause}");
}
