//! Addresses that know what they point to and in which state space, with their loads and
//! stores.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use crate::code::Code;
use crate::state::Reg;
pub use crate::types::Element;
use crate::types::sealed::Sealed;
use crate::types::{Scalar, Vector};
use crate::value::{Operand, Value, Var};

/// A state space, as a type: [`Global`], [`Shared`], [`Local`], [`Const`] and [`Generic`].
pub trait Space: Sealed + Copy + 'static {
    /// `global`; empty for [`Generic`].
    const NAME: &'static str;
    /// What stands in a mnemonic: `.global`, or nothing.
    #[doc(hidden)]
    const WORD: &'static str;
}

/// A space that kernels can write.
#[diagnostic::on_unimplemented(message = "kernels cannot write the space `{Self}`")]
pub trait Writable: Space {}

/// A space that several threads can write, so that there are atomic operations.
#[diagnostic::on_unimplemented(message = "there are no atomic operations in the space `{Self}`")]
pub trait Atomic: Writable {}

/// A space that has a part of the generic addresses.
pub trait Window: Space {}

macro_rules! spaces {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $word:literal;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Sealed for $name {}
            impl Space for $name {
                const NAME: &'static str = $text;
                const WORD: &'static str = $word;
            }
        )*
    };
}

spaces! {
    /// Memory of the device.
    Global "global" ".global";
    /// Memory of a block of threads.
    Shared "shared" ".shared";
    /// Memory of one thread.
    Local "local" ".local";
    /// Constants, which the host may set.
    Const "const" ".const";
    /// An address of any space, which the hardware tells apart.
    Generic "" "";
}

impl Writable for Global {}
impl Writable for Shared {}
impl Writable for Local {}
impl Writable for Generic {}
impl Atomic for Global {}
impl Atomic for Shared {}
impl Atomic for Generic {}
impl Window for Global {}
impl Window for Shared {}
impl Window for Local {}
impl Window for Const {}

/// The address of elements of type `T` in the space `S`. It is 64 bits wide.
///
/// Whether memory is there, and how much, is not known at build time: as in any device code.
pub struct Pointer<'k, T: Element, S: Space> {
    code: Code<'k>,
    base: Base,
    /// In bytes.
    offset: i64,
    to: PhantomData<(T, S)>,
}

#[derive(Clone)]
enum Base {
    Register(Reg),
    /// A variable, which addresses can name.
    Symbol(Rc<str>),
}

impl<T: Element, S: Space> Clone for Pointer<'_, T, S> {
    fn clone(&self) -> Self {
        Pointer {
            base: self.base.clone(),
            ..*self
        }
    }
}

impl<T: Element, S: Space> fmt::Debug for Pointer<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pointer({}.{})", S::WORD, T::WORD)
    }
}

/// A number of elements: a constant, or a value of 32 or 64 bits.
pub trait Index<'k>: Copy {
    #[doc(hidden)]
    fn index(self) -> Steps;
}

/// What [`Index`] is.
#[doc(hidden)]
pub enum Steps {
    Constant(i64),
    /// The type and the register of a number of 32 bits.
    Narrow(&'static str, String),
    /// The same for 64 bits.
    Wide(&'static str, String),
}

macro_rules! indices {
    ($($ty:ty, $how:ident;)*) => {
        $(
            impl<'k> Index<'k> for $ty {
                fn index(self) -> Steps {
                    Steps::Constant(self as i64)
                }
            }

            impl<'k> Index<'k> for Value<'k, $ty> {
                fn index(self) -> Steps {
                    Steps::$how(<$ty as crate::Type>::NAME, self.text())
                }
            }

            impl<'k> Index<'k> for Var<'k, $ty> {
                fn index(self) -> Steps {
                    Steps::$how(<$ty as crate::Type>::NAME, self.text())
                }
            }
        )*
    };
}

indices! {
    i32, Narrow;
    u32, Narrow;
    i64, Wide;
    u64, Wide;
}

impl Index<'_> for usize {
    fn index(self) -> Steps {
        Steps::Constant(self as i64)
    }
}

