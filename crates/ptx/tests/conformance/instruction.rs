//! Modules of one instruction.
//!
//! A module declares just what its instruction names, so that nothing else can
//! be wrong with it. Names say what they are: `b32_1` is a register of type
//! `.b32`, `global_1` a variable in `.global`, `texref_1` a texture.

use std::collections::BTreeSet;

/// Types of registers.
const REGISTERS: [&str; 18] = [
    "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s16", "s32", "s64",
    "f16", "f16x2", "f32", "f64", "s8",
];

/// The text of a module with this instruction and nothing else.
pub fn module(version: &str, target: &str, instruction: &str) -> String {
    let mut outside = String::new();
    let mut inside = String::new();
    let mut parameters = "";
    for name in names(instruction) {
        let Some((kind, _)) = name.rsplit_once('_') else {
            continue;
        };
        if REGISTERS.contains(&kind) {
            inside += &format!(".reg .{kind} {name};\n");
            continue;
        }
        match kind {
            "global" | "const" => outside += &format!(".{kind} .align 16 .b8 {name}[64];\n"),
            "shared" | "local" => inside += &format!(".{kind} .align 16 .b8 {name}[64];\n"),
            "texref" | "samplerref" | "surfref" => outside += &format!(".global .{kind} {name};\n"),
            "param" => parameters = ".param .align 16 .b8 param_1[64]",
            "label" => inside += &format!("{name}:\n"),
            "list" => inside += &format!("there:\n{name}: .branchtargets there;\n"),
            "function" => outside += &format!(".func {name}() {{ ret; }}\n"),
            "prototype" => inside += &format!("{name}: .callprototype _ ();\n"),
            _ => {}
        }
    }
    // Older versions have no `.address_size`, and addresses of 32 bits.
    let numbers = version
        .split_once('.')
        .map(|(major, minor)| (major.parse(), minor.parse()));
    let old = matches!(numbers, Some((Ok(major), Ok(minor))) if (major, minor) < (2_u32, 3_u32));
    let address_size = if old { "" } else { ".address_size 64\n" };
    format!(
        ".version {version}\n.target {target}\n{address_size}{outside}\
         .entry kernel({parameters})\n{{\n{inside}{instruction}\n}}\n"
    )
}

/// The identifiers of an instruction, each once.
fn names(instruction: &str) -> BTreeSet<&str> {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    instruction
        .split(|c: char| !part_of_name(c))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
        .collect()
}
