//! Modules in slices: what they mean, when they are compiled, what the cache keeps.

use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use ptxkit::cache::{Cache, Key, Slicing};
use ptxkit::driver::{
    Context, ContextFlags, CudaError, DeviceBuffer, DriverKind, Error, Kernel, LaunchConfig, Stream,
};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{CacheUse, LoadError, Loader, Prepare, SlicedModule, Source};

use super::{context, policy};
use crate::parts::Parts;

/// A loader that cuts small modules too, with a cache in `folder`.
fn loader(folder: &Path) -> Loader {
    let policy = policy(folder).with_slicing(Slicing::Always);
    Loader::new(context(), Cache::new(policy))
}

fn load(loader: &Loader, ptx: &str) -> Result<SlicedModule, LoadError> {
    loader.load_sliced(
        &Source::new("k.ptx", ptx.as_bytes()),
        &JitOptions::default(),
    )
}

/// A module with this behind its head.
fn module(items: &str) -> String {
    format!(".version 6.3\n.target sm_50\n.address_size 64\n{items}")
}

/// A kernel that stores what `body` leaves in `%r` to its one parameter.
fn kernel(name: &str, body: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 out) {{\n\
         .reg .b32 %r; .reg .b32 %s; .reg .b64 %rd; .reg .b64 %f;\n{body}\n\
         ld.param.u64 %rd, [out];\ncvta.to.global.u64 %rd, %rd;\n\
         st.global.u32 [%rd], %r;\nret;\n}}\n"
    )
}

/// Launches a kernel that stores one number.
fn result(kernel: &Kernel) -> u32 {
    let stream = Stream::new(kernel.context()).unwrap();
    let out = DeviceBuffer::<u32>::zeroed(kernel.context(), 1).unwrap();
    // SAFETY: the kernel stores one number.
    unsafe { kernel.launch(LaunchConfig::default(), &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    out.to_vec().unwrap()[0]
}

fn result_of(module: &SlicedModule, name: &str) -> u32 {
    result(&module.kernel(name).unwrap())
}

/// `count` kernels that share nothing; the nth stores n.
fn numbered(count: u32) -> String {
    let kernels = (0..count).map(|n| kernel(&format!("k{n}"), &format!("mov.u32 %r, {n};")));
    module(&kernels.collect::<String>())
}

/// A context of its own: a fault ends it.
fn context_to_lose() -> Context {
    Context::create(context().device(), ContextFlags::default()).unwrap()
}

#[test]
fn a_fault_has_the_line_of_the_whole_module() {
    // NVIDIA's driver names no line, and gives no context after a fault.
    if context().device().driver().kind() != DriverKind::Cpu {
        return;
    }
    let wrong = kernel(
        "wrong",
        "// a comment\n\nmov.u64 %rd, 64;\n.loc 2 9 1\nst.global.u32 [%rd], 1;",
    );
    let right = kernel("right", ".loc 1 5 1\nmov.u32 %r, 1;");
    let ptx = module(&format!(
        "{right}{wrong}.file 1 \"right.cu\"\n.file 2 \"wrong.cu\"\n"
    ));
    let line = ptx.lines().position(|line| line.contains("], 1;")).unwrap() + 1;
    let mut parts = Parts::of("sliced::a_fault_has_the_line_of_the_whole_module");
    let check = |cache| {
        let folder = tempfile::tempdir().unwrap();
        let context = context_to_lose();
        let loader = || {
            let policy = policy(folder.path()).with_slicing(Slicing::Always);
            Loader::new(context.clone(), Cache::new(policy))
        };
        if cache == CacheUse::Hit {
            load(&loader(), &ptx).unwrap().kernel("wrong").unwrap();
        }
        let loader = loader();
        let module = load(&loader, &ptx).unwrap();
        let kernel = module.kernel("wrong").unwrap();
        assert_eq!(module.kernel_report("wrong").unwrap().cache, cache);
        // The kernel keeps what the message needs.
        drop((module, loader));
        let stream = Stream::new(&context).unwrap();
        let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
        // SAFETY: it stores to no memory of this process.
        let launched = unsafe { kernel.launch(LaunchConfig::default(), &stream, (&out,)) };
        let error = launched.and_then(|()| stream.synchronize()).unwrap_err();
        assert_eq!(error.code(), Some(CudaError::ILLEGAL_ADDRESS), "{error}");
        let named = format!("PTX line {line} (wrong.cu:9)");
        assert!(error.to_string().contains(&named), "{named}: {error}");
    };
    parts.run(|| check(CacheUse::Miss));
    parts.run(|| check(CacheUse::Hit));
}

#[test]
fn a_kernel_is_compiled_when_it_is_first_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let module = load(&loader, &numbered(4)).unwrap();
    assert_eq!(module.kernel_names(), ["k0", "k1", "k2", "k3"]);
    assert_eq!((module.report().slices, &module.report().whole), (4, &None));
    assert_eq!(module.report().cache, CacheUse::Miss);
    assert_eq!(loader.counters().compiles, 0);
    assert!(module.kernel_report("k2").is_none());
    assert_eq!(result_of(&module, "k2"), 2);
    assert_eq!(result_of(&module, "k2"), 2);
    assert_eq!(loader.counters().compiles, 1);
    assert_eq!(module.kernel_report("k2").unwrap().cache, CacheUse::Miss);
    assert!(module.kernel_report("k1").is_none());
    let error = module.kernel("k4").unwrap_err();
    assert!(
        matches!(&error, LoadError::Driver(Error::UnknownKernel { known, .. }) if known.len() == 4),
        "{error}"
    );
}

/// A kernel keeps its slice, as it does its module.
#[test]
fn a_kernel_outlives_its_sliced_module() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = {
        let module = load(&loader(folder.path()), &numbered(3)).unwrap();
        module.kernel("k1").unwrap()
    };
    assert_eq!(result(&kernel), 1);
}

