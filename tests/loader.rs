//! The loader on a device: cache, images, what is refused.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "launches of kernels that are declared beside them"
)]
#![cfg(all(
    feature = "driver",
    feature = "cache",
    feature = "cpu",
    feature = "macros"
))]

#[path = "loader/declared.rs"]
mod declared;
#[path = "loader/hot.rs"]
mod hot;
#[path = "isa/parts.rs"]
mod parts;
#[cfg(feature = "remote-fs")]
#[path = "loader/remote.rs"]
mod remote;
#[path = "loader/sliced.rs"]
mod sliced;

use std::collections::BTreeMap;
use std::path::Path;

use ptxkit::cache::{Cache, Digest, Environment, OnCompile, Policy};
use ptxkit::driver::nvptxcompiler::NvPtxCompiler;
use ptxkit::driver::{Context, DriverKind, LaunchConfig, Module, Selection, Stream, select};
use ptxkit::image::{self, Image, JitPolicy};
use ptxkit::jit::{JitOptions, PtxCompiler};
use ptxkit::loader::{CacheUse, LoadError, Loaded, Loader, Source, Warm};
use ptxkit::ptx::Ptx;

const PTX: &str = ".version 8.0\n.target sm_50\n.address_size 64\n\
                   .visible .entry first() { ret; }\n.visible .entry second() { ret; }\n";

/// The CPU device, unless the environment says otherwise.
fn context() -> Context {
    let device = std::env::var("PTXKIT_DEVICE").unwrap_or("cpu".into());
    let selection: Selection = device.parse().unwrap();
    Context::primary(&select(selection).unwrap().device).unwrap()
}

fn policy(folder: &Path) -> Policy {
    Policy::from_environment(&Environment::of([("CUDA_CACHE_PATH", folder)]))
}

fn load(loader: &Loader, ptx: &str) -> Result<Loaded, LoadError> {
    loader.load(
        &Source::new("k.ptx", ptx.as_bytes()),
        &JitOptions::default(),
    )
}

#[test]
fn what_was_compiled_is_found_by_the_next_loader() {
    let folder = tempfile::tempdir().unwrap();
    let loader = || Loader::new(context(), Cache::new(policy(folder.path())));
    let first = load(&loader(), PTX).unwrap();
    assert_eq!(first.report.cache, CacheUse::Miss);
    first.module.kernel("second").unwrap();
    let again = loader();
    let second = load(&again, PTX).unwrap();
    assert_eq!(second.report.cache, CacheUse::Hit);
    assert_eq!(second.report.key, first.report.key);
    assert!(second.report.compile.is_zero());
    second.module.kernel("first").unwrap();
    // Provenance is for the tools.
    let listed = again.cache().entries().unwrap();
    assert_eq!(listed[0].provenance.kernels, ["first", "second"]);
    assert_eq!(listed[0].provenance.source, "k.ptx");
}

/// A process that ends right after a load loses nothing.
#[test]
fn what_was_compiled_is_stored_when_the_load_returns() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let key = load(&loader, PTX).unwrap().report.key.unwrap();
    assert!(Cache::new(policy(folder.path())).contains(&key));
    assert_eq!(loader.counters().cache.puts, 1);
}

#[test]
fn included_ptx_is_found_by_its_digest() {
    // It is for programs without `unsafe`.
    #[forbid(unsafe_code)]
    const VECADD: Source<'static> = ptxkit::include_ptx!("../ptx-samples/vecadd.ptx");
    let bytes = std::fs::read("ptx-samples/vecadd.ptx").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = JitOptions::default();
    let load = |source: &Source<'_>| {
        let loader = Loader::new(context(), Cache::new(policy(folder.path())));
        loader.load(source, &options).unwrap().report
    };
    let first = load(&VECADD);
    let again = load(&Source::new("vecadd.ptx", &bytes));
    assert_eq!((first.cache, again.cache), (CacheUse::Miss, CacheUse::Hit));
    assert_eq!(first.key, again.key);
}

