//! Which declaration each name means: for tools that show, find and rename.

use super::symbols::{ModuleSymbols, Role, Scopes, Symbol};
use crate::ast::{
    Body, DirectiveKind, Function, Initializer, Item, List, Module, Name, Operand, Span, Statement,
    Variable,
};

/// A name where it stands, and where it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The name as it is mentioned: `%r5`.
    pub name: Name<'a>,
    /// The name in its declaration: the `%r` of `.reg .b32 %r<9>`. In the
    /// declaration itself the two are one.
    pub declaration: Name<'a>,
}

/// The names in the items of a module that overlap `within`, in the order of the
/// text but for parameters; without those that nothing declares.
///
/// ```
/// use ptxkit_ptx::{ast::Span, read, references};
///
/// let source = ".version 8.0\n.target sm_80\n.entry k() { .reg .b32 %r<4>; mov.b32 %r2, 1; }";
/// let module = read(source).module;
/// let all = Span { start: 0, end: source.len() as u32 };
/// let names: Vec<_> = references(&module, all)
///     .iter()
///     .map(|reference| (reference.name.text, reference.declaration.text))
///     .collect();
/// assert_eq!(names, [("k", "k"), ("%r", "%r"), ("%r2", "%r")]);
/// ```
pub fn references<'a>(module: &Module<'a>, within: Span) -> Vec<Reference<'a>> {
    let mut found = Found {
        module: ModuleSymbols::default(),
        scopes: Scopes::default(),
        references: Vec::new(),
    };
    let wanted = |span: Span| span.start <= within.end && within.start <= span.end;
    for item in &module.items {
        let first = found.references.len();
        let span = match item {
            Item::Variable(variable) => {
                found.module.declare_variable(variable);
                found.declared(variable.name);
                found.initializer(variable);
                variable.span
            }
            Item::Function(function) => {
                let symbol = Symbol::Function(function);
                found.module.declare(function.name, symbol);
                found.declared(function.name);
                if wanted(function.span) {
                    found.function(function);
                }
                function.span
            }
            Item::Directive(directive) => {
                if let DirectiveKind::Alias { name, function } = directive.kind {
                    found.mentioned(name);
                    found.mentioned(function);
                }
                directive.span
            }
        };
        if !wanted(span) {
            found.references.truncate(first);
        }
    }
    found.references
}

struct Found<'m, 'a> {
    module: ModuleSymbols<'m, 'a>,
    /// Those of the function that is walked.
    scopes: Scopes<'m, 'a>,
    references: Vec<Reference<'a>>,
}

impl<'m, 'a> Found<'m, 'a> {
    fn declared(&mut self, name: Name<'a>) {
        // `_` names a parameter that has no name.
        if name.text != "_" {
            self.references.push(Reference {
                name,
                declaration: name,
            });
        }
    }

    fn mentioned(&mut self, name: Name<'a>) {
        let found = self.scopes.find(name.text);
        let own = found.map(|found| found.name);
        let of_module = || self.module.find(name.text).map(|(_, name)| name);
        if let Some(declaration) = own.or_else(of_module) {
            self.references.push(Reference { name, declaration });
        }
    }

    fn variable(&mut self, variable: &'m Variable<'a>) {
        let symbol = Symbol::of(variable, Role::Own);
        // A name that is declared twice is an error elsewhere.
        let _ = self.scopes.declare(variable.name, variable.count, symbol);
    }

    fn function(&mut self, function: &'m Function<'a>) {
        let parameters = || function.returns.iter().chain(&function.params);
        parameters().for_each(|variable| self.declared(variable.name));
        let Some(body) = &function.body else {
            return;
        };
        self.scopes = Scopes::new(&body.statements, |_| Symbol::Label, |_| {});
        for variable in parameters() {
            self.variable(variable);
        }
        for statement in &body.statements {
            self.statement(statement, body);
        }
        self.scopes = Scopes::default();
    }

