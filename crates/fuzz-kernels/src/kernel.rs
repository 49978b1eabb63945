//! The representation of a generated kernel: a tree of statements, which the printer writes as PTX,
//! the reducer shrinks, and the reference interpreter executes.

/// The kinds of general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// `.b16`
    Half,
    /// `.b32`
    Word,
    /// `.b64`
    Double,
    /// `.pred`
    Predicate,
}

impl Class {
    /// The number of general registers of this class.
    pub const fn count(self) -> usize {
        match self {
            Class::Half => 4,
            Class::Word => 8,
            Class::Double => 5,
            Class::Predicate => 4,
        }
    }

    /// The prefix of their names.
    pub const fn prefix(self) -> &'static str {
        match self {
            Class::Half => "%h",
            Class::Word => "%r",
            Class::Double => "%d",
            Class::Predicate => "%p",
        }
    }

    /// All classes, in the order in which the results are stored.
    pub const ALL: [Class; 4] = [Class::Word, Class::Double, Class::Half, Class::Predicate];
}

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its class.
    pub class: Class,
    /// Its number within the class.
    pub number: usize,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A constant of 32 or 64 bits.
    Integer(u64),
    /// The bits of an `f32` constant.
    Float(u32),
    /// The bits of an `f64` constant.
    Double(u64),
}

/// A guard `@%p` or `@!%p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The number of the predicate.
    pub predicate: usize,
    /// Whether it is negated.
    pub negated: bool,
}

/// The float type of a result, whose NaNs are made canonical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `f16`
    F16,
    /// `bf16`
    Bf16,
    /// `f16x2`
    F16x2,
    /// `bf16x2`
    Bf16x2,
}

/// A short straight-line sequence, made of one row of the table of templates.
#[derive(Clone, Debug)]
pub struct Op {
    /// Instructions. `$0` is the first operand, `$m` the mask of the lanes that execute this
    /// together. A guard applies to the instructions that begin with `?`.
    pub text: Vec<String>,
    /// Operands; the destinations come first.
    pub operands: Vec<Operand>,
    /// The results that are floats: operand and type.
    pub floats: Vec<(usize, Float)>,
    /// The guard.
    pub guard: Option<Guard>,
}

/// A condition that has the same value in all threads of a block.
#[derive(Clone, Copy, Debug)]
pub enum Uniform {
    /// The kernel parameter with this number is at least this value.
    Parameter(usize, u32),
    /// The predicate is true in any thread of the block (`bar.red.or`).
    AnyOfBlock(usize),
}

/// The number of iterations of a loop.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// A constant.
    Constant(u32),
    /// The value of the kernel parameter with this number.
    Parameter(usize),
    /// The low two bits of a register, which differ between threads. `masked`: the loop
    /// computes the mask of the lanes that go on, so that they may execute warp operations.
    Register {
        /// The number of a 32-bit register.
        register: usize,
        /// Whether the loop computes a mask.
        masked: bool,
    },
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Straight-line code.
    Op(Op),
    /// A branch that all threads of a block take together.
    UniformIf(Uniform, Vec<Stmt>),
    /// A branch that may diverge. `masked`: both sides may execute warp operations.
    If {
        /// The condition of the first side.
        condition: Guard,
        /// Whether the masks of both sides are computed.
        masked: bool,
        /// The first side.
        then: Vec<Stmt>,
        /// The other side.
        otherwise: Vec<Stmt>,
    },
    /// A counted loop.
    Loop(Count, Vec<Stmt>),
    /// `brx.idx` by a register modulo the number of arms.
    Switch {
        /// The number of a 32-bit register.
        selector: usize,
        /// Whether the masks of the arms are computed.
        masked: bool,
        /// The arms.
        arms: Vec<Vec<Stmt>>,
    },
    /// An irreducible loop `A; B` of 1 to 4 iterations, entered at B where the guard holds.
    Irreducible {
        /// Whether the loop is entered at its second half.
        entry: Guard,
        /// The number of a 32-bit register, of which two bits are the number of iterations.
        count: usize,
        /// The first half.
        first: Vec<Stmt>,
        /// The second half.
        second: Vec<Stmt>,
    },
    /// A call of a device function with a structure of three values; it returns a structure of
    /// two.
    Call {
        /// The number of the function.
        function: usize,
        /// The numbers of the 32-bit, 16-bit and 64-bit registers that are passed.
        arguments: [usize; 3],
        /// The numbers of the 32-bit and 64-bit registers that take the results.
        results: [usize; 2],
        /// The number of the 32-bit register of which two bits are the depth of the recursion.
        depth: usize,
    },
    /// `@p ret`, in a device function.
    Return(Guard),
}

