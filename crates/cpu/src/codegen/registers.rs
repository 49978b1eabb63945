//! Reading and writing registers for the current lane set.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use super::emitter::{Emitter, LITTLE_ENDIAN, type_of};
use super::lane_set::{LaneSet, lanes_per_vector};
use crate::program::{Reg, RegClass, Uniformity};
use ptx::names::SpecialRegister;

impl Emitter<'_, '_> {
    /// The value of a register for the current lane set.
    pub fn register(&mut self, reg: Reg) -> Value {
        let uniformity = self.locations[reg.index()].uniformity;
        match (uniformity, self.lane_set) {
            (Uniformity::Uniform, _) => {
                let value = self.uniform_value(reg);
                self.splat(value)
            }
            (Uniformity::Affine(_), LaneSet::Scalar) => self.uniform_value(reg),
            (Uniformity::Affine(stride), lane) => {
                let base = self.uniform_value(reg);
                self.affine_value(base, stride, lane)
            }
            (Uniformity::Divergent, lane) => self.divergent_value(reg, lane),
        }
    }

    /// The scalar variable of a uniform or affine register.
    fn uniform_value(&mut self, reg: Reg) -> Value {
        let location = &self.locations[reg.index()];
        if let Some(number) = location.first_lane {
            let ty = type_of(self.program.registers[reg.index()]);
            return self.scalar_int(ty, number.cast_unsigned());
        }
        match (location.value, location.variables.first()) {
            (Some(value), _) => value,
            (None, Some(&variable)) => self.b.use_var(variable),
            // Such a register is written first.
            (None, None) => {
                let ty = type_of(self.program.registers[reg.index()]);
                self.zero(ty)
            }
        }
    }

    /// `base` plus the stride times the number of each lane of a lane set.
    fn affine_value(&mut self, base: Value, stride: i64, lane: LaneSet) -> Value {
        match lane {
            LaneSet::Scalar => base,
            LaneSet::Lane(lane) => self.add_offset(base, stride * i64::from(lane)),
            LaneSet::Vector(vector_index) => {
                let ty = self.b.func.dfg.value_type(base);
                let lanes = 16 / ty.bytes();
                let number = self.constant_scalar(base);
                let mut bytes = Vec::with_capacity(16);
                for lane in 0..lanes {
                    let distance = stride.wrapping_mul(i64::from(vector_index * lanes + lane));
                    let offset = distance.wrapping_add(number.unwrap_or(0));
                    bytes.extend_from_slice(&offset.to_le_bytes()[..ty.bytes() as usize]);
                }
                let offsets = self.b.func.dfg.constants.insert(bytes.into());
                let vector = self.simd_type(ty);
                let offsets = self.b.ins().vconst(vector, offsets);
                if number.is_some() {
                    return offsets;
                }
                let base = self.splat(base);
                self.b.ins().iadd(base, offsets)
            }
        }
    }

    /// Extends the value of a special register for the group's first thread to the
    /// current lane set.
    pub fn splat_special(&mut self, register: SpecialRegister, value: Value) -> Value {
        match (register, self.lane_set) {
            (SpecialRegister::TidX | SpecialRegister::Laneid, lane @ LaneSet::Vector(_)) => {
                self.affine_value(value, 1, lane)
            }
            _ => self.splat(value),
        }
    }

    fn divergent_value(&mut self, reg: Reg, lane: LaneSet) -> Value {
        let class = self.program.registers[reg.index()];
        match lane {
            LaneSet::Scalar => {
                // Lowering as a scalar is chosen only for uniform and affine operands.
                debug_assert!(false, "a divergent register read as a scalar");
                self.divergent_value(reg, LaneSet::Lane(0))
            }
            LaneSet::Vector(vector_index) => {
                let variable = self.locations[reg.index()].variables[vector_index as usize];
                self.b.use_var(variable)
            }
            LaneSet::Lane(lane) => {
                let per_vector = lanes_per_vector(class);
                let variable = self.locations[reg.index()].variables[(lane / per_vector) as usize];
                let vector = self.b.use_var(variable);
                let lane = (lane % per_vector) as u8;
                if class == RegClass::I16 {
                    let halves = types::I16X8;
                    let vector = self.b.ins().bitcast(halves, LITTLE_ENDIAN, vector);
                    return self.b.ins().extractlane(vector, 2 * lane);
                }
                let value = self.b.ins().extractlane(vector, lane);
                match class {
                    RegClass::Pred => {
                        let zero = self.b.ins().iconst(types::I32, 0);
                        self.b.ins().icmp(IntCC::NotEqual, value, zero)
                    }
                    _ => value,
                }
            }
        }
    }

    pub fn set_register(&mut self, reg: Reg, value: Value) {
        let class = self.program.registers[reg.index()];
        let mut value = self.coerce(value, type_of(class));
        if let Some(guard) = self.guard {
            let old = self.register(reg);
            value = self.select(guard, value, old);
        }
        let location = &self.locations[reg.index()];
        match (location.uniformity, self.lane_set) {
            (Uniformity::Divergent, LaneSet::Vector(vector_index)) => {
                let variable = location.variables[vector_index as usize];
                self.b.def_var(variable, value);
            }
            (Uniformity::Divergent, lane) => {
                let lane = match lane {
                    LaneSet::Lane(lane) => lane,
                    _ => 0,
                };
                let value = match class {
                    RegClass::Pred => {
                        let wide = self.b.ins().uextend(types::I32, value);
                        self.b.ins().ineg(wide)
                    }
                    RegClass::I16 => self.b.ins().uextend(types::I32, value),
                    _ => value,
                };
                // The step's other lanes still read the old value.
                self.lane_writes.push((reg, lane, value));
            }
            _ => match location.variables.first() {
                Some(&variable) => self.b.def_var(variable, value),
                None => self.locations[reg.index()].value = Some(value),
            },
        }
    }

    /// Splats a scalar to all lanes of the current lane set.
    pub fn splat(&mut self, value: Value) -> Value {
        if !matches!(self.lane_set, LaneSet::Vector(_)) {
            return value;
        }
        let ty = self.b.func.dfg.value_type(value);
        if ty.is_vector() {
            return value;
        }
        if let Some(&(_, vector)) = self.splats.iter().find(|s| s.0 == value) {
            return vector;
        }
        let scalar = value;
        let value = match ty {
            types::I8 => {
                // A predicate becomes a mask.
                let wide = self.b.ins().uextend(types::I32, value);
                self.b.ins().ineg(wide)
            }
            types::I16 => self.b.ins().uextend(types::I32, value),
            _ => value,
        };
        let vector = self.simd_type(ty);
        let vector = self.b.ins().splat(vector, value);
        self.splats.push((scalar, vector));
        vector
    }

    /// The type of a value of `ty` for the current lane set.
    pub fn simd_type(&self, ty: Type) -> Type {
        match (self.lane_set, ty) {
            (LaneSet::Vector(_), types::F32) => types::F32X4,
            (LaneSet::Vector(_), types::F64) => types::F64X2,
            (LaneSet::Vector(_), types::I64) => types::I64X2,
            (LaneSet::Vector(_), types::I8 | types::I16 | types::I32) => types::I32X4,
            _ => ty,
        }
    }
}
