//! A module: its variables, functions and kernels, and the text of all of them.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use ptx::Ptx;
use ptx::isa::target::Target;

use crate::code::Code;
use crate::error::Error;
use crate::floors;
use crate::param::{Arguments, Parameter, Parameters, Returned};
use crate::pointer::{Const, Element, Global, Pointer, Space};
use crate::state::{Finished, State, is_name};
use crate::value::Operand;

/// A module that is made part by part; [`finish`](Module::finish) prints and checks it.
///
/// ```
/// use ptxkit_build::{Global, Module, Ptr, Register};
///
/// let mut module = Module::new("saxpy");
/// module.kernel("saxpy", |k| {
///     let x = k.param::<Ptr<f32, Global>>("x");
///     let y = k.param::<Ptr<f32, Global>>("y");
///     let (a, n) = (k.param::<f32>("a"), k.param::<u32>("n"));
///     let i = k.global_index().named("i");
///     k.if_(i.lt(n), || {
///         let y = y.at(i);
///         y.store(a.mul_add(x.at(i).load(), y.load()));
///     });
/// });
/// let ptx = module.finish()?;
/// assert!(ptx.text().starts_with(".version 4.0\n.target sm_50\n"));
/// assert!(ptx.text().contains("\tfma.rn.f32 %f3, %a, %f1, %f2;\n"));
/// # Ok::<(), ptxkit_build::Error>(())
/// ```
#[derive(Debug)]
pub struct Module {
    name: String,
    pub(crate) id: u64,
    /// What follows the head.
    pub(crate) text: String,
    target: Option<Target>,
    names: HashSet<String>,
    /// The declarations of dynamic shared memory.
    dynamic: HashSet<String>,
    /// Parameters and arrays of functions: a name of the module would hide behind them.
    inner: HashSet<String>,
    /// Text that may not be as the printer writes it.
    free_form: bool,
    error: Option<Error>,
}

/// A variable of a [`Module`], which [`Code::variable`] gives the address of.
#[derive(Clone, Debug)]
pub struct Variable<T, S> {
    name: Rc<str>,
    module: u64,
    ty: PhantomData<(T, S)>,
}

/// A function of a [`Module`] with the parameters `P` and the result `R`, for [`Code::call`].
#[derive(Clone, Debug)]
pub struct Function<P, R> {
    name: Rc<str>,
    module: u64,
    signature: PhantomData<fn(P) -> R>,
}

/// The body of a kernel: [`Code`] with parameters.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'k> {
    code: Code<'k>,
}

impl<'k> Deref for Kernel<'k> {
    type Target = Code<'k>;

    fn deref(&self) -> &Code<'k> {
        &self.code
    }
}

/// What a variable begins with: Rust's numbers.
pub trait Initial: Element {
    #[doc(hidden)]
    fn initial(self) -> String;
}

macro_rules! initial {
    ($($ty:ty: $operand:ty),*) => {
        $(impl Initial for $ty {
            fn initial(self) -> String {
                <$operand as Operand<'_, $operand>>::text(self.into())
            }
        })*
    };
}

initial!(
    i8: i32, u8: u32, i16: i16, u16: u16, i32: i32, u32: u32, i64: i64, u64: u64, f32: f32,
    f64: f64
);

