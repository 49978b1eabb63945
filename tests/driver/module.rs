use ptxkit::driver::{
    CacheConfig, Context, CudaError, DeviceBuffer, Error, Kernel, KernelAttribute, LaunchConfig,
    Library, Loading, Module, PinnedBuffer, SharedBanks, Stream, Symbol,
};

use crate::kernels::{REVERSE, SCALE, VECADD};
use crate::support::{alone, context, device, is_gpu, isolated, kernel};

#[test]
fn an_unknown_kernel_is_told_with_those_there_are() {
    let context = context();
    let module = Module::load(&context, VECADD.as_bytes()).unwrap();
    assert_eq!(module.kernel_names(), ["vecadd"]);
    let error = module.kernel("vecsub").unwrap_err();
    assert!(
        matches!(&error, Error::UnknownKernel { name, known } if name == "vecsub" && known == &["vecadd"])
    );
    assert!(error.to_string().contains("it has `vecadd`"), "{error}");
    assert!(module.kernel("vec\0add").is_err());
    assert!(module.kernel("").is_err());
}

#[test]
fn variables_are_set_from_the_host() {
    let (context, stream, scale) = kernel(SCALE, "scale");
    let out = DeviceBuffer::<f32>::zeroed(&context, 4).unwrap();
    let run = || {
        unsafe { scale.launch(LaunchConfig::new([1; 3], [4, 1, 1]), &stream, (&out,)) }.unwrap();
        stream.synchronize().unwrap();
        out.to_vec().unwrap()
    };
    assert_eq!(run(), [10.0, 20.0, 30.0, 40.0]);

    let module = scale.module();
    let factors = module.global("factors").unwrap();
    let step = module.global("step").unwrap();
    assert_eq!((factors.bytes(), step.bytes()), (16, 4));
    factors.write(&[1.0_f32, 0.5, 0.25, 0.125]).unwrap();
    step.write(&[8.0_f32]).unwrap();
    assert_eq!(run(), [8.0, 4.0, 2.0, 1.0]);
    assert_eq!(factors.read::<f32>(3).unwrap(), [1.0, 0.5, 0.25]);

    assert!(matches!(
        step.write(&[0.0_f32; 2]),
        Err(Error::Length {
            given: 8,
            capacity: 4,
            ..
        })
    ));
    assert!(step.read::<u8>(5).is_err());
    assert!(matches!(
        module.global("stop"),
        Err(Error::UnknownGlobal { .. })
    ));
}

#[test]
fn two_loads_of_one_image_have_variables_of_their_own() {
    let context = context();
    let first = Module::load(&context, SCALE.as_bytes())
        .unwrap()
        .global("step")
        .unwrap();
    let second = Module::load(&context, SCALE.as_bytes())
        .unwrap()
        .global("step")
        .unwrap();
    first.write(&[1.0_f32]).unwrap();
    assert_eq!(second.read::<f32>(1).unwrap(), [10.0]);
}

#[test]
fn wrong_ptx_is_told_with_its_line() {
    let context = context();
    let wrong = VECADD.replace("add.f32 %f1, %f1, %f2;", "add.f32 %f1, %f1, %f9;");
    let line = wrong.lines().position(|line| line.contains("%f9")).unwrap() as u32 + 1;
    let error = Module::load(&context, wrong.as_bytes()).unwrap_err();
    let Error::Jit(jit) = &error else {
        panic!("{error}")
    };
    assert!(
        jit.diagnostics.iter().any(|one| one.line == Some(line)),
        "line {line}: {jit:?}"
    );
    assert!(error.to_string().contains("f9"), "{error}");
}

#[test]
fn no_bytes_crash_the_load() {
    let context = context();
    let cases: [&[u8]; 9] = [
        b"",
        b"\0",
        b"hello",
        b"hello\0world",
        b"\x7fELF",
        b"\x7fELF\x02\x01\x01",
        &[0x50, 0xed, 0x55, 0xba],
        b"PTXKCPU1",
        &[0xff; 100],
    ];
    for image in cases {
        // SAFETY: it is refused.
        let error = unsafe { Module::load_image(&context, image) }.unwrap_err();
        assert!(!error.to_string().is_empty());
    }
    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // SAFETY: it is refused.
    assert!(unsafe { Module::load_image(&context, &elf) }.is_err());
    // The context still works.
    Module::load(&context, VECADD.as_bytes()).unwrap();
}

