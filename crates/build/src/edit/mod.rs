//! Edits of modules that were read: code before and after instructions, other instructions in
//! place of some, new names, variables and parameters.
//!
//! The text stays as it is where nothing is inserted, with its comments; [`Edited::origin`]
//! tells where each part of the result was. What is inserted is made as the code of a
//! [`Kernel`](crate::Kernel) is, and has registers and labels of its own, whose names the module
//! does not have.
//!
//! ```
//! use ptx::names::{Modifier, Opcode};
//! use ptxkit_build::edit::Edit;
//!
//! let source = "\
//! .version 8.0
//! .target sm_80
//! .address_size 64
//! .entry first(.param .u64 p)
//! {
//!     .reg .b64 %p;
//!     .reg .b32 %x;
//!     ld.param.u64 %p, [p]; // an address
//!     ld.global.u32 %x, [%p];
//!     st.global.u32 [%p+4], %x;
//!     ret;
//! }
//! ";
//! let mut edit = Edit::new("first", source)?;
//! let loads = edit.declarations().global_zeroed::<u64>("loads", 1);
//! for site in edit.instructions() {
//!     if site.opcode == Opcode::Ld && site.modifiers.has(Modifier::Global) {
//!         edit.before(&site, |k| k.variable(&loads).reduce_add(1));
//!     }
//! }
//! let edited = edit.finish()?;
//! assert_eq!(edited.ptx.text(), "\
//! .version 8.0
//! .target sm_80
//! .address_size 64
//! .visible .global .align 16 .u64 loads[1];
//! .entry first(.param .u64 p)
//! {
//!     .reg .b64 %p;
//!     .reg .b32 %x;
//!     ld.param.u64 %p, [p]; // an address
//!     red.global.add.u64 [loads], 1;
//!     ld.global.u32 %x, [%p];
//!     st.global.u32 [%p+4], %x;
//!     ret;
//! }
//! ");
//! # Ok::<(), ptxkit_build::Error>(())
//! ```

mod changes;
mod rename;
mod site;

use std::collections::HashSet;
use std::marker::PhantomData;

use ptx::ast::{self, Body, Function, Item, Span, Statement};
use ptx::diagnostic::Code as ErrorCode;
use ptx::version::versions;
use ptx::{CheckOptions, Diagnostic, Diagnostics, check, check_with, read};

use crate::code::Code;
use crate::error::Error;
use crate::module::Module;
use crate::param::Parameter;
use crate::state::{Labels, State, is_name};
use crate::types::Type;
use crate::value::Value;
use changes::Changes;
pub use changes::Edited;
pub use site::Site;

/// The edits of a module, which [`finish`](Edit::finish) applies.
#[derive(Debug)]
pub struct Edit<'a> {
    name: String,
    source: &'a str,
    module: ast::Module<'a>,
    changes: Changes,
    /// Variables and functions to add.
    declarations: Module,
    /// The names of the text, and other words.
    words: HashSet<&'a str>,
    /// What the names of inserted registers and labels begin with.
    prefix: String,
    labels: Labels,
}

/// A parameter that was added to a kernel; [`Code::added`] reads it.
#[derive(Clone, Debug)]
pub struct Added<P> {
    name: String,
    parameter: PhantomData<fn(P)>,
}

impl<'a> Edit<'a> {
    /// Reads a module. `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// Its syntax errors and those that the checker finds.
    pub fn new(name: &str, source: &'a str) -> Result<Edit<'a>, Error> {
        let reading = read(source);
        let mut found = reading.diagnostics;
        if found.is_empty() {
            found = check(&reading.module, source);
        }
        if !found.is_empty() {
            return Err(Error::Wrong(Diagnostics::new(source, name, found)));
        }
        let words: HashSet<&str> = source
            .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')))
            .collect();
        let mut declarations = Module::new(name);
        for item in &reading.module.items {
            let name = match item {
                Item::Variable(variable) => variable.name,
                // May be declared several times.
                Item::Function(function) if function.body.is_some() => function.name,
                Item::Function(_) | Item::Directive(_) => continue,
            };
            declarations.reserve(name.text);
        }
        Ok(Edit {
            name: name.to_owned(),
            source,
            prefix: free_prefix(&words),
            module: reading.module,
            changes: Changes::default(),
            declarations,
            words,
            labels: Labels::new(),
        })
    }

    /// The syntax tree. Its names are parts of the source.
    pub fn module(&self) -> &ast::Module<'a> {
        &self.module
    }

