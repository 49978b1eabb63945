//! The intermediate representation.

pub(super) mod byte_offset;
mod display;
pub(super) mod liveness;
pub(super) mod natural;
pub(super) mod reg_class;
pub(super) mod verify;

use self::byte_offset::ByteOffset;
use crate::abi::{FaultKind, LOCAL_ALIGN};
use crate::blob::ParamLayout;
use analysis::control_flow::Graph;
use ptx::ast::{self, FloatValue, Span};
use ptx::isa::{self, Class, Convergence, Meaning, Outcome};
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};

pub(crate) use analysis::control_flow::BlockId;
pub(crate) use ptx::ast::Modifiers;

/// A virtual register: an index into [`Program::registers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(pub u32);

impl Reg {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The register class of a virtual register. For an untyped PTX register
/// [`reg_class`](self::reg_class) chooses the class that most of its instructions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RegClass {
    Pred,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl RegClass {
    pub fn is_float(self) -> bool {
        matches!(self, RegClass::F32 | RegClass::F64)
    }

    pub fn bytes(self) -> u32 {
        match self {
            RegClass::Pred => 1,
            RegClass::I16 => 2,
            RegClass::I32 | RegClass::F32 => 4,
            RegClass::I64 | RegClass::F64 => 8,
        }
    }
}

/// Why a kernel cannot be compiled, and at which place of the text.
#[derive(Clone, Debug)]
pub(crate) struct LoweringError {
    pub span: Span,
    pub reason: String,
    /// The PTX is invalid. Otherwise it is valid, but not supported.
    pub invalid: bool,
}

impl LoweringError {
    pub fn unsupported(span: Span, reason: impl Into<String>) -> LoweringError {
        LoweringError {
            span,
            reason: reason.into(),
            invalid: false,
        }
    }

    pub fn invalid(span: Span, reason: impl Into<String>) -> LoweringError {
        LoweringError {
            span,
            reason: reason.into(),
            invalid: true,
        }
    }

    /// Names the place of an instruction if it names none.
    pub fn at(mut self, i: &Instruction) -> LoweringError {
        if self.span == Span::default() {
            self.span = i.span;
        }
        self
    }
}

/// A range of [`Program::args`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArgList {
    pub start: u32,
    pub len: u32,
}

/// Where a variable is stored. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Storage {
    /// A module variable: its index in `Image::variables`.
    Global(u32),
    /// Offset in the block's shared memory.
    Shared(u32),
    /// The dynamic shared memory, which follows the static part.
    DynamicShared,
    /// Offset in the thread's local frame.
    Local(u32),
    /// Offset in the kernel's parameters.
    Param(u32),
    /// A `.param` variable of a call sequence. Call-parameter promotion replaces it.
    CallParam(u32),
    /// Offset in the frame of a function that is called through the stack. The lowering of
    /// such calls replaces it.
    Stack(u32),
}

/// The base of an address operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Reg(Reg),
    Storage(Storage),
    /// `[16]`
    Absolute,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arg {
    Reg(Reg),
    Int(u64),
    Float(FloatValue),
    Special(SpecialRegister),
    /// The address of a variable as a value.
    Symbol(Storage, ByteOffset),
    /// `[base + offset]`
    Address(Base, ByteOffset),
    /// `{a, b}`, `p|q`
    List(ArgList),
    /// `!p`
    Not(Reg),
    /// `%r.b0` of a video instruction; `Modifier::NONE` selects all of it.
    Select {
        reg: Reg,
        negated: bool,
        selector: Modifier,
    },
    /// `_`
    Sink,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub reg: Reg,
    pub negated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub opcode: Opcode,
    pub modifiers: Modifiers,
    /// What the instruction table says of it.
    pub meaning: Meaning,
    /// Whether it writes its first operand, as the table says.
    writes: bool,
    pub args: ArgList,
    /// Only where [`can_speculate`] holds; other guards have become branches.
    pub guard: Option<Guard>,
    pub span: Span,
    /// 1-based line in the PTX.
    pub line: u32,
}

/// What the instruction table says of a mnemonic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub meaning: Meaning,
    /// Whether the instruction writes its first operand.
    writes: bool,
}

