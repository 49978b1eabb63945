//! Checks a function: resolves its names statement by statement, and matches its
//! instructions against the table.

use std::cell::Cell;
use std::collections::HashSet;

use super::form;
use super::mma;
use super::resolution::{Names, Resolution};
use super::symbols::{Role, Symbol};
use super::variable::DeclarationPlace;
use super::{Context, call, directive, duplicate, head, initializer, range, variable};
use crate::ast::{
    AddressBase, Body, DirectiveKind, Function, FunctionKind, Instruction, List, Modifiers, Name,
    Operand, Statement, Variable,
};
use crate::diagnostic::{Code, Diagnostic, Report, suggestion};
use crate::isa::special::{self, Special};
use crate::names::{Opcode, SpecialRegister, Type};
use crate::requirements::Requirements;

/// The state of the check at an instruction.
pub struct Checker<'c, 'm, 'a> {
    pub context: &'c Context<'m, 'a>,
    pub names: Names<'m, 'a>,
    pub kind: FunctionKind,
    pub body: &'m Body<'a>,
    pub report: &'c mut Report,
    /// The names reported as undeclared: each is reported once in a function.
    undeclared: HashSet<&'a str>,
    /// The body has syntax errors, so that an undeclared name may be a lost label.
    labels_lost: bool,
    /// The start of the operands of the current call.
    call: Option<u32>,
    /// Whether the lookup of a name has failed.
    missing: Cell<bool>,
    places: directive::Places,
}

/// What the names in it refer to.
pub fn check<'m, 'a>(
    function: &'m Function<'a>,
    body: &'m Body<'a>,
    context: &Context<'m, 'a>,
    requirements: &mut Requirements<'_, 'a>,
    report: &mut Report,
) -> Resolution<'m, 'a> {
    let mut labels_lost = body.broken;
    let twice = |label| {
        // After a duplicate label another one is probably missing.
        labels_lost = true;
        duplicate(label, context.source, report);
    };
    let mut names = Names::new(body, context.source, twice);
    let parameter = match function.kind {
        FunctionKind::Entry => Role::KernelParameter,
        FunctionKind::Func => Role::Parameter,
    };
    names.parameters(function, parameter, |name| {
        duplicate(name, context.source, report);
    });
    let mut checker = Checker {
        context,
        names,
        kind: function.kind,
        body,
        report,
        undeclared: HashSet::new(),
        missing: Cell::new(false),
        labels_lost,
        call: None,
        places: directive::Places::default(),
    };
    let has_cta_memory = || {
        function
            .directives
            .iter()
            .any(|d| d.name == "minperctamemory")
    };
    context
        .no_cta_memory
        .set(function.kind == FunctionKind::Entry && !has_cta_memory());
    for statement in &body.statements {
        // Nearly all statements are instructions.
        if let Statement::Instruction(instruction) = statement {
            checker.instruction(instruction);
            continue;
        }
        let missing = |requirement| context.missing_requirement(requirement);
        for wrong in requirements.statement(statement).filter_map(missing) {
            checker.report.add(wrong);
        }
        checker.statement(statement, function.kind);
    }
    checker.names.end()
}

impl<'c, 'm, 'a> Checker<'c, 'm, 'a> {
    fn statement(&mut self, statement: &'m Statement<'a>, kind: FunctionKind) {
        match statement {
            Statement::Begin(_) => self.names.open(),
            Statement::End(_) => self.names.close(),
            Statement::Variable(variable) => self.declare(variable, kind),
            Statement::Targets(targets) => {
                let table = self.names.declare_targets(targets);
                self.report_duplicate(table);
                directive::targets(self, targets);
            }
            Statement::Prototype(prototype) => {
                let symbol = Symbol::Prototype(prototype);
                let table = self.names.declare_symbol(prototype.name, symbol);
                self.report_duplicate(table);
                directive::prototype(self, prototype);
            }
            Statement::Location(location) => {
                directive::location(location, &mut self.places, self.report);
            }
            Statement::Directive(directive) => match &directive.kind {
                DirectiveKind::Pragma(strings) => {
                    directive::pragma(strings, true, self.context.source, self.report);
                }
                DirectiveKind::Target(words) => head::target(words, self.context, self.report),
                _ => {}
            },
            // Labels are declared at the start of their block.
            Statement::Label(_) | Statement::Instruction(_) => {}
        }
    }