    /// The text as it was read.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// All instructions, in the order of the text.
    pub fn instructions(&self) -> Vec<Site<'a>> {
        let functions = functions(&self.module);
        let sites = functions.filter_map(|function| Some((function, function.body.as_ref()?)));
        let sites = sites.flat_map(|(function, body)| {
            let instructions = body
                .statements
                .iter()
                .filter_map(|statement| match statement {
                    Statement::Instruction(instruction) => Some(instruction),
                    _ => None,
                });
            instructions.map(move |one| Site::new(self.source, &self.module, function, body, one))
        });
        sites.collect()
    }

    /// Where variables and functions are added, after the head of the module.
    pub fn declarations(&mut self) -> &mut Module {
        &mut self.declarations
    }

    /// Adds code before an instruction; jumps to the instruction execute it too. It is executed
    /// whether the guard of the instruction is true or not: see [`Site::guard`].
    pub fn before(&mut self, site: &Site<'_>, code: impl for<'k> FnOnce(Code<'k>)) {
        let text = self.code(site.function, code);
        self.changes.before(self.source, site.span, &text);
    }

    /// Adds code after an instruction.
    pub fn after(&mut self, site: &Site<'_>, code: impl for<'k> FnOnce(Code<'k>)) {
        let text = self.code(site.function, code);
        self.changes.after(self.source, site.span, &text);
    }

    /// Puts code in the place of an instruction.
    pub fn replace(&mut self, site: &Site<'_>, code: impl for<'k> FnOnce(Code<'k>)) {
        let text = self.code(site.function, code);
        self.changes.instead(self.source, site.span, &text);
    }

    /// Removes an instruction.
    pub fn remove(&mut self, site: &Site<'_>) {
        self.changes.remove(self.source, site.span);
    }

    /// Puts text in the place of a part of the source: of a name, an operand, a directive.
    pub fn replace_text(&mut self, span: Span, text: impl Into<String>) {
        self.changes.replace(span, text.into());
    }

    /// Adds code that a kernel or function begins with.
    ///
    /// # Errors
    ///
    /// The module has no such function with a body.
    pub fn at_start(
        &mut self,
        function: &str,
        code: impl for<'k> FnOnce(Code<'k>),
    ) -> Result<(), Error> {
        let body = self.body(function)?;
        // Before the first statement that is no declaration.
        let first = body
            .statements
            .iter()
            .find_map(|statement| match statement {
                Statement::Variable(_) | Statement::Location(_) | Statement::Directive(_) => None,
                Statement::Label(name) => Some(name.span(self.source)),
                Statement::Instruction(instruction) => Some(instruction.span),
                Statement::Begin(span) | Statement::End(span) => Some(*span),
                Statement::Targets(targets) => Some(targets.span),
                Statement::Prototype(prototype) => Some(prototype.span),
            });
        let end = body.span.end.saturating_sub(1);
        let end = Span {
            start: end,
            end: body.span.end,
        };
        let text = self.code(function, code);
        self.changes
            .before(self.source, first.unwrap_or(end), &text);
        Ok(())
    }

    /// Adds a parameter after those that a kernel has, which [`Code::added`] reads.
    ///
    /// # Errors
    ///
    /// The module has no such kernel with a body, or the name is no name, or one that the module
    /// has.
    pub fn param<P: Parameter>(&mut self, kernel: &str, name: &str) -> Result<Added<P>, Error> {
        self.fresh(name)?;
        let function = self.function(kernel)?;
        let text = format!("{} {name}", P::kernel_declaration());
        let (at, text) = match function.params.last() {
            Some(last) => (last.span.end, format!(", {text}")),
            // With or without `()`.
            None => {
                let after = function.name.span(self.source).end;
                let rest = self.source.get(after as usize..).unwrap_or_default();
                match rest.trim_start().strip_prefix('(') {
                    Some(inside) => ((self.source.len() - inside.len()) as u32, text),
                    None => (after, format!("({text})")),
                }
            }
        };
        self.changes.replace(Span { start: at, end: at }, text);
        Ok(Added {
            name: name.to_owned(),
            parameter: PhantomData,
        })
    }

    /// Applies the edits, and reads and checks the result. The `.version` becomes a higher one
    /// if what was added needs it.
    ///
    /// # Errors
    ///
    /// Mistakes in what was added, the errors of the result, and edits that overlap.
    pub fn finish(mut self) -> Result<Edited, Error> {
        self.declarations.is_right()?;
        let head = Span {
            start: 0,
            end: self.head_end(),
        };
        let text = self.declarations.text.trim_matches('\n');
        self.changes.after(self.source, head, text);
        let (mut text, mut origins) = self.changes.apply(self.source)?;
        let reading = read(&text);
        let mut found = reading.diagnostics;
        if found.is_empty() {
            found = check(&reading.module, &text);
        }
        // The version is raised where that is enough.
        let of_version = |one: &Diagnostic| one.code == ErrorCode::VersionFloor;
        if !found.is_empty()
            && found.iter().all(of_version)
            && let Some((own, span)) = reading.module.version
        {
            let right = |version| {
                let options = CheckOptions {
                    version: Some(version),
                    ..CheckOptions::default()
                };
                check_with(&reading.module, &text, &options).is_empty()
            };
            let mut higher = versions().filter(|version| *version > own);
            if let Some(version) = higher.find(|version| right(*version)) {
                found.clear();
                let mut changes = Changes::default();
                changes.replace(span, format!(".version {version}"));
                let before = text;
                (text, origins) = changes.apply_after(&before, &origins)?;
            }
        }
        if !found.is_empty() {
            return Err(Error::Wrong(Diagnostics::new(&text, &self.name, found)));
        }
        Edited::new(text, &self.name, origins)
    }

    /// The end of the head: of `.address_size`, or of what stands there in place of it.
    fn head_end(&self) -> u32 {
        let ast::Module {
            version,
            target,
            address_size,
            ..
        } = &self.module;
        let version = version.map(|(_, span)| span.end);
        let target = target.last().map(|name| name.span(self.source).end);
        let size = address_size.map(|(_, span)| span.end);
        version.max(target).max(size).unwrap_or(0)
    }

    /// The text of inserted code, in braces if it declares something.
    fn code(&mut self, function: &str, code: impl for<'k> FnOnce(Code<'k>)) -> String {
        let labels = std::mem::take(&mut self.labels);
        let prefix = self.prefix.clone();
        let state = State::with_prefix(function, self.declarations.id, prefix, labels);
        code(Code::new(&state));
        let mut finished = state.finish();
        self.declarations.take(&mut finished);
        self.labels = finished.labels;
        if finished.declarations.is_empty() {
            finished.text.replace("\n\t", "\n").trim_start().to_owned()
        } else {
            format!("{{\n{}{}}}\n", finished.declarations, finished.text)
        }
    }

    fn function(&self, name: &str) -> Result<&Function<'a>, Error> {
        let mut functions = functions(&self.module);
        let found = functions.find(|one| one.name.text == name && one.body.is_some());
        found.ok_or_else(|| Error::Missing {
            name: name.to_owned(),
        })
    }

    fn body(&self, function: &str) -> Result<&Body<'a>, Error> {
        let body = self.function(function)?.body.as_ref();
        body.ok_or_else(|| Error::Missing {
            name: function.to_owned(),
        })
    }

    /// Whether a name can be given to something new.
    fn fresh(&self, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        if !is_name(&name) {
            return Err(Error::Name { name });
        }
        if self.words.contains(name.as_str()) {
            return Err(Error::Taken { name });
        }
        Ok(())
    }
}

