//! What nvcc's host code does, on the CPU device, and what callers do wrong.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{dangling_mut, null, null_mut};
use std::sync::Once;

use cudart::*;

const KERNELS: &[u8] = b"
.version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 base = 40;
.visible .entry fill(.param .u64 data, .param .u32 by) {
    .reg .u64 %rd<3>;
    .reg .u32 %r<5>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [by];
    ld.global.u32 %r2, [base];
    add.u32 %r3, %r1, %r2;
    mov.u32 %r4, %tid.x;
    add.u32 %r3, %r3, %r4;
    mul.wide.u32 %rd2, %r4, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r3;
    ret;
}
\0";

/// The fatbin and nvcc's wrapper around it, with the handle of its registration.
fn register(kind: u16, target: u32) -> *mut *mut c_void {
    driver();
    let mut image = 0xba55_ed50_u32.to_le_bytes().to_vec();
    image.extend([1, 0, 16, 0]);
    let text = KERNELS.len().next_multiple_of(8);
    image.extend((64 + text as u64).to_le_bytes());
    let mut entry = vec![0; 64];
    entry[..2].copy_from_slice(&kind.to_le_bytes());
    entry[4] = 64;
    entry[8..16].copy_from_slice(&(text as u64).to_le_bytes());
    entry[28..32].copy_from_slice(&target.to_le_bytes());
    entry.extend(KERNELS);
    entry.resize(64 + text, 0);
    image.extend(entry);
    let image: &'static [u8] = image.leak();
    let words = [
        0x1_4662_43b1_u64,
        image.as_ptr().expose_provenance() as u64,
        0,
    ];
    let wrapper = Box::leak(Box::new(words));
    // SAFETY: a wrapper that stays, as nvcc's does.
    unsafe { __cudaRegisterFatBinary(wrapper.as_mut_ptr().cast()) }
}

/// Lets the runtime find the CPU device, which Cargo puts beside the test.
fn driver() {
    static NAMED: Once = Once::new();
    NAMED.call_once(|| {
        let test = std::env::current_exe().unwrap();
        let path = test.parent().unwrap().join("libcuda.so");
        // SAFETY: before the first call of the runtime; all tests come here first.
        unsafe { std::env::set_var("PTXKIT_LIBCUDA", path) };
    });
}

fn kernel(binary: *mut *mut c_void, host: &'static u8, name: &CStr) {
    let none = null_mut();
    // SAFETY: a handle of a registration, a C string, and places that are not read.
    unsafe {
        __cudaRegisterFunction(
            binary,
            std::ptr::from_ref(host).cast(),
            null_mut(),
            name.as_ptr(),
            -1,
            none,
            none,
            none,
            none,
            null_mut(),
        );
        __cudaRegisterFatBinaryEnd(binary);
    }
}

const ONE: Dim3 = Dim3 { x: 1, y: 1, z: 1 };

#[test]
fn a_registered_kernel_is_launched_as_nvcc_launches_it() {
    static HOST: u8 = 0;
    static VARIABLE: u32 = 0;
    let binary = register(1, 80);
    kernel(binary, &HOST, c"fill");
    let variable = std::ptr::from_ref(&VARIABLE).cast_mut();
    let host = std::ptr::from_ref(&HOST).cast::<c_void>();
    // SAFETY: arguments as CUDA's documentation asks for; the kernel writes 4 words.
    unsafe {
        __cudaRegisterVar(
            binary,
            variable.cast(),
            null_mut(),
            c"base".as_ptr(),
            0,
            4,
            0,
            1,
        );
        let (mut data, mut by) = (null_mut::<c_void>(), 2_u32);
        assert_eq!(cudaMalloc(&mut data, 16), 0);
        let block = Dim3 { x: 4, ..ONE };
        assert_eq!(__cudaPushCallConfiguration(ONE, block, 0, null_mut()), 0);
        let (mut g, mut b, mut shared) = (ONE, ONE, 9);
        let (mut stream, mut handle) = (dangling_mut::<c_void>(), null_mut());
        let place = (&raw mut stream).cast();
        assert_eq!(
            __cudaPopCallConfiguration(&mut g, &mut b, &mut shared, place),
            0
        );
        assert_eq!((b, shared, stream.is_null()), (block, 0, true));
        assert_eq!(
            __cudaPopCallConfiguration(&mut g, &mut b, &mut shared, place),
            52
        );
        assert_eq!(__cudaGetKernel(&mut handle, host), 0);
        let mut args = [(&raw mut data).cast(), (&raw mut by).cast::<c_void>()];
        let stream = Stream(null_mut());
        let kernel = handle.cast();
        assert_eq!(
            __cudaLaunchKernel(kernel, ONE, block, args.as_mut_ptr(), 0, stream),
            0
        );
        let mut read = [0_u32; 4];
        let mut get = || {
            assert_eq!(cudaMemcpy(read.as_mut_ptr().cast(), data, 16, 2), 0);
            read
        };
        assert_eq!(get(), [42, 43, 44, 45]);
        let mut attributes = FunctionAttributes::default();
        assert_eq!(cudaFuncGetAttributes(&mut attributes, host), 0);
        // CUB and Thrust choose their parameters by the PTX, not by the device.
        assert_eq!(
            (attributes.ptx_version, attributes.binary_version),
            (50, 90)
        );
        let base = 100_u32;
        let symbol = variable.cast_const().cast();
        assert_eq!(
            cudaMemcpyToSymbol(symbol, (&raw const base).cast(), 4, 0, 1),
            0
        );
        assert_eq!(
            cudaLaunchKernel(host, ONE, block, args.as_mut_ptr(), 0, stream),
            0
        );
        assert_eq!(get(), [102, 103, 104, 105]);
        assert_eq!(
            cudaMemcpyToSymbol(symbol, (&raw const base).cast(), 4, 1, 1),
            1
        );
        // Blocks that no device runs.
        let large = Dim3 { x: 1 << 20, ..ONE };
        assert_eq!(
            cudaLaunchKernel(host, ONE, large, args.as_mut_ptr(), 0, stream),
            9
        );
        assert_eq!(
            (
                cudaPeekAtLastError(),
                cudaGetLastError(),
                cudaGetLastError()
            ),
            (9, 9, 0)
        );
        assert_eq!(cudaFree(data), 0);
        __cudaUnregisterFatBinary(binary);
        assert_eq!(
            cudaLaunchKernel(host, ONE, ONE, args.as_mut_ptr(), 0, stream),
            98
        );
        cudaGetLastError();
    }
}

