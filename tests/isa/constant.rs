//! Constants, the types that take them, and a case of a test around them.

/// Threads of a block: one warp.
pub const THREADS: u64 = 32;

/// A constant as it is written, and what it is.
#[derive(Clone, Copy)]
pub struct Constant {
    pub text: &'static str,
    pub value: Value,
}

#[derive(Clone, Copy)]
pub enum Value {
    Integer(u64),
    /// `0f3F800000`
    Single(u32),
    /// `0d3FF0000000000000`, `1.5`
    Double(f64),
}

const fn integer(text: &'static str, value: u64) -> Constant {
    let value = Value::Integer(value);
    Constant { text, value }
}

const fn single(text: &'static str, bits: u32) -> Constant {
    let value = Value::Single(bits);
    Constant { text, value }
}

const fn double(text: &'static str, value: f64) -> Constant {
    let value = Value::Double(value);
    Constant { text, value }
}

pub const CONSTANTS: &[Constant] = &[
    integer("0", 0),
    integer("1", 1),
    integer("-1", u64::MAX),
    integer("0x40549A78", 0x4054_9A78),
    integer("0x80000000", 1 << 31),
    integer("~0x80", !0x80),
    integer("0x18005", 0x1_8005),
    integer("0x100000000", 1 << 32),
    integer("0x3FF0000000000000", 0x3FF << 52),
    integer("WARP_SZ", 32),
    single("0f3F800000", 0x3F80_0000),
    single("0f80000000", 1 << 31),
    single("0f7F800001", 0x7F80_0001),
    double("1.5", 1.5),
    double("-0.1", -0.1),
    double("0d7FEFFFFFFFFFFFFF", f64::MAX),
    double("0d36A0000000000000", f64::from_bits(0x36A0 << 48)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Bits,
    Unsigned,
    Signed,
    Float,
}

#[derive(Clone, Copy)]
pub struct Type {
    pub class: Class,
    pub bits: u32,
}

impl Type {
    pub const fn new(class: Class, bits: u32) -> Type {
        Type { class, bits }
    }

    pub fn name(self) -> String {
        let letter = match self.class {
            Class::Bits => 'b',
            Class::Unsigned => 'u',
            Class::Signed => 's',
            Class::Float => 'f',
        };
        format!("{letter}{}", self.bits)
    }

    pub fn takes(self, constant: Constant) -> bool {
        match (self.class, constant.value) {
            (Class::Float, Value::Integer(_)) => false,
            (_, Value::Integer(_)) | (Class::Float, _) => true,
            (Class::Bits, Value::Single(_)) => self.bits == 32,
            (Class::Bits, Value::Double(_)) => self.bits == 64,
            _ => false,
        }
    }

    /// The bits of a constant in a place of this type.
    pub fn of(self, constant: Constant) -> u64 {
        let bits = match constant.value {
            Value::Integer(n) => n,
            Value::Single(bits) => bits.into(),
            Value::Double(value) if self.bits == 32 => (value as f32).to_bits().into(),
            Value::Double(value) => value.to_bits(),
        };
        self.cut(bits)
    }

    pub fn cut(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - self.bits))
    }

    /// As a number, if it is an integer.
    pub fn number(self, bits: u64) -> i128 {
        let unused = 64 - self.bits;
        match self.class {
            Class::Signed => i128::from((bits << unused) as i64 >> unused),
            _ => self.cut(bits).into(),
        }
    }

    /// The constants that it takes, each with the next one.
    pub fn pairs(self) -> Vec<(Constant, Constant)> {
        let taken: Vec<Constant> = CONSTANTS
            .iter()
            .copied()
            .filter(|&constant| self.takes(constant))
            .collect();
        let next = taken.iter().cycle().skip(1);
        taken.iter().copied().zip(next.copied()).collect()
    }

    pub fn registers(self) -> Vec<Register> {
        let mut declared = vec!["b"];
        if self.bits > 16 && matches!(self.class, Class::Bits | Class::Float) {
            declared.push("f");
        }
        let uses: &[&str] = match self.bits {
            16 => &[""],
            32 => &[
                "xor.b32 %k, %x, %x; xor.b32 %k, %k, %x;",
                "add.f32 %y, %x, %x; add.f32 %y, %y, %x;",
            ],
            _ => &[
                "xor.b64 %l, %x, %x; xor.b64 %l, %l, %x;",
                "add.f64 %z, %x, %x; add.f64 %z, %z, %x;",
            ],
        };
        let each = |letter: &'static str| {
            uses.iter().map(move |&uses| Register {
                declared: format!(".reg .{letter}{} %x;", self.bits),
                uses,
                bits: self.bits,
            })
        };
        declared.into_iter().flat_map(each).collect()
    }
}

/// The register `%x` that a case has its result in.
pub struct Register {
    pub declared: String,
    /// What else becomes of it.
    pub uses: &'static str,
    pub bits: u32,
}

impl Register {
    /// A case that leaves its result in the register.
    pub fn case(&self, statements: &str, expected: impl Fn(u64) -> u64) -> Case {
        let (declared, uses, bits) = (&self.declared, self.uses, self.bits);
        let text = format!("{declared} {statements} {uses} st.global.b{bits} [@], %x;");
        Case::new(text, expected)
    }
}

/// Statements, `[@]` for the slot of a thread, and the bits that thread's slot has
/// then.
pub struct Case {
    pub text: String,
    pub expected: Vec<u64>,
}

impl Case {
    pub fn new(text: String, expected: impl Fn(u64) -> u64) -> Case {
        let expected = (0..THREADS).map(expected).collect();
        Case { text, expected }
    }

    /// A case whose result is the predicate `%p`.
    pub fn of_predicate(statements: &str, expected: impl Fn(u64) -> bool) -> Case {
        let text = format!("{statements} selp.u32 %k, 1, 0, %p; st.global.u32 [@], %k;");
        Case::new(text, |thread| expected(thread).into())
    }
}

pub const BITS: [Type; 3] = [
    Type::new(Class::Bits, 16),
    Type::new(Class::Bits, 32),
    Type::new(Class::Bits, 64),
];
pub const UNSIGNED: [Type; 3] = [
    Type::new(Class::Unsigned, 16),
    Type::new(Class::Unsigned, 32),
    Type::new(Class::Unsigned, 64),
];
pub const SIGNED: [Type; 3] = [
    Type::new(Class::Signed, 16),
    Type::new(Class::Signed, 32),
    Type::new(Class::Signed, 64),
];
pub const FLOATS: [Type; 2] = [Type::new(Class::Float, 32), Type::new(Class::Float, 64)];

pub fn types() -> impl Iterator<Item = Type> {
    BITS.into_iter().chain(UNSIGNED).chain(SIGNED).chain(FLOATS)
}

/// What differs from thread to thread: `%t16`, `%t32` and `%t64`.
pub fn varying(thread: u64) -> u64 {
    thread.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

pub fn odd(thread: u64) -> bool {
    thread & 1 == 1
}

/// Integers as predicates.
pub fn truths() -> impl Iterator<Item = (&'static str, bool)> + Clone {
    CONSTANTS
        .iter()
        .filter_map(|constant| match constant.value {
            Value::Integer(n) => Some((constant.text, n != 0)),
            _ => None,
        })
}
