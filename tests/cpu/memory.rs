//! Memory and copies.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use crate::entry::{Current, Gate, INVALID_VALUE, OUT_OF_MEMORY, alloc, download, stream, upload};

#[test]
fn memory_is_checked_to_the_byte() {
    let _context = Current::new();
    let memory = alloc(100);
    let mut bytes = [7_u8; 101];
    ok!(cuMemsetD8_v2(memory, 5, 100));
    assert_eq!(cu!(cuMemsetD8_v2(memory, 5, 101)), INVALID_VALUE);
    assert_eq!(
        cu!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory, 101)),
        INVALID_VALUE
    );
    assert_eq!(
        cu!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory + 50, 51)),
        INVALID_VALUE
    );
    ok!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory, 100));
    assert_eq!((bytes[99], bytes[100]), (5, 7));
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, null(), 4)), INVALID_VALUE);
    ok!(cuMemcpyHtoD_v2(memory, null(), 0));
    assert_eq!(cu!(cuMemsetD32_v2(memory + 1, 0, 1)), INVALID_VALUE);
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 0)), INVALID_VALUE);
    assert_eq!(
        cu!(cuMemAlloc_v2(&mut address, usize::MAX / 2)),
        OUT_OF_MEMORY
    );
    let (mut start, mut size) = (0, 0);
    ok!(cuMemGetAddressRange_v2(&mut start, &mut size, memory + 99));
    assert_eq!((start, size), (memory, 100));
}

