//! `PTXKIT_CPU_CHECK=init`: reads of device memory that nobody has written.

use std::ffi::c_void;
use std::process::Command;
use std::ptr::null_mut;

use crate::entry::{Current, alloc, detail, upload};
use crate::kernels::{kernel, launch, load};

const CHILD: &str = "PTXKIT_TEST_CHILD";
const LAUNCH_FAILED: i32 = 719;

/// A thread copies a word, from an offset on.
const COPY: &std::ffi::CStr = c"
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to, .param .u32 offset)
{
    .reg .b32 %r<2>;
    .reg .b64 %a<4>;
    ld.param.u64 %a0, [from];
    ld.param.u64 %a1, [to];
    ld.param.u32 %r0, [offset];
    cvt.u64.u32 %a2, %r0;
    add.u64 %a0, %a0, %a2;
    add.u64 %a1, %a1, %a2;
    ld.global.u32 %r1, [%a0];
    st.global.u32 [%a1], %r1;
    ret;
}
";

/// In a process of its own, which looks for them.
fn checked(name: &str, test: fn()) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return test();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env("PTXKIT_CPU_CHECK", "init")
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

/// The error of a copy of a word.
fn copy(from: u64, to: u64, offset: u32) -> i32 {
    let copy = kernel(load(COPY), c"copy");
    let mut values = (from, to, offset);
    let mut arguments = [
        (&raw mut values.0).cast::<c_void>(),
        (&raw mut values.1).cast(),
        (&raw mut values.2).cast(),
    ];
    match launch(copy, 1, 0, null_mut(), &mut arguments) {
        0 => cu!(cuCtxSynchronize()),
        error => error,
    }
}

#[test]
fn what_was_written_is_read() {
    checked("unwritten::what_was_written_is_read", || {
        let _context = Current::new();
        let [first, second, third] = [64, 64, 64].map(alloc);
        // By a fill, by the host, by a kernel, by a copy of these.
        ok!(cuMemsetD32_v2(first, 7, 2));
        assert_eq!(copy(first, second, 4), 0);
        assert_eq!(copy(second, third, 4), 0);
        ok!(cuMemcpyDtoD_v2(third + 16, second + 4, 4));
        assert_eq!(copy(third, second, 16), 0);
        let uploaded = upload(&[1, 2, 3, 4]);
        assert_eq!(copy(uploaded, second, 12), 0);
        // Memory of the host, and what is managed, anybody may write.
        let (mut pinned, mut managed, mut seen) = (null_mut(), 0, 0);
        ok!(cuMemHostAlloc(&mut pinned, 64, 0));
        ok!(cuMemHostGetDevicePointer_v2(&mut seen, pinned, 0));
        ok!(cuMemAllocManaged(&mut managed, 64, 1));
        assert_eq!(copy(seen, second, 0), 0);
        assert_eq!(copy(managed, second, 0), 0);
        // A stream's memory, written in its order.
        let mut ordered = 0;
        ok!(cuMemAllocAsync(&mut ordered, 64, null_mut()));
        ok!(cuMemsetD32Async(ordered, 7, 16, null_mut()));
        assert_eq!(copy(ordered, second, 60), 0);
    });
}

#[test]
fn fresh_memory_is_not_read() {
    checked("unwritten::fresh_memory_is_not_read", || {
        let _context = Current::new();
        let memory = alloc(64);
        ok!(cuMemsetD8_v2(memory, 1, 35));
        assert_eq!(copy(memory, alloc(64), 32), LAUNCH_FAILED);
        let said = detail();
        let address = memory + 32;
        assert!(
            said.contains("kernel copy, block (0,0,0), thread (0,0,0)"),
            "{said}"
        );
        assert!(
            said.contains(&format!("read of 4 bytes at {address:#x}")),
            "{said}"
        );
        assert!(
            said.contains("32 bytes into the 64-byte allocation"),
            "{said}"
        );
        assert!(
            said.ends_with("that nothing has written; PTX line 15"),
            "{said}"
        );
    });
}

#[test]
fn a_copy_of_fresh_memory_is_fresh() {
    checked("unwritten::a_copy_of_fresh_memory_is_fresh", || {
        let _context = Current::new();
        let [first, second] = [alloc(64), upload(&[7; 16])];
        ok!(cuMemcpyDtoD_v2(second + 8, first, 8));
        assert_eq!(copy(second, upload(&[0; 16]), 4), 0);
        assert_eq!(copy(second, upload(&[0; 16]), 12), LAUNCH_FAILED);
    });
}

#[test]
fn memory_that_is_freed_is_fresh_again() {
    checked("unwritten::memory_that_is_freed_is_fresh_again", || {
        let _context = Current::new();
        let target = upload(&[0; 16]);
        let mut first = 0;
        ok!(cuMemAllocAsync(&mut first, 64, null_mut()));
        ok!(cuMemsetD32Async(first, 7, 16, null_mut()));
        ok!(cuMemFreeAsync(first, null_mut()));
        let mut second = 0;
        ok!(cuMemAllocAsync(&mut second, 64, null_mut()));
        assert_eq!(copy(second, target, 0), LAUNCH_FAILED);
    });
}
