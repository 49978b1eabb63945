//! The declarations of a module: names, sizes and initial values of its variables.

use std::collections::HashMap;

use super::functions::FunctionTable;
use super::module_symbol::ModuleSymbol;
use crate::blob::{Reference, Relocation, VariableImage};
use crate::program::ir::{LoweringError, Row};
use ptx::ast::{
    DirectiveKind, FloatValue, Function, Initializer, Instruction, Item, Linkage, Module, Name,
    Space, Span, Statement, Variable,
};
use ptx::names::Type;
use ptx::scope;

/// The limit of bytes of initial values in a module: a short text can have its last value far
/// behind the others.
const MAX_INITIAL_BYTES: u64 = 1 << 28;

fn too_many_initial_bytes() -> String {
    format!("more than {MAX_INITIAL_BYTES} bytes of initial values in a module")
}

/// The symbol table of a module, shared by all of its kernels.
pub(crate) struct ModuleData<'m, 'a> {
    pub ast: &'m Module<'a>,
    source: &'m str,
    pub symbols: HashMap<&'a str, ModuleSymbol<'m, 'a>>,
    pub variables: Vec<VariableImage>,
    /// The indices of variables that are declared in functions, by the start of their declaration.
    pub inner_variables: HashMap<u32, u32>,
    pub functions: FunctionTable<'m, 'a>,
    /// By mnemonic: what the instruction table says of it.
    rows: Vec<Row>,
    /// Offset of the start of each line.
    lines: Vec<u32>,
}

impl ModuleData<'_, '_> {
    /// The place of a name in the text.
    pub fn span(&self, name: Name<'_>) -> Span {
        name.span(self.source)
    }

    /// The bytes of a name, by which registers are found.
    pub fn word(&self, name: Name<'_>) -> Option<u64> {
        scope::word(name, self.source)
    }

    /// What the instruction table says of an instruction of the text.
    pub fn row(&self, instruction: &Instruction) -> Row {
        let known = self.rows.get(instruction.mnemonic.index());
        // A module has the mnemonics of its instructions.
        known.copied().unwrap_or(Row::UNKNOWN)
    }

    /// 1-based line of a place in the text.
    pub fn line(&self, span: Span) -> u32 {
        self.lines.partition_point(|&start| start <= span.start) as u32
    }
}

/// The bits of a floating-point constant for a value of `bytes` bytes. As in ptxas, a
/// single such as `0f3F800000` keeps its bits in any type, also in `.f64`, and a
/// double is rounded for an `.f32`.
pub(crate) fn float_bits(value: FloatValue, bytes: u64) -> u64 {
    match value {
        FloatValue::F32(bits) => bits.into(),
        FloatValue::F64(bits) if bytes == 4 => (f64::from_bits(bits) as f32).to_bits().into(),
        FloatValue::F64(bits) => bits,
    }
}

/// The size of a variable in bytes; `None` from 1 TiB on.
pub(in crate::program) fn size_of(variable: &Variable<'_>) -> Option<u64> {
    let element = element_bytes(variable);
    variable
        .dims
        .iter()
        .try_fold(element, |size, dim| size.checked_mul(dim.unwrap_or(0)))
        .filter(|&size| size < 1 << 40)
}

/// The size of an element of an array, or of another variable, in bytes.
pub(in crate::program) fn element_bytes(variable: &Variable<'_>) -> u64 {
    variable.ty.bytes() * u64::from(variable.vector.max(1))
}

/// Alignment of a variable in bytes; a power of two.
pub(in crate::program) fn align_of(variable: &Variable<'_>) -> u32 {
    let natural = element_bytes(variable).max(1).next_power_of_two() as u32;
    match variable.align {
        Some(align) if align.is_power_of_two() => align,
        _ => natural,
    }
}

