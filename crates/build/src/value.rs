//! Values and variables of device code, and constants beside them.

use std::fmt;
use std::marker::PhantomData;

use crate::code::Code;
use crate::state::Reg;
use crate::types::sealed::Sealed;
use crate::types::{Float, Integer, Number, NumberKind, Scalar, Signed, Type, WideInteger, Word};

/// The result of an instruction: a register that is written once.
///
/// `'k` is the kernel or function that it belongs to; in another one it does not compile.
pub struct Value<'k, T: Type> {
    pub(crate) code: Code<'k>,
    pub(crate) reg: Reg,
    ty: PhantomData<T>,
}

/// A register that is written more than once, by [`set`](Var::set) and the like. As an operand
/// it is read by that instruction.
pub struct Var<'k, T: Type> {
    value: Value<'k, T>,
}

impl<T: Type> Clone for Value<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Type> Copy for Value<'_, T> {}

impl<T: Type> Clone for Var<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Type> Copy for Var<'_, T> {}

impl<T: Type> fmt::Debug for Value<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value(.{})", T::NAME)
    }
}

impl<T: Type> fmt::Debug for Var<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var(.{})", T::NAME)
    }
}

impl<'k, T: Type> Value<'k, T> {
    /// A register of its own, which the caller writes.
    pub(crate) fn fresh(code: Code<'k>) -> Value<'k, T> {
        Value::of(code, code.state.register(T::CLASS))
    }

    /// A register of the class of `T`.
    pub(crate) fn of(code: Code<'k>, reg: Reg) -> Value<'k, T> {
        Value {
            code,
            reg,
            ty: PhantomData,
        }
    }

    /// Its name in the text: `named("row")` is `%row`. Where two registers have one name, the
    /// later one gets a number.
    pub fn named(self, name: &str) -> Value<'k, T> {
        self.code.state.name_register(self.reg, name);
        self
    }
}

impl<'k, T: Type> Var<'k, T> {
    pub(crate) fn fresh(code: Code<'k>) -> Var<'k, T> {
        Var {
            value: Value::fresh(code),
        }
    }

    /// As [`Value::named`].
    pub fn named(self, name: &str) -> Var<'k, T> {
        self.value.named(name);
        self
    }

    /// Assigns: `mov`.
    pub fn set(self, to: impl Operand<'k, T>) {
        let (code, to) = (self.value.code, to.text());
        code.state
            .line(format_args!("mov.{} {}, {to};", mov::<T>(), self.value.reg));
    }

    /// What it is now: a copy that later assignments do not change.
    pub fn get(self) -> Value<'k, T> {
        self.value
            .code
            .result(&format!("mov.{}", mov::<T>()), &[&self.value.reg])
    }

    /// Writes the result of an instruction into it.
    pub(crate) fn assign(self, mnemonic: &str, operands: &[&dyn fmt::Display]) {
        let code = self.value.code;
        code.instruction(mnemonic, Some(self.value.reg), operands);
    }

    pub(crate) fn reg(self) -> Reg {
        self.value.reg
    }
}

/// The type of a `mov`: half precisions are moved as bits.
pub(crate) fn mov<T: Type>() -> &'static str {
    match T::NAME {
        "f16" | "bf16" | "f16x2" => T::BITS,
        name => name,
    }
}

/// What an instruction can read as a `T`: a [`Value`], a [`Var`], or a Rust constant, which is
/// written into the instruction.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of type `{T}`",
    note = "operands are values and variables of this type, and constants; `convert` has the \
            number in another type, `bits` the same bits"
)]
pub trait Operand<'k, T: Type>: Copy + Sealed {
    #[doc(hidden)]
    fn text(self) -> String;
}

impl<T: Type> Sealed for Value<'_, T> {}
impl<T: Type> Sealed for Var<'_, T> {}

impl<'k, T: Type> Operand<'k, T> for Value<'k, T> {
    fn text(self) -> String {
        self.reg.to_string()
    }
}

impl<'k, T: Type> Operand<'k, T> for Var<'k, T> {
    fn text(self) -> String {
        self.value.reg.to_string()
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(
            impl<'k> Operand<'k, $ty> for $ty {
                fn text(self) -> String {
                    self.to_string()
                }
            }
        )*
    };
}