#[test]
fn the_next_process_neither_reads_nor_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = numbered(4);
    let first = load(&loader(folder.path()), &ptx).unwrap();
    first.prepare(Prepare::All, |_| ()).unwrap();
    let loader = loader(folder.path());
    let module = load(&loader, &ptx).unwrap();
    assert_eq!(module.report().cache, CacheUse::Hit);
    assert_eq!(module.report().key, first.report().key);
    assert!(module.report().cut.is_zero());
    assert_eq!(module.kernel_names(), first.kernel_names());
    assert_eq!(result_of(&module, "k3"), 3);
    assert_eq!(module.kernel_report("k3").unwrap().cache, CacheUse::Hit);
    assert_eq!(loader.counters().compiles, 0);
}

#[test]
fn a_changed_kernel_is_compiled_alone() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let ptx = numbered(4);
    load(&loader, &ptx)
        .unwrap()
        .prepare(Prepare::All, |_| ())
        .unwrap();
    assert_eq!(loader.counters().compiles, 4);
    let inserted = kernel("another", "mov.u32 %r, 9;");
    let edited = ptx.replace("mov.u32 %r, 1;", "mov.u32 %r, 11;");
    let edited = edited.replacen(".visible", &format!("{inserted}\n// new\n.visible"), 1);
    let module = load(&loader, &edited).unwrap();
    module.prepare(Prepare::All, |_| ()).unwrap();
    assert_eq!(loader.counters().compiles, 6);
    let all = ["k0", "k1", "k2", "k3", "another"];
    assert_eq!(all.map(|name| result_of(&module, name)), [0, 11, 2, 3, 9]);
}

#[test]
fn a_lost_slice_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = numbered(4);
    let first = load(&loader(folder.path()), &ptx).unwrap();
    first.prepare(Prepare::All, |_| ()).unwrap();
    let lost = first.kernel_report("k2").unwrap().key.unwrap();
    drop(first);
    let loader = loader(folder.path());
    let entries = loader.cache().entries().unwrap();
    let entry = entries.iter().find(|entry| entry.key == lost).unwrap();
    std::fs::remove_file(&entry.path).unwrap();
    let module = load(&loader, &ptx).unwrap();
    assert_eq!(module.report().cache, CacheUse::Hit);
    assert_eq!(result_of(&module, "k2"), 2);
    assert_eq!(result_of(&module, "k1"), 1);
    assert_eq!(loader.counters().compiles, 1);
    assert!(loader.cache().contains(&lost));
}

#[test]
fn a_damaged_index_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = numbered(3);
    let key = load(&loader(folder.path()), &ptx)
        .unwrap()
        .report()
        .key
        .unwrap();
    let loader = loader(folder.path());
    let entry = &loader.cache().find(&key.to_string()).unwrap()[0];
    let mut bytes = std::fs::read(&entry.path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&entry.path, bytes).unwrap();
    let module = load(&loader, &ptx).unwrap();
    assert_eq!(module.report().cache, CacheUse::Miss);
    assert_eq!(result_of(&module, "k2"), 2);
}

