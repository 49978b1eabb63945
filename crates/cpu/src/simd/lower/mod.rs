//! Lowers the program of a kernel to the machine IR.
//!
//! A divergent register is in vectors of 16 lanes of 32 bits or 8 lanes of 64 bits, and a divergent
//! predicate in masks of 16 lanes. Other registers are in general-purpose registers. A uniform float is
//! in all lanes of one vector.

mod affine;
mod arithmetic;
mod control;
mod memory;
mod operands;
mod results;
mod scalar;
mod special;
mod vector;

use std::collections::HashMap;

use super::builder::{Builder, Variable};
use super::divergence::Divergence;
use super::isa::Isa;
use super::machine::{Code, INT, Label, MASK, Value, ZMM};
use super::packed_registers::{PackedRegisters, PartKind};
use super::shape::Shape;
use super::span::Spans;
use super::suspension::Suspension;
use crate::dump::{self, Stage};
use crate::program::{Instruction, Liveness, Program, Reg, RegClass, Step, pointers};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// A part of the kernel that has no lowering.
#[derive(Debug)]
pub(super) struct Unsupported(pub &'static str);

pub(super) type Lowered<T> = Result<T, Unsupported>;

/// Where a register is.
#[derive(Clone, Debug)]
enum Place {
    /// One value for all lanes.
    Uniform(Variable),
    /// The first lane's value, and the stride from lane to lane, of 32 bits.
    Affine(Variable, i32),
    /// See [`Shape::Extended`]: the uniform part, and the first lane's index.
    Extended(Sum),
    Indexed(IndexedSum),
    Lanes(Vec<Variable>),
}

impl Place {
    /// The variables of a register, and what groups keep of them.
    fn parts(&self, class: RegClass) -> Vec<(Variable, PartKind)> {
        let int = |variable: &Variable, wide| (*variable, PartKind::Int { wide });
        let all = |variables: &[Variable], kind| variables.iter().map(|&v| (v, kind)).collect();
        match self {
            Place::Lanes(variables) if class == RegClass::Pred => all(variables, PartKind::Mask),
            Place::Lanes(variables) => all(variables, PartKind::Vector),
            Place::Uniform(variable) if class.is_float() => vec![(*variable, PartKind::Vector)],
            Place::Uniform(variable) | Place::Affine(variable, _) => {
                vec![int(variable, class.bytes() == 8)]
            }
            Place::Extended(sum) => vec![int(&sum.base, true), int(&sum.index, false)],
            Place::Indexed(sum) => {
                let mut parts: Vec<_> = all(&sum.index, PartKind::Vector);
                parts.push(int(&sum.base, true));
                parts
            }
        }
    }
}

/// A register of 64 bits that is an extended sum.
#[derive(Clone, Copy, Debug)]
struct Sum {
    base: Variable,
    /// The first lane's index.
    index: Variable,
    stride: i32,
    scale: i32,
    signed: bool,
}

/// See [`Shape::Indexed`].
#[derive(Clone, Debug)]
struct IndexedSum {
    base: Variable,
    /// The indices of the lanes, 16 in each vector.
    index: Vec<Variable>,
    scale: i32,
    signed: bool,
}

/// An operand of an instruction on vectors.
#[derive(Clone, Copy, Debug)]
enum Source {
    Vector(Value),
    /// A constant for all lanes.
    Bits(u64),
}

/// The term of a sum that all lanes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addend {
    Value(Value),
    Constant(u32),
}

pub(super) struct Lowering<'p, 'a> {
    b: Builder,
    program: &'p Program<'a>,
    divergence: Divergence,
    liveness: Liveness,
    /// Lanes of a group: 16 or 32.
    width: usize,
    places: Vec<Place>,
    /// The parameter that an address is computed from, by register.
    pointers: Vec<Option<u32>>,
    context: Value,
    /// The index of the group's first thread, and where the threads end.
    thread: Variable,
    last: Value,
    /// The indices of threads in the block, of those that the kernel reads, by dimension.
    tid: [Option<Place>; 3],
    /// Those of the first two dimensions of a block of unknown size, if the kernel reads `%tid`.
    reciprocals: [Value; 2],
    /// The lanes that execute the current block, 16 in each mask; `None` for all.
    active: Option<Vec<Value>>,
    /// The block that is being lowered, for what its lanes have to keep.
    block: crate::program::BlockId,
    /// Vectors that have a general-purpose register in all lanes of 32 bits.
    splats: HashMap<Value, Value>,
    /// Sums of lanes of 32 bits with a value that they share.
    sums: HashMap<Value, (Value, Addend)>,
    spans: Spans,
    /// Affine operands are read as their first lane's value.
    takes_first: bool,
    line: u32,
    /// Of the last instruction.
    opcode: Option<O>,
    /// Where the next group starts.
    next_group: Label,
    suspension: &'p Suspension,
    packed: PackedRegisters,
    /// The state of the threads that run, of the group when it has run, and of those before it.
    state: Variable,
    group_state: Variable,
    arrival: Variable,
}

