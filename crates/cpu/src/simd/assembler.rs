//! The encoding of instructions of x86-64.

use super::machine::{Alu, Condition, Evex, Memory, Shift};

/// A register number. The instruction decides the register file.
pub(super) type Register = u8;

pub(super) const RAX: Register = 0;
pub(super) const RCX: Register = 1;
pub(super) const RDX: Register = 2;
pub(super) const RBX: Register = 3;
pub(super) const RSP: Register = 4;
pub(super) const RBP: Register = 5;
pub(super) const RSI: Register = 6;
pub(super) const RDI: Register = 7;
pub(super) const R8: Register = 8;
pub(super) const R9: Register = 9;
pub(super) const R10: Register = 10;
pub(super) const R11: Register = 11;

/// The second operand: a register or memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Register(Register),
    /// Base and offset.
    Memory(Register, i32),
    /// Base, index, the logarithm of the scale, offset.
    Indexed(Register, Register, u8, i32),
    /// A constant of the pool.
    Pool(usize),
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target(usize);

#[derive(Default)]
pub(super) struct Assembler {
    /// Instructions on vectors have the VEX prefix: those of AVX2, on 256 bits.
    pub uses_vex: bool,
    pub bytes: Vec<u8>,
    /// The positions of bound targets.
    targets: Vec<Option<usize>>,
    /// Displacements to patch: their positions and targets.
    jumps: Vec<(usize, Target)>,
    /// Uses of constants: the position of the displacement, the end of the instruction, and the constant.
    pool_uses: Vec<(usize, usize, usize)>,
    /// The bytes of each constant.
    pool: Vec<Vec<u8>>,
}

/// The options of an instruction with the EVEX prefix.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub mask: Register,
    pub zeroes: bool,
    /// Broadcast one element from memory.
    pub broadcast: bool,
    pub rounding: Option<u8>,
    pub immediate: Option<u8>,
    /// The scale of an 8-bit displacement.
    pub unit: u8,
}

impl Assembler {
    pub fn target(&mut self) -> Target {
        self.targets.push(None);
        Target(self.targets.len() - 1)
    }

    /// Binds a target to the current position.
    pub fn bind(&mut self, target: Target) {
        self.targets[target.0] = Some(self.bytes.len());
    }

    pub fn constant(&mut self, bytes: &[u8]) -> Place {
        let known = self.pool.iter().position(|known| known == bytes);
        Place::Pool(known.unwrap_or_else(|| {
            self.pool.push(bytes.to_vec());
            self.pool.len() - 1
        }))
    }

    /// An instruction on vectors.
    pub fn vector(
        &mut self,
        code: Evex,
        register: Register,
        second: Register,
        place: Place,
        options: Options,
    ) {
        if !self.uses_vex {
            return self.evex(code, register, second, place, options);
        }
        let fields = (code.map, code.prefix, code.is_wide_vex(), code.length > 0);
        let behind = usize::from(options.immediate.is_some());
        self.vex_with(fields, code.opcode, (register, second), place, behind);
        self.bytes.extend(options.immediate);
    }

    fn evex(
        &mut self,
        code: Evex,
        register: Register,
        second: Register,
        place: Place,
        options: Options,
    ) {
        let bit = |number: u8, at: u8| (number >> at & 1) ^ 1;
        // X extends the index register, or a vector register in the r/m field.
        let (x, b) = match place {
            Place::Register(number) => (bit(number, 4), bit(number, 3)),
            Place::Memory(base, _) => (1, bit(base, 3)),
            Place::Indexed(base, index, ..) => (bit(index, 3), bit(base, 3)),
            Place::Pool(_) => (1, 1),
        };
        // V' holds the fifth bit of a vector index.
        let second_high = match place {
            Place::Indexed(_, index, ..) => bit(index, 4),
            _ => bit(second, 4),
        };
        let length = options.rounding.unwrap_or(code.length);
        let is_broadcast = options.broadcast || options.rounding.is_some();
        self.bytes.extend([
            0x62,
            bit(register, 3) << 7 | x << 6 | b << 5 | bit(register, 4) << 4 | code.map,
            u8::from(code.wide) << 7 | (second & 0xF ^ 0xF) << 3 | 1 << 2 | code.prefix,
            u8::from(options.zeroes) << 7
                | length << 5
                | u8::from(is_broadcast) << 4
                | second_high << 3
                | options.mask,
            code.opcode,
        ]);
        let unit = match options.unit {
            0 => 1,
            unit => i32::from(unit),
        };
        self.place(register, place, unit, options.immediate.is_some() as usize);
        self.bytes.extend(options.immediate);
    }

