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
        // What programs look up that are compiled for the default stream of each thread.
        for name in [
            c"cuStreamWaitEvent_ptsz",
            c"cuLaunchKernel_ptsz",
            c"cuMemcpyHtoD_v2_ptds",
        ] {
            let entry: Result<Symbol<unsafe extern "C" fn()>, _> = library.get(name.to_bytes());
            assert!(entry.is_ok(), "{name:?}");
        }
    }
    // Its threads may still run.
    std::mem::forget(library);
}

/// A wrong form is worse than none: its parameters are others.
#[test]
fn the_form_of_an_entry_is_that_of_the_version_asked_for() {
    type GetProcAddress =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_int;
    let library = library();
    // SAFETY: the symbols have these signatures in CUDA's headers; of the entries only the
    // addresses are compared.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(c_uint) -> c_int> = library.get(b"cuInit").unwrap();
        assert_eq!(init(0), 0);
        let get: Symbol<GetProcAddress> = library.get(b"cuGetProcAddress_v2").unwrap();
        for (name, version, form) in [
            (c"cuCtxCreate", 12000, Some("cuCtxCreate_v3")),
            (c"cuCtxCreate", 13000, Some("cuCtxCreate_v4")),
            (
                c"cuGraphAddDependencies",
                12000,
                Some("cuGraphAddDependencies"),
            ),
            (
                c"cuGraphAddDependencies",
                13000,
                Some("cuGraphAddDependencies_v2"),
            ),
            (c"cuGraphGetEdges", 13000, Some("cuGraphGetEdges_v2")),
            (
                c"cuGraphRemoveDependencies",
                13000,
                Some("cuGraphRemoveDependencies_v2"),
            ),
            (c"cuStreamGetCtx", 12000, Some("cuStreamGetCtx")),
            (c"cuStreamGetCtx", 13000, Some("cuStreamGetCtx_v2")),
            (c"cuMemcpyBatchAsync", 13000, Some("cuMemcpyBatchAsync_v2")),
            // Newer than what is asked for.
            (c"cuMemcpyBatchAsync", 12000, None),
        ] {
            let (mut address, mut status) = (std::ptr::null_mut(), 9);
            let code = get(name.as_ptr(), &mut address, version, 0, &mut status);
            let expected = form.map(|form| {
                let entry: Symbol<*mut c_void> = library.get(form.as_bytes()).unwrap();
                *entry
            });
            let said = if expected.is_some() { (0, 0) } else { (500, 2) };
            assert_eq!((code, status), said, "{name:?} of {version}");
            assert_eq!(
                address,
                expected.unwrap_or(std::ptr::null_mut()),
                "{name:?} of {version}"
            );
        }
    }
    std::mem::forget(library);
}

