//! A declared kernel beside the `.entry` of its name: what can be told without the sizes of
//! Rust's types, which the library compares when they are known.

use std::cmp::Reverse;

use proc_macro::Literal;
use ptx::ast::Space;
use ptx::diagnostic::distance;
use ptx::names::Type;
use ptx::signature::{KernelSignature, ParamSignature};

use crate::declaration::{Kernel, Parameter, Written};
use crate::failure::Failure;
use crate::source::Source;
use crate::tokens::text_of;

/// So many kernels of a module are listed.
const MAX_LISTED: usize = 12;

/// So many bytes of names are compared: the time grows with their square.
const MAX_COMPARED: usize = 100;

/// So many parameters has a launch, as the library says it.
const MAX_PARAMETERS: usize = 32;

/// What every device allows a block: threads in all, and in x, y and z.
const MAX_THREADS: u64 = 1024;
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

/// The `.entry` of a declared kernel, if all agrees.
pub fn of<'s>(kernel: &Kernel, source: &'s Source) -> Result<&'s KernelSignature, Failure> {
    let name = link_name(kernel);
    let written = kernel.link_name.as_ref().map(Literal::span);
    let span = written.unwrap_or_else(|| kernel.name.span());
    let Some(entry) = source.kernels.iter().find(|entry| entry.name == name) else {
        return Err(Failure::new(unknown(&name, source), span));
    };
    let mut failures = Vec::new();
    if let Some((block, span)) = &kernel.block
        && let Some(why) = wrong_block(*block, entry)
    {
        failures.push(Failure::new(
            format!("{why} ({})", place(source, entry.line)),
            *span,
        ));
    }
    if kernel.parameters.len() > MAX_PARAMETERS {
        let why = format!(
            "a kernel that is declared takes at most {MAX_PARAMETERS} parameters: `launch!` takes \
             any number"
        );
        failures.push(Failure::new(why, kernel.name.span()));
    }
    let declared: usize = kernel
        .parameters
        .iter()
        .map(Parameter::entry_parameters)
        .sum();
    if declared != entry.params.len() {
        let has_slice = kernel.parameters.len() < declared;
        let message = format!(
            "`{name}` takes {}, and {declared} are declared{}:\n{}",
            counted(entry.params.len()),
            if has_slice {
                " (`&[T]` is an address and a length)"
            } else {
                ""
            },
            signature(entry, source)
        );
        failures.push(Failure::new(message, kernel.name.span()));
    } else {
        failures.extend(wrong_kinds(kernel, entry, source));
    }
    Failure::of(failures)?;
    Ok(entry)
}

/// Parameters that are declared as something else than they are.
fn wrong_kinds(kernel: &Kernel, entry: &KernelSignature, source: &Source) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut params = entry.params.iter();
    for parameter in &kernel.parameters {
        for (index, param) in params
            .by_ref()
            .take(parameter.entry_parameters())
            .enumerate()
        {
            let is_address = parameter.written != Written::Value && index == 0;
            if let Some(why) = wrong_kind(parameter, param, is_address, kernel.is_safe) {
                let param = declared_as(param, source);
                failures.push(Failure::new(format!("{param} {why}"), parameter.span));
            }
        }
    }
    failures
}

impl Parameter {
    /// How many parameters of the `.entry` it stands for.
    pub fn entry_parameters(&self) -> usize {
        1 + usize::from(self.written == Written::Slice)
    }
}

/// A parameter and where it stands.
pub fn declared_as(param: &ParamSignature, source: &Source) -> String {
    format!("`{}` ({})", text(param), place(source, param.line))
}

/// Where it stands: `vector.ptx:7`.
pub fn place(source: &Source, line: u32) -> String {
    format!("{}:{line}", source.file)
}

/// `.entry vecadd(.param .u64 a, .param .u32 n)`
pub fn heading(entry: &KernelSignature) -> String {
    let params: Vec<_> = entry.params.iter().map(text).collect();
    format!(".entry {}({})", entry.name, params.join(", "))
}

fn signature(entry: &KernelSignature, source: &Source) -> String {
    let params = entry.params.iter().map(text);
    let params: String = params.map(|param| format!("    {param}\n")).collect();
    format!(
        "{}: .entry {}(\n{params})",
        place(source, entry.line),
        entry.name
    )
}

fn text(param: &ParamSignature) -> String {
    let mut text = ".param".to_owned();
    // A scalar has the alignment of its type.
    if param.dims.is_some() {
        text += &format!(" .align {}", param.align);
    }
    if param.vector > 1 {
        text += &format!(" .v{}", param.vector);
    }
    text += &format!(" .{}", param.ty.text());
    if let Some(pointer) = param.pointer {
        text += " .ptr";
        if let Some(space) = pointer.space {
            text += &format!(" .{}", space.text());
        }
        if let Some(align) = pointer.align {
            text += &format!(" .align {align}");
        }
    }
    text += &format!(" {}", param.name);
    if let Some(bytes) = param.dims {
        text += &format!("[{bytes}]");
    }
    text
}

