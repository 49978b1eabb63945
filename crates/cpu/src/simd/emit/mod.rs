//! Emits machine code from allocated instructions.

mod avx2;
mod stubs;

use regalloc2::{Allocation, Edit, InstOrEdit, Output, RegClass};

use super::assembler::{Assembler, Options, Place, R11, RBP, RBX, RDI, RSP, Register, Target};
use super::machine::{
    Alu, Code, Condition, Constant, Evex, Form, INT, Label, Masking, Memory, Op, ZMM,
};

/// The frame's offset of the saved context pointer.
const CONTEXT: i32 = -48;

/// `vmovdqu64` loads and stores, and `vmovdqa64` between registers.
const LOAD: Evex = evex(1, 2, true, 0x6F);
const STORE: Evex = evex(1, 2, true, 0x7F);
const COPY: Evex = evex(1, 1, true, 0x6F);

const fn evex(map: u8, prefix: u8, wide: bool, opcode: u8) -> Evex {
    Evex {
        map,
        prefix,
        wide,
        opcode,
        length: 2,
        maskable: false,
    }
}

/// Out-of-line code of a check.
struct Stub {
    start: Target,
    back: Target,
    call: u32,
    operands: Vec<Allocation>,
}

struct Emission<'c> {
    code: &'c Code,
    a: Assembler,
    labels: Vec<Target>,
    /// The stack offset of the first spill slot.
    spills: i32,
    stubs: Vec<Stub>,
    /// Returns 1: a fault ends the block.
    fails: Target,
    /// Saves all registers and calls a function of the runtime.
    calls: Target,
}

/// The machine code of a function.
pub(super) fn machine_code(code: &Code, allocated: &Output) -> Vec<u8> {
    let mut a = Assembler::default();
    a.uses_vex = code.is_avx2;
    let labels = code.blocks.iter().map(|_| a.target()).collect();
    let [fails, calls] = [(); 2].map(|()| a.target());
    let mut e = Emission {
        code,
        a,
        labels,
        spills: code.lane_bytes.next_multiple_of(64) as i32,
        stubs: Vec::new(),
        fails,
        calls,
    };
    let frame = e.spills + 8 * allocated.num_spillslots as i32;
    e.prologue(frame);
    let mut number = 0;
    for (at, &label) in code.layout.iter().enumerate() {
        let target = e.labels[label.0 as usize];
        e.a.bind(target);
        let next = code.layout.get(at + 1).copied();
        let block = &code.blocks[label.0 as usize];
        let first = number;
        number += block.instructions.len();
        let view = Instructions {
            first,
            count: block.instructions.len(),
        };
        for item in view.with_edits(allocated) {
            match item {
                InstOrEdit::Edit(Edit::Move { from, to }) => e.transfer(*from, *to),
                InstOrEdit::Inst(instruction) => {
                    let allocations = allocated.inst_allocs(instruction);
                    let op = &block.instructions[instruction.index() - first].op;
                    e.op(op, allocations, next);
                }
            }
        }
    }
    e.out_of_line();
    e.a.finish()
}

/// The instructions of a block, by their numbers in the function.
struct Instructions {
    first: usize,
    count: usize,
}

impl Instructions {
    fn with_edits<'o>(&self, output: &'o Output) -> impl Iterator<Item = InstOrEdit<'o>> {
        use regalloc2::{Inst, ProgPoint};
        let range = self.first..self.first + self.count;
        let start = output
            .edits
            .partition_point(|(point, _)| *point < ProgPoint::before(Inst::new(range.start)));
        let end = output
            .edits
            .partition_point(|(point, _)| *point < ProgPoint::before(Inst::new(range.end)));
        let mut edits = output.edits[start..end].iter().peekable();
        let mut next = range.start;
        std::iter::from_fn(move || {
            if next >= range.end {
                return edits.next().map(|(_, edit)| InstOrEdit::Edit(edit));
            }
            if let Some((_, edit)) =
                edits.next_if(|(point, _)| *point <= ProgPoint::before(Inst::new(next)))
            {
                return Some(InstOrEdit::Edit(edit));
            }
            next += 1;
            Some(InstOrEdit::Inst(Inst::new(next - 1)))
        })
    }
}

