//! The syntax tree of a PTX module. Names are unresolved.
//!
//! Names borrow from the source. The operands of a function are stored in one
//! pool ([`Body::operands`]) and referred to by range, so that the parser does
//! not allocate for each instruction.

mod name;
mod operand;

pub use name::{Name, Span};
pub use operand::{AddressBase, Float, FloatValue, Integer, List, Operand, Selector};

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::names::{Modifier, Opcode, Type};

/// `.version major.minor`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// `8` of `8.7`.
    pub major: u8,
    /// `7` of `8.7`.
    pub minor: u8,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl std::str::FromStr for Version {
    type Err = std::num::ParseIntError;

    /// `8.7`
    fn from_str(text: &str) -> Result<Version, Self::Err> {
        let (major, minor) = text.split_once('.').unwrap_or((text, ""));
        Ok(Version {
            major: major.parse()?,
            minor: minor.parse()?,
        })
    }
}

/// One PTX module (PTX ISA, "Syntax").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module<'a> {
    /// `None` if the text has no `.version`, which [`check`](super::check) reports (`E0010`).
    pub version: Option<(Version, Span)>,
    /// The words after `.target`: `sm_90a`, `texmode_independent`, `debug` …
    pub target: Vec<Name<'a>>,
    /// 32 or 64 bits. A module without the directive has 32, by the ISA.
    pub address_size: Option<(u8, Span)>,
    /// Everything after the head, in source order.
    pub items: Vec<Item<'a>>,
    /// Each distinct opcode with modifiers, in source order.
    pub mnemonics: Vec<Mnemonic<'a>>,
}

impl<'a> Module<'a> {
    /// The opcode and modifiers of an instruction of this module.
    pub fn mnemonic(&self, instruction: &Instruction) -> &Mnemonic<'a> {
        let found = self.mnemonics.get(instruction.mnemonic.index());
        found.unwrap_or(const { &Mnemonic::UNKNOWN })
    }
}

/// An opcode with its modifiers, `ld.global.v2.f32`.
///
/// A module of a million instructions has a few hundred distinct ones, and each is
/// analyzed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mnemonic<'a> {
    /// The source text; owned if the source has white space between the words.
    pub text: Cow<'a, str>,
    /// The first word alone: `cp` of `cp.async.bulk`.
    pub opcode: Opcode,
    /// The words after the opcode, types included.
    pub modifiers: Modifiers,
}

impl Mnemonic<'_> {
    /// That of an instruction which the module has no mnemonic of.
    pub const UNKNOWN: Mnemonic<'static> = Mnemonic {
        text: Cow::Borrowed(""),
        opcode: Opcode::Unknown,
        modifiers: Modifiers::NONE,
    };
}

/// An index into [`Module::mnemonics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MnemonicId(pub(crate) u32);