    /// An instruction with the VEX prefix of three bytes.
    pub fn vex(
        &mut self,
        fields: (u8, u8, bool, bool),
        opcode: u8,
        register: Register,
        second: Register,
        place: Place,
    ) {
        self.vex_with(fields, opcode, (register, second), place, 0);
    }

    /// The same, with the number of bytes that follow.
    fn vex_with(
        &mut self,
        (map, prefix, wide, long): (u8, u8, bool, bool),
        opcode: u8,
        (register, second): (Register, Register),
        place: Place,
        behind: usize,
    ) {
        let bit = |number: u8| (number >> 3 & 1) ^ 1;
        let (x, b) = match place {
            Place::Register(number) | Place::Memory(number, _) => (1, bit(number)),
            Place::Indexed(base, index, ..) => (bit(index), bit(base)),
            Place::Pool(_) => (1, 1),
        };
        self.bytes.extend([
            0xC4,
            bit(register) << 7 | x << 6 | b << 5 | map,
            u8::from(wide) << 7 | (second ^ 0xF) << 3 | u8::from(long) << 2 | prefix,
            opcode,
        ]);
        self.place(register, place, 1, behind);
    }

    /// An instruction on general-purpose registers. `behind` is the number of bytes that follow.
    fn general(
        &mut self,
        wide: bool,
        opcode: &[u8],
        register: Register,
        place: Place,
        is_byte: bool,
        behind: usize,
    ) {
        let (index, base) = match place {
            Place::Register(number) | Place::Memory(number, _) => (0, number),
            Place::Indexed(base, index, ..) => (index, base),
            Place::Pool(_) => (0, 0),
        };
        let rex = 0x40 | u8::from(wide) << 3 | (register >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        let (prefixes, opcode) = match opcode {
            [prefix @ (0x66 | 0xF2 | 0xF3), rest @ ..] => (Some(*prefix), rest),
            _ => (None, opcode),
        };
        self.bytes.extend(prefixes);
        // Without a REX prefix, byte registers 4 to 7 are `ah` to `bh`.
        if rex != 0x40 || is_byte {
            self.bytes.push(rex);
        }
        self.bytes.extend_from_slice(opcode);
        self.place(register, place, 1, behind);
    }

    /// The ModRM byte, the SIB byte and the displacement.
    fn place(&mut self, register: Register, place: Place, unit: i32, behind: usize) {
        let register = (register & 7) << 3;
        match place {
            Place::Register(number) => self.bytes.push(0xC0 | register | number & 7),
            Place::Memory(base, offset) => {
                let (mode, bytes) = Self::offset(base, offset, unit);
                self.bytes.push(mode | register | base & 7);
                if base & 7 == RSP {
                    self.bytes.push(0x24);
                }
                self.bytes.extend_from_slice(&bytes);
            }
            Place::Indexed(base, index, scale, offset) => {
                let (mode, bytes) = Self::offset(base, offset, unit);
                self.bytes.push(mode | register | 4);
                self.bytes.push(scale << 6 | (index & 7) << 3 | base & 7);
                self.bytes.extend_from_slice(&bytes);
            }
            Place::Pool(number) => {
                self.bytes.push(register | 5);
                let at = self.bytes.len();
                self.bytes.extend([0; 4]);
                self.pool_uses.push((at, at + 4 + behind, number));
            }
        }
    }

    fn offset(base: Register, offset: i32, unit: i32) -> (u8, Vec<u8>) {
        if offset == 0 && base & 7 != RBP {
            return (0, Vec::new());
        }
        match i8::try_from(offset / unit) {
            Ok(units) if offset % unit == 0 => (0x40, units.to_le_bytes().to_vec()),
            _ => (0x80, offset.to_le_bytes().to_vec()),
        }
    }

    pub fn alu(&mut self, op: Alu, wide: bool, to: Register, from: Place) {
        self.general(wide, &[(op as u8) << 3 | 3], to, from, false, 0);
    }

    pub fn alu_immediate(&mut self, op: Alu, wide: bool, to: Register, number: i32) {
        let to = Place::Register(to);
        if let Ok(byte) = i8::try_from(number) {
            self.general(wide, &[0x83], op as u8, to, false, 1);
            self.bytes.extend(byte.to_le_bytes());
        } else {
            self.general(wide, &[0x81], op as u8, to, false, 4);
            self.bytes.extend(number.to_le_bytes());
        }
    }

    pub fn test(&mut self, wide: bool, a: Register, b: Register) {
        self.general(wide, &[0x85], b, Place::Register(a), false, 0);
    }

    pub fn copy(&mut self, to: Register, from: Register) {
        self.general(true, &[0x8B], to, Place::Register(from), false, 0);
    }

    pub fn immediate(&mut self, to: Register, number: u64) {
        if let Ok(number) = u32::try_from(number) {
            if to >= 8 {
                self.bytes.push(0x41);
            }
            self.bytes.push(0xB8 | to & 7);
            self.bytes.extend(number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number.cast_signed()) {
            self.general(true, &[0xC7], 0, Place::Register(to), false, 4);
            self.bytes.extend(number.to_le_bytes());
        } else {
            self.bytes.extend([0x48 | to >> 3, 0xB8 | to & 7]);
            self.bytes.extend(number.to_le_bytes());
        }
    }

    pub fn multiply(&mut self, wide: bool, to: Register, from: Place) {
        self.general(wide, &[0x0F, 0xAF], to, from, false, 0);
    }

    pub fn multiply_immediate(&mut self, wide: bool, to: Register, from: Register, number: i32) {
        self.general(wide, &[0x69], to, Place::Register(from), false, 4);
        self.bytes.extend(number.to_le_bytes());
    }

    pub fn shift_immediate(&mut self, shift: Shift, wide: bool, to: Register, by: u8) {
        self.general(wide, &[0xC1], shift as u8, Place::Register(to), false, 1);
        self.bytes.push(by);
    }

    /// `neg` (3) or `not` (2).
    pub fn unary(&mut self, operation: u8, wide: bool, to: Register) {
        self.general(wide, &[0xF7], operation, Place::Register(to), false, 0);
    }

    /// Loads or extends an integer.
    pub fn load(&mut self, memory: Memory, to: Register, from: Place) {
        let is_register = matches!(from, Place::Register(_));
        let wide = memory.wide && memory.signed;
        match (memory.bytes, memory.signed) {
            (1, false) => self.general(false, &[0x0F, 0xB6], to, from, is_register, 0),
            (1, true) => self.general(wide, &[0x0F, 0xBE], to, from, is_register, 0),
            (2, false) => self.general(false, &[0x0F, 0xB7], to, from, false, 0),
            (2, true) => self.general(wide, &[0x0F, 0xBF], to, from, false, 0),
            (4, true) if wide => self.general(true, &[0x63], to, from, false, 0),
            (4, _) => self.general(false, &[0x8B], to, from, false, 0),
            _ => self.general(true, &[0x8B], to, from, false, 0),
        }
    }

    pub fn store(&mut self, bytes: u8, from: Register, to: Place) {
        match bytes {
            1 => self.general(false, &[0x88], from, to, true, 0),
            2 => self.general(false, &[0x66, 0x89], from, to, false, 0),
            4 => self.general(false, &[0x89], from, to, false, 0),
            _ => self.general(true, &[0x89], from, to, false, 0),
        }
    }

    /// Stores a 32-bit immediate, or its sign extension to 64 bits.
    pub fn store_immediate(&mut self, wide: bool, number: i32, to: Place) {
        self.general(wide, &[0xC7], 0, to, false, 4);
        self.bytes.extend(number.to_le_bytes());
    }

    pub fn address(&mut self, to: Register, place: Place) {
        self.general(true, &[0x8D], to, place, false, 0);
    }

    pub fn set(&mut self, condition: Condition, to: Register) {
        let place = Place::Register(to);
        self.general(false, &[0x0F, 0x90 | condition as u8], 0, place, true, 0);
        self.general(false, &[0x0F, 0xB6], to, place, true, 0);
    }

    pub fn select(&mut self, condition: Condition, wide: bool, to: Register, from: Register) {
        let opcode = [0x0F, 0x40 | condition as u8];
        self.general(wide, &opcode, to, Place::Register(from), false, 0);
    }

    /// `tzcnt`
    pub fn trailing_zeros(&mut self, to: Register, from: Register) {
        let opcode = [0xF3, 0x0F, 0xBC];
        self.general(false, &opcode, to, Place::Register(from), false, 0);
    }

    /// Divides `rax`, after extending it into `rdx`.
    pub fn divide(&mut self, signed: bool, wide: bool, by: Register) {
        if signed {
            // cdq, cqo
            self.bytes.extend(wide.then_some(0x48));
            self.bytes.push(0x99);
        } else {
            self.alu(Alu::Xor, false, RDX, Place::Register(RDX));
        }
        let operation = if signed { 7 } else { 6 };
        self.unary(operation, wide, by);
    }

    pub fn jump(&mut self, to: Target) {
        self.bytes.push(0xE9);
        self.distance(to);
    }

    pub fn jump_if(&mut self, condition: Condition, to: Target) {
        self.bytes.extend([0x0F, 0x80 | condition as u8]);
        self.distance(to);
    }

    pub fn call(&mut self, to: Target) {
        self.bytes.push(0xE8);
        self.distance(to);
    }

    /// Calls the function whose address is in memory.
    pub fn call_at(&mut self, place: Place) {
        self.general(false, &[0xFF], 2, place, false, 0);
    }

    fn distance(&mut self, to: Target) {
        self.jumps.push((self.bytes.len(), to));
        self.bytes.extend([0; 4]);
    }

    pub fn push(&mut self, register: Register) {
        self.bytes.extend((register >= 8).then_some(0x41));
        self.bytes.push(0x50 | register & 7);
    }

    pub fn pop(&mut self, register: Register) {
        self.bytes.extend((register >= 8).then_some(0x41));
        self.bytes.push(0x58 | register & 7);
    }

    pub fn return_(&mut self) {
        // vzeroupper
        self.bytes.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }

    pub fn plain_return(&mut self) {
        self.bytes.push(0xC3);
    }

    /// Clears the lowest bit that is set: `blsr`.
    pub fn clear_lowest(&mut self, register: Register) {
        self.vex(
            (2, 0, false, false),
            0xF3,
            1,
            register,
            Place::Register(register),
        );
    }

    /// Sets the rounding of vector instructions, 0 to nearest, 1 down, 2 up, 3 to zero, and keeps the
    /// thread's settings in memory.
    pub fn set_rounding(&mut self, rounding: u8, kept: Place) {
        const MASKED: u32 = 0x1F80;
        let control = MASKED | u32::from(rounding) << 13;
        let place = self.constant(&control.to_le_bytes());
        // vstmxcsr
        self.vex((1, 0, false, false), 0xAE, 3, 0, kept);
        self.load_rounding(place);
    }

    /// Sets what memory has: `vldmxcsr`.
    pub fn load_rounding(&mut self, kept: Place) {
        self.vex((1, 0, false, false), 0xAE, 2, 0, kept);
    }

    pub fn prefetch(&mut self, place: Place) {
        self.general(false, &[0x0F, 0x18], 1, place, false, 0);
    }

    pub fn fence(&mut self) {
        self.bytes.extend([0x0F, 0xAE, 0xF0]);
    }

    /// Appends the constants and patches all displacements.
    pub fn finish(mut self) -> Vec<u8> {
        // Largest first, so that all are aligned.
        let mut order: Vec<usize> = (0..self.pool.len()).collect();
        order.sort_by_key(|&number| std::cmp::Reverse(self.pool[number].len()));
        let mut at = vec![0; self.pool.len()];
        self.bytes
            .resize(self.bytes.len().next_multiple_of(64), 0xCC);
        for number in order {
            at[number] = self.bytes.len();
            self.bytes.extend_from_slice(&self.pool[number]);
        }
        for (place, end, number) in std::mem::take(&mut self.pool_uses) {
            self.fill(place, at[number] as i64 - end as i64);
        }
        for (place, target) in std::mem::take(&mut self.jumps) {
            debug_assert!(self.targets[target.0].is_some(), "a jump to no place");
            let to = self.targets[target.0].unwrap_or_default();
            self.fill(place, to as i64 - (place as i64 + 4));
        }
        self.bytes
    }

    fn fill(&mut self, place: usize, distance: i64) {
        self.bytes[place..place + 4].copy_from_slice(&(distance as i32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
