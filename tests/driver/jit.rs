use std::path::PathBuf;

use ptxkit::driver::nvjitlink::{NvJitLink, NvJitLinkError};
use ptxkit::driver::nvptxcompiler::NvPtxCompiler;
use ptxkit::driver::{Context, DeviceBuffer, Error, LaunchConfig, Module, Stream};
use ptxkit::jit::{self, JitOptions, LinkInput, LogSeverity, PtxCompiler};

use crate::kernels::{PLACE, SLOW, VECADD};
use crate::support::{context, device, is_gpu};

fn runs(context: &Context, binary: &[u8]) {
    // SAFETY: what the compiler made.
    let module = unsafe { Module::load_image(context, binary) }.unwrap();
    let place = module.kernel("place").unwrap();
    let stream = Stream::new(context).unwrap();
    let out = DeviceBuffer::<u32>::zeroed(context, 8).unwrap();
    unsafe { place.launch(LaunchConfig::new([2, 1, 1], [4, 1, 1]), &stream, (&out,)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_is_compiled_loads_and_runs() {
    let context = context();
    let compiled = jit::compile(&context, PLACE, &JitOptions::default()).unwrap();
    if is_gpu() {
        assert!(compiled.binary.starts_with(b"\x7fELF"))
    } else {
        assert!(compiled.binary.starts_with(b"PTXKCPU1"))
    }
    runs(&context, &compiled.binary);
    // A binary cut short is refused before the driver reads past its end.
    for len in [8, 40, compiled.binary.len() / 2] {
        // SAFETY: it is refused.
        let cut = unsafe { Module::load_image(&context, &compiled.binary[..len]) };
        assert!(cut.is_err(), "{len} bytes");
    }
}

#[test]
fn equal_input_gives_equal_code() {
    let context = context();
    let one = jit::compile(&context, VECADD, &JitOptions::default()).unwrap();
    let two = jit::compile(&context, &format!("{VECADD}\0"), &JitOptions::default()).unwrap();
    assert_eq!(one.binary, two.binary);
    let other = jit::compile(&context, PLACE, &JitOptions::default()).unwrap();
    assert_ne!(one.binary, other.binary);
}

#[test]
fn every_option_is_taken() {
    let context = context();
    let plain = JitOptions::default();
    for options in [
        JitOptions {
            optimization: Some(0),
            ..plain
        },
        JitOptions {
            max_registers: Some(32),
            ..plain
        },
        JitOptions {
            line_info: true,
            ..plain
        },
        JitOptions {
            verbose: true,
            ..plain
        },
        JitOptions {
            cache_mode: Some(jit::CacheMode::L2Only),
            ..plain
        },
        JitOptions {
            threads_per_block: Some(256),
            ..plain
        },
    ] {
        let compiled = jit::compile(&context, PLACE, &options)
            .unwrap_or_else(|error| panic!("{options:?}: {error}"));
        runs(&context, &compiled.binary);
        if options.verbose && is_gpu() {
            assert!(
                compiled.info_log.contains("registers"),
                "{}",
                compiled.info_log
            );
        }
    }
    let compiled = jit::compile(&context, SLOW, &plain).unwrap();
    assert!(
        compiled
            .wall_time_ms
            .is_none_or(|time| time > 0.0 && time < 60_000.0)
    );
}

#[test]
fn errors_come_with_the_log_and_its_lines() {
    let context = context();
    let wrong = VECADD
        .replace("ld.global.f32 %f1,", "ld.global.f32 %missing,")
        .replace("setp.ge.u32", "setp.oops.u32");
    let error = jit::compile(&context, &wrong, &JitOptions::default()).unwrap_err();
    let Error::Jit(jit) = &error else {
        panic!("{error}")
    };
    assert!(!jit.log.is_empty());
    let errors: Vec<_> = jit
        .diagnostics
        .iter()
        .filter(|line| line.severity == LogSeverity::Error)
        .collect();
    let places = ["%missing", "oops"]
        .map(|word| wrong.lines().position(|line| line.contains(word)).unwrap() as u32 + 1);
    assert!(
        errors
            .iter()
            .any(|error| error.line.is_some_and(|line| places.contains(&line))),
        "{places:?}: {jit:?}"
    );
    assert!(error.code().is_some());
    assert!(!error.is_sticky());

    for text in [
        "",
        "no PTX at all",
        ".version 8.0\n.target sm_80\n.entry k() { ret; ",
    ] {
        let error = jit::compile(&context, text, &JitOptions::default());
        assert!(error.is_err(), "{text:?}");
    }
    assert!(matches!(
        jit::compile(&context, "a\0b", &JitOptions::default()),
        Err(Error::BadImage(_))
    ));
    // The context still compiles.
    jit::compile(&context, VECADD, &JitOptions::default()).unwrap();
}

#[test]
fn ptx_newer_than_the_driver_says_so() {
    let newer = VECADD.replace(".version 8.0", ".version 99.0");
    let error = jit::compile(&context(), &newer, &JitOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("ersion"), "{text}");
    if is_gpu() {
        assert_eq!(error.code().map(|code| code.0), Some(222), "{text}");
    }
}

#[test]
fn several_threads_compile_at_once() {
    let context = Context::primary(&device()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let compiled = jit::compile(&context, PLACE, &JitOptions::default()).unwrap();
                runs(&context, &compiled.binary);
            });
        }
    });
}

