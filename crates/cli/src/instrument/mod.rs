//! PTX that records what it executes: instructions are inserted, and the kernel is launched.
//!
//! Lines stay where they are, so that an error of the device names those of the file.

pub mod coverage;
pub mod load;
pub mod thread;
pub mod writer;

use ptxkit::ptx::ast::{
    AddressBase, Body, Function, FunctionKind, Instruction, Item, Module, Name, Operand, Statement,
};
use ptxkit::ptx::isa;
use ptxkit::ptx::names::{Opcode, Type};
use ptxkit::ptx::scope::{Meaning, Scopes};

/// What all names begin with that are inserted, unless the text has such names.
const PREFIX: &str = "ptxkit";

/// Text to be inserted, by its byte offset in the source.
#[derive(Debug, Default)]
pub struct Insertions(Vec<(u32, String)>);

impl Insertions {
    /// What is added for one place stands there in the order of the calls.
    pub fn add(&mut self, offset: u32, text: String) {
        self.0.push((offset, text));
    }

    /// The source with all of them.
    pub fn apply(mut self, source: &str) -> String {
        self.0.sort_by_key(|(offset, _)| *offset);
        let added: usize = self.0.iter().map(|(_, text)| text.len()).sum();
        let mut out = String::with_capacity(source.len() + added);
        let mut done = 0;
        for (offset, text) in self.0 {
            // Spans are within the source, at the ends of characters.
            out += source.get(done..offset as usize).unwrap_or_default();
            out += &text;
            done = offset as usize;
        }
        out + source.get(done..).unwrap_or_default()
    }
}

/// A prefix of names that the source has none with.
pub fn prefix(source: &str) -> String {
    let mut prefix = PREFIX.to_owned();
    let mut number = 0;
    while source.contains(&prefix) {
        number += 1;
        prefix = format!("{PREFIX}{number}x");
    }
    prefix
}

/// Where variables can be declared: behind the `.address_size`, which is the last of the head.
pub fn head_end(module: &Module<'_>) -> Option<u32> {
    module.address_size.map(|(_, span)| span.end)
}

/// The functions that have a body.
pub fn bodies<'m, 'a>(
    module: &'m Module<'a>,
) -> impl Iterator<Item = (&'m Function<'a>, &'m Body<'a>)> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some((function, function.body.as_ref()?)),
        _ => None,
    })
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// As a value of this type.
    Typed(Type),
    /// In hexadecimal digits.
    Address,
}

/// A register in an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    pub name: &'a str,
    pub declared: Type,
    pub shown: Shown,
}

/// The registers that an instruction reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Registers<'a> {
    /// Each once. The guard is the first.
    pub reads: Vec<Mention<'a>>,
    pub writes: Vec<Mention<'a>>,
}

/// What a name means here: a register of this type, or nothing of interest.
#[derive(Clone, Copy, Debug)]
struct Declared(Option<Type>);

impl Meaning for Declared {
    type Register = Type;

    fn register(&self) -> Option<Type> {
        self.0
    }
}

/// Calls `visit` for each statement of a function, for an instruction with its registers.
pub fn each_statement<'m, 'a>(
    module: &'m Module<'a>,
    function: &'m Function<'a>,
    body: &'m Body<'a>,
    mut visit: impl FnMut(&'m Statement<'a>, Registers<'a>),
) {
    let mut scopes = Scopes::new(&body.statements, |_| Declared(None), |_| {});
    if function.kind == FunctionKind::Func {
        for param in function.returns.iter().chain(&function.params) {
            // The module has no errors, so no name is declared twice.
            let _ = scopes.declare(param.name, param.count, declared(param));
        }
    }
    for statement in &body.statements {
        let mut registers = Registers::default();
        match statement {
            Statement::Begin(_) => scopes.open(),
            Statement::End(_) => scopes.close(),
            Statement::Variable(variable) => {
                let _ = scopes.declare(variable.name, variable.count, declared(variable));
            }
            Statement::Instruction(instruction) => {
                registers = registers_of(module, body, instruction, &scopes);
            }
            _ => {}
        }
        visit(statement, registers);
    }
}

fn declared(variable: &ptxkit::ptx::ast::Variable<'_>) -> Declared {
    let register = variable.space == ptxkit::ptx::ast::Space::Reg && variable.vector == 1;
    Declared(register.then_some(variable.ty))
}

fn registers_of<'a>(
    module: &Module<'a>,
    body: &Body<'a>,
    instruction: &Instruction,
    scopes: &Scopes<'a, Declared>,
) -> Registers<'a> {
    let mut found = Registers::default();
    let find = |name: Name<'a>, shown: Option<Shown>| {
        let declared = scopes.get(name.text)?.0?;
        Some(Mention {
            name: name.text,
            declared,
            shown: match (declared, shown) {
                (Type::Pred, _) | (_, None) => Shown::Typed(declared),
                (_, Some(shown)) => shown,
            },
        })
    };
    if let Some(guard) = body.guard(instruction) {
        found.reads.extend(find(guard.predicate, None));
    }
    let mnemonic = module.mnemonic(instruction);
    let modifiers = &mnemonic.modifiers;
    let mut forms = isa::candidates(mnemonic.opcode, modifiers).into_iter();
    let fitting = forms.find_map(|form| Some((form, form.fit(modifiers).ok()?)));
    let (writes, types) = match &fitting {
        Some((form, fit)) => (
            usize::from(form.writes(modifiers)),
            form.operand_types(modifiers, fit),
        ),
        None => (0, Vec::new()),
    };
    let accumulates = isa::meaning(mnemonic.opcode, modifiers).accumulates;
    // The name of a function is no operand with a value.
    let is_call = instruction.opcode == Opcode::Call;
    for (index, operand) in body.list(instruction.operands).iter().enumerate() {
        let ty = types.get(index).copied().flatten();
        let mut names = Vec::new();
        names_in(body, operand, &mut |name, address| {
            let shown = if address {
                Some(Shown::Address)
            } else {
                ty.map(Shown::Typed)
            };
            names.extend(find(name, shown));
        });
        let written = if is_call {
            index == 0 && matches!(operand, Operand::Arguments(..))
        } else {
            index < writes
        };
        if written {
            found.writes.extend(&names);
        }
        if !written || accumulates {
            for name in names {
                if !found.reads.iter().any(|read| read.name == name.name) {
                    found.reads.push(name);
                }
            }
        }
    }
    found
}