impl Module {
    /// An empty module. `name` stands for it in messages.
    pub fn new(name: &str) -> Module {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Module {
            name: name.to_owned(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            text: String::new(),
            target: None,
            names: HashSet::new(),
            dynamic: HashSet::new(),
            inner: HashSet::new(),
            free_form: false,
            error: None,
        }
    }

    /// Sets the `.target`, in place of the lowest one that has all that is used. The `.version`
    /// is the lowest one in both cases.
    pub fn target(&mut self, target: Target) -> &mut Module {
        self.target = Some(target);
        self
    }

    /// A variable in global memory, with the elements that it begins with.
    pub fn global<T: Initial>(&mut self, name: &str, elements: &[T]) -> Variable<T, Global> {
        self.variable(".visible .global", name, elements)
    }

    /// A variable in global memory, with so many elements that are zero.
    pub fn global_zeroed<T: Element>(&mut self, name: &str, length: usize) -> Variable<T, Global> {
        self.declare(".visible .global", name, length, "")
    }

    /// Constants, which the host may set before a launch.
    pub fn constant<T: Initial>(&mut self, name: &str, elements: &[T]) -> Variable<T, Const> {
        self.variable(".visible .const", name, elements)
    }

    fn variable<T: Initial, S: Space>(
        &mut self,
        words: &str,
        name: &str,
        elements: &[T],
    ) -> Variable<T, S> {
        let texts: Vec<_> = elements.iter().map(|element| element.initial()).collect();
        // The printer splits long lists into lines.
        self.free_form = true;
        let initial = format!(" = {{{}}}", texts.join(", "));
        self.declare(words, name, elements.len(), &initial)
    }

    fn declare<T: Element, S: Space>(
        &mut self,
        words: &str,
        name: &str,
        length: usize,
        initial: &str,
    ) -> Variable<T, S> {
        if length == 0 {
            let name = name.to_owned();
            self.fail(Error::Empty { name });
        }
        self.take_name(name);
        let ty = T::WORD;
        let _ = writeln!(
            self.text,
            "{words} .align 16 .{ty} {name}[{length}]{initial};"
        );
        Variable {
            name: name.into(),
            module: self.id,
            ty: PhantomData,
        }
    }

    /// A kernel. `body` adds its parameters and its code.
    pub fn kernel(&mut self, name: &str, body: impl for<'k> FnOnce(Kernel<'k>)) {
        self.take_name(name);
        let state = State::new(name, self.id);
        body(Kernel {
            code: Code::new(&state),
        });
        let finished = state.end();
        self.add(&format!(".visible .entry {name}"), finished);
    }

    /// A function that kernels and later functions [`call`](Code::call). `body` has its
    /// parameters, and ends with its result.
    ///
    /// ```
    /// use ptxkit_build::{Global, Module, Ptr, Register};
    ///
    /// let mut module = Module::new("cubes");
    /// let cube = module.function::<(f32,), f32>("cube", ["x"], |_, (x,)| x * x * x);
    /// module.kernel("cubes", |k| {
    ///     let x = k.param::<Ptr<f32, Global>>("x").at(k.global_index());
    ///     x.store(k.call(&cube, (x.load(),)));
    /// });
    /// assert!(module.finish()?.text().contains("\t\tcall ($returned), cube, ($arg_0);\n"));
    /// # Ok::<(), ptxkit_build::Error>(())
    /// ```
    pub fn function<P: Parameters, R: Returned>(
        &mut self,
        name: &str,
        names: P::Names,
        body: impl for<'k> FnOnce(Code<'k>, P::Values<'k>) -> R::Value<'k>,
    ) -> Function<P, R> {
        self.take_name(name);
        let state = State::new(name, self.id);
        for (name, word) in names.as_ref().iter().zip(P::words()) {
            state.param(name, format!(".param .{word} {name}"));
        }
        let code = Code::new(&state);
        let result = body(code, P::values(code, names));
        R::store(code, result, "$result");
        let finished = state.end();
        let returned = R::word().map(|word| format!("(.param .{word} $result) "));
        let head = format!(".func {}{name}", returned.unwrap_or_default());
        self.add(&head, finished);
        Function {
            name: name.into(),
            module: self.id,
            signature: PhantomData,
        }
    }

    /// The text of the module, which is as `ptxkit fmt` prints it and has no errors.
    ///
    /// `.target` is the lowest from sm_50 on that has all that is used, if none was set, and
    /// `.version` the lowest one for it.
    ///
    /// # Errors
    ///
    /// What types cannot express: names, templates, values that are used after their block, and
    /// what no target has at once.
    pub fn finish(mut self) -> Result<Ptx, Error> {
        self.is_right()?;
        floors::finished(&self.name, &self.text, self.target, self.free_form)
    }