#[test]
fn kernels_describe_themselves() {
    let (_, _, vecadd) = kernel(VECADD, "vecadd");
    assert_eq!(vecadd.name(), "vecadd");
    assert!(vecadd.max_threads() >= 256);
    assert!(vecadd.max_active_blocks(128, 0).unwrap() >= 1);
    assert_eq!(
        vecadd
            .attribute(KernelAttribute::SHARED_SIZE_BYTES)
            .unwrap(),
        0
    );
    if let Some(layout) = vecadd.layout() {
        let places: Vec<_> = layout.params.iter().map(|p| (p.offset, p.size)).collect();
        assert_eq!(places, [(0, 8), (8, 8), (16, 8), (24, 4)]);
    }
    let bounded = VECADD.replacen('{', ".maxntid 128, 1, 1\n{", 1);
    let (_, _, bounded) = kernel(&bounded, "vecadd");
    assert_eq!(bounded.max_threads(), 128);
}

#[test]
fn the_limit_of_dynamic_shared_memory_is_an_attribute() {
    let (_, _, reverse) = kernel(REVERSE, "reverse");
    let dynamic = KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    reverse.set_attribute(dynamic, 1024).unwrap();
    assert_eq!(reverse.attribute(dynamic).unwrap(), 1024);
}

#[test]
fn a_module_is_used_from_several_threads() {
    let context = context();
    let module = Module::load(&context, SCALE.as_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let scale = module.kernel("scale").unwrap();
                let stream = Stream::new(module.context()).unwrap();
                let out = DeviceBuffer::<f32>::zeroed(module.context(), 4).unwrap();
                unsafe { scale.launch(LaunchConfig::new([1; 3], [4, 1, 1]), &stream, (&out,)) }
                    .unwrap();
                stream.synchronize().unwrap();
                assert_eq!(out.to_vec().unwrap(), [10.0, 20.0, 30.0, 40.0]);
            });
        }
    });
}

#[test]
fn a_file_is_loaded() {
    let context = context();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vecadd.ptx");
    let error = Module::load_file(&context, &path).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert!(error.to_string().contains("vecadd.ptx"), "{error}");
    std::fs::write(&path, VECADD).unwrap();
    let module = Module::load_file(&context, &path).unwrap();
    assert_eq!(module.kernel_names(), ["vecadd"]);
    if !is_gpu() {
        assert_eq!(Module::loading(&context).unwrap(), Loading::Lazy);
    }
}

