//! The `.version` and `.target` that a module needs for everything but instructions.

use std::collections::HashSet;

use super::ast::{
    Directive, DirectiveKind, Function, FunctionDirective, FunctionKind, Initializer, Item,
    Linkage, Module, Space, Span, Statement, Variable,
};
use super::features::{PRAGMAS, function_directive, since};
use super::name_map::Seed;
use super::names::Type;
use super::signature::parameter_bytes;
use super::version::Floor;

/// The limits for the parameters of a kernel in bytes: of any version, from PTX 1.5, and
/// from PTX 8.1 with sm_70.
pub const PARAMETER_BYTES: [u64; 3] = [256, 4352, 32764];

/// A use of a feature that not every version and target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The feature in messages: `.weak`.
    pub what: &'static str,
    /// The lowest version and target with the feature.
    pub floor: Floor,
    /// The span of the use.
    pub span: Span,
}

/// Finds the requirements of a module, part by part in source order.
pub struct Requirements<'s, 'a> {
    source: &'s str,
    /// The functions so far: their addresses need a higher version than those of variables.
    functions: HashSet<&'a str, Seed>,
    found: Vec<Requirement>,
}

impl<'s, 'a> Requirements<'s, 'a> {
    pub fn new(source: &'s str) -> Self {
        Requirements {
            source,
            functions: HashSet::default(),
            found: Vec::new(),
        }
    }

    /// The requirements of the head of the module.
    pub fn head(&mut self, module: &Module<'a>) -> impl Iterator<Item = Requirement> {
        if let Some((_, span)) = module.address_size {
            self.need(".address_size", since(2, 3, 0), span);
        }
        for option in &module.target {
            let span = option.span(self.source);
            match option.text {
                "texmode_independent" => self.need("texmode_independent", since(1, 5, 0), span),
                "debug" => self.need("debug", since(3, 0, 0), span),
                _ => {}
            }
        }
        self.found.drain(..)
    }

    /// The requirements of the next item; for a function, of everything but its body.
    pub fn item(&mut self, item: &Item<'a>) -> impl Iterator<Item = Requirement> {
        match item {
            Item::Variable(variable) => self.variable(variable),
            Item::Function(function) => self.function(function),
            Item::Directive(directive) => self.directive(directive),
        }
        self.found.drain(..)
    }

    fn need(&mut self, what: &'static str, floor: Floor, span: Span) {
        self.found.push(Requirement { what, floor, span });
    }

    fn linkage(&mut self, linkage: Linkage, span: Span) {
        match linkage {
            Linkage::Weak => self.need(".weak", since(3, 1, 0), span),
            Linkage::Common => self.need(".common", since(5, 0, 0), span),
            _ => {}
        }
    }

    fn variable(&mut self, variable: &Variable<'a>) {
        let span = variable.name.span(self.source);
        let array = !variable.dims.is_empty();
        match variable.ty {
            Type::B128 if !array => self.need(".b128", since(8, 3, 70), span),
            Type::F16x2 if variable.vector == 1 => self.need(".f16x2", since(4, 2, 53), span),
            Type::Texref | Type::Samplerref | Type::Surfref if !array => {
                self.need("an opaque type", since(1, 5, 0), span);
            }
            _ => {}
        }
        self.linkage(variable.linkage, span);
        if variable.attributes.managed {
            self.need(".managed", since(4, 0, 30), span);
        }
        if variable.pointer.is_some() {
            self.need(".ptr", since(2, 2, 0), span);
        }
        if let Some(init) = &variable.init {
            self.initializer(init);
        }
    }

    fn initializer(&mut self, init: &Initializer<'a>) {
        match init {
            Initializer::Address {
                name,
                generic,
                mask,
                ..
            } => {
                let span = name.span(self.source);
                if self.functions.contains(name.text) {
                    self.need("the address of a function", since(2, 1, 20), span);
                } else {
                    self.need("an address as initial value", since(2, 1, 0), span);
                }
                if *generic {
                    self.need("generic()", since(3, 1, 0), span);
                }
                if mask.is_some() {
                    self.need("a mask", since(7, 1, 0), span);
                }
            }
            // The parser limits the nesting of lists to 32.
            Initializer::List(list) => {
                let numbers =
                    |value: &&_| matches!(value, Initializer::Integer(_) | Initializer::Float(_));
                for value in list.iter().skip_while(numbers) {
                    self.initializer(value);
                }
            }
            _ => {}
        }
    }

