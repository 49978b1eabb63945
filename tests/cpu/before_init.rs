//! Before `cuInit` the CPU device only says what it is.

use std::process::Command;

use ptxkit::cpu::table;

const CHILD: &str = "PTXKIT_TEST_CHILD";
const NAME: &str = "before_init::entries_need_cu_init_but_for_versions_and_texts";

/// In a process of its own: every other test initialises.
#[test]
fn entries_need_cu_init_but_for_versions_and_texts() {
    if std::env::var(CHILD).is_ok_and(|child| child == NAME) {
        return not_initialised();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, NAME)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

fn not_initialised() {
    let api = table();
    let (mut version, mut count) = (0, 0);
    let mut text = std::ptr::null();
    // SAFETY: all results go to variables of the types that the entries ask for.
    unsafe {
        assert_eq!((api.cuDriverGetVersion.unwrap())(&mut version), 0);
        assert_eq!((api.cuGetErrorName.unwrap())(3, &mut text), 0);
        assert_eq!(
            std::ffi::CStr::from_ptr(text),
            c"CUDA_ERROR_NOT_INITIALIZED"
        );
        assert_eq!((api.cuDeviceGetCount.unwrap())(&mut count), 3);
        assert_eq!((api.cuInit.unwrap())(1), 1);
        assert_eq!((api.cuDeviceGetCount.unwrap())(&mut count), 3);
        assert_eq!((api.cuInit.unwrap())(0), 0);
        assert_eq!((api.cuDeviceGetCount.unwrap())(&mut count), 0);
    }
    assert_eq!(version, 13000);
    assert!(count >= 1);
}
