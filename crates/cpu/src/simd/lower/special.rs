//! Special registers.

use super::operands::{LONG, WORD};
use super::{Lowered, Lowering, Place, Source, Unsupported};
use crate::abi::offset;
use crate::program::{Arg, Program};
use crate::simd::machine::{Alu, INT, Shift, Value, ZMM};
use crate::simd::opcodes as v;
use ptx::names::SpecialRegister as S;

/// The fractional bits of the reciprocals that divide thread indices. A block has at most 1,024 threads,
/// so quotients are exact.
const POINT: u8 = 20;

const DIMENSIONS: [S; 3] = [S::TidX, S::TidY, S::TidZ];

/// How to divide by a dimension of the block.
enum Dimension {
    /// The block has one row, or one level: there is nothing to divide.
    Last,
    PowerOfTwo(u32),
    /// The size, and its reciprocal.
    Any(Value, Value),
}

impl Lowering<'_, '_> {
    /// 0, 1, 2, … in the lanes from a vector's first on.
    pub(super) fn iota(&mut self, first: usize) -> Value {
        let mut bytes = [0; 64];
        for (lane, bytes) in (first as u32..).zip(bytes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&lane.to_le_bytes());
        }
        self.vector_constant(bytes)
    }

    pub(super) fn vector_constant(&mut self, bytes: [u8; 64]) -> Value {
        let vectors = &mut self.b.code.vectors;
        let known = vectors.iter().position(|known| *known == bytes);
        let number = known.unwrap_or_else(|| {
            vectors.push(bytes);
            vectors.len() - 1
        });
        self.b
            .constant(crate::simd::machine::Constant::Vector(number as u32))
    }

    /// The indices of the group's threads in the block.
    pub(super) fn thread_indices(&mut self, piece: usize) -> Value {
        let first = self.b.get(self.thread);
        let first = self.splat(first, false);
        let iota = self.iota(16 * piece);
        self.binary(v::ADD, Source::Vector(first), Source::Vector(iota))
    }

    /// Declares variables for the components of `%tid` that the kernel reads, and computes the reciprocals
    /// of the dimensions of the block that are not known.
    pub(super) fn declare_tid(&mut self) {
        let read = read_dimensions(self.program);
        for (n, special) in DIMENSIONS.into_iter().enumerate() {
            if !read[n] {
                continue;
            }
            self.tid[n] = Some(match self.divergence.is_divergent_special(special) {
                true if !self.divergence.is_divergent_special(S::TidY) => {
                    Place::Affine(self.b.variable(INT), 1)
                }
                true => {
                    let pieces = 0..self.width / 16;
                    Place::Lanes(pieces.map(|_| self.b.variable(ZMM)).collect())
                }
                false => Place::Uniform(self.b.variable(INT)),
            });
        }
        if read.contains(&true) && self.program.block.is_none() {
            self.reciprocals = [0, 1].map(|dimension| self.reciprocal(dimension));
        }
    }

    /// Computes `%tid` of a group.
    pub(super) fn start_group(&mut self) -> Lowered<()> {
        let [x, y, z] = self.tid.clone();
        if x.is_none() && y.is_none() && z.is_none() {
            return Ok(());
        }
        if !self.divergence.is_divergent_special(S::TidY) {
            let index = self.b.get(self.thread);
            let (first, rest) = self.divided(index, 0);
            if let Some(Place::Affine(variable, _)) = x {
                self.b.set(variable, first);
            }
            let (row, level) = self.divided(rest, 1);
            for (place, value) in [(y, row), (z, level)] {
                if let Some(Place::Uniform(variable)) = place {
                    self.b.set(variable, value);
                }
            }
            return Ok(());
        }
        for piece in 0..self.width / 16 {
            let index = self.thread_indices(piece);
            let (first, rest) = self.divided_lanes(index, 0);
            let (row, level) = self.divided_lanes(rest, 1);
            for (place, value) in [(&x, first), (&y, row), (&z, level)] {
                if let Some(Place::Lanes(variables)) = place {
                    self.b.set(variables[piece], value);
                }
            }
        }
        Ok(())
    }

    /// The remainder and the quotient of an index by a dimension of the block.
    fn divided(&mut self, index: Value, dimension: usize) -> (Value, Value) {
        match self.dimension(dimension) {
            Dimension::Last => (index, self.b.immediate(0)),
            Dimension::PowerOfTwo(size) => {
                let below = (size - 1).cast_signed();
                let shift = size.trailing_zeros() as u8;
                let remainder = self.alu_immediate(Alu::And, false, index, below);
                (remainder, self.shift_int(Shift::Right, false, index, shift))
            }
            Dimension::Any(size, reciprocal) => {
                let quotient = self.multiply_int(false, index, reciprocal);
                let quotient = self.shift_int(Shift::Right, false, quotient, POINT);
                let before = self.multiply_int(false, quotient, size);
                (self.alu(Alu::Sub, false, index, before), quotient)
            }
        }
    }

    /// The same of the lanes of a vector.
    fn divided_lanes(&mut self, index: Value, dimension: usize) -> (Value, Value) {
        match self.dimension(dimension) {
            Dimension::Last => (index, self.in_register(Source::Bits(0), false)),
            Dimension::PowerOfTwo(size) => {
                let below = Source::Bits(u64::from(size - 1));
                let shift = size.trailing_zeros() as u8;
                let remainder = self.binary(v::AND, Source::Vector(index), below);
                (remainder, self.shift(2, false, index, shift))
            }
            Dimension::Any(size, reciprocal) => {
                let [size, reciprocal] = [size, reciprocal].map(|value| self.splat(value, false));
                let quotient =
                    self.binary(v::MUL, Source::Vector(index), Source::Vector(reciprocal));
                let quotient = self.shift(2, false, quotient, POINT);
                let before = self.binary(v::MUL, Source::Vector(quotient), Source::Vector(size));
                let remainder = self.binary(v::SUB, Source::Vector(index), Source::Vector(before));
                (remainder, quotient)
            }
        }
    }

    fn dimension(&mut self, n: usize) -> Dimension {
        let Some(block) = self.program.block else {
            let size = self.field(WORD, offset::BLOCK_DIM + 4 * n as i32);
            return Dimension::Any(size, self.reciprocals[n]);
        };
        let size = block[n];
        if block[n + 1..].iter().all(|&size| size == 1) {
            Dimension::Last
        } else if size.is_power_of_two() {
            Dimension::PowerOfTwo(size)
        } else {
            // The checker refuses sizes of 0.
            let reciprocal = (1_u32 << POINT).checked_div(size).unwrap_or(0) + 1;
            let [size, reciprocal] =
                [size, reciprocal].map(|number| self.b.immediate(number.into()));
            Dimension::Any(size, reciprocal)
        }
    }

    /// The reciprocal of a dimension of the block, rounded up.
    fn reciprocal(&mut self, dimension: i32) -> Value {
        use regalloc2::{Operand, PReg};
        let size = self.field(WORD, offset::BLOCK_DIM + 4 * dimension);
        let one = self.b.immediate(1 << POINT);
        let [quotient, remainder] = [(); 2].map(|()| self.b.value(INT));
        let (rax, rdx) = (PReg::new(0, INT), PReg::new(2, INT));
        let operands = [
            Operand::reg_fixed_def(quotient, rax),
            Operand::reg_fixed_def(remainder, rdx),
            Operand::reg_fixed_use(one, rax),
            Operand::reg_use_at_end(size),
        ];
        let op = crate::simd::machine::Op::Divide {
            signed: false,
            wide: false,
        };
        self.b.emit(op, operands);
        self.alu_immediate(Alu::Add, false, quotient, 1)
    }

    /// The first lane's value of a special register whose lanes have a stride.
    pub(super) fn first_special(&mut self, special: S) -> Lowered<Value> {
        match (special, &self.tid[0]) {
            (S::TidX, Some(Place::Affine(variable, _))) => {
                let variable = *variable;
                Ok(self.b.get(variable))
            }
            (S::Laneid, _) => {
                let thread = self.b.get(self.thread);
                Ok(self.alu_immediate(Alu::And, false, thread, 31))
            }
            _ => Err(Unsupported("a special register")),
        }
    }

    /// A special register that all lanes share.
    pub(super) fn uniform_special(&mut self, special: S) -> Lowered<Value> {
        let component = |base: i32, n: i32| base + 4 * n;
        Ok(match special {
            S::TidY | S::TidZ => {
                let n = if special == S::TidY { 1 } else { 2 };
                match self.tid[n] {
                    Some(Place::Uniform(variable)) => self.b.get(variable),
                    _ => return Err(Unsupported("an index of a thread")),
                }
            }
            S::NtidX => self.field(WORD, component(offset::BLOCK_DIM, 0)),
            S::NtidY => self.field(WORD, component(offset::BLOCK_DIM, 1)),
            S::NtidZ => self.field(WORD, component(offset::BLOCK_DIM, 2)),
            S::CtaidX => self.field(WORD, component(offset::BLOCK, 0)),
            S::CtaidY => self.field(WORD, component(offset::BLOCK, 1)),
            S::CtaidZ => self.field(WORD, component(offset::BLOCK, 2)),
            S::NctaidX => self.field(WORD, component(offset::GRID_DIM, 0)),
            S::NctaidY => self.field(WORD, component(offset::GRID_DIM, 1)),
            S::NctaidZ => self.field(WORD, component(offset::GRID_DIM, 2)),
            S::TidW | S::NtidW | S::CtaidW | S::NctaidW => self.b.immediate(0),
            S::Gridid => self.field(LONG, offset::GRID_ID),
            S::Warpid => {
                let thread = self.b.get(self.thread);
                self.shift_int(Shift::Right, false, thread, 5)
            }
            S::Smid => self.field(WORD, offset::WORKER),
            S::Nsmid => self.field(WORD, offset::WORKERS),
            S::DynamicSmemSize => self.field(WORD, offset::DYNAMIC_SHARED),
            S::TotalSmemSize | S::AggrSmemSize => self.field(WORD, offset::TOTAL_SHARED),
            _ => return Err(Unsupported("a special register")),
        })
    }

    /// A special register whose lanes differ, of 32 bits.
    pub(super) fn divergent_special(&mut self, special: S, piece: usize) -> Lowered<Value> {
        if let Some(n) = DIMENSIONS.iter().position(|known| *known == special) {
            return match &self.tid[n] {
                Some(Place::Lanes(variables)) => {
                    let variable = variables[piece];
                    Ok(self.b.get(variable))
                }
                Some(Place::Affine(variable, stride)) => {
                    let (variable, stride) = (*variable, *stride);
                    let first = self.b.get(variable);
                    Ok(self.series(first, stride, piece))
                }
                _ => Err(Unsupported("an index of a thread")),
            };
        }
        let lane = self.thread_indices(piece);
        let lane = self.binary(v::AND, Source::Vector(lane), Source::Bits(31));
        if special == S::Laneid {
            return Ok(lane);
        }
        let one = self.in_register(Source::Bits(1), false);
        let equal = self.binary(v::SHIFT_LEFT, Source::Vector(one), Source::Vector(lane));
        let below = self.binary(v::ADD, Source::Vector(equal), Source::Bits(0xFFFF_FFFF));
        let up_to = |e: &mut Self| e.binary(v::OR, Source::Vector(equal), Source::Vector(below));
        let all = Source::Bits(0xFFFF_FFFF);
        Ok(match special {
            S::LanemaskEq => equal,
            S::LanemaskLt => below,
            S::LanemaskLe => up_to(self),
            S::LanemaskGe => self.binary(v::XOR, Source::Vector(below), all),
            S::LanemaskGt => {
                let up_to = up_to(self);
                self.binary(v::XOR, Source::Vector(up_to), all)
            }
            _ => return Err(Unsupported("a special register")),
        })
    }
}

/// Which of `%tid` a kernel reads.
fn read_dimensions(program: &Program<'_>) -> [bool; 3] {
    DIMENSIONS.map(|dimension| {
        program
            .args
            .iter()
            .any(|arg| matches!(arg, Arg::Special(special) if *special == dimension))
    })
}