#[test]
fn text_options_and_nul_make_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let key = |ptx: &str, options: &JitOptions| {
        let source = Source::new("k.ptx", ptx.as_bytes());
        loader.load(&source, options).unwrap().report.key
    };
    let plain = JitOptions::default();
    let first = key(PTX, &plain);
    assert_eq!(first, key(&format!("{PTX}\0"), &plain));
    assert_ne!(first, key(&format!("{PTX}\n"), &plain));
    let other = JitOptions {
        line_info: true,
        ..plain
    };
    assert_ne!(first, key(PTX, &other));
    let ptx = Ptx::from_bytes(PTX, "by value").unwrap();
    // SAFETY: it is the digest of this text.
    let source = unsafe { Source::from(&ptx).with_digest(Digest::of(PTX.as_bytes())) };
    let loaded = loader.load(&source, &plain).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Hit);
    assert_eq!(loaded.report.key, first);
}

/// A cache whose blob of `PTX` is whole, but of something that no driver takes.
fn with_a_blob_that_does_not_load(folder: &Path) -> (Cache, Loader) {
    let cache = Cache::new(policy(folder));
    let loader = Loader::new(context(), cache.clone()).with_sharing(false);
    let key = load(&loader, PTX).unwrap().report.key.unwrap();
    cache.clear().unwrap();
    let ptxkit::cache::Lookup::Miss(lock) = cache.lookup(&key) else {
        panic!("the cache was emptied")
    };
    // SAFETY: every driver refuses it.
    unsafe { lock.put(&Default::default(), b"\x7fELF and nothing else") };
    (cache, loader)
}

#[test]
fn a_blob_that_does_not_load_is_compiled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, loader) = with_a_blob_that_does_not_load(folder.path());
    let loaded = load(&loader, PTX).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Miss);
    assert_eq!(cache.counters().bad, 1);
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Hit);
}

/// On a file system that is read-only now, say.
#[test]
fn a_blob_that_neither_loads_nor_goes_away_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, loader) = with_a_blob_that_does_not_load(folder.path());
    // A file in place of the quarantine: root too can create no folder there.
    std::fs::write(cache.folder().unwrap().join("bad"), b"").unwrap();
    let loaded = load(&loader, PTX).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Miss);
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Hit);
}

#[test]
fn a_loader_is_for_all_threads() {
    fn shareable<T: Send + Sync + Clone>() {}
    shareable::<Loader>();
    shareable::<Loaded>();
}

#[test]
fn threads_that_load_one_ptx_compile_and_load_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let loaded: Vec<Loaded> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| load(&loader, PTX).unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let first = loaded[0].module.raw();
    assert!(loaded.iter().all(|one| one.module.raw() == first));
    let counters = loader.counters();
    assert_eq!((counters.loads, counters.shared), (8, 7));
    assert_eq!((counters.compiles, counters.cache.misses), (1, 1));
}

#[test]
fn threads_with_modules_of_their_own_compile_once() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path()))).with_sharing(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| load(&loader, PTX).unwrap().module.kernel("first").unwrap());
        }
    });
    let counters = loader.cache().counters();
    assert_eq!((counters.misses, counters.hits), (1, 7));
    assert_eq!(loader.counters().shared, 0);
}