impl Row {
    pub const UNKNOWN: Row = Row {
        meaning: Meaning::UNKNOWN,
        writes: false,
    };

    pub fn of(opcode: Opcode, modifiers: &Modifiers) -> Row {
        isa::form(opcode, modifiers).map_or(Row::UNKNOWN, |form| Row {
            meaning: form.meaning(modifiers),
            writes: form.writes(modifiers) > 0,
        })
    }
}

impl Instruction {
    /// An instruction without a guard.
    pub fn new(
        opcode: Opcode,
        modifiers: Modifiers,
        args: ArgList,
        span: Span,
        line: u32,
    ) -> Instruction {
        let row = Row::of(opcode, &modifiers);
        Instruction {
            opcode,
            modifiers,
            meaning: row.meaning,
            writes: row.writes,
            args,
            guard: None,
            span,
            line,
        }
    }

    /// An instruction of the text, without operands and guard, and the row of its mnemonic.
    pub fn of_text(ast: &ast::Instruction, modifiers: Modifiers, row: Row, line: u32) -> Self {
        Instruction {
            opcode: ast.opcode,
            modifiers,
            meaning: row.meaning,
            writes: row.writes,
            args: ArgList::default(),
            guard: None,
            span: ast.span,
            line,
        }
    }

    /// How it compares its operands.
    pub fn comparison(&self) -> Option<Modifier> {
        self.modifiers.first_of(&[
            Modifier::Eq,
            Modifier::Ne,
            Modifier::Lt,
            Modifier::Le,
            Modifier::Gt,
            Modifier::Ge,
            Modifier::Lo,
            Modifier::Ls,
            Modifier::Hi,
            Modifier::Hs,
            Modifier::Equ,
            Modifier::Neu,
            Modifier::Ltu,
            Modifier::Leu,
            Modifier::Gtu,
            Modifier::Geu,
            Modifier::Num,
            Modifier::Nan,
        ])
    }

    /// Whether it is an operation on matrices, whose registers are in slots.
    pub fn is_matrix(&self) -> bool {
        let m = &self.modifiers;
        self.meaning.class == Class::Matrix
            && match self.opcode {
                // It also names waits, for products that are complete where they stand.
                Opcode::Wgmma => m.has(Modifier::MmaAsync),
                // Of others the matrices are in memory.
                Opcode::Tcgen05 => m.first_of(&[Modifier::Ld, Modifier::St]).is_some(),
                _ => true,
            }
    }

    /// Whether operand `n` of an operation on matrices, `arg`, is a fragment: registers of all
    /// lanes. The others are addresses and distances in memory, and descriptors.
    pub fn is_fragment(&self, n: usize, arg: Arg) -> bool {
        match (self.meaning.result, self.opcode) {
            // Metadata of a sparse A stand behind the descriptors.
            (_, Opcode::Wgmma) => {
                matches!(arg, Arg::List(_)) || n == 3 && self.modifiers.has(Modifier::Sp)
            }
            (_, Opcode::Mma) => !matches!(arg, Arg::Int(_)),
            (_, Opcode::Tcgen05) => !matches!(arg, Arg::Address(..) | Arg::Int(_)),
            (Outcome::Lane, Opcode::Ldmatrix) => n == 0,
            (Outcome::Lane, Opcode::Wmma) => n == 0 || self.modifiers.has(Modifier::Mma),
            (Outcome::Lane, _) => true,
            // A store names the address first.
            _ => n == 1,
        }
    }

    /// Whether the result depends on what the destination held: where a guard is false, it
    /// stays.
    pub fn keeps_destination(&self) -> bool {
        self.guard.is_some() || self.meaning.accumulates
    }

    /// Whether the thread is suspended there.
    pub fn is_sync_point(&self) -> bool {
        match self.meaning.convergence {
            Convergence::Active | Convergence::Mask | Convergence::Block => true,
            // Others run meanwhile.
            Convergence::Alone => self.opcode == Opcode::Nanosleep,
            Convergence::Warp => self.is_matrix(),
            Convergence::Cluster => true,
        }
    }
}

