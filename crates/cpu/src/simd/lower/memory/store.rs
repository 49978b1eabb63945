//! Stores.

use super::address::Address;
use super::element::Element;
use super::spans::Spanned;
use crate::abi::Access;
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::{Evex, Op, Value};
use crate::simd::opcodes as v;
use ptx::names::Modifier as M;
use regalloc2::Operand;

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn store(&mut self, i: &Instruction) -> Lowered<()> {
        if i.modifiers.has(M::Async) {
            return Err(Unsupported("an asynchronous store"));
        }
        let element = Element::of(self.ty(i, 0)?)?;
        let from = self.arg(i, 1)?;
        // A store to a call parameter that is in a register.
        if let cell @ Arg::Reg(_) = self.arg(i, 0)? {
            return self.copy_cell(i, cell, from, element);
        }
        let parts = self.parts(from);
        element.check_width(parts.len())?;
        let unit = element.bytes * parts.len() as u32;
        let wide = element.is_wide();
        if let Some(access) = self.spanned(i)? {
            return self.store_spanned(&parts, element, access);
        }
        if let [part] = parts[..]
            && let Some((start, other)) =
                self.consecutive(i, 0, (super::address::space_of(i), element.bytes))?
        {
            let values = self.vectors(part, wide)?;
            for (piece, &value) in values.iter().enumerate() {
                self.store_contiguous(element, (start, 0), piece, value);
            }
            let join = self.b.block();
            self.b.jump(join);
            self.b.enter_cold(other);
            let address = self.address(i, 0, unit, Access::WRITE)?;
            let values = self.vectors(part, wide)?;
            self.scatter_lanes(&address, element, 0, &values);
            self.b.jump(join);
            self.b.enter_sealed(join);
            return Ok(());
        }
        if let Some(access) = self.indexed_access(i, 0, (unit, element.bytes))? {
            let [join, apart, other] = [(); 3].map(|()| self.b.block());
            if let [part] = parts[..]
                && let Some(start) = self.consecutive_index(&access, apart)
            {
                for (piece, &value) in self.vectors(part, wide)?.iter().enumerate() {
                    self.store_contiguous(element, (start, 0), piece, value);
                }
                self.b.jump(join);
                self.b.enter_cold(apart);
            }
            let address = self.addresses_by_index(&access, other);
            self.scatter_all(&address, element, &parts)?;
            self.b.jump(join);
            self.b.enter_cold(other);
            let address = self.address_in_shadow(i, 0, unit, Access::WRITE)?;
            self.scatter_all(&address, element, &parts)?;
            self.b.jump(join);
            self.b.enter_sealed(join);
            return Ok(());
        }
        match self.address(i, 0, unit, Access::WRITE)? {
            Address::Uniform(base, offset) => {
                self.store_at_one_place(&parts, element, (base, offset))
            }
            address => self.store_parts(&address, element, &parts),
        }
    }

    /// Stores to an address that all lanes share.
    fn store_at_one_place(
        &mut self,
        parts: &[Arg],
        element: Element,
        (base, offset): (Value, i32),
    ) -> Lowered<()> {
        if !parts.iter().all(|part| self.is_uniform(*part)) {
            // The last lane's value stays.
            let base = self.add_offset(base, offset.into());
            let base = self.splat(base, true);
            let address = Address::Lanes(vec![base; self.width / 8]);
            return self.store_parts(&address, element, parts);
        }
        for (n, &part) in parts.iter().enumerate() {
            let value = self.int(part, element.is_wide())?;
            let op = Op::StoreInt {
                bytes: element.bytes as u8,
                offset: offset + n as i32 * element.bytes as i32,
            };
            let operands = [Operand::reg_use(value), Operand::reg_use(base)];
            self.b.emit(op, operands);
        }
        Ok(())
    }

    fn store_spanned(&mut self, parts: &[Arg], element: Element, access: Spanned) -> Lowered<()> {
        let at = (access.host, access.distance);
        if access.is_uniform {
            return self.store_at_one_place(parts, element, at);
        }
        for (piece, &value) in self
            .vectors(parts[0], element.is_wide())?
            .iter()
            .enumerate()
        {
            self.store_contiguous(element, at, piece, value);
        }
        Ok(())
    }

    fn scatter_all(&mut self, address: &Address, element: Element, parts: &[Arg]) -> Lowered<()> {
        for (n, &part) in (0..).zip(parts) {
            let values = self.vectors(part, element.is_wide())?;
            self.scatter_lanes(address, element, n * element.bytes, &values);
        }
        Ok(())
    }

    /// Stores elements to checked addresses that are not all the same: in one piece where they are
    /// consecutive.
    fn store_parts(&mut self, address: &Address, element: Element, parts: &[Arg]) -> Lowered<()> {
        for (n, &part) in parts.iter().enumerate() {
            let values = self.vectors(part, element.is_wide())?;
            let contiguous = match parts.len() {
                1 => self.if_contiguous(address, element.bytes),
                _ => None,
            };
            let offset = n as u32 * element.bytes;
            let Some((start, apart)) = contiguous else {
                self.scatter_lanes(address, element, offset, &values);
                continue;
            };
            let join = self.b.block();
            for (piece, &value) in values.iter().enumerate() {
                self.store_contiguous(element, (start, 0), piece, value);
            }
            self.b.jump(join);
            self.b.enter_sealed(apart);
            self.scatter_lanes(address, element, offset, &values);
            self.b.jump(join);
            self.b.enter_sealed(join);
        }
        Ok(())
    }

    /// Stores to the addresses of the lanes, and an offset.
    fn scatter_lanes(
        &mut self,
        address: &Address,
        element: Element,
        offset: u32,
        values: &[Value],
    ) {
        let wide = element.is_wide();
        for (piece, &value) in values.iter().enumerate() {
            let mask = match self.active.clone() {
                Some(active) => self.mask_for(&active, wide, piece),
                None => self.b.ones(),
            };
            if element.bytes < 4 {
                self.store_each(address, element, offset, (piece, value));
                continue;
            }
            match (address, wide) {
                (Address::Offsets(base, lanes, scale), false) => {
                    let base = self.add_offset(*base, offset.into());
                    self.scatter(
                        (v::SCATTER_BY_WORDS, *scale),
                        value,
                        (base, lanes[piece]),
                        mask,
                    );
                }
                (Address::Offsets(base, lanes, scale), true) => {
                    let base = self.add_offset(*base, offset.into());
                    let index = self.half_of(lanes[piece / 2], piece % 2);
                    self.scatter((v::SCATTER64_BY_WORDS, *scale), value, (base, index), mask);
                }
                (Address::Lanes(lanes), true) => {
                    let zero = self.b.immediate(0);
                    let index = self.offset_by(lanes[piece], true, offset);
                    self.scatter((v::SCATTER64_BY_LONGS, 0), value, (zero, index), mask);
                }
                (Address::Lanes(lanes), false) => {
                    let zero = self.b.immediate(0);
                    for n in 0..2 {
                        let index = self.offset_by(lanes[2 * piece + n], true, offset);
                        let mask = self.eighth(mask, n);
                        let half = self.half_of(value, n);
                        self.scatter((v::SCATTER_BY_LONGS, 0), half, (zero, index), mask);
                    }
                }
                (Address::Uniform(..), _) => {}
            }
        }
    }

    pub(in crate::simd::lower) fn scatter(
        &mut self,
        (code, scale): (Evex, u8),
        value: Value,
        (base, indices): (Value, Value),
        mask: Value,
    ) {
        let after = self.b.value(crate::simd::machine::MASK);
        let operands = [
            Operand::reg_reuse_def(after, 4),
            Operand::reg_use(value),
            Operand::reg_use(base),
            Operand::reg_use(indices),
            Operand::reg_use(mask),
        ];
        self.b.emit(Op::Scatter { code, scale }, operands);
    }

    /// The host addresses of the lanes of a vector of 32 bits.
    pub(in crate::simd::lower) fn host_addresses(
        &mut self,
        address: &Address,
        piece: usize,
        offset: u32,
    ) -> [Value; 2] {
        [0, 1].map(|n| match address {
            Address::Lanes(lanes) => self.offset_by(lanes[2 * piece + n], true, offset),
            Address::Offsets(base, lanes, scale) => {
                // Offsets in shared memory are unsigned, and those by an index are not negative.
                let wide = self.widened(lanes[piece], n, false);
                let wide = match scale {
                    0 => wide,
                    by => self.shift(6, true, wide, *by),
                };
                let base = self.splat(*base, true);
                let host = self.binary(v::ADD64, Source::Vector(wide), Source::Vector(base));
                self.offset_by(host, true, offset)
            }
            Address::Uniform(base, at) => {
                let base = self.add_offset(*base, i64::from(*at) + i64::from(offset));
                self.splat(base, true)
            }
        })
    }

    /// Stores bytes or halves, one lane after the other.
    fn store_each(
        &mut self,
        address: &Address,
        element: Element,
        offset: u32,
        (piece, value): (usize, Value),
    ) {
        let addresses = self.host_addresses(address, piece, offset);
        let request = (Helper::store_lanes, element.bytes.into());
        self.call_for_active(request, piece, &[addresses[0], addresses[1], value]);
    }
}
