//! Entries of the table, called with plain numbers, handles and pointers as a
//! C program does, and the objects that tests need.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ptxkit::driver::api::{CUcontext, CUdeviceptr, CUevent, CUstream};

/// Calls an entry and gives its number.
macro_rules! cu {
    ($entry:ident($($argument:expr),* $(,)?)) => {{
        let entry = ptxkit::cpu::table().$entry.expect(stringify!($entry));
        // SAFETY: each test passes what the entry's documentation asks for, or
        // what it must refuse without following it.
        unsafe { entry($($argument),*) }
    }};
}

/// Calls an entry that must succeed.
macro_rules! ok {
    ($entry:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(cu!($entry($($argument),*)), 0, "{}: {}", stringify!($entry), $crate::entry::detail())
    };
}

pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const INVALID_DEVICE: i32 = 101;
pub const INVALID_CONTEXT: i32 = 201;
pub const INVALID_HANDLE: i32 = 400;
pub const NOT_READY: i32 = 600;
pub const CONTEXT_IS_DESTROYED: i32 = 709;
pub const NOT_PERMITTED: i32 = 800;
pub const NOT_SUPPORTED: i32 = 801;

/// What the last failure had to say.
pub fn detail() -> String {
    let mut text = [0_u8; 512];
    cu!(ptxkitGetLastFault(text.as_mut_ptr().cast(), text.len()));
    CStr::from_bytes_until_nul(&text)
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// Runs a test in a process of its own, with these variables: after a fault the device takes no
/// new contexts. `name` is the test's full name.
pub fn isolated(name: &str, environment: &[(&str, &str)], test: impl FnOnce()) {
    const CHILD: &str = "PTXKIT_TEST_CHILD";
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return test();
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact"])
        .env(CHILD, name)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A context of the test's own, current on its thread.
pub struct Current(pub CUcontext);

impl Current {
    pub fn new() -> Current {
        ok!(cuInit(0));
        let mut context = null_mut();
        ok!(cuCtxCreate_v2(&mut context, 0, 0));
        Current(context)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        cu!(cuCtxDestroy_v2(self.0));
    }
}

pub fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    ok!(cuStreamCreate(&mut stream, flags));
    stream
}

pub fn event(flags: u32) -> CUevent {
    let mut event = null_mut();
    ok!(cuEventCreate(&mut event, flags));
    event
}

pub fn alloc(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address, bytes));
    address
}

pub fn upload(values: &[u32]) -> CUdeviceptr {
    let address = alloc(size_of_val(values));
    ok!(cuMemcpyHtoD_v2(
        address,
        values.as_ptr().cast(),
        size_of_val(values)
    ));
    address
}

pub fn download(address: CUdeviceptr, count: usize) -> Vec<u32> {
    let mut values = vec![0_u32; count];
    ok!(cuMemcpyDtoH_v2(
        values.as_mut_ptr().cast(),
        address,
        count * 4
    ));
    values
}

/// Holds a stream until it is opened.
pub struct Gate(AtomicBool);

impl Gate {
    pub fn close(stream: CUstream) -> &'static Gate {
        unsafe extern "C" fn wait(gate: *mut c_void) {
            // SAFETY: the argument is the leaked gate of `close`.
            let gate = unsafe { &*gate.cast::<Gate>() };
            while !gate.0.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let gate: &'static Gate = Box::leak(Box::new(Gate(AtomicBool::new(false))));
        ok!(cuLaunchHostFunc(
            stream,
            Some(wait),
            std::ptr::from_ref(gate).cast_mut().cast()
        ));
        gate
    }

    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}