impl Stmt {
    /// The lists of statements inside.
    pub fn children(&self) -> Vec<&Vec<Stmt>> {
        match self {
            Stmt::Op(_) | Stmt::Call { .. } | Stmt::Return(_) => Vec::new(),
            Stmt::UniformIf(_, body) | Stmt::Loop(_, body) => vec![body],
            Stmt::If {
                then, otherwise, ..
            } => vec![then, otherwise],
            Stmt::Switch { arms, .. } => arms.iter().collect(),
            Stmt::Irreducible { first, second, .. } => vec![first, second],
        }
    }

    /// The same, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::Op(_) | Stmt::Call { .. } | Stmt::Return(_) => Vec::new(),
            Stmt::UniformIf(_, body) | Stmt::Loop(_, body) => vec![body],
            Stmt::If {
                then, otherwise, ..
            } => vec![then, otherwise],
            Stmt::Switch { arms, .. } => arms.iter_mut().collect(),
            Stmt::Irreducible { first, second, .. } => vec![first, second],
        }
    }
}

/// The first value of a general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// A constant.
    Constant(u64),
    /// The number of the thread within its block, times a factor, plus a summand.
    Thread(u32, u32),
    /// An element of the input, at this offset plus the number of the thread times 8.
    Input(u32),
}

/// A device function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Whether it calls itself at its end, to the depth that it is passed.
    pub recursive: bool,
    /// Whether it is passed the mask of the lanes that call it, and may execute warp operations.
    pub warp: bool,
}

/// A kernel with its launch.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The seed that it was generated from.
    pub seed: u64,
    /// Device functions; each calls only itself and those before it.
    pub functions: Vec<Function>,
    /// The statements of the kernel.
    pub body: Vec<Stmt>,
    /// First values, by class in the order of [`Class::ALL`]; of predicates, a bit.
    pub initial: Vec<(Register, Initial)>,
    /// Blocks of the grid.
    pub grid: u32,
    /// Threads of a block, in x and y.
    pub block: [u32; 2],
    /// Values of the kernel's uniform parameters.
    pub parameters: [u32; 4],
    /// Whether NaN results keep their bits.
    pub nan_bits: bool,
}

/// Bytes of the input buffer.
pub const INPUT_BYTES: usize = 4096;
/// Bytes of memory of each thread in the output buffer: memory that it uses while it runs,
/// followed by its registers.
pub const THREAD_BYTES: usize = 160;
/// The offset of the registers in them.
pub const RESULTS_AT: usize = 64;
/// Bytes of the values that all threads update by atomics.
pub const TOTALS_BYTES: usize = 128;
/// Bytes of shared memory of each thread.
pub const SHARED_BYTES: usize = 32;
/// Bytes of the array in local memory.
pub const LOCAL_BYTES: usize = 64;
/// Values of the array in constant memory.
pub const CONSTANTS: [u32; 16] = [
    0x0000_0001,
    0x8000_0000,
    0x7FFF_FFFF,
    0x3F80_0000,
    0xBF00_0000,
    0x0001_0002,
    0x0000_7C00,
    0xFFFF_FFFF,
    0x1234_5678,
    0x9ABC_DEF0,
    0x4049_0FDB,
    0x0080_0000,
    0x7F80_0000,
    0x0000_FF00,
    0x4330_0000,
    0x3FF0_0000,
];

impl Kernel {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block[0] * self.block[1]
    }

    /// Whether all warps are full.
    pub fn has_full_warps(&self) -> bool {
        self.threads().is_multiple_of(32)
    }
}