#[test]
fn a_module_is_shared_until_the_last_lets_go_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let ptx = Ptx::from_bytes(PTX, "k.ptx").unwrap();
    let options = JitOptions::default();
    let first = loader.load(&Source::from(&ptx), &options).unwrap();
    // By its digest, by its text, and by a clone of the loader.
    for loaded in [
        loader.load(&Source::from(&ptx), &options).unwrap(),
        load(&loader.clone(), PTX).unwrap(),
    ] {
        assert_eq!(loaded.report.cache, CacheUse::Shared);
        assert_eq!(loaded.module.raw(), first.module.raw());
        assert_eq!(loaded.report.key, first.report.key);
        assert_eq!(loaded.report.image, first.report.image);
    }
    assert_eq!(loader.counters().modules, 1);
    // Other options make another module, and so does whoever wants his own.
    let other = JitOptions {
        line_info: true,
        ..options
    };
    let other = loader.load(&Source::from(&ptx), &other).unwrap();
    assert_ne!(other.module.raw(), first.module.raw());
    let own = load(&loader.clone().with_sharing(false), PTX).unwrap();
    assert_eq!(own.report.cache, CacheUse::Hit);
    assert_ne!(own.module.raw(), first.module.raw());
    // A kernel keeps its module.
    let kernel = first.module.kernel("first").unwrap();
    drop((first, other, own));
    assert_eq!(loader.counters().modules, 1);
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Shared);
    drop(kernel);
    assert_eq!(loader.counters().modules, 0);
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Hit);
    assert_eq!(loader.counters().shared, 3);
}

#[test]
fn what_does_not_compile_is_not_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let wrong = PTX.replace("ret;", "rot;");
    let first = load(&loader, &wrong).unwrap_err().to_string();
    assert_eq!(load(&loader, &wrong).unwrap_err().to_string(), first);
    let counters = loader.counters();
    assert_eq!((counters.compiles, counters.failed), (1, 2));
    assert_eq!(counters.cache.failures, 1);
    load(&loader, PTX).unwrap();
}

#[test]
fn what_was_warmed_is_hit() {
    let folder = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..6)
        .map(|i| PTX.replace("first", &format!("first_{i}")))
        .collect();
    let wrong = PTX.replace("ret;", "rot;");
    let mut sources: Vec<Source<'_>> = texts
        .iter()
        .map(|text| Source::new("k.ptx", text.as_bytes()))
        .collect();
    sources.insert(3, Source::new("wrong.ptx", wrong.as_bytes()));
    let options = JitOptions::default();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let mut told = Vec::new();
    let warmed = loader.warm(&sources, &options, |now| {
        assert_eq!(now.of, 7);
        told.push((now.done, now.last.name.clone()));
    });
    assert_eq!(
        told.iter().map(|(done, _)| *done).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7]
    );
    assert_eq!(
        told.iter().filter(|(_, name)| name == "wrong.ptx").count(),
        1
    );
    for (at, one) in warmed.iter().enumerate() {
        match &one.result {
            Ok(Warm::Compiled(..)) => assert_ne!(at, 3),
            Err(error) => assert!(at == 3 && error.to_string().contains("line 4"), "{error}"),
            other => panic!("{at}: {other:?}"),
        }
    }
    let next = Loader::new(context(), Cache::new(policy(folder.path())));
    let again = next.warm(&sources[..1], &options, |_| ());
    assert!(matches!(again[0].result, Ok(Warm::Hit(_))), "{again:?}");
    for text in &texts {
        assert_eq!(load(&next, text).unwrap().report.cache, CacheUse::Hit);
    }
    assert_eq!(next.counters().compiles, 0);
}

#[test]
fn warming_says_what_it_could_not_keep() {
    let source = [Source::new("k.ptx", PTX.as_bytes())];
    let options = JitOptions::default();
    let off = Loader::new(context(), Cache::new(Policy::disabled()));
    let warmed = off.warm(&source, &options, |_| ());
    assert!(matches!(warmed[0].result, Ok(Warm::Off)), "{warmed:?}");
    assert_eq!(off.counters().compiles, 0);

    let folder = tempfile::tempdir().unwrap();
    let small = policy(folder.path()).with_max_size(16);
    let small = Loader::new(context(), Cache::new(small));
    let warmed = small.warm(&source, &options, |_| ());
    assert!(
        matches!(warmed[0].result, Ok(Warm::NotKept(_))),
        "{warmed:?}"
    );

    let missing = folder.path().join("missing.ptx");
    let warmed = small.warm_files(&[&missing], &options, |_| ());
    let error = warmed[0].result.as_ref().unwrap_err().to_string();
    assert!(error.contains("missing.ptx cannot be read"), "{error}");
    assert!(small.warm_files::<&Path>(&[], &options, |_| ()).is_empty());
}

