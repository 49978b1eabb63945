//! One kernel with all names resolved: the tree of the text becomes blocks of
//! instructions over numbered registers, device functions inlined.
//!
//! An [`Instruction`] keeps the opcode and modifiers of the text: the meaning of
//! an instruction is written once, in the code generator's families.

mod areas;
mod build;
mod data;
mod flow;
mod inline;
mod liveness;
mod loops;
mod operands;
mod poll;
mod scope;
mod shapes;
mod webs;

pub(crate) use build::build;
pub(crate) use data::{ModuleData, float_bits, module_data};
pub(crate) use liveness::{Liveness, RegisterSet};
pub(crate) use loops::weights;
pub(crate) use shapes::{NoWrap, Shape, Shapes};

use crate::blob::ParamLayout;
use ptx::ast::{FloatValue, Span};
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};

pub(crate) use ptx::ast::Modifiers;

/// A virtual register: an index into [`Program::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(pub u32);

impl Reg {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A basic block: an index into [`Program::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockId(pub u32);

impl BlockId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a register is held. PTX's untyped registers are held as what most of
/// their instructions want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Pred,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Class {
    pub fn bytes(self) -> u32 {
        match self {
            Class::Pred => 1,
            Class::I16 => 2,
            Class::I32 | Class::F32 => 4,
            Class::I64 | Class::F64 => 8,
        }
    }
}

/// Why a kernel cannot be compiled, and where.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub span: Span,
    pub reason: String,
    /// The text is wrong, rather than beyond this device.
    pub invalid: bool,
}

impl Refusal {
    pub fn unsupported(span: Span, reason: impl Into<String>) -> Refusal {
        Refusal {
            span,
            reason: reason.into(),
            invalid: false,
        }
    }

    pub fn invalid(span: Span, reason: impl Into<String>) -> Refusal {
        Refusal {
            span,
            reason: reason.into(),
            invalid: true,
        }
    }
}

/// A range of [`Program::args`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArgList {
    pub start: u32,
    pub len: u32,
}

/// What an address counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A module variable, by its index.
    Global(u32),
    /// Bytes from the start of the block's shared memory.
    Shared(u32),
    /// The shared memory that the launch adds behind the static part.
    DynamicShared,
    /// Bytes from the start of the thread's frame.
    Local(u32),
    /// Bytes from the start of the kernel's parameters.
    Param(u32),
    /// A `.param` variable of a call sequence.
    Area(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Reg(Reg),
    Place(Place),
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
    Symbol(Place, i64),
    /// `[base + offset]`
    Address(Base, i64),
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
    pub args: ArgList,
    /// Left only on instructions that [`can_select`] allows.
    pub guard: Option<Guard>,
    pub span: Span,
    /// 1-based line in the PTX.
    pub line: u32,
}

/// A function of the CUDA runtime that kernels declare and call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemCall {
    Vprintf,
    AssertFail,
    Malloc,
    Free,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Instruction(Instruction),
    /// Arguments are registers; the result, if any, goes to `result`.
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
    /// `brx.idx`: an index beyond the list is a fault.
    Table {
        index: Arg,
        targets: Vec<BlockId>,
        line: u32,
    },
    Exit,
    /// `trap`
    Trap {
        line: u32,
    },
    /// The thread stops here and goes on in `next`.
    Sync {
        instruction: Instruction,
        next: BlockId,
    },
}

impl Terminator {
    pub fn successors(&self) -> impl Iterator<Item = BlockId> + '_ {
        let (few, many): ([Option<BlockId>; 2], &[BlockId]) = match self {
            Terminator::Jump(to) | Terminator::Sync { next: to, .. } => ([Some(*to), None], &[]),
            Terminator::Branch {
                then, otherwise, ..
            } => ([Some(*then), Some(*otherwise)], &[]),
            Terminator::Table { targets, .. } => ([None, None], targets),
            Terminator::Exit | Terminator::Trap { .. } => ([None, None], &[]),
        };
        few.into_iter().flatten().chain(many.iter().copied())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub steps: Vec<Step>,
    pub terminator: Terminator,
}

/// One kernel, ready for code generation. Block 0 is its entry.
#[derive(Clone, Debug)]
pub(crate) struct Program<'a> {
    pub name: &'a str,
    pub line: u32,
    pub registers: Vec<Class>,
    pub blocks: Vec<Block>,
    /// The pool that [`ArgList`]s point into.
    pub args: Vec<Arg>,
    pub params: Vec<ParamLayout>,
    pub param_bytes: u32,
    /// Static shared memory, and the offset where the dynamic part begins.
    pub shared_bytes: u32,
    pub local_bytes: u32,
    pub required_threads: Option<[u32; 3]>,
    pub max_threads: Option<[u32; 3]>,
    /// The condition code register of `add.cc` and its like.
    pub carry: Option<Reg>,
}

impl Program<'_> {
    pub fn list(&self, list: ArgList) -> &[Arg] {
        let start = list.start as usize;
        self.args
            .get(start..start + list.len as usize)
            .unwrap_or(&[])
    }

    /// Calls `f` with every register that `arg` names.
    pub fn registers_of(&self, arg: Arg, f: &mut impl FnMut(Reg)) {
        match arg {
            Arg::Reg(reg) | Arg::Not(reg) | Arg::Select { reg, .. } => f(reg),
            Arg::Address(Base::Reg(reg), _) => f(reg),
            Arg::List(list) => {
                for &inner in self.list(list) {
                    self.registers_of(inner, f);
                }
            }
            _ => {}
        }
    }

    /// Is the first operand written?
    pub fn has_destination(&self, instruction: &Instruction) -> bool {
        use Opcode::*;
        match instruction.opcode {
            Bar | Barrier => instruction.modifiers.has(Modifier::Red),
            // A parameter of a call that became a register.
            St => matches!(self.list(instruction.args).first(), Some(Arg::Reg(_))),
            Red | Sust | Sured | Membar | Fence | Prefetch | Prefetchu | Cp | Nanosleep | Brkpt
            | Discard | Applypriority | Griddepcontrol | Pmevent | Setmaxnreg | Stackrestore
            | Trap | Exit | Ret | Bra | Brx | Call => false,
            _ => true,
        }
    }

    /// Calls `used` and `defined` with the registers of an instruction.
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
            use Opcode::*;
            if matches!(instruction.opcode, Addc | Subc | Madc) {
                used(carry);
            }
            if instruction.modifiers.has(Modifier::Cc) {
                defined(carry);
            }
        }
        if let Some(guard) = instruction.guard {
            used(guard.reg);
            // What the guard leaves unwritten must be there.
            for &arg in destinations {
                self.registers_of(arg, used);
            }
        }
        for &arg in destinations {
            self.registers_of(arg, defined);
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

/// Can a guarded instruction of this kind run regardless, its result dropped?
/// Cheap ones without effects can: that saves a branch.
pub(crate) fn can_select(opcode: Opcode, modifiers: &Modifiers) -> bool {
    use Opcode::*;
    if modifiers.has(Modifier::Cc) {
        return false;
    }
    match opcode {
        Abs | Neg | Min | Max | Mad | Mul => {
            // Half precision and directed rounding call functions.
            !modifiers
                .types()
                .any(|t| matches!(t, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2))
                && modifiers
                    .first_of(&[Modifier::Rz, Modifier::Rm, Modifier::Rp])
                    .is_none()
        }
        Add | Sub | Fma => {
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
