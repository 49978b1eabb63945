//! nvJitLink as a program that knows nothing of ptxkit calls it.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::process::Command;
use std::ptr::null_mut;

use nvJitLink::*;

const CALLER: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) twice(.param .b32 number);
.visible .entry kernel(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd;
    .param .b32 number;
    .param .b32 result;
    st.param.b32 [number], 21;
    call (result), twice, (number);
    ld.param.b32 %r1, [result];
    ld.param.u64 %rd, [out];
    st.global.u32 [%rd], %r1;
    ret;
}
";

const CALLED: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) twice(.param .b32 number)
{
    .reg .b32 %r<2>;
    ld.param.b32 %r1, [number];
    add.u32 %r1, %r1, %r1;
    st.param.b32 [result], %r1;
    ret;
}
";

const PTX: c_uint = 2;
const LTOIR: c_uint = 3;

fn create(options: &[&str]) -> (c_int, *mut c_void) {
    let options: Vec<CString> = options
        .iter()
        .map(|option| CString::new(*option).unwrap())
        .collect();
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut handle = null_mut();
    // SAFETY: an array of as many C strings; the result goes to a variable.
    let code = unsafe { nvJitLinkCreate(&mut handle, pointers.len() as c_uint, pointers.as_ptr()) };
    (code, handle)
}

fn add(handle: *mut c_void, kind: c_uint, bytes: &[u8]) -> c_int {
    // SAFETY: as many bytes, and a C string.
    unsafe {
        nvJitLinkAddData(
            handle,
            kind,
            bytes.as_ptr().cast(),
            bytes.len(),
            c"input".as_ptr(),
        )
    }
}

fn errors(handle: *mut c_void) -> String {
    let mut size = 0;
    // SAFETY: the buffer has the size that was asked for.
    unsafe {
        assert_eq!(nvJitLinkGetErrorLogSize(handle, &mut size), 0);
        let mut log = vec![0u8; size];
        assert_eq!(nvJitLinkGetErrorLog(handle, log.as_mut_ptr().cast()), 0);
        String::from_utf8(log).unwrap()
    }
}

#[test]
fn hostile_arguments_have_codes() {
    const NULL_INPUT: c_int = 10;
    let mut size = 0;
    let mut handle = null_mut();
    // SAFETY: each pointer is null, a number that is never followed, or a variable.
    unsafe {
        assert_eq!(
            nvJitLinkCreate(&mut handle, 1, std::ptr::null()),
            NULL_INPUT
        );
        assert_eq!(nvJitLinkDestroy(null_mut()), NULL_INPUT);
        assert_eq!(nvJitLinkDestroy(&mut handle), NULL_INPUT);
        for foreign in [null_mut(), std::ptr::without_provenance_mut(0x1234)] {
            assert_eq!(nvJitLinkComplete(foreign), NULL_INPUT);
            assert_eq!(nvJitLinkGetLinkedCubinSize(foreign, &mut size), NULL_INPUT);
            assert_eq!(add(foreign, PTX, CALLED.as_bytes()), NULL_INPUT);
        }
    }
    let (code, mut handle) = create(&["-arch=sm_90"]);
    assert_eq!(code, 0);
    // SAFETY: as above.
    unsafe {
        assert_eq!(nvJitLinkGetLinkedCubinSize(handle, null_mut()), NULL_INPUT);
        assert_eq!(
            nvJitLinkAddData(handle, PTX, std::ptr::null(), 4, std::ptr::null()),
            NULL_INPUT
        );
        assert_eq!(nvJitLinkAddFile(handle, PTX, std::ptr::null()), NULL_INPUT);
        assert_eq!(nvJitLinkAddFile(handle, PTX, c"/no/such/file".as_ptr()), 3);
        assert_eq!(nvJitLinkDestroy(&mut handle), 0);
        assert!(handle.is_null());
    }
}

#[test]
fn ltoir_is_named_where_it_is_not_asked_for() {
    let ltoir = [0xed, 0x43, 0x4e, 0x7f, 0, 0, 0, 0];
    let (code, handle) = create(&["-arch=sm_90"]);
    assert_eq!(code, 0);
    assert_eq!(add(handle, LTOIR, b"text"), 12);
    assert_eq!(add(handle, LTOIR, &ltoir), 18);
    let errors = errors(handle);
    assert!(
        errors.contains("no LTO-IR") && errors.contains("needs -lto"),
        "{errors}"
    );
}

/// Cargo puts the library beside the test; `libcuda` is there if it was built too.
#[test]
fn modules_are_linked_for_the_cpu_device() {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let built = folder.join("libcuda.so");
    if std::env::var_os("PTXKIT_LINKS").is_none() {
        if !built.exists() {
            return; // this crate was built alone
        }
        // The driver is found by the loader, which reads its path as the process starts.
        let place = folder.join("nvjitlink-driver");
        std::fs::create_dir_all(&place).unwrap();
        let link = place.join("libcuda.so.1");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&built, &link).unwrap();
        let status = Command::new(&test)
            .args(["--exact", "modules_are_linked_for_the_cpu_device"])
            .env("LD_LIBRARY_PATH", &place)
            .env("PTXKIT_LINKS", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let (code, handle) = create(&["-arch=sm_90", "-verbose"]);
    assert_eq!(code, 0);
    assert_eq!(add(handle, PTX, CALLER.as_bytes()), 0);
    assert_eq!(add(handle, PTX, CALLED.as_bytes()), 0);
    // SAFETY: the buffer has the size that was asked for.
    let cubin = unsafe {
        assert_eq!(nvJitLinkComplete(handle), 0, "{}", errors(handle));
        let mut size = 0;
        assert_eq!(nvJitLinkGetLinkedCubinSize(handle, &mut size), 0);
        let mut cubin = vec![0u8; size];
        assert_eq!(
            nvJitLinkGetLinkedCubin(handle, cubin.as_mut_ptr().cast()),
            0
        );
        cubin
    };
    assert!(cubin.starts_with(b"PTXKCPU"), "{cubin:?}");
    // A module alone lacks the function of the other.
    let (_, alone) = create(&["-arch=sm_90"]);
    assert_eq!(add(alone, PTX, CALLER.as_bytes()), 0);
    // SAFETY: the handle is of a session.
    assert_eq!(unsafe { nvJitLinkComplete(alone) }, 4);
    assert!(errors(alone).contains("twice"), "{}", errors(alone));
}