impl MnemonicId {
    /// The index into [`Module::mnemonics`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A top-level item of a module (PTX ISA, "PTX Module Directives").
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// `.global .u32 counter;`, or another variable outside of functions.
    Variable(Variable<'a>),
    /// `.entry` or `.func`, declared or defined.
    Function(Function<'a>),
    /// `.file`, `.section`, `.alias`, `.pragma`.
    Directive(Directive<'a>),
}

impl Item<'_> {
    /// The span of the whole item.
    pub fn span(&self) -> Span {
        match self {
            Item::Variable(variable) => variable.span,
            Item::Function(function) => function.span,
            Item::Directive(directive) => directive.span,
        }
    }
}

/// A directive that declares nothing, with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive<'a> {
    /// The kind, with the parts that the rest of the module refers to.
    pub kind: DirectiveKind<'a>,
    /// The whole directive, from the dot.
    pub text: &'a str,
    /// The span of [`text`](Self::text).
    pub span: Span,
}

/// The kind of a [`Directive`].
#[derive(Clone, Debug, PartialEq)]
pub enum DirectiveKind<'a> {
    /// `.file 1 "a.cu"`
    File {
        /// The number that `.loc` refers to.
        index: u32,
        /// The name as it is written, without its quotes
        /// ([`file_name`](crate::line_table::file_name)).
        name: &'a str,
        /// Whether the time and size of the file are given.
        stamped: bool,
    },
    /// `.section .debug_str { … }`: data for a debugger.
    Section {
        /// Whether the section has labels.
        labels: bool,
    },
    /// `@@DWARF .byte 1, 2`: the form of PTX 1.x, one line each.
    Dwarf,
    /// `.pragma "nounroll", "…";`
    Pragma(Vec<Name<'a>>),
    /// A `.target sm_80` within a function; those of the head are in [`Module::target`].
    Target(Vec<Name<'a>>),
    /// `.alias name, function;`
    Alias {
        /// The alias, declared earlier.
        name: Name<'a>,
        /// The aliased function.
        function: Name<'a>,
    },
}

/// The linkage of a variable or function (PTX ISA, "Linking Directives").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// No directive: local to this module.
    #[default]
    None,
    /// `.extern`: defined in another module. The launch sets the size of `.shared x[]`.
    Extern,
    /// `.visible`: visible to other modules.
    Visible,
    /// `.weak`: like `.visible`, but yields to another definition.
    Weak,
    /// `.common`: `.global` variables of the same name share storage.
    Common,
}

/// State spaces (PTX ISA, "State Spaces").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`: registers; they have no address.
    Reg,
    /// `.sreg`: special registers, predefined.
    Sreg,
    /// `.const`: read by kernels, written by the host.
    Const,
    /// `.global`: visible to all threads, initialized at load.
    Global,
    /// `.local`: memory of one thread.
    Local,
    /// `.param`: parameters of kernels, arguments and results of functions.
    Param,
    /// `.shared`: memory of one block of threads.
    Shared,
    /// `.tex`: textures of old modules (deprecated).
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
    /// [`Linkage::None`] inside of functions.
    pub linkage: Linkage,
    /// The state space.
    pub space: Space,
    /// The bank of constant memory: 2 for `.const[2]` (PTX 1.5 to 2.1).
    pub bank: Option<u8>,
    /// The value of `.align` in bytes; see [`layout`](super::signature::layout) for the default.
    pub align: Option<u32>,
    /// The type of one element: `.f32` for `.v4 .f32 x[2]`.
    pub ty: Type,
    /// 1, or 2, 4, 8 for `.v2`, `.v4`, `.v8`.
    pub vector: u8,
    /// The name; `_` for an unnamed parameter, `%r` for `%r<9>`.
    pub name: Name<'a>,
    /// `%r<9>` declares `%r0` … `%r8`: `Some(9)`.
    pub count: Option<u32>,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    /// The initializer. Memory without one is zero, or undefined in `.shared` and `.local`.
    pub init: Option<Initializer<'a>>,
    /// `.ptr`, `.ptr.global.align 16` of kernel parameters.
    pub pointer: Option<PointerAttribute>,
    /// The contents of `.attribute(…)`.
    pub attributes: Attributes,
    /// From the state space up to the `,` or `;`, exclusive.
    pub span: Span,
}

/// The contents of `.attribute(…)` of a variable or function (PTX ISA,
/// "Variable and Function Attribute Directive").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `.managed`: the driver moves the variable between host and device.
    pub managed: bool,
    /// `.unified(1, 2)`: the two halves of the UUID by which the host refers to it.
    pub unified: Option<(u64, u64)>,
}

/// The pointer attribute of a kernel parameter: `.ptr .global .align 16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttribute {
    /// `None` for a generic address.
    pub space: Option<Space>,
    /// The 2 of `.const[2]`.
    pub bank: Option<u8>,
    /// The alignment of the pointee in bytes, not of the parameter.
    pub align: Option<u32>,
}

/// An initial value (PTX ISA, "Initializers").
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer<'a> {
    /// `= 42`
    Integer(Integer),
    /// `= 0f3F800000`, `= 1.5`
    Float(Float),
    /// `name`, `name+4`, `generic(name)+4`, `mask(generic(name))`.
    Address {
        /// The variable or function whose address is taken.
        name: Name<'a>,
        /// Inside `generic(…)`: the generic address instead of the one in its space.
        generic: bool,
        /// Bytes added.
        offset: i64,
        /// `0xFF00` of `0xFF00(name)`: selects one byte of the address.
        mask: Option<u64>,
    },
    /// `{1, 2}`; nested lists are rows of an array or vectors.
    List(Vec<Initializer<'a>>),
    /// `addr_mode_0 = wrap` of a `.texref` or `.samplerref`.
    Property {
        /// `addr_mode_0`, `filter_mode`, `width` …
        name: Name<'a>,
        /// A number, or a word such as `wrap`, which is stored as an address.
        value: Box<Initializer<'a>>,
    },
}