/// Whole and in slices, a module has other keys.
#[test]
fn an_index_is_no_code() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let ptx = numbered(2);
    let sliced = load(&loader, &ptx).unwrap();
    let whole = super::load(&loader, &ptx).unwrap();
    assert_eq!(whole.report.cache, CacheUse::Miss);
    assert_ne!(whole.report.key, sliced.report().key);
    whole.module.kernel("k1").unwrap();
}

#[test]
fn kernels_share_a_variable_that_one_of_them_writes() {
    let folder = tempfile::tempdir().unwrap();
    let count = "ld.global.u32 %r, [counter]; add.u32 %r, %r, 1; st.global.u32 [counter], %r;";
    let ptx = module(&format!(
        ".visible .global .u32 counter = 5;\n{}{}{}",
        kernel("count", count),
        kernel("look", "ld.global.u32 %r, [counter];"),
        kernel("other", "mov.u32 %r, 7;"),
    ));
    let module = load(&loader(folder.path()), &ptx).unwrap();
    assert_eq!(module.report().slices, 2);
    assert_eq!(result_of(&module, "count"), 6);
    assert_eq!(result_of(&module, "look"), 6);
    assert!(module.kernel_report("other").is_none());
    let counter = module.global("counter").unwrap();
    counter.set(41_u32).unwrap();
    assert_eq!(result_of(&module, "count"), 42);
    assert_eq!(counter.get::<u32>().unwrap(), 42);
    assert!(module.global("count").is_err());
    assert!(module.constant("counter").is_err());
}

#[test]
fn a_constant_is_written_to_every_copy() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = module(&format!(
        ".visible .const .u32 factor = 2;\n.visible .const .u32 pair[2] = {{ 3, 4 }};\n{}{}{}",
        kernel("once", "ld.const.u32 %r, [factor];"),
        kernel("ten", "ld.const.u32 %r, [factor]; mul.lo.u32 %r, %r, 10;"),
        kernel("second", "ld.const.u32 %r, [pair+4];"),
    ));
    let loader = loader(folder.path());
    let module = load(&loader, &ptx).unwrap();
    assert_eq!(module.report().slices, 3);
    assert_eq!(result_of(&module, "once"), 2);
    let factor = module.constant("factor").unwrap();
    assert_eq!(factor.bytes(), 4);
    // One copy is loaded, the other not yet.
    factor.set(3_u32).unwrap();
    assert_eq!(result_of(&module, "once"), 3);
    assert_eq!(result_of(&module, "ten"), 30);
    factor.set(4_u32).unwrap();
    assert_eq!(result_of(&module, "once"), 4);
    assert_eq!(result_of(&module, "ten"), 40);
    assert_eq!(factor.read::<u32>(1).unwrap(), [4]);
    // Before any copy is loaded, and only its first element.
    let pair = module.constant("pair").unwrap();
    pair.write(&[9_u32]).unwrap();
    assert_eq!(result_of(&module, "second"), 4);
    assert_eq!(pair.read::<u32>(2).unwrap(), [9, 4]);
    assert!(matches!(pair.set(1_u32), Err(Error::Length { .. })));
    assert!(matches!(
        pair.write(&[1_u32, 2, 3]),
        Err(Error::Length { .. })
    ));
    let error = module.global("factor").unwrap_err();
    assert!(matches!(error, LoadError::Copied { .. }), "{error}");
    assert!(module.constant("once").is_err());
}

/// nvcc makes all variables private since CUDA 13.
#[test]
fn private_variables_are_written_too() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = module(&format!(
        ".global .u32 scale = 2;\n.global .u32 alone = 6;\n.const .u32 offset = 5;\n{}{}{}",
        kernel("a", "ld.global.u32 %r, [scale];"),
        kernel(
            "b",
            "ld.global.u32 %r, [scale]; ld.const.u32 %s, [offset]; add.u32 %r, %r, %s;"
        ),
        kernel("c", "ld.global.u32 %r, [alone];"),
    ));
    let module = load(&loader(folder.path()), &ptx).unwrap();
    assert_eq!(module.report().slices, 3);
    module.constant("scale").unwrap().set(3_u32).unwrap();
    module.constant("offset").unwrap().set(10_u32).unwrap();
    assert_eq!(result_of(&module, "a"), 3);
    assert_eq!(result_of(&module, "b"), 13);
    let error = module.global("scale").unwrap_err();
    assert!(matches!(error, LoadError::Copied { .. }), "{error}");
    // One slice has it, so it has one address.
    module.global("alone").unwrap().set(7_u32).unwrap();
    assert_eq!(result_of(&module, "c"), 7);
}

