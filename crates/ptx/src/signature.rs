//! Kernel signatures for launches: parameters, their layout, and limits.

use std::collections::{HashMap, HashSet};

use super::ast::{
    AddressBase, Body, Function, FunctionKind, Initializer, Item, Module, Name, Operand,
    PointerAttribute, Space, Statement, Variable,
};

use super::diagnostic::LineIndex;
use super::names::Type;

/// The signature of an `.entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelSignature {
    /// The name for `cuModuleGetFunction`, which may be mangled.
    pub name: String,
    /// Line of the name in the source, from 1.
    pub line: u32,
    /// In argument order.
    pub params: Vec<ParamSignature>,
    /// The size of the parameter buffer in bytes, including padding.
    pub param_bytes: u32,
    /// `.maxntid`: the product is the maximum number of threads of a block.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`: the required dimensions of a block.
    pub required_threads: Option<[u32; 3]>,
    /// The size of the `.shared` variables that the kernel and the functions it calls use,
    /// in bytes.
    pub static_shared: u32,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamSignature {
    /// The declared name: `vecadd_param_0` from nvcc.
    pub name: String,
    /// Line of the name in the source, from 1.
    pub line: u32,
    /// The type of one element; `.b8` for a structure.
    pub ty: Type,
    /// 1, or 2, 4, 8 for `.v2`, `.v4`, `.v8`.
    pub vector: u8,
    /// The size of an array in bytes; `None` for a scalar. Structures are arrays of `.b8`.
    pub dims: Option<u64>,
    /// The offset in the parameter buffer in bytes.
    pub offset: u32,
    /// The size in bytes.
    pub size: u32,
    /// The alignment in bytes.
    pub align: u32,
    /// Its `.ptr`: it is an address.
    pub pointer: Option<PointerAttribute>,
}

/// The size and alignment of a variable in bytes (PTX ISA, "Variables"). The alignment
/// is that of `.align`, or by default that of one vector.
///
/// A size that overflows 64 bits is `u64::MAX`. `[]` has zero elements, or those of its
/// initializer.
pub fn layout(variable: &Variable<'_>) -> (u64, u64) {
    let element = variable
        .ty
        .bytes()
        .saturating_mul(u64::from(variable.vector));
    let initialised = match &variable.init {
        Some(Initializer::List(list)) => list.len() as u64,
        _ => 0,
    };
    let size = variable
        .dims
        .iter()
        .map(|dim| dim.unwrap_or(initialised))
        .fold(element, u64::saturating_mul);
    let align = variable.align.map_or(element, u64::from);
    (size, align.max(1))
}

/// The size of the parameters of a function in bytes, including padding.
pub(crate) fn parameter_bytes(function: &Function<'_>) -> u64 {
    function.params.iter().fold(0, after)
}