/// Kernel or device function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: a device function.
    Func,
}

/// `.visible .entry k(.param .u64 p) .maxntid 256 { … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// The linkage. The driver finds kernels of any linkage by name.
    pub linkage: Linkage,
    /// The contents of `.attribute(…)`; kernels have none.
    pub attributes: Attributes,
    /// The name that calls and `cuModuleGetFunction` use.
    pub name: Name<'a>,
    /// Return parameters of a `.func`, in `.reg` or `.param` space.
    pub returns: Vec<Variable<'a>>,
    /// In argument order. Those of a kernel are all `.param`.
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.noreturn`, `.maxnreg` … with their values.
    pub directives: Vec<FunctionDirective<'a>>,
    /// `None` for a declaration that ends in `;`.
    pub body: Option<Body<'a>>,
    /// From the linkage to the `}` or `;`.
    pub span: Span,
}

/// `.maxntid 16, 16` between the parameters and the body (PTX ISA,
/// "Performance-Tuning Directives").
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDirective<'a> {
    /// Without the dot: `maxntid`.
    pub name: &'a str,
    /// The values as written, `[16, 16]`; omitted dimensions are 1.
    pub values: Vec<u32>,
    /// The strings of a `.pragma`.
    pub strings: Vec<Name<'a>>,
    /// The whole directive, from the dot.
    pub text: &'a str,
    /// The span of [`text`](Self::text).
    pub span: Span,
}

/// The body of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body<'a> {
    /// A flat list in source order. [`Statement::Begin`] and [`Statement::End`]
    /// delimit blocks, so that deep nesting cannot overflow the stack.
    pub statements: Vec<Statement<'a>>,
    /// The pool that the [`List`]s of this function index.
    pub operands: Vec<Operand<'a>>,
    /// Whether the body has syntax errors. Labels may then be missing.
    pub broken: bool,
    /// Braces included.
    pub span: Span,
}

impl<'a> Body<'a> {
    /// The guard `@%p` of an instruction of this function. Few instructions have
    /// one, so the predicate is stored in the pool, after the operands.
    pub fn guard(&self, instruction: &Instruction) -> Option<Guard<'a>> {
        if !instruction.guarded {
            return None;
        }
        let List { start, len } = instruction.operands;
        let (predicate, negated) = match *self.operands.get(start as usize + len as usize)? {
            Operand::Name(predicate) => (predicate, false),
            Operand::Not(predicate) => (predicate, true),
            _ => return None,
        };
        Some(Guard { predicate, negated })
    }

    /// The operands of `list`.
    pub fn list(&self, list: List) -> &[Operand<'a>] {
        let start = list.start as usize;
        self.operands
            .get(start..start + list.len as usize)
            .unwrap_or(&[])
    }
}

/// A statement of a function (PTX ISA, "Statements").
#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    /// `LOOP:`
    Label(Name<'a>),
    /// `@%p add.s32 %r1, %r2, 4;`
    Instruction(Instruction),
    /// `.reg .b32 %r<9>;`, `.shared .f32 tile[64];`, in scope until the end of its block.
    /// Boxed because it is larger than an instruction, and most statements are those.
    Variable(Box<Variable<'a>>),
    /// `{`: names declared until the matching [`Statement::End`] are local to it.
    Begin(Span),
    /// `}`
    End(Span),
    /// `.loc file line column`
    Location(Box<Location<'a>>),
    /// `name: .branchtargets …;`, `name: .calltargets …;`
    Targets(Box<Targets<'a>>),
    /// `name: .callprototype (ret) _ (params);`
    Prototype(Box<Prototype<'a>>),
    /// `.pragma` and other directives without effect on the code.
    Directive(Box<Directive<'a>>),
}

/// `.loc file line column`, with its inlining information, or `.loc_intermediate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Location<'a> {
    /// `.loc_intermediate`: the place is in a language between the source and PTX.
    pub intermediate: bool,
    /// The source location of the statements that follow.
    pub place: Place,
    /// `, function_name $L__info_string0, inlined_at 1 30 2`
    pub inlined: Option<Inlined<'a>>,
    /// The directive with all its clauses.
    pub span: Span,
}