/// What a process that has made no context opens: the pointer of another, in a pool that is
/// its standard input.
#[cfg(unix)]
#[test]
fn memory_in_a_pool_is_opened_without_a_context() {
    const POINTER: &str = "PTXKIT_TEST_POOL_POINTER";
    let library = library();
    macro_rules! call {
        ($entry:ident, $($value:expr => $type:ty),*) => {{
            let entry: Symbol<unsafe extern "C" fn($($type),*) -> c_int> =
                library.get(stringify!($entry).as_bytes()).unwrap();
            assert_eq!(entry($($value),*), 0, stringify!($entry));
        }};
    }
    let mut pool = std::ptr::null_mut::<c_void>();
    let mut address = 0_u64;
    let mut pointer = [0_u8; 64];
    // SAFETY: the entries have these parameters in CUDA's headers, and the results go to
    // variables of their types; the memory is there until the child has ended.
    unsafe {
        call!(cuInit, 0 => c_uint);
        if let Ok(digits) = std::env::var(POINTER) {
            for (at, byte) in pointer.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
            }
            call!(cuMemPoolImportFromShareableHandle, &mut pool => *mut *mut c_void,
                0 => usize, 1 => c_uint, 0 => u64);
            call!(cuMemPoolImportPointer, &mut address => *mut u64, pool => *mut c_void,
                &mut pointer => *mut [u8; 64]);
            assert_eq!(*(address as *const u32), 0x0102_0304);
            return;
        }
        let mut context = std::ptr::null_mut::<c_void>();
        call!(cuDevicePrimaryCtxRetain, &mut context => *mut *mut c_void, 0 => c_int);
        call!(cuCtxSetCurrent, context => *mut c_void);
        // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and
        // CU_MEM_LOCATION_TYPE_DEVICE of device 0.
        let mut properties = [0_u32; 22];
        properties[..4].copy_from_slice(&[1, 1, 1, 0]);
        let mut file: c_int = -1;
        call!(cuMemPoolCreate, &mut pool => *mut *mut c_void,
            &properties => *const [u32; 22]);
        call!(cuMemAllocFromPoolAsync, &mut address => *mut u64, 4096 => usize,
            pool => *mut c_void, std::ptr::null_mut() => *mut c_void);
        call!(cuMemsetD32_v2, address => u64, 0x0102_0304 => c_uint, 1 => usize);
        call!(cuMemPoolExportToShareableHandle, &mut file => *mut c_int,
            pool => *mut c_void, 1 => c_uint, 0 => u64);
        call!(cuMemPoolExportPointer, &mut pointer => *mut [u8; 64], address => u64);
        let file = <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(file);
        let digits: String = pointer.iter().map(|byte| format!("{byte:02x}")).collect();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["memory_in_a_pool_is_opened_without_a_context", "--exact"])
            .env(POINTER, digits)
            .stdin(file)
            .output()
            .unwrap();
        assert!(
            child.status.success(),
            "{}",
            String::from_utf8_lossy(&child.stdout)
        );
    }
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
    .visible .entry k() { .reg .b32 %r; mov.b32 %r, 0; \
    tcgen05.shift.cta_group::1.down [%r]; ret; }\n";

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

/// Writes the sum of its parameters, an `int` and a `float`, for each of its blocks.
const SUMS: &CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry sums(.param .u64 p, .param .u32 i, .param .f32 f) {\n\
    .reg .b32 %r<4>;\n.reg .f32 %f<3>;\n.reg .b64 %d<3>;\n\
    ld.param.u64 %d0, [p];\nld.param.u32 %r0, [i];\nld.param.f32 %f0, [f];\n\
    mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nadd.u32 %r0, %r0, %r2;\n\
    cvt.rn.f32.u32 %f1, %r0;\nadd.f32 %f1, %f1, %f0;\n\
    mul.wide.u32 %d1, %r1, 4;\nadd.u64 %d1, %d1, %d0;\nst.global.f32 [%d1], %f1;\nret;\n}";