    fn statement(&mut self, statement: &'m Statement<'a>, body: &Body<'a>) {
        match statement {
            Statement::Begin(_) => self.scopes.open(),
            Statement::End(_) => self.scopes.close(),
            Statement::Label(name) => self.declared(*name),
            Statement::Variable(variable) => {
                self.variable(variable);
                self.declared(variable.name);
                self.initializer(variable);
            }
            Statement::Targets(targets) => {
                let table = Symbol::Targets(targets);
                let _ = self.scopes.declare(targets.name, None, table);
                self.declared(targets.name);
                targets
                    .targets
                    .iter()
                    .for_each(|name| self.mentioned(*name));
            }
            Statement::Prototype(prototype) => {
                let table = Symbol::Prototype(prototype);
                let _ = self.scopes.declare(prototype.name, None, table);
                self.declared(prototype.name);
            }
            Statement::Instruction(instruction) => {
                if let Some(guard) = body.guard(instruction) {
                    self.mentioned(guard.predicate);
                }
                self.operands(instruction.operands, body);
            }
            Statement::Location(_) | Statement::Directive(_) => {}
        }
    }

    /// Lists are nested a few deep at most: reading sees to that.
    fn operands(&mut self, list: List, body: &Body<'a>) {
        for operand in body.list(list) {
            match *operand {
                Operand::Vector(list, _)
                | Operand::Pair(list, _)
                | Operand::Arguments(list, _)
                | Operand::Element(list, _)
                | Operand::Indexed(list, _) => self.operands(list, body),
                _ => {
                    if let Some(name) = operand.name() {
                        self.mentioned(name);
                    }
                }
            }
        }
    }

    fn initializer(&mut self, variable: &Variable<'a>) {
        let mut open: Vec<&Initializer<'a>> = variable.init.iter().collect();
        while let Some(value) = open.pop() {
            match value {
                Initializer::Address { name, .. } => self.mentioned(*name),
                Initializer::List(values) => open.extend(values.iter().rev()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// Each mention as `name:line→line of its declaration`.
    fn lines(source: &str) -> Vec<String> {
        let line = |name: Name<'_>| {
            let before = &source[..name.span(source).start as usize];
            before.matches('\n').count() + 1
        };
        let within = Span {
            start: 0,
            end: source.len() as u32,
        };
        let module = read(source).module;
        let found = references(&module, within);
        let elsewhere = found
            .iter()
            .filter(|found| found.name.span(source) != found.declaration.span(source));
        let elsewhere = elsewhere.map(|Reference { name, declaration }| {
            format!("{}:{}→{}", name.text, line(*name), line(*declaration))
        });
        elsewhere.collect()
    }

    #[test]
    fn blocks_hide_names() {
        let source = "\
.entry k(.param .u32 n) {
.reg .b32 %r<4>;
.reg .pred p;
LOOP: @!p ld.param.u32 %r1, [n];
{ .reg .b32 %r<2>; .reg .f32 %r2;
LOOP: mov.b32 {%r1, %r2}, %r3;
bra LOOP; }
bra LOOP; }";
        assert_eq!(
            lines(source),
            [
                "p:4→3",
                "%r1:4→2",
                "n:4→1",
                "%r1:6→5",
                "%r2:6→5",
                "%r3:6→2",
                "LOOP:7→6",
                "LOOP:8→4"
            ]
        );
    }

    #[test]
    fn names_of_the_module() {
        let source = "\
.global .u32 x;
.global .u64 y = generic(x);
.func f();
.func f() { ret; }
.alias g, f;
.entry k() {
call f, ();
T: .calltargets f;
call (_), x, (), T;
mov.u32 z, x; }";
        assert_eq!(
            lines(source),
            [
                "x:2→1", "f:5→4", "f:7→4", "f:8→4", "x:9→1", "T:9→8", "x:10→1"
            ]
        );
    }

    #[test]
    fn items_elsewhere_are_left_out() {
        let source = ".entry k() { A: bra A; }\n.entry l() { B: bra B; }";
        let module = read(source).module;
        let at = source.find('l').unwrap() as u32;
        let names = references(&module, Span { start: at, end: at });
        let names: Vec<&str> = names.iter().map(|found| found.name.text).collect();
        assert_eq!(names, ["l", "B", "B"]);
    }
}