/// What is compiled for another architecture is found where that is at home.
#[test]
fn a_target_that_is_the_devices_own_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let own = loader.context().device().target().unwrap();
    let options = JitOptions {
        target: own.parse().ok(),
        ..JitOptions::default()
    };
    let warmed = loader.warm(&[Source::new("k.ptx", PTX.as_bytes())], &options, |_| ());
    assert!(
        matches!(warmed[0].result, Ok(Warm::Compiled(..))),
        "{warmed:?}"
    );
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Hit);
}

/// The number of threads that compile changes no kernel, so it is not part of the key.
/// The CPU device's binaries are equal. Cubins of NVIDIA's driver have their sections in
/// another order: what the sections hold is compared.
#[test]
fn any_number_of_threads_compiles_the_same_kernels() {
    let kernel = include_str!("../benches/kernels/service.ptx");
    let kernels: String = (0..12)
        .map(|number| kernel.replace("NUMBER", &number.to_string()))
        .collect();
    let calls: String = (0..4)
        .map(|number| {
            format!(
                ".visible .entry calls_{number}(.param .u64 out) {{\n\
                 .reg .b32 %r<3>; .reg .b64 %out; .param .b32 a, b;\n\
                 ld.param.u64 %out, [out]; cvta.to.global.u64 %out, %out;\n\
                 mov.u32 %r1, %tid.x; st.param.b32 [a], %r1;\n\
                 call (b), shared, (a); ld.param.b32 %r2, [b];\n\
                 add.u32 %r2, %r2, {number}; st.global.u32 [%out], %r2; ret; }}\n"
            )
        })
        .collect();
    let ptx = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.global .b32 seed = 7;\n\
         .func (.param .b32 out) shared(.param .b32 in) {{\n\
         .reg .b32 %r<3>; ld.param.b32 %r1, [in]; ld.global.b32 %r2, [seed];\n\
         mad.lo.u32 %r1, %r1, %r1, %r2; st.param.b32 [out], %r1; ret; }}\n\
         {calls}{kernels}"
    );
    let code = |threads: u32| {
        // Without a cache: each compiles.
        let loader = Loader::new(context(), Cache::new(Policy::disabled()));
        let options = JitOptions {
            threads: Some(threads),
            ..JitOptions::default()
        };
        let source = Source::new("k.ptx", ptx.as_bytes());
        loader.code(&source, &options).unwrap()
    };
    let same = |one: &[u8], other: &[u8]| match (image::open(one), image::open(other)) {
        (Ok(Image::Cubin(_)), Ok(Image::Cubin(_))) => code_sections(one) == code_sections(other),
        _ => one == other,
    };
    let one = code(1);
    for threads in [0, 4] {
        assert!(same(&code(threads), &one), "{threads} threads");
    }
}

/// The sections of a cubin that hold code and constants, by name.
fn code_sections(cubin: &[u8]) -> BTreeMap<String, &[u8]> {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&cubin[at..at + bytes]);
        u64::from_le_bytes(number) as usize
    };
    let (table, stride) = (number(40, 8), number(58, 2));
    let header = |index: usize| table + index * stride;
    let data = |header: usize| &cubin[number(header + 24, 8)..][..number(header + 32, 8)];
    let names = data(header(number(62, 2)));
    let sections: BTreeMap<_, _> = (0..number(60, 2))
        .map(|index| {
            let name = &names[number(header(index), 4)..];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            let name = String::from_utf8(name[..end].to_vec()).unwrap();
            (name, header(index))
        })
        .filter(|(name, _)| name.starts_with(".text.") || name.starts_with(".nv.constant"))
        .map(|(name, header)| (name, data(header)))
        .collect();
    assert!(sections.keys().any(|name| name.starts_with(".text.")));
    sections
}