    fn function(&mut self, function: &Function<'a>) {
        let span = function.name.span(self.source);
        self.functions.insert(function.name.text);
        self.linkage(function.linkage, span);
        for variable in function.returns.iter().chain(&function.params) {
            self.variable(variable);
        }
        self.parameters(function);
        self.function_directives(&function.directives, function.kind);
        if function.body.is_none() && function.kind == FunctionKind::Entry {
            self.need("the declaration of a kernel", since(3, 0, 0), span);
        }
    }

    fn parameters(&mut self, function: &Function<'a>) {
        let span = function.name.span(self.source);
        if function.kind == FunctionKind::Entry {
            if !function.params.is_empty() {
                self.need("a list of parameters", since(1, 4, 0), span);
            }
            let bytes = parameter_bytes(function);
            if bytes > PARAMETER_BYTES[1] {
                self.need("more than 4352 bytes of parameters", since(8, 1, 70), span);
            } else if bytes > PARAMETER_BYTES[0] {
                self.need("more than 256 bytes of parameters", since(1, 5, 0), span);
            }
            return;
        }
        for variable in function.returns.iter().chain(&function.params) {
            if variable.space != Space::Param {
                continue;
            }
            let span = variable.name.span(self.source);
            self.need(".param of a function", since(2, 0, 20), span);
            if matches!(variable.dims.as_slice(), [None | Some(0)]) {
                self.need("a parameter without a size", since(5, 1, 30), span);
            }
        }
    }

    fn function_directives(&mut self, directives: &[FunctionDirective<'a>], kind: FunctionKind) {
        for directive in directives {
            if let Some(rule) = function_directive(directive.name, kind) {
                self.need(rule.name, rule.since, directive.span);
            }
        }
    }

    fn directive(&mut self, directive: &Directive<'a>) {
        let span = directive.span;
        match &directive.kind {
            DirectiveKind::File { stamped: true, .. } => {
                self.need("the time of a .file", since(3, 2, 0), span);
            }
            DirectiveKind::File { .. } | DirectiveKind::Dwarf | DirectiveKind::Target(_) => {}
            DirectiveKind::Section { labels: true } => {
                self.need("a label in a .section", since(7, 0, 0), span);
            }
            DirectiveKind::Section { labels: false } => {
                self.need(".section", since(2, 0, 0), span);
            }
            DirectiveKind::Pragma(strings) => {
                self.need(".pragma", since(2, 0, 0), span);
                for string in strings {
                    let word = string.text.split_whitespace().next();
                    let row = PRAGMAS.iter().find(|(name, _)| word == Some(name));
                    if let Some((name, floor)) = row {
                        self.need(name, *floor, string.span(self.source));
                    }
                }
            }
            DirectiveKind::Alias { .. } => self.need(".alias", since(6, 3, 30), span),
        }
    }

    /// The requirements of a statement. Those of instructions are in the instruction table.
    pub fn statement(&mut self, statement: &Statement<'a>) -> impl Iterator<Item = Requirement> {
        match statement {
            Statement::Variable(variable) => self.variable(variable),
            Statement::Directive(directive) => self.directive(directive),
            Statement::Location(location) if location.inlined.is_some() => {
                self.need("`.loc` of inlined code", since(7, 0, 0), location.span);
            }
            Statement::Location(location) if location.intermediate => {
                self.need(".loc_intermediate", since(9, 4, 0), location.span);
            }
            Statement::Targets(targets) if targets.calls => {
                self.need(".calltargets", since(2, 1, 20), targets.span);
            }
            Statement::Targets(targets) => {
                self.need(".branchtargets", since(5, 1, 30), targets.span);
            }
            Statement::Prototype(prototype) => {
                self.need(".callprototype", since(2, 1, 20), prototype.span);
                self.function_directives(&prototype.directives, FunctionKind::Func);
            }
            _ => {}
        }
        self.found.drain(..)
    }
}