/// The code of a kernel that runs `width` threads at a time.
///
/// # Errors
/// What it has that there is no lowering for.
pub(super) fn lower(
    program: &Program<'_>,
    suspension: &Suspension,
    width: usize,
    isa: Isa,
) -> Result<Code, String> {
    let liveness = Liveness::new(program);
    let rows = program
        .block
        .is_some_and(|[x, ..]| (x as usize).is_multiple_of(width));
    let divergence = Divergence::find(program, &liveness, (rows, width == 32))
        .ok_or("control flow that is too large")?;
    dump::show(Stage::Passes, program.name, "lanes", &divergence);
    let mut b = Builder::new();
    let places = program.registers.iter().enumerate().map(|(n, &class)| {
        let reg = Reg(n as u32);
        let kind = match class {
            RegClass::Pred => MASK,
            _ => ZMM,
        };
        let shape = divergence.shape(reg);
        shape.optimization().inspect(|one| one.count());
        match shape {
            Shape::Divergent => {
                let count = match class.bytes() {
                    8 => width / 8,
                    _ => width / 16,
                };
                Place::Lanes((0..count).map(|_| b.variable(kind)).collect())
            }
            Shape::Uniform if class.is_float() => Place::Uniform(b.variable(ZMM)),
            Shape::Uniform => Place::Uniform(b.variable(INT)),
            Shape::Affine(stride) => Place::Affine(b.variable(INT), stride),
            Shape::Extended {
                stride,
                scale,
                signed,
            } => Place::Extended(Sum {
                base: b.variable(INT),
                index: b.variable(INT),
                stride,
                scale,
                signed,
            }),
            Shape::Indexed { scale, signed } => Place::Indexed(IndexedSum {
                base: b.variable(INT),
                index: (0..width / 16).map(|_| b.variable(ZMM)).collect(),
                scale,
                signed,
            }),
        }
    });
    let places: Vec<Place> = places.collect();
    let registers = places.iter().zip(&program.registers);
    let parts = registers.zip(&suspension.slots);
    let parts = parts.map(|((place, &class), slot)| match slot {
        Some(_) => place.parts(class),
        None => Vec::new(),
    });
    let packed = PackedRegisters::new(parts.collect(), isa);
    b.code.packed_bytes = packed.bytes;
    let thread = b.variable(INT);
    let [context, first, last] = [(); 3].map(|()| b.value(INT));
    let next_group = b.block();
    let [state, group_state, arrival] = [(); 3].map(|()| b.variable(INT));
    let mut lowering = Lowering {
        b,
        program,
        divergence,
        liveness,
        width,
        places,
        pointers: pointers(program),
        context,
        thread,
        last,
        tid: [None, None, None],
        reciprocals: [context; 2],
        active: None,
        block: crate::program::BlockId::ENTRY,
        splats: HashMap::new(),
        sums: HashMap::new(),
        spans: Spans::default(),
        takes_first: false,
        line: 0,
        opcode: None,
        next_group,
        suspension,
        packed,
        state,
        group_state,
        arrival,
    };
    match lowering.function(first) {
        Ok(()) => Ok(lowering.b.finish()),
        Err(Unsupported(what)) => Err(match lowering.opcode {
            Some(opcode) => format!("{what}: {}", opcode.text()),
            None => what.to_owned(),
        }),
    }
}

/// Whether a type is f16 or bf16, alone or in pairs.
fn is_half(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2)
}

impl Lowering<'_, '_> {
    fn step(&mut self, step: &Step) -> Lowered<()> {
        match step {
            Step::Instruction(i) => {
                self.line = i.line;
                self.opcode = Some(i.opcode);
                self.instruction(i)
            }
            Step::SystemCall { .. } => Err(Unsupported("a call of the system")),
        }
    }

    fn instruction(&mut self, i: &Instruction) -> Lowered<()> {
        if self.linear(i)? {
            return Ok(());
        }
        match i.opcode {
            O::Ld | O::Ldu => self.load(i),
            O::St => self.store(i),
            O::Atom | O::Red => self.atomic(i),
            O::Cp => self.copy_async(i),
            // A cache policy has no effect.
            O::Createpolicy => self.write_zero(i),
            O::Membar | O::Fence => {
                self.b.emit(super::machine::Op::Fence, []);
                Ok(())
            }
            O::Mov => self.mov(i),
            O::Cvta => self.cvta(i),
            O::Cvt => self.convert(i),
            O::Setp => self.setp(i),
            O::Set => self.set_instruction(i),
            O::Selp => self.selp(i),
            O::Prefetch | O::Prefetchu | O::Discard | O::Applypriority => Ok(()),
            _ if self.scalar(i)? => Ok(()),
            O::And
            | O::Or
            | O::Xor
            | O::Not
            | O::Cnot
            | O::Shl
            | O::Shr
            | O::Shf
            | O::Lop3
            | O::Prmt
            | O::Popc
            | O::Clz
            | O::Bfind
            | O::Brev
            | O::Bfe
            | O::Bfi => self.bits(i),
            O::Addc | O::Subc | O::Madc => self.with_carry(i),
            O::Add | O::Sub | O::Mad if i.modifiers.has(M::Cc) => self.with_carry(i),
            O::Dp4a | O::Dp2a => self.dot(i),
            O::Mul24 | O::Mad24 | O::Sad | O::Rem => self.integer(i),
            O::Add
            | O::Sub
            | O::Mul
            | O::Mad
            | O::Fma
            | O::Div
            | O::Abs
            | O::Neg
            | O::Min
            | O::Max => match self.ty(i, 0)? {
                Type::F32 | Type::F64 | Type::F32x2 => self.float(i),
                ty if is_half(ty) => self.half(i),
                _ => self.integer(i),
            },
            O::Rcp
            | O::Sqrt
            | O::Rsqrt
            | O::Sin
            | O::Cos
            | O::Lg2
            | O::Ex2
            | O::Tanh
            | O::Copysign => self.float(i),
            _ => Err(Unsupported("an instruction")),
        }
    }

    /// The `n`-th type among the modifiers.
    fn ty(&self, i: &Instruction, n: usize) -> Lowered<Type> {
        i.modifiers
            .types()
            .nth(n)
            .ok_or(Unsupported("an instruction without a type"))
    }

    /// The number of vectors of a value of 4 or 8 bytes for each lane.
    fn pieces(&self, wide: bool) -> usize {
        if wide {
            self.width / 8
        } else {
            self.width / 16
        }
    }
}