#[test]
fn copies_go_every_way() {
    let _context = Current::new();
    let first = upload(&[1, 2, 3, 4]);
    let second = alloc(16);
    ok!(cuMemcpyDtoD_v2(second, first, 16));
    ok!(cuMemcpyDtoD_v2(second + 4, first, 8));
    assert_eq!(download(second, 4), [1, 1, 2, 4]);
    ok!(cuMemsetD16_v2(second, 0x1234, 2));
    assert_eq!(download(second, 2), [0x1234_1234, 1]);
    let mut host = [0_u32; 4];
    ok!(cuMemcpy(host.as_mut_ptr() as u64, first, 16));
    assert_eq!(host, [1, 2, 3, 4]);
    let (mut pinned, mut seen) = (null_mut(), 0);
    ok!(cuMemHostAlloc(&mut pinned, 16, 0));
    ok!(cuMemHostGetDevicePointer_v2(&mut seen, pinned, 0));
    ok!(cuMemcpyDtoHAsync_v2(pinned, first, 16, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
    assert_eq!(download(seen, 4), [1, 2, 3, 4]);
    assert_eq!(cu!(cuMemFree_v2(seen)), INVALID_VALUE);
    ok!(cuMemFreeHost(pinned));
    assert_eq!(cu!(cuMemFreeHost(pinned)), INVALID_VALUE);
}

#[test]
fn registered_memory_counts_as_the_devices() {
    let _context = Current::new();
    let mut host = vec![9_u32; 1024];
    let at = host.as_mut_ptr().cast::<c_void>();
    let mut kind = 0_u32;
    assert_eq!(
        cu!(cuPointerGetAttribute((&raw mut kind).cast(), 2, at as u64)),
        INVALID_VALUE
    );
    ok!(cuMemHostRegister_v2(at, 4096, 0));
    assert_eq!(cu!(cuMemHostRegister_v2(at, 4096, 0)), 712);
    ok!(cuPointerGetAttribute(
        (&raw mut kind).cast(),
        2,
        at as u64 + 8
    ));
    assert_eq!(kind, 1); // CU_MEMORYTYPE_HOST
    ok!(cuMemsetD32_v2(at as u64, 3, 1024));
    ok!(cuMemHostUnregister(at));
    assert_eq!(cu!(cuMemHostUnregister(at)), 713);
    assert_eq!(cu!(cuMemsetD32_v2(at as u64, 4, 1024)), INVALID_VALUE);
    assert_eq!(host, [3; 1024]);
}

#[test]
fn rectangles_keep_to_their_rows() {
    use cudarc::driver::sys::{CUDA_MEMCPY2D, CUmemorytype};
    let _context = Current::new();
    let (mut memory, mut pitch) = (0, 0);
    ok!(cuMemAllocPitch_v2(&mut memory, &mut pitch, 12, 3, 4));
    assert!(pitch >= 12 && pitch % 256 == 0);
    ok!(cuMemsetD2D32_v2(memory, pitch, 7, 3, 3));
    let host: Vec<u32> = (0..6).collect();
    let mut copy = CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: host.as_ptr().cast(),
        srcDevice: 0,
        srcArray: null_mut(),
        srcPitch: 12,
        dstXInBytes: 4,
        dstY: 1,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: memory,
        dstArray: null_mut(),
        dstPitch: pitch,
        WidthInBytes: 8,
        Height: 2,
    };
    ok!(cuMemcpy2D_v2(&copy));
    let rows = pitch / 4;
    let all = download(memory, 2 * rows + 3);
    assert_eq!(all[..3], [7, 7, 7]);
    assert_eq!(all[rows..rows + 3], [7, 0, 1]);
    assert_eq!(all[2 * rows..], [7, 3, 4]);
    copy.Height = 3;
    assert_eq!(cu!(cuMemcpy2D_v2(&copy)), INVALID_VALUE);
    copy.WidthInBytes = 16;
    assert_eq!(cu!(cuMemcpy2D_v2(&copy)), INVALID_VALUE);
}

#[test]
fn a_list_of_devices_that_no_memory_holds_is_refused() {
    const ACCESSED_BY: u32 = 3;
    const NOWHERE: i32 = -2;
    let _context = Current::new();
    let mut managed = 0;
    ok!(cuMemAllocManaged(&mut managed, 64, 1));
    let mut by = [7_i32; 2];
    let mut ask = |bytes| {
        cu!(cuMemRangeGetAttribute(
            by.as_mut_ptr().cast(),
            bytes,
            ACCESSED_BY,
            managed,
            64
        ))
    };
    assert_eq!(ask(usize::MAX - 7), INVALID_VALUE);
    assert_eq!(ask(8), 0);
    assert_eq!(by, [NOWHERE; 2]);
}

#[test]
fn pointers_tell_what_they_point_to() {
    let context = Current::new();
    let mut managed = 0;
    ok!(cuMemAllocManaged(&mut managed, 64, 1));
    let (mut owner, mut kind, mut is_managed, mut start) =
        (null_mut::<c_void>(), 0_u32, false, 0_u64);
    let mut places: [*mut c_void; 4] = [
        (&raw mut owner).cast(),
        (&raw mut kind).cast(),
        (&raw mut is_managed).cast(),
        (&raw mut start).cast(),
    ];
    let mut asked = [1, 2, 8, 11];
    ok!(cuPointerGetAttributes(
        4,
        asked.as_mut_ptr(),
        places.as_mut_ptr(),
        managed + 10
    ));
    assert_eq!(
        (owner, kind, is_managed, start),
        (context.0.cast(), 2, true, managed)
    );
    ok!(cuPointerGetAttributes(
        4,
        asked.as_mut_ptr(),
        places.as_mut_ptr(),
        0x10
    ));
    assert_eq!((owner, kind, is_managed, start), (null_mut(), 0, false, 0));
}

#[test]
fn memory_comes_and_goes_in_stream_order() {
    let _context = Current::new();
    let stream = stream(0);
    let gate = Gate::close(stream);
    let mut memory = 0;
    ok!(cuMemAllocAsync(&mut memory, 4, stream));
    ok!(cuMemsetD32Async(memory, 5, 1, stream));
    let kept = alloc(4);
    ok!(cuMemcpyDtoDAsync_v2(kept, memory, 4, stream));
    ok!(cuMemFreeAsync(memory, stream));
    assert_eq!(cu!(cuMemFreeAsync(memory, stream)), INVALID_VALUE);
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(download(kept, 1), [5]);
    assert_eq!(cu!(cuMemsetD32_v2(memory, 5, 1)), INVALID_VALUE);
}
