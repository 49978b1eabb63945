//! Machine code of x86-64 with AVX2 and FMA, or with AVX-512: the instructions that loops in vectors of
//! 256 or 512 bits consist of. Cranelift has vectors of 128 bits there.

/// A register of 256 bits, or that of 512 bits whose lower half it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ymm(pub u8);

impl Ymm {
    pub const COUNT: u8 = 16;
}

/// A register of 64 bits, other than `rsp` and `r12`, which cannot be the base of an address here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub u8);

impl Gpr {
    pub const RAX: Gpr = Gpr(0);
    pub const RSI: Gpr = Gpr(6);
    pub const RDI: Gpr = Gpr(7);
}

/// Instructions with three operands, the first of which is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    /// The result is what it was, plus the product of the two others.
    MultiplyAdd,
}

/// Conditions of jumps, by their number in the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Without a borrow.
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    Below = 2,
}

/// A jump forwards whose target is not known yet.
#[must_use]
pub(super) struct Forward(usize);

/// An operand in a register or in memory.
#[derive(Clone, Copy)]
enum Place {
    Register(u8),
    Memory(Gpr, i32),
}

/// The prefix of an instruction on vectors: the number of the opcode's map, that of what stands
/// before it, and whether the vectors have 256 bits.
#[derive(Clone, Copy)]
struct Prefix(u8, u8, bool);

/// `0F`
const PACKED: Prefix = Prefix(1, 0, true);
/// `66 0F 38`
const PACKED_38: Prefix = Prefix(2, 1, true);
/// `0F` with 128 bits
const HALF: Prefix = Prefix(1, 0, false);
/// `F3 0F`
const SINGLE: Prefix = Prefix(1, 2, false);
/// `66 0F 3A` with 128 bits
const HALF_3A: Prefix = Prefix(3, 1, false);

/// The opcode of `vbroadcastss`.
const BROADCAST: u8 = 0x18;

#[derive(Default)]
pub(super) struct Encoder {
    pub bytes: Vec<u8>,
    /// The vectors have 512 bits, but for halves and words.
    pub is_512: bool,
}

impl Encoder {
    pub fn load(&mut self, to: Ymm, base: Gpr, offset: i32) {
        self.vector(PACKED, 0x10, to, 0, Place::Memory(base, offset));
    }

    pub fn store(&mut self, from: Ymm, base: Gpr, offset: i32) {
        self.vector(PACKED, 0x11, from, 0, Place::Memory(base, offset));
    }

    /// A non-temporal store, to a multiple of the vector's size.
    pub fn stream(&mut self, from: Ymm, base: Gpr, offset: i32) {
        self.vector(PACKED, 0x2B, from, 0, Place::Memory(base, offset));
    }

    /// The same of the lower half, to a multiple of its size.
    pub fn stream_half(&mut self, from: Ymm, base: Gpr, offset: i32) {
        self.vector(HALF, 0x2B, from, 0, Place::Memory(base, offset));
    }

    /// The first 32 bits get the word at an address, the others 0.
    pub fn load_word_of(&mut self, to: Ymm, base: Gpr, offset: i32) {
        self.vector(SINGLE, 0x10, to, 0, Place::Memory(base, offset));
    }

    /// A word of the lower half gets that at an address.
    pub fn insert(&mut self, to: Ymm, word: u8, base: Gpr, offset: i32) {
        self.vector(HALF_3A, 0x21, to, to.0, Place::Memory(base, offset));
        self.bytes.push(word << 4);
    }

    /// All lanes get the `f32` at an address.
    pub fn broadcast(&mut self, to: Ymm, base: Gpr, offset: i32) {
        self.vector(PACKED_38, BROADCAST, to, 0, Place::Memory(base, offset));
    }

    pub fn copy(&mut self, to: Ymm, from: Ymm) {
        self.vector(PACKED, 0x28, to, 0, Place::Register(from.0));
    }

    pub fn arithmetic(&mut self, operation: Arithmetic, to: Ymm, a: Ymm, b: Ymm) {
        let (prefix, opcode) = match operation {
            Arithmetic::Add => (PACKED, 0x58),
            Arithmetic::Sub => (PACKED, 0x5C),
            Arithmetic::Mul => (PACKED, 0x59),
            Arithmetic::MultiplyAdd => (PACKED_38, 0xB8),
        };
        self.vector(prefix, opcode, to, a.0, Place::Register(b.0));
    }

    /// Before code that uses vectors of 128 bits.
    pub fn clear_upper_halves(&mut self) {
        self.bytes.extend([0xC5, 0xF8, 0x77]);
    }