integers!(i16, u16, i32, i64);

impl<'k> Operand<'k, u32> for u32 {
    /// Masks are read more easily in hexadecimal.
    fn text(self) -> String {
        match self {
            0..0x8000_0000 => self.to_string(),
            _ => format!("0x{self:X}"),
        }
    }
}

impl<'k> Operand<'k, u64> for u64 {
    fn text(self) -> String {
        match i64::try_from(self) {
            Ok(_) => self.to_string(),
            Err(_) => format!("0x{self:X}"),
        }
    }
}

impl<'k> Operand<'k, f32> for f32 {
    fn text(self) -> String {
        format!("0f{:08X}", self.to_bits())
    }
}

impl<'k> Operand<'k, f64> for f64 {
    fn text(self) -> String {
        format!("0d{:016X}", self.to_bits())
    }
}

/// What [`Value`] and [`Var`] have in common: the operations.
///
/// A method reads its operands at once, so that a [`Var`] may change afterwards.
pub trait Register<'k, T: Type>: Operand<'k, T> {
    #[doc(hidden)]
    fn code(self) -> Code<'k>;

    /// `min`. Of floats it is the number where the other is NaN, as in Rust.
    fn min(self, other: impl Operand<'k, T>) -> Value<'k, T>
    where
        T: Number,
    {
        self.with(&format!("min.{}", T::NAME), other)
    }

    /// `max`. Of floats it is the number where the other is NaN, as in Rust.
    fn max(self, other: impl Operand<'k, T>) -> Value<'k, T>
    where
        T: Number,
    {
        self.with(&format!("max.{}", T::NAME), other)
    }

    /// `self * by + plus`. Of floats it is rounded once (`fma.rn`); integers wrap (`mad.lo`).
    fn mul_add(self, by: impl Operand<'k, T>, plus: impl Operand<'k, T>) -> Value<'k, T>
    where
        T: Number,
    {
        let (a, b, c) = (self.text(), by.text(), plus.text());
        self.code().result(&multiply_add::<T>(), &[&a, &b, &c])
    }

    /// The upper half of the product: `mul.hi`.
    fn mul_high(self, by: impl Operand<'k, T>) -> Value<'k, T>
    where
        T: Integer,
    {
        self.with(&format!("mul.hi.{}", T::NAME), by)
    }

    /// `abs`. That of the smallest integer is the integer itself.
    fn abs(self) -> Value<'k, T>
    where
        T: Signed,
    {
        self.alone(&format!("abs.{}", T::NAME))
    }

    /// The square root, rounded to nearest: `sqrt.rn`.
    fn sqrt(self) -> Value<'k, T>
    where
        T: Float,
    {
        self.alone(&format!("sqrt.rn.{}", T::NAME))
    }

    /// The number of bits that are 1: `popc`.
    fn count_ones(self) -> Value<'k, u32>
    where
        T: WideInteger,
    {
        self.alone(&format!("popc.{}", T::BITS))
    }

    /// The number of bits above the highest 1: `clz`.
    fn leading_zeros(self) -> Value<'k, u32>
    where
        T: WideInteger,
    {
        self.alone(&format!("clz.{}", T::BITS))
    }

    /// The bits from last to first: `brev`.
    fn reverse_bits(self) -> Value<'k, T>
    where
        T: WideInteger,
    {
        self.alone(&format!("brev.{}", T::BITS))
    }

    /// The same number in another type, as Rust's `as` has it: integers are cut off or
    /// extended, floats are rounded to nearest, and to zero where an integer results.
    fn convert<U: Number>(self) -> Value<'k, U>
    where
        T: Number,
    {
        self.alone(&crate::operators::conversion::<T, U>())
    }

    /// The same bits in another type of this size: `mov`. Of another size it does not compile.
    fn bits<U: Scalar>(self) -> Value<'k, U>
    where
        T: Scalar,
    {
        const { assert!(T::BYTES == U::BYTES, "`bits` keeps the size") };
        self.alone(&format!("mov.{}", T::BITS))
    }

    /// `==`: `setp.eq`. NaN equals nothing.
    fn eq(self, other: impl Operand<'k, T>) -> Value<'k, bool>
    where
        T: Number,
    {
        self.compare("eq", other)
    }

    /// `!=`: `setp.ne`, and of floats `setp.neu`, which is true of NaN.
    fn ne(self, other: impl Operand<'k, T>) -> Value<'k, bool>
    where
        T: Number,
    {
        match T::KIND {
            NumberKind::Integer => self.compare("ne", other),
            NumberKind::Float => self.compare("neu", other),
        }
    }

    /// `<`: `setp.lt`.
    fn lt(self, other: impl Operand<'k, T>) -> Value<'k, bool>
    where
        T: Number,
    {
        self.compare("lt", other)
    }

    /// `<=`: `setp.le`.
    fn le(self, other: impl Operand<'k, T>) -> Value<'k, bool>
    where
        T: Number,
    {
        self.compare("le", other)
    }

    /// `>`: `setp.gt`.
    fn gt(self, other: impl Operand<'k, T>) -> Value<'k, bool>
    where
        T: Number,
    {
        self.compare("gt", other)
    }

    /// `>=`: `setp.ge`.
    fn ge(self, other: impl Operand<'k, T>) -> Value<'k, bool>
    where
        T: Number,
    {
        self.compare("ge", other)
    }

    /// The value of the lane so many above this one: `shfl.sync.down`. Lanes for which there is
    /// none keep their own. `mask` has the lanes that take part, this one included.
    fn shuffle_down(self, by: impl Operand<'k, u32>, mask: impl Operand<'k, u32>) -> Value<'k, T>
    where
        T: Word,
    {
        self.shuffle("down", by.text(), 31, mask.text())
    }

    /// The value of the lane so many below this one: `shfl.sync.up`.
    fn shuffle_up(self, by: impl Operand<'k, u32>, mask: impl Operand<'k, u32>) -> Value<'k, T>
    where
        T: Word,
    {
        self.shuffle("up", by.text(), 0, mask.text())
    }

    /// The value of the lane whose number differs in these bits: `shfl.sync.bfly`.
    fn shuffle_xor(self, bits: impl Operand<'k, u32>, mask: impl Operand<'k, u32>) -> Value<'k, T>
    where
        T: Word,
    {
        self.shuffle("bfly", bits.text(), 31, mask.text())
    }

    /// The value of that lane: `shfl.sync.idx`.
    fn shuffle_from(self, lane: impl Operand<'k, u32>, mask: impl Operand<'k, u32>) -> Value<'k, T>
    where
        T: Word,
    {
        self.shuffle("idx", lane.text(), 31, mask.text())
    }

    #[doc(hidden)]
    fn shuffle(self, mode: &str, by: String, clamp: u32, mask: String) -> Value<'k, T>
    where
        T: Word,
    {
        let value = self.text();
        let mnemonic = format!("shfl.sync.{mode}.b32");
        self.code().result(&mnemonic, &[&value, &by, &clamp, &mask])
    }

    #[doc(hidden)]
    fn alone<U: Type>(self, mnemonic: &str) -> Value<'k, U> {
        let value = self.text();
        self.code().result(mnemonic, &[&value])
    }

    #[doc(hidden)]
    fn with<U: Type>(self, mnemonic: &str, other: impl Operand<'k, T>) -> Value<'k, U> {
        let (a, b) = (self.text(), other.text());
        self.code().result(mnemonic, &[&a, &b])
    }

    #[doc(hidden)]
    fn compare(self, how: &str, other: impl Operand<'k, T>) -> Value<'k, bool> {
        self.with(&format!("setp.{how}.{}", T::NAME), other)
    }
}

/// `fma.rn.f32`, `mad.lo.s32`
pub(crate) fn multiply_add<T: Number>() -> String {
    match T::KIND {
        NumberKind::Integer => format!("mad.lo.{}", T::NAME),
        NumberKind::Float => format!("fma.rn.{}", T::NAME),
    }
}

impl<'k, T: Type> Register<'k, T> for Value<'k, T> {
    fn code(self) -> Code<'k> {
        self.code
    }
}

impl<'k, T: Type> Register<'k, T> for Var<'k, T> {
    fn code(self) -> Code<'k> {
        self.value.code
    }
}
