//! The tree of a PTX module: what stands in the text, names unresolved.
//!
//! Names are borrowed from the source. Operands of a function lie in one pool
//! ([`Body::operands`]) and are referred to by range, so that reading costs no
//! allocation an instruction.

use std::fmt;

use super::names::{Modifier, Opcode, SpecialRegister, Type};

/// A range of bytes of the source, end exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// An identifier and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    pub text: &'a str,
    pub span: Span,
}

/// `.version major.minor`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One PTX module (PTX ISA, "Syntax").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module<'a> {
    pub version: Option<(Version, Span)>,
    /// The words after `.target`: `sm_90a`, `texmode_independent`, `debug` …
    pub target: Vec<Name<'a>>,
    /// 32 or 64 bits; 32 where the module does not say, as the ISA has it.
    pub address_size: Option<(u8, Span)>,
    pub items: Vec<Item<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    Variable(Variable<'a>),
    Function(Function<'a>),
    /// `.file`, `.section`, `.alias`, `.pragma` …: kept as text between the spans.
    Directive(Directive<'a>),
}

/// A directive that carries no meaning for code: name and the raw text of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Linkage {
    #[default]
    None,
    Extern,
    Visible,
    Weak,
    Common,
}

/// State spaces (PTX ISA, "State Spaces").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Reg,
    Sreg,
    Const,
    Global,
    Local,
    Param,
    Shared,
    Tex,
}

impl Space {
    /// The word without its dot.
    pub const fn text(self) -> &'static str {
        match self {
            Space::Reg => "reg",
            Space::Sreg => "sreg",
            Space::Const => "const",
            Space::Global => "global",
            Space::Local => "local",
            Space::Param => "param",
            Space::Shared => "shared",
            Space::Tex => "tex",
        }
    }
}