/// `twice(out)` in one module calls `double`, which another defines beside a
/// variable and a local of a name that both have.
const TWICE: &str = "
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) double (.param .b32 n);
.extern .global .align 4 .u32 bias;
.global .align 4 .u32 own = 20;
.visible .entry twice(.param .u64 out)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<2>;
    .param .b32 argument;
    .param .b32 answer;
    ld.global.u32 %r1, [own];
    st.param.b32 [argument], %r1;
    call (answer), double, (argument);
    ld.param.b32 %r2, [answer];
    ld.global.u32 %r3, [bias];
    add.u32 %r4, %r2, %r3;
    ld.param.u64 %rd1, [out];
    st.global.u32 [%rd1], %r4;
    ret;
}
";

const DOUBLE: &str = "
.version 7.0
.target sm_50
.address_size 64
.global .align 4 .u32 own = 2;
.visible .global .align 4 .u32 bias = 2;
.visible .func (.param .b32 result) double (.param .b32 n)
{
    .reg .b32 %r<4>;
    ld.param.b32 %r1, [n];
    ld.global.u32 %r2, [own];
    mul.lo.u32 %r3, %r1, %r2;
    st.param.b32 [result], %r3;
    ret;
}
";

#[test]
fn several_inputs_are_linked() {
    let context = context();
    for inputs in [[TWICE, DOUBLE], [DOUBLE, TWICE]] {
        let inputs = inputs.map(|text| LinkInput::ptx("part.ptx", text));
        let linked = jit::link(&context, &inputs, &JitOptions::default()).unwrap();
        // SAFETY: what the linker made.
        let module = unsafe { Module::load_image(&context, &linked.binary) }.unwrap();
        let twice = module.kernel("twice").unwrap();
        let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
        let stream = Stream::new(&context).unwrap();
        unsafe { twice.launch(LaunchConfig::default(), &stream, (&out,)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(out.to_vec().unwrap(), [42]);
        module.global("bias").unwrap().set(0_u32).unwrap();
        unsafe { twice.launch(LaunchConfig::default(), &stream, (&out,)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(out.to_vec().unwrap(), [40]);
    }
}

#[test]
fn what_does_not_link_is_told() {
    let context = context();
    let ptx = |text| LinkInput::ptx("part.ptx", text);
    let plain = JitOptions::default();
    for (inputs, word) in [
        (vec![ptx(TWICE)], "double"),
        (vec![ptx(PLACE), ptx(PLACE)], "place"),
    ] {
        let error = jit::link(&context, &inputs, &plain).unwrap_err();
        assert!(matches!(error, Error::Jit(_)), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    for wrong in [
        unsafe { LinkInput::cubin("cubin", PLACE.as_bytes()) },
        unsafe { LinkInput::library("library", PLACE.as_bytes()) },
        unsafe { LinkInput::object("object", b"\x7fELF") },
    ] {
        let error = jit::link(&context, &[wrong], &plain).unwrap_err();
        assert!(matches!(error, Error::BadImage(_)), "{error}");
    }
}

#[test]
fn code_for_link_time_optimisation_is_an_input() {
    if is_gpu() {
        return; // only drivers before CUDA 12.0 take what nobody can make here
    }
    let input = unsafe { LinkInput::lto("code.ltoir", b"BC\xc0\xde") };
    let error = jit::link(&context(), &[input], &JitOptions::default()).unwrap_err();
    assert_eq!(
        error.code(),
        Some(ptxkit::driver::CudaError::NOT_SUPPORTED),
        "{error}"
    );
    assert!(error.to_string().contains("NVVM"), "{error}");
}

/// The toolkit that `CUDA_HOME` names, if it has nvJitLink.
fn nvjitlink() -> Option<NvJitLink> {
    let toolkit = std::env::var_os("CUDA_HOME").map(PathBuf::from);
    let opened = match &toolkit {
        // SAFETY: the toolkit is NVIDIA's.
        Some(toolkit) => unsafe { NvJitLink::open_in(toolkit) },
        None => NvJitLink::open(),
    };
    match opened {
        Ok(library) => Some(library),
        Err(why) => {
            eprintln!("nvJitLink is left out: {why}");
            None
        }
    }
}

#[test]
fn nvjitlink_links_several_inputs() {
    let Some(library) = nvjitlink() else { return };
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let kernel = format!(
        "{head}.extern .func (.param .b32 r) f();\n.visible .entry k(.param .u64 p) {{ \
         .reg .b32 %r; .reg .b64 %rd; .param .b32 a; ld.param.u64 %rd, [p]; call (a), f; \
         ld.param.b32 %r, [a]; st.global.b32 [%rd], %r; ret; }}"
    );
    let function = format!(
        "{head}.visible .func (.param .b32 r) f() {{ .reg .b32 %r; mov.b32 %r, 7; \
         st.param.b32 [r], %r; ret; }}"
    );
    let inputs = [LinkInput::ptx("k", &kernel), LinkInput::ptx("f", &function)];
    let options = ["-arch=sm_90".to_owned()];
    let (cubin, _) = library.link(&inputs, &options).unwrap();
    assert!(cubin.starts_with(b"\x7fELF"));
    // One of them alone lacks the other.
    let error = library.link(&inputs[..1], &options).unwrap_err();
    assert!(matches!(error, NvJitLinkError::Failed { .. }), "{error}");
    assert!(error.to_string().contains('f'), "{error}");
    // What is no object is not handed to it.
    let error = library
        .link(
            &[unsafe { LinkInput::cubin("k", kernel.as_bytes()) }],
            &options,
        )
        .unwrap_err();
    assert!(matches!(error, NvJitLinkError::BadInput(_)), "{error}");
}

/// Where a toolkit with nvcc makes such code.
#[test]
fn nvjitlink_optimises_when_it_links() {
    let Some(library) = nvjitlink() else { return };
    let Some(home) = std::env::var_os("CUDA_HOME").map(PathBuf::from) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let code = |name: &str, source: &str| {
        let file = folder.path().join(format!("{name}.cu"));
        std::fs::write(&file, source).unwrap();
        let out = file.with_extension("ltoir");
        let made = std::process::Command::new(home.join("bin/nvcc"))
            .args(["-dlto", "-ltoir", "-rdc=true", "-arch=sm_90", "-o"])
            .args([&out, &file])
            .status();
        match made {
            Ok(status) if status.success() => std::fs::read(out).ok(),
            other => {
                eprintln!("link-time optimisation is left out: nvcc: {other:?}");
                None
            }
        }
    };
    let (Some(f), Some(k)) = (
        code(
            "f",
            "extern \"C\" __device__ int f(int x) { return 3 * x; }",
        ),
        code(
            "k",
            "extern \"C\" __device__ int f(int); extern \"C\" __global__ void k(int *p) { *p = f(*p); }",
        ),
    ) else {
        return;
    };
    let inputs = [unsafe { LinkInput::lto("k", &k) }, unsafe {
        LinkInput::lto("f", &f)
    }];
    let options = ["-arch=sm_90".to_owned(), "-lto".to_owned()];
    let (cubin, _) = library.link(&inputs, &options).unwrap();
    assert!(cubin.starts_with(b"\x7fELF"));
    // The function is part of the kernel now.
    let has = |name: &[u8]| cubin.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(b".text.k") && !has(b".text.f"));
}

/// The library of `ptxkit nvptxcompiler build`, where it has been built.
#[test]
fn nvptxcompiler_compiles_for_the_driver() {
    let context = context();
    let with = |compiler| JitOptions {
        compiler: Some(compiler),
        ..JitOptions::default()
    };
    let library = match NvPtxCompiler::open() {
        Ok(library) => library,
        Err(absent) => {
            // The CPU device has its own compiler; on a GPU the choice is an error.
            let made = jit::compile(&context, PLACE, &with(PtxCompiler::NvPtxCompiler));
            match made {
                Ok(_) => assert!(!is_gpu()),
                Err(error) => assert_eq!(error.to_string(), absent.to_string()),
            }
            return;
        }
    };
    if !is_gpu() {
        return;
    }
    let made = jit::compile(&context, PLACE, &with(PtxCompiler::NvPtxCompiler)).unwrap();
    runs(&context, &made.binary);
    let own = jit::compile(&context, PLACE, &with(PtxCompiler::Driver)).unwrap();
    assert_ne!(made.binary, own.binary);

    let wrong = PLACE.replace("ret;", "rot;");
    let errors =
        [PtxCompiler::NvPtxCompiler, PtxCompiler::Driver].map(|compiler| {
            match jit::compile(&context, &wrong, &with(compiler)) {
                Err(Error::Jit(error)) => (error.code, error.diagnostics[0].line),
                other => panic!("{other:?}"),
            }
        });
    assert_eq!(errors[0], errors[1]);
    let refused = JitOptions {
        threads_per_block: Some(64),
        ..with(PtxCompiler::NvPtxCompiler)
    };
    let error = jit::compile(&context, PLACE, &refused).unwrap_err();
    assert!(error.to_string().contains("`threads_per_block`"), "{error}");

    // PTX that is newer than the driver: by default the library compiles it.
    let Some(newest) = library.newest_ptx() else {
        return;
    };
    let newer = PLACE.replacen(".version 8.0", &format!(".version {newest}"), 1);
    let read_by_driver = jit::compile(&context, &newer, &with(PtxCompiler::Driver)).is_ok();
    let made = jit::compile(&context, &newer, &JitOptions::default()).unwrap();
    runs(&context, &made.binary);
    eprintln!("PTX {newest}: the driver reads it: {read_by_driver}");
}
