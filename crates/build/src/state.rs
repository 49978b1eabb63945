//! The body of a function while it is made: its registers, its lines, and the blocks that are
//! open.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};

use ptx::names::SpecialRegister;

use crate::error::Error;
use crate::types::Class;

/// What stands for the number of a register in a line until its name is chosen.
const MARK: char = '\u{1}';

/// A register by its number in the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(u32);

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}{MARK}", self.0)
    }
}

/// The body of one function.
pub struct State {
    /// The name of the function, for errors.
    pub function: String,
    /// The identity of the module that it belongs to.
    pub module: u64,
    /// What the names of registers and labels begin with, after `%` and `$`.
    prefix: String,
    body: RefCell<Body>,
}

#[derive(Default)]
struct Body {
    registers: Vec<Register>,
    /// The numbers of the open blocks, outermost first.
    open: Vec<u32>,
    blocks: u32,
    /// The braces around the next line, in addition to those of the function.
    braces: usize,
    lines: Vec<String>,
    declarations: Vec<String>,
    params: Vec<String>,
    directives: Vec<String>,
    /// Dynamic shared memory, which is declared outside.
    dynamic: Vec<(String, String)>,
    /// Parameters and arrays.
    symbols: HashSet<String>,
    labels: Labels,
    /// Text that may not be as the printer writes it.
    free_form: bool,
    error: Option<Error>,
}

struct Register {
    class: Class,
    /// The number of the block in which it was made.
    block: u32,
    name: Name,
}

enum Name {
    /// To be numbered.
    None,
    Given(String),
    /// That of a register which is declared elsewhere, with its `%`.
    Existing(String),
}

/// What became of a body.
pub struct Finished {
    pub params: Vec<String>,
    pub directives: Vec<String>,
    pub dynamic: Vec<(String, String)>,
    /// The declarations of registers and arrays.
    pub declarations: String,
    /// The instructions.
    pub text: String,
    pub symbols: HashSet<String>,
    pub free_form: bool,
    pub error: Option<Error>,
    /// The number of labels of each kind.
    pub labels: Labels,
}

/// The number of labels of each kind.
pub type Labels = HashMap<&'static str, u32>;

impl State {
    /// The body of a function.
    pub fn new(function: &str, module: u64) -> State {
        State::with_prefix(function, module, String::new(), Labels::new())
    }

    /// Code within a function that has names of its own.
    pub fn with_prefix(function: &str, module: u64, prefix: String, labels: Labels) -> State {
        State {
            function: function.to_owned(),
            module,
            prefix,
            body: RefCell::new(Body {
                open: vec![0],
                blocks: 1,
                labels,
                ..Body::default()
            }),
        }
    }

    /// Notes an error; the first one is reported.
    pub fn fail(&self, error: Error) {
        self.body.borrow_mut().error.get_or_insert(error);
    }

    pub fn register(&self, class: Class) -> Reg {
        let mut body = self.body.borrow_mut();
        let block = body.open.last().copied().unwrap_or(0);
        let number = body.registers.len() as u32;
        body.registers.push(Register {
            class,
            block,
            name: Name::None,
        });
        Reg(number)
    }

    /// A register that is declared elsewhere, by its name with the `%`.
    pub fn existing(&self, class: Class, name: &str) -> Reg {
        let mut body = self.body.borrow_mut();
        let number = body.registers.len() as u32;
        body.registers.push(Register {
            class,
            block: 0,
            name: Name::Existing(name.to_owned()),
        });
        Reg(number)
    }

    pub fn name_register(&self, register: Reg, name: &str) {
        if !is_name(name) {
            return self.fail(Error::Name {
                name: name.to_owned(),
            });
        }
        let mut body = self.body.borrow_mut();
        if let Some(register) = body.registers.get_mut(register.0 as usize)
            && !matches!(register.name, Name::Existing(_))
        {
            register.name = Name::Given(name.to_owned());
        }
    }

    /// Adds a line.
    pub fn line(&self, line: impl fmt::Display) {
        let mut body = self.body.borrow_mut();
        let line = format!("{}{line}", "\t".repeat(1 + body.braces));
        if body.error.is_none() && body.uses_closed(&line) {
            let instruction = body.readable(&line);
            body.error = Some(Error::OutOfScope {
                function: self.function.clone(),
                instruction,
            });
        }
        body.lines.push(line);
    }

    pub fn label(&self, label: &str) {
        self.body.borrow_mut().lines.push(format!("{label}:"));
    }

    /// A number for labels of this kind.
    pub fn fresh_label(&self, kind: &'static str) -> u32 {
        let mut body = self.body.borrow_mut();
        let number = body.labels.entry(kind).or_default();
        *number += 1;
        *number
    }

    /// `$while_1` and the like: names of users do not begin with `$`.
    pub fn label_name(&self, stem: &str, number: u32) -> String {
        format!("${}{stem}_{number}", self.prefix)
    }

    /// Values that `inside` makes are unknown after it.
    pub fn block<R>(&self, inside: impl FnOnce() -> R) -> R {
        {
            let mut body = self.body.borrow_mut();
            let number = body.blocks;
            body.blocks += 1;
            body.open.push(number);
        }
        let result = inside();
        self.body.borrow_mut().open.pop();
        result
    }

    /// Puts the lines that `inside` adds into braces.
    pub fn braces<R>(&self, inside: impl FnOnce() -> R) -> R {
        self.line("{");
        self.body.borrow_mut().braces += 1;
        let result = inside();
        self.body.borrow_mut().braces -= 1;
        self.line("}");
        result
    }

    pub fn param(&self, name: &str, declaration: String) {
        if self.symbol(name) {
            self.body.borrow_mut().params.push(declaration);
        }
    }