#[test]
fn a_function_is_launched_as_it_was_set_before() {
    use cuda::execution_control::*;
    use cuda::*;

    let (mut context, mut module, mut function) = (
        std::ptr::null_mut(),
        std::ptr::null_mut(),
        std::ptr::null_mut(),
    );
    let (mut address, mut sums) = (0, [0_f32; 3]);
    // SAFETY: the results go to variables of their types, and the kernel writes three floats.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
        assert_eq!(cuModuleLoadData(&mut module, SUMS.as_ptr().cast()), 0);
        assert_eq!(
            cuModuleGetFunction(&mut function, module, c"sums".as_ptr()),
            0
        );
        assert_eq!(cuMemAlloc_v2(&mut address, 12), 0);

        // No block has been set.
        assert_eq!(cuLaunchGrid(function, 3, 1), 1);
        assert_eq!(cuFuncSetBlockShape(function, 2, 1, 1), 0);
        assert_eq!(cuParamSetSize(function, 16), 0);
        assert_eq!(cuParamSetv(function, 0, (&raw mut address).cast(), 8), 0);
        assert_eq!(cuParamSeti(function, 8, 40), 0);
        assert_eq!(cuParamSetf(function, 12, 0.5), 0);
        assert_eq!(cuLaunchGrid(function, 3, 1), 0);
        assert_eq!(cuMemcpyDtoH_v2(sums.as_mut_ptr().cast(), address, 12), 0);
        assert_eq!(sums, [42.5; 3]);

        // What is not set again stays.
        assert_eq!(cuParamSeti(function, 8, 1), 0);
        assert_eq!(cuLaunch(function), 0);
        assert_eq!(cuMemcpyDtoH_v2(sums.as_mut_ptr().cast(), address, 12), 0);
        assert_eq!(sums, [3.5, 42.5, 42.5]);

        assert_eq!(cuParamSeti(function, -4, 1), 1);
        assert_eq!(cuParamSeti(function, 1 << 20, 1), 1);
        assert_eq!(cuParamSetSize(function, u32::MAX), 1);
        assert_eq!(
            cuParamSetv(function, 0, std::ptr::without_provenance_mut(8), 8),
            1
        );
        assert_eq!(cuFuncSetBlockShape(std::ptr::null_mut(), 1, 1, 1), 400);
        assert_eq!(cuMemFree_v2(address), 0);
        assert_eq!(cuModuleUnload(module), 0);
        // The handle is nobody's now.
        assert_ne!(cuLaunchGridAsync(function, 1, 1, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_batch_of_more_copies_than_memory_holds_is_refused() {
    use api::{CopyAttributes, MemLocation};
    use cuda::*;

    let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut zeros = vec![0; 4096];
    let list = zeros.as_mut_ptr();
    let (mut sizes, mut first) = (vec![0_usize; 4096], 0_usize);
    let nowhere = MemLocation { kind: 0, id: 0 };
    let mut attributes = CopyAttributes {
        source_order: 1,
        source: nowhere,
        target: nowhere,
        flags: 0,
    };
    // SAFETY: a count that no memory holds is refused, and nothing is read.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
        assert_eq!(cuStreamCreate(&mut stream, 1), 0);
        let copied = cuMemcpyBatchAsync_v2(
            list,
            list,
            sizes.as_mut_ptr(),
            1 << 50,
            &mut attributes,
            &mut first,
            1,
            stream,
        );
        assert_eq!(copied, 1);
        assert_eq!(cuStreamDestroy_v2(stream), 0);
    }
}

#[test]
fn what_ran_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let trace = folder.path().join("trace.json");
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "a_kernel_runs_and_another_is_refused",
        ])
        .env("PTXKIT_EXEC_REPORT", &report)
        .env("PTXKIT_EXEC_TRACE", &trace)
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
    let shape = &of("kernels")[0]["shapes"][0];
    assert_eq!(shape["block"].as_array().unwrap().len(), 3);
    let loads = of("loads");
    assert_eq!(loads[0]["entry"], "cuModuleLoadData");
    assert_eq!(loads[0]["module"], of("kernels")[0]["module"]);
    let sources = of("sources");
    assert_eq!(sources.len(), 1);
    assert!(sources[0]["ptx"].as_str().unwrap().contains("nothing"));
    let events = of("events");
    let launched = events.iter().filter(|event| event["kind"] == "launch");
    assert_eq!(launched.count(), 3);
    let devices = records.iter().filter(|record| record["device"].is_object());
    assert_eq!(devices.count(), 1);
    let failures = of("failures");
    // Arguments may be passwords.
    let commands = records.iter().map(|record| &record["process"]["command"]);
    for command in commands {
        assert_eq!(command.as_array().unwrap().len(), 1, "{command}");
    }
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0]["kind"], "refused");
    assert_eq!(failures[0]["entry"], "cuModuleLoadData");
    let cause = failures[0]["cause"].as_str().unwrap();
    assert!(cause.contains("tcgen05"), "{cause}");
    let remedy = failures[0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("compute_90"), "{remedy}");

    // The format lets programs leave out the end of the array.
    let text = std::fs::read_to_string(&trace).unwrap() + "]";
    let traced: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let traced = traced
        .iter()
        .filter(|event| event["cat"] == "launch" && event["ph"] == "X");
    assert_eq!(traced.count(), 3);
}