/// A function of CUDA's device runtime that kernels declare and call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemCall {
    Vprintf,
    AssertFail,
    Malloc,
    Free,
}

/// An element of a basic block before its terminator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Instruction(Instruction),
    /// The arguments are registers.
    SystemCall {
        call: SystemCall,
        args: ArgList,
        result: Option<Reg>,
        line: u32,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Terminator {
    Jump(BlockId),
    Branch {
        predicate: Guard,
        then: BlockId,
        otherwise: BlockId,
    },
    /// `brx.idx`, a call through a register, or the return from a function that is called
    /// through the stack. An index out of range is a fault, unless there is a block for it.
    Table {
        index: Arg,
        targets: Vec<BlockId>,
        otherwise: Option<BlockId>,
        line: u32,
    },
    Exit,
    /// `trap`, and what else always fails. Some faults have an address.
    Fault {
        kind: FaultKind,
        address: Option<Reg>,
        line: u32,
    },
    /// The thread is suspended, and resumes in `next`.
    Sync {
        instruction: Instruction,
        next: BlockId,
    },
}

impl Terminator {
    pub fn successors(&self) -> impl Iterator<Item = BlockId> + '_ {
        let (inline, table): ([Option<BlockId>; 2], &[BlockId]) = match self {
            Terminator::Jump(to) | Terminator::Sync { next: to, .. } => ([Some(*to), None], &[]),
            Terminator::Branch {
                then, otherwise, ..
            } => ([Some(*then), Some(*otherwise)], &[]),
            Terminator::Table {
                targets, otherwise, ..
            } => ([*otherwise, None], targets),
            Terminator::Exit | Terminator::Fault { .. } => ([None, None], &[]),
        };
        inline.into_iter().flatten().chain(table.iter().copied())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BasicBlock {
    pub steps: Vec<Step>,
    pub terminator: Terminator,
}

/// One lowered kernel. Block 0 is its entry.
#[derive(Clone, Debug)]
pub(crate) struct Program<'a> {
    pub name: &'a str,
    pub line: u32,
    pub registers: Vec<RegClass>,
    pub blocks: Vec<BasicBlock>,
    /// The operands of all instructions, which [`ArgList`]s index.
    pub args: Vec<Arg>,
    pub params: Vec<ParamLayout>,
    pub param_bytes: u32,
    /// Bytes of static shared memory, and the offset of the dynamic part.
    pub shared_bytes: u32,
    pub local_bytes: u32,
    /// The largest alignment of a local variable.
    pub local_align: u32,
    /// The size that a launch must have (`.reqntid`).
    pub required_threads: Option<[u32; 3]>,
    /// The size of the blocks that run the code, if it is known.
    pub block: Option<[u32; 3]>,
    pub required_cluster: Option<[u32; 3]>,
    /// A launch must name a cluster.
    pub explicit_cluster: bool,
    pub max_threads: Option<[u32; 3]>,
    /// The condition code register (`CC.CF`), if an instruction uses it.
    pub carry: Option<Reg>,
    /// It has atomics in shared memory, which lanes look up at places that they have loaded: there it
    /// pays to know the addresses of variables. Elsewhere code reloads what it would compute anew.
    pub counts_in_shared: bool,
}

impl Program<'_> {
    /// The bytes of local memory from one thread to the next: variables have their alignment in each.
    pub fn local_frame(&self) -> u32 {
        let align = self.local_align.min(LOCAL_ALIGN);
        let bytes = self.local_bytes.checked_next_multiple_of(align);
        bytes.unwrap_or(u32::MAX)
    }

    /// The control-flow graph of its blocks as they are.
    pub fn graph(&self) -> Graph {
        let mut edges = Vec::with_capacity(self.blocks.len() * 2);
        for (from, block) in (0..).zip(&self.blocks) {
            let next = block.terminator.successors();
            edges.extend(next.map(|to| (from, to.0)));
        }
        // A branch or table may name a block twice.
        edges.sort_unstable();
        edges.dedup();
        Graph::new(self.blocks.len(), &edges)
    }

    pub fn list(&self, list: ArgList) -> &[Arg] {
        let start = list.start as usize;
        self.args
            .get(start..start + list.len as usize)
            .unwrap_or(&[])
    }

    /// Calls `f` with every register that `arg` names.
    #[inline]
    pub fn registers_of(&self, arg: Arg, f: &mut impl FnMut(Reg)) {
        match arg {
            Arg::Reg(reg) | Arg::Not(reg) | Arg::Select { reg, .. } => f(reg),
            Arg::Address(Base::Reg(reg), _) => f(reg),
            Arg::List(list) => self.registers_of_list(list, f),
            _ => {}
        }
    }

    fn registers_of_list(&self, list: ArgList, f: &mut impl FnMut(Reg)) {
        for &inner in self.list(list) {
            self.registers_of(inner, f);
        }
    }

    /// Whether the instruction defines its first operand.
    pub fn has_destination(&self, instruction: &Instruction) -> bool {
        match instruction.opcode {
            // A store to a promoted call parameter.
            Opcode::St => matches!(self.list(instruction.args).first(), Some(Arg::Reg(_))),
            _ => instruction.writes,
        }
    }

    /// Calls `used` and `defined` with the registers that the instruction uses and
    /// defines.
    pub fn effects(
        &self,
        instruction: &Instruction,
        used: &mut impl FnMut(Reg),
        defined: &mut impl FnMut(Reg),
    ) {
        let args = self.list(instruction.args);
        let split = usize::from(self.has_destination(instruction)).min(args.len());
        let (destinations, sources) = args.split_at(split);
        for &arg in sources {
            self.registers_of(arg, used);
        }
        if let Some(carry) = self.carry {
            if instruction.meaning.carry_in {
                used(carry);
            }
            if instruction.meaning.carry_out {
                defined(carry);
            }
        }
        if let Some(guard) = instruction.guard {
            used(guard.reg);
        }
        if instruction.keeps_destination() {
            for &arg in destinations {
                self.registers_of(arg, used);
            }
        }
        for &arg in destinations {
            self.registers_of(arg, defined);
        }
    }

    /// Calls `f` with the registers that a sync point stores in the thread's request.
    pub fn requested(&self, instruction: &Instruction, f: &mut impl FnMut(Reg)) {
        if !instruction.is_matrix() {
            return self.effects(instruction, f, &mut |_| {});
        }
        for (n, &arg) in self.list(instruction.args).iter().enumerate() {
            if !instruction.is_fragment(n, arg) {
                self.registers_of(arg, f);
            }
        }
    }

    /// [`effects`](Self::effects) of a step.
    pub fn step_effects(
        &self,
        step: &Step,
        used: &mut impl FnMut(Reg),
        defined: &mut impl FnMut(Reg),
    ) {
        match step {
            Step::Instruction(instruction) => self.effects(instruction, used, defined),
            Step::SystemCall { args, result, .. } => {
                for &arg in self.list(*args) {
                    self.registers_of(arg, used);
                }
                if let Some(reg) = result {
                    defined(*reg);
                }
            }
        }
    }
}

/// Whether a guarded instruction can be speculated: it runs always, and a select
/// drops its result where the guard is false. That saves a branch for cheap
/// instructions without side effects.
pub(crate) fn can_speculate(opcode: Opcode, modifiers: &Modifiers) -> bool {
    use Opcode::*;
    if modifiers.has(Modifier::Cc) {
        return false;
    }
    match opcode {
        Abs | Neg | Min | Max | Mad | Mul | Add | Sub | Fma => {
            // Half precision and directed rounding are calls of helpers.
            !modifiers
                .types()
                .any(|t| matches!(t, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2))
                && modifiers
                    .first_of(&[Modifier::Rz, Modifier::Rm, Modifier::Rp])
                    .is_none()
        }
        And | Or | Xor | Not | Shl | Shr | Selp | Setp | Mov | Lop3 | Cnot => true,
        Cvt => modifiers
            .types()
            .all(|t| !matches!(t, Type::F32 | Type::F64) && t.bits() >= 8 && !is_float(t)),
        _ => false,
    }
}

fn is_float(ty: Type) -> bool {
    use Type::*;
    matches!(ty, F16 | F16x2 | Bf16 | Bf16x2 | F32 | F64 | F32x2 | Tf32)
}