impl<'k> Code<'k> {
    /// What a parameter has that was added.
    pub fn added<P: Parameter>(self, param: &Added<P>) -> P::Value<'k> {
        P::of_kernel(self, &param.name)
    }

    /// A register of the code around this one, by its name in the new text:
    /// `k.existing::<u64>("%rd4")`. The checker finds out if there is none of this name, or one
    /// of another size.
    pub fn existing<T: Type>(self, name: &str) -> Value<'k, T> {
        if !name.strip_prefix('%').is_some_and(is_name) && !is_name(name) {
            let name = name.to_owned();
            self.state.fail(Error::Name { name });
        }
        Value::of(self, self.state.existing(T::CLASS, name))
    }
}

fn functions<'m, 'a>(module: &'m ast::Module<'a>) -> impl Iterator<Item = &'m Function<'a>> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    })
}

/// `e1_`, or another number: what no name of the text begins with.
fn free_prefix(words: &HashSet<&str>) -> String {
    let names = words.iter().map(|word| word.trim_start_matches(['%', '$']));
    let numbers = names.filter_map(|name| name.strip_prefix('e')?.split_once('_')?.0.parse().ok());
    let used: HashSet<usize> = numbers.collect();
    let free = (1..).find(|number| !used.contains(number));
    format!("e{}_", free.unwrap_or(0))
}