/// Collects the names of a module.
pub(crate) fn module_data<'m, 'a>(
    module: &'m Module<'a>,
    source: &'m str,
) -> (ModuleData<'m, 'a>, Vec<LoweringError>) {
    let mut errors = Vec::new();
    let mnemonics = module.mnemonics.iter();
    let rows = mnemonics.map(|mnemonic| Row::of(mnemonic.opcode, &mnemonic.modifiers));
    let mut data = ModuleData {
        ast: module,
        source,
        symbols: HashMap::new(),
        variables: Vec::new(),
        inner_variables: HashMap::new(),
        functions: FunctionTable::default(),
        rows: rows.collect(),
        lines: std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', source.as_bytes()).map(|at| at as u32 + 1))
            .collect(),
    };
    for item in &module.items {
        match item {
            Item::Variable(variable) => data.declare(variable, &mut errors),
            Item::Function(function) => {
                let known = data.symbols.get(function.name.text);
                let has_body = matches!(known, Some(ModuleSymbol::Function(f)) if f.body.is_some());
                if !has_body {
                    data.symbols
                        .insert(function.name.text, ModuleSymbol::Function(function));
                }
                for variable in inner_variables(function) {
                    if let Some(mut image) = variable_image(variable, &mut errors) {
                        let index = data.variables.len() as u32;
                        // No name of a module: it is not found by one.
                        image.name = format!("{}.{index}", image.name);
                        data.inner_variables.insert(variable.span.start, index);
                        data.variables.push(image);
                    }
                }
            }
            Item::Directive(_) => {}
        }
    }
    // Calls of an alias are calls of the function, whose body may come later.
    for item in &module.items {
        if let Item::Directive(directive) = item
            && let DirectiveKind::Alias { name, function } = directive.kind
            && let Some(&function @ ModuleSymbol::Function(_)) = data.symbols.get(function.text)
        {
            data.symbols.insert(name.text, function);
        }
    }
    data.functions = FunctionTable::new(module, source, &data.symbols);
    let mut limit = MAX_INITIAL_BYTES;
    // Initializers may refer to later variables.
    for item in &module.items {
        match item {
            Item::Variable(variable) => {
                if let Some(&ModuleSymbol::Global(index)) = data.symbols.get(variable.name.text) {
                    data.initialize(variable, index, &mut limit, &mut errors);
                }
            }
            Item::Function(function) => {
                for variable in inner_variables(function) {
                    if let Some(&index) = data.inner_variables.get(&variable.span.start) {
                        data.initialize(variable, index, &mut limit, &mut errors);
                    }
                }
            }
            Item::Directive(_) => {}
        }
    }
    (data, errors)
}

impl<'m, 'a> ModuleData<'m, 'a> {
    fn declare(&mut self, variable: &'m Variable<'a>, errors: &mut Vec<LoweringError>) {
        let name = variable.name.text;
        let symbol = match variable.space {
            Space::Shared => ModuleSymbol::Shared(variable),
            Space::Local => ModuleSymbol::Local(variable),
            Space::Global | Space::Const | Space::Tex if variable.ty != Type::Samplerref => {
                let Some(image) = variable_image(variable, errors) else {
                    return;
                };
                if let Some(&ModuleSymbol::Global(index)) = self.symbols.get(name) {
                    // A declaration and the definition.
                    let known = &mut self.variables[index as usize];
                    known.external &= image.external;
                    known.size = known.size.max(image.size);
                    return;
                }
                self.variables.push(image);
                ModuleSymbol::Global(self.variables.len() as u32 - 1)
            }
            _ => ModuleSymbol::Opaque,
        };
        self.symbols.insert(name, symbol);
    }

    /// Writes the initial values of a variable, of which at most `limit` bytes are left.
    fn initialize(
        &mut self,
        variable: &Variable<'a>,
        index: u32,
        limit: &mut u64,
        errors: &mut Vec<LoweringError>,
    ) {
        let Some(init) = &variable.init else {
            return;
        };
        let mut writer = InitWriter {
            symbols: &self.symbols,
            functions: &self.functions,
            bytes: Vec::new(),
            relocations: Vec::new(),
            limit: *limit,
        };
        match writer.list(init, 0, &element_sizes(variable), variable.ty) {
            Ok(()) => {
                let (bytes, relocations) = (writer.bytes, writer.relocations);
                let image = &mut self.variables[index as usize];
                *limit -= bytes.len() as u64;
                // `x[] = {…}` has the size of its values.
                image.size = image.size.max(bytes.len() as u64);
                image.init = bytes;
                image.relocations = relocations;
            }
            Err(reason) => errors.push(LoweringError::unsupported(variable.span, reason)),
        }
    }
}