#[test]
fn the_number_of_threads_is_not_part_of_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let options = JitOptions {
        threads: Some(0),
        ..JitOptions::default()
    };
    let source = Source::new("k.ptx", PTX.as_bytes());
    let loaded = loader.load(&source, &options).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Miss);
    assert_eq!(loaded.module.kernel("second").unwrap().name(), "second");
    drop(loaded);
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Hit);
}

#[test]
fn counters_are_for_prometheus_too() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let _first = load(&loader, PTX).unwrap();
    let _second = load(&loader, PTX).unwrap();
    let counters = loader.counters();
    assert!(!counters.compile_time.is_zero());
    let text = counters.prometheus().to_string();
    for line in [
        "ptxkit_loads_total 2",
        "ptxkit_loads_shared_total 1",
        "ptxkit_modules 1",
        "ptxkit_cache_misses_total 1",
        "ptxkit_cache_puts_total 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn without_a_cache_everything_is_compiled() {
    let loader = Loader::new(context(), Cache::new(Policy::disabled()));
    for _ in 0..2 {
        let report = load(&loader, PTX).unwrap().report;
        assert_eq!(report.cache, CacheUse::Off);
        assert!(report.key.is_some());
    }
}

/// Comments in Latin-1 are PTX to ptxas, and the digest is of the bytes as given.
#[test]
fn comments_need_not_be_utf_8() {
    let folder = tempfile::tempdir().unwrap();
    let loader = || Loader::new(context(), Cache::new(policy(folder.path())));
    let bytes = [b"// d\xe9but\n", PTX.as_bytes()].concat();
    let source = Source::new("latin.ptx", &bytes);
    let first = loader().load(&source, &JitOptions::default()).unwrap();
    assert_eq!(first.report.cache, CacheUse::Miss);
    first.module.kernel("second").unwrap();
    let ptx = Ptx::from_bytes(bytes.as_slice(), "latin.ptx").unwrap();
    assert_eq!(ptx.digest(), Digest::of(&bytes));
    let options = JitOptions::default();
    // SAFETY: it is the digest of these bytes.
    let known = unsafe { source.with_digest(ptx.digest()) };
    for source in [source, Source::from(&ptx), known] {
        let again = loader().load(&source, &options).unwrap();
        assert_eq!(again.report.cache, CacheUse::Hit);
        assert_eq!(again.report.key, first.report.key);
    }
    // The driver of CUDA 13.0 wants ASCII in comments too; the loader's text is.
    let context = context();
    if context.device().driver().kind() == DriverKind::Cpu {
        let module = Module::load(&context, &[bytes.as_slice(), b"\0"].concat()).unwrap();
        module.kernel("first").unwrap();
    }
}

/// Its report is the same but for the compilation.
#[test]
fn ptx_that_was_compiled_before_is_found_by_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = Ptx::from_bytes(PTX, "k.ptx").unwrap();
    let load = |policy: Policy, sharing| {
        let loader = Loader::new(context(), Cache::new(policy)).with_sharing(sharing);
        let loaded = loader.load(&Source::from(&ptx), &JitOptions::default());
        (loader.counters(), loaded)
    };
    let (_, first) = load(policy(folder.path()), true);
    let first = first.unwrap();
    for sharing in [true, false] {
        let (counters, again) = load(policy(folder.path()), sharing);
        let again = again.unwrap();
        assert_eq!(again.report.cache, CacheUse::Hit);
        assert_eq!(again.report.image, first.report.image);
        assert_eq!(again.report.key, first.report.key);
        again.module.kernel("first").unwrap();
        assert_eq!((counters.loads, counters.cache.hits), (1, 1));
        assert_eq!(
            (counters.modules, counters.cache.misses),
            (u64::from(sharing), 0)
        );
    }
    let never = JitPolicy {
        disable_ptx: true,
        ..JitPolicy::default()
    };
    let (_, refused) = load(policy(folder.path()).with_jit(never), true);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("CUDA_DISABLE_PTX_JIT"), "{error}");
}

