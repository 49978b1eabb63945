//! Hot kernels of the CPU device: what one process compiles a second time, the next finds.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use ptxkit::cache::{Cache, Entry, Environment, Lookup, Policy, Slicing};
use ptxkit::driver::{
    Context, ContextFlags, CudaError, DeviceBuffer, DriverKind, Error, Kernel, LaunchConfig, Stream,
};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{CacheUse, Counters, Loader, SlicedModule, Source};

use super::{context, policy};
use crate::parts::Parts;

/// A kernel that counts to 2000 and stores a number for each thread.
fn kernel(name: &str, factor: u32) -> String {
    format!(
        ".visible .entry {name}(.param .u64 out) {{\n\
         .reg .b32 %t, %i, %x; .reg .b64 %out, %at; .reg .pred %p;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %x, %t;\nmov.u32 %i, 2000;\n\
         more:\nmad.lo.u32 %x, %x, {factor}, 1013904223;\nsub.u32 %i, %i, 1;\n\
         setp.ne.u32 %p, %i, 0;\n@%p bra more;\n\
         mul.wide.u32 %at, %t, 4;\nadd.u64 %at, %at, %out;\nst.global.u32 [%at], %x;\nret;\n}}\n"
    )
}

const FACTORS: [u32; 2] = [1_664_525, 22_695_477];
const NAMES: [&str; 2] = ["first", "second"];

/// A module of two kernels that share nothing.
fn module() -> String {
    let kernels = NAMES.iter().zip(FACTORS);
    let kernels = kernels.map(|(name, factor)| kernel(name, factor));
    let head = ".version 6.3\n.target sm_50\n.address_size 64\n";
    head.to_owned() + &kernels.collect::<String>()
}

fn expected(factor: u32) -> Vec<u32> {
    let step = |x: u32, _| x.wrapping_mul(factor).wrapping_add(1_013_904_223);
    (0..64).map(|thread| (0..2000).fold(thread, step)).collect()
}

fn loader(folder: &Path, slicing: Slicing) -> Loader {
    Loader::new(context(), Cache::new(policy(folder).with_slicing(slicing)))
}

fn load(loader: &Loader) -> SlicedModule {
    let source = module();
    let source = Source::new("k.ptx", source.as_bytes());
    loader.load_sliced(&source, &JitOptions::default()).unwrap()
}

