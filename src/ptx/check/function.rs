//! A function: its names, statement by statement, and its instructions against
//! the table.

use std::collections::HashSet;

use super::symbols::{Scopes, Symbol};
use super::{Context, call, duplicate, operand, range};
use crate::ptx::ast::{
    AddressBase, Body, Function, FunctionKind, Instruction, List, Name, Operand, Span, Statement,
    Variable, Version,
};
use crate::ptx::diagnostic::{Code, Diagnostic, Report, suggestion};
use crate::ptx::isa::{self, Form, Misfit, Types};
use crate::ptx::names::{Modifier, Opcode, Type};

/// What is known where an instruction stands.
pub struct Checker<'c, 'm, 'a> {
    pub context: &'c Context<'m, 'a>,
    pub scopes: Scopes<'m, 'a>,
    pub body: &'m Body<'a>,
    pub report: &'c mut Report,
    /// Names reported as undeclared: once a function is enough.
    undeclared: HashSet<&'a str>,
}

pub fn check<'m, 'a>(function: &'m Function<'a>, context: &Context<'m, 'a>, report: &mut Report) {
    let Some(body) = &function.body else {
        return;
    };
    let mut scopes = Scopes::new(&body.statements, |label| duplicate(label, report));
    for variable in function.returns.iter().chain(&function.params) {
        let input = function.kind == FunctionKind::Entry
            || function.params.iter().any(|p| std::ptr::eq(p, variable));
        if scopes.declare(variable, input).is_err() {
            duplicate(variable.name, report);
        }
    }
    let mut checker = Checker {
        context,
        scopes,
        body,
        report,
        undeclared: HashSet::new(),
    };
    for statement in &body.statements {
        checker.statement(statement);
    }
}

