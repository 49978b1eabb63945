//! The machine IR: x86-64 instructions on virtual registers, in SSA form. Those on vectors are of AVX-512,
//! and after legalization of AVX2.

use regalloc2::{Operand, RegClass, VReg};
use smallvec::SmallVec;

/// A virtual register: general purpose ([`RegClass::Int`]), vector of 512 bits,
/// or of 256 after legalization ([`RegClass::Float`]), or mask ([`RegClass::Vector`]).
pub(super) type Value = VReg;

pub(super) const INT: RegClass = RegClass::Int;
pub(super) const ZMM: RegClass = RegClass::Float;
pub(super) const MASK: RegClass = RegClass::Vector;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Label(pub u32);

/// The opcode of an instruction with the EVEX prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Evex {
    /// 1: `0F`, 2: `0F38`, 3: `0F3A`, 5 and 6: those of half precision.
    pub map: u8,
    /// 0: none, 1: `66`, 2: `F3`, 3: `F2`
    pub prefix: u8,
    pub wide: bool,
    pub opcode: u8,
    /// Bits of a vector: 0: 128, 1: 256, 2: 512.
    pub length: u8,
    /// Whether a write mask selects elements of the width of `wide`.
    pub maskable: bool,
}

impl Evex {
    /// The same instruction on vectors of 128 bits.
    pub const fn of_128_bits(self) -> Evex {
        Evex { length: 0, ..self }
    }

    /// The same instruction on vectors of 256 bits, or fewer if it is on fewer.
    pub const fn of_256_bits(self) -> Evex {
        match self.length {
            2 => Evex { length: 1, ..self },
            _ => self,
        }
    }

    /// Whether the W bit is set if the instruction has the VEX prefix.
    pub fn is_wide_vex(self) -> bool {
        let counts = match self.map {
            1 => matches!(self.opcode, 0x6E | 0x7E),
            2 => matches!(self.opcode, 0x45 | 0x47 | 0x8C | 0x8E | 0x90..=0xBF),
            _ => matches!(self.opcode, 0x00),
        };
        counts && self.wide
    }
}

/// How the operands of an EVEX instruction are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Result, first operand, second operand (or memory).
    Binary,
    /// Result, first and second operand, and a third one that the result replaces.
    Ternary,
    /// Result, operand.
    Unary,
    /// The operand is in the reg field, and the result in the r/m field: extractions.
    Reversed,
    /// A shift by an immediate. The number is the opcode extension.
    Shift(u8),
}

/// What happens to lanes whose mask bit is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Masking {
    None,
    /// They become 0.
    Zero,
    /// They keep the value of an operand that the result replaces.
    Merge,
    /// The instruction takes them from its other operand.
    Select,
}

/// A constant in the constant pool: broadcast to all lanes, or a whole vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    Word(u32),
    Long(u64),
    /// A whole vector: an index into [`Code::vectors`].
    Vector(u32),
}

/// Condition codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Condition {
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
    Less = 12,
    GreaterOrEqual = 13,
    LessOrEqual = 14,
    Greater = 15,
}

impl Condition {
    pub fn negated(self) -> Condition {
        use Condition::*;
        match self {
            Below => AboveOrEqual,
            AboveOrEqual => Below,
            Equal => NotEqual,
            NotEqual => Equal,
            BelowOrEqual => Above,
            Above => BelowOrEqual,
            Less => GreaterOrEqual,
            GreaterOrEqual => Less,
            LessOrEqual => Greater,
            Greater => LessOrEqual,
        }
    }
}

/// Two-operand integer operations, by their opcode extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Integer shifts by an immediate, by their opcode extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shift {
    Rotate = 1,
    Left = 4,
    Right = 5,
    Arithmetic = 7,
}

/// An integer in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    pub bytes: u8,
    /// A load sign-extends.
    pub signed: bool,
    /// A load extends to 64 bits.
    pub wide: bool,
}

