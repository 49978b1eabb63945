//! What instructions compute on the CPU device: PTX in, numbers out.
#![cfg(feature = "cpu")]

use std::sync::Arc;

use ptxkit::cpu::blob::Image;
use ptxkit::cpu::code::LoadedModule;
use ptxkit::cpu::memory::{DeviceMemory, Purpose};
use ptxkit::cpu::run::{Engine, LaunchShape};
use ptxkit::cpu::{CompileOptions, compile};

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
    let blob = compile(source, &CompileOptions::default()).map_err(|e| e.to_string())?;
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

#[test]
fn one_instruction() {
    let source = kernel("add.u32 %r0, %r0, %r1; cvt.u64.u32 %d, %r0;");
    let input: Vec<u8> = [7_u64, 8, 0, 0]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let out = run(&source, 1, &input, 8).unwrap();
    assert_eq!(u64::from_le_bytes(out.try_into().unwrap()), 15);
}
