//! Memory and semaphores of other libraries: what is refused, and what is kept how long, with
//! entries that take everything. `examples/vulkan` imports some of Vulkan's.
#![cfg(unix)]

use std::ffi::{c_int, c_uint};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock};

use ptxkit::driver::api::{
    Api, CUdeviceptr, CUexternalMemory, CUexternalSemaphore, CUmipmappedArray, CUstream,
    ExternalArrayDesc, ExternalBufferDesc, ExternalMemoryDesc, ExternalSemaphoreDesc,
    ExternalSemaphoreParams,
};
use ptxkit::driver::external::{Memory, Semaphore, SemaphoreKind};
use ptxkit::driver::{
    ArrayFlags, ArrayShape, CaptureMode, Context, CudaError, Driver, Error, Graph, Stream,
};

use crate::support::{alone, context, device, is_gpu, isolated};

/// Imports one end of a pipe, and fails if the other end still has somebody to talk to.
fn refused<T: std::fmt::Debug>(import: impl FnOnce(OwnedFd) -> Result<T, Error>) -> Error {
    let (mut from, mut to) = std::io::pipe().unwrap();
    to.write_all(b"kept").unwrap();
    let error = import(to.into()).unwrap_err();
    // NVIDIA's driver has it, and may keep it.
    if is_gpu() {
        return error;
    }
    let mut told = String::new();
    from.read_to_string(&mut told).unwrap(); // ends when nobody can write any more
    assert_eq!(told, "kept");
    error
}

#[test]
fn what_is_no_memory_is_refused_and_closed() {
    isolated(
        "external::what_is_no_memory_is_refused_and_closed",
        &[],
        || {
            let context = context();
            // SAFETY: a pipe is of no device: the call fails before it is used.
            let errors = unsafe {
                [
                    refused(|pipe| Memory::import(&context, pipe, 4096)),
                    refused(|pipe| Memory::import_dedicated(&context, pipe, 4096)),
                    refused(|pipe| Semaphore::import(&context, SemaphoreKind::Binary, pipe)),
                    refused(|pipe| Semaphore::import(&context, SemaphoreKind::Timeline, pipe)),
                ]
            };
            for error in errors {
                if is_gpu() {
                    eprintln!("{error}");
                    continue;
                }
                assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
                assert!(error.to_string().contains("other libraries"), "{error}");
            }
            // Nothing is left of it.
            context.synchronize().unwrap();
        },
    );
}

#[test]
fn memory_has_bytes() {
    let context = context();
    let (_, pipe) = std::io::pipe().unwrap();
    // SAFETY: as above.
    let error = unsafe { Memory::import(&context, pipe.into(), 0) }.unwrap_err();
    if !is_gpu() {
        assert_eq!(error.code(), Some(CudaError::INVALID_VALUE), "{error}");
    }
}

/// What the entries below were called for, in order.
static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn call(what: impl Into<String>) -> c_int {
    CALLS.lock().unwrap().push(what.into());
    0
}

fn calls() -> Vec<String> {
    std::mem::take(&mut *CALLS.lock().unwrap())
}

/// The handle is the descriptor, which the driver has from then on.
fn handle<H>(descriptor: c_int) -> *mut H {
    std::ptr::without_provenance_mut(descriptor as usize)
}

fn close<H>(handle: *mut H) {
    // SAFETY: the descriptor of an import, which ends once.
    drop(unsafe { OwnedFd::from_raw_fd(handle.addr() as c_int) });
}

unsafe extern "C" fn import_memory(
    memory: *mut CUexternalMemory,
    desc: *const ExternalMemoryDesc,
) -> c_int {
    // SAFETY: both are of the caller, as those of the functions below.
    let desc = unsafe { *desc };
    unsafe { *memory = handle(desc.descriptor) };
    call(format!("import {} {} {}", desc.kind, desc.size, desc.flags))
}

unsafe extern "C" fn mapped_buffer(
    address: *mut CUdeviceptr,
    _memory: CUexternalMemory,
    desc: *const ExternalBufferDesc,
) -> c_int {
    let desc = unsafe { *desc };
    call(format!("buffer {} {}", desc.offset, desc.size));
    let allocate = device().driver().api().cuMemAlloc_v2.unwrap();
    unsafe { allocate(address, desc.size as usize) }
}