/// Why a parameter is not what it is declared as: an address where there is none, a number
/// in place of an address.
fn wrong_kind(
    parameter: &Parameter,
    param: &ParamSignature,
    is_address: bool,
    is_safe: bool,
) -> Option<String> {
    let ty = text_of(&parameter.ty);
    match param.pointer {
        Some(pointer) if is_address => match pointer.space? {
            Space::Global => None,
            space => Some(format!(
                "is an address in `.{}`, and a `DeviceSlice` lies in `.global`",
                space.text()
            )),
        },
        Some(_) if is_safe => Some(
            "is an address, and any number may be passed for a number: declare a slice, or the \
             kernel without `safe`"
                .to_owned(),
        ),
        _ if is_safe && ty.rsplit("::").next() == Some("DevicePointer") => Some(
            "is declared as any address, at which nothing need be: declare a slice, or the kernel \
             without `safe`"
                .to_owned(),
        ),
        _ if is_address || param.dims.is_some() || param.vector > 1 => None,
        _ => {
            let is_float = match ty.as_str() {
                "f32" | "f64" => true,
                "u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64" | "usize" | "isize"
                | "DevicePointer" => false,
                _ => return None,
            };
            // `.b32` is any 32 bits.
            match param.ty {
                Type::F32 | Type::F64 if !is_float => Some(format!("is a float, not `{ty}`")),
                Type::U32 | Type::S32 | Type::U64 | Type::S64 if is_float => {
                    Some(format!("is an integer, not `{ty}`"))
                }
                _ => None,
            }
        }
    }
}

/// Why no launch with such blocks is possible.
fn wrong_block(block: [u32; 3], entry: &KernelSignature) -> Option<String> {
    let threads = block.iter().map(|n| u64::from(*n)).product::<u64>();
    let shape = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
    if block.contains(&0) {
        return Some("a block has at least one thread in x, y and z".to_owned());
    }
    if let Some(required) = entry.required_threads
        && required != block
    {
        return Some(format!(
            "`{}` requires blocks of {} threads (`.reqntid`), not {}",
            entry.name,
            shape(required),
            shape(block)
        ));
    }
    if let Some(most) = entry.max_threads {
        let most = most.iter().map(|n| u64::from(*n)).product::<u64>();
        if threads > most {
            return Some(format!(
                "`{}` takes at most {most} threads in a block (`.maxntid`), not {threads}",
                entry.name
            ));
        }
    }
    let is_large = block
        .iter()
        .zip(MAX_BLOCK)
        .any(|(given, most)| *given > most);
    (is_large || threads > MAX_THREADS).then(|| {
        format!(
            "no device has blocks of {} threads: at most {MAX_THREADS} in all, and {} in x, y, z",
            shape(block),
            shape(MAX_BLOCK)
        )
    })
}

/// There is no kernel of this name: those that there are, the likeliest first.
fn unknown(name: &str, source: &Source) -> String {
    let mut names: Vec<&str> = source.kernels.iter().map(|entry| &entry.name[..]).collect();
    if names.is_empty() {
        return format!("{} has no kernels", source.file);
    }
    // nvcc's names of C++ functions have it within.
    names.sort_by_cached_key(|known| {
        let short = |name: &str| name.as_bytes()[..name.len().min(MAX_COMPARED)].to_vec();
        (
            Reverse(known.contains(name)),
            distance(&short(name), &short(known)),
        )
    });
    let listed: String = names
        .iter()
        .take(MAX_LISTED)
        .map(|name| format!("\n    {name}"))
        .collect();
    let more = match names.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!("\n    and {more} more"),
    };
    let help = if names[0].starts_with("_Z") && names[0].contains(name) {
        format!(
            "\n#[link_name = \"{}\"] declares the first under this name",
            names[0]
        )
    } else {
        String::new()
    };
    format!(
        "no kernel `{name}` in {}, which has:{listed}{more}{help}",
        source.file
    )
}

fn counted(parameters: usize) -> String {
    match parameters {
        0 => "no parameters".to_owned(),
        1 => "1 parameter".to_owned(),
        more => format!("{more} parameters"),
    }
}

/// The name of a kernel in the PTX.
pub fn link_name(kernel: &Kernel) -> String {
    match &kernel.link_name {
        Some(literal) => literal.to_string().trim_matches('"').to_owned(),
        None => kernel.name.to_string(),
    }
}
