//! The loader on a device: cache, images, what is refused.
#![cfg(all(feature = "driver", feature = "cache", feature = "cpu"))]

use std::path::Path;

use ptxkit::cache::{Cache, Digest, Environment, Policy};
use ptxkit::driver::{Context, DriverKind, LaunchConfig, Selection, Stream, select};
use ptxkit::image::JitPolicy;
use ptxkit::jit::JitOptions;
use ptxkit::loader::{CacheUse, LoadError, Loaded, Loader, Source};
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
    let source = Source::from(&ptx).with_digest(Digest::of(PTX.as_bytes()));
    let loaded = loader.load(&source, &plain).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Hit);
    assert_eq!(loaded.report.key, first);
}

#[test]
fn a_blob_that_does_not_load_is_compiled_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(policy(folder.path()));
    let loader = Loader::new(context(), cache.clone());
    let key = load(&loader, PTX).unwrap().report.key.unwrap();
    // A whole blob, but of something that no driver takes.
    cache.clear().unwrap();
    let ptxkit::cache::Lookup::Miss(turn) = cache.lookup(&key) else {
        panic!("the cache was emptied")
    };
    turn.put(&Default::default(), b"\x7fELF and nothing else");
    let loaded = load(&loader, PTX).unwrap();
    assert_eq!(loaded.report.cache, CacheUse::Miss);
    assert_eq!(cache.counters().bad, 1);
    assert_eq!(load(&loader, PTX).unwrap().report.cache, CacheUse::Hit);
}

#[test]
fn threads_that_load_one_ptx_compile_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context(), Cache::new(policy(folder.path())));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| load(&loader, PTX).unwrap().module.kernel("first").unwrap());
        }
    });
    let counters = loader.cache().counters();
    assert_eq!((counters.misses, counters.hits), (1, 7));
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

/// A kernel's fault loses the context of its process.
#[test]
fn a_lost_context_costs_the_cache_nothing() {
    let context = context();
    if context.device().driver().kind() == DriverKind::Nvidia {
        return; // the other tests of this process need the context
    }
    let folder = tempfile::tempdir().unwrap();
    let context = Context::create(context.device(), 0).unwrap();
    let loader = Loader::new(context.clone(), Cache::new(policy(folder.path())));
    let trap = PTX.replace("ret;", "trap;");
    let kernel = load(&loader, &trap)
        .unwrap()
        .module
        .kernel("first")
        .unwrap();
    let stream = Stream::new(&context).unwrap();
    kernel.launch(LaunchConfig::default(), &stream, ()).unwrap();
    assert!(stream.synchronize().unwrap_err().is_sticky());
    load(&loader, &trap).unwrap_err();
    assert_eq!(loader.cache().counters().bad, 0);
}
