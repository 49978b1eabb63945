//! The tree of a PTX module: what stands in the text, names unresolved.
//!
//! Names are borrowed from the source. Operands of a function lie in one pool
//! ([`Body::operands`]) and are referred to by range, so that reading costs no
//! allocation an instruction.

mod name;
mod operand;

pub use name::{Name, Span};
pub use operand::{AddressBase, Float, FloatValue, Integer, List, Operand, Selector};

use std::borrow::Cow;
use std::fmt;

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
    /// 32 or 64 bits; 32 where the module does not say, as the ISA has it.
    pub address_size: Option<(u8, Span)>,
    /// All after the head, in the order of the text.
    pub items: Vec<Item<'a>>,
    /// Each opcode with its modifiers once, in the order of the text.
    pub mnemonics: Vec<Mnemonic<'a>>,
}

impl<'a> Module<'a> {
    /// The opcode and the modifiers that an instruction of this module has.
    pub fn mnemonic(&self, instruction: &Instruction) -> &Mnemonic<'a> {
        let found = self.mnemonics.get(instruction.mnemonic.index());
        found.unwrap_or(const { &Mnemonic::UNKNOWN })
    }
}

/// An opcode with its modifiers, `ld.global.v2.f32`.
///
/// A module of a million instructions has some hundred of them: what they mean
/// is found out once for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mnemonic<'a> {
    /// As written; owned where white space stood between the words.
    pub text: Cow<'a, str>,
    /// The first word alone: `cp` of `cp.async.bulk`.
    pub opcode: Opcode,
    /// The words after it, types included.
    pub modifiers: Modifiers,
}

impl Mnemonic<'_> {
    const UNKNOWN: Mnemonic<'static> = Mnemonic {
        text: Cow::Borrowed(""),
        opcode: Opcode::Unknown,
        modifiers: Modifiers::NONE,
    };
}

/// Which of [`Module::mnemonics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MnemonicId(pub(crate) u32);

impl MnemonicId {
    /// Its place in [`Module::mnemonics`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What stands at the top level of a module (PTX ISA, "PTX Module Directives").
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// `.global .u32 counter;`, or another variable outside of functions.
    Variable(Variable<'a>),
    /// `.entry` or `.func`, declared or defined.
    Function(Function<'a>),
    /// `.file`, `.section`, `.alias`, `.pragma`.
    Directive(Directive<'a>),
}

/// A directive that declares nothing: what it says, and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive<'a> {
    /// Which it is, with what other parts of the module refer to.
    pub kind: DirectiveKind<'a>,
    /// All of it, from the dot on.
    pub text: &'a str,
    /// Where [`text`](Self::text) stands.
    pub span: Span,
}

/// What a [`Directive`] says.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectiveKind<'a> {
    /// `.file 1 "a.cu"`
    File {
        /// What `.loc` calls the file.
        index: u32,
        /// Its time and size are said too.
        stamped: bool,
    },
    /// `.section .debug_str { … }`: bytes for a debugger.
    Section {
        /// Whether places in it have names.
        labels: bool,
    },
    /// `@@DWARF .byte 1, 2`: the same of PTX 1.x, a line each.
    Dwarf,
    /// `.pragma "nounroll", "…";`
    Pragma(Vec<Name<'a>>),
    /// A `.target sm_80` within a function; those of the head are in [`Module::target`].
    Target(Vec<Name<'a>>),
    /// `.alias name, function;`
    Alias {
        /// The other name, declared before.
        name: Name<'a>,
        /// The function that it stands for.
        function: Name<'a>,
    },
}

/// Who else may name a variable or function (PTX ISA, "Linking Directives").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// No directive: this module alone.
    #[default]
    None,
    /// `.extern`: defined in another module; for `.shared x[]`, sized by the launch.
    Extern,
    /// `.visible`: other modules may name it.
    Visible,
    /// `.weak`: like `.visible`, but yields to another definition.
    Weak,
    /// `.common`: `.global` variables of one name share one place.
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
    /// `.global`: seen by every thread, initialised at load.
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
    /// Says what the declaration declares: registers or memory, and whose.
    pub space: Space,
    /// The 2 of `.const[2]`: the bank of constant memory, which PTX 1.5 to 2.1 has.
    pub bank: Option<u8>,
    /// Bytes of `.align`; [`layout`](super::signature::layout) knows the default.
    pub align: Option<u32>,
    /// Of one element: `.f32` of `.v4 .f32 x[2]`.
    pub ty: Type,
    /// 1, or 2, 4, 8 for `.v2`, `.v4`, `.v8`.
    pub vector: u8,
    /// `_` for a parameter without a name, `%r` for `%r<9>`.
    pub name: Name<'a>,
    /// `%r<9>` declares `%r0` … `%r8`: `Some(9)`.
    pub count: Option<u32>,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    /// What follows `=`; memory without is zero, in `.shared` and `.local` undefined.
    pub init: Option<Initializer<'a>>,
    /// `.ptr`, `.ptr.global.align 16` of kernel parameters.
    pub pointer: Option<PointerAttribute>,
    /// What stands in `.attribute(…)`.
    pub attributes: Attributes,
    /// From the state space to the `,` or `;`, which is left out.
    pub span: Span,
}

/// What stands in `.attribute(…)` of a variable or function (PTX ISA,
/// "Variable and Function Attribute Directive").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `.managed`: the driver moves the variable between host and device.
    pub managed: bool,
    /// `.unified(1, 2)`: the two halves of the number that the host has it by.
    pub unified: Option<(u64, u64)>,
}

/// What a kernel parameter says it points to: `.ptr .global .align 16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttribute {
    /// `None` for a generic address.
    pub space: Option<Space>,
    /// The 2 of `.const[2]`.
    pub bank: Option<u8>,
    /// Bytes; of what is pointed to, not of the parameter.
    pub align: Option<u32>,
}

