//! Memory and events of two processes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use ptxkit::driver::{
    CudaError, DeviceAttribute, DeviceBuffer, Event, IpcBuffer, LaunchConfig, MemoryPool, Module,
    Stream,
};

use crate::kernels::ADD;
use crate::support::{alone, context, device, is_gpu};

/// The handle that a child opens, in hexadecimal digits.
const MEMORY: &str = "PTXKIT_TEST_IPC_MEMORY";
const EVENT: &str = "PTXKIT_TEST_IPC_EVENT";

fn digits(bytes: [u8; 64]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(variable: &str) -> Option<[u8; 64]> {
    let digits = std::env::var(variable).ok()?;
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
    Some(std::array::from_fn(byte))
}

/// The second process, which runs the same test.
fn second(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]);
    child
}

fn succeeds(mut child: Command) {
    let child = child.output().unwrap();
    assert!(
        child.status.success(),
        "{}{}",
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr)
    );
}

/// What the second process does: it adds 2 to the first number.
fn add_in(memory: [u8; 64], event: Option<[u8; 64]>) {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    if let Some(event) = event {
        let ready = Event::from_ipc_handle(&context, event).unwrap();
        stream.wait_for(&ready).unwrap();
    }
    // SAFETY: the parent keeps the buffer, of 3 values, until this process is done.
    let theirs = unsafe { IpcBuffer::<u32>::open(&context, memory, 3) }.unwrap();
    assert_eq!(theirs.to_vec().unwrap(), [40, 1, 2]);
    let add = Module::load(&context, ADD.as_bytes())
        .unwrap()
        .kernel("add")
        .unwrap();
    unsafe { add.launch(LaunchConfig::default(), &stream, (&theirs, 2_u32)) }.unwrap();
}

#[test]
fn two_processes_share_memory() {
    if let Some(memory) = bytes(MEMORY) {
        return add_in(memory, bytes(EVENT));
    }
    let context = context();
    let buffer = DeviceBuffer::from_slice(&context, &[40_u32, 1, 2]).unwrap();
    // A process cannot open its own, and no bytes are a handle.
    for handle in [[0xff; 64], buffer.ipc_handle().unwrap()] {
        // SAFETY: the buffer has 3 values, and nothing is opened.
        unsafe { IpcBuffer::<u32>::open(&context, handle, 3) }.unwrap_err();
    }
    let mut child = second("ipc::two_processes_share_memory");
    child.env(MEMORY, digits(buffer.ipc_handle().unwrap()));
    let ready = Event::interprocess(&context).unwrap();
    let stream = Stream::new(&context).unwrap();
    ready.record(&stream).unwrap();
    child.env(EVENT, digits(ready.ipc_handle().unwrap()));
    succeeds(child);
    assert_eq!(buffer.to_vec().unwrap(), [42, 1, 2]);
    let freed = buffer.ipc_handle().unwrap();
    drop(buffer);
    let mut child = second("ipc::freed_memory_is_not_opened");
    child.env(MEMORY, digits(freed));
    succeeds(child);
}

/// What the second process does: its stream waits for the first one's, which writes 7; then it adds 2.
fn wait_in(memory: [u8; 64], event: [u8; 64]) {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let written = Event::from_ipc_handle(&context, event).unwrap();
    // SAFETY: the parent keeps the buffer, of 3 values, until this process is done.
    let theirs = unsafe { IpcBuffer::<u32>::open(&context, memory, 3) }.unwrap();
    let add = Module::load(&context, ADD.as_bytes()).unwrap();
    let add = add.kernel("add").unwrap();
    assert!(!written.is_done().unwrap());
    stream.wait_for(&written).unwrap();
    unsafe { add.launch(LaunchConfig::default(), &stream, (&theirs, 2_u32)) }.unwrap();
    assert!(!stream.is_done().unwrap());
    println!("{WAITS}");
    stream.synchronize().unwrap();
    assert_eq!(theirs.to_vec().unwrap(), [9, 7, 7]);
    written.synchronize().unwrap();
    assert!(written.is_done().unwrap());
    written.ipc_handle().unwrap_err();
}

/// The line of the second process by which the first goes on.
const WAITS: &str = "the stream waits";