    /// The first error.
    pub(crate) fn is_right(&mut self) -> Result<(), Error> {
        let hidden = self.inner.intersection(&self.names).min().cloned();
        if let Some(name) = hidden {
            self.fail(Error::Taken { name });
        }
        self.error.take().map_or(Ok(()), Err)
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Keeps a name from being declared.
    pub(crate) fn reserve(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    fn take_name(&mut self, name: &str) {
        let name = name.to_owned();
        if !is_name(&name) {
            self.fail(Error::Name { name });
        } else if !self.names.insert(name.clone()) {
            self.fail(Error::Taken { name });
        }
    }

    /// Takes what a body adds outside of it.
    pub(crate) fn take(&mut self, finished: &mut Finished) {
        for (name, declaration) in finished.dynamic.drain(..) {
            if self.dynamic.insert(declaration.clone()) {
                self.take_name(&name);
                self.text.push_str(&declaration);
                self.text.push('\n');
            }
        }
        if let Some(error) = finished.error.take() {
            self.fail(error);
        }
        self.inner.extend(finished.symbols.drain());
        self.free_form |= finished.free_form;
    }

    fn add(&mut self, head: &str, mut finished: Finished) {
        self.take(&mut finished);
        let text = &mut self.text;
        // Writing to a String cannot fail.
        let _ = match finished.params.as_slice() {
            [] => writeln!(text, "\n{head}()"),
            params => writeln!(text, "\n{head}(\n\t{}\n)", params.join(",\n\t")),
        };
        for directive in &finished.directives {
            let _ = writeln!(text, "{directive}");
        }
        let (declarations, body) = (finished.declarations, finished.text);
        let _ = writeln!(text, "{{\n{declarations}{body}}}");
    }
}

impl<'k> Kernel<'k> {
    /// The next parameter. Its value is read here, and has the name of the parameter.
    pub fn param<P: Parameter>(self, name: &str) -> P::Value<'k> {
        let declaration = format!("{} {name}", P::kernel_declaration());
        self.state.param(name, declaration);
        P::of_kernel(self.code, name)
    }

    /// The most threads that a block has: `.maxntid`.
    pub fn max_threads(self, x: u32, y: u32, z: u32) {
        self.state.directive(format!(".maxntid {x}, {y}, {z}"));
    }

    /// The threads that each block has: `.reqntid`.
    pub fn required_threads(self, x: u32, y: u32, z: u32) {
        self.state.directive(format!(".reqntid {x}, {y}, {z}"));
    }

    /// The blocks that a multiprocessor should hold at least, beside
    /// [`max_threads`](Kernel::max_threads): `.minnctapersm`.
    pub fn min_blocks(self, blocks: u32) {
        self.state.directive(format!(".minnctapersm {blocks}"));
    }

    /// The kernel ends for this thread: `ret`.
    pub fn ret(self) {
        self.state.line("ret;");
    }
}

impl<'k> Code<'k> {
    /// The address of a variable of the module.
    pub fn variable<T: Element, S: Space>(self, variable: &Variable<T, S>) -> Pointer<'k, T, S> {
        self.own(variable.module, &variable.name);
        Pointer::symbol(self, &variable.name)
    }

    /// Calls a function. Pointers are passed by reference: `k.call(&f, (&x, 2.0))`.
    pub fn call<P: Parameters, R: Returned>(
        self,
        function: &Function<P, R>,
        arguments: impl Arguments<'k, P>,
    ) -> R::Value<'k> {
        self.own(function.module, &function.name);
        let arguments = arguments.arguments();
        // Names of users do not begin with `$`.
        self.state.braces(|| {
            let line = |text: fmt::Arguments<'_>| self.state.line(text);
            let words = P::words();
            for (index, word) in words.iter().enumerate() {
                line(format_args!(".param .{word} $arg_{index};"));
            }
            if let Some(word) = R::word() {
                line(format_args!(".param .{word} $returned;"));
            }
            for (index, (word, argument)) in words.iter().zip(&arguments).enumerate() {
                line(format_args!("st.param.{word} [$arg_{index}], {argument};"));
            }
            let names = (0..words.len()).map(|index| format!("$arg_{index}"));
            let names = names.collect::<Vec<_>>().join(", ");
            let name = &function.name;
            match (R::word(), names.as_str()) {
                (None, "") => line(format_args!("call {name};")),
                (None, names) => line(format_args!("call {name}, ({names});")),
                (Some(_), "") => line(format_args!("call ($returned), {name};")),
                (Some(_), names) => line(format_args!("call ($returned), {name}, ({names});")),
            }
            R::load(self, "$returned")
        })
    }

    /// Notes an error for what belongs to another module.
    fn own(self, module: u64, name: &str) {
        if module != self.state.module {
            let name = name.to_owned();
            self.state.fail(Error::Foreign { name });
        }
    }
}