/// Calls `found` for each name in an operand, and whether it is the base of an address.
fn names_in<'a>(body: &Body<'a>, operand: &Operand<'a>, found: &mut impl FnMut(Name<'a>, bool)) {
    match *operand {
        Operand::Name(name)
        | Operand::Not(name)
        | Operand::Negated(name)
        | Operand::Select { name, .. } => found(name, false),
        Operand::Address {
            base: AddressBase::Name(name),
            ..
        } => found(name, true),
        // The grammar nests lists two deep.
        Operand::Element(list, _)
        | Operand::Vector(list, _)
        | Operand::Arguments(list, _)
        | Operand::Indexed(list, _)
        | Operand::Pair(list, _) => {
            for part in body.list(list) {
                names_in(body, part, found);
            }
        }
        // A component of a vector register has no name of its own.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxkit::ptx;

    #[test]
    fn insertions_keep_their_order() {
        let mut insertions = Insertions::default();
        insertions.add(2, "c".into());
        insertions.add(0, "a".into());
        insertions.add(2, "d".into());
        insertions.add(3, "e".into());
        assert_eq!(insertions.apply("123"), "a12cd3e");
    }

    #[test]
    fn a_prefix_is_not_in_the_text() {
        assert_eq!(prefix(".reg .b32 r;"), "ptxkit");
        assert_eq!(prefix(".reg .b32 ptxkit, ptxkit1x;"), "ptxkit2x");
    }

    #[test]
    fn registers_are_read_and_written() {
        let source = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .func (.reg .b32 r) f(.reg .b32 a) { ret; }\n\
            .visible .entry k(.param .u64 p) {\n.reg .b32 %r<9>; .reg .b64 %a; .reg .pred %q, %s;\n\
            .reg .f32 %f<4>;\n\
            @!%q ld.global.v2.f32 {%f1, %f2}, [%a+8];\n\
            setp.lt.and.s32 %q|%s, %r1, %r2, !%q;\n\
            shfl.sync.up.b32 %r2|%s, %r1, 1, 0, -1;\n\
            fma.rn.f32 %f1, %f1, %f1, 0f3F800000;\n\
            st.global.u32 [%a], %r3;\n\
            call (%r4), f, (%r5);\n\
            { .reg .b64 %r3; mov.b64 %r3, 1; }\n}\n";
        let reading = ptx::read(source);
        assert!(reading.diagnostics.is_empty(), "{:?}", reading.diagnostics);
        let mut found = Vec::new();
        for (function, body) in bodies(&reading.module) {
            each_statement(&reading.module, function, body, |statement, registers| {
                if let Statement::Instruction(_) = statement {
                    let show = |list: &[Mention<'_>]| {
                        let show = |m: &Mention<'_>| match m.shown {
                            Shown::Address => format!("[{}]", m.name),
                            Shown::Typed(ty) => format!("{}:{}", m.name, ty.text()),
                        };
                        list.iter().map(show).collect::<Vec<_>>().join(" ")
                    };
                    let (reads, writes) = (show(&registers.reads), show(&registers.writes));
                    found.push(format!("{writes} <- {reads}"));
                }
            });
        }
        assert_eq!(
            found,
            [
                " <- ",
                "%f1:f32 %f2:f32 <- %q:pred [%a]",
                "%q:pred %s:pred <- %r1:s32 %r2:s32 %q:pred",
                "%r2:b32 %s:pred <- %r1:b32",
                "%f1:f32 <- %f1:f32",
                " <- [%a] %r3:u32",
                "%r4:b32 <- %r5:b32",
                "%r3:b64 <- ",
            ]
        );
    }
}
