//! Text templates, for what the builder lacks.

use crate::code::Code;
use crate::error::Error;
use crate::pointer::{Element, Pointer, Space};
use crate::types::Type;
use crate::value::{Operand, Value};

/// PTX text with typed placeholders, from [`Code::raw`].
///
/// `{name}` is an input or an output, and `{{` and `}}` are braces. Statements end in `;`.
/// The checker reads the text with the rest of the module, so that a mistake in it is an error
/// of [`finish`](crate::Module::finish), and `.version` and `.target` are what it needs too.
#[derive(Debug)]
#[must_use = "nothing is added before `emit` or `output`"]
pub struct Raw<'k> {
    code: Code<'k>,
    template: String,
    placeholders: Vec<(String, String)>,
}

/// Several outputs: a tuple of up to four types.
pub trait Outputs {
    /// Their values.
    type Values<'k>;
    /// Their names, in order.
    type Names: Copy;

    #[doc(hidden)]
    fn values<'k>(raw: &mut Raw<'k>, names: Self::Names) -> Self::Values<'k>;
}

impl<'k> Code<'k> {
    /// Text for what the builder lacks.
    ///
    /// ```
    /// use ptxkit_build::{Global, Module, Ptr};
    ///
    /// let mut module = Module::new("carry");
    /// module.kernel("carry", |k| {
    ///     let to = k.param::<Ptr<u32, Global>>("to");
    ///     let (low, high) = k
    ///         .raw("add.cc.u32 {low}, {a}, {b};\naddc.u32 {high}, 0, 0;")
    ///         .input("a", k.value(u32::MAX))
    ///         .input("b", 2)
    ///         .outputs::<(u32, u32)>(["low", "high"]);
    ///     to.store_vector([low, high]);
    /// });
    /// assert!(module.finish()?.text().contains("\tadd.cc.u32 %r2, %r1, 2;\n"));
    /// # Ok::<(), ptxkit_build::Error>(())
    /// ```
    pub fn raw(self, template: &str) -> Raw<'k> {
        Raw {
            code: self,
            template: template.to_owned(),
            placeholders: Vec::new(),
        }
    }
}

impl<'k> Raw<'k> {
    /// What `{name}` reads.
    pub fn input<T: Type>(mut self, name: &str, operand: impl Operand<'k, T>) -> Raw<'k> {
        self.placeholders.push((name.to_owned(), operand.text()));
        self
    }

    /// What `{name}` reads: a register with an address.
    pub fn address<T: Element, S: Space>(self, name: &str, pointer: &Pointer<'k, T, S>) -> Raw<'k> {
        self.input(name, pointer.address())
    }

    /// Adds the text, of which `{name}` is the only output.
    pub fn output<T: Type>(mut self, name: &str) -> Value<'k, T> {
        let value = self.add_output(name);
        self.emit();
        value
    }

    /// Adds the text, with several outputs.
    pub fn outputs<T: Outputs>(mut self, names: T::Names) -> T::Values<'k> {
        let values = T::values(&mut self, names);
        self.emit();
        values
    }

    /// Adds the text, which has no output.
    pub fn emit(self) {
        let state = self.code.state;
        match self.filled() {
            Ok(text) => {
                state.set_free_form();
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    state.line(line.trim());
                }
            }
            Err(why) => state.fail(Error::Template {
                template: self.template,
                why,
            }),
        }
    }

    fn add_output<T: Type>(&mut self, name: &str) -> Value<'k, T> {
        let value = Value::fresh(self.code);
        self.placeholders.push((name.to_owned(), value.text()));
        value
    }

    /// The template with the placeholders replaced, or why that cannot be.
    fn filled(&self) -> Result<String, String> {
        let mut out = String::new();
        let mut used = vec![false; self.placeholders.len()];
        let mut rest = self.template.as_str();
        if rest.contains(|c: char| c.is_control() && !c.is_ascii_whitespace()) {
            return Err("has control characters".to_owned());
        }
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            out.push_str(before);
            if let Some(after) = brace.strip_prefix("{{") {
                out.push('{');
                rest = after;
            } else if let Some(after) = brace.strip_prefix("}}") {
                out.push('}');
                rest = after;
            } else if let Some((name, after)) = brace
                .strip_prefix('{')
                .and_then(|inside| inside.split_once('}'))
            {
                let found = self.placeholders.iter().position(|(one, _)| one == name);
                let Some(found) = found else {
                    return Err(format!("has `{{{name}}}`, which is no input and no output"));
                };
                used[found] = true;
                out.push_str(&self.placeholders[found].1);
                rest = after;
            } else {
                return Err("has a lone brace: write `{{` or `}}` for braces of PTX".to_owned());
            }
        }
        out.push_str(rest);
        let unused = used.iter().position(|used| !used);
        match unused.and_then(|unused| self.placeholders.get(unused)) {
            Some((name, _)) => Err(format!("does not use `{{{name}}}`")),
            None => Ok(out),
        }
    }
}

macro_rules! outputs {
    ($(($($ty:ident $name:ident),*) $count:literal;)*) => {
        $(
            impl<$($ty: Type),*> Outputs for ($($ty,)*) {
                type Values<'k> = ($(Value<'k, $ty>,)*);
                type Names = [&'static str; $count];

                fn values<'k>(raw: &mut Raw<'k>, names: Self::Names) -> Self::Values<'k> {
                    let [$($name),*] = names;
                    ($(raw.add_output::<$ty>($name),)*)
                }
            }
        )*
    };
}

outputs! {
    (A a, B b) 2;
    (A a, B b, C c) 3;
    (A a, B b, C c, D d) 4;
}