/// A location in the source that was compiled to PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of a `.file` directive.
    pub file: u32,
    /// From 1.
    pub line: u32,
    /// From 1; 0 where unknown.
    pub column: u32,
}

/// The inlining clauses of a `.loc` (PTX ISA, "Debugging Directives: .loc").
#[derive(Clone, Debug, PartialEq)]
pub struct Inlined<'a> {
    /// A label in `.debug_str` for the name of the inlined function.
    pub function: Name<'a>,
    /// Offset from the label in bytes.
    pub offset: i64,
    /// The call site.
    pub at: Place,
}

/// `name: .branchtargets …;`, `name: .calltargets …;`
#[derive(Clone, Debug, PartialEq)]
pub struct Targets<'a> {
    /// The name that `brx.idx` or an indirect `call` refers to.
    pub name: Name<'a>,
    /// `.calltargets`: the targets are functions, not labels.
    pub calls: bool,
    /// Indexed by the operand of `brx.idx`.
    pub targets: Vec<Name<'a>>,
    /// From the name to the last target.
    pub span: Span,
}

/// `name: .callprototype (ret) _ (params);`
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype<'a> {
    /// The name that an indirect `call` refers to.
    pub name: Name<'a>,
    /// Empty, or the one return value.
    pub returns: Vec<Variable<'a>>,
    /// The parameters of the callee; their names are ignored.
    pub params: Vec<Variable<'a>>,
    /// `.noreturn`, `.abi_preserve` …
    pub directives: Vec<FunctionDirective<'a>>,
    /// From the name to the last directive.
    pub span: Span,
}

/// `@!p opcode.modifiers a, b, c;`
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Whether the instruction has a guard; see [`Body::guard`].
    pub guarded: bool,
    /// The first word alone: `cp` of `cp.async.bulk`.
    pub opcode: Opcode,
    /// The opcode with its modifiers; see [`Module::mnemonic`].
    pub mnemonic: MnemonicId,
    /// In source order, results first; see [`Body::list`].
    pub operands: List,
    /// From the guard to the semicolon.
    pub span: Span,
    /// The span of the opcode with its modifiers.
    pub opcode_span: Span,
}

// A module has millions of statements.
const _: () = assert!(size_of::<Statement<'_>>() == 32);

/// `@%p` or `@!%p`: threads for which the guard is false skip the instruction (PTX
/// ISA, "Predicated Execution").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard<'a> {
    /// A `.pred` register.
    pub predicate: Name<'a>,
    /// Written with `!`.
    pub negated: bool,
}

/// The modifiers of an instruction in source order, types included:
/// `ld.global.v4.f32` has `[Global, V4, F32]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Modifiers {
    list: [Modifier; Modifiers::MAX],
    len: u8,
}

impl Hash for Modifiers {
    /// Most instructions have two or three.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl Modifiers {
    /// No instruction of PTX ISA 9.5 has more.
    pub const MAX: usize = 18;

    /// No modifiers at all.
    pub const NONE: Modifiers = Modifiers {
        list: [Modifier::NONE; Modifiers::MAX],
        len: 0,
    };

    /// Appends a modifier; `false` if the list is full.
    pub fn push(&mut self, modifier: Modifier) -> bool {
        let Some(slot) = self.list.get_mut(self.len as usize) else {
            return false;
        };
        *slot = modifier;
        self.len += 1;
        true
    }

    /// In the order of the text.
    #[inline]
    pub fn as_slice(&self) -> &[Modifier] {
        &self.list[..self.len as usize]
    }

    /// Whether the list contains `modifier`.
    #[inline]
    pub fn has(&self, modifier: Modifier) -> bool {
        self.as_slice().contains(&modifier)
    }

    /// The first of `choices` that the list contains.
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
        Modifiers::NONE
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
