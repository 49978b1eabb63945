//! The bytes of instructions.

use super::super::machine::{Alu, Condition, Evex, Memory, Shift};
use super::super::opcodes as v;
use super::*;

const R12: Register = 12;
const R13: Register = 13;

fn vector(code: Evex, registers: (Register, Register), place: Place, options: Options) -> Vec<u8> {
    let mut a = Assembler::default();
    a.evex(code, registers.0, registers.1, place, options);
    a.bytes
}

/// The bytes are those of the GNU assembler.
#[test]
fn vectors() {
    let none = Options::default();
    let broadcast = Options {
        broadcast: true,
        unit: 4,
        ..none
    };
    let cases: [(Vec<u8>, &str); 10] = [
        // vpaddd %zmm3,%zmm20,%zmm9
        (
            vector(v::ADD, (9, 20), Place::Register(3), none),
            "62 71 5d 40 fe cb",
        ),
        // vpaddd (%rdi){1to16},%zmm2,%zmm1{%k3}
        (
            vector(
                v::ADD,
                (1, 2),
                Place::Memory(RDI, 0),
                Options {
                    mask: 3,
                    ..broadcast
                },
            ),
            "62 f1 6d 5b fe 0f",
        ),
        // vpcmpud $5,0x40(%r13){1to16},%zmm31,%k2{%k1}
        (
            vector(
                v::COMPARE_U,
                (2, 31),
                Place::Memory(R13, 0x40),
                Options {
                    mask: 1,
                    immediate: Some(5),
                    ..broadcast
                },
            ),
            "62 d3 05 51 1e 55 10 05",
        ),
        // vpgatherqd (%r10,%zmm29,1),%ymm7{%k4}
        (
            vector(
                v::GATHER_BY_LONGS,
                (7, 0),
                Place::Indexed(R10, 29, 0, 0),
                Options { mask: 4, ..none },
            ),
            "62 92 7d 44 91 3c 2a",
        ),
        // vpscatterdd %zmm12,(%rsi,%zmm21,1){%k1}
        (
            vector(
                v::SCATTER_BY_WORDS,
                (12, 0),
                Place::Indexed(RSI, 21, 0, 0),
                Options { mask: 1, ..none },
            ),
            "62 72 7d 41 a0 24 2e",
        ),
        // vpslld $3,%zmm17,%zmm4
        (
            vector(
                v::SHIFT_BY,
                (6, 4),
                Place::Register(17),
                Options {
                    immediate: Some(3),
                    ..none
                },
            ),
            "62 b1 5d 48 72 f1 03",
        ),
        // vmovdqu32 0x80(%rsp),%zmm5{%k6}{z}
        (
            vector(
                v::LOAD,
                (5, 0),
                Place::Memory(RSP, 0x80),
                Options {
                    mask: 6,
                    zeroes: true,
                    unit: 64,
                    ..none
                },
            ),
            "62 f1 7e ce 6f 6c 24 02",
        ),
        // vmovdqu64 %zmm30,-0x40(%r12)
        (
            vector(
                v::STORE64,
                (30, 0),
                Place::Memory(R12, -0x40),
                Options { unit: 64, ..none },
            ),
            "62 41 fe 48 7f 74 24 ff",
        ),
        // vaddps {rd-sae},%zmm1,%zmm2,%zmm3
        (
            vector(
                v::ADD_F32,
                (3, 2),
                Place::Register(1),
                Options {
                    rounding: Some(1),
                    ..none
                },
            ),
            "62 f1 6c 38 58 d9",
        ),
        // vextracti64x4 $1,%zmm22,%ymm23
        (
            vector(
                v::EXTRACT_HALF,
                (22, 0),
                Place::Register(23),
                Options {
                    immediate: Some(1),
                    ..none
                },
            ),
            "62 a3 fd 48 3b f7 01",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(text(&bytes), expected);
    }
}

/// An instruction and its bytes.
type Case = (Evex, (Register, Register), Place, Options, &'static str);

/// The same with the VEX prefix.
#[test]
fn vectors_of_256_bits() {
    let by = |number| Options {
        immediate: Some(number),
        ..Options::default()
    };
    let code = |map, prefix, wide, opcode| Evex {
        map,
        prefix,
        wide,
        opcode,
        length: 1,
        maskable: false,
    };
    let none = Options::default();
    let cases: [Case; 6] = [
        // vpaddd %ymm3,%ymm4,%ymm9
        (v::ADD, (9, 4), Place::Register(3), none, "c4 61 5d fe cb"),
        // vpmaskmovq 0x40(%r13),%ymm11,%ymm2
        (
            code(2, 1, true, 0x8C),
            (2, 11),
            Place::Memory(R13, 0x40),
            none,
            "c4 c2 a5 8c 55 40",
        ),
        // vpgatherdd %ymm5,(%r10,%ymm13,4),%ymm7
        (
            v::GATHER_BY_WORDS,
            (7, 5),
            Place::Indexed(R10, 13, 2, 0),
            none,
            "c4 82 55 90 3c aa",
        ),
        // vblendvps %ymm14,%ymm1,%ymm8,%ymm3
        (
            code(3, 1, false, 0x4A),
            (3, 8),
            Place::Register(1),
            by(14 << 4),
            "c4 e3 3d 4a d9 e0",
        ),
        // vpermq $0xd8,%ymm12,%ymm1
        (
            code(3, 1, true, 0x00),
            (1, 0),
            Place::Register(12),
            by(0xD8),
            "c4 c3 fd 00 cc d8",
        ),
        // vpslld $3,%ymm9,%ymm4
        (
            v::SHIFT_BY,
            (6, 4),
            Place::Register(9),
            by(3),
            "c4 c1 5d 72 f1 03",
        ),
    ];
    for (code, (register, second), place, options, expected) in cases {
        let mut a = Assembler {
            uses_vex: true,
            ..Assembler::default()
        };
        a.vector(code, register, second, place, options);
        assert_eq!(text(&a.bytes), expected);
    }
}

/// The thread's settings are stored first, so that they can be loaded again.
#[test]
fn rounding() {
    let mut a = Assembler::default();
    let kept = Place::Memory(RSP, 32);
    a.set_rounding(3, kept);
    a.load_rounding(kept);
    // vstmxcsr 0x20(%rsp); vldmxcsr 0(%rip); vldmxcsr 0x20(%rsp)
    assert_eq!(
        text(&a.bytes),
        "c4 e1 78 ae 5c 24 20 c4 e1 78 ae 15 00 00 00 00 c4 e1 78 ae 54 24 20"
    );
    let bytes = a.finish();
    assert_eq!(bytes[64..68], 0x7F80_u32.to_le_bytes());
}

#[test]
fn general_purpose_registers() {
    type Emit<'a> = &'a dyn Fn(&mut Assembler);
    let word = |bytes, signed| Memory {
        bytes,
        signed,
        wide: true,
    };
    let cases: [(Emit<'_>, &str); 10] = [
        // mov 0x338(%rdi),%rsi
        (
            &|a| a.load(word(8, false), RSI, Place::Memory(RDI, 0x338)),
            "48 8b b7 38 03 00 00",
        ),
        // movzbl (%r14),%r9d
        (
            &|a| a.load(word(1, false), R9, Place::Memory(14, 0)),
            "45 0f b6 0e",
        ),
        // movslq %r12d,%rdx
        (
            &|a| a.load(word(4, true), RDX, Place::Register(R12)),
            "49 63 d4",
        ),
        // lea 0x10(%r12,%r13,4),%r8
        (
            &|a| a.address(R8, Place::Indexed(R12, R13, 2, 0x10)),
            "4f 8d 44 ac 10",
        ),
        // cmovae %r15,%rcx
        (
            &|a| a.select(Condition::AboveOrEqual, true, RCX, 15),
            "49 0f 43 cf",
        ),
        // ror $2,%r11
        (
            &|a| a.shift_immediate(Shift::Rotate, true, R11, 2),
            "49 c1 cb 02",
        ),
        // add $0x80,%rbp
        (
            &|a| a.alu_immediate(Alu::Add, true, RBP, 0x80),
            "48 81 c5 80 00 00 00",
        ),
        // imul %r9,%r8
        (
            &|a| a.multiply(true, R8, Place::Register(R9)),
            "4d 0f af c1",
        ),
        // setb %sil; movzbl %sil,%esi
        (&|a| a.set(Condition::Below, RSI), "40 0f 92 c6 40 0f b6 f6"),
        // tzcnt %r9d,%eax
        (&|a| a.trailing_zeros(RAX, R9), "f3 41 0f bc c1"),
    ];
    for (emit, expected) in cases {
        let mut a = Assembler::default();
        emit(&mut a);
        assert_eq!(text(&a.bytes), expected);
    }
}

/// Jumps and constants have distances from the end of their instructions.
#[test]
fn distances() {
    let mut a = Assembler::default();
    let target = a.target();
    a.jump(target);
    let constant = a.constant(&7_u32.to_le_bytes());
    let options = Options {
        broadcast: true,
        immediate: Some(0),
        ..Options::default()
    };
    a.evex(v::COMPARE_U, 1, 0, constant, options);
    a.bind(target);
    a.plain_return();
    let bytes = a.finish();
    let distance = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(distance(1), 11);
    // The constant is at 64, behind an instruction that ends at 16 with its immediate.
    assert_eq!(distance(11), 48);
    assert_eq!(bytes[64..68], 7_u32.to_le_bytes());
}

fn text(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
