//! Code behind the function: the slow paths of checks, and calls of the runtime.

use super::super::assembler::{
    Options, Place, R8, R9, R10, R11, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Register,
};
use super::super::machine::{Alu, Condition, MASK, ZMM};
use super::{CONTEXT, Emission, LOAD, LONG, STORE, register};
use crate::abi::offset;

impl Emission<'_> {
    /// Emits the slow paths of checks, the return after a fault, and the call stub.
    pub(super) fn out_of_line(&mut self) {
        for stub in std::mem::take(&mut self.stubs) {
            self.a.bind(stub.start);
            let (mut at, mut operands) = (64, &stub.operands[..]);
            if let [low, high, rest @ ..] = operands
                && self.code.is_avx2
            {
                self.store_halves_of_mask(register(*low), register(*high));
                operands = rest;
            }
            let length = if self.code.is_avx2 { 32 } else { 64 };
            for (n, &operand) in operands.iter().enumerate() {
                match operand.as_reg().map(|reg| reg.class()) {
                    Some(MASK) => self.store_mask(register(operand), 4 * n as i32),
                    Some(ZMM) => {
                        self.store_lanes(register(operand), at);
                        at += length;
                    }
                    _ => {
                        self.a.store(8, register(operand), Place::Memory(RSP, 8));
                    }
                }
            }
            self.request(stub.call);
            self.a.call(self.calls);
            self.a.jump_if(Condition::NotEqual, self.fails);
            self.a.jump(stub.back);
        }
        self.a.bind(self.fails);
        self.a.immediate(RAX, 1);
        self.epilogue();
        self.save_and_call();
    }

    /// Emits the call stub. It calls the runtime function at offset `r11` of the helper table, preserves
    /// all registers, and sets the flags from the result.
    fn save_and_call(&mut self) {
        const SAVED: [Register; 9] = [RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11];
        let options = Options {
            unit: 64,
            ..Options::default()
        };
        self.a.bind(self.calls);
        let saved = self.a.bytes.len();
        debug_assert!(saved > 0);
        // The lanes are above the return address.
        for register in SAVED {
            self.a.push(register);
        }
        self.a
            .address(RSI, Place::Memory(RSP, 8 * SAVED.len() as i32 + 8));
        self.a.load(LONG, RDI, Place::Memory(RBP, CONTEXT));
        self.a.load(LONG, RAX, Place::Memory(RDI, offset::HELPERS));
        self.a.push(RBX);
        self.a.copy(RBX, RSP);
        let room = 32 * 64 + 64;
        self.a.alu_immediate(Alu::Sub, true, RSP, room);
        self.a.alu_immediate(Alu::And, true, RSP, -64);
        let (vectors, masks) = if self.code.is_avx2 { (16, 0) } else { (32, 8) };
        for n in 0..vectors {
            let place = Place::Memory(RSP, 64 * i32::from(n));
            self.a.vector(STORE, n, 0, place, options);
        }
        for n in 1..masks {
            let place = Place::Memory(RSP, 32 * 64 + 8 * i32::from(n));
            self.a.vex((1, 0, true, false), 0x91, n, 0, place);
        }
        // vzeroupper
        self.a.bytes.extend([0xC5, 0xF8, 0x77]);
        self.a.call_at(Place::Indexed(RAX, R11, 0, 0));
        for n in 0..vectors {
            let place = Place::Memory(RSP, 64 * i32::from(n));
            self.a.vector(LOAD, n, 0, place, options);
        }
        for n in 1..masks {
            let place = Place::Memory(RSP, 32 * 64 + 8 * i32::from(n));
            self.a.vex((1, 0, true, false), 0x90, n, 0, place);
        }
        self.a.test(false, RAX, RAX);
        self.a.copy(RSP, RBX);
        self.a.pop(RBX);
        for register in SAVED.into_iter().rev() {
            self.a.pop(register);
        }
        self.a.plain_return();
    }
}
