//! The kernels: PTX of the instructions, CUDA C++ of the library's functions.
//!
//! A kernel of one `f32` makes its inputs: thread i has the bits `256 i + part`, so that each part
//! is spread over all values. Others read up to three arrays.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::row::{Code, Row};

/// Whether the kernel makes its own inputs.
pub fn makes_inputs(row: &Row) -> bool {
    row.reference.inputs() == 1 && !row.reference.is_double()
}

pub fn cuda(rows: &[Row]) -> String {
    let mut out = String::from("// Made by `accuracy --source`.\n");
    let mut known = BTreeSet::new();
    for row in rows {
        let Code::Library(expression) = row.code else {
            continue;
        };
        if !known.insert(row.symbol()) {
            continue;
        }
        let name = row.symbol();
        let index = "unsigned i = blockIdx.x * blockDim.x + threadIdx.x;";
        // Writing to a String cannot fail.
        let _ = if makes_inputs(row) {
            writeln!(
                out,
                "extern \"C\" __global__ void {name}(float *out, unsigned part) {{ {index} \
                 float a = __uint_as_float((i << 8) + part); out[i] = {expression}; }}"
            )
        } else {
            let float = if row.reference.is_double() {
                "double"
            } else {
                "float"
            };
            let inputs = &["a", "b", "c"][..row.reference.inputs()];
            let read: String = inputs
                .iter()
                .map(|name| format!("{float} {name} = p{name}[i]; "))
                .collect();
            writeln!(
                out,
                "extern \"C\" __global__ void {name}({float} *out, const {float} *pa, \
                 const {float} *pb, const {float} *pc) {{ {index} {read}out[i] = {expression}; }}"
            )
        };
    }
    out
}

/// The module of a row that is an instruction.
pub fn ptx(row: &Row) -> Option<String> {
    let Code::Instruction(text) = row.code else {
        return None;
    };
    let head = match text.contains("bf16") {
        true => ".version 7.8\n.target sm_90",
        false => ".version 7.0\n.target sm_75",
    };
    let name = row.symbol();
    let (ty, size, letter) = match row.reference.is_double() {
        true => ("f64", 8, 'd'),
        false => ("f32", 4, 'f'),
    };
    let mut body = String::new();
    let parameters = if makes_inputs(row) {
        body += "\tld.param.u32 %part, [part];\n\tshl.b32 %bits, %i, 8;\n\
                 \tadd.u32 %bits, %bits, %part;\n\tmov.b32 %fa, %bits;\n";
        ".param .u32 part"
    } else {
        for input in &["a", "b", "c"][..row.reference.inputs()] {
            // Writing to a String cannot fail.
            let _ = writeln!(
                body,
                "\tld.param.u64 %p, [p{input}];\n\tcvta.to.global.u64 %p, %p;\n\
                 \tmad.wide.u32 %p, %i, {size}, %p;\n\tld.global.{ty} %{letter}{input}, [%p];"
            );
        }
        ".param .u64 pa, .param .u64 pb, .param .u64 pc"
    };
    Some(format!(
        "{head}\n.address_size 64\n\n.visible .entry {name}(.param .u64 out, {parameters})\n{{\n\
         \t.reg .b32 %i, %block, %size, %part, %bits;\n\t.reg .b64 %p;\n\t.reg .b16 %h;\n\
         \t.reg .f32 %fa, %fb, %fc, %fd;\n\t.reg .f64 %da, %db, %dc, %dd;\n\
         \tmov.u32 %block, %ctaid.x;\n\tmov.u32 %size, %ntid.x;\n\tmov.u32 %i, %tid.x;\n\
         \tmad.lo.u32 %i, %block, %size, %i;\n{body}\t{text}\n\
         \tld.param.u64 %p, [out];\n\tcvta.to.global.u64 %p, %p;\n\
         \tmad.wide.u32 %p, %i, {size}, %p;\n\tst.global.{ty} [%p], %{letter}d;\n\tret;\n}}\n"
    ))
}