/// What a variable holds at first (PTX ISA, "Initializers").
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer<'a> {
    /// `= 42`
    Integer(Integer),
    /// `= 0f3F800000`, `= 1.5`
    Float(Float),
    /// `name`, `name+4`, `generic(name)+4`, `mask(generic(name))`.
    Address {
        /// The variable or function whose address it is.
        name: Name<'a>,
        /// Inside `generic(…)`: the generic address, not that in its space.
        generic: bool,
        /// Bytes added.
        offset: i64,
        /// `0xFF00` of `0xFF00(name)`: which byte of the address is taken.
        mask: Option<u64>,
    },
    /// `{1, 2}`; lists in it are rows of an array or vectors.
    List(Vec<Initializer<'a>>),
    /// `addr_mode_0 = wrap` of a `.texref` or `.samplerref`.
    Property {
        /// `addr_mode_0`, `filter_mode`, `width` …
        name: Name<'a>,
        /// A number, or a word such as `wrap` as an address.
        value: Box<Initializer<'a>>,
    },
}

/// Whether the host or other functions call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: a function of the device.
    Func,
}

/// `.visible .entry k(.param .u64 p) .maxntid 256 { … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// Kernels return nothing and lay their parameters out in one buffer.
    pub kind: FunctionKind,
    /// The driver finds kernels of any linkage by name.
    pub linkage: Linkage,
    /// What stands in `.attribute(…)`, which kernels do not have.
    pub attributes: Attributes,
    /// What calls and `cuModuleGetFunction` name.
    pub name: Name<'a>,
    /// Return parameters of a `.func`, in `.reg` or `.param` space.
    pub returns: Vec<Variable<'a>>,
    /// In the order of the arguments; a kernel's are all `.param`.
    pub params: Vec<Variable<'a>>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.noreturn`, `.maxnreg` … with their numbers.
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
    /// The numbers as written, `[16, 16]`; missing dimensions count as 1.
    pub values: Vec<u32>,
    /// The strings of a `.pragma`.
    pub strings: Vec<Name<'a>>,
    /// All of it, from the dot on.
    pub text: &'a str,
    /// Where [`text`](Self::text) stands.
    pub span: Span,
}

/// What stands between the braces of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body<'a> {
    /// Flat, in the order of the text: a block is a [`Statement::Begin`] and a
    /// [`Statement::End`], so that no depth of nesting can exhaust a stack.
    pub statements: Vec<Statement<'a>>,
    /// The pool that [`List`]s of this function point into.
    pub operands: Vec<Operand<'a>>,
    /// Whether something could not be read. Labels may be missing then.
    pub broken: bool,
    /// Braces included.
    pub span: Span,
}

impl<'a> Body<'a> {
    /// `@%p` before the opcode of an instruction of this function. Its
    /// predicate lies in the pool, behind the operands: few have one.
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

