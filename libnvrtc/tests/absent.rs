//! Without NVIDIA's library, every call says so.

use std::ffi::CStr;
use std::process::Command;
use std::ptr::null_mut;

use nvrtc::*;

#[test]
fn a_library_that_is_not_there_is_an_error() {
    // The library is searched for once a process.
    if std::env::var_os("PTXKIT_NVRTC").is_none() {
        let run = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_library_that_is_not_there_is_an_error",
                "--nocapture",
            ])
            .env("PTXKIT_NVRTC", "/no/such/file")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{told}");
        assert!(told.contains("PTXKIT_NVRTC names /no/such/file"), "{told}");
        return;
    }
    const INTERNAL_ERROR: i32 = 11;
    let (mut major, mut minor, mut size) = (7, 7, 7);
    // SAFETY: the results go to variables, and a null program is looked at by nobody.
    unsafe {
        assert_eq!(nvrtcVersion(&mut major, &mut minor), INTERNAL_ERROR);
        assert_eq!(nvrtcGetCUBINSize(null_mut(), &mut size), INTERNAL_ERROR);
        assert_eq!(nvrtcGetCUBIN(null_mut(), null_mut()), INTERNAL_ERROR);
        let text = CStr::from_ptr(nvrtcGetErrorString(INTERNAL_ERROR));
        assert!(text.to_string_lossy().contains("libnvrtc is not found"));
    }
    assert_eq!((major, minor, size), (7, 7, 7));
}
