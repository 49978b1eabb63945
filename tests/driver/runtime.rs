//! Beside CUDA's runtime: its context, streams and memory here, and ours there.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use libloading::Library;
use ptxkit::driver::{Context, DeviceBuffer, LaunchConfig, Module, Stream};

use crate::kernels::ADD;
use crate::support::{context, device, is_gpu, isolated};

/// The runtime, where it is installed.
fn runtime() -> Result<Library, String> {
    let folders = ["", "/usr/local/cuda/lib64/"];
    let names = [
        "libcudart.so",
        "libcudart.so.13",
        "libcudart.so.12",
        "libcudart.so.11.0",
    ];
    let mut why = String::new();
    for file in folders
        .iter()
        .flat_map(|folder| names.map(|name| format!("{folder}{name}")))
    {
        // SAFETY: NVIDIA's library, whose initialisers do nothing else.
        match unsafe { Library::new(&file) } {
            Ok(library) => return Ok(library),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// Calls a function of the runtime, which must succeed.
macro_rules! cuda {
    ($library:expr, $name:literal: ($($type:ty),*), $($argument:expr),*) => {{
        // SAFETY: the function of that name has this type; its arguments are the test's own.
        let code = unsafe {
            let function = $library.get::<unsafe extern "C" fn($($type),*) -> c_int>($name);
            function.unwrap()($($argument),*)
        };
        assert_eq!(code, 0, "{}", String::from_utf8_lossy($name));
    }};
}

const TO_DEVICE: c_int = 1;
const TO_HOST: c_int = 2;

#[test]
fn pointers_and_streams_are_exchanged_with_the_runtime() {
    if !is_gpu() {
        eprintln!("the runtime is left out: it takes NVIDIA's driver");
        return;
    }
    match runtime() {
        Ok(runtime) => isolated(
            "runtime::pointers_and_streams_are_exchanged_with_the_runtime",
            &[],
            || exchange(&runtime),
        ),
        Err(why) => eprintln!("the runtime is left out: {why}"),
    }
}

fn exchange(runtime: &Library) {
    cuda!(runtime, b"cudaSetDevice": (c_int), device().ordinal() as c_int);
    let mut theirs = null_mut::<c_void>();
    cuda!(runtime, b"cudaMalloc": (*mut *mut c_void, usize), &mut theirs, 4);
    // The runtime uses the primary context, and so do we.
    let context = context();
    // SAFETY: the primary context is kept by `context`.
    let current = unsafe { Context::current(device().driver()) }.unwrap();
    assert_eq!(current, Some(context.clone()));

    // Their memory and their stream, our kernel.
    let number = 40_u32;
    cuda!(
        runtime, b"cudaMemcpy": (*mut c_void, *const c_void, usize, c_int),
        theirs, (&raw const number).cast(), 4, TO_DEVICE
    );
    let mut queue = null_mut::<c_void>();
    cuda!(runtime, b"cudaStreamCreate": (*mut *mut c_void), &mut queue);
    let add = Module::load(&context, ADD.as_bytes())
        .unwrap()
        .kernel("add")
        .unwrap();
    {
        // SAFETY: the stream is destroyed below.
        let stream = unsafe { Stream::from_raw(&context, queue.cast()) };
        unsafe { add.launch(LaunchConfig::default(), &stream, (theirs as u64, 2_u32)) }.unwrap();
    }
    cuda!(runtime, b"cudaStreamSynchronize": (*mut c_void), queue);
    let mut read = 0_u32;
    cuda!(
        runtime, b"cudaMemcpy": (*mut c_void, *const c_void, usize, c_int),
        (&raw mut read).cast(), theirs, 4, TO_HOST
    );
    assert_eq!(read, 42);

    // Our memory and our stream, their copy.
    let ours = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let stream = Stream::new(&context).unwrap();
    cuda!(
        runtime, b"cudaMemcpyAsync": (*mut c_void, *const c_void, usize, c_int, *mut c_void),
        ours.address() as *mut c_void, (&raw const number).cast(), 4, TO_DEVICE, stream.raw().cast()
    );
    unsafe { add.launch(LaunchConfig::default(), &stream, (&ours, 5_u32)) }.unwrap();
    cuda!(runtime, b"cudaStreamSynchronize": (*mut c_void), stream.raw().cast());
    assert_eq!(ours.to_vec().unwrap(), [45]);

    cuda!(runtime, b"cudaStreamDestroy": (*mut c_void), queue);
    cuda!(runtime, b"cudaFree": (*mut c_void), theirs);
    // What the runtime gave back, the context does without.
    assert_eq!(ours.to_vec().unwrap(), [45]);
}