unsafe extern "C" fn mapped_image(
    image: *mut CUmipmappedArray,
    _memory: CUexternalMemory,
    desc: *const ExternalArrayDesc,
) -> c_int {
    let desc = unsafe { *desc };
    let (width, height) = (desc.array.width, desc.array.height);
    call(format!(
        "image {} {width} {height} {}",
        desc.offset, desc.levels
    ));
    let create = device().driver().api().cuMipmappedArrayCreate.unwrap();
    unsafe { create(image, &desc.array, desc.levels) }
}

unsafe extern "C" fn destroy_memory(memory: CUexternalMemory) -> c_int {
    close(memory);
    call("destroy memory")
}

unsafe extern "C" fn free(address: CUdeviceptr) -> c_int {
    call("free");
    let free = device().driver().api().cuMemFree_v2.unwrap();
    unsafe { free(address) }
}

unsafe extern "C" fn destroy_image(image: CUmipmappedArray) -> c_int {
    call("destroy image");
    let destroy = device().driver().api().cuMipmappedArrayDestroy.unwrap();
    unsafe { destroy(image) }
}

unsafe extern "C" fn import_semaphore(
    semaphore: *mut CUexternalSemaphore,
    desc: *const ExternalSemaphoreDesc,
) -> c_int {
    let desc = unsafe { *desc };
    unsafe { *semaphore = handle(desc.descriptor) };
    call(format!("import {}", desc.kind))
}

unsafe extern "C" fn signal(
    _semaphores: *const CUexternalSemaphore,
    params: *const ExternalSemaphoreParams,
    count: c_uint,
    _stream: CUstream,
) -> c_int {
    call(format!("signal {count} {}", unsafe { (*params).value }))
}

unsafe extern "C" fn wait(
    _semaphores: *const CUexternalSemaphore,
    params: *const ExternalSemaphoreParams,
    count: c_uint,
    _stream: CUstream,
) -> c_int {
    call(format!("wait {count} {}", unsafe { (*params).value }))
}

unsafe extern "C" fn destroy_semaphore(semaphore: CUexternalSemaphore) -> c_int {
    close(semaphore);
    call("destroy semaphore")
}

/// The device with a driver that imports whatever it is given.
fn importing() -> Context {
    static TABLE: OnceLock<Api> = OnceLock::new();
    alone();
    let device = device();
    let table = TABLE.get_or_init(|| {
        let mut table = device.driver().api().clone();
        table.cuImportExternalMemory = Some(import_memory);
        table.cuExternalMemoryGetMappedBuffer = Some(mapped_buffer);
        table.cuExternalMemoryGetMappedMipmappedArray = Some(mapped_image);
        table.cuDestroyExternalMemory = Some(destroy_memory);
        table.cuMemFree_v2 = Some(free);
        table.cuMipmappedArrayDestroy = Some(destroy_image);
        table.cuImportExternalSemaphore = Some(import_semaphore);
        table.cuSignalExternalSemaphoresAsync = Some(signal);
        table.cuWaitExternalSemaphoresAsync = Some(wait);
        table.cuDestroyExternalSemaphore = Some(destroy_semaphore);
        table
    });
    // SAFETY: the device's own entries, and some that do as the documentation says.
    let driver = unsafe { Driver::from_api(table) }.unwrap();
    calls();
    Context::primary(&driver.device(device.ordinal()).unwrap()).unwrap()
}

