//! What instructions compute on the CPU device: PTX in, numbers out.
#![cfg(feature = "cpu")]

use std::sync::Arc;

use ptxkit::cpu::blob::Image;
use ptxkit::cpu::code::LoadedModule;
use ptxkit::cpu::memory::{DeviceMemory, Purpose};
use ptxkit::cpu::run::{Engine, LaunchShape};
use ptxkit::cpu::{CompileOptions, Lanes, compile};

#[test]
fn every_sample_compiles() {
    let mut refused = Vec::new();
    for entry in std::fs::read_dir("ptx-samples").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "ptx") {
            let source = std::fs::read_to_string(&path).unwrap();
            if let Err(error) = compile(&source, &CompileOptions::default()) {
                refused.push(format!("{}: {error}", path.display()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Runs a kernel `k(in, out)` of `threads` threads over bytes.
fn run(source: &str, threads: u32, input: &[u8], output: usize) -> Result<Vec<u8>, String> {
    let mut options = CompileOptions::default();
    // More than one thread: together in vectors.
    options.lanes = if threads > 1 {
        Lanes::Always
    } else {
        Lanes::Never
    };
    let blob = compile(source, &options).map_err(|e| e.to_string())?;
    let image = Image::read(&blob).map_err(|e| e.to_string())?;
    let memory = Arc::new(DeviceMemory::with_size(64 << 20).map_err(|e| e.to_string())?);
    let module = LoadedModule::new(image, &memory).map_err(|e| e.to_string())?;
    let engine = Engine::with_workers(Arc::clone(&memory), 1);
    let a = memory
        .allocate(input.len().max(1) as u64, 256, Purpose::Device)
        .unwrap();
    let b = memory
        .allocate(output as u64, 256, Purpose::Device)
        .unwrap();
    // SAFETY: both are allocations of this device of at least these lengths.
    unsafe {
        std::ptr::copy_nonoverlapping(input.as_ptr(), a as *mut u8, input.len());
        std::ptr::write_bytes(b as *mut u8, 0, output);
    }
    let params: Vec<u8> = [a, b].iter().flat_map(|p| p.to_le_bytes()).collect();
    let shape = LaunchShape {
        grid: [1; 3],
        block: [threads, 1, 1],
        shared_bytes: 0,
    };
    engine
        .launch(&module, 0, shape, &params)
        .map_err(|fault| fault.message)?;
    let mut bytes = vec![0; output];
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(b as *const u8, bytes.as_mut_ptr(), output) };
    Ok(bytes)
}

/// A kernel around `body`, where `%a0` to `%a3` hold the thread's four 64-bit
/// inputs and `%d` becomes its output.
fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .b64 %a<4>, %d, %in, %out, %t64, %x<8>;\n\
         .reg .b32 %t, %r<16>;\n.reg .b16 %h<16>;\n.reg .f32 %f<8>;\n.reg .f64 %g<8>;\n\
         .reg .pred %p<8>;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n\
         mov.u32 %t, %tid.x;\n\
         mul.wide.u32 %t64, %t, 32;\nadd.s64 %in, %in, %t64;\n\
         ld.global.v2.b64 {{%a0, %a1}}, [%in];\nld.global.v2.b64 {{%a2, %a3}}, [%in+16];\n\
         mul.wide.u32 %t64, %t, 8;\nadd.s64 %out, %out, %t64;\n\
         mov.b64 %d, 0;\n\
         cvt.u32.u64 %r0, %a0;\ncvt.u32.u64 %r1, %a1;\ncvt.u32.u64 %r2, %a2;\ncvt.u32.u64 %r3, %a3;\n\
         {body}\n\
         st.global.b64 [%out], %d;\nret;\n}}\n"
    )
}

