//! The code of a kernel or function: its instructions.

use std::fmt::{self, Write};
use std::marker::PhantomData;

use crate::pointer::{Element, Local, Pointer, Shared};
use crate::special::Special;
use crate::state::{Reg, State};
use crate::types::{Scalar, Type};
use crate::value::{Operand, Value, Var, mov};

/// Where instructions are added: the body of a kernel or function, from its start to its end.
///
/// The lifetime is that body alone, so that no value of it gets into another one.
#[derive(Clone, Copy)]
pub struct Code<'k> {
    pub(crate) state: &'k State,
    /// Invariant: two bodies have no lifetime in common.
    body: PhantomData<fn(&'k ()) -> &'k ()>,
}

impl fmt::Debug for Code<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.state.function)
    }
}

/// The threads that a [`fence`](Code::fence) is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of the block: `membar.cta`.
    Block,
    /// Of the device: `membar.gl`.
    Device,
    /// Of all devices, and the host: `membar.sys`.
    System,
}

impl<'k> Code<'k> {
    pub(crate) fn new(state: &'k State) -> Code<'k> {
        Code {
            state,
            body: PhantomData,
        }
    }

    /// Adds `mnemonic destination, operands;`
    pub(crate) fn instruction(
        self,
        mnemonic: &str,
        destination: Option<Reg>,
        operands: &[&dyn fmt::Display],
    ) {
        let mut line = mnemonic.to_owned();
        let mut comma = " ";
        let destination = destination.as_ref().map(|reg| reg as &dyn fmt::Display);
        for operand in destination.iter().chain(operands) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{comma}{operand}");
            comma = ", ";
        }
        line.push(';');
        self.state.line(line);
    }

    /// Adds an instruction with a result.
    pub(crate) fn result<T: Type>(
        self,
        mnemonic: &str,
        operands: &[&dyn fmt::Display],
    ) -> Value<'k, T> {
        let value = Value::fresh(self);
        self.instruction(mnemonic, Some(value.reg), operands);
        value
    }

    /// A constant, or what a variable is now, in a register.
    pub fn value<T: Type>(self, operand: impl Operand<'k, T>) -> Value<'k, T> {
        self.result(&format!("mov.{}", mov::<T>()), &[&operand.text()])
    }

    /// A variable with its first value.
    pub fn var<T: Type>(self, first: impl Operand<'k, T>) -> Var<'k, T> {
        let first = first.text();
        let var = Var::fresh(self);
        var.assign(&format!("mov.{}", mov::<T>()), &[&first]);
        var
    }

    /// A variable without a value: set it before it is read.
    pub fn uninitialized<T: Type>(self) -> Var<'k, T> {
        Var::fresh(self)
    }

    /// What a special register has: `k.special(special::TID_X)`.
    pub fn special<T: Scalar>(self, register: Special<T>) -> Value<'k, T> {
        self.result(&format!("mov.{}", T::NAME), &[&register.name()])
    }

    /// The number of this thread in the grid, along x: `%ctaid.x * %ntid.x + %tid.x`.
    pub fn global_index(self) -> Value<'k, u32> {
        use crate::special::{CTAID_X, NTID_X, TID_X};
        let block = self.special(CTAID_X);
        let threads = self.special(NTID_X);
        let thread = self.special(TID_X);
        let operands: [&dyn fmt::Display; 3] = [&block.reg, &threads.reg, &thread.reg];
        self.result("mad.lo.u32", &operands)
    }

    /// An array in shared memory, aligned to 16 bytes. Its elements are undefined at first.
    pub fn shared<T: Element>(self, name: &str, length: usize) -> Pointer<'k, T, Shared> {
        self.array(name, length)
    }

    /// An array of each thread's own, aligned to 16 bytes. Its elements are undefined at first.
    pub fn local<T: Element>(self, name: &str, length: usize) -> Pointer<'k, T, Local> {
        self.array(name, length)
    }

    fn array<T: Element, S: crate::Space>(self, name: &str, length: usize) -> Pointer<'k, T, S> {
        if length == 0 {
            let name = name.to_owned();
            self.state.fail(crate::Error::Empty { name });
        }
        let (space, ty) = (S::NAME, T::WORD);
        let declaration = format!(".{space} .align 16 .{ty} {name}[{length}];");
        self.state.declare(name, declaration);
        Pointer::symbol(self, name)
    }

    /// The shared memory whose size the launch sets, aligned to 16 bytes. All kernels of a module
    /// that give it one name share the declaration, and have to give it one type.
    pub fn dynamic_shared<T: Element>(self, name: &str) -> Pointer<'k, T, Shared> {
        let declaration = format!(".extern .shared .align 16 .{} {name}[];", T::WORD);
        self.state.declare_dynamic(name, declaration);
        Pointer::symbol(self, name)
    }

    /// All threads of the block wait here for each other: `bar.sync 0`.
    pub fn barrier(self) {
        self.state.line("bar.sync 0;");
    }

    /// The lanes of `mask` wait here for each other: `bar.warp.sync`.
    pub fn warp_barrier(self, mask: impl Operand<'k, u32>) {
        self.instruction("bar.warp.sync", None, &[&mask.text()]);
    }

    /// What this thread read and wrote before is ordered before what it reads and writes after,
    /// for the threads of `scope`: `membar`.
    pub fn fence(self, scope: Scope) {
        self.state.line(match scope {
            Scope::Block => "membar.cta;",
            Scope::Device => "membar.gl;",
            Scope::System => "membar.sys;",
        });
    }

    /// The lanes that execute this together: `activemask`.
    pub fn active_mask(self) -> Value<'k, u32> {
        self.result("activemask.b32", &[])
    }

    /// The launch fails: `trap`.
    pub fn trap(self) {
        self.state.line("trap;");
    }

    /// The thread ends: `exit`.
    pub fn exit(self) {
        self.state.line("exit;");
    }

    /// A comment in the text.
    pub fn comment(self, text: &str) {
        for line in text.lines() {
            let printable = line.chars().filter(|c| !c.is_control());
            let line: String = printable.collect();
            self.state.line(format_args!("// {}", line.trim()));
        }
    }
}