#[test]
fn kernels_of_a_library_are_listed_and_launched() {
    driver();
    let (mut library, mut count) = (null_mut(), 0);
    let mut kernels = [null_mut(); 3];
    // SAFETY: PTX that ends with a zero byte, places for the results, of `kernels` for three,
    // and a kernel that writes one word.
    unsafe {
        let code = KERNELS.as_ptr().cast::<c_void>();
        assert_eq!(
            cudaLibraryLoadData(
                &mut library,
                code,
                null_mut(),
                null_mut(),
                0,
                null_mut(),
                null_mut(),
                0
            ),
            0
        );
        assert_eq!(cudaLibraryGetKernelCount(&mut count, library), 0);
        assert_eq!(count, 1);
        assert_eq!(
            cudaLibraryEnumerateKernels(kernels.as_mut_ptr(), 3, library),
            0
        );
        assert_eq!(kernels.map(|kernel| kernel.is_null()), [false, true, true]);
        let (mut data, mut by, mut result) = (null_mut::<c_void>(), 2_u32, 0_u32);
        assert_eq!(cudaMalloc(&mut data, 4), 0);
        let mut args = [(&raw mut data).cast(), (&raw mut by).cast::<c_void>()];
        let kernel = kernels[0].cast_const().cast();
        assert_eq!(
            cudaLaunchKernel(kernel, ONE, ONE, args.as_mut_ptr(), 0, Stream(null_mut())),
            0
        );
        assert_eq!(cudaMemcpy((&raw mut result).cast(), data, 4, 2), 0);
        assert_eq!(result, 42);
        assert_eq!(cudaLibraryEnumerateKernels(null_mut(), 1, library), 1);
        assert_eq!(cudaLibraryEnumerateKernels(null_mut(), 0, library), 0);
        assert_eq!(cudaLibraryUnload(library), 0);
        assert_ne!(
            cudaLibraryEnumerateKernels(kernels.as_mut_ptr(), 3, library),
            0
        );
    }
}

#[test]
fn a_fatbin_of_cubins_fails_at_its_launch() {
    static HOST: u8 = 1;
    let binary = register(2, 80);
    kernel(binary, &HOST, c"fill");
    let host = std::ptr::from_ref(&HOST).cast::<c_void>();
    let mut handle = null_mut();
    // SAFETY: the launch finds no kernel and reads no arguments.
    unsafe {
        let stream = Stream(null_mut());
        assert_eq!(__cudaGetKernel(&mut handle, host), 0);
        let launched = __cudaLaunchKernel(handle.cast(), ONE, ONE, null_mut(), 0, stream);
        assert_eq!(launched, 209);
        assert_eq!(cudaGetLastError(), 209);
    }
}