#[test]
fn a_stream_waits_for_one_of_another_process() {
    alone();
    if let Some((memory, event)) = bytes(MEMORY).zip(bytes(EVENT)) {
        return wait_in(memory, event);
    }
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let mut buffer = DeviceBuffer::from_slice(&context, &[1_u32; 3]).unwrap();
    let ordinary = Event::without_timing(&context).unwrap();
    ordinary.ipc_handle().unwrap_err();
    let written = Event::interprocess(&context).unwrap();
    // No bytes are a handle, and a process does not open its own.
    for handle in [[1; 64], written.ipc_handle().unwrap()] {
        Event::from_ipc_handle(&context, handle).unwrap_err();
    }
    let mut child = second("ipc::a_stream_waits_for_one_of_another_process");
    child
        .env(MEMORY, digits(buffer.ipc_handle().unwrap()))
        .env(EVENT, digits(written.ipc_handle().unwrap()))
        .stdout(Stdio::piped());
    let (go, told) = mpsc::channel::<()>();
    // It also goes on when this test fails, which drops the sender.
    stream.call(move || _ = told.recv()).unwrap();
    buffer.fill_async(7, &stream).unwrap();
    written.record(&stream).unwrap();
    assert!(!written.is_done().unwrap());
    let mut child = child.spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let waits = lines.map_while(Result::ok).any(|line| line.contains(WAITS));
    drop(go);
    assert!(child.wait().unwrap().success() && waits);
    stream.synchronize().unwrap();
    assert!(written.is_done().unwrap());
    assert_eq!(buffer.to_vec().unwrap(), [9, 7, 7]);
}

#[test]
fn freed_memory_is_not_opened() {
    // The GPU's driver keeps what it allocated from the system.
    if let Some(memory) = bytes(MEMORY).filter(|_| !is_gpu()) {
        // SAFETY: nothing is opened.
        let error = unsafe { IpcBuffer::<u32>::open(&context(), memory, 3) }.unwrap_err();
        assert_eq!(error.code(), Some(CudaError::INVALID_VALUE), "{error}");
    }
}

/// The bytes of a buffer in a pool whose descriptor is the child's standard input.
#[cfg(unix)]
const IN_POOL: &str = "PTXKIT_TEST_IPC_IN_POOL";

/// What the second process does: it adds 2 to the first number.
#[cfg(unix)]
fn add_in_pool(handle: [u8; 64]) {
    use std::os::fd::AsFd;
    let context = context();
    let pool = MemoryPool::import(&device(), std::io::stdin().as_fd()).unwrap();
    let stream = Stream::new(&context).unwrap();
    assert!(
        pool.buffer::<u32>(&stream, 1).is_err(),
        "nothing is allocated from it"
    );
    // SAFETY: the parent keeps the buffer, of 3 values, until this process is done.
    let theirs = unsafe { IpcBuffer::<u32>::open_in(&pool, &context, handle, 3) }.unwrap();
    assert_eq!(theirs.to_vec().unwrap(), [40, 1, 2]);
    let add = Module::load(&context, ADD.as_bytes()).unwrap();
    let add = add.kernel("add").unwrap();
    unsafe { add.launch(LaunchConfig::default(), &stream, (&theirs, 2_u32)) }.unwrap();
}

#[cfg(unix)]
#[test]
fn two_processes_share_a_pool() {
    use std::os::fd::AsFd;

    alone();
    if let Some(handle) = bytes(IN_POOL) {
        return add_in_pool(handle);
    }
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let private = MemoryPool::new(&device()).unwrap();
    private.export().unwrap_err();
    if !is_gpu() {
        let buffer = private.buffer::<u32>(&stream, 3).unwrap();
        let unshared = buffer.pool_handle().unwrap_err();
        assert!(unshared.to_string().contains("made for it"), "{unshared}");
        // SAFETY: nothing is opened.
        let foreign = unsafe { IpcBuffer::<u32>::open_in(&private, &context, [1; 64], 3) };
        assert!(foreign.is_err());
        let no_pool = MemoryPool::import(&device(), std::fs::File::open(".").unwrap().as_fd());
        assert!(no_pool.unwrap_err().to_string().contains("no pool"));
    }
    let pool = match MemoryPool::shareable(&device()) {
        Ok(pool) => pool,
        Err(error) => return eprintln!("left out: {error}"),
    };
    // What is in a pool is shared once the pool is.
    let descriptor = pool.export().unwrap();
    let mut buffer = pool.buffer::<u32>(&stream, 3).unwrap();
    buffer.write(&[40, 1, 2]).unwrap();
    let mut child = second("ipc::two_processes_share_a_pool");
    child
        .env(IN_POOL, digits(buffer.pool_handle().unwrap()))
        .stdin(Stdio::from(descriptor));
    succeeds(child);
    assert_eq!(buffer.to_vec().unwrap(), [42, 1, 2]);
}

#[test]
#[cfg(unix)]
fn other_drivers_get_a_dma_buf() {
    let buffer = DeviceBuffer::<u8>::zeroed(&context(), 4 << 20).unwrap();
    let has = device().attribute(DeviceAttribute::DMA_BUF_SUPPORTED);
    match buffer.dma_buf() {
        Ok(descriptor) => {
            assert!(has.unwrap());
            let link = std::os::fd::AsRawFd::as_raw_fd(&descriptor);
            let link = std::fs::read_link(format!("/proc/self/fd/{link}")).unwrap();
            assert!(link.to_string_lossy().contains("dmabuf"), "{link:?}");
        }
        Err(error) => {
            assert!(!has.unwrap_or(false), "{error}");
            assert_eq!(error.code(), Some(CudaError::NOT_SUPPORTED), "{error}");
        }
    }
}