    pub fn declare(&self, name: &str, declaration: String) {
        if self.symbol(name) {
            self.body.borrow_mut().declarations.push(declaration);
        }
    }

    pub fn declare_dynamic(&self, name: &str, declaration: String) {
        if is_name(name) {
            let mut body = self.body.borrow_mut();
            body.dynamic.push((name.to_owned(), declaration));
        } else {
            self.fail(Error::Name {
                name: name.to_owned(),
            });
        }
    }

    pub fn directive(&self, directive: String) {
        self.body.borrow_mut().directives.push(directive);
    }

    pub fn set_free_form(&self) {
        self.body.borrow_mut().free_form = true;
    }

    fn symbol(&self, name: &str) -> bool {
        let name = name.to_owned();
        if !is_name(&name) {
            self.fail(Error::Name { name });
            return false;
        }
        let is_new = self.body.borrow_mut().symbols.insert(name.clone());
        if !is_new {
            self.fail(Error::Taken { name });
        }
        is_new
    }

    /// Ends the function: with a `ret`, if it has none there.
    pub fn end(mut self) -> Finished {
        let lines = &mut self.body.get_mut().lines;
        let returns = lines.last().is_some_and(|line| line == "\tret;");
        if !returns {
            lines.push("\tret;".to_owned());
        }
        self.finish()
    }

    /// Chooses the names of registers, and prints.
    pub fn finish(self) -> Finished {
        let body = self.body.into_inner();
        let names = body.choose_names(&self.prefix);
        let mut declarations = String::new();
        for class in Class::ALL {
            body.declare_registers(class, &self.prefix, &names, &mut declarations);
        }
        for declaration in &body.declarations {
            let _ = writeln!(declarations, "\t{declaration}");
        }
        let mut text = String::new();
        for line in &body.lines {
            resolve(line, &names, &mut text);
            text.push('\n');
        }
        Finished {
            params: body.params,
            directives: body.directives,
            dynamic: body.dynamic,
            declarations,
            text,
            symbols: body.symbols,
            free_form: body.free_form,
            error: body.error,
            labels: body.labels,
        }
    }
}

impl Body {
    /// Whether a line uses a register of a block that has ended.
    fn uses_closed(&self, line: &str) -> bool {
        marked(line).any(|number| {
            let register = self.registers.get(number);
            register.is_some_and(|register| !self.open.contains(&register.block))
        })
    }

    /// A line with the names that are known so far.
    fn readable(&self, line: &str) -> String {
        let names = self.registers.iter().zip(0..);
        let names = names.map(|(register, number): (_, u32)| match &register.name {
            Name::Given(name) => format!("%{name}"),
            Name::Existing(name) => name.clone(),
            Name::None => format!("%{}{number}", register.class.words().1),
        });
        let mut out = String::new();
        resolve(line.trim_start(), &names.collect::<Vec<_>>(), &mut out);
        out
    }

    /// The names of all registers: those that were given, with a number where two are the same,
    /// and `%f1`, `%f2` … for the others.
    fn choose_names(&self, before: &str) -> Vec<String> {
        let mut taken = HashSet::new();
        let mut next: HashMap<&str, u32> = HashMap::new();
        let mut counts: HashMap<Class, u32> = HashMap::new();
        let names = self.registers.iter().map(|register| {
            let name = match &register.name {
                Name::Given(name) => name,
                Name::Existing(name) => return name.clone(),
                Name::None => {
                    let count = counts.entry(register.class).or_default();
                    *count += 1;
                    return format!("%{before}{}{count}", register.class.words().1);
                }
            };
            let mut candidate = format!("%{before}{name}");
            if is_reserved(name) {
                candidate.push('_');
            }
            let stem = candidate.clone();
            while !taken.insert(candidate.clone()) {
                let number = next.entry(name).or_insert(1);
                *number += 1;
                candidate = format!("{stem}_{number}");
            }
            candidate
        });
        names.collect()
    }

    fn declare_registers(&self, class: Class, before: &str, names: &[String], text: &mut String) {
        let (ty, prefix) = class.words();
        let of_class = self.registers.iter().zip(names);
        let of_class = of_class.filter(|(register, _)| register.class == class);
        let unnamed = of_class.clone();
        let unnamed = unnamed.filter(|(register, _)| matches!(register.name, Name::None));
        let count = unnamed.count();
        if count > 0 {
            let _ = writeln!(text, "\t.reg .{ty} %{before}{prefix}<{}>;", count + 1);
        }
        for (_, name) in of_class.filter(|(one, _)| matches!(one.name, Name::Given(_))) {
            let _ = writeln!(text, "\t.reg .{ty} {name};");
        }
    }
}

/// The numbers of the registers in a line.
fn marked(line: &str) -> impl Iterator<Item = usize> {
    let parts = line.split(MARK).skip(1).step_by(2);
    parts.filter_map(|number| number.parse().ok())
}

/// Writes a line with the names of its registers.
fn resolve(line: &str, names: &[String], out: &mut String) {
    for (index, part) in line.split(MARK).enumerate() {
        let name = match index % 2 {
            0 => None,
            _ => part
                .parse()
                .ok()
                .and_then(|number: usize| names.get(number)),
        };
        out.push_str(name.map_or(part, String::as_str));
    }
}

/// Whether a text can be the name of a kernel, variable, parameter or register.
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        || (bytes.first() == Some(&b'_') && bytes.len() > 1);
    begins
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
}

/// Whether `%name` is a special register, or one of those that are numbered.
fn is_reserved(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = stem.len() < name.len();
    let is_class = Class::ALL.iter().any(|class| class.words().1 == stem);
    let is_special = SpecialRegister::from_text(&format!("%{name}")).is_some();
    (numbered && is_class) || is_special
}