#[test]
fn a_blob_of_known_ptx_that_does_not_load_is_compiled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = Ptx::from_bytes(PTX, "k.ptx").unwrap();
    let cache = Cache::new(policy(folder.path()));
    let loader = Loader::new(context(), cache.clone());
    let load = || loader.load(&Source::from(&ptx), &JitOptions::default());
    let first = load().unwrap().report;
    cache.clear().unwrap();
    let ptxkit::cache::Lookup::Miss(lock) = cache.lookup(&first.key.unwrap()) else {
        panic!("the cache was emptied")
    };
    let provenance = ptxkit::cache::Provenance {
        image: first.image.clone(),
        ..Default::default()
    };
    // SAFETY: every driver refuses it.
    unsafe { lock.put(&provenance, b"\x7fELF and nothing else") };
    let again = load().unwrap().report;
    assert_eq!(again.cache, CacheUse::Miss);
    assert_eq!(again.image, first.image);
    assert_eq!(cache.counters().bad, 1);
}

#[test]
fn what_the_policy_forbids_is_not_compiled() {
    let never = JitPolicy {
        disable_ptx: true,
        ..JitPolicy::default()
    };
    let loader = Loader::new(context(), Cache::new(Policy::disabled().with_jit(never)));
    let error = load(&loader, PTX).unwrap_err().to_string();
    assert!(error.contains("CUDA_DISABLE_PTX_JIT"), "{error}");
}

#[test]
fn wrong_ptx_is_an_error_and_nothing_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    let error = load(&loader, &PTX.replace("ret;", "rot;")).unwrap_err();
    assert!(error.to_string().contains("line 4"), "{error}");
    assert!(loader.cache().entries().unwrap().is_empty());
    let error = load(&loader, "no ptx").unwrap_err();
    assert!(
        error.to_string().starts_with("k.ptx cannot be loaded"),
        "{error}"
    );
}

/// Drivers before 13.5 read no PTX of version 9.5, by that number alone.
#[test]
fn ptx_of_a_newer_version_is_lowered_where_it_uses_nothing_newer() {
    let context = context();
    let version = context.device().driver().version();
    let old = context.device().driver().kind() == DriverKind::Nvidia && version < 13050;
    let newer = PTX.replace(".version 8.0", ".version 9.5");
    assert_eq!(Module::load(&context, newer.as_bytes()).is_err(), old);

    let loader = Loader::new(context, Cache::new(Policy::disabled()));
    // nvptxcompiler, where it has been built, reads it as it is.
    let options = JitOptions {
        compiler: Some(PtxCompiler::Driver),
        ..JitOptions::default()
    };
    let load = |text: &str| loader.load(&Source::new("k.ptx", text.as_bytes()), &options);
    let loaded = load(&newer).unwrap();
    loaded.module.kernel("second").unwrap();
    let lowered = loaded.report.image.contains("lowered from 9.5");
    assert_eq!(lowered, old, "{}", loaded.report.image);

    let uses = newer.replace("sm_50", "sm_90").replacen(
        "{ ret; }",
        "{\n.shared .b64 m;\n.reg .pred p;\n\
         mbarrier.check_layout.layout::v0.shared.b64 p, [m];\nret;\n}",
        1,
    );
    let error = load(&uses);
    if old && version < 13030 {
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("line 7") && error.contains("mbarrier.check_layout"),
            "{error}"
        );
    }
}

/// A kernel's fault loses the device for its process.
#[test]
fn a_lost_context_costs_the_cache_nothing() {
    parts::Parts::of("a_lost_context_costs_the_cache_nothing").run(lose_the_context);
}