    /// The operands that `list` stands for.
    pub fn list(&self, list: List) -> &[Operand<'a>] {
        let start = list.start as usize;
        self.operands
            .get(start..start + list.len as usize)
            .unwrap_or(&[])
    }
}

/// What stands in a function (PTX ISA, "Statements").
#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    /// `LOOP:`
    Label(Name<'a>),
    /// `@%p add.s32 %r1, %r2, 4;`
    Instruction(Instruction),
    /// `.reg .b32 %r<9>;`, `.shared .f32 tile[64];`, known until the end of its block.
    /// Boxed, as it is large and instructions are many.
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
    /// `.pragma` and whatever else has no meaning for code.
    Directive(Box<Directive<'a>>),
}

/// `.loc file line column`, and what it was inlined into.
#[derive(Clone, Debug, PartialEq)]
pub struct Location<'a> {
    /// The place of the statements that follow.
    pub place: Place,
    /// `, function_name $L__info_string0, inlined_at 1 30 2`
    pub inlined: Option<Inlined<'a>>,
    /// The directive with all its clauses.
    pub span: Span,
}

/// A place in the language that was compiled to PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A label in a section of debugging strings: how the function is called.
    pub function: Name<'a>,
    /// Bytes behind the label.
    pub offset: i64,
    /// Where the function was called.
    pub at: Place,
}

/// `name: .branchtargets …;`, `name: .calltargets …;`
#[derive(Clone, Debug, PartialEq)]
pub struct Targets<'a> {
    /// What `brx.idx` or an indirect `call` names.
    pub name: Name<'a>,
    /// `.calltargets`: the targets are functions, not labels.
    pub calls: bool,
    /// By the index that `brx.idx` takes.
    pub targets: Vec<Name<'a>>,
    /// From the name to the last target.
    pub span: Span,
}

/// `name: .callprototype (ret) _ (params);`
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype<'a> {
    /// What an indirect `call` names.
    pub name: Name<'a>,
    /// Empty, or the one value returned.
    pub returns: Vec<Variable<'a>>,
    /// What the callee takes; the names in it mean nothing.
    pub params: Vec<Variable<'a>>,
    /// `.noreturn`, `.abi_preserve` …
    pub directives: Vec<FunctionDirective<'a>>,
    /// From the name to the last of the directives.
    pub span: Span,
}

/// `@!p opcode.modifiers a, b, c;`
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Whether `@%p` stands before the opcode: [`Body::guard`] gives it.
    pub guarded: bool,
    /// The first word alone: `cp` of `cp.async.bulk`.
    pub opcode: Opcode,
    /// The opcode with its modifiers: [`Module::mnemonic`] gives it.
    pub mnemonic: MnemonicId,
    /// In the order of the text, results first; [`Body::list`] gives them.
    pub operands: List,
    /// From the guard to the semicolon.
    pub span: Span,
    /// Of the opcode with its modifiers.
    pub opcode_span: Span,
}

// A module has a million of them.
const _: () = assert!(size_of::<Statement<'_>>() == 32);

/// `@%p` or `@!%p`: threads where it does not hold skip the instruction (PTX
/// ISA, "Predicated Execution").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard<'a> {
    /// A `.pred` register.
    pub predicate: Name<'a>,
    /// Written with `!`.
    pub negated: bool,
}

/// The modifiers of an instruction in the order of the text, types included:
/// `ld.global.v4.f32` has `[Global, V4, F32]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Modifiers {
    list: [Modifier; Modifiers::MAX],
    len: u8,
}

impl Modifiers {
    /// No instruction of PTX ISA 9.5 has more.
    pub const MAX: usize = 18;

    /// No modifiers at all.
    pub const NONE: Modifiers = Modifiers {
        list: [Modifier::NONE; Modifiers::MAX],
        len: 0,
    };

    /// Adds one at the end; `false` when the list is full.
    pub fn push(&mut self, modifier: Modifier) -> bool {
        let Some(slot) = self.list.get_mut(self.len as usize) else {
            return false;
        };
        *slot = modifier;
        self.len += 1;
        true
    }

    /// In the order of the text.
    pub fn as_slice(&self) -> &[Modifier] {
        &self.list[..self.len as usize]
    }

    /// Whether `modifier` stands anywhere among them.
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