/// The same calls do the same where a module is whole.
#[test]
fn a_module_that_is_whole_has_the_same_interface() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = module(&format!(
        ".visible .const .u32 factor = 2;\n.visible .global .u32 counter = 5;\n{}{}",
        kernel("a", "ld.const.u32 %r, [factor];"),
        kernel("b", "ld.global.u32 %r, [counter];"),
    ));
    for slicing in [Slicing::Never, Slicing::Auto] {
        let policy = policy(folder.path()).with_slicing(slicing);
        let loader = Loader::new(context(), Cache::new(policy));
        let module = load(&loader, &ptx).unwrap();
        assert!(module.report().whole.is_some());
        assert_eq!(module.report().slices, 1);
        assert_eq!(module.kernel_names(), ["a", "b"]);
        module.constant("factor").unwrap().set(8_u32).unwrap();
        module.global("counter").unwrap().set(9_u32).unwrap();
        module.prepare(Prepare::All, |_| ()).unwrap();
        assert_eq!(result_of(&module, "a"), 8);
        assert_eq!(result_of(&module, "b"), 9);
        assert!(module.kernel_report("a").is_some());
        assert!(module.prepare(Prepare::Kernels(&["c"]), |_| ()).is_err());
        // It is the module that `load` has.
        assert_eq!(
            super::load(&loader, &ptx).unwrap().report.cache,
            CacheUse::Shared
        );
    }
}

#[test]
fn functions_and_their_addresses_go_with_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let function = |name: &str, number: u32| {
        format!(".func (.param .b32 r) {name}() {{ st.param.b32 [r], {number}; ret; }}\n")
    };
    let direct = "{ .param .b32 v; call.uni (v), one, (); ld.param.b32 %r, [v]; }";
    let indirect = "mov.u64 %f, two;\n\
         { .param .b32 v; p: .callprototype (.param .b32 _) _ ();\n\
         call (v), %f, (), p; ld.param.b32 %r, [v]; }";
    let ptx = module(&format!(
        "{}{}{}{}{}",
        function("one", 1),
        function("two", 2),
        kernel("direct", direct),
        kernel("indirect", indirect),
        kernel("both", "mov.u32 %r, 3;"),
    ));
    let module = load(&loader(folder.path()), &ptx).unwrap();
    assert!(module.report().slices > 1, "{:?}", module.report());
    assert_eq!(result_of(&module, "direct"), 1);
    assert_eq!(result_of(&module, "indirect"), 2);
}

#[test]
fn shared_memory_weak_symbols_and_printf_go_with_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let swap = |number: u32| {
        format!("st.shared.u32 [scratch+4], {number}; ld.shared.u32 %r, [scratch+4];")
    };
    let print = "mov.u64 %rd, text; cvta.global.u64 %rd, %rd;\n\
        { .param .b64 f; .param .b64 a; .param .b32 r;\n\
        st.param.b64 [f], %rd; mov.u64 %rd, 0; st.param.b64 [a], %rd;\n\
        call.uni (r), vprintf, (f, a); ld.param.b32 %r, [r]; }";
    let ptx = module(&format!(
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n\
         .global .align 1 .b8 text[6] = {{ 104, 101, 108, 108, 111, 0 }};\n\
         .shared .align 4 .b8 scratch[8];\n\
         .weak .global .u32 seed = 5;\n\
         .weak .func (.param .b32 r) weak() {{ st.param.b32 [r], 12; ret; }}\n{}{}{}{}{}",
        kernel("first", &swap(21)),
        kernel("second", &swap(22)),
        kernel("seeded", "ld.global.u32 %r, [seed];"),
        kernel(
            "weakly",
            "{ .param .b32 v; call.uni (v), weak, (); ld.param.b32 %r, [v]; }"
        ),
        kernel("printing", print),
    ));
    let module = load(&loader(folder.path()), &ptx).unwrap();
    assert_eq!(module.report().slices, 5, "{:?}", module.report());
    let all = ["first", "second", "seeded", "weakly"];
    assert_eq!(all.map(|name| result_of(&module, name)), [21, 22, 5, 12]);
    module.global("seed").unwrap().set(6_u32).unwrap();
    assert_eq!(result_of(&module, "seeded"), 6);
    result_of(&module, "printing");
}