#[test]
fn an_import_lives_as_long_as_what_is_in_it() {
    let context = importing();
    let (mut from, to) = std::io::pipe().unwrap();
    // SAFETY: the driver above takes it.
    let memory = unsafe { Memory::import(&context, to.into(), 4096) }.unwrap();
    assert_eq!(calls(), ["import 1 4096 0"]);
    let mut buffer = memory.buffer::<u32>(1024, 100).unwrap();
    assert_eq!(calls(), ["buffer 1024 400"]);
    let none = memory.buffer::<u32>(4096, 0).unwrap();
    assert_eq!((none.len(), calls().len()), (0, 0));
    for (at, len) in [(4096, 1), (3700, 100), (usize::MAX, 1), (0, usize::MAX)] {
        let error = memory.buffer::<u32>(at, len).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
    }
    let error = memory.buffer::<u32>(1023, 1).unwrap_err();
    assert!(matches!(error, Error::Cast { .. }), "{error}");
    for (at, len) in [(0, 257), (1024, 1), (1420, 2), (0, 1024)] {
        let error = memory.buffer::<u32>(at, len).unwrap_err();
        assert!(matches!(error, Error::Mapped), "{error}");
    }
    assert_eq!(calls(), [""; 0]);
    drop(memory.buffer::<u32>(0, 256).unwrap());
    drop(memory.buffer::<u32>(0, 256).unwrap());
    // SAFETY: no kernel is launched.
    drop(unsafe { memory.buffer_alias::<u32>(1024, 1) }.unwrap());
    let all = [
        "buffer 0 1024",
        "free",
        "buffer 0 1024",
        "free",
        "buffer 1024 4",
        "free",
    ];
    assert_eq!(calls(), all);

    let stream = Stream::new(&context).unwrap();
    buffer.fill_async(7, &stream).unwrap();
    drop(memory);
    assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
    assert_eq!(calls(), [""; 0]);
    drop(buffer);
    assert_eq!(calls(), ["free", "destroy memory"]);
    // The driver alone had the descriptor, and closed it.
    let mut rest = Vec::new();
    from.read_to_end(&mut rest).unwrap();
}

#[test]
fn an_image_keeps_its_memory() {
    let context = importing();
    let (_from, to) = std::io::pipe().unwrap();
    // SAFETY: as above.
    let memory = unsafe { Memory::import_dedicated(&context, to.into(), 4096) }.unwrap();
    let shape = ArrayShape::D2 {
        width: 8,
        height: 4,
    };
    let flags = ArrayFlags::default().surface();
    // SAFETY: as above.
    let image = unsafe { memory.mipmapped_array::<f32>(0, shape, 2, flags) }.unwrap();
    assert_eq!(calls(), ["import 1 4096 1", "image 0 8 4 2"]);
    // SAFETY: they are refused.
    let errors = unsafe {
        [
            memory.mipmapped_array::<f32>(0, shape, 5, flags),
            memory.mipmapped_array::<f32>(4096, shape, 1, flags),
        ]
    };
    assert!(matches!(errors[0], Err(Error::MipmapLevel { .. })));
    assert!(matches!(errors[1], Err(Error::Length { .. })));
    let mut level = image.level(1).unwrap();
    drop((memory, image));
    level.write(&[0.5; 8]).unwrap();
    assert_eq!(level.to_vec().unwrap(), [0.5; 8]);
    assert_eq!(calls(), [""; 0]);
    drop(level);
    assert_eq!(calls(), ["destroy image", "destroy memory"]);
}

#[test]
fn a_semaphore_lives_as_long_as_what_uses_it() {
    let context = importing();
    let (_from, to) = std::io::pipe().unwrap();
    // SAFETY: as above.
    let semaphore = unsafe { Semaphore::import(&context, SemaphoreKind::Timeline, to.into()) };
    let semaphore = semaphore.unwrap();
    assert_eq!(semaphore.kind(), SemaphoreKind::Timeline);
    let stream = Stream::new(&context).unwrap();
    semaphore.wait(3, &stream).unwrap();
    semaphore.signal(4, &stream).unwrap();
    assert_eq!(calls(), ["import 9", "wait 1 3", "signal 1 4"]);

    let other = Context::create(context.device(), 0).unwrap();
    let error = semaphore.signal(5, &Stream::new(&other).unwrap());
    assert!(matches!(error, Err(Error::DifferentContexts { .. })));

    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        semaphore.signal(6, stream)
    });
    let ready = graph.unwrap().instantiate().unwrap();
    drop(semaphore);
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(calls(), ["signal 1 6"]);
    drop(ready);
    assert_eq!(calls(), ["destroy semaphore"]);
}
