//! The device under test, and tests that need a process of their own.

use std::cell::RefCell;
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ptxkit::driver::{Context, Device, DriverKind, Kernel, Module, Selection, Stream, select};
use ptxkit::ptx::slice::cut_always;

/// Tests run beside one another, but for those that stop a whole GPU: a capture
/// forbids others to wait for its context, and while a function of the host
/// keeps a stream waiting, a call that waits for the device keeps out others.
/// So are those that make another context or take memory from a pool: NVIDIA's
/// driver (580.159) then hung now and then. Threads in `cuStreamSynchronize` and
/// `cuCtxSynchronize` each held a lock of its own that another of them waited for.
static TESTS: RwLock<()> = RwLock::new(());

enum Turn {
    Beside(#[allow(dead_code, reason = "held, not read")] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>),
}

thread_local! {
    /// What the test of this thread runs beside, up to its end.
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

fn take(turn: impl FnOnce() -> Turn) {
    // Threads that a test starts have no names, and are within its turn.
    if std::thread::current().name().is_some() {
        TURN.with_borrow_mut(|mine| {
            mine.get_or_insert_with(turn);
        });
    }
}

/// No other test runs beside this one. To be called first.
pub fn alone() {
    take(|| Turn::Alone(TESTS.write().unwrap_or_else(PoisonError::into_inner)));
}

/// The device that `PTXKIT_DEVICE` names.
pub fn device() -> Device {
    take(|| Turn::Beside(TESTS.read().unwrap_or_else(PoisonError::into_inner)));
    let selection = std::env::var("PTXKIT_DEVICE").map_or(Selection::Cpu, |word| {
        word.parse()
            .unwrap_or_else(|error| panic!("PTXKIT_DEVICE: {error}"))
    });
    match select(selection) {
        Ok(selected) => selected.device,
        Err(error) => panic!("no device to test: {error}"),
    }
}

pub fn is_gpu() -> bool {
    device().driver().kind() == DriverKind::Nvidia
}

/// The device's primary context. A test that runs alone may stop a stream and only later let it
/// go on: nothing may wait for that stream in between, so check mode (`PTXKIT_CHECK=1`) is off.
pub fn context() -> Context {
    let context = Context::primary(&device()).expect("a context");
    if TURN.with_borrow(|turn| matches!(turn, Some(Turn::Alone(_)))) {
        context.set_check_mode(false);
    }
    context
}

/// A context, a stream of it, and a kernel of some PTX, of which the whole is loaded, or with
/// `PTXKIT_SLICED=always` the slice of the kernel.
pub fn kernel(ptx: &str, name: &str) -> (Context, Stream, Kernel) {
    let context = context();
    let stream = Stream::new(&context).expect("a stream");
    let ptx = if is_sliced() {
        slice(ptx, name)
    } else {
        ptx.to_owned()
    };
    let module = Module::load(&context, ptx.as_bytes()).expect("the module loads");
    let kernel = module.kernel(name).expect("the kernel is there");
    (context, stream, kernel)
}

/// Whether [`kernel`] loads slices.
pub fn is_sliced() -> bool {
    std::env::var("PTXKIT_SLICED").is_ok_and(|word| word == "always")
}

fn slice(ptx: &str, kernel: &str) -> String {
    let slices = cut_always(ptx, &ptxkit::ptx::read(ptx).module);
    let slice = slices.kernel(kernel).expect("the kernel is in a slice");
    slices.slices()[slice].text(ptx).into_owned()
}

const CHILD: &str = "PTXKIT_TEST_CHILD";

/// Whether this process is the one that `isolated` started for the test.
pub fn in_child(name: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|child| child == name)
}

/// Runs a test in a process of its own: after a fault a GPU takes no more work
/// from a process, and a library is opened once a process. `name` is the
/// test's full name. Check mode moves a fault to the launch: it is on only where `environment`
/// says so.
pub fn isolated(name: &str, environment: &[(&str, &str)], test: impl FnOnce()) {
    if in_child(name) {
        return test();
    }
    let program = std::env::current_exe().expect("the test's own program");
    let output = Command::new(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env_remove("PTXKIT_CHECK")
        .envs(environment.iter().copied())
        .output()
        .expect("the test's own program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    for line in text.lines().chain(told.lines()) {
        if line.contains("left out") {
            eprintln!("{line}");
        }
    }
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{}",
        output.status,
        told
    );
}
