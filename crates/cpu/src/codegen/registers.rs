//! Registers as the lane at hand sees them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::emitter::{Emitter, Lane, lanes_in_piece, type_of};
use crate::program::{Class, Reg, Shape};
use ptx::names::SpecialRegister;

impl Emitter<'_, '_> {
    /// What a register holds for the lane at hand.
    pub fn register(&mut self, reg: Reg) -> Value {
        let shape = self.homes[reg.index()].shape;
        match (shape, self.lane) {
            (Shape::Uniform, _) => {
                let value = self.shared(reg);
                self.spread(value)
            }
            (Shape::Affine(_), Lane::Whole) => self.shared(reg),
            (Shape::Affine(stride), lane) => {
                let base = self.shared(reg);
                self.along(base, stride, lane)
            }
            (Shape::Varying, lane) => self.varying(reg, lane),
        }
    }

    /// The variable of a register that threads share.
    fn shared(&mut self, reg: Reg) -> Value {
        let variable = self.homes[reg.index()].variables[0];
        self.b.use_var(variable)
    }

    /// `base` plus `stride` for each lane up to the one at hand.
    fn along(&mut self, base: Value, stride: i64, lane: Lane) -> Value {
        match lane {
            Lane::Whole => base,
            Lane::Single(lane) => self.add_offset(base, stride * i64::from(lane)),
            Lane::Piece(piece) => {
                let ty = self.b.func.dfg.value_type(base);
                let lanes = 16 / ty.bytes();
                let mut bytes = Vec::with_capacity(16);
                for lane in 0..lanes {
                    let offset = stride.wrapping_mul(i64::from(piece * lanes + lane));
                    bytes.extend_from_slice(&offset.to_le_bytes()[..ty.bytes() as usize]);
                }
                let offsets = self.b.func.dfg.constants.insert(bytes.into());
                let vector = self.shaped(ty);
                let offsets = self.b.ins().vconst(vector, offsets);
                let base = self.spread(base);
                self.b.ins().iadd(base, offsets)
            }
        }
    }

    /// A special register of the first thread → of the lanes at hand.
    pub fn spread_affine(&mut self, register: SpecialRegister, value: Value) -> Value {
        match (register, self.lane) {
            (SpecialRegister::TidX | SpecialRegister::Laneid, lane @ Lane::Piece(_)) => {
                self.along(value, 1, lane)
            }
            _ => self.spread(value),
        }
    }

    fn varying(&mut self, reg: Reg, lane: Lane) -> Value {
        let class = self.program.registers[reg.index()];
        match lane {
            Lane::Whole => {
                // Nothing that threads do not share is read for all of them.
                debug_assert!(false, "a varying register read as a shared one");
                self.varying(reg, Lane::Single(0))
            }
            Lane::Piece(piece) => {
                let variable = self.homes[reg.index()].variables[piece as usize];
                self.b.use_var(variable)
            }
            Lane::Single(lane) => {
                let per_piece = lanes_in_piece(class);
                let variable = self.homes[reg.index()].variables[(lane / per_piece) as usize];
                let vector = self.b.use_var(variable);
                let value = self.b.ins().extractlane(vector, (lane % per_piece) as u8);
                match class {
                    Class::Pred => {
                        let zero = self.b.ins().iconst(types::I32, 0);
                        self.b.ins().icmp(IntCC::NotEqual, value, zero)
                    }
                    Class::I16 => self.b.ins().ireduce(types::I16, value),
                    _ => value,
                }
            }
        }
    }

    pub fn set_register(&mut self, reg: Reg, value: Value) {
        let class = self.program.registers[reg.index()];
        let mut value = self.reshape(value, type_of(class));
        if let Some(guard) = self.guard {
            let old = self.register(reg);
            value = self.select(guard, value, old);
        }
        let home = &self.homes[reg.index()];
        match (home.shape, self.lane) {
            (Shape::Varying, Lane::Piece(piece)) => {
                let variable = home.variables[piece as usize];
                self.b.def_var(variable, value);
            }
            (Shape::Varying, lane) => {
                let lane = match lane {
                    Lane::Single(lane) => lane,
                    _ => 0,
                };
                let value = match class {
                    Class::Pred => {
                        let wide = self.b.ins().uextend(types::I32, value);
                        self.b.ins().ineg(wide)
                    }
                    Class::I16 => self.b.ins().uextend(types::I32, value),
                    _ => value,
                };
                // The other threads still read the register as it was.
                self.pending.push((reg, lane, value));
            }
            _ => {
                let variable = home.variables[0];
                self.b.def_var(variable, value);
            }
        }
    }

    /// One value for all lanes of the piece at hand.
    pub fn spread(&mut self, value: Value) -> Value {
        if !matches!(self.lane, Lane::Piece(_)) {
            return value;
        }
        let ty = self.b.func.dfg.value_type(value);
        if ty.is_vector() {
            return value;
        }
        if let Some(&(_, vector)) = self.spreads.iter().find(|s| s.0 == value) {
            return vector;
        }
        let scalar = value;
        let value = match ty {
            types::I8 => {
                // A predicate: ones or zeros all over.
                let wide = self.b.ins().uextend(types::I32, value);
                self.b.ins().ineg(wide)
            }
            types::I16 => self.b.ins().uextend(types::I32, value),
            _ => value,
        };
        let vector = self.shaped(ty);
        let vector = self.b.ins().splat(vector, value);
        self.spreads.push((scalar, vector));
        vector
    }

    /// The type that holds values of `ty` for the lane at hand.
    pub fn shaped(&self, ty: Type) -> Type {
        match (self.lane, ty) {
            (Lane::Piece(_), types::F32) => types::F32X4,
            (Lane::Piece(_), types::F64) => types::F64X2,
            (Lane::Piece(_), types::I64) => types::I64X2,
            (Lane::Piece(_), types::I8 | types::I16 | types::I32) => types::I32X4,
            _ => ty,
        }
    }
}