#[test]
fn an_alias_goes_with_its_function() {
    let folder = tempfile::tempdir().unwrap();
    let call = "{ .param .b32 v; call.uni (v), other, (); ld.param.b32 %r, [v]; }";
    let ptx = module(&format!(
        ".visible .func (.param .b32 r) one() {{ st.param.b32 [r], 17; ret; }}\n\
         .visible .func (.param .b32 r) other();\n.alias other, one;\n{}{}",
        kernel("called", call),
        kernel("alone", "mov.u32 %r, 1;"),
    ));
    let module = load(&loader(folder.path()), &ptx).unwrap();
    assert_eq!(result_of(&module, "called"), 17);
    assert_eq!(result_of(&module, "alone"), 1);
}

/// They share the code and nothing else.
#[test]
fn modules_with_an_equal_slice_compile_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let count = "ld.global.u32 %r, [counter]; add.u32 %r, %r, 1; st.global.u32 [counter], %r;";
    let shared = format!(".global .u32 counter = 0;\n{}", kernel("count", count));
    let modules = [1, 2].map(|n| {
        let other = kernel("other", &format!("mov.u32 %r, {n};"));
        load(&loader, &module(&format!("{shared}{other}"))).unwrap()
    });
    for _ in 0..2 {
        result_of(&modules[0], "count");
    }
    assert_eq!(result_of(&modules[1], "count"), 1);
    assert_eq!(result_of(&modules[0], "count"), 3);
    assert_eq!(loader.counters().compiles, 1);
    let keys = modules.map(|module| module.kernel_report("count").unwrap().key);
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn a_mistake_is_told_by_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let ptx = numbered(40).replace("mov.u32 %r, 30;", "mov.u32 %r, [;");
    let line = ptx.lines().position(|line| line.contains("[;")).unwrap() + 1;
    let error = load(&loader, &ptx).unwrap_err();
    let LoadError::Driver(Error::Jit(error)) = error else {
        panic!("{error}")
    };
    assert!(
        error
            .diagnostics
            .iter()
            .any(|found| found.line == Some(line as u32)),
        "{line}: {error}"
    );
}

/// PTX that this crate accepts and no compiler does: so much memory no target has. What
/// the compiler says of the slice names the lines of the whole, and it is asked once.
#[test]
fn what_the_compiler_refuses_is_told_in_lines_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    // The CPU device has no mma; a GPU takes it from sm_80 on, not for this target.
    let refused = "wmma.load.a.sync.aligned.m16n16k16.global.row.f16 \
        {%a, %a, %a, %a, %a, %a, %a, %a}, [%rd];";
    let ptx = numbered(3).replace("sm_50", "sm_70").replace(
        "mov.u32 %r, 1;",
        &format!("mov.u32 %r, 1;\n.reg .b32 %a;\nmov.u64 %rd, 0;\n{refused}"),
    );
    let module = load(&loader, &ptx).unwrap();
    let line = ptx.lines().position(|line| line.contains("wmma")).unwrap() + 1;
    let compiles = loader.counters().compiles;
    for _ in 0..2 {
        match module.kernel("k1") {
            // A GPU compiles it.
            Ok(_) => return,
            Err(LoadError::Driver(Error::Jit(error))) => {
                let lines: Vec<_> = error.diagnostics.iter().map(|found| found.line).collect();
                assert!(lines.contains(&Some(line as u32)), "{line}: {error}");
                assert!(
                    error.log.contains(&format!("line {line};")),
                    "{}",
                    error.log
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(loader.counters().compiles, compiles + 1);
    assert_eq!(result_of(&module, "k2"), 2);
    let error = module.prepare(Prepare::All, |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Driver(Error::Jit(_))), "{error}");
    assert_eq!(result_of(&module, "k0"), 0);
}

#[test]
fn threads_compile_a_slice_once() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let ptx = numbered(4);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (loader, ptx, start) = (&loader, &ptx, &start);
            scope.spawn(move || {
                start.wait();
                let module = load(loader, ptx).unwrap();
                for n in 0..4 {
                    let n = (n + thread) % 4;
                    assert_eq!(result_of(&module, &format!("k{n}")), n);
                }
            });
        }
    });
    // Two may follow one another without one meanwhile: then it is loaded again, from
    // the cache.
    let counters = loader.counters();
    assert_eq!(counters.compiles, 4);
    assert_eq!(counters.cache.puts, 5);
}