/// `[%x+16]`
struct Place<'p>(&'p Base, i64);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place(base, offset) = self;
        match (base, offset) {
            (Base::Register(reg), 0) => write!(f, "[{reg}]"),
            (Base::Register(reg), _) => write!(f, "[{reg}+{offset}]"),
            (Base::Symbol(name), 0) => write!(f, "[{name}]"),
            (Base::Symbol(name), _) => write!(f, "[{name}+{offset}]"),
        }
    }
}

impl<'k, T: Element, S: Space> Pointer<'k, T, S> {
    pub(crate) fn symbol(code: Code<'k>, name: &str) -> Pointer<'k, T, S> {
        Pointer {
            code,
            base: Base::Symbol(name.into()),
            offset: 0,
            to: PhantomData,
        }
    }

    pub(crate) fn register(value: Value<'k, u64>) -> Pointer<'k, T, S> {
        Pointer {
            code: value.code,
            base: Base::Register(value.reg),
            offset: 0,
            to: PhantomData,
        }
    }

    /// The address of the element that many elements on. A constant becomes an offset in the
    /// instruction that uses it.
    pub fn at(&self, index: impl Index<'k>) -> Pointer<'k, T, S> {
        let size = T::SIZE;
        let steps = match index.index() {
            Steps::Constant(count) => {
                return Pointer {
                    offset: self.offset.wrapping_add(count.wrapping_mul(size as i64)),
                    ..self.clone()
                };
            }
            steps => steps,
        };
        let base = self.base_register();
        let address = match steps {
            Steps::Narrow(ty, count) => {
                let mnemonic = format!("mad.wide.{ty}");
                self.code.result(&mnemonic, &[&count, &size, &base])
            }
            Steps::Wide(ty, count) => {
                let mnemonic = format!("mad.lo.{ty}");
                self.code.result(&mnemonic, &[&count, &size, &base])
            }
            Steps::Constant(_) => return self.clone(),
        };
        Pointer {
            offset: self.offset,
            ..Pointer::register(address)
        }
    }

    /// The register with the address, without the offset.
    fn base_register(&self) -> Reg {
        match &self.base {
            Base::Register(reg) => *reg,
            Base::Symbol(name) => self.code.result::<u64>("mov.u64", &[name]).reg,
        }
    }

    /// The address as a number.
    pub fn address(&self) -> Value<'k, u64> {
        let base = self.base_register();
        match self.offset {
            0 => Value::of(self.code, base),
            offset => self.code.result("add.u64", &[&base, &offset]),
        }
    }

    /// Its name in the text, where it is in a register.
    pub fn named(self, name: &str) -> Pointer<'k, T, S> {
        if let Base::Register(reg) = self.base {
            self.code.state.name_register(reg, name);
        }
        self
    }

    /// The same address, of elements of another type.
    pub fn cast<U: Element>(&self) -> Pointer<'k, U, S> {
        let Pointer {
            code, base, offset, ..
        } = self.clone();
        Pointer {
            code,
            base,
            offset,
            to: PhantomData,
        }
    }

