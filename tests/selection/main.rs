//! Which image of a fatbin is taken: what `image::select` says beside what NVIDIA's driver does
//! with the whole fatbin. Each image tells which it is. Needs `PTXKIT_DEVICE=nvidia`; on the CPU
//! device the same fatbins go through the loader, which takes their PTX.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "launches of kernels that are declared beside them"
)]

mod cases;
mod fatbin;
mod packed;

use std::process::Command;

use cases::{CASES, Case};
use fatbin::fatbin;
use ptxkit::cache::{Cache, Policy};
use ptxkit::driver::{
    Context, Device, DeviceBuffer, DriverKind, LaunchConfig, Module, Selection, Stream, select,
};
use ptxkit::image::{self, JitPolicy, Target};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{Loader, Source};

/// The device that `PTXKIT_DEVICE` names.
fn device() -> Device {
    let selection = std::env::var("PTXKIT_DEVICE").map_or(Selection::Cpu, |word| {
        word.parse().expect("PTXKIT_DEVICE names a device")
    });
    select(selection).expect("the device is there").device
}

/// What the image that a module was made from says of itself.
fn marker(context: &Context, module: &Module) -> u32 {
    let kernel = module.kernel("which").expect("the kernel is there");
    let found = DeviceBuffer::<u32>::zeroed(context, 1).expect("memory");
    let stream = Stream::new(context).expect("a stream");
    unsafe { kernel.launch(LaunchConfig::for_elements(1, 1), &stream, (&found,)) }
        .expect("it is launched");
    stream.synchronize().expect("it runs");
    found.to_vec().expect("the result")[0]
}

/// What the driver takes of each case, and what `image::select` says that it takes.
fn compare(cases: &[Case], policy: JitPolicy) {
    let device = device();
    let context = Context::primary(&device).expect("a context");
    let target: Target = device.target().expect("a target").parse().expect("sm_…");
    let mut differ = Vec::new();
    for case in cases {
        let bytes = fatbin(case);
        let opened = image::open(&bytes).expect("the fatbin is sound");
        let ours = image::select(std::slice::from_ref(&opened), target, policy)
            .ok()
            .and_then(|selection| selection.place.entry);
        // SAFETY: the toolkit compiled the cubins.
        let loaded = unsafe { Module::load_image(&context, &bytes) };
        let theirs = loaded
            .as_ref()
            .ok()
            .map(|module| marker(&context, module) as usize);
        let why = loaded
            .err()
            .map_or(String::new(), |error| format!(" ({error})"));
        println!("{case:?}: driver {theirs:?}{why}, select {ours:?}");
        if ours != theirs {
            differ.push(format!(
                "{case:?}: the driver takes {theirs:?}{why}, select {ours:?}"
            ));
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {} differ on {target}:\n{}",
        differ.len(),
        cases.len(),
        differ.join("\n")
    );
}

const CHILD: &str = "PTXKIT_SELECTION_CHILD";

/// Compares in a process of its own, whose driver reads the environment anew.
fn compare_with(test: &str, variables: &[(&str, &str)], policy: JitPolicy) {
    if device().driver().kind() == DriverKind::Cpu {
        return through_the_loader(policy);
    }
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return compare(CASES, policy);
    }
    let output = Command::new(std::env::current_exe().expect("the test's own program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        // A PTX image in the driver's cache would be found without being compiled.
        .env("CUDA_CACHE_DISABLE", "1")
        .envs(variables.iter().copied())
        .output()
        .expect("the test's own program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The CPU device takes the newest PTX, packed or not, unless that is forbidden.
fn through_the_loader(policy: JitPolicy) {
    let context = Context::primary(&device()).expect("a context");
    let cache = Cache::new(Policy::disabled().with_jit(policy));
    let loader = Loader::new(context.clone(), cache);
    let mut run = 0;
    for case in CASES {
        let newest = case.newest_ptx();
        let bytes = fatbin(case);
        // SAFETY: the toolkit compiled the cubins.
        let source = unsafe { Source::image("case", &bytes) };
        let loaded = loader.load(&source, &JitOptions::default());
        match (loaded, newest) {
            (Ok(loaded), Some(newest)) => {
                assert!(!policy.disable_ptx, "{case:?}");
                assert_eq!(
                    marker(&context, &loaded.module) as usize,
                    newest,
                    "{case:?}"
                );
                run += 1;
            }
            (Err(error), Some(_)) if !policy.disable_ptx => panic!("{case:?}: {error}"),
            (Ok(_), None) => panic!("{case:?}: loaded without PTX"),
            (Err(_), _) => {}
        }
    }
    let with_ptx = CASES.iter().filter(|case| case.newest_ptx().is_some());
    assert_eq!(
        run,
        if policy.disable_ptx {
            0
        } else {
            with_ptx.count()
        }
    );
}

#[test]
fn the_driver_takes_what_select_says() {
    compare_with(
        "the_driver_takes_what_select_says",
        &[],
        JitPolicy::default(),
    );
}

#[test]
fn the_same_where_ptx_is_forced() {
    let policy = JitPolicy {
        force_ptx: true,
        ..JitPolicy::default()
    };
    compare_with(
        "the_same_where_ptx_is_forced",
        &[("CUDA_FORCE_PTX_JIT", "1")],
        policy,
    );
}

#[test]
fn the_same_where_ptx_is_forbidden() {
    let policy = JitPolicy {
        disable_ptx: true,
        ..JitPolicy::default()
    };
    compare_with(
        "the_same_where_ptx_is_forbidden",
        &[("CUDA_DISABLE_PTX_JIT", "1")],
        policy,
    );
}

#[test]
fn the_newer_names_mean_the_same() {
    let force_ptx = JitPolicy {
        force_ptx: true,
        ..JitPolicy::default()
    };
    compare_with(
        "the_newer_names_mean_the_same",
        &[("CUDA_FORCE_JIT", "1")],
        force_ptx,
    );
}
