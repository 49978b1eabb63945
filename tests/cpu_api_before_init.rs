//! Before `cuInit` the CPU device only says what it is. A process of its own:
//! every other test initialises.

use ptxkit::cpu::api::table;

#[test]
fn entries_need_cu_init_but_for_versions_and_texts() {
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
