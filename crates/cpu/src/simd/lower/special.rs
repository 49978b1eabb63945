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

    /// Declares variables for the components of `%tid` that the kernel reads.
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
    }

    /// Computes `%tid` of a group.
    pub(super) fn start_group(&mut self) -> Lowered<()> {
        let [x, y, z] = self.tid.clone();
        if x.is_none() && y.is_none() && z.is_none() {
            return Ok(());
        }
        let [Some(by_x), Some(by_y)] = self.reciprocals else {
            return Err(Unsupported("an index without reciprocals"));
        };
        let [size_x, size_y] = [0, 1].map(|n| self.field(WORD, offset::BLOCK_DIM + 4 * n));
        let is_row = !self.divergence.is_divergent_special(S::TidY);
        if is_row {
            let index = self.b.get(self.thread);
            let rest = self.multiply_int(false, index, by_x);
            let rest = self.shift_int(Shift::Right, false, rest, POINT);
            let before = self.multiply_int(false, rest, size_x);
            let first = self.alu(Alu::Sub, false, index, before);
            if let Some(Place::Affine(variable, _)) = x {
                self.b.set(variable, first);
            }
            let level = self.multiply_int(false, rest, by_y);
            let level = self.shift_int(Shift::Right, false, level, POINT);
            let before = self.multiply_int(false, level, size_y);
            let row = self.alu(Alu::Sub, false, rest, before);
            for (place, value) in [(y, row), (z, level)] {
                if let Some(Place::Uniform(variable)) = place {
                    self.b.set(variable, value);
                }
            }
            return Ok(());
        }
        let [by_x, by_y, size_x, size_y] =
            [by_x, by_y, size_x, size_y].map(|value| self.splat(value, false));
        for piece in 0..self.width / 16 {
            let index = self.thread_indices(piece);
            let (first, rest) = self.divided(index, by_x, size_x);
            let (row, level) = self.divided(rest, by_y, size_y);
            for (place, value) in [(&x, first), (&y, row), (&z, level)] {
                if let Some(Place::Lanes(variables)) = place {
                    self.b.set(variables[piece], value);
                }
            }
        }
        Ok(())
    }

    /// Remainder and quotient.
    fn divided(&mut self, index: Value, reciprocal: Value, size: Value) -> (Value, Value) {
        let quotient = self.binary(v::MUL, Source::Vector(index), Source::Vector(reciprocal));
        let quotient = self.shift(2, false, quotient, POINT);
        let before = self.binary(v::MUL, Source::Vector(quotient), Source::Vector(size));
        let remainder = self.binary(v::SUB, Source::Vector(index), Source::Vector(before));
        (remainder, quotient)
    }

    /// The reciprocal of a dimension of the block, rounded up.
    pub(super) fn reciprocal(&mut self, dimension: i32) -> Value {
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
