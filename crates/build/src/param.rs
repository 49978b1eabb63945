//! Parameters of kernels and functions, and arguments of calls.

use std::marker::PhantomData;

use crate::code::Code;
use crate::pointer::{Element, Pointer, Space};
use crate::types::Scalar;
use crate::types::sealed::Sealed;
use crate::value::{Operand, Value};

/// The parameter type of an address: `Ptr<f32, Global>` is a [`Pointer`] in the body.
#[derive(Clone, Copy, Debug)]
pub struct Ptr<T, S>(PhantomData<(T, S)>);

impl<T, S> Sealed for Ptr<T, S> {}

/// What one parameter can be: a [`Scalar`], or a [`Ptr`].
pub trait Parameter: Sealed + 'static {
    /// What the body has of it.
    type Value<'k>;

    /// The declaration in a kernel, without the name.
    #[doc(hidden)]
    fn kernel_declaration() -> String;

    /// The type as a parameter of a function: `.u64`.
    #[doc(hidden)]
    fn word() -> &'static str;

    /// What a kernel is passed is read; an address is generic there.
    #[doc(hidden)]
    fn of_kernel<'k>(code: Code<'k>, name: &str) -> Self::Value<'k>;

    /// The same in a function.
    #[doc(hidden)]
    fn of_function<'k>(code: Code<'k>, name: &str) -> Self::Value<'k>;
}

fn load<'k, T: Scalar>(code: Code<'k>, word: &str, name: &str) -> Value<'k, T> {
    code.result(&format!("ld.param.{word}"), &[&format_args!("[{name}]")])
}

impl<T: Scalar> Parameter for T {
    type Value<'k> = Value<'k, T>;

    fn kernel_declaration() -> String {
        format!(".param .{}", T::MEMORY)
    }

    fn word() -> &'static str {
        T::MEMORY
    }

    fn of_kernel<'k>(code: Code<'k>, name: &str) -> Value<'k, T> {
        load(code, T::MEMORY, name).named(name)
    }

    fn of_function<'k>(code: Code<'k>, name: &str) -> Value<'k, T> {
        Self::of_kernel(code, name)
    }
}

impl<T: Element, S: Space> Parameter for Ptr<T, S> {
    type Value<'k> = Pointer<'k, T, S>;

    fn kernel_declaration() -> String {
        let (space, align) = (S::WORD, T::SIZE);
        let space = if space.is_empty() {
            String::new()
        } else {
            format!(" {space}")
        };
        format!(".param .u64 .ptr{space} .align {align}")
    }

    fn word() -> &'static str {
        "u64"
    }

    fn of_kernel<'k>(code: Code<'k>, name: &str) -> Pointer<'k, T, S> {
        let generic = load(code, "u64", name);
        let address = match S::WORD {
            "" => generic,
            space => code.result(&format!("cvta.to{space}.u64"), &[&generic.text()]),
        };
        Pointer::register(address.named(name))
    }

    fn of_function<'k>(code: Code<'k>, name: &str) -> Pointer<'k, T, S> {
        Pointer::register(load(code, "u64", name).named(name))
    }
}

/// The parameters of a function: a tuple of up to eight [`Parameter`]s.
pub trait Parameters: 'static {
    /// What the body has of them.
    type Values<'k>;
    /// Their names, in order: an array.
    type Names: Copy + AsRef<[&'static str]>;

    /// Their types.
    #[doc(hidden)]
    fn words() -> Vec<&'static str>;

    #[doc(hidden)]
    fn values<'k>(code: Code<'k>, names: Self::Names) -> Self::Values<'k>;
}

/// What a function gives back: a [`Scalar`], or `()`.
pub trait Returned: 'static {
    /// What the body ends with, and a call gives.
    type Value<'k>;

    /// The type; `None` for `()`.
    #[doc(hidden)]
    fn word() -> Option<&'static str>;

    #[doc(hidden)]
    fn store<'k>(code: Code<'k>, value: Self::Value<'k>, name: &str);

    #[doc(hidden)]
    fn load<'k>(code: Code<'k>, name: &str) -> Self::Value<'k>;
}

impl Returned for () {
    type Value<'k> = ();

    fn word() -> Option<&'static str> {
        None
    }

    fn store<'k>(_: Code<'k>, (): (), _: &str) {}

    fn load<'k>(_: Code<'k>, _: &str) {}
}

impl<T: Scalar> Returned for T {
    type Value<'k> = Value<'k, T>;

    fn word() -> Option<&'static str> {
        Some(T::MEMORY)
    }

    fn store<'k>(code: Code<'k>, value: Value<'k, T>, name: &str) {
        let mnemonic = format!("st.param.{}", T::MEMORY);
        let value = value.text();
        code.instruction(&mnemonic, None, &[&format_args!("[{name}]"), &value]);
    }

    fn load<'k>(code: Code<'k>, name: &str) -> Value<'k, T> {
        load(code, T::MEMORY, name)
    }
}

/// What can be passed for the parameter `P`: an [`Operand`] of its type, or a [`Pointer`].
pub trait Argument<'k, P: Parameter> {
    #[doc(hidden)]
    fn argument(self) -> String;
}

impl<'k, T: Scalar, O: Operand<'k, T>> Argument<'k, T> for O {
    fn argument(self) -> String {
        self.text()
    }
}

impl<'k, T: Element, S: Space> Argument<'k, Ptr<T, S>> for &Pointer<'k, T, S> {
    fn argument(self) -> String {
        self.address().text()
    }
}

/// The arguments for the parameters `P`: a tuple of [`Argument`]s.
pub trait Arguments<'k, P: Parameters> {
    #[doc(hidden)]
    fn arguments(self) -> Vec<String>;
}

macro_rules! tuples {
    ($(($($ty:ident $argument:ident $name:ident),*) $count:literal;)*) => {
        $(
            impl<$($ty: Parameter),*> Parameters for ($($ty,)*) {
                type Values<'k> = ($($ty::Value<'k>,)*);
                type Names = [&'static str; $count];

                fn words() -> Vec<&'static str> {
                    vec![$($ty::word()),*]
                }

                #[allow(unused_variables, clippy::unused_unit, reason = "a tuple may be empty")]
                fn values<'k>(code: Code<'k>, names: Self::Names) -> Self::Values<'k> {
                    let [$($name),*] = names;
                    ($($ty::of_function(code, $name),)*)
                }
            }

            impl<'k, $($ty: Parameter, $argument: Argument<'k, $ty>),*>
                Arguments<'k, ($($ty,)*)> for ($($argument,)*)
            {
                fn arguments(self) -> Vec<String> {
                    #[allow(non_snake_case, reason = "named as the types")]
                    let ($($argument,)*) = self;
                    vec![$($argument.argument()),*]
                }
            }
        )*
    };
}

tuples! {
    () 0;
    (A A1 a) 1;
    (A A1 a, B B1 b) 2;
    (A A1 a, B B1 b, C C1 c) 3;
    (A A1 a, B B1 b, C C1 c, D D1 d) 4;
    (A A1 a, B B1 b, C C1 c, D D1 d, E E1 e) 5;
    (A A1 a, B B1 b, C C1 c, D D1 d, E E1 e, F F1 f) 6;
    (A A1 a, B B1 b, C C1 c, D D1 d, E E1 e, F F1 f, G G1 g) 7;
    (A A1 a, B B1 b, C C1 c, D D1 d, E E1 e, F F1 f, G G1 g, H H1 h) 8;
}