/// The variables in global and constant memory that a function declares.
fn inner_variables<'m, 'a>(function: &'m Function<'a>) -> impl Iterator<Item = &'m Variable<'a>> {
    let statements = function.body.iter().flat_map(|body| &body.statements);
    statements.filter_map(|statement| match statement {
        Statement::Variable(variable)
            if matches!(variable.space, Space::Global | Space::Const)
                && variable.ty != Type::Samplerref =>
        {
            Some(&**variable)
        }
        _ => None,
    })
}

/// A variable of a module, without its initial values; an error if it is too large.
fn variable_image(
    variable: &Variable<'_>,
    errors: &mut Vec<LoweringError>,
) -> Option<VariableImage> {
    let reference = match (variable.space, variable.ty) {
        (Space::Tex, _) | (_, Type::Texref) => Reference::Texture,
        (_, Type::Surfref) => Reference::Surface,
        _ => Reference::None,
    };
    let size = match reference {
        Reference::None => size_of(variable),
        _ => Some(8),
    };
    let Some(size) = size else {
        let too_large = LoweringError::invalid(variable.span, "the variable is too large");
        errors.push(too_large);
        return None;
    };
    Some(VariableImage {
        name: variable.name.text.to_owned(),
        constant: variable.space == Space::Const,
        external: variable.linkage == Linkage::Extern,
        exported: matches!(
            variable.linkage,
            Linkage::Visible | Linkage::Weak | Linkage::Common
        ),
        managed: variable.attributes.managed,
        reference,
        size,
        align: align_of(variable).max(if reference == Reference::None { 1 } else { 8 }),
        ..VariableImage::default()
    })
}

/// The size of an element at each nesting level, outermost first, the scalar last.
fn element_sizes(variable: &Variable<'_>) -> Vec<u64> {
    let mut sizes = vec![variable.ty.bytes()];
    if variable.vector > 1 {
        sizes.push(element_bytes(variable));
    }
    for dim in variable.dims.iter().skip(1).rev() {
        let inner = sizes.last().copied().unwrap_or(0);
        sizes.push(inner.saturating_mul(dim.unwrap_or(0)));
    }
    sizes.reverse();
    sizes
}

struct InitWriter<'d, 'm, 'a> {
    symbols: &'d HashMap<&'a str, ModuleSymbol<'m, 'a>>,
    functions: &'d FunctionTable<'m, 'a>,
    bytes: Vec<u8>,
    relocations: Vec<Relocation>,
    /// The limit of bytes.
    limit: u64,
}