/// The first offset with this alignment at or after `end`.
fn aligned(end: u64, align: u64) -> u64 {
    end.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

fn clamp(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The kernels of a module, in source order.
///
/// ```
/// use ptxkit_ptx::{read, signature::signatures};
/// let source = ".version 8.0\n.target sm_80\n.address_size 64\n\
///     .entry k(.param .u32 n, .param .u64 out) { ret; }";
/// let kernels = signatures(&read(source).module, source);
/// assert_eq!((kernels[0].params[1].offset, kernels[0].param_bytes), (8, 16));
/// ```
pub fn signatures(module: &Module<'_>, source: &str) -> Vec<KernelSignature> {
    let lines = LineIndex::new(source);
    let shared = SharedMemory::new(module);
    functions(module)
        .filter(|function| function.kind == FunctionKind::Entry)
        .filter_map(|function| {
            let body = function.body.as_ref()?;
            Some(signature(function, shared.reached_from(body), &lines))
        })
        .collect()
}

/// The shared memory that each kernel of a module can reach, in bytes.
pub(crate) fn static_shared<'m, 'a>(
    module: &'m Module<'a>,
) -> impl Iterator<Item = (&'m Function<'a>, u64)> {
    let shared = SharedMemory::new(module);
    functions(module)
        .filter(|function| function.kind == FunctionKind::Entry)
        .filter_map(move |function| Some((function, shared.reached_from(function.body.as_ref()?))))
}

fn functions<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Function<'a>> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    })
}

fn signature(
    function: &Function<'_>,
    static_shared: u64,
    lines: &LineIndex<'_>,
) -> KernelSignature {
    let mut end = 0;
    let params = function
        .params
        .iter()
        .map(|param| {
            let (size, align) = layout(param);
            let offset = aligned(end, align);
            end = offset.saturating_add(size);
            ParamSignature {
                name: param.name.text.to_owned(),
                line: lines.locate(param.name.span(lines.source()).start).line,
                ty: param.ty,
                vector: param.vector,
                dims: (!param.dims.is_empty()).then_some(size),
                offset: clamp(offset),
                size: clamp(size),
                align: clamp(align),
                pointer: param.pointer,
            }
        })
        .collect();
    KernelSignature {
        name: function.name.text.to_owned(),
        line: lines.locate(function.name.span(lines.source()).start).line,
        params,
        param_bytes: clamp(end),
        max_threads: shape(function, "maxntid"),
        required_threads: shape(function, "reqntid"),
        static_shared: clamp(static_shared),
    }
}

/// The three values of a directive; omitted ones are 1.
fn shape(function: &Function<'_>, name: &str) -> Option<[u32; 3]> {
    let directive = function.directives.iter().find(|d| d.name == name)?;
    let number = |index| directive.values.get(index).copied().unwrap_or(1);
    Some([number(0), number(1), number(2)])
}

/// Computes the `.shared` variables that a function can reach.
struct SharedMemory<'m, 'a> {
    variables: HashMap<&'a str, &'m Variable<'a>>,
    functions: HashMap<&'a str, &'m Body<'a>>,
}

impl<'m, 'a> SharedMemory<'m, 'a> {
    fn new(module: &'m Module<'a>) -> Self {
        let variables = module.items.iter().filter_map(|item| match item {
            Item::Variable(v) if v.space == Space::Shared => Some((v.name.text, v)),
            _ => None,
        });
        SharedMemory {
            variables: variables.collect(),
            functions: functions(module)
                .filter_map(|f| Some((f.name.text, f.body.as_ref()?)))
                .collect(),
        }
    }

    /// The size of the variables that `body` and its callees use, in bytes.
    fn reached_from(&self, body: &'m Body<'a>) -> u64 {
        let mut visited = HashSet::new();
        let mut open = vec![body];
        let mut end = 0;
        while let Some(body) = open.pop() {
            let own = body
                .statements
                .iter()
                .filter_map(|statement| match statement {
                    Statement::Variable(v) if v.space == Space::Shared => Some(v.as_ref()),
                    _ => None,
                });
            for variable in own {
                end = after(end, variable);
            }
            for name in body.operands.iter().filter_map(named) {
                if !visited.insert(name.text) {
                    continue;
                }
                if let Some(variable) = self.variables.get(name.text) {
                    end = after(end, variable);
                }
                open.extend(self.functions.get(name.text));
            }
        }
        end
    }
}

/// The end of a variable that is laid out after `end`.
pub fn after(end: u64, variable: &Variable<'_>) -> u64 {
    let (size, align) = layout(variable);
    aligned(end, align).saturating_add(size)
}

/// The name in an operand that may refer to a variable or function.
fn named<'a>(operand: &Operand<'a>) -> Option<Name<'a>> {
    match *operand {
        Operand::Name(name)
        | Operand::Offset { name, .. }
        | Operand::Address {
            base: AddressBase::Name(name),
            ..
        } => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn kernels(source: &str) -> Vec<KernelSignature> {
        let reading = read(source);
        assert_eq!(reading.diagnostics, []);
        signatures(&reading.module, source)
    }

    #[test]
    fn parameters_are_aligned() {
        let kernels = kernels(
            ".entry k(.param .u8 c, .param .align 16 .b8 s[20], .param .u16 h,\n\
             .param .v4 .f32 v, .param .u64 .ptr .global .align 4 p) { ret; }",
        );
        let places: Vec<_> = kernels[0]
            .params
            .iter()
            .map(|p| (p.offset, p.size, p.align))
            .collect();
        assert_eq!(
            places,
            [
                (0, 1, 1),
                (16, 20, 16),
                (36, 2, 2),
                (48, 16, 16),
                (64, 8, 8)
            ]
        );
        assert_eq!(kernels[0].param_bytes, 72);
        assert_eq!(kernels[0].params[1].dims, Some(20));
        let spaces: Vec<_> = kernels[0]
            .params
            .iter()
            .map(|p| p.pointer.map(|pointer| pointer.space))
            .collect();
        assert_eq!(spaces, [None, None, None, None, Some(Some(Space::Global))]);
        assert_eq!(
            (kernels[0].params[2].line, kernels[0].params[3].line),
            (1, 2)
        );
    }

    #[test]
    fn limits_and_lines() {
        let kernels = kernels(
            ".func f() { ret; }\n.entry a .maxntid 64, 2 { ret; }\n\n.entry b() .reqntid 8,4,2 { ret; }",
        );
        assert_eq!(kernels.len(), 2);
        assert_eq!(
            (kernels[0].line, kernels[0].max_threads),
            (2, Some([64, 2, 1]))
        );
        assert_eq!(
            (kernels[1].line, kernels[1].required_threads),
            (4, Some([8, 4, 2]))
        );
    }

    #[test]
    fn shared_memory_is_counted_through_calls() {
        let kernels = kernels(
            ".shared .b8 a[3];\n.shared .f64 b;\n.shared .b8 unused[99];\n.extern .shared .b8 d[];\n\
             .func f() { .reg .f64 x; ld.shared.f64 x, [b]; call f; ret; }\n\
             .entry k() { .shared .b32 own[2]; .reg .u32 r; mov.u32 r, a; mov.u32 r, d; call f; ret; }",
        );
        assert_eq!(kernels[0].static_shared, 8 + 3 + 5 + 8);
    }

    #[test]
    fn absurd_sizes_are_clamped() {
        let kernels = kernels(
            ".entry k(.param .b8 a[18446744073709551615], .param .align 0 .b8 b[1]) { ret; }",
        );
        assert_eq!(kernels[0].param_bytes, u32::MAX);
    }
}
