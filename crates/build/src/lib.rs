//! PTX made by programs: a builder whose values know their type and state space, and
//! [`edit`]s of modules that were read.
//!
//! A [`Module`] has variables, functions and kernels. Their code is made by Rust closures: a
//! [`Value`] is a register with its type, a [`Pointer`] an address with its type and state
//! space, and what does not fit does not compile.
//!
//! ```compile_fail,E0277
//! # use ptxkit_build::Module;
//! # Module::new("m").kernel("k", |k| {
//! let (a, b) = (k.param::<f32>("a"), k.param::<i32>("b"));
//! let sum = a + b; // `add` takes one type
//! # });
//! ```
//!
//! [`Module::finish`] prints the module, computes `.version` and `.target`, and checks it.
//!
//! # What operators mean
//!
//! `+`, `-`, `*` and `/` of floats are rounded to nearest after each operation (`add.rn.f32`),
//! as in Rust: compilers do not contract them to `fma`. For that there is
//! [`mul_add`](Register::mul_add). Integers wrap, which Rust's own do in release builds alone;
//! their division by zero has no defined result; shifts by too many bits give 0. There is no
//! `==`: [`eq`](Register::eq), [`lt`](Register::lt) and the like give predicates.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod atomic;
mod code;
mod control;
pub mod edit;
mod error;
mod floors;
mod module;
mod operators;
mod param;
mod pointer;
mod raw;
pub mod special;
mod state;
mod types;
mod value;

pub use atomic::AtomicAdd;
pub use code::{Code, Scope};
pub use error::Error;
pub use module::{Function, Initial, Kernel, Module, Variable};
pub use param::{Argument, Arguments, Parameter, Parameters, Ptr, Returned};
pub use pointer::{
    Atomic, Const, Generic, Global, Index, Local, Pointer, Shared, Space, Window, Writable,
};
pub use raw::{Outputs, Raw};
pub use special::Special;
pub use types::{
    Bf16, Bitwise, Divide, Element, F16, F16x2, Float, Integer, Number, Scalar, Signed, Type,
    Vector, WideInteger, Word,
};
pub use value::{Operand, Register, Value, Var};