impl<'m, 'a> Checker<'_, 'm, 'a> {
    fn statement(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::Begin(_) => self.scopes.open(),
            Statement::End(_) => self.scopes.close(),
            Statement::Variable(variable) => self.declare(variable),
            Statement::Instruction(instruction) => self.instruction(instruction),
            Statement::Targets { targets, .. } => {
                for target in targets {
                    self.declared(*target);
                }
            }
            _ => {}
        }
    }

    fn declare(&mut self, variable: &Variable<'a>) {
        if self.scopes.declare(variable, false).is_err() {
            duplicate(variable.name, self.report);
        }
    }

    /// What a name stands for.
    pub fn symbol(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        self.scopes
            .get(name)
            .or_else(|| self.context.symbols.get(name))
    }

    fn declared(&mut self, name: Name<'a>) {
        if self.symbol(name.text).is_some() || !self.undeclared.insert(name.text) {
            return;
        }
        let near = self.scopes.names().chain(self.context.symbols.names());
        let mut diagnostic = Diagnostic::new(
            Code::Undeclared,
            name.span,
            format!("`{}` is not declared", name.text),
        );
        diagnostic.help = suggestion(name.text, near);
        self.report.add(diagnostic);
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) {
        if let Some(guard) = instruction.guard {
            self.declared(guard.predicate);
            if !self.may_be_predicate(guard.predicate.text) {
                self.report.add(Diagnostic::new(
                    Code::Guard,
                    guard.predicate.span,
                    format!(
                        "`{}` guards, but is no `.pred` register",
                        guard.predicate.text
                    ),
                ));
            }
        }
        self.declared_all(instruction.operands);
        // What is no opcode has been reported on reading.
        if instruction.opcode == Opcode::Unknown || instruction.modifiers.has(Modifier::UNKNOWN) {
            return;
        }
        if instruction.opcode == Opcode::Call {
            call::check(self, instruction);
        }
        self.form(instruction);
        range::check(self, instruction);
    }

    fn declared_all(&mut self, list: List) {
        for operand in self.body.list(list) {
            match *operand {
                Operand::Name(name)
                | Operand::Component { name, .. }
                | Operand::Not(name)
                | Operand::Negated(name)
                | Operand::Select { name, .. }
                | Operand::Offset { name, .. }
                | Operand::Address {
                    base: AddressBase::Name(name),
                    ..
                } => self.declared(name),
                Operand::Vector(list, _)
                | Operand::Arguments(list, _)
                | Operand::Indexed(list, _)
                | Operand::Pair(list, _) => self.declared_all(list),
                _ => {}
            }
        }
    }

    /// Whether a name is a predicate register, or not known not to be one.
    pub fn may_be_predicate(&self, name: &str) -> bool {
        matches!(
            self.symbol(name),
            None | Some(Symbol::Unknown | Symbol::Register { ty: Type::Pred, .. })
        )
    }

    /// Finds the row of the table that the instruction is, and says what is
    /// wrong if there is none.
    fn form(&mut self, instruction: &Instruction<'a>) {
        let forms = isa::forms(instruction.opcode);
        if forms.is_empty() {
            return;
        }
        let operands = self.body.list(instruction.operands);
        let mut fitting: Vec<&Form> = Vec::new();
        let mut misfit: Option<(usize, Misfit<'_>)> = None;
        let mut wrong: Option<Diagnostic> = None;
        let mut modifiers_fit = false;
        for form in forms {
            match form.fit(&instruction.modifiers) {
                Ok(types) => {
                    modifiers_fit = true;
                    match self.operands(form, &types, instruction, operands) {
                        Ok(()) => fitting.push(form),
                        // A wrong count says less than a wrong operand.
                        Err(found)
                            if wrong.as_ref().is_none_or(|known| {
                                known.code == Code::OperandCount && found.code != Code::OperandCount
                            }) =>
                        {
                            wrong = Some(found);
                        }
                        Err(_) => {}
                    }
                }
                Err((count, why)) => {
                    // Of two rows that fit equally well, one that only lacks
                    // something says more.
                    let better = misfit.is_none_or(|(best, known)| {
                        count > best
                            || (count == best
                                && matches!(why, Misfit::Missing(_))
                                && matches!(known, Misfit::Extra(_)))
                    });
                    if better {
                        misfit = Some((count, why));
                    }
                }
            }
        }
        if !fitting.is_empty() {
            self.floor(instruction, &fitting);
        } else if let (true, Some(wrong)) = (modifiers_fit, wrong) {
            self.report.add(wrong);
        } else if let Some((_, misfit)) = misfit {
            self.misfit(instruction, misfit);
        }
    }

    fn misfit(&mut self, instruction: &Instruction<'a>, misfit: Misfit<'_>) {
        let opcode = instruction.opcode.text();
        let span = instruction.opcode_span;
        let written = || {
            let types: Vec<_> = instruction.modifiers.types().map(|t| t.text()).collect();
            match types.as_slice() {
                [] => format!("`{opcode}`"),
                types => format!("`{opcode}` of `.{}`", types.join(".")),
            }
        };
        let diagnostic = match misfit {
            Misfit::Missing(slot) => {
                let message = format!("{} needs {}", written(), slot.describe());
                Diagnostic::new(Code::MissingModifier, span, message)
            }
            Misfit::Extra(index) => {
                let Some(word) = instruction.modifiers.as_slice().get(index) else {
                    return;
                };
                let message = if word.as_type().is_some() {
                    format!(
                        "`{opcode}` with these modifiers does not take `.{}`",
                        word.text()
                    )
                } else {
                    format!("{} does not take `.{}`", written(), word.text())
                };
                Diagnostic::new(Code::Form, span, message)
            }
        };
        self.report.add(diagnostic);
    }

    /// Whether the module may use one of the forms that an instruction is.
    fn floor(&mut self, instruction: &Instruction<'a>, forms: &[&Form]) {
        let allowed = self.context.allowed;
        let permitted =
            |f: &Form| f.floor.version <= allowed.version && f.floor.target <= allowed.target;
        if forms.iter().any(|form| permitted(form)) {
            return;
        }
        let Some(form) = forms.iter().min_by_key(|form| form.floor) else {
            return;
        };
        let Version { major, minor } = form.floor.version;
        let written = self.written(instruction.opcode_span);
        if form.floor.version > allowed.version {
            self.report.add(
                Diagnostic::new(
                    Code::VersionFloor,
                    instruction.opcode_span,
                    format!("`{written}` needs `.version {major}.{minor}` or later"),
                )
                .help(format!(
                    "write `.version {major}.{minor}` in the first line"
                )),
            );
        }
        if form.floor.target > allowed.target {
            let target = form.floor.target;
            self.report.add(
                Diagnostic::new(
                    Code::TargetFloor,
                    instruction.opcode_span,
                    format!("`{written}` needs `.target sm_{target}` or higher"),
                )
                .help(format!("compile for sm_{target}, or do without")),
            );
        }
    }

    fn written(&self, span: Span) -> &'a str {
        self.context
            .source
            .get(span.start as usize..span.end as usize)
            .unwrap_or("")
    }

    fn operands(
        &self,
        form: &Form,
        types: &Types,
        instruction: &Instruction<'a>,
        operands: &[Operand<'a>],
    ) -> Result<(), Diagnostic> {
        if form.open_operands {
            return Ok(());
        }
        let least = form.operands.iter().filter(|rule| !rule.optional).count();
        let most = form.operands.len();
        if operands.len() < least || operands.len() > most {
            let wanted = match (least, most) {
                (0, 0) => "no operands".to_owned(),
                (1, 1) => "1 operand".to_owned(),
                _ if least == most => format!("{least} operands"),
                _ => format!("{least} to {most} operands"),
            };
            return Err(Diagnostic::new(
                Code::OperandCount,
                instruction.span,
                format!(
                    "`{}` takes {wanted}, {} given",
                    self.written(instruction.opcode_span),
                    operands.len()
                ),
            ));
        }
        for (rule, operand) in form.operands.iter().zip(operands) {
            operand::check(self, instruction, *rule, types, operand)?;
        }
        Ok(())
    }
}