#[test]
fn two_loads_share_a_module() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let ptx = numbered(2);
    let first = load(&loader, &ptx).unwrap();
    let second = load(&loader.clone(), &ptx).unwrap();
    assert_eq!(second.report().cache, CacheUse::Shared);
    let raw = |module: &SlicedModule| module.kernel("k1").unwrap().module().raw();
    assert_eq!(raw(&first), raw(&second));
    let own = load(&loader.clone().with_sharing(false), &ptx).unwrap();
    assert_eq!(own.report().cache, CacheUse::Hit);
    assert_ne!(raw(&first), raw(&own));
    assert_eq!(loader.counters().modules, 1);
    drop((first, second));
    assert_eq!(loader.counters().modules, 0);
}

const FOLDER: &str = "PTXKIT_TEST_SLICED_FOLDER";

/// One of the processes of the next test.
#[test]
fn one_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let loader = loader(Path::new(&folder));
    let module = load(&loader, &numbered(8)).unwrap();
    module.prepare(Prepare::All, |_| ()).unwrap();
    assert_eq!(result_of(&module, "k7"), 7);
    println!("compiles={};", loader.counters().compiles);
}

#[test]
fn eight_processes_compile_each_slice_once() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "sliced::one_process", "--nocapture"]);
            command.env(FOLDER, folder.path());
            command
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut compiles = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        let (_, rest) = text.split_once("compiles=").unwrap();
        compiles += rest.split_once(';').unwrap().0.parse::<u32>().unwrap();
    }
    assert_eq!(compiles, 8);
}

#[test]
fn preparing_counts_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let ptx = module(&format!(
        ".global .u32 counter;\n{}{}{}",
        kernel("write", "mov.u32 %r, 1; st.global.u32 [counter], %r;"),
        kernel("read", "ld.global.u32 %r, [counter];"),
        kernel("alone", "mov.u32 %r, 1;"),
    ));
    let module = load(&loader, &ptx).unwrap();
    let mut seen = Vec::new();
    module
        .prepare(Prepare::Kernels(&["read"]), |now| {
            seen.push((now.done, now.of, now.last.len()));
        })
        .unwrap();
    assert_eq!(seen, [(2, 2, 2)]);
    let error = module
        .prepare(Prepare::Kernels(&["alone", "none"]), |_| ())
        .unwrap_err();
    assert!(matches!(
        error,
        LoadError::Driver(Error::UnknownKernel { .. })
    ));
    assert_eq!(loader.counters().compiles, 1);
    module
        .prepare(Prepare::All, |now| assert_eq!(now.of, 3))
        .unwrap();
    assert_eq!(loader.counters().compiles, 2);
}

/// For tools: the index says which slices the module has.
#[test]
fn the_cache_lists_the_slices_of_a_module() {
    let folder = tempfile::tempdir().unwrap();
    let loader = loader(folder.path());
    let module = load(&loader, &numbered(3)).unwrap();
    module.prepare(Prepare::All, |_| ()).unwrap();
    let entries = loader.cache().entries().unwrap();
    assert_eq!(entries.len(), 4);
    let index = module.report().key.unwrap();
    let index = entries.iter().find(|entry| entry.key == index).unwrap();
    assert_eq!(index.provenance.kernels, ["k0", "k1", "k2"]);
    let mut slices: Vec<Key> = index.provenance.slices.clone();
    slices.sort_unstable();
    let others = entries.iter().filter(|entry| entry.key != index.key);
    let mut others: Vec<Key> = others.map(|entry| entry.key).collect();
    others.sort_unstable();
    assert_eq!(slices, others);
    assert_eq!(loader.cache().stats().unwrap().kernels, 3);
}

#[test]
fn without_a_cache_slices_are_compiled_too() {
    let policy = ptxkit::cache::Policy::disabled().with_slicing(Slicing::Always);
    let loader = Loader::new(context(), Cache::new(policy));
    let module = load(&loader, &numbered(3)).unwrap();
    assert_eq!(module.report().cache, CacheUse::Off);
    assert_eq!(result_of(&module, "k1"), 1);
    assert_eq!(module.kernel_report("k1").unwrap().cache, CacheUse::Off);
    assert_eq!(loader.counters().compiles, 1);
}
