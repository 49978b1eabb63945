//! Instructions of AVX2, and loops for those that it does not have.

use super::super::allocate::SCRATCH_YMM;
use super::super::assembler::{Options, Place, R11, RSP, Register, Target};
use super::super::machine::{Alu, Condition, Evex, Form, Memory};
use super::{COPY, Emission, LOAD, STORE};

/// Where the settings of the thread are while an instruction rounds in another direction: a part of the
/// lane area that calls do not use.
const SETTINGS: Place = Place::Memory(RSP, 32);

impl Emission<'_> {
    pub(super) fn vector_of_avx2(
        &mut self,
        (code, form): (Evex, Form),
        (result, first): (Register, Register),
        place: Place,
        options: Options,
    ) {
        if let Some(rounding) = options.rounding {
            self.a.set_rounding(rounding, SETTINGS);
        }
        let mut plain = Options {
            immediate: options.immediate,
            ..Options::default()
        };
        match (form, place) {
            (Form::Reversed, Place::Register(from)) => {
                let to = Place::Register(result);
                self.a.vector(code, from, 0, to, plain);
            }
            (Form::Shift(operation), _) => {
                self.a.vector(code, operation, result, place, plain);
            }
            _ => {
                if Self::is_blend(code) {
                    plain.immediate = Some(options.mask << 4);
                }
                self.a.vector(code, result, first, place, plain);
            }
        }
        if options.rounding.is_some() {
            self.a.load_rounding(SETTINGS);
        }
    }

    /// `vblendvps` and `vblendvpd`, whose fourth register is in the immediate.
    fn is_blend(code: Evex) -> bool {
        code.map == 3 && matches!(code.opcode, 0x4A | 0x4B)
    }

    /// Sets the flags: equal if neither half of a mask has a lane.
    pub(super) fn test_halves(&mut self, low: Register, high: Register) {
        // vpor
        let place = Place::Register(high);
        self.a
            .vex((1, 1, false, true), 0xEB, SCRATCH_YMM, low, place);
        let place = Place::Register(SCRATCH_YMM);
        self.a.vex((2, 1, false, true), 0x17, SCRATCH_YMM, 0, place);
    }

    /// Puts a mask where a function of the runtime finds it.
    pub(super) fn store_halves_of_mask(&mut self, low: Register, high: Register) {
        for (half, at) in [(low, 0), (high, 1)] {
            let place = Place::Register(half);
            self.a.vex((1, 0, false, true), 0x50, R11, 0, place);
            self.a.store(1, R11, Place::Memory(RSP, at));
        }
    }

    /// Loops over the bits of a register, which is not empty at first. `body` gets the number of the bit.
    fn each_bit(&mut self, bits: Register, number: Register, body: impl FnOnce(&mut Self)) {
        let head = self.a.target();
        self.a.bind(head);
        self.a.trailing_zeros(number, bits);
        body(self);
        self.a.clear_lowest(bits);
        self.a.jump_if(Condition::NotEqual, head);
    }

    pub(super) fn scatter_area(
        &mut self,
        [base, mask, bits, number]: [Register; 4],
        (bytes, scale): (u8, u8),
        index: Memory,
        area: i32,
    ) {
        let done = self.a.target();
        self.a.load(WORD, bits, Place::Register(mask));
        self.a.test(false, bits, bits);
        self.a.jump_if(Condition::Equal, done);
        self.each_bit(bits, number, |e| {
            let lane = |bytes: u8, at: i32| {
                Place::Indexed(RSP, number, bytes.trailing_zeros() as u8, area + at)
            };
            // The value goes through the second scratch register, since the index replaces the number.
            let value = lane(bytes, 0);
            let code = if bytes == 8 { LOAD_LONG } else { LOAD_WORD };
            e.a.vector(code, SCRATCH_YMM, 0, value, Options::default());
            e.a.load(index, R11, lane(index.bytes, 64));
            let to = Place::Indexed(base, R11, scale, 0);
            let code = if bytes == 8 { STORE_LONG } else { STORE_WORD };
            e.a.vector(code, SCRATCH_YMM, 0, to, Options::default());
        });
        self.a.bind(done);
    }

    /// Copies elements of the lanes in a register, between places of a base and an offset.
    fn copy_each(
        &mut self,
        [bits, number]: [Register; 2],
        bytes: u8,
        from: (Register, i32),
        to: (Register, i32),
    ) {
        let scale = bytes.trailing_zeros() as u8;
        self.each_bit(bits, number, |e| {
            let element = Memory { bytes, ..WORD };
            e.a.load(element, R11, Place::Indexed(from.0, number, scale, from.1));
            e.a.store(bytes, R11, Place::Indexed(to.0, number, scale, to.1));
        });
    }

    /// Jumps if the 16 lanes are not all active.
    fn unless_all(&mut self, bits: Register, mask: Register) -> Target {
        let some = self.a.target();
        self.a.load(WORD, bits, Place::Register(mask));
        self.a.alu_immediate(Alu::Cmp, false, bits, 0xFFFF);
        self.a.jump_if(Condition::NotEqual, some);
        some
    }

    pub(super) fn load_narrow(
        &mut self,
        [result, base, mask, bits, number]: [Register; 5],
        bytes: u8,
        offset: i32,
        area: i32,
    ) {
        let (load, store) = match bytes {
            1 => (LOAD.of_128_bits(), STORE.of_128_bits()),
            _ => (LOAD, STORE),
        };
        let done = self.a.target();
        let some = self.unless_all(bits, mask);
        let place = Place::Memory(base, offset);
        self.a.vector(load, result, 0, place, Options::default());
        self.a.jump(done);
        self.a.bind(some);
        // vpxor
        let scratch = Place::Register(SCRATCH_YMM);
        self.a
            .vex((1, 1, false, true), 0xEF, SCRATCH_YMM, SCRATCH_YMM, scratch);
        let place = Place::Memory(RSP, area);
        self.a
            .vector(store, SCRATCH_YMM, 0, place, Options::default());
        let loaded = self.a.target();
        self.a.test(false, bits, bits);
        self.a.jump_if(Condition::Equal, loaded);
        self.copy_each([bits, number], bytes, (base, offset), (RSP, area));
        self.a.bind(loaded);
        self.a.vector(load, result, 0, place, Options::default());
        self.a.bind(done);
    }

    pub(super) fn store_narrow(
        &mut self,
        [value, base, mask, bits, number]: [Register; 5],
        bytes: u8,
        offset: i32,
        area: i32,
    ) {
        let store = if bytes == 1 {
            STORE.of_128_bits()
        } else {
            STORE
        };
        let done = self.a.target();
        let some = self.unless_all(bits, mask);
        let place = Place::Memory(base, offset);
        self.a.vector(store, value, 0, place, Options::default());
        self.a.jump(done);
        self.a.bind(some);
        self.a.test(false, bits, bits);
        self.a.jump_if(Condition::Equal, done);
        let place = Place::Memory(RSP, area);
        self.a.vector(store, value, 0, place, Options::default());
        self.copy_each([bits, number], bytes, (RSP, area), (base, offset));
        self.a.bind(done);
    }
}

const WORD: Memory = Memory {
    bytes: 4,
    signed: false,
    wide: false,
};

/// `vmovd` and `vmovq` from and to memory.
const LOAD_WORD: Evex = Evex {
    opcode: 0x6E,
    prefix: 1,
    wide: false,
    length: 0,
    ..COPY
};
const LOAD_LONG: Evex = Evex {
    wide: true,
    ..LOAD_WORD
};
const STORE_WORD: Evex = Evex {
    opcode: 0x7E,
    ..LOAD_WORD
};
const STORE_LONG: Evex = Evex {
    wide: true,
    ..STORE_WORD
};