fn lose_the_context() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    // A module that is shared would need no load.
    let loader =
        Loader::new(context.clone(), Cache::new(policy(folder.path()))).with_sharing(false);
    let trap = PTX.replace("ret;", "trap;");
    let kernel = load(&loader, &trap)
        .unwrap()
        .module
        .kernel("first")
        .unwrap();
    let stream = Stream::new(&context).unwrap();
    unsafe { kernel.launch(LaunchConfig::default(), &stream, ()) }.unwrap();
    assert!(stream.synchronize().unwrap_err().is_sticky());
    load(&loader, &trap).unwrap_err();
    assert_eq!(loader.cache().counters().bad, 0);
}

/// Whoever loads a binary vouches for it.
#[test]
fn a_binary_is_loaded_from_a_trusted_source_alone() {
    let loader = Loader::new(context(), Cache::new(Policy::disabled()));
    let options = JitOptions::default();
    let binary = ptxkit::jit::compile(loader.context(), PTX, &options)
        .unwrap()
        .binary;
    let error = loader
        .load(&Source::new("a.bin", &binary), &options)
        .unwrap_err();
    assert!(matches!(error, LoadError::Binary { .. }), "{error}");
    // SAFETY: the compiler made it a moment ago.
    let source = unsafe { Source::image("a.bin", &binary) };
    let loaded = loader.load(&source, &options).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Off);
}

/// On a GPU, with the library of `ptxkit nvptxcompiler build`.
#[test]
fn code_of_nvptxcompiler_has_keys_of_its_own() {
    let context = context();
    let is_gpu = context.device().driver().kind() == DriverKind::Nvidia;
    let Some(library) = NvPtxCompiler::open().ok().filter(|_| is_gpu) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context, Cache::new(policy(folder.path())));
    let with = |compiler| JitOptions {
        compiler,
        ..JitOptions::default()
    };
    let load = |text: &str, compiler| {
        let source = Source::new("k.ptx", text.as_bytes());
        let loaded = loader.load(&source, &with(compiler)).unwrap();
        loaded.module.kernel("second").unwrap();
        loaded.report
    };
    let own = load(PTX, None);
    let report = load(PTX, Some(PtxCompiler::NvPtxCompiler));
    assert_eq!(report.cache, CacheUse::Miss);
    assert_ne!(report.key, own.key);
    let again = load(PTX, Some(PtxCompiler::NvPtxCompiler));
    assert_eq!((again.cache, again.key), (CacheUse::Hit, report.key));
    let entries = loader.cache().entries().unwrap();
    let compilers: Vec<_> = entries
        .iter()
        .map(|entry| &entry.provenance.compiler)
        .collect();
    assert!(
        compilers.iter().any(|name| *name == library.identity()),
        "{compilers:?}"
    );
    // PTX that the driver does not read is compiled by the library without being asked for it.
    let newest = library.newest_ptx().unwrap();
    let newer = PTX.replacen(".version 8.0", &format!(".version {newest}"), 1);
    let newer = newer.replacen("sm_50", "sm_75", 1);
    let report = load(&newer, None);
    assert!(
        report.image.contains("compiled by nvptxcompiler"),
        "{}",
        report.image
    );
}

#[test]
fn compilations_can_be_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let loader = |on_compile| {
        let policy = policy(folder.path()).with_on_compile(on_compile);
        Loader::new(context(), Cache::new(policy))
    };
    let error = load(&loader(OnCompile::Error), PTX).unwrap_err();
    assert!(matches!(error, LoadError::CompileForbidden { .. }));
    assert!(error.to_string().contains("`ptxkit cache warm`"), "{error}");
    load(&loader(OnCompile::Warn), PTX).unwrap();
    let report = load(&loader(OnCompile::Error), PTX).unwrap().report;
    assert_eq!(report.cache, CacheUse::Hit);
}
