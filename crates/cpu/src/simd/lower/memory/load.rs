//! Loads.

use super::address::Address;
use super::element::Element;
use super::spans::Spanned;
use crate::program::{Arg, Instruction};
use crate::simd::builder::Variable;
use crate::simd::lower::{Lowered, Lowering, Place, Source, Unsupported};
use crate::simd::machine::{Evex, Masking, Op, Value, ZMM};
use crate::simd::opcodes as v;
use regalloc2::Operand;

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn load(&mut self, i: &Instruction) -> Lowered<()> {
        let element = Element::of(self.ty(i, 0)?)?;
        let to = self.arg(i, 0)?;
        // A load of a call parameter that is in a register.
        if let cell @ Arg::Reg(_) = self.arg(i, 1)? {
            return self.copy_cell(i, to, cell, element);
        }
        let parts = self.parts(to);
        element.check_width(parts.len())?;
        if let Some(access) = self.spanned(i)? {
            return self.load_spanned(i, &parts, element, access);
        }
        if let [part] = parts[..]
            && let Some((start, other)) =
                self.consecutive(i, 1, (super::address::space_of(i), element.bytes))?
        {
            self.prefetch(element, start);
            let variables = self.lane_variables(element);
            for (piece, variable) in variables.iter().enumerate() {
                let value = self.load_contiguous(element, (start, 0), piece);
                self.b.set(*variable, value);
            }
            let join = self.b.block();
            self.b.jump(join);
            self.b.enter_cold(other);
            let address = self.address(i, 1, element.bytes, 0)?;
            let values = match address {
                Address::Uniform(..) => return Err(Unsupported("an address with a stride")),
                address => self.gather_lanes(&address, element, 0),
            };
            for (variable, value) in variables.iter().zip(values) {
                self.b.set(*variable, value);
            }
            self.b.jump(join);
            self.b.enter_sealed(join);
            let values: Vec<Value> = variables
                .iter()
                .map(|&variable| self.b.get(variable))
                .collect();
            return self.write(i, part, element.is_wide(), &values, element.signed);
        }
        if let Some(loaded) = self.load_indexed(i, element, parts.len())? {
            return self.write_loaded(i, &parts, element, loaded);
        }
        let address = self.address(i, 1, element.bytes * parts.len() as u32, 0)?;
        if let Address::Uniform(base, offset) = address {
            return self.load_from_one_place(i, &parts, element, (base, offset));
        }
        let loaded = self.load_lanes(&address, element, parts.len());
        self.write_loaded(i, &parts, element, loaded)
    }

    fn load_from_one_place(
        &mut self,
        i: &Instruction,
        parts: &[Arg],
        element: Element,
        (base, offset): (Value, i32),
    ) -> Lowered<()> {
        for (n, &part) in parts.iter().enumerate() {
            let at = offset + n as i32 * element.bytes as i32;
            self.load_uniform(i, part, element, (base, at))?;
        }
        Ok(())
    }

    fn write_loaded(
        &mut self,
        i: &Instruction,
        parts: &[Arg],
        element: Element,
        loaded: Vec<Vec<Value>>,
    ) -> Lowered<()> {
        for (&part, values) in parts.iter().zip(loaded) {
            self.write(i, part, element.is_wide(), &values, element.signed)?;
        }
        Ok(())
    }

    /// A load of elements from addresses that are checked by their index; `None` if they are not.
    fn load_indexed(
        &mut self,
        i: &Instruction,
        element: Element,
        count: usize,
    ) -> Lowered<Option<Vec<Vec<Value>>>> {
        let bytes = element.bytes * count as u32;
        let Some(access) = self.indexed_access(i, 1, (bytes, element.bytes))? else {
            return Ok(None);
        };
        let variables: Vec<_> = (0..count).map(|_| self.lane_variables(element)).collect();
        let [join, apart, other] = [(); 3].map(|()| self.b.block());
        if count == 1
            && let Some(start) = self.consecutive_index(&access, apart)
        {
            self.prefetch(element, start);
            for (piece, variable) in variables[0].iter().enumerate() {
                let value = self.load_contiguous(element, (start, 0), piece);
                self.b.set(*variable, value);
            }
            self.b.jump(join);
            self.b.enter_cold(apart);
        }
        let address = self.addresses_by_index(&access, other);
        let loaded = self.gather_all(&address, element, count);
        self.set_all(&variables, loaded);
        self.b.jump(join);
        self.b.enter_cold(other);
        let address = self.address_in_shadow(i, 1, bytes, 0)?;
        let loaded = self.gather_all(&address, element, count);
        self.set_all(&variables, loaded);
        self.b.jump(join);
        self.b.enter_sealed(join);
        let values = variables.iter().map(|lanes| {
            let lanes = lanes.iter();
            lanes.map(|&variable| self.b.get(variable)).collect()
        });
        Ok(Some(values.collect()))
    }

    fn gather_all(&mut self, address: &Address, element: Element, count: usize) -> Vec<Vec<Value>> {
        (0..count as u32)
            .map(|n| self.gather_lanes(address, element, n * element.bytes))
            .collect()
    }

    fn set_all(&mut self, variables: &[Vec<Variable>], values: Vec<Vec<Value>>) {
        for (variables, values) in variables.iter().zip(values) {
            for (&variable, value) in variables.iter().zip(values) {
                self.b.set(variable, value);
            }
        }
    }

    /// Loads elements from checked addresses that are not all the same: in one piece where they are
    /// consecutive.
    fn load_lanes(&mut self, address: &Address, element: Element, count: usize) -> Vec<Vec<Value>> {
        let contiguous = match count {
            1 => self.if_contiguous(address, element.bytes),
            _ => None,
        };
        let Some((start, apart)) = contiguous else {
            return self.gather_all(address, element, count);
        };
        let join = self.b.block();
        let variables = self.lane_variables(element);
        for (piece, variable) in variables.iter().enumerate() {
            let value = self.load_contiguous(element, (start, 0), piece);
            self.b.set(*variable, value);
        }
        self.b.jump(join);
        self.b.enter_sealed(apart);
        let values = self.gather_lanes(address, element, 0);
        for (variable, value) in variables.iter().zip(values) {
            self.b.set(*variable, value);
        }
        self.b.jump(join);
        self.b.enter_sealed(join);
        let variables = variables.iter();
        vec![variables.map(|&variable| self.b.get(variable)).collect()]
    }

    /// Variables for the vectors of what is loaded.
    fn lane_variables(&mut self, element: Element) -> Vec<Variable> {
        let pieces = 0..self.pieces(element.is_wide());
        pieces.map(|_| self.b.variable(ZMM)).collect()
    }

    pub(super) fn copy_cell(
        &mut self,
        i: &Instruction,
        to: Arg,
        from: Arg,
        element: Element,
    ) -> Lowered<()> {
        if element.bytes < 4 {
            return Err(Unsupported("a narrow parameter of a call"));
        }
        let wide = element.is_wide();
        let Arg::Reg(_) = to else {
            return Err(Unsupported("a list of parameters of a call"));
        };
        let values = self.vectors_for(to, from, wide)?;
        self.write(i, to, wide, &values, element.signed)
    }

    /// A load of one value for all lanes.
    fn load_uniform(
        &mut self,
        i: &Instruction,
        to: Arg,
        element: Element,
        (base, offset): (Value, i32),
    ) -> Lowered<()> {
        let Arg::Reg(reg) = to else {
            return match to {
                Arg::Sink => Ok(()),
                _ => Err(Unsupported("a kind of result")),
            };
        };
        let class = self.class(reg);
        let fits = class.bytes() == element.bytes && element.bytes >= 4;
        let is_vector = class.is_float() || matches!(self.places[reg.index()], Place::Lanes(_));
        if fits && is_vector {
            // A load to all lanes.
            let wide = element.is_wide();
            let result = self.b.value(ZMM);
            let operands = [Operand::reg_def(result), Operand::reg_use(base)];
            let op = Op::Load {
                code: if wide { v::BROADCAST64 } else { v::BROADCAST },
                offset,
                unit: element.bytes as u8,
                masking: Masking::None,
                broadcast: false,
                binary: false,
                immediate: None,
            };
            self.b.emit(op, operands);
            let values = vec![result; self.pieces_for(to, wide)];
            return self.write(i, to, wide, &values, false);
        }
        let value = self.load_int(element.memory(), base, offset);
        if class.is_float() {
            return Err(Unsupported("a float of another width"));
        }
        self.write_int(i, reg, value)
    }

    /// Loads from the addresses of the lanes, and an offset.
    fn gather_lanes(&mut self, address: &Address, element: Element, offset: u32) -> Vec<Value> {
        let wide = element.is_wide();
        let mut values = Vec::new();
        for piece in 0..self.pieces(wide) {
            let mask = match self.active.clone() {
                Some(active) => self.mask_for(&active, wide, piece),
                None => self.b.ones(),
            };
            values.push(match (address, wide) {
                (Address::Offsets(base, lanes, _), false) if element.bytes < 4 => {
                    let index = self.offset_by(lanes[piece], false, offset);
                    let at = (*base, index, false);
                    self.gather_narrow(element, (v::GATHER_BY_WORDS, 0), at, mask)
                }
                (Address::Offsets(base, lanes, scale), false) => {
                    let base = self.add_offset(*base, offset.into());
                    let at = (base, lanes[piece], false);
                    self.gather_narrow(element, (v::GATHER_BY_WORDS, *scale), at, mask)
                }
                (Address::Offsets(base, lanes, scale), true) => {
                    let base = self.add_offset(*base, offset.into());
                    let index = self.half_of(lanes[piece / 2], piece % 2);
                    let old = self.in_register(Source::Bits(0), false);
                    self.gather(v::GATHER64_BY_WORDS, *scale, (base, index), old, mask)
                }
                (Address::Lanes(lanes), true) => {
                    let zero = self.b.immediate(0);
                    let index = self.offset_by(lanes[piece], true, offset);
                    let old = self.in_register(Source::Bits(0), false);
                    self.gather(v::GATHER64_BY_LONGS, 0, (zero, index), old, mask)
                }
                (Address::Lanes(lanes), false) => {
                    let zero = self.b.immediate(0);
                    let mut halves = [None; 2];
                    for (n, half) in halves.iter_mut().enumerate() {
                        let index = self.offset_by(lanes[2 * piece + n], true, offset);
                        let mask = self.eighth(mask, n);
                        *half = Some(self.gather_narrow(
                            element,
                            (v::GATHER_BY_LONGS, 0),
                            (zero, index, true),
                            mask,
                        ));
                    }
                    let [Some(low), Some(high)] = halves else {
                        continue;
                    };
                    self.joined(low, high)
                }
                (Address::Uniform(..), _) => continue,
            });
        }
        values
    }

    /// Loads up to 32 bits for each lane. Bytes and halves are parts of aligned words.
    fn gather_narrow(
        &mut self,
        element: Element,
        (code, scale): (Evex, u8),
        (base, index, wide): (Value, Value, bool),
        mask: Value,
    ) -> Value {
        let zero = self.in_register(Source::Bits(0), false);
        if element.bytes == 4 {
            return self.gather(code, scale, (base, index), zero, mask);
        }
        let (and, aligned) = if wide {
            (v::AND64, !3_u64)
        } else {
            (v::AND, !3_u64 & 0xFFFF_FFFF)
        };
        // The base of shared memory is aligned.
        let words = self.binary(and, Source::Vector(index), Source::Bits(aligned));
        let words = self.gather(code, 0, (base, words), zero, mask);
        let place = self.binary(and, Source::Vector(index), Source::Bits(3));
        let place = if wide {
            self.reversed(v::NARROW_TO_WORDS, place, None)
        } else {
            place
        };
        let by = self.shift(6, false, place, 3);
        let value = self.binary(v::SHIFT_RIGHT, Source::Vector(words), Source::Vector(by));
        let unused = 32 - 8 * element.bytes as u8;
        if element.signed {
            let up = self.shift(6, false, value, unused);
            self.shift(4, false, up, unused)
        } else {
            let bits = Source::Bits(u64::from(u32::MAX >> unused));
            self.binary(v::AND, Source::Vector(value), bits)
        }
    }

    /// A load from shared memory, of one place or of consecutive ones, which is checked.
    fn load_spanned(
        &mut self,
        i: &Instruction,
        parts: &[Arg],
        element: Element,
        access: Spanned,
    ) -> Lowered<()> {
        let at = (access.host, access.distance);
        if access.is_uniform {
            return self.load_from_one_place(i, parts, element, at);
        }
        let pieces = 0..self.pieces(element.is_wide());
        let values: Vec<Value> = pieces
            .map(|piece| self.load_contiguous(element, at, piece))
            .collect();
        self.write(i, parts[0], element.is_wide(), &values, element.signed)
    }
}