fn launch(kernel: &Kernel) -> Vec<u32> {
    let stream = Stream::new(kernel.context()).unwrap();
    let out = DeviceBuffer::<u32>::zeroed(kernel.context(), 64).unwrap();
    let config = LaunchConfig::from((1, 64));
    // SAFETY: 64 threads store a number each.
    unsafe { kernel.launch(config, &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    out.to_vec().unwrap()
}

/// Launches a kernel until `count` have optimized code, which was compiled or found.
fn heat(loader: &Loader, kernel: &Kernel, expected: &[u32], count: u64) {
    loop {
        assert_eq!(launch(kernel), expected);
        let counters = loader.counters();
        if counters.hot_compiles + counters.hot_hits >= count {
            break;
        }
    }
}

/// Waits until a cache has the optimized code of so many kernels: it is stored in the
/// background.
fn wait_for(folder: &Path, count: usize) {
    while hot_entries(folder).len() < count {
        std::thread::yield_now();
    }
}

/// A cache that has the optimized code of the kernel `second`.
fn heated(folder: &Path, slicing: Slicing) {
    let loader = loader(folder, slicing);
    let kernel = load(&loader).kernel("second").unwrap();
    heat(&loader, &kernel, &expected(FACTORS[1]), 1);
    wait_for(folder, 1);
}

/// The optimized code in a cache.
fn hot_entries(folder: &Path) -> Vec<Entry> {
    let mut entries = Cache::new(policy(folder)).entries().unwrap();
    entries.retain(|entry| entry.provenance.module.is_some());
    entries
}

fn is_cpu() -> bool {
    context().device().driver().kind() == DriverKind::Cpu
}

#[test]
fn a_hot_kernel_is_compiled_once_for_all_processes() {
    if !is_cpu() {
        return;
    }
    for slicing in [Slicing::Never, Slicing::Always] {
        let folder = tempfile::tempdir().unwrap();
        heated(folder.path(), slicing);
        let hot = hot_entries(folder.path());
        assert_eq!(hot.len(), 1);
        assert_eq!(hot[0].provenance.kernels, ["second"]);
        assert_eq!(hot[0].provenance.source, "k.ptx");

        let loader = loader(folder.path(), slicing);
        let module = load(&loader);
        let second = module.kernel("second").unwrap();
        let report = module.kernel_report("second").unwrap();
        assert_eq!(report.cache, CacheUse::Hit);
        assert_eq!(hot[0].provenance.module, report.key);
        assert_eq!(loader.counters().hot_hits, 0);
        assert_eq!(launch(&second), expected(FACTORS[1]));
        assert_eq!(loader.counters().hot_hits, 1);
        for _ in 0..100 {
            assert_eq!(launch(&second), expected(FACTORS[1]));
        }
        let counters = loader.counters();
        assert_eq!((counters.hot_hits, counters.hot_compiles), (1, 0));
        assert_eq!(counters.compiles, 0);
        // Each kernel has its own.
        let first = module.kernel("first").unwrap();
        heat(&loader, &first, &expected(FACTORS[0]), 2);
        assert_eq!(loader.counters().hot_compiles, 1);
        wait_for(folder.path(), 2);
    }
}

/// Modules that have a slice in common have its optimized code in common.
#[test]
fn another_module_with_the_same_slice_finds_its_hot_code() {
    if !is_cpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    heated(folder.path(), Slicing::Always);
    let other = module().replace(&FACTORS[0].to_string(), "5");
    let loader = loader(folder.path(), Slicing::Always);
    let source = Source::new("other.ptx", other.as_bytes());
    let module = loader.load_sliced(&source, &JitOptions::default()).unwrap();
    assert_eq!(
        launch(&module.kernel("second").unwrap()),
        expected(FACTORS[1])
    );
    assert_eq!(launch(&module.kernel("first").unwrap()), expected(5));
    assert_eq!(loader.counters().hot_hits, 1);
}

#[test]
fn the_ptx_is_not_in_the_cache_but_in_code_for_others() {
    if !is_cpu() {
        return;
    }
    for slicing in [Slicing::Never, Slicing::Always] {
        let folder = tempfile::tempdir().unwrap();
        heated(folder.path(), slicing);
        let has_text = |code: &[u8]| code.windows(10).any(|bytes| bytes == b"mad.lo.u32");
        let entries = Cache::new(policy(folder.path())).entries().unwrap();
        assert!(entries.len() >= 2);
        for entry in entries {
            assert!(!has_text(&std::fs::read(&entry.path).unwrap()));
        }
        let text = module();
        let source = Source::new("k.ptx", text.as_bytes());
        let loader = loader(folder.path(), slicing);
        let options = JitOptions::default();
        let code = loader.code_sliced(&source, &options).unwrap();
        let slice = code.slice_of("second").unwrap();
        assert!(has_text(&code.code(slice).unwrap()));
        assert!(has_text(&loader.code(&source, &options).unwrap()));
    }
}

#[test]
fn hot_code_that_is_damaged_is_compiled_anew() {
    if !is_cpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    heated(folder.path(), Slicing::Never);
    let path = &hot_entries(folder.path())[0].path;
    let good = std::fs::read(path).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    std::fs::write(path, bad).unwrap();
    let loader = loader(folder.path(), Slicing::Never);
    let kernel = load(&loader).kernel("second").unwrap();
    assert_eq!(launch(&kernel), expected(FACTORS[1]));
    assert_eq!(
        (loader.counters().hot_hits, loader.counters().cache.bad),
        (0, 1)
    );
    heat(&loader, &kernel, &expected(FACTORS[1]), 1);
    assert_eq!(loader.counters().hot_compiles, 1);
    wait_for(folder.path(), 1);
}

/// Whole, with a right checksum, but not what belongs under its key.
#[test]
fn hot_code_of_another_kernel_is_not_run() {
    if !is_cpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    heated(folder.path(), Slicing::Never);
    let hot = hot_entries(folder.path()).remove(0);
    let cache = Cache::new(policy(folder.path()));
    let of_module = cache.stored(&hot.provenance.module.unwrap()).unwrap();
    std::fs::remove_file(&hot.path).unwrap();
    let Lookup::Miss(lock) = cache.lookup(&hot.key) else {
        panic!("it was removed")
    };
    // SAFETY: the first kernel in it has another name, so that it is refused.
    unsafe { lock.put(&hot.provenance, &of_module) };
    let loader = loader(folder.path(), Slicing::Never);
    let kernel = load(&loader).kernel("second").unwrap();
    assert_eq!(launch(&kernel), expected(FACTORS[1]));
    assert_eq!(loader.counters().cache.bad, 1);
    heat(&loader, &kernel, &expected(FACTORS[1]), 2);
    assert_eq!(loader.counters().hot_compiles, 1);
}

#[test]
fn a_fault_in_hot_code_has_its_place_in_the_whole_module() {
    if !is_cpu() {
        return;
    }
    let text = module();
    let lines = text.lines().zip(1..);
    let (_, line) = lines
        .filter(|(line, _)| line.starts_with("st.global"))
        .last()
        .unwrap();
    let mut parts = Parts::of("hot::a_fault_in_hot_code_has_its_place_in_the_whole_module");
    let check = |slicing| {
        let folder = tempfile::tempdir().unwrap();
        heated(folder.path(), slicing);
        let context = Context::create(context().device(), ContextFlags::default()).unwrap();
        let cache = Cache::new(policy(folder.path()).with_slicing(slicing));
        let loader = Loader::new(context.clone(), cache);
        let kernel = load(&loader).kernel("second").unwrap();
        let stream = Stream::new(&context).unwrap();
        // SAFETY: the device refuses the address.
        let launched = unsafe { kernel.launch(LaunchConfig::from((1, 64)), &stream, (64_u64,)) };
        let error: Error = launched.and_then(|()| stream.synchronize()).unwrap_err();
        assert_eq!(loader.counters().hot_hits, 1);
        assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
        let error = error.to_string();
        for part in [
            "kernel second, block (0,0,0), thread (0,0,0)",
            "at 0x40",
            &format!("PTX line {line}"),
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    parts.run(|| check(Slicing::Never));
    parts.run(|| check(Slicing::Always));
}

#[test]
fn without_a_cache_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let variables = Environment::of([
        ("CUDA_CACHE_PATH", folder.path().as_os_str()),
        ("CUDA_CACHE_DISABLE", "1".as_ref()),
    ]);
    let policy = Policy::from_environment(&variables);
    let loader = Loader::new(context(), Cache::new(policy));
    let kernel = load(&loader).kernel("second").unwrap();
    for _ in 0..200 {
        assert_eq!(launch(&kernel), expected(FACTORS[1]));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

const FOLDER: &str = "PTXKIT_TEST_HOT_FOLDER";
const LANES: &str = "PTXKIT_CPU_LANES";

/// A process of its own, which prints how many modules and hot kernels it compiled.
fn process(folder: &Path, lanes: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hot::one_process", "--nocapture"])
        .env(FOLDER, folder)
        .env(LANES, lanes)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn compiled(process: Child) -> (u32, u32) {
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let (_, rest) = text.split_once("compiled=").unwrap();
    let (modules, rest) = rest.split_once(',').unwrap();
    let (kernels, _) = rest.split_once(';').unwrap();
    (modules.parse().unwrap(), kernels.parse().unwrap())
}

/// Not a test: what `process` starts.
#[test]
fn one_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let loader = loader(folder.as_ref(), Slicing::Auto);
    let kernel = load(&loader).kernel("second").unwrap();
    match std::env::var(LANES).as_deref() {
        Ok("hot") => {
            heat(&loader, &kernel, &expected(FACTORS[1]), 1);
            wait_for(folder.as_ref(), 1);
        }
        _ => (0..200).for_each(|_| assert_eq!(launch(&kernel), expected(FACTORS[1]))),
    }
    let Counters {
        compiles,
        hot_compiles,
        ..
    } = loader.counters();
    println!("compiled={compiles},{hot_compiles};");
}

#[test]
fn the_second_process_compiles_nothing_whatever_the_lanes() {
    if !is_cpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (lanes, hot) in [("hot", 1), ("always", 0), ("never", 0)] {
        for expected in [(1, hot), (0, 0), (0, 0)] {
            let found = compiled(process(folder.path(), lanes));
            assert_eq!(found, expected, "{lanes}");
        }
    }
    assert_eq!(hot_entries(folder.path()).len(), 1);
}

#[test]
fn of_processes_at_once_one_compiles_a_hot_kernel() {
    if !is_cpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let processes: Vec<Child> = (0..4).map(|_| process(folder.path(), "hot")).collect();
    let all: Vec<_> = processes.into_iter().map(compiled).collect();
    let total = all
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(total, (1, 1), "{all:?}");
}