/// A declaration: `.visible .global .align 4 .f32 x[4] = {…}`, `.reg .b32 %r<9>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable<'a> {
    pub linkage: Linkage,
    pub space: Space,
    pub align: Option<u32>,
    pub ty: Type,
    /// 1, or 2, 4, 8 for `.v2`, `.v4`, `.v8`.
    pub vector: u8,
    pub name: Name<'a>,
    /// `%r<9>` declares `%r0` … `%r8`: `Some(9)`.
    pub count: Option<u32>,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    pub init: Option<Initializer<'a>>,
    /// `.ptr`, `.ptr.global.align 16` of kernel parameters.
    pub pointer: Option<PointerAttribute>,
    /// What stands in `.attribute(…)`: `.managed`, `.unified(1, 2)`.
    pub attributes: Option<&'a str>,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttribute {
    pub space: Option<Space>,
    pub align: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Initializer<'a> {
    Integer(Integer),
    Float(Float),
    /// `name`, `name+4`, `generic(name)+4`, `mask(generic(name))`.
    Address {
        name: Name<'a>,
        generic: bool,
        offset: i64,
        mask: Option<u64>,
    },
    List(Vec<Initializer<'a>>),
    /// `addr_mode_0 = wrap` of a `.texref` or `.samplerref`.
    Property {
        name: Name<'a>,
        value: Box<Initializer<'a>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`
    Func,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    pub kind: FunctionKind,
    pub linkage: Linkage,
    pub name: Name<'a>,
    /// Return parameters of a `.func`, in `.reg` or `.param` space.
    pub returns: Vec<Variable<'a>>,
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.noreturn`, `.maxnreg` … with their numbers.
    pub directives: Vec<FunctionDirective<'a>>,
    /// `None` for a declaration that ends in `;`.
    pub body: Option<Body<'a>>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDirective<'a> {
    /// Without the dot: `maxntid`.
    pub name: &'a str,
    pub values: Vec<u32>,
    /// All of it, from the dot on.
    pub text: &'a str,
    pub span: Span,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body<'a> {
    pub statements: Vec<Statement<'a>>,
    /// The pool that [`List`]s of this function point into.
    pub operands: Vec<Operand<'a>>,
    pub span: Span,
}

impl<'a> Body<'a> {
    /// The operands that `list` stands for.
    pub fn list(&self, list: List) -> &[Operand<'a>] {
        let start = list.start as usize;
        self.operands
            .get(start..start + list.len as usize)
            .unwrap_or(&[])
    }
}

/// A range of [`Body::operands`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct List {
    pub start: u32,
    pub len: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    Label(Name<'a>),
    Instruction(Instruction<'a>),
    /// Boxed, as it is large and instructions are many.
    Variable(Box<Variable<'a>>),
    /// `{`: names declared until the matching [`Statement::End`] are local to it.
    Begin(Span),
    /// `}`
    End(Span),
    /// `.loc file line column`
    Location {
        file: u32,
        line: u32,
        column: u32,
        span: Span,
    },
    /// `name: .branchtargets …;`, `name: .calltargets …;`
    Targets {
        name: Name<'a>,
        calls: bool,
        targets: Vec<Name<'a>>,
        span: Span,
    },
    /// `name: .callprototype (ret) _ (params);`
    Prototype {
        name: Name<'a>,
        returns: Vec<Variable<'a>>,
        params: Vec<Variable<'a>>,
        noreturn: bool,
        span: Span,
    },
    /// `.pragma` and whatever else has no meaning for code.
    Directive(Directive<'a>),
}

/// `@!p opcode.modifiers a, b, c;`
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'a> {
    pub guard: Option<Guard<'a>>,
    pub opcode: Opcode,
    pub modifiers: Modifiers,
    pub operands: List,
    /// From the guard to the semicolon.
    pub span: Span,
    /// Of the opcode with its modifiers.
    pub opcode_span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard<'a> {
    pub predicate: Name<'a>,
    pub negated: bool,
}

/// The modifiers of an instruction in the order of the text, types included:
/// `ld.global.v4.f32` has `[Global, V4, F32]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Modifiers {
    list: [Modifier; Modifiers::MAX],
    len: u8,
}

impl Modifiers {
    /// No instruction of PTX ISA 9.5 has more.
    pub const MAX: usize = 14;

    /// Adds one at the end; `false` when the list is full.
    pub fn push(&mut self, modifier: Modifier) -> bool {
        let Some(slot) = self.list.get_mut(self.len as usize) else {
            return false;
        };
        *slot = modifier;
        self.len += 1;
        true
    }

    pub fn as_slice(&self) -> &[Modifier] {
        &self.list[..self.len as usize]
    }

    pub fn has(&self, modifier: Modifier) -> bool {
        self.as_slice().contains(&modifier)
    }

    /// The first of `choices` that stands here.
    pub fn first_of(&self, choices: &[Modifier]) -> Option<Modifier> {
        self.as_slice()
            .iter()
            .copied()
            .find(|m| choices.contains(m))
    }

    /// The modifiers that are types, in order: `cvt.rn.f32.s32` has `[F32, S32]`.
    pub fn types(&self) -> impl Iterator<Item = Type> + '_ {
        self.as_slice().iter().filter_map(|m| m.as_type())
    }
}

impl Default for Modifiers {
    fn default() -> Self {
        Modifiers {
            list: [Modifier::NONE; Modifiers::MAX],
            len: 0,
        }
    }
}

impl std::fmt::Debug for Modifiers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for m in self.as_slice() {
            write!(f, ".{}", m.text())?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or function: which, the symbols in scope say.
    Name(Name<'a>),
    /// `%tid.x`, `%laneid`
    Special(SpecialRegister, Span),
    /// `%v.x`: component 0 to 3 of a vector register.
    Component {
        name: Name<'a>,
        component: u8,
    },
    Integer(Integer),
    Float(Float),
    /// `!%p`
    Not(Name<'a>),
    /// `-%r` (`vadd` and the other video instructions), `-name`.
    Negated(Name<'a>),
    /// `%r.b0`, `%r.h1`: a byte or half selected by a video instruction.
    Select {
        name: Name<'a>,
        negated: bool,
        selector: Modifier,
    },
    /// `name+4` outside brackets, as in `mov.u64 %rd, name+4`.
    Offset {
        name: Name<'a>,
        offset: i64,
    },
    /// `[name+4]`, `[%rd]`, `[16]`; `name[4]` too.
    Address {
        base: AddressBase<'a>,
        offset: i64,
        span: Span,
    },
    /// `{a, b}`
    Vector(List, Span),
    /// `(a, b)`: the argument or return list of a call.
    Arguments(List, Span),
    /// `[tex, {x, y}]`, `[tensor, {x}, …]`: an address with coordinates.
    Indexed(List, Span),
    /// `%p|%q`: the pool holds both.
    Pair(List, Span),
    /// `_`
    Sink(Span),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AddressBase<'a> {
    Name(Name<'a>),
    Immediate,
}

/// An integer constant; arithmetic on constants is already done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Two's complement, 64 bits, as the ISA evaluates constants.
    pub value: u64,
    /// Written with `U`, or too large for `.s64`.
    pub unsigned: bool,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float {
    pub value: FloatValue,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FloatValue {
    /// `0f3F800000`
    F32(u32),
    /// `0d3FF0000000000000` and decimal literals, which the ISA reads as double.
    F64(u64),
}