fn register(allocation: Allocation) -> Register {
    allocation.as_reg().map_or(0, |reg| reg.hw_enc() as u8)
}

impl Emission<'_> {
    fn prologue(&mut self, frame: i32) {
        let a = &mut self.a;
        a.push(RBP);
        a.copy(RBP, RSP);
        for saved in [RBX, 12, 13, 14, 15] {
            a.push(saved);
        }
        a.push(RDI);
        a.alu_immediate(Alu::Sub, true, RSP, frame);
        a.alu_immediate(Alu::And, true, RSP, -64);
    }

    fn epilogue(&mut self) {
        let a = &mut self.a;
        a.address(RSP, Place::Memory(RBP, CONTEXT + 8));
        for saved in [15, 14, 13, 12, RBX, RBP] {
            a.pop(saved);
        }
        a.return_();
    }

    fn slot(&self, allocation: Allocation) -> Place {
        let number = allocation.as_stack().map_or(0, |slot| slot.index());
        Place::Memory(RSP, self.spills + 8 * number as i32)
    }

    fn transfer(&mut self, from: Allocation, to: Allocation) {
        let class = |allocation: Allocation| allocation.as_reg().map(|reg| reg.class());
        let Some(class) = class(from).or(class(to)) else {
            return;
        };
        let options = Options {
            unit: 64,
            ..Options::default()
        };
        match (from.is_reg(), to.is_reg()) {
            (true, true) if from == to => {}
            (true, true) => self.copy(class, register(to), register(from)),
            (true, false) => {
                let place = self.slot(to);
                match class {
                    INT => self.a.store(8, register(from), place),
                    ZMM => self.a.vector(STORE, register(from), 0, place, options),
                    _ => self
                        .a
                        .vex((1, 0, true, false), 0x91, register(from), 0, place),
                }
            }
            _ => {
                let place = self.slot(from);
                match class {
                    INT => self.a.load(LONG, register(to), place),
                    ZMM => self.a.vector(LOAD, register(to), 0, place, options),
                    _ => self
                        .a
                        .vex((1, 0, true, false), 0x90, register(to), 0, place),
                }
            }
        }
    }

    fn copy(&mut self, class: RegClass, to: Register, from: Register) {
        let place = Place::Register(from);
        match class {
            INT => self.a.copy(to, from),
            ZMM => self.a.vector(COPY, to, 0, place, Options::default()),
            _ => self.a.vex((1, 0, true, false), 0x90, to, 0, place),
        }
    }

    fn constant(&mut self, constant: Constant) -> Place {
        match constant {
            Constant::Word(bits) => self.a.constant(&bits.to_le_bytes()),
            Constant::Long(bits) => self.a.constant(&bits.to_le_bytes()),
            Constant::Vector(number) => {
                let bytes = self.code.vectors[number as usize];
                let length = if self.code.is_avx2 { 32 } else { 64 };
                self.a.constant(&bytes[..length])
            }
        }
    }

    /// A constant as an operand in memory. With AVX2, all its lanes are there.
    fn constant_operand(&mut self, constant: Constant) -> Place {
        match constant {
            Constant::Word(bits) if self.code.is_avx2 => {
                self.a.constant(&bits.to_le_bytes().repeat(8))
            }
            Constant::Long(bits) if self.code.is_avx2 => {
                self.a.constant(&bits.to_le_bytes().repeat(4))
            }
            _ => self.constant(constant),
        }
    }

    fn jump(&mut self, to: Label, next: Option<Label>) {
        if Some(to) != next {
            self.a.jump(self.labels[to.0 as usize]);
        }
    }

    /// Emits one operation. The allocator has put a reused operand into the result's register.
    fn op(&mut self, op: &Op, operands: &[Allocation], next: Option<Label>) {
        let reg = |n: usize| {
            operands
                .get(n)
                .map_or(0, |&allocation| register(allocation))
        };
        match *op {
            Op::Vector {
                code,
                form,
                immediate,
                constant,
                masking,
                rounding,
            } => {
                let constant = constant.map(|constant| self.constant_operand(constant));
                let mut inputs = operands[1..].iter().map(|&allocation| register(allocation));
                let mut input = || inputs.next().unwrap_or_default();
                let result = reg(0);
                let first = match form {
                    Form::Binary | Form::Ternary => input(),
                    _ => 0,
                };
                let place = match constant {
                    Some(place) => place,
                    None => Place::Register(input()),
                };
                let keeps = masking == Masking::Merge || form == Form::Ternary;
                if keeps {
                    input();
                }
                let options = Options {
                    mask: if masking == Masking::None { 0 } else { input() },
                    // A result that is a mask is always zeroed.
                    zeroes: masking == Masking::Zero
                        && operands[0].as_reg().is_some_and(|reg| reg.class() == ZMM),
                    broadcast: matches!(place, Place::Pool(_))
                        && !matches!(
                            op,
                            Op::Vector {
                                constant: Some(Constant::Vector(_)),
                                ..
                            }
                        ),
                    rounding: (rounding < 4).then_some(rounding),
                    immediate,
                    unit: 0,
                };
                if self.code.is_avx2 {
                    let registers = (result, first);
                    return self.vector_of_avx2((code, form), registers, place, options);
                }
                match (form, place) {
                    (Form::Reversed, Place::Register(from)) => {
                        self.a
                            .vector(code, from, 0, Place::Register(result), options);
                    }
                    (Form::Shift(operation), _) => {
                        self.a.vector(code, operation, result, place, options);
                    }
                    _ => self.a.vector(code, result, first, place, options),
                }
            }
            Op::Load {
                code,
                offset,
                unit,
                masking,
                broadcast,
                binary,
                immediate,
            } => {
                let mut at = 1;
                let first = if binary {
                    at += 1;
                    reg(1)
                } else {
                    0
                };
                let base = reg(at);
                at += 1;
                at += usize::from(masking == Masking::Merge);
                let options = Options {
                    mask: if masking == Masking::None { 0 } else { reg(at) },
                    zeroes: masking == Masking::Zero
                        && operands[0].as_reg().is_some_and(|reg| reg.class() == ZMM),
                    broadcast,
                    unit,
                    immediate,
                    ..Options::default()
                };
                self.a
                    .vector(code, reg(0), first, Place::Memory(base, offset), options);
            }
            Op::Store {
                code,
                offset,
                unit,
                masked,
            } => {
                let mask = if masked { reg(2) } else { 0 };
                let options = Options {
                    mask,
                    unit,
                    ..Options::default()
                };
                let second = if self.code.is_avx2 { mask } else { 0 };
                let place = Place::Memory(reg(1), offset);
                self.a.vector(code, reg(0), second, place, options);
            }
            Op::Gather { code, scale } => {
                let options = Options {
                    mask: reg(1),
                    ..Options::default()
                };
                let place = Place::Indexed(reg(2), reg(3), scale, 0);
                let second = if self.code.is_avx2 { reg(1) } else { 0 };
                self.a.vector(code, reg(0), second, place, options);
            }
            Op::Scatter { code, scale } => {
                let options = Options {
                    mask: reg(0),
                    ..Options::default()
                };
                let place = Place::Indexed(reg(2), reg(3), scale, 0);
                self.a.vector(code, reg(1), 0, place, options);
            }
            Op::Constant(constant) => {
                let place = self.constant(constant);
                let code = match constant {
                    // vpbroadcastd, vpbroadcastq
                    Constant::Word(_) => evex(2, 1, false, 0x58),
                    Constant::Long(_) => evex(2, 1, true, 0x59),
                    Constant::Vector(_) => LOAD,
                };
                self.a.vector(code, reg(0), 0, place, Options::default());
            }
            Op::ZeroVector => {
                let to = reg(0);
                // vpxord
                let code = evex(1, 1, false, 0xEF);
                self.a
                    .vector(code, to, to, Place::Register(to), Options::default());
            }
            Op::MaskBinary(opcode) => {
                let place = Place::Register(reg(2));
                // kunpckbw
                let prefix = u8::from(opcode == 0x4B);
                self.a
                    .vex((1, prefix, false, true), opcode, reg(0), reg(1), place);
            }
            Op::MaskNot => {
                let place = Place::Register(reg(1));
                self.a.vex((1, 0, false, false), 0x44, reg(0), 0, place);
            }
            Op::MaskShift { right, by } => {
                let place = Place::Register(reg(1));
                let opcode = if right { 0x30 } else { 0x32 };
                self.a.vex((3, 1, true, false), opcode, reg(0), 0, place);
                self.a.bytes.push(by);
            }
            Op::MaskTest => {
                let place = Place::Register(reg(1));
                if self.code.is_avx2 {
                    // vptest
                    return self.a.vex((2, 1, false, true), 0x17, reg(0), 0, place);
                }
                self.a.vex((1, 0, false, false), 0x98, reg(0), 0, place);
            }
            Op::MaskConstant(ones) => {
                let opcode = if ones { 0x46 } else { 0x47 };
                let place = Place::Register(reg(0));
                self.a
                    .vex((1, 0, false, true), opcode, reg(0), reg(0), place);
            }
            // They are in their registers already.
            Op::Arguments => {}
            // kmovw
            Op::StoreMask { offset } => {
                let place = Place::Memory(reg(1), offset);
                self.a.vex((1, 0, false, false), 0x91, reg(0), 0, place);
            }
            Op::LoadMask { offset } => {
                let place = Place::Memory(reg(1), offset);
                self.a.vex((1, 0, false, false), 0x90, reg(0), 0, place);
            }
            Op::MaskToInt => {
                let place = Place::Register(reg(1));
                if self.code.is_avx2 {
                    // vmovmskps
                    return self.a.vex((1, 0, false, true), 0x50, reg(0), 0, place);
                }
                self.a.vex((1, 0, false, false), 0x93, reg(0), 0, place);
            }
            Op::IntToMask => {
                let place = Place::Register(reg(1));
                self.a.vex((1, 0, false, false), 0x92, reg(0), 0, place);
            }
            Op::Immediate(number) => self.a.immediate(reg(0), number),
            Op::Alu { op: Alu::Cmp, wide } => {
                self.a.alu(Alu::Cmp, wide, reg(0), Place::Register(reg(1)));
            }
            Op::Alu { op, wide } => self.a.alu(op, wide, reg(0), Place::Register(reg(2))),
            Op::AluImmediate { op, wide, number } => {
                self.a.alu_immediate(op, wide, reg(0), number);
            }
            Op::Test { wide } => self.a.test(wide, reg(0), reg(1)),
            Op::Multiply { wide } => self.a.multiply(wide, reg(0), Place::Register(reg(2))),
            Op::MultiplyImmediate { wide, number } => {
                self.a.multiply_immediate(wide, reg(0), reg(1), number);
            }
            Op::ShiftImmediate { shift, wide, by } => {
                self.a.shift_immediate(shift, wide, reg(0), by);
            }
            Op::Negate { wide } => self.a.unary(3, wide, reg(0)),
            Op::Not { wide } => self.a.unary(2, wide, reg(0)),
            Op::Extend(memory) => self.a.load(memory, reg(0), Place::Register(reg(1))),
            Op::Address { offset } => self.a.address(reg(0), Place::Memory(reg(1), offset)),
            Op::Indexed { scale, offset } => {
                let place = Place::Indexed(reg(1), reg(2), scale, offset);
                self.a.address(reg(0), place);
            }
            Op::LoadInt { memory, offset } => {
                self.a.load(memory, reg(0), Place::Memory(reg(1), offset));
            }
            Op::StoreInt { bytes, offset } => {
                self.a.store(bytes, reg(0), Place::Memory(reg(1), offset));
            }
            Op::Set(condition) => self.a.set(condition, reg(0)),
            Op::Select { condition, wide } => self.a.select(condition, wide, reg(0), reg(2)),
            Op::TrailingZeros => self.a.trailing_zeros(reg(0), reg(1)),
            Op::Divide { signed, wide } => self.a.divide(signed, wide, reg(3)),
            Op::Fence => self.a.fence(),
            Op::Prefetch { scale, offset } => {
                self.a
                    .prefetch(Place::Indexed(reg(0), reg(1), scale, offset));
            }
            Op::Check { call } => {
                let [start, back] = [(); 2].map(|()| self.a.target());
                if self.code.is_avx2 {
                    self.test_halves(reg(0), reg(1));
                } else {
                    let place = Place::Register(reg(0));
                    self.a.vex((1, 0, false, false), 0x98, reg(0), 0, place);
                }
                self.a.jump_if(Condition::NotEqual, start);
                self.a.bind(back);
                self.stubs.push(Stub {
                    start,
                    back,
                    call,
                    operands: operands.to_vec(),
                });
            }
            Op::CallLanes { call } => {
                self.request(call);
                self.a.call(self.calls);
                self.a.jump_if(Condition::NotEqual, self.fails);
            }
            Op::StoreLanes { at } => self.store_lanes(reg(0), at),
            Op::LoadLanes { at } => {
                let options = Options {
                    unit: 64,
                    ..Options::default()
                };
                self.a
                    .vector(LOAD, reg(0), 0, Place::Memory(RSP, at), options);
            }
            Op::StoreMaskLanes { at } => self.store_mask(reg(0), at),
            Op::ScatterArea {
                bytes,
                index,
                scale,
                area,
            } => {
                let registers = [reg(0), reg(1), reg(2), reg(3)];
                self.scatter_area(registers, (bytes, scale), index, area);
            }
            Op::LoadNarrow {
                bytes,
                offset,
                area,
            } => {
                let registers = [reg(0), reg(1), reg(2), reg(3), reg(4)];
                self.load_narrow(registers, bytes, offset, area);
            }
            Op::StoreNarrow {
                bytes,
                offset,
                area,
            } => {
                let registers = [reg(0), reg(1), reg(2), reg(3), reg(4)];
                self.store_narrow(registers, bytes, offset, area);
            }
            Op::StoreIntLanes { at } => self.a.store(8, reg(0), Place::Memory(RSP, at)),
            Op::Jump(to) => self.jump(to, next),
            Op::Branch {
                condition,
                then,
                otherwise,
            } => {
                if Some(then) == next {
                    let target = self.labels[otherwise.0 as usize];
                    self.a.jump_if(condition.negated(), target);
                } else {
                    self.a.jump_if(condition, self.labels[then.0 as usize]);
                    self.jump(otherwise, next);
                }
            }
            Op::Return => self.epilogue(),
        }
    }

    fn store_lanes(&mut self, from: Register, at: i32) {
        let options = Options {
            unit: 64,
            ..Options::default()
        };
        self.a
            .vector(STORE, from, 0, Place::Memory(RSP, at), options);
    }

    fn store_mask(&mut self, from: Register, at: i32) {
        // kmovw
        let place = Place::Memory(RSP, at);
        self.a.vex((1, 0, false, false), 0x91, from, 0, place);
    }

    /// Writes the request of a runtime call.
    fn request(&mut self, call: u32) {
        let call = self.code.calls[call as usize];
        for (n, word) in (0..).zip(call.request) {
            for (half, number) in [word as u32, (word >> 32) as u32].into_iter().enumerate() {
                let place = Place::Memory(RSP, 16 + 8 * n + 4 * half as i32);
                self.a.store_immediate(false, number.cast_signed(), place);
            }
        }
        self.a.immediate(R11, u64::from(call.helper) * 8);
    }
}

const LONG: Memory = Memory {
    bytes: 8,
    signed: false,
    wide: true,
};