/// One row: a body, the inputs `%a0` …, and `%d`.
type Row = (&'static str, [u64; 4], u64);

fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for &(body, inputs, expected) in rows {
        let input: Vec<u8> = inputs.iter().flat_map(|n| n.to_le_bytes()).collect();
        for threads in [1, 32] {
            let input = input.repeat(threads as usize);
            match run(&kernel(body), threads, &input, 8 * threads as usize) {
                Ok(out) => {
                    let found: Vec<u64> = out
                        .chunks_exact(8)
                        .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
                        .collect();
                    // What depends on the thread has rows of one thread in mind.
                    let depends = ["laneid", "lanemask", "ntid", "shared .align"];
                    let count = if depends.iter().any(|d| body.contains(d)) {
                        1
                    } else {
                        found.len()
                    };
                    if let Some(at) = found[..count].iter().position(|&f| f != expected)
                        && !(threads > 1 && body.contains("ntid"))
                    {
                        let found = found[at];
                        wrong.push(format!(
                            "{body} {inputs:X?}\n  gives {found:#X}, not {expected:#X}, in thread {at} of {threads}"
                        ));
                    }
                }
                Err(error) => wrong.push(format!("{body}, {threads} threads\n  {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The bits of an `f32`.
const fn s(value: f32) -> u64 {
    value.to_bits() as u64
}

/// The bits of an `f64`.
const fn d(value: f64) -> u64 {
    value.to_bits()
}

/// The low half as a signed number.
const fn w(value: i32) -> u64 {
    value as u32 as u64
}

const MIN32: u64 = 0x8000_0000;
const NAN32: u64 = 0x7FC0_0000;

#[test]
fn integer_arithmetic() {
    check(&[
        (
            "add.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [7, 8, 0, 0],
            15,
        ),
        (
            "add.s32.sat %r0, %r0, 1; cvt.u64.u32 %d, %r0;",
            [0x7FFF_FFFF, 0, 0, 0],
            0x7FFF_FFFF,
        ),
        (
            "sub.s32.sat %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [MIN32, 1, 0, 0],
            MIN32,
        ),
        ("add.s64 %d, %a0, %a1;", [u64::MAX, 3, 0, 0], 2),
        ("sub.u16 %h1, %h2, %h3; cvt.u64.u16 %d, %h1;", [0; 4], 0),
        (
            "cvt.u16.u32 %h0, %r0; cvt.u16.u32 %h1, %r1; add.u16 %h0, %h0, %h1; cvt.u64.u16 %d, %h0;",
            [0xFFFF, 2, 0, 0],
            1,
        ),
        (
            "mul.lo.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-3), 5, 0, 0],
            w(-15),
        ),
        (
            "mul.hi.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-3), 5, 0, 0],
            w(-1),
        ),
        (
            "mul.hi.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-3), 5, 0, 0],
            4,
        ),
        (
            "mul.wide.s32 %d, %r0, %r1;",
            [w(-3), 5, 0, 0],
            -15_i64 as u64,
        ),
        (
            "mul.wide.u32 %d, %r0, %r1;",
            [w(-1), 2, 0, 0],
            0x1_FFFF_FFFE,
        ),
        ("mul.hi.u64 %d, %a0, %a1;", [1 << 63, 6, 0, 0], 3),
        (
            "mul.hi.s64 %d, %a0, %a1;",
            [1 << 63, 6, 0, 0],
            -3_i64 as u64,
        ),
        (
            "cvt.u16.u32 %h0, %r0; mul.wide.s16 %r1, %h0, %h0; cvt.u64.u32 %d, %r1;",
            [0xFFFE, 0, 0, 0],
            4,
        ),
        (
            "mad.lo.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [6, 7, w(-2), 0],
            40,
        ),
        (
            "mad.hi.s32.sat %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x4000_0000, 8, 0x7FFF_FFFF, 0],
            0x7FFF_FFFF,
        ),
        ("mad.wide.s32 %d, %r0, %r1, %a2;", [w(-6), 7, 50, 0], 8),
        (
            "mul24.lo.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0xFF00_0003, 5, 0, 0],
            15,
        ),
        (
            "mul24.hi.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0x0080_0000, 0x0001_0000, 0, 0],
            w(-0x0080_0000),
        ),
        (
            "mad24.lo.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x00FF_FFFF, 5, 100, 0],
            95,
        ),
        (
            "sad.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [w(-3), 5, 100, 0],
            108,
        ),
        (
            "sad.u32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [7, 5, 100, 0],
            102,
        ),
        (
            "abs.s32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [w(-5), 0, 0, 0],
            5,
        ),
        (
            "abs.s32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [MIN32, 0, 0, 0],
            MIN32,
        ),
        ("neg.s64 %d, %a0;", [5, 0, 0, 0], -5_i64 as u64),
        (
            "min.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-1), 1, 0, 0],
            w(-1),
        ),
        (
            "min.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-1), 1, 0, 0],
            1,
        ),
        ("max.s64 %d, %a0, %a1;", [u64::MAX, 1, 0, 0], 1),
        (
            "add.u16x2 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0x0001_FFFF, 0x0001_0001, 0, 0],
            0x0002_0000,
        ),
        (
            "min.s16x2 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0x0001_FFFF, 0x8000_0001, 0, 0],
            0x8000_FFFF,
        ),
        (
            "dp4a.s32.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0xFF02_0304, 0x0202_0101, 10, 0],
            19,
        ),
        (
            "dp4a.u32.u32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0xFF00_0000, 0x0200_0000, 10, 0],
            520,
        ),
        (
            "dp2a.lo.s32.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0xFFFF_0003, 0x0908_0205, 1, 0],
            14,
        ),
        (
            "dp2a.hi.s32.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0xFFFF_0003, 0x0908_0205, 1, 0],
            16,
        ),
    ]);
}

/// No host trap, whatever is divided by what.
#[test]
fn division() {
    check(&[
        (
            "div.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-7), 2, 0, 0],
            w(-3),
        ),
        (
            "rem.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-7), 2, 0, 0],
            w(-1),
        ),
        (
            "div.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [MIN32, w(-1), 0, 0],
            MIN32,
        ),
        (
            "rem.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [MIN32, w(-1), 0, 0],
            0,
        ),
        (
            "div.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [7, 0, 0, 0],
            w(-1),
        ),
        (
            "rem.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [7, 0, 0, 0],
            7,
        ),
        ("div.s64 %d, %a0, %a1;", [1 << 63, u64::MAX, 0, 0], 1 << 63),
        ("div.s64 %d, %a0, %a1;", [5, 0, 0, 0], u64::MAX),
        ("div.u64 %d, %a0, %a1;", [u64::MAX, 16, 0, 0], u64::MAX / 16),
        (
            "cvt.u16.u32 %h0, %r0; cvt.u16.u32 %h1, %r1; div.s16 %h0, %h0, %h1; cvt.u64.u16 %d, %h0;",
            [0xFFF9, 2, 0, 0],
            0xFFFD,
        ),
        (
            "cvt.u16.u32 %h0, %r0; cvt.u16.u32 %h1, %r1; div.s16 %h0, %h0, %h1; cvt.u64.u16 %d, %h0;",
            [0x8000, 0xFFFF, 0, 0],
            0x8000,
        ),
    ]);
}

#[test]
fn carries() {
    check(&[
        (
            "add.cc.u32 %r0, %r0, %r1; addc.u32 %r2, %r2, %r3; mov.b64 %d, {%r0, %r2};",
            [w(-1), 1, 5, 6],
            12 << 32,
        ),
        (
            "sub.cc.u32 %r0, %r0, %r1; subc.u32 %r2, %r2, %r3; mov.b64 %d, {%r0, %r2};",
            [0, 1, 6, 5],
            0xFFFF_FFFF,
        ),
        (
            "add.cc.u64 %x0, %a0, %a1; addc.cc.u64 %x1, %a2, %a3; addc.u64 %d, %x1, 0;",
            [u64::MAX, 1, u64::MAX, 0],
            1,
        ),
        (
            "add.cc.u32 %r0, %r0, %r1; madc.hi.u32 %r2, %r2, %r3, 7; cvt.u64.u32 %d, %r2;",
            [w(-1), 1, MIN32, 4],
            10,
        ),
        (
            "mad.lo.cc.u32 %r0, %r0, %r1, %r2; addc.u32 %r3, %r3, 0; mov.b64 %d, {%r0, %r3};",
            [3, 5, w(-1), 1],
            2 << 32 | 14,
        ),
    ]);
}

#[test]
fn bits_and_shifts() {
    check(&[
        (
            "and.b32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0xFF0F, 0x0FF0, 0, 0],
            0x0F00,
        ),
        ("xor.b64 %d, %a0, %a1;", [0xFF, 0x0F, 0, 0], 0xF0),
        (
            "not.b32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0xFF, 0, 0, 0],
            0xFFFF_FF00,
        ),
        ("cnot.b32 %r0, %r0; cvt.u64.u32 %d, %r0;", [0, 0, 0, 0], 1),
        ("cnot.b32 %r0, %r0; cvt.u64.u32 %d, %r0;", [9, 0, 0, 0], 0),
        (
            "setp.eq.u32 %p0, %r0, 1; not.pred %p0, %p0; selp.u64 %d, 5, 6, %p0;",
            [1, 0, 0, 0],
            6,
        ),
        (
            "shl.b32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [1, 31, 0, 0],
            MIN32,
        ),
        // Amounts are clamped, not taken modulo the width.
        (
            "shl.b32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [1, 32, 0, 0],
            0,
        ),
        (
            "shr.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [MIN32, 33, 0, 0],
            0,
        ),
        (
            "shr.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [MIN32, 33, 0, 0],
            w(-1),
        ),
        (
            "shr.s32 %r0, %r0, 40; cvt.u64.u32 %d, %r0;",
            [MIN32, 0, 0, 0],
            w(-1),
        ),
        (
            "shl.b32 %r0, %r0, 32; cvt.u64.u32 %d, %r0;",
            [1, 0, 0, 0],
            0,
        ),
        ("shr.s64 %d, %a0, %r1;", [1 << 63, 63, 0, 0], u64::MAX),
        ("shl.b64 %d, %a0, %r1;", [1, 64, 0, 0], 0),
        (
            "cvt.u16.u32 %h0, %r0; shl.b16 %h0, %h0, %r1; cvt.u64.u16 %d, %h0;",
            [1, 16, 0, 0],
            0,
        ),
        (
            "cvt.u16.u32 %h0, %r0; shr.s16 %h0, %h0, %r1; cvt.u64.u16 %d, %h0;",
            [0x8000, 20, 0, 0],
            0xFFFF,
        ),
        (
            "shf.l.wrap.b32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x8000_0001, 0x10, 36, 0],
            0x108,
        ),
        (
            "shf.l.clamp.b32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x8000_0001, 0x10, 36, 0],
            0x8000_0001,
        ),
        (
            "shf.r.wrap.b32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x8000_0001, 0x13, 4, 0],
            0x3800_0000,
        ),
        (
            "shf.r.clamp.b32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x8000_0001, 0x13, 99, 0],
            0x13,
        ),
        (
            "lop3.b32 %r0, %r0, %r1, %r2, 0x96; cvt.u64.u32 %d, %r0;",
            [0b1100, 0b1010, 0b1111, 0],
            0b1001,
        ),
        (
            "lop3.b32 %r0, %r0, %r1, %r2, 0xE8; cvt.u64.u32 %d, %r0;",
            [0b1100, 0b1010, 0b0110, 0],
            0b1110,
        ),
        (
            "lop3.b32 %r0, %r0, %r1, %r2, 0x1D; cvt.u64.u32 %d, %r0;",
            [0xF0F0_F0F0, 0xCCCC_CCCC, 0xAAAA_AAAA, 0],
            0x1D1D_1D1D,
        ),
        (
            "prmt.b32 %r0, %r0, %r1, 0x5410; cvt.u64.u32 %d, %r0;",
            [0x3322_1100, 0x7766_5544, 0, 0],
            0x5544_1100,
        ),
        (
            "prmt.b32 %r0, %r0, %r1, 0x8B; cvt.u64.u32 %d, %r0;",
            [0x8322_1190, 0x7766_5544, 0, 0],
            0x9090_FFFF,
        ),
        (
            "prmt.b32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x3322_1100, 0x7766_5544, 0x0123, 0],
            0x0011_2233,
        ),
        (
            "prmt.b32.f4e %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x3322_1100, 0x7766_5544, 1, 0],
            0x4433_2211,
        ),
        (
            "prmt.b32.rc16 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x3322_1100, 0x7766_5544, 1, 0],
            0x3322_3322,
        ),
        (
            "popc.b64 %r0, %a0; cvt.u64.u32 %d, %r0;",
            [u64::MAX, 0, 0, 0],
            64,
        ),
        (
            "clz.b32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0x00FF_0000, 0, 0, 0],
            8,
        ),
        ("clz.b64 %r0, %a0; cvt.u64.u32 %d, %r0;", [0, 0, 0, 0], 64),
        (
            "brev.b32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [1, 0, 0, 0],
            MIN32,
        ),
        (
            "bfind.u32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0x0001_0000, 0, 0, 0],
            16,
        ),
        (
            "bfind.u32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0, 0, 0, 0],
            w(-1),
        ),
        (
            "bfind.s32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [w(-2), 0, 0, 0],
            0,
        ),
        (
            "bfind.shiftamt.u32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0x0001_0000, 0, 0, 0],
            15,
        ),
        (
            "bfind.u64 %r0, %a0; cvt.u64.u32 %d, %r0;",
            [1 << 40, 0, 0, 0],
            40,
        ),
        (
            "bfe.u32 %r0, %r0, 4, 8; cvt.u64.u32 %d, %r0;",
            [0xABCD, 0, 0, 0],
            0xBC,
        ),
        (
            "bfe.s32 %r0, %r0, 4, 8; cvt.u64.u32 %d, %r0;",
            [0xABCD, 0, 0, 0],
            w(-68),
        ),
        (
            "bfe.s32 %r0, %r0, 28, 8; cvt.u64.u32 %d, %r0;",
            [0x9000_0000, 0, 0, 0],
            w(-7),
        ),
        (
            "bfe.u64 %d, %a0, 32, 16;",
            [0x1234_5678_9ABC_DEF0, 0, 0, 0],
            0x5678,
        ),
        (
            "bfi.b32 %r0, %r0, %r1, 8, 8; cvt.u64.u32 %d, %r0;",
            [0xFFAB, 0x1111_1111, 0, 0],
            0x1111_AB11,
        ),
        ("bfi.b64 %d, %a0, %a1, 60, 8;", [0xFF, 0, 0, 0], 0xF << 60),
        (
            "fns.b32 %r0, %r0, 0, 2; cvt.u64.u32 %d, %r0;",
            [0b1010, 0, 0, 0],
            3,
        ),
        (
            "bmsk.clamp.b32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [4, 8, 0, 0],
            0xFF0,
        ),
        (
            "bmsk.clamp.b32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0, 40, 0, 0],
            0xFFFF_FFFF,
        ),
        (
            "bmsk.wrap.b32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [36, 33, 0, 0],
            0x10,
        ),
        (
            "szext.clamp.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0xF8, 4, 0, 0],
            w(-8),
        ),
        (
            "szext.clamp.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0xF8, 4, 0, 0],
            8,
        ),
        (
            "szext.clamp.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0xF8, 0, 0, 0],
            0,
        ),
        (
            "szext.wrap.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0xF8, 36, 0, 0],
            8,
        ),
    ]);
}

#[test]
fn comparison_and_selection() {
    check(&[
        (
            "setp.lt.s32 %p0, %r0, %r1; selp.u64 %d, 1, 2, %p0;",
            [w(-1), 1, 0, 0],
            1,
        ),
        (
            "setp.lt.u32 %p0, %r0, %r1; selp.u64 %d, 1, 2, %p0;",
            [w(-1), 1, 0, 0],
            2,
        ),
        (
            "setp.hs.u32 %p0, %r0, %r1; selp.u64 %d, 1, 2, %p0;",
            [5, 5, 0, 0],
            1,
        ),
        (
            "setp.ge.s64 %p0, %a0, %a1; selp.u64 %d, 1, 2, %p0;",
            [u64::MAX, 0, 0, 0],
            2,
        ),
        (
            "setp.eq.u32 %p1, %r2, 9; setp.lt.and.s32 %p0|%p2, %r0, %r1, %p1; selp.u64 %d, 1, 2, %p0; @%p2 add.u64 %d, %d, 10;",
            [1, 2, 9, 0],
            1,
        ),
        (
            "setp.eq.u32 %p1, %r2, 9; setp.lt.and.s32 %p0|%p2, %r0, %r1, %p1; selp.u64 %d, 1, 2, %p0; @%p2 add.u64 %d, %d, 10;",
            [3, 2, 9, 0],
            12,
        ),
        (
            "setp.eq.u32 %p1, %r2, 9; setp.lt.xor.s32 %p0, %r0, %r1, !%p1; selp.u64 %d, 1, 2, %p0;",
            [1, 2, 8, 0],
            2,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.lt.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [s(1.0), NAN32, 0, 0],
            2,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.ltu.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [s(1.0), NAN32, 0, 0],
            1,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.ne.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [s(1.0), NAN32, 0, 0],
            2,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.neu.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [s(1.0), NAN32, 0, 0],
            1,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.nan.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [s(1.0), NAN32, 0, 0],
            1,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.eq.ftz.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [1, 0, 0, 0],
            1,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; setp.eq.f32 %p0, %f0, %f1; selp.u64 %d, 1, 2, %p0;",
            [1, 0, 0, 0],
            2,
        ),
        (
            "mov.b64 %g0, %a0; mov.b64 %g1, %a1; setp.gtu.f64 %p0, %g0, %g1; selp.u64 %d, 1, 2, %p0;",
            [d(2.0), d(1.0), 0, 0],
            1,
        ),
        (
            "set.lt.u32.s32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [w(-1), 1, 0, 0],
            w(-1),
        ),
        (
            "set.lt.f32.s32 %f0, %r0, %r1; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [w(-1), 1, 0, 0],
            s(1.0),
        ),
        (
            "slct.s32.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [5, 6, w(-1), 0],
            6,
        ),
        (
            "mov.b32 %f0, %r2; slct.b64.f32 %d, %a0, %a1, %f0;",
            [5, 6, s(-0.0), 0],
            5,
        ),
        (
            "setp.lt.f16x2 %p0|%p1, %r0, %r1; selp.u64 %d, 1, 2, %p0; @%p1 add.u64 %d, %d, 10;",
            [0x3C00_3C00, 0x4000_0000, 0, 0],
            12,
        ),
    ]);
}

const F2: &str = "mov.b32 %f0, %r0; mov.b32 %f1, %r1; mov.b32 %f2, %r2;";

/// Rows whose sources `%f0 %f1 %f2` and result `%f3` are `f32`.
fn check_f32(rows: &[(&str, [u64; 3], u64)]) {
    let rows: Vec<(String, [u64; 3], u64)> = rows
        .iter()
        .map(|&(b, i, e)| {
            (
                format!("{F2} {b} mov.b32 %r3, %f3; cvt.u64.u32 %d, %r3;"),
                i,
                e,
            )
        })
        .collect();
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(b, [x, y, z], e)| (&*b.leak(), [x, y, z, 0], e))
        .collect();
    check(&rows);
}

#[test]
fn single_precision() {
    const TINY: u64 = 1;
    const THIRD: f32 = 1.0 / 3.0;
    check_f32(&[
        ("add.f32 %f3, %f0, %f1;", [s(1.5), s(2.25), 0], s(3.75)),
        ("add.rz.f32 %f3, %f0, %f1;", [s(1.0), s(1.0e-10), 0], s(1.0)),
        (
            "add.rp.f32 %f3, %f0, %f1;",
            [s(1.0), s(1.0e-10), 0],
            0x3F80_0001,
        ),
        (
            "sub.rm.f32 %f3, %f0, %f1;",
            [s(1.0), s(1.0e-10), 0],
            0x3F7F_FFFF,
        ),
        (
            "mul.rp.f32 %f3, %f0, %f1;",
            [0x3F80_0001, 0x3F80_0001, 0],
            0x3F80_0003,
        ),
        (
            "mul.rn.f32 %f3, %f0, %f1;",
            [0x3F80_0001, 0x3F80_0001, 0],
            0x3F80_0002,
        ),
        ("add.ftz.f32 %f3, %f0, %f1;", [TINY, TINY, 0], 0),
        ("add.f32 %f3, %f0, %f1;", [TINY, TINY, 0], 2),
        (
            "mul.ftz.f32 %f3, %f0, %f1;",
            [0x0080_0000, s(-0.5), 0],
            MIN32,
        ),
        ("add.sat.f32 %f3, %f0, %f1;", [s(1.5), s(2.0), 0], s(1.0)),
        ("add.sat.f32 %f3, %f0, %f1;", [NAN32, s(2.0), 0], 0),
        (
            "fma.rn.f32 %f3, %f0, %f1, %f2;",
            [0x3F80_0001, 0x3F7F_FFFF, s(-1.0)],
            0x337F_FFFE,
        ),
        (
            "fma.rz.f32 %f3, %f0, %f1, %f2;",
            [s(1.0), s(1.0), s(-1.0e-10)],
            0x3F7F_FFFF,
        ),
        ("div.rn.f32 %f3, %f0, %f1;", [s(1.0), s(3.0), 0], s(THIRD)),
        (
            "div.rz.f32 %f3, %f0, %f1;",
            [s(1.0), s(3.0), 0],
            s(THIRD) - 1,
        ),
        ("rcp.rn.f32 %f3, %f0;", [s(3.0), 0, 0], s(THIRD)),
        (
            "sqrt.rn.f32 %f3, %f0;",
            [s(2.0), 0, 0],
            s(std::f32::consts::SQRT_2),
        ),
        (
            "sqrt.rp.f32 %f3, %f0;",
            [s(2.0), 0, 0],
            s(std::f32::consts::SQRT_2) + 1,
        ),
        (
            "sqrt.rm.f32 %f3, %f0;",
            [s(2.0), 0, 0],
            s(std::f32::consts::SQRT_2),
        ),
        ("abs.f32 %f3, %f0;", [s(-2.5), 0, 0], s(2.5)),
        ("neg.ftz.f32 %f3, %f0;", [TINY, 0, 0], MIN32),
        ("min.f32 %f3, %f0, %f1;", [NAN32, s(1.0), 0], s(1.0)),
        ("min.f32 %f3, %f0, %f1;", [s(2.0), NAN32, 0], s(2.0)),
        ("min.f32 %f3, %f0, %f1;", [NAN32, NAN32, 0], 0x7FFF_FFFF),
        (
            "min.NaN.f32 %f3, %f0, %f1;",
            [s(2.0), NAN32, 0],
            0x7FFF_FFFF,
        ),
        ("min.f32 %f3, %f0, %f1;", [s(0.0), s(-0.0), 0], MIN32),
        ("max.f32 %f3, %f0, %f1;", [s(-0.0), s(0.0), 0], 0),
        (
            "max.xorsign.abs.f32 %f3, %f0, %f1;",
            [s(-2.0), s(1.0), 0],
            s(-2.0),
        ),
        (
            "max.xorsign.abs.f32 %f3, %f0, %f1;",
            [s(-2.0), s(-1.0), 0],
            s(2.0),
        ),
        ("copysign.f32 %f3, %f0, %f1;", [s(-1.0), s(3.0), 0], s(-3.0)),
        ("ex2.approx.f32 %f3, %f0;", [s(3.0), 0, 0], s(8.0)),
        ("lg2.approx.f32 %f3, %f0;", [s(8.0), 0, 0], s(3.0)),
        ("rsqrt.approx.f32 %f3, %f0;", [s(4.0), 0, 0], s(0.5)),
        ("rcp.approx.ftz.f32 %f3, %f0;", [s(4.0), 0, 0], s(0.25)),
        ("div.full.f32 %f3, %f0, %f1;", [s(9.0), s(3.0), 0], s(3.0)),
        ("sin.approx.f32 %f3, %f0;", [s(0.0), 0, 0], s(0.0)),
        ("cos.approx.f32 %f3, %f0;", [s(0.0), 0, 0], s(1.0)),
        ("mov.f32 %f3, 0f3FC00000;", [0; 3], s(1.5)),
        ("mov.f32 %f3, 0.1;", [0; 3], s(0.1)),
    ]);
}

#[test]
fn properties() {
    let row = |what: &str, bits: u64, holds: bool| -> Row {
        let body = format!("mov.b32 %f0, %r0; testp.{what}.f32 %p0, %f0; selp.u64 %d, 1, 0, %p0;");
        (&*body.leak(), [bits, 0, 0, 0], u64::from(holds))
    };
    check(&[
        row("finite", s(1.0), true),
        row("finite", s(f32::INFINITY), false),
        row("infinite", s(f32::NEG_INFINITY), true),
        row("number", NAN32, false),
        row("notanumber", NAN32, true),
        row("normal", 0, true),
        row("normal", 1, false),
        row("subnormal", 1, true),
        row("subnormal", 0, false),
    ]);
}

#[test]
fn double_precision() {
    let f = |body: &str, a: f64, b: f64, c: f64, e: u64| -> Row {
        let body = format!(
            "mov.b64 %g0, %a0; mov.b64 %g1, %a1; mov.b64 %g2, %a2; {body} mov.b64 %d, %g3;"
        );
        (&*body.leak(), [d(a), d(b), d(c), 0], e)
    };
    check(&[
        f("add.f64 %g3, %g0, %g1;", 0.1, 0.2, 0.0, d(0.1 + 0.2)),
        f("add.rz.f64 %g3, %g0, %g1;", 0.1, 0.2, 0.0, d(0.1 + 0.2) - 1),
        f(
            "fma.rn.f64 %g3, %g0, %g1, %g2;",
            0.1,
            10.0,
            -1.0,
            d(0.1_f64.mul_add(10.0, -1.0)),
        ),
        f("div.rp.f64 %g3, %g0, %g1;", 1.0, 3.0, 0.0, d(1.0 / 3.0) + 1),
        f(
            "sqrt.rn.f64 %g3, %g0;",
            2.0,
            0.0,
            0.0,
            d(std::f64::consts::SQRT_2),
        ),
        f("min.f64 %g3, %g0, %g1;", f64::NAN, 4.0, 0.0, d(4.0)),
        f("neg.f64 %g3, %g0;", 4.0, 4.0, 0.0, d(-4.0)),
        f("mov.f64 %g3, 0d3FF8000000000000;", 4.0, 4.0, 0.0, d(1.5)),
    ]);
}

#[test]
fn half_precision() {
    let h = |body: &str, a: u64, b: u64, c: u64, e: u64| -> Row {
        let body = format!(
            "cvt.u16.u32 %h0, %r0; cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; {body} cvt.u64.u16 %d, %h3;"
        );
        (&*body.leak(), [a, b, c, 0], e)
    };
    check(&[
        h("add.f16 %h3, %h0, %h1;", 0x3C00, 0x4000, 0, 0x4200),
        h("sub.f16 %h3, %h0, %h1;", 0x3C00, 0x4000, 0, 0xBC00),
        h("mul.f16 %h3, %h0, %h1;", 0x4000, 0x4200, 0, 0x4600),
        h(
            "fma.rn.f16 %h3, %h0, %h1, %h2;",
            0x4000,
            0x4200,
            0x3C00,
            0x4700,
        ),
        h(
            "fma.rn.relu.f16 %h3, %h0, %h1, %h2;",
            0xC000,
            0x4200,
            0x3C00,
            0,
        ),
        h("neg.f16 %h3, %h0;", 0x3C00, 0, 0, 0xBC00),
        h("max.f16 %h3, %h0, %h1;", 0x7E00, 0x3C00, 0, 0x3C00),
        h("add.ftz.f16 %h3, %h0, %h1;", 0x0001, 0x0001, 0, 0),
        h(
            "fma.rn.bf16 %h3, %h0, %h1, %h2;",
            0x4000,
            0x4040,
            0x3F80,
            0x40E0,
        ),
        h("min.NaN.bf16 %h3, %h0, %h1;", 0x7FC0, 0x3F80, 0, 0x7FFF),
        (
            "add.f16x2 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;",
            [0x3C00_4000, 0x4000_3C00, 0, 0],
            0x4200_4200,
        ),
        (
            "fma.rn.bf16x2 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x3F80_4000, 0x4000_4000, 0, 0],
            0x4000_4080,
        ),
    ]);
}

#[test]
fn conversions() {
    check(&[
        ("cvt.s64.s32 %d, %r0;", [w(-5), 0, 0, 0], -5_i64 as u64),
        ("cvt.u64.u32 %d, %r0;", [w(-5), 0, 0, 0], w(-5)),
        (
            "cvt.s32.s8 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0x80, 0, 0, 0],
            w(-128),
        ),
        (
            "cvt.u32.u8 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0x1FF, 0, 0, 0],
            0xFF,
        ),
        (
            "cvt.sat.u8.s32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [w(-5), 0, 0, 0],
            0,
        ),
        (
            "cvt.sat.s8.s32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [300, 0, 0, 0],
            127,
        ),
        (
            "cvt.sat.s32.u32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [w(-1), 0, 0, 0],
            0x7FFF_FFFF,
        ),
        (
            "cvt.sat.u32.s64 %r0, %a0; cvt.u64.u32 %d, %r0;",
            [1 << 40, 0, 0, 0],
            w(-1),
        ),
        (
            "cvt.s8.s32 %r0, %r0; cvt.u64.u32 %d, %r0;",
            [0x180, 0, 0, 0],
            w(-128),
        ),
        (
            "mov.b32 %f0, %r0; cvt.rzi.s32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(-2.7), 0, 0, 0],
            w(-2),
        ),
        (
            "mov.b32 %f0, %r0; cvt.rni.s32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(2.5), 0, 0, 0],
            2,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rmi.s32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(-2.1), 0, 0, 0],
            w(-3),
        ),
        (
            "mov.b32 %f0, %r0; cvt.rpi.u32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(2.1), 0, 0, 0],
            3,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rzi.s32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(3.0e9), 0, 0, 0],
            0x7FFF_FFFF,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rzi.u32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(-3.0), 0, 0, 0],
            0,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rzi.s32.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [NAN32, 0, 0, 0],
            0,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rzi.s64.f32 %d, %f0;",
            [s(-3.9), 0, 0, 0],
            -3_i64 as u64,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rzi.u8.f32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(300.0), 0, 0, 0],
            255,
        ),
        (
            "mov.b64 %g0, %a0; cvt.rzi.s32.f64 %r0, %g0; cvt.u64.u32 %d, %r0;",
            [d(-7.9), 0, 0, 0],
            w(-7),
        ),
        (
            "cvt.rn.f32.s32 %f0, %r0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [w(-7), 0, 0, 0],
            s(-7.0),
        ),
        (
            "cvt.rn.f32.u32 %f0, %r0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [w(-1), 0, 0, 0],
            s(4294967296.0),
        ),
        (
            "cvt.rz.f32.u32 %f0, %r0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [w(-1), 0, 0, 0],
            0x4F7F_FFFF,
        ),
        (
            "cvt.rn.f64.u64 %g0, %a0; mov.b64 %d, %g0;",
            [u64::MAX, 0, 0, 0],
            d(18446744073709551616.0),
        ),
        (
            "cvt.rn.f32.u64 %f0, %a0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [u64::MAX, 0, 0, 0],
            s(18446744073709551616.0),
        ),
        (
            "mov.b64 %g0, %a0; cvt.rn.f32.f64 %f0, %g0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [d(0.1), 0, 0, 0],
            s(0.1),
        ),
        (
            "mov.b64 %g0, %a0; cvt.rz.f32.f64 %f0, %g0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [d(0.1), 0, 0, 0],
            s(0.1) - 1,
        ),
        (
            "mov.b32 %f0, %r0; cvt.f64.f32 %g0, %f0; mov.b64 %d, %g0;",
            [s(1.5), 0, 0, 0],
            d(1.5),
        ),
        (
            "mov.b32 %f0, %r0; cvt.rmi.f32.f32 %f0, %f0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(-1.5), 0, 0, 0],
            s(-2.0),
        ),
        (
            "mov.b32 %f0, %r0; cvt.sat.f32.f32 %f0, %f0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [s(7.0), 0, 0, 0],
            s(1.0),
        ),
        (
            "mov.b32 %f0, %r0; cvt.rn.f16.f32 %h0, %f0; cvt.u64.u16 %d, %h0;",
            [s(1.0e9), 0, 0, 0],
            0x7C00,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rn.f16.f32 %h0, %f0; cvt.u64.u16 %d, %h0;",
            [s(1.5), 0, 0, 0],
            0x3E00,
        ),
        (
            "mov.b32 %f0, %r0; cvt.rn.bf16.f32 %h0, %f0; cvt.u64.u16 %d, %h0;",
            [s(1.5), 0, 0, 0],
            0x3FC0,
        ),
        (
            "cvt.u16.u32 %h0, %r0; cvt.f32.f16 %f0, %h0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [0x3E00, 0, 0, 0],
            s(1.5),
        ),
        (
            "cvt.u16.u32 %h0, %r0; cvt.f32.bf16 %f0, %h0; mov.b32 %r0, %f0; cvt.u64.u32 %d, %r0;",
            [0x3FC0, 0, 0, 0],
            s(1.5),
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; cvt.rn.f16x2.f32 %r0, %f0, %f1; cvt.u64.u32 %d, %r0;",
            [s(1.0), s(2.0), 0, 0],
            0x3C00_4000,
        ),
        (
            "mov.b32 %f0, %r0; mov.b32 %f1, %r1; cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1; cvt.u64.u16 %d, %h0;",
            [s(1.0), s(2.0), 0, 0],
            0x3840,
        ),
        (
            "cvt.rn.f16.s32 %h0, %r0; cvt.u64.u16 %d, %h0;",
            [w(-2), 0, 0, 0],
            0xC000,
        ),
        (
            "cvt.u16.u32 %h0, %r0; cvt.rzi.s32.f16 %r0, %h0; cvt.u64.u32 %d, %r0;",
            [0xC100, 0, 0, 0],
            w(-2),
        ),
    ]);
}

#[test]
fn moves() {
    check(&[
        (
            "mov.b64 {%r4, %r5}, %a0; mov.b64 %d, {%r5, %r4};",
            [0x1_0000_0002, 0, 0, 0],
            0x2_0000_0001,
        ),
        (
            "mov.b32 {%h0, %h1}, %r0; mov.b32 %r1, {%h1, %h0}; cvt.u64.u32 %d, %r1;",
            [0x1234_5678, 0, 0, 0],
            0x5678_1234,
        ),
        (
            "mov.b32 %f0, %r0; mov.f32 %f1, %f0; mov.b32 %r1, %f1; cvt.u64.u32 %d, %r1;",
            [0xFFFF_FFFF, 0, 0, 0],
            0xFFFF_FFFF,
        ),
        (
            "mov.u32 %r0, %ntid.x; mov.u32 %r1, %laneid; mov.b64 %d, {%r0, %r1};",
            [0; 4],
            1,
        ),
        ("mov.u32 %r0, WARP_SZ; cvt.u64.u32 %d, %r0;", [0; 4], 32),
        ("mov.u32 %r0, %lanemask_le; cvt.u64.u32 %d, %r0;", [0; 4], 1),
        (
            "cvt.u16.u32 %h0, %r0; mov.b64 %d, {%h0, %h0, %h0, %h0};",
            [0xABCD, 0, 0, 0],
            0xABCD_ABCD_ABCD_ABCD,
        ),
    ]);
}

#[test]
fn guards_and_control() {
    check(&[
        (
            "setp.eq.u32 %p0, %r0, 1; mov.u64 %d, 5; @%p0 mov.u64 %d, 6;",
            [1, 0, 0, 0],
            6,
        ),
        (
            "setp.eq.u32 %p0, %r0, 1; mov.u64 %d, 5; @!%p0 mov.u64 %d, 6;",
            [1, 0, 0, 0],
            5,
        ),
        // The guard's own register changes under it.
        (
            "setp.eq.u32 %p0, %r0, 1; mov.u64 %d, 5; @%p0 div.u32 %r2, %r0, 1; @%p0 setp.eq.u32 %p0, %r0, 2; @%p0 mov.u64 %d, 7;",
            [1, 0, 0, 0],
            5,
        ),
        (
            "mov.u32 %r4, 0; mov.u32 %r5, 0; L: add.u32 %r5, %r5, %r4; add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, %r0; @%p0 bra L; cvt.u64.u32 %d, %r5;",
            [10, 0, 0, 0],
            45,
        ),
        (
            "setp.eq.u32 %p0, %r0, 1; @%p0 bra A; mov.u64 %d, 1; bra.uni B; A: mov.u64 %d, 2; B: add.u64 %d, %d, 10;",
            [1, 0, 0, 0],
            12,
        ),
        (
            "T: .branchtargets A, B, C; brx.idx %r0, T; A: mov.u64 %d, 1; bra E; B: mov.u64 %d, 2; bra E; C: mov.u64 %d, 3; E:",
            [2, 0, 0, 0],
            3,
        ),
        (
            "{ .reg .pred q; setp.eq.u32 q, %r0, 3; @q bra X; mov.u64 %d, 1; X: } { .reg .pred q; setp.eq.u32 q, %r0, 4; @q bra X; add.u64 %d, %d, 1; X: }",
            [3, 0, 0, 0],
            1,
        ),
    ]);
}

#[test]
fn memory_spaces() {
    check(&[
        (
            "{ .shared .align 8 .b8 m[64]; st.shared.u64 [m+8], %a0; mov.u32 %r4, m; ld.shared.u64 %d, [%r4+8]; }",
            [0x1234_5678_9ABC_DEF0, 0, 0, 0],
            0x1234_5678_9ABC_DEF0,
        ),
        (
            "{ .local .align 8 .b8 m[64]; .reg .b64 p, q; mov.u64 p, m; cvta.local.u64 q, p; st.u32 [q+12], %r0; ld.local.u32 %r1, [p+12]; cvt.u64.u32 %d, %r1; }",
            [77, 0, 0, 0],
            77,
        ),
        (
            "{ .shared .align 8 .b8 m[64]; .reg .b64 p; mov.u64 p, m; cvta.shared.u64 p, p; st.v2.u32 [p], {%r0, %r1}; ld.shared.u64 %d, [m]; isspacep.shared %p0, p; @!%p0 mov.u64 %d, 0; }",
            [1, 2, 0, 0],
            2 << 32 | 1,
        ),
        (
            "st.global.u8 [%out], %r0; ld.global.s8 %r1, [%out]; cvt.s64.s32 %d, %r1;",
            [0x80, 0, 0, 0],
            -128_i64 as u64,
        ),
        (
            "st.global.u16 [%out+2], %r0; ld.global.u16 %h0, [%out+2]; cvt.u64.u16 %d, %h0;",
            [0x1_8001, 0, 0, 0],
            0x8001,
        ),
        (
            "st.volatile.global.u32 [%out], %r0; fence.sc.gpu; ld.acquire.gpu.global.u32 %r1, [%out]; cvt.u64.u32 %d, %r1;",
            [9, 0, 0, 0],
            9,
        ),
        (
            "{ .shared .align 16 .b8 m[16]; .reg .b32 p; mov.u32 p, m; cp.async.ca.shared.global [p], [%in+8], 8; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u64 %d, [m]; }",
            [1, 42, 0, 0],
            42,
        ),
        (
            "{ .shared .align 16 .b8 m[16]; .reg .b32 p; mov.u32 p, m; st.shared.u64 [m+8], %a0; cp.async.cg.shared.global [p], [%in], 16, 4; ld.shared.v2.u64 {%d, %x0}, [m]; add.u64 %d, %d, %x0; }",
            [0x5_0000_0007, 0, 0, 0],
            7,
        ),
    ]);
}

#[test]
fn atomics() {
    let a = |op: &str, old: u64, b: u64, c: u64, e: u64| -> Row {
        let body = format!(
            "st.global.u64 [%out], %a0; {op} ld.global.u64 %x1, [%out]; shl.b64 %d, %d, 32; or.b64 %d, %d, %x1;"
        );
        (&*body.leak(), [old, b, c, 0], e)
    };
    let r = |op: &str, old: u64, b: u64, c: u64, new: u64| -> Row {
        let op = format!("{op} cvt.u64.u32 %d, %r4;");
        a(&op, old, b, c, old << 32 | new)
    };
    check(&[
        r("atom.global.add.u32 %r4, [%out], %r1;", 5, 3, 0, 8),
        r("atom.global.min.s32 %r4, [%out], %r1;", 5, w(-3), 0, w(-3)),
        r("atom.global.min.u32 %r4, [%out], %r1;", 5, w(-3), 0, 5),
        r("atom.global.and.b32 %r4, [%out], %r1;", 6, 3, 0, 2),
        r("atom.global.exch.b32 %r4, [%out], %r1;", 6, 3, 0, 3),
        r("atom.global.cas.b32 %r4, [%out], %r1, %r2;", 6, 6, 9, 9),
        r("atom.global.cas.b32 %r4, [%out], %r1, %r2;", 6, 5, 9, 6),
        r("atom.global.inc.u32 %r4, [%out], %r1;", 6, 6, 0, 0),
        r("atom.global.inc.u32 %r4, [%out], %r1;", 5, 6, 0, 6),
        r("atom.global.dec.u32 %r4, [%out], %r1;", 0, 6, 0, 6),
        r("atom.global.dec.u32 %r4, [%out], %r1;", 9, 6, 0, 6),
        r(
            "mov.b32 %f0, %r1; atom.global.add.f32 %f1, [%out], %f0; mov.b32 %r4, %f1;",
            s(1.0),
            s(2.0),
            0,
            s(3.0),
        ),
        r(
            "atom.global.add.noftz.f16x2 %r4, [%out], %r1;",
            0x3C00_3C00,
            0x4000_3C00,
            0,
            0x4200_4000,
        ),
        a(
            "red.global.add.u64 [%out], %a1;",
            5,
            1 << 32,
            0,
            1 << 32 | 5,
        ),
        a(
            "mov.b64 %g0, %a1; atom.global.add.f64 %g1, [%out], %g0; mov.u64 %d, 0;",
            d(1.0),
            d(2.0),
            0,
            d(3.0),
        ),
        a(
            "cvt.u16.u32 %h0, %r1; cvt.u16.u32 %h1, %r2; atom.global.cas.b16 %h2, [%out], %h0, %h1; cvt.u64.u16 %d, %h2;",
            7,
            7,
            9,
            7 << 32 | 9,
        ),
    ]);
}

#[test]
fn video() {
    check(&[
        (
            "vabsdiff4.u32.u32.u32.add %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x0102_0304, 0x0401_0302, 5, 0],
            11,
        ),
        (
            "vadd4.u32.u32.u32.sat %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0x0102_03FF, 0x0401_0302, 5, 0],
            0x0503_06FF,
        ),
        (
            "vmax2.s32.s32.s32 %r0, %r0, %r1, %r2; cvt.u64.u32 %d, %r0;",
            [0xFFFF_0004, 0x0001_0003, 0, 0],
            0x0001_0004,
        ),
        (
            "vadd.s32.u32.u32 %r0, %r0.b1, %r1.h1; cvt.u64.u32 %d, %r0;",
            [0x0000_1200, 0x0003_0000, 0, 0],
            0x15,
        ),
        (
            "vmad.u32.u32.u32 %r0, %r0.b0, %r1.b0, %r2; cvt.u64.u32 %d, %r0;",
            [0x103, 5, 100, 0],
            115,
        ),
    ]);
}

/// What cannot be run is named, with its line.
#[test]
fn refusals() {
    let source = kernel("mov.u64 %d, 1;\nmbarrier.init.shared.b64 [%r0], 1;");
    let error = compile(&source, &CompileOptions::default()).unwrap_err();
    let line = source.lines().position(|l| l.contains("mbarrier")).unwrap() as u32 + 1;
    assert_eq!(error.problems.len(), 1);
    assert_eq!(error.problems[0].line, line);
    assert!(
        error.to_string().contains("mbarrier.init.shared.b64"),
        "{error}"
    );
}

#[test]
fn faults() {
    let fault = |body: &str| {
        let input = [0_u8; 32];
        run(&kernel(body), 1, &input, 8).unwrap_err()
    };
    let text = fault("ld.global.u32 %r4, [%out+8];");
    assert!(text.contains("8") && !text.is_empty(), "{text}");
    assert_ne!(fault("ld.global.u32 %r4, [%out+2];"), text);
    fault("st.global.u32 [%a0], %r0;");
    fault("{ .shared .align 4 .b8 m[4]; mov.u32 %r4, m; st.shared.u32 [%r4+4], %r0; }");
    fault("trap;");
    fault("T: .branchtargets A; mov.u32 %r4, 1; brx.idx %r4, T; A:");
}