    /// Stores the floats of the lower half as the nearest halves.
    pub fn store_halves(&mut self, from: Ymm, base: Gpr) {
        self.vector(HALF_3A, 0x1D, from, 0, Place::Memory(base, 0));
        self.bytes.push(0);
    }

    /// Into all caches; an address that does not exist is not an error.
    pub fn prefetch(&mut self, base: Gpr, offset: i32) {
        self.rex(0, base.0);
        self.bytes.extend([0x0F, 0x18]);
        self.operands(1, Place::Memory(base, offset));
    }

    pub fn load_word(&mut self, to: Gpr, base: Gpr, offset: i32) {
        self.rex(to.0, base.0);
        self.bytes.push(0x8B);
        self.operands(to.0, Place::Memory(base, offset));
    }

    pub fn add(&mut self, to: Gpr, number: i32) {
        self.immediate(0, to, number);
    }

    pub fn subtract(&mut self, to: Gpr, number: i32) {
        self.immediate(5, to, number);
    }

    pub fn jump_forward(&mut self, condition: Condition) -> Forward {
        self.bytes.extend([0x0F, 0x80 | condition as u8]);
        self.bytes.extend([0; 4]);
        Forward(self.bytes.len())
    }

    /// The jump leads to what follows.
    pub fn land(&mut self, jump: Forward) {
        let distance = (self.bytes.len() - jump.0) as i32;
        self.bytes[jump.0 - 4..jump.0].copy_from_slice(&distance.to_le_bytes());
    }

    /// A jump back to a position in the code.
    pub fn jump_back(&mut self, condition: Condition, to: usize) {
        let distance = to as i64 - (self.bytes.len() as i64 + 6);
        self.bytes.extend([0x0F, 0x80 | condition as u8]);
        self.bytes.extend((distance as i32).to_le_bytes());
    }

    pub fn push(&mut self, register: Gpr) {
        self.bytes
            .extend([0x40 | register.0 >> 3, 0x50 | register.0 & 7]);
    }

    pub fn pop(&mut self, register: Gpr) {
        self.bytes
            .extend([0x40 | register.0 >> 3, 0x58 | register.0 & 7]);
    }

    pub fn return_(&mut self) {
        self.bytes.push(0xC3);
    }

    fn immediate(&mut self, operation: u8, to: Gpr, number: i32) {
        self.rex(0, to.0);
        let to = Place::Register(to.0);
        if let Ok(byte) = i8::try_from(number) {
            self.bytes.push(0x83);
            self.operands(operation, to);
            self.bytes.extend(byte.to_le_bytes());
        } else {
            self.bytes.push(0x81);
            self.operands(operation, to);
            self.bytes.extend(number.to_le_bytes());
        }
    }

    /// The prefix of an instruction on 64 bits.
    fn rex(&mut self, register: u8, base: u8) {
        self.bytes.push(0x48 | (register >> 3) << 2 | base >> 3);
    }

    /// An instruction with the VEX prefix of three bytes, or with the EVEX prefix.
    fn vector(&mut self, prefix: Prefix, opcode: u8, register: Ymm, second: u8, place: Place) {
        let Prefix(map, before, is_256) = prefix;
        let base = match place {
            Place::Register(number) | Place::Memory(Gpr(number), _) => number,
        };
        // The prefix has upper bits of registers inverted.
        let upper = |register: u8| (register >> 3) ^ 1;
        const NO_INDEX: u8 = 1 << 6;
        if self.is_512 && is_256 {
            // Fifth bits of registers, inverted too; 512 bits, without a mask.
            const FIFTH: u8 = 1 << 4;
            const NO_MASK_512: u8 = 2 << 5 | 1 << 3;
            self.bytes.extend([
                0x62,
                upper(register.0) << 7 | NO_INDEX | upper(base) << 5 | FIFTH | map,
                (second ^ 0xF) << 3 | 1 << 2 | before,
                NO_MASK_512,
                opcode,
            ]);
            // An offset of one byte counts what is accessed.
            let unit = match (map, opcode) {
                (2, BROADCAST) => 4,
                _ => 64,
            };
            return self.operands_in_units(register.0, place, unit);
        }
        self.bytes.extend([
            0xC4,
            upper(register.0) << 7 | NO_INDEX | upper(base) << 5 | map,
            (second ^ 0xF) << 3 | u8::from(is_256) << 2 | before,
            opcode,
        ]);
        self.operands(register.0, place);
    }

    /// The bytes behind the opcode that say the operands.
    fn operands(&mut self, register: u8, place: Place) {
        self.operands_in_units(register, place, 1);
    }