/// An operation. The comments list its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// Result, operands, the register with the old lanes (for merging), the mask. A constant
    /// replaces the last operand.
    Vector {
        code: Evex,
        form: Form,
        immediate: Option<u8>,
        constant: Option<Constant>,
        masking: Masking,
        /// 0: nearest, 1: down, 2: up, 3: to zero. 4: none is encoded.
        rounding: u8,
    },
    /// Result, base, the old lanes, the mask.
    Load {
        code: Evex,
        offset: i32,
        /// The scale of an 8-bit displacement.
        unit: u8,
        masking: Masking,
        /// Memory has one element, for all lanes.
        broadcast: bool,
        /// A second operand in a register, in front of the base.
        binary: bool,
        immediate: Option<u8>,
    },
    /// Operand, base, the mask.
    Store {
        code: Evex,
        offset: i32,
        unit: u8,
        masked: bool,
    },
    /// Result, mask afterwards, base, indices, the old lanes, the mask.
    Gather {
        code: Evex,
        scale: u8,
    },
    /// Mask afterwards, operand, base, indices, the mask.
    Scatter {
        code: Evex,
        scale: u8,
    },
    /// The bits of a mask: operand, base. With AVX2, a vector of them.
    StoreMask {
        offset: i32,
    },
    /// Result, base.
    LoadMask {
        offset: i32,
    },
    /// A vector constant.
    Constant(Constant),
    /// Zero in all lanes.
    ZeroVector,
    /// Result, operands, for masks of 16 bits; `kand`, `kandn`, `kor`, `kxnor`, `kxor`, `knot`.
    MaskBinary(u8),
    MaskNot,
    MaskShift {
        right: bool,
        by: u8,
    },
    /// `kortestw`: sets the flags. With AVX2, `vptest` of vectors.
    MaskTest,
    /// A mask of ones or zeros.
    MaskConstant(bool),
    /// The function's arguments: the context, the first thread and the end of the range.
    Arguments,
    /// From a mask to a general-purpose register. With AVX2, the signs of a vector.
    MaskToInt,
    /// From a general-purpose register with zeros or ones.
    IntToMask,
    /// AVX2 has no scatters: base, mask in a general-purpose register, two registers for its own use.
    /// Stores the lanes in the area whose bits are set to the indices behind the lanes.
    ScatterArea {
        bytes: u8,
        index: Memory,
        scale: u8,
        area: i32,
    },
    /// AVX2 has no masks for bytes and halves: result, base, mask in a general-purpose register, two
    /// registers for its own use. Loads 16 of them.
    LoadNarrow {
        bytes: u8,
        offset: i32,
        area: i32,
    },
    /// The same with the operand in place of the result.
    StoreNarrow {
        bytes: u8,
        offset: i32,
        area: i32,
    },
    Immediate(u64),
    /// Result, operand (its register is reused), operand. A comparison has no result.
    Alu {
        op: Alu,
        wide: bool,
    },
    AluImmediate {
        op: Alu,
        wide: bool,
        number: i32,
    },
    Test {
        wide: bool,
    },
    Multiply {
        wide: bool,
    },
    MultiplyImmediate {
        wide: bool,
        number: i32,
    },
    ShiftImmediate {
        shift: Shift,
        wide: bool,
        by: u8,
    },
    Negate {
        wide: bool,
    },
    Not {
        wide: bool,
    },
    /// Extends the lower bytes.
    Extend(Memory),
    /// Result, base plus an offset.
    Address {
        offset: i32,
    },
    /// Result, base, index.
    Indexed {
        scale: u8,
        offset: i32,
    },
    LoadInt {
        memory: Memory,
        offset: i32,
    },
    /// Operand, base.
    StoreInt {
        bytes: u8,
        offset: i32,
    },
    /// 1 or 0 by the flags.
    Set(Condition),
    /// Result, the value otherwise (its register is reused), the value if the condition holds.
    Select {
        condition: Condition,
        wide: bool,
    },
    /// The number of trailing zeros of a number that has a bit.
    TrailingZeros,
    /// Result `rax`, remainder `rdx`; dividend `rax`, divisor.
    Divide {
        signed: bool,
        wide: bool,
    },
    Fence,
    /// Base, index: loads memory into the cache.
    Prefetch {
        scale: u8,
        offset: i32,
    },
    /// If the mask (the first operand) is not empty, calls a runtime function out of line: see
    /// [`LaneCall`].
    Check {
        call: u32,
    },
    /// Always calls it, in line. Its results are in the lane area of the stack.
    CallLanes {
        call: u32,
    },
    /// Stores to and loads from the lane area, which runtime functions read and write.
    StoreLanes {
        at: i32,
    },
    LoadLanes {
        at: i32,
    },
    StoreMaskLanes {
        at: i32,
    },
    StoreIntLanes {
        at: i32,
    },
    Jump(Label),
    Branch {
        condition: Condition,
        then: Label,
        otherwise: Label,
    },
    /// Ends the function with the result in `rax`.
    Return,
}

/// A call of a runtime function, `unsafe extern "C" fn(context, lanes) -> u32`. All registers are
/// preserved. A result other than 0 ends the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneCall {
    /// Its index in the helper table.
    pub helper: u32,
    /// Written to the lane area before the call.
    pub request: [u64; 2],
}

/// The operands of a gather: its results, and the base, indices, old lanes and mask. It reads the base and
/// the indices until it has ended.
pub(super) fn gather_operands(
    [result, after]: [Value; 2],
    [base, indices, old, mask]: [Value; 4],
) -> [Operand; 6] {
    [
        Operand::reg_reuse_def(result, 4),
        Operand::reg_reuse_def(after, 5),
        Operand::reg_use_at_end(base),
        Operand::reg_use_at_end(indices),
        Operand::reg_use(old),
        Operand::reg_use(mask),
    ]
}

#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub op: Op,
    pub operands: SmallVec<[Operand; 6]>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub params: Vec<Value>,
    pub instructions: Vec<Instruction>,
    /// By successor: the values of its parameters.
    pub arguments: SmallVec<[Vec<Value>; 2]>,
    pub predecessors: Vec<Label>,
    /// It is rarely executed.
    pub is_cold: bool,
}

impl Block {
    pub fn successors(&self) -> SmallVec<[Label; 2]> {
        match self.instructions.last().map(|i| &i.op) {
            Some(&Op::Jump(to)) => SmallVec::from_slice(&[to]),
            Some(&Op::Branch {
                then, otherwise, ..
            }) => SmallVec::from_slice(&[then, otherwise]),
            _ => SmallVec::new(),
        }
    }
}

/// A function. Block 0 is its entry.
#[derive(Default)]
pub(super) struct Code {
    pub blocks: Vec<Block>,
    /// The order of the blocks.
    pub layout: Vec<Label>,
    pub values: u32,
    pub vectors: Vec<[u8; 64]>,
    pub calls: Vec<LaneCall>,
    /// The size of the lane area in bytes.
    pub lane_bytes: u32,
    /// The size of a group's packed registers.
    pub packed_bytes: u32,
    /// It is for processors without AVX-512.
    pub is_avx2: bool,
}