#[test]
fn a_variable_has_the_type_of_its_size() {
    let module = Module::load(&context(), SCALE.as_bytes()).unwrap();
    let step = module.global("step").unwrap();
    assert_eq!(step.get::<f32>().unwrap(), 10.0);
    step.set(2.5_f32).unwrap();
    assert_eq!(step.get::<f32>().unwrap(), 2.5);
    for error in [step.set(1_u64).unwrap_err(), step.get::<u8>().unwrap_err()] {
        assert!(
            matches!(error, Error::Length { capacity: 4, .. }),
            "{error}"
        );
    }
    let factors = module.global("factors").unwrap();
    assert_eq!(factors.get::<[f32; 4]>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_library_serves_every_context() {
    alone();
    let contexts = [context(), Context::create(&device(), 0).unwrap()];
    let library = Library::load(&contexts[0], VECADD.as_bytes()).unwrap();
    assert_eq!(library.kernel_names().unwrap(), ["vecadd"]);
    let kernels = contexts
        .each_ref()
        .map(|context| library.kernel(context, "vecadd").unwrap());
    let threads = library.attribute("vecadd", KernelAttribute::MAX_THREADS_PER_BLOCK, &device());
    assert_eq!(threads.unwrap(), kernels[0].max_threads());
    let error = library
        .attribute("vecsub", KernelAttribute::NUM_REGS, &device())
        .unwrap_err();
    assert!(matches!(error, Error::UnknownKernel { .. }), "{error}");
    assert!(library.kernel(&contexts[0], "vecsub").is_err());
    // The kernels keep the library.
    drop(library);
    for (context, vecadd) in contexts.iter().zip(&kernels) {
        let stream = Stream::new(context).unwrap();
        let a = DeviceBuffer::from_slice(context, &[1.0_f32, 2.0]).unwrap();
        let sum = DeviceBuffer::<f32>::zeroed(context, 2).unwrap();
        let config = LaunchConfig::for_elements(2, 32);
        unsafe { vecadd.launch(config, &stream, (&a, &a, &sum, 2_u32)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(sum.to_vec().unwrap(), [2.0, 4.0]);
    }
    // A driver that loads lazily compiles what is asked for first.
    Library::load(&contexts[0], b".version 8.0\n.target sm_80\nwrong")
        .and_then(|library| library.kernel(&contexts[0], "vecadd"))
        .unwrap_err();
    // SAFETY: it is refused.
    assert!(unsafe { Library::load_image(&contexts[0], b"\x7fELF") }.is_err());
}

/// Somebody destroys the context under a module: errors, and nothing worse.
#[test]
fn a_context_destroyed_under_a_module() {
    alone();
    let owner = Context::create(&device(), 0).unwrap();
    let raw = owner.raw();
    std::mem::forget(owner);
    // SAFETY: everything made of it below is used for errors only, once it is destroyed.
    let context = unsafe { Context::from_raw(&device(), raw) }.unwrap();
    if is_gpu() {
        return; // NVIDIA's driver does not promise to survive stale handles
    }
    let module = Module::load(&context, VECADD.as_bytes()).unwrap();
    let vecadd = module.kernel("vecadd").unwrap();
    let stream = Stream::new(&context).unwrap();
    // SAFETY: a live context; destroyed once.
    unsafe { context.api().cuCtxDestroy_v2(raw) }.unwrap();
    let error = unsafe {
        vecadd.launch(
            LaunchConfig::default(),
            &stream,
            (0_u64, 0_u64, 0_u64, 0_u32),
        )
    }
    .unwrap_err();
    assert_eq!(error.code(), Some(CudaError::INVALID_CONTEXT), "{error}");
    assert!(module.kernel("vecadd").is_err());
    assert!(module.global("x").is_err());
    // Dropping all of it reports to the trace alone.
}

/// The library is told of as a whole, and its variables are each context's own.
#[test]
fn a_library_tells_of_kernels_and_variables() {
    alone();
    let contexts = [context(), Context::create(&device(), 0).unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scale.ptx");
    let error = Library::load_file(&contexts[0], &path).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    std::fs::write(&path, SCALE).unwrap();
    let library = Library::load_file(&contexts[0], &path).unwrap();

    let [first, second] = contexts
        .each_ref()
        .map(|context| library.global(context, "step").unwrap());
    assert_eq!((first.bytes(), first.get::<f32>().unwrap()), (4, 10.0));
    first.set(1.0_f32).unwrap();
    assert_eq!(second.get::<f32>().unwrap(), 10.0);
    let same = library
        .module(&contexts[0])
        .unwrap()
        .global("step")
        .unwrap();
    assert_eq!(same.address(), first.address());
    for error in [
        library.global(&contexts[0], "stop").unwrap_err(),
        library.managed(&contexts[0], "step").unwrap_err(),
        library.managed(&contexts[0], "stop").unwrap_err(),
    ] {
        assert!(matches!(error, Error::UnknownGlobal { .. }), "{error}");
    }

    let (context, stream) = (&contexts[0], Stream::new(&contexts[0]).unwrap());
    let scale = library.kernel(context, "scale").unwrap();
    let out = DeviceBuffer::<f32>::zeroed(context, 4).unwrap();
    unsafe { scale.launch(LaunchConfig::new([1; 3], [4, 1, 1]), &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0]);

    let library = Library::load(context, VECADD.as_bytes()).unwrap();
    match library.layout("vecadd") {
        Ok(layout) => {
            let places: Vec<_> = layout.params.iter().map(|p| (p.offset, p.size)).collect();
            assert_eq!(places, [(0, 8), (8, 8), (16, 8), (24, 4)]);
        }
        Err(error) => assert!(matches!(error, Error::EntryMissing { .. }), "{error}"),
    }
    library
        .set_cache_config("vecadd", CacheConfig::PreferL1, &device())
        .unwrap();
    let error = library
        .set_cache_config("vecsub", CacheConfig::PreferL1, &device())
        .unwrap_err();
    assert!(matches!(error, Error::UnknownKernel { .. }), "{error}");
}

#[test]
fn a_managed_variable_is_the_hosts_too() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
               .visible .global .attribute(.managed) .align 4 .u32 shared = 5;\n\
               .visible .entry bump() { .reg .b32 %r; ld.global.u32 %r, [shared];\n\
               add.u32 %r, %r, 1; st.global.u32 [shared], %r; ret; }";
    let context = context();
    let library = Library::load(&context, ptx.as_bytes()).unwrap();
    let shared = library.managed(&context, "shared").unwrap();
    assert_eq!((shared.bytes(), shared.get::<u32>().unwrap()), (4, 5));
    let stream = Stream::new(&context).unwrap();
    let bump = library.kernel(&context, "bump").unwrap();
    unsafe { bump.launch(LaunchConfig::default(), &stream, ()) }.unwrap();
    stream.synchronize().unwrap();
    // SAFETY: managed memory is the host's at the same address, and no kernel runs.
    let seen =
        unsafe { std::ptr::with_exposed_provenance::<u32>(shared.address() as usize).read() };
    assert_eq!(seen, 6);
    assert_eq!(shared.get::<u32>().unwrap(), 6);
}

/// PTX names a variable that is a buffer of ours.
#[test]
fn a_symbol_is_given_an_address() {
    isolated("module::a_symbol_is_given_an_address", &[], give_an_address);
}

/// A kernel that adds 1 to the third of four `numbers`, which nobody defines.
const BUMP: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n\
    .extern .global .align 4 .b8 numbers[16];\n\
    .visible .entry bump() { .reg .b32 %r; ld.global.u32 %r, [numbers+8];\n\
    add.u32 %r, %r, 1; st.global.u32 [numbers+8], %r; ret; }";

/// The same, as the device takes it: compiled by `ptxas -c` for a GPU.
pub fn bump() -> Option<&'static [u8]> {
    if !is_gpu() {
        return Some(BUMP);
    }
    match device().compute_capability().unwrap() {
        (8, _) => Some(include_bytes!("relocatable/sm_80.cubin")),
        (9, 0) => Some(include_bytes!("relocatable/sm_90.cubin")),
        (major, minor) => {
            eprintln!("symbols are left out: nothing is compiled for {major}.{minor}");
            None
        }
    }
}

fn give_an_address() {
    let context = context();
    if is_gpu() {
        let buffer = PinnedBuffer::from_slice(&context, &[0_u32; 4]).unwrap();
        let error =
            unsafe { Module::load_resolving(&context, BUMP, &[Symbol::new("numbers", &buffer)]) };
        assert!(matches!(error, Err(Error::SymbolsInPtx)), "{error:?}");
    }
    let Some(image) = bump() else { return };
    let module = {
        let numbers = PinnedBuffer::from_slice(&context, &[1_u32, 2, 3, 4]).unwrap();
        let other = PinnedBuffer::from_slice(&context, &[9_u32]).unwrap();
        let symbols = [
            Symbol::new("other", &other),
            Symbol::new("numbers", &numbers),
        ];
        let module = unsafe { Module::load_resolving(&context, image, &symbols[1..]) }.unwrap();
        let stream = Stream::new(&context).unwrap();
        let bump = module.kernel("bump").unwrap();
        unsafe { bump.launch(LaunchConfig::default(), &stream, ()) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(numbers.to_vec().unwrap(), [1, 2, 4, 4]);
        // The module keeps the memory.
        module
    };
    let stream = Stream::new(&context).unwrap();
    let bump = module.kernel("bump").unwrap();
    unsafe { bump.launch(LaunchConfig::default(), &stream, ()) }.unwrap();
    stream.synchronize().unwrap();

    // The module loads without an address. A kernel that uses the variable faults on a GPU, and
    // reads zeros on the CPU device.
    unsafe { Module::load_resolving(&context, image, &[]) }.unwrap();
    unsafe { Module::load_image(&context, image) }.unwrap();
    let foreign = Context::create(&device(), 0).unwrap();
    let buffer = DeviceBuffer::<u32>::zeroed(&foreign, 4).unwrap();
    let symbols = [Symbol::device("numbers", &buffer)];
    let error = unsafe { Module::load_resolving(&context, image, &symbols) };
    assert!(matches!(error, Err(Error::DifferentContexts { .. })));

    // Memory of the device.
    let numbers = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3, 4]).unwrap();
    let symbols = [Symbol::device("numbers", &numbers)];
    let module = unsafe { Module::load_resolving(&context, image, &symbols) }.unwrap();
    let bump = module.kernel("bump").unwrap();
    unsafe { bump.launch(LaunchConfig::default(), &stream, ()) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(numbers.to_vec().unwrap(), [1, 2, 4, 4]);
}

/// As another library hands one over.
#[test]
fn a_kernel_of_another_library() {
    let context = context();
    let owner = Module::load(&context, VECADD.as_bytes()).unwrap();
    let theirs = owner.kernel("vecadd").unwrap();
    let handle = theirs.raw();
    // SAFETY: the owner keeps the module loaded.
    let Ok(same) = (unsafe { Kernel::from_shared(&context, handle, std::sync::Arc::new(owner)) })
    else {
        return; // a driver before CUDA 12.3
    };
    drop(theirs);
    assert_eq!(same.name(), "vecadd");
    assert_eq!(same.module().kernel("vecadd").unwrap().raw(), handle);
    same.set_shared_banks(SharedBanks::FourBytes).unwrap();
    let stream = Stream::new(&context).unwrap();
    let a = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0]).unwrap();
    let sum = DeviceBuffer::<f32>::zeroed(&context, 2).unwrap();
    unsafe {
        same.launch(
            LaunchConfig::for_elements(2, 32),
            &stream,
            (&a, &a, &sum, 2_u32),
        )
    }
    .unwrap();
    assert_eq!(sum.to_vec().unwrap(), [2.0, 4.0]);
}

/// Somebody resets the primary context under a module: errors, on both drivers.
#[test]
fn the_primary_context_reset_under_a_module() {
    isolated(
        "module::the_primary_context_reset_under_a_module",
        &[],
        || {
            let (context, stream, vecadd) = kernel(VECADD, "vecadd");
            let attached = context.attach().ok().filter(|_| !is_gpu());
            // SAFETY: all that lives in the context is used for errors only.
            unsafe { device().reset_primary() }.unwrap();
            assert!(matches!(context.enter(), Err(Error::ContextReset)));
            if let Some(attached) = attached {
                let error = attached.synchronize().unwrap_err();
                assert!(matches!(error, Error::ContextReset), "{error}");
            }
            let gone = [
                CudaError::INVALID_CONTEXT,
                CudaError::CONTEXT_IS_DESTROYED,
                CudaError::INVALID_HANDLE,
            ];
            let error = unsafe {
                vecadd.launch(
                    LaunchConfig::default(),
                    &stream,
                    (0_u64, 0_u64, 0_u64, 0_u32),
                )
            }
            .unwrap_err();
            assert!(
                error.code().is_some_and(|code| gone.contains(&code)),
                "{error}"
            );
            assert!(matches!(error, Error::ContextReset), "{error}");
            assert!(!error.is_asynchronous() && !error.is_sticky(), "{error}");
            context.synchronize().unwrap_err();
            vecadd.module().kernel("vecadd").unwrap_err();
            drop((context, stream, vecadd));
            // A new one works, also after those are gone.
            let (context, stream, vecadd) = kernel(VECADD, "vecadd");
            let a = DeviceBuffer::from_slice(&context, &[1.0_f32]).unwrap();
            let sum = DeviceBuffer::<f32>::zeroed(&context, 1).unwrap();
            unsafe { vecadd.launch(LaunchConfig::default(), &stream, (&a, &a, &sum, 1_u32)) }
                .unwrap();
            assert_eq!(sum.to_vec().unwrap(), [2.0]);
        },
    );
}

/// Before PTX 3.0, a module declares local variables. All functions of a thread see the same.
#[test]
fn local_variables_of_a_module() {
    let ptx = ".version 2.3\n.target sm_20\n.address_size 64\n\
        .local .align 4 .u32 kept[4];\n\
        .func keep(.reg .u32 value) { st.local.u32 [kept+4], value; ret; }\n\
        .entry k(.param .u64 out)\n{\n\
            .reg .u32 %r<4>; .reg .u64 %rd<4>;\n\
            ld.param.u64 %rd1, [out];\n\
            mov.u32 %r1, %tid.x;\n\
            add.u32 %r2, %r1, 7;\n\
            call keep, (%r2);\n\
            ld.local.u32 %r3, [kept+4];\n\
            mad.wide.u32 %rd1, %r1, 4, %rd1;\n\
            st.global.u32 [%rd1], %r3;\n\
            exit;\n}\n";
    let (context, stream, kernel) = kernel(ptx, "k");
    let out = DeviceBuffer::<u32>::zeroed(&context, 4).unwrap();
    let config = LaunchConfig::new([1; 3], [4, 1, 1]);
    // SAFETY: four threads write a value each.
    unsafe { kernel.launch(config, &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [7, 8, 9, 10]);
}

#[test]
fn a_variable_of_a_function_hides_that_of_the_module() {
    let ptx = ".version 7.0\n.target sm_70\n.address_size 64\n\
        .visible .global .u32 value = 1;\n\
        .visible .entry k(.param .u64 out)\n{\n\
            .global .u32 value = 2;\n\
            .reg .u32 %r; .reg .u64 %rd;\n\
            ld.param.u64 %rd, [out];\n\
            ld.global.u32 %r, [value];\n\
            st.global.u32 [%rd], %r;\n\
            ret;\n}\n";
    let (context, stream, kernel) = kernel(ptx, "k");
    let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    // SAFETY: it writes one value.
    unsafe { kernel.launch(LaunchConfig::default(), &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [2]);
    let outer = kernel.module().global("value").unwrap();
    assert_eq!(outer.read::<u32>(1).unwrap(), [1]);
}