    /// The same where an offset of one byte counts so many bytes.
    fn operands_in_units(&mut self, register: u8, place: Place, unit: i32) {
        let register = (register & 7) << 3;
        match place {
            Place::Register(number) => self.bytes.push(0xC0 | register | number & 7),
            Place::Memory(base, offset) => {
                let base = base.0 & 7;
                debug_assert_ne!(base, 4, "a base without an index");
                match i8::try_from(offset / unit) {
                    Ok(units) if offset % unit == 0 => {
                        self.bytes.push(0x40 | register | base);
                        self.bytes.extend(units.to_le_bytes());
                    }
                    _ => {
                        self.bytes.push(0x80 | register | base);
                        self.bytes.extend(offset.to_le_bytes());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arithmetic::*;
    use super::*;

    /// The bytes are those of the GNU assembler, but for a prefix that it leaves out.
    #[test]
    fn instructions_on_512_bits() {
        const RBX: Gpr = Gpr(3);
        const RBP: Gpr = Gpr(5);
        const R13: Gpr = Gpr(13);
        type Emit<'a> = &'a dyn Fn(&mut Encoder);
        let encoded = |emit: Emit<'_>| {
            let mut encoder = Encoder {
                is_512: true,
                ..Encoder::default()
            };
            emit(&mut encoder);
            let bytes = encoder.bytes.iter().map(|byte| format!("{byte:02x}"));
            bytes.collect::<Vec<_>>().join(" ")
        };
        let instructions: [(Emit<'_>, &str); 17] = [
            // vmovups 0x80(%rbp),%zmm9
            (&|e| e.load(Ymm(9), RBP, 0x80), "62 71 7c 48 10 4d 02"),
            // vmovups 0x81(%r13),%zmm15
            (
                &|e| e.load(Ymm(15), R13, 0x81),
                "62 51 7c 48 10 bd 81 00 00 00",
            ),
            // vmovups %zmm3,-0x40(%rbx)
            (&|e| e.store(Ymm(3), RBX, -0x40), "62 f1 7c 48 11 5b ff"),
            // vmovups %zmm8,0x2000(%r8)
            (
                &|e| e.store(Ymm(8), Gpr(8), 0x2000),
                "62 51 7c 48 11 80 00 20 00 00",
            ),
            // vbroadcastss 0xc(%r11),%zmm8
            (
                &|e| e.broadcast(Ymm(8), Gpr(11), 0xC),
                "62 52 7d 48 18 43 03",
            ),
            // vbroadcastss 0x200(%rax),%zmm7
            (
                &|e| e.broadcast(Ymm(7), Gpr::RAX, 0x200),
                "62 f2 7d 48 18 b8 00 02 00 00",
            ),
            // vmovaps %zmm9,%zmm1
            (&|e| e.copy(Ymm(1), Ymm(9)), "62 d1 7c 48 28 c9"),
            // vaddps %zmm10,%zmm2,%zmm12
            (
                &|e| e.arithmetic(Add, Ymm(12), Ymm(2), Ymm(10)),
                "62 51 6c 48 58 e2",
            ),
            // vsubps %zmm1,%zmm9,%zmm0
            (
                &|e| e.arithmetic(Sub, Ymm(0), Ymm(9), Ymm(1)),
                "62 f1 34 48 5c c1",
            ),
            // vmulps %zmm8,%zmm15,%zmm3
            (
                &|e| e.arithmetic(Mul, Ymm(3), Ymm(15), Ymm(8)),
                "62 d1 04 48 59 d8",
            ),
            // vfmadd231ps %zmm9,%zmm8,%zmm7
            (
                &|e| e.arithmetic(MultiplyAdd, Ymm(7), Ymm(8), Ymm(9)),
                "62 d2 3d 48 b8 f9",
            ),
            // vcvtps2ph $0,%xmm9,0x0(%rbp)
            (&|e| e.store_halves(Ymm(9), RBP), "c4 63 79 1d 4d 00 00"),
            // push   %rbx
            (&|e| e.push(RBX), "40 53"),
            // push   %r13
            (&|e| e.push(R13), "41 55"),
            // pop    %r15
            (&|e| e.pop(Gpr(15)), "41 5f"),
            // add    $0x10,%r9
            (&|e| e.add(Gpr(9), 0x10), "49 83 c1 10"),
            // sub    $0x100,%rsi
            (&|e| e.subtract(Gpr::RSI, 0x100), "48 81 ee 00 01 00 00"),
        ];
        for (emit, bytes) in instructions {
            assert_eq!(encoded(emit), bytes);
        }
    }
}