#[test]
fn null_freed_and_foreign_arguments_are_errors() {
    driver();
    let foreign = std::ptr::without_provenance_mut::<c_void>(0x1234_5678);
    let mut number: c_int = 0;
    // SAFETY: places are null or good for the write, and handles are not read through.
    unsafe {
        let none = Stream(null_mut());
        let stranger = Stream(foreign.cast());
        for code in [
            cudaMalloc(null_mut(), 8),
            cudaMallocHost(null_mut(), 8),
            cudaMallocManaged(null_mut(), 8, 1),
            cudaMallocAsync(null_mut(), 8, none),
            cudaMemGetInfo(null_mut(), null_mut()),
            cudaStreamCreate(null_mut()),
            cudaEventCreate(null_mut()),
            cudaGetDeviceCount(null_mut()),
            cudaGetDeviceProperties(null_mut(), 0),
            cudaDeviceGetAttribute(null_mut(), 1, 0),
            cudaDeviceGetAttribute(&mut number, 1 << 20, 0),
            cudaGraphCreate(null_mut(), 0),
            cudaMallocArray(null_mut(), null(), 8, 8, 0),
            cudaCreateTextureObject(null_mut(), null(), null(), null()),
            cudaMemcpy3D(null()),
            cudaLaunchKernelExC(null(), null(), null_mut()),
            cudaFree(foreign),
            cudaFreeHost(foreign),
            cudaHostRegister(null_mut(), 8, 0),
            cudaLibraryLoadData(
                null_mut(),
                null(),
                null_mut(),
                null_mut(),
                0,
                null_mut(),
                null_mut(),
                0,
            ),
            cudaPointerGetAttributes(null_mut(), null()),
        ] {
            assert_eq!(code, 1);
        }
        for code in [
            cudaStreamSynchronize(stranger),
            cudaStreamDestroy(foreign.cast()),
            cudaEventRecord(foreign.cast(), none),
            cudaEventDestroy(null_mut()),
            cudaGraphLaunch(foreign.cast(), none),
            cudaGraphDestroy(foreign.cast()),
            cudaMemPoolDestroy(foreign.cast()),
            cudaLibraryUnload(foreign.cast()),
            cudaFreeArray(foreign.cast()),
        ] {
            assert!(matches!(code, 1 | 400), "{code}");
        }
        for code in [
            cudaLaunchKernel(foreign, ONE, ONE, null_mut(), 0, none),
            cudaLaunchKernel(null(), ONE, ONE, null_mut(), 0, none),
            cudaFuncGetAttributes(dangling_mut(), foreign),
        ] {
            assert_eq!(code, 98);
        }
        assert_eq!(cudaGetSymbolAddress(dangling_mut(), foreign), 13);
        assert_eq!(cudaSetDevice(1000), 101);
        assert_eq!(cudaMemcpy(foreign, foreign, 8, 9), 21);
        assert_eq!(cudaMemcpy2D(foreign, 4, foreign, 4, 8, 1, 0), 12);
        // A stream that is destroyed.
        let mut stream = null_mut();
        assert_eq!(cudaStreamCreate(&mut stream), 0);
        let handle = Stream(stream);
        assert_eq!(cudaStreamQuery(handle), 0);
        assert_eq!(cudaStreamDestroy(stream), 0);
        assert_eq!(cudaStreamQuery(handle), 400);
        assert_eq!(cudaStreamDestroy(stream), 400);
        // Registrations of no fatbin.
        __cudaUnregisterFatBinary(foreign.cast());
        assert_eq!(__cudaInitModule(foreign.cast()), 0);
        cudaGetLastError();
    }
}

#[test]
fn empty_requests_succeed() {
    driver();
    let mut place: *mut c_void = dangling_mut();
    let mut flags = 0;
    let mut word = [0_u64; 512];
    let (none, nothing, ours) = (Stream(null_mut()), null_mut(), word.as_mut_ptr().cast());
    // SAFETY: places are good for the write, and nothing is copied or freed.
    unsafe {
        for code in [
            cudaFree(nothing),
            cudaFreeHost(nothing),
            cudaFreeAsync(nothing, none),
            cudaMemcpy(nothing, nothing, 0, 1),
            cudaMemset(nothing, 0, 0),
            cudaMemcpyAsync(nothing, nothing, 0, 4, none),
        ] {
            assert_eq!(code, 0);
        }
        assert_eq!((cudaMalloc(&mut place, 0), place), (0, nothing));
        place = dangling_mut();
        assert_eq!((cudaMallocHost(&mut place, 0), place), (0, nothing));
        place = dangling_mut();
        assert_eq!((cudaHostAlloc(&mut place, 0, 0), place), (0, nothing));
        place = dangling_mut();
        assert_eq!((cudaMallocAsync(&mut place, 0, none), place), (0, nothing));
        assert_eq!(cudaMallocManaged(&mut place, 0, 1), 1);
        assert_eq!(cudaHostUnregister(ours), 713);
        assert_eq!(cudaHostAlloc(&mut place, 64, 0), 0);
        // Without cudaHostAllocMapped too.
        assert_eq!((cudaHostGetFlags(&mut flags, place), flags), (0, 2));
        assert_eq!(cudaHostUnregister(place), 1);
        assert_eq!(cudaFreeHost(place), 0);
    }
}

#[test]
fn errors_have_names_and_sentences() {
    driver();
    let text = |text: *const c_char| {
        // SAFETY: both functions give C strings that stay.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    };
    assert_eq!(text(cudaGetErrorName(9)), "cudaErrorInvalidConfiguration");
    assert_eq!(text(cudaGetErrorName(700)), "cudaErrorIllegalAddress");
    assert_eq!(text(cudaGetErrorName(12345)), "unrecognized error code");
    assert_eq!(text(cudaGetErrorString(98)), "invalid device function");
    assert_eq!(text(cudaGetErrorString(2)), "out of memory");
}