    /// Reports a name that is declared twice in its block.
    fn report_duplicate(&mut self, declared: Result<(), Name<'a>>) {
        if let Err(name) = declared {
            duplicate(name, self.context.source, self.report);
        }
    }

    fn declare(&mut self, variable: &'m Variable<'a>, kind: FunctionKind) {
        variable::check(
            variable,
            DeclarationPlace::Body(kind),
            self.context,
            self.report,
        );
        let declared = self.names.declare(variable, Role::Own);
        self.report_duplicate(declared);
        let source = self.context.source;
        if let Some(wrong) = initializer::check(variable, source, |name| self.symbol(name)) {
            self.report.add(wrong);
        }
    }

    /// The modifiers of an instruction.
    pub fn modifiers(&self, instruction: &Instruction) -> &'c Modifiers {
        self.context.spellings.modifiers(instruction)
    }

    /// The symbol of a name.
    pub fn symbol(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        let found = self.names.symbol(name);
        let found = found.or_else(|| self.context.symbols.get(name));
        if found.is_none() {
            self.missing.set(true);
        }
        found
    }

    /// The type of a register.
    pub fn register_type(&self, operand: &Operand<'_>) -> Option<Type> {
        let Operand::Name(name) = operand else {
            return None;
        };
        match self.symbol(name.text)? {
            Symbol::Register { ty, .. } => Some(ty),
            _ => None,
        }
    }

    /// Whether an undeclared name is a special register.
    pub fn is_special(&self, name: Name<'a>) -> bool {
        SpecialRegister::from_text(name.text).is_some()
    }

    /// Whether a name is declared; reports it if not.
    pub fn declared(&mut self, name: Name<'a>) -> bool {
        if self.symbol(name.text).is_some() {
            return true;
        }
        if !self.undeclared.insert(name.text) {
            return false;
        }
        let source = self.context.source;
        let mut span = name.span(source);
        // Compilers write calls on many lines.
        if let Some(start) = self.call
            && let Some(before) = source.get(start as usize..span.start as usize)
            && before.contains('\n')
        {
            span.start = start;
        }
        if self.is_special(name) {
            let message = format!("the special register `{}` cannot be used here", name.text);
            let wrong = Diagnostic::new(Code::OperandKind, span, message);
            self.report.add(wrong.help("move it to a register first"));
            return false;
        }
        let mut diagnostic = Diagnostic::new(
            Code::Undeclared,
            span,
            format!("`{}` is not declared", name.text),
        );
        if let Some(range) = self.names.range_before(name.text) {
            let help = format!("`{range}` declares that many registers, numbered from 0");
            diagnostic.help = Some(help);
        } else {
            let (own, of_module) = (self.names.all(), self.context.symbols.names());
            if self
                .report
                .wants_suggestions_among(own.len() + of_module.len())
            {
                let names = own.chain(of_module).chain(special_names());
                diagnostic.help = suggestion(name.text, names);
            }
        }
        self.report.add(diagnostic);
        false
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if let Some(guard) = self.body.guard(instruction) {
            self.guard(guard.predicate, instruction);
        }
        if instruction.opcode == Opcode::Call {
            self.resolve(instruction);
            self.call = call::operands_start(self, instruction);
            self.declared_all(instruction.operands);
            self.call = None;
            call::check(self, instruction);
            form::check(self, instruction);
            return;
        }
        let key = self.key(instruction);
        match key {
            Some((key, accepted)) => {
                if let Some(version) = accepted.get(key) {
                    self.context.require(version);
                    return;
                }
            }
            None => self.resolve(instruction),
        }
        if let Some(wrong) = mma::wrong(self, instruction) {
            self.report.add(wrong);
            self.declared_all(instruction.operands);
            return;
        }
        let before = self.context.floor.take();
        self.missing.set(false);
        // The check of a row looks the names up, unless one is undeclared or the row does
        // not use it.
        let looked_up = form::check(self, instruction);
        let lost = self.labels_lost && instruction.opcode == Opcode::Bra;
        if (!looked_up || self.missing.get()) && !lost {
            self.declared_all(instruction.operands);
        }
        range::check(self, instruction);
        if let Some((key, accepted)) = key
            && looked_up
            && !self.missing.get()
        {
            accepted.add(key, self.context.floor.get());
        }
        self.context.require(before);
    }

    /// Notes what the names in an instruction refer to.
    fn resolve(&mut self, instruction: &Instruction) {
        let symbols = &self.context.symbols;
        let variable = |name: &str| match symbols.get(name) {
            Some(Symbol::Variable(variable, _)) => Some(variable),
            _ => None,
        };
        self.names.instruction(instruction, self.body, &variable);
    }

    fn guard(&mut self, predicate: Name<'a>, instruction: &Instruction) {
        let List { start, len } = instruction.operands;
        let place = (start + len) as usize;
        if self.names.resolve_register(place, predicate) == Some(Type::Pred) {
            return;
        }
        let own = self.names.resolve(place, predicate);
        match own.or_else(|| self.symbol(predicate.text)) {
            Some(Symbol::Register {
                ty: Type::Pred,
                vector: 1,
            }) => {}
            None => self.declared_or_special(predicate, |special| special.types == [Type::Pred]),
            Some(_) => self.report.add(Diagnostic::new(
                Code::Guard,
                predicate.span(self.context.source),
                format!("the guard `{}` is not a `.pred` register", predicate.text),
            )),
        }
    }

    fn declared_all(&mut self, list: List) {
        for operand in self.body.list(list) {
            match *operand {
                Operand::Name(name)
                | Operand::Component { name, .. }
                | Operand::Not(name)
                | Operand::Negated(name)
                | Operand::Select { name, .. } => {
                    self.declared(name);
                }
                Operand::Offset { name, .. }
                | Operand::Address {
                    base: AddressBase::Name(name),
                    ..
                } => self.declared_or_special(name, is_number),
                Operand::Element(list, _) => match *self.body.list(list) {
                    [Operand::Name(array), Operand::Name(name)] => {
                        self.declared(array);
                        self.declared_or_special(name, is_number);
                    }
                    _ => self.declared_all(list),
                },
                Operand::Vector(list, _)
                | Operand::Arguments(list, _)
                | Operand::Indexed(list, _)
                | Operand::Pair(list, _) => self.declared_all(list),
                _ => {}
            }
        }
    }

    /// Like [`declared`](Self::declared), where ptxas accepts a special register too: as
    /// a guard, in a sum, as an address or an index.
    fn declared_or_special(&mut self, name: Name<'a>, fits: impl Fn(&Special) -> bool) {
        let register = match self.symbol(name.text) {
            None => SpecialRegister::from_text(name.text),
            Some(_) => return,
        };
        match register {
            Some(register) if fits(special::of(register)) => {
                let span = name.span(self.context.source);
                if let Err(wrong) = self.context.special(register, span) {
                    self.report.add(wrong);
                }
            }
            _ => {
                self.declared(name);
            }
        }
    }

    /// Whether a name is, or may be, a predicate register.
    pub fn may_be_predicate(&self, name: &str) -> bool {
        matches!(
            self.symbol(name),
            None | Some(Symbol::Register { ty: Type::Pred, .. })
        )
    }
}

/// Whether a special register is a scalar integer.
fn is_number(special: &Special) -> bool {
    special.elements == 1 && special.types != [Type::Pred]
}

/// Special registers for suggestions. `%pm1` is too similar to the registers that
/// compilers generate.
fn special_names<'n>() -> impl Iterator<Item = &'n str> {
    let all = SpecialRegister::ALL.iter();
    let numbers = all.filter(|register| is_number(special::of(**register)));
    numbers
        .map(|register| register.text())
        .filter(|text| text.len() > 5)
}
