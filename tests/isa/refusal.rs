//! What the CPU device does not run, and where it stops.

use std::path::PathBuf;

use ptxkit::cpu::{CompileErrorKind, CompileOptions, compile};
use ptxkit::driver::{Context, CudaError, DeviceBuffer, Driver, LaunchConfig, Module, Stream};

use crate::kernels::{text, text_for};
use crate::parts::Parts;

#[test]
fn every_sample_compiles() {
    let folder = std::env::var_os("PTXKIT_SAMPLES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/ptx-samples")),
        PathBuf::from,
    );
    let (mut compiled, mut refused) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "ptx") {
            let source = std::fs::read_to_string(&path).unwrap();
            match compile(&source, &CompileOptions::default()) {
                Ok(_) => compiled += 1,
                Err(error) => refused.push(format!("{}: {error}", path.display())),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(compiled > 0);
}

/// What cannot be run is named, with its line.
#[test]
fn a_refusal_names_the_instruction_and_its_line() {
    let source = text(&["mov.u64 %d, 1;\nmultimem.red.relaxed.sys.add.u32 [%a0], %r0;"]);
    let error = compile(&source, &CompileOptions::default()).unwrap_err();
    let line = source.lines().position(|l| l.contains("multimem")).unwrap() as u32 + 1;
    assert_eq!(error.problems.len(), 1);
    assert_eq!(error.problems[0].line, line);
    assert!(error.to_string().contains("multimem.red"), "{error}");
}

/// ptxas takes a policy in place of the barrier of a bulk copy. Such a copy is valid, but not supported.
#[test]
fn a_bulk_copy_without_a_barrier_is_not_supported() {
    for (copy, number) in [("cp.async", ""), ("cp.reduce.async", ".add.u32")] {
        let body = format!(
            "{copy}.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{number} \
             [%r0], [%r1], 16, %a0;"
        );
        let text = text_for("sm_90", &[&body]);
        let error = compile(&text, &CompileOptions::default()).unwrap_err();
        assert_eq!(error.kind, CompileErrorKind::NotSupported, "{error}");
        assert!(error.to_string().contains("without a barrier"), "{error}");
    }
}

/// A statement of any length is quoted on one short line.
#[test]
fn a_long_statement_is_quoted_in_part() {
    let registers = "%r0, ".repeat(127);
    let body = format!(
        "tcgen05.ld.red.sync.aligned.32x32b.x128.min.u32\n {{{registers}%r0}}, %r1, [%r2];"
    );
    let text = text_for("sm_103a", &[&body]);
    let error = compile(&text, &CompileOptions::default()).unwrap_err();
    let message = &error.problems[0].message;
    assert!(
        message.contains("tcgen05.ld.red") && message.contains('…'),
        "{message}"
    );
    assert!(message.len() < 250 && !message.contains('\n'), "{message}");
}

/// The bytes that a load does not use may lie behind the end of a buffer.
#[test]
fn bytes_that_are_not_used_are_not_read() {
    let load = "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%out];";
    for (mask, expected) in [
        ("0xff", 0x1234_5678_9ABC_DEF0),
        ("0xf0", 0x1234_5678_0000_0000),
        ("0x3f", 0x5678_9ABC_DEF0),
    ] {
        let body = format!(
            "st.global.u64 [%out], %a0;\n.pragma \"used_bytes_mask {mask}\";\n{load}\n\
             mov.b64 %d, {{%r4, %r5}};"
        );
        let device = Driver::cpu().unwrap().device(0).unwrap();
        let context = Context::create(&device, 0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, text(&[&body]).as_bytes()).unwrap();
        let words = [0x1234_5678_9ABC_DEF0_u64, 0, 0, 0];
        let input = DeviceBuffer::from_slice(&context, &words).unwrap();
        let mut output = DeviceBuffer::<u64>::zeroed(&context, 1).unwrap();
        let kernel = module.kernel("k0").unwrap();
        unsafe { kernel.launch(LaunchConfig::default(), &stream, (&input, &mut output)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(output.to_vec().unwrap(), [expected], "{body}");
    }
    Parts::of("refusal::bytes_that_are_not_used_are_not_read")
        .run(|| assert_eq!(fault(load), CudaError::ILLEGAL_ADDRESS));
}

/// No code can be made of these.
#[test]
fn bits_of_floats_are_refused() {
    for body in [
        "shr.f32 %x, %x, %r0;",
        "shl.f64 %x, %x, 3;",
        "cnot.f32 %x, %x;",
    ] {
        let source = text(&[&format!("{{ .reg .f64 %x; {body} }}")]);
        let error = compile(&source, &CompileOptions::default()).unwrap_err();
        assert_eq!(error.kind, CompileErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("does not take"), "{error}");
    }
}

/// Operands that tell two forms apart only by their declared type, and saturation of sums with
/// carries, must not be taken for something else in silence.
#[test]
fn what_would_be_wrong_is_refused() {
    for body in [
        "add.cc.s32 %r4, %r0, %r1; addc.sat.s32 %r4, %r0, %r1;",
        "tex.1d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%a0, {%f0}], %r0;",
    ] {
        let text = text_for("sm_120a", &[body]);
        let error = compile(&text, &CompileOptions::default()).unwrap_err();
        assert_eq!(error.kind, CompileErrorKind::NotSupported, "{error}");
    }
}

/// An integer is no number where a float belongs, as ptxas has it.
#[test]
fn integers_are_no_floats() {
    for body in [
        "mov.f32 %fd, 1;",
        "add.f64 %gd, %g0, 1;",
        "selp.f32 %fd, 1, 2, %p0;",
        "setp.eq.f32 %p0, %f0, 0;",
        "st.global.f32 [%in], 1;",
        "mov.pred %p0, 1.0;",
    ] {
        let error = compile(&text(&[body]), &CompileOptions::default()).unwrap_err();
        assert_eq!(error.kind, CompileErrorKind::Invalid, "{error}");
    }
}

/// The error of a body that must not come to its end.
fn fault(body: &str) -> CudaError {
    let device = Driver::cpu().unwrap().device(0).unwrap();
    let context = Context::create(&device, 0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let module = Module::load(&context, text(&[body]).as_bytes()).unwrap();
    let input = DeviceBuffer::<u64>::zeroed(&context, 4).unwrap();
    let mut output = DeviceBuffer::<u64>::zeroed(&context, 1).unwrap();
    let kernel = module.kernel("k0").unwrap();
    unsafe { kernel.launch(LaunchConfig::default(), &stream, (&input, &mut output)) }.unwrap();
    let error = stream.synchronize().expect_err(body);
    error.code().unwrap_or_else(|| panic!("{body}: {error}"))
}

#[test]
fn faults() {
    const ILLEGAL: CudaError = CudaError::ILLEGAL_ADDRESS;
    let mut parts = Parts::of("refusal::faults");
    for (body, expected) in [
        ("ld.global.u32 %rd, [%out+8];", ILLEGAL),
        (
            "ld.global.u32 %rd, [%out+2];",
            CudaError::MISALIGNED_ADDRESS,
        ),
        ("st.global.u32 [%a0], %r0;", ILLEGAL),
        (
            "{ .shared .align 4 .b8 m[4]; mov.u32 %r4, m; st.shared.u32 [%r4+4], %r0; }",
            ILLEGAL,
        ),
        ("trap;", CudaError::LAUNCH_FAILED),
        (
            "T: .branchtargets A; mov.u32 %r4, 1; brx.idx %r4, T; A:",
            CudaError::ILLEGAL_INSTRUCTION,
        ),
    ] {
        parts.run(|| assert_eq!(fault(body), expected, "{body}"));
    }
}