    fn place(&self) -> Place<'_> {
        Place(&self.base, self.offset)
    }

    fn load_by(&self, mnemonic: &str) -> Value<'k, T::Value> {
        let mnemonic = format!("{mnemonic}.{}", T::WORD);
        self.code.result(&mnemonic, &[&self.place()])
    }

    /// The element: `ld`.
    pub fn load(&self) -> Value<'k, T::Value> {
        self.load_by(&format!("ld{}", S::WORD))
    }

    /// The element, read once for each time that this is executed: `ld.volatile`.
    pub fn load_volatile(&self) -> Value<'k, T::Value>
    where
        S: Writable,
    {
        self.load_by(&format!("ld.volatile{}", S::WORD))
    }

    /// `N` elements by one instruction, of which the first is here. The address is a multiple of
    /// their size.
    pub fn load_vector<const N: usize>(&self) -> [Value<'k, T::Value>; N]
    where
        T: Vector<N>,
    {
        self.load_vector_by(&format!("ld{}", S::WORD))
    }

    fn load_vector_by<const N: usize>(&self, mnemonic: &str) -> [Value<'k, T::Value>; N] {
        let values = std::array::from_fn(|_| Value::fresh(self.code));
        let list = list(values.map(|value: Value<'k, T::Value>| value.text()));
        let (place, word) = (self.place(), T::WORD);
        let line = format!("{mnemonic}.v{N}.{word} {list}, {place};");
        self.code.state.line(line);
        values
    }

    /// Writes the element: `st`.
    pub fn store(&self, value: impl Operand<'k, T::Value>)
    where
        S: Writable,
    {
        let mnemonic = format!("st{}.{}", S::WORD, T::WORD);
        let operands: [&dyn fmt::Display; 2] = [&self.place(), &value.text()];
        self.code.instruction(&mnemonic, None, &operands);
    }

    /// Writes the element, once for each time that this is executed: `st.volatile`.
    pub fn store_volatile(&self, value: impl Operand<'k, T::Value>)
    where
        S: Writable,
    {
        let mnemonic = format!("st.volatile{}.{}", S::WORD, T::WORD);
        let operands: [&dyn fmt::Display; 2] = [&self.place(), &value.text()];
        self.code.instruction(&mnemonic, None, &operands);
    }

    /// Writes `N` elements by one instruction, of which the first is here. The address is a
    /// multiple of their size.
    pub fn store_vector<const N: usize>(&self, values: [impl Operand<'k, T::Value>; N])
    where
        T: Vector<N>,
        S: Writable,
    {
        let list = list(values.map(Operand::text));
        let mnemonic = format!("st{}.v{N}.{}", S::WORD, T::WORD);
        let operands: [&dyn fmt::Display; 2] = [&self.place(), &list];
        self.code.instruction(&mnemonic, None, &operands);
    }

    /// The generic address: `cvta`.
    pub fn generic(&self) -> Pointer<'k, T, Generic>
    where
        S: Window,
    {
        let base = self.base_register();
        let mnemonic = format!("cvta{}.u64", S::WORD);
        Pointer {
            offset: self.offset,
            ..Pointer::register(self.code.result(&mnemonic, &[&base]))
        }
    }

    /// Adds an atomic operation with a result.
    pub(crate) fn atomic<U: Scalar>(
        &self,
        operation: &str,
        operands: &[&dyn fmt::Display],
    ) -> Value<'k, U> {
        let place = self.place();
        let place: &dyn fmt::Display = &place;
        let operands: Vec<_> = std::iter::once(place)
            .chain(operands.iter().copied())
            .collect();
        let mnemonic = format!("atom{}.{operation}", S::WORD);
        self.code.result(&mnemonic, &operands)
    }

    /// Adds an atomic operation without one.
    pub(crate) fn reduction(&self, operation: &str, operand: &str) {
        let mnemonic = format!("red{}.{operation}", S::WORD);
        let operands: [&dyn fmt::Display; 2] = [&self.place(), &operand];
        self.code.instruction(&mnemonic, None, &operands);
    }
}

impl<'k, T: Element> Pointer<'k, T, Global> {
    /// The element, through the cache for memory that nothing writes while the kernel runs:
    /// `ld.global.nc`.
    pub fn load_readonly(&self) -> Value<'k, T::Value> {
        self.load_by("ld.global.nc")
    }

    /// As [`load_vector`](Pointer::load_vector), by `ld.global.nc`.
    pub fn load_vector_readonly<const N: usize>(&self) -> [Value<'k, T::Value>; N]
    where
        T: Vector<N>,
    {
        self.load_vector_by("ld.global.nc")
    }
}

impl<'k, T: Element> Pointer<'k, T, Generic> {
    /// The address within a space: `cvta.to`. It has to be of that space.
    pub fn within<S: Window>(&self) -> Pointer<'k, T, S> {
        let base = self.base_register();
        let mnemonic = format!("cvta.to{}.u64", S::WORD);
        Pointer {
            offset: self.offset,
            ..Pointer::register(self.code.result(&mnemonic, &[&base]))
        }
    }
}

impl<'k> Value<'k, u64> {
    /// This number as an address.
    pub fn pointer<T: Element, S: Space>(self) -> Pointer<'k, T, S> {
        Pointer::register(self)
    }
}

/// `{%f1, %f2}`
fn list<const N: usize>(values: [String; N]) -> String {
    format!("{{{}}}", values.join(", "))
}