impl InitWriter<'_, '_, '_> {
    /// Writes a scalar, or a list of elements of `sizes[0]` bytes, at offset `at`.
    fn list(
        &mut self,
        init: &Initializer<'_>,
        at: u64,
        sizes: &[u64],
        ty: Type,
    ) -> Result<(), String> {
        let Initializer::List(items) = init else {
            return self.scalar(init, at, ty);
        };
        let (&size, inner) = sizes
            .split_first()
            .ok_or("the initial value is nested too deeply")?;
        for (i, item) in (0..).zip(items) {
            let start = size.checked_mul(i).and_then(|start| start.checked_add(at));
            let start = start.ok_or_else(too_many_initial_bytes)?;
            self.list(item, start, inner, ty)?;
        }
        Ok(())
    }

    fn scalar(&mut self, init: &Initializer<'_>, at: u64, ty: Type) -> Result<(), String> {
        let width = ty.bytes() as usize;
        let value = match init {
            Initializer::Integer(_) if matches!(ty, Type::F32 | Type::F64) => {
                return Err("the initial value of a float is an integer".into());
            }
            Initializer::Integer(n) => n.value,
            Initializer::Float(f) => float_bits(f.value, ty.bytes()),
            Initializer::Address {
                name, offset, mask, ..
            } => {
                if mask.is_some() || width != 8 {
                    return Err(format!(
                        "the initial value takes part of the address of {}",
                        name.text
                    ));
                }
                let symbol = self.symbols.get(name.text);
                let function = match symbol {
                    Some(ModuleSymbol::Function(function)) => self.functions.address(function),
                    _ => None,
                };
                match (symbol, function) {
                    (_, Some(address)) => address.wrapping_add_signed(*offset),
                    (Some(&ModuleSymbol::Global(variable)), None) => {
                        self.relocations.push(Relocation {
                            offset: at,
                            variable,
                            addend: *offset,
                        });
                        0
                    }
                    _ => {
                        return Err(format!(
                            "the initial value is the address of {}, which is neither a \
                             variable nor a function with a body",
                            name.text
                        ));
                    }
                }
            }
            Initializer::Property { .. } => {
                return Err("the initial value sets a property of a sampler".into());
            }
            Initializer::List(_) => return Err("the initial value is nested too deeply".into()),
        };
        let end = at.checked_add(width as u64);
        let end = end.filter(|&end| end <= self.limit);
        let end = end.ok_or_else(too_many_initial_bytes)? as usize;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let bytes = value.to_le_bytes();
        let width = width.min(bytes.len());
        self.bytes[end - width..end].copy_from_slice(&bytes[..width]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls back with the functions that have addresses, those that are recursive, the
    /// first address, and the first bytes of the first variable.
    fn with_table(items: &str, check: impl FnOnce([&[&str]; 2], u64, &[u8])) {
        let source = format!(".version 8.0\n.target sm_80\n.address_size 64\n{items}");
        let reading = ptx::read(&source);
        assert_eq!(reading.diagnostics, []);
        let (data, errors) = module_data(&reading.module, &source);
        assert!(errors.is_empty(), "{errors:?}");
        let functions = data.symbols.values().filter_map(|symbol| match symbol {
            ModuleSymbol::Function(function) => Some(*function),
            _ => None,
        });
        let recursive = functions.filter(|function| data.functions.is_recursive(function));
        let mut recursive: Vec<&str> = recursive.map(|function| function.name.text).collect();
        recursive.sort_unstable();
        let addressed = data.functions.addressed().iter();
        let addressed: Vec<&str> = addressed.map(|function| function.name.text).collect();
        let init = data.variables.first().map_or(&[][..], |v| &v.init[..]);
        check([&addressed, &recursive], data.functions.first(), init);
    }

    #[test]
    fn functions_that_reach_a_cycle_are_recursive() {
        let items = ".func b(); .func leaf() { ret; } .func a() { call b; call leaf; ret; }
            .func b() { call a; ret; } .func above() { call a; ret; } .func self() { call self; }
            .entry k() { call above; call leaf; ret; }";
        with_table(items, |names, _, _| {
            assert_eq!(names, [&[][..], &["a", "above", "b", "self"]]);
        });
    }

    #[test]
    fn a_call_through_a_register_may_reach_what_has_an_address() {
        let items = ".func f() { .reg .b64 r; p: .callprototype _ (); call r, p; ret; }
            .func g() { .reg .b64 r; mov.u64 r, h; p: .callprototype _ (); call r, p; ret; }
            .func h() { ret; }
            .entry k() { .reg .b64 r; mov.u64 r, g; ret; }";
        with_table(items, |names, _, _| {
            assert_eq!(names, [&["g", "h"][..], &["f", "g"]]);
        });
    }

    #[test]
    fn variables_hold_addresses_which_differ_between_modules() {
        let items = ".global .u64 table[2] = {g, f};
            .func f() { ret; } .func g() { ret; } .func h() { ret; }";
        let mut found = 0;
        with_table(items, |names, first, init| {
            assert_eq!(names, [&["f", "g"][..], &[]]);
            let word = |at: usize| u64::from_le_bytes(*init[at..].first_chunk().unwrap());
            assert_eq!([word(0), word(8)], [first + 1, first]);
            assert_eq!(first >> 56, 0xFA);
            found = first;
        });
        let other = format!("{items}\n");
        with_table(&other, |_, first, _| assert_ne!(first, found));
    }

    #[test]
    fn a_value_far_behind_the_others_is_refused() {
        let items = "
            .global .b8 x[2][500000000000] = {{1},{2}};
            .global .b8 y[][5000000000][5000000000] = {{{1}},{{2}},{{3}}};
            .global .b16 small[2][3] = {{1},{2}};";
        let source = format!(".version 8.0\n.target sm_80\n.address_size 64{items}");
        let reading = ptx::read(&source);
        assert_eq!(reading.diagnostics, []);
        let (data, errors) = module_data(&reading.module, &source);
        let lines: Vec<u32> = errors.iter().map(|error| data.line(error.span)).collect();
        assert_eq!(lines, [4, 5]);
        for error in errors {
            assert!(!error.invalid);
            assert_eq!(error.reason, too_many_initial_bytes());
        }
        assert_eq!(data.variables[2].init, [1, 0, 0, 0, 0, 0, 2, 0]);
    }
}
