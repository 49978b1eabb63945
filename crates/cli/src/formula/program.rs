//! Lowers the syntax tree of a formula to a program: resolves names to slots, constants and buffers.

use std::rc::Rc;

use super::function::{Body, FUNCTIONS};
use super::parse::SyntaxError;
use super::syntax::{Binary, Block, If, Kind, Node, Span, Statement, Unary};
use super::{Known, Numbers};
use crate::element::Value;
use ptxkit::ptx::diagnostic::nearest;

/// The input of the evaluator.
#[derive(Debug)]
pub(super) struct Program {
    pub body: Sequence,
    /// The number of slots, including those of the predefined variables.
    pub slots: usize,
}

#[derive(Debug)]
pub(super) enum Expression {
    Constant(Value),
    Slot(usize),
    Element(Rc<Numbers>, Box<Expression>, Span),
    Choice(Vec<Expression>, Box<Expression>, Span),
    Negate(Box<Expression>, Span),
    Not(Box<Expression>),
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    Binary(Binary, Box<[Expression; 2]>, Span),
    Call(Body, Vec<Expression>, Span),
    Count(Rc<Numbers>, Box<Expression>),
    Sum(Rc<Numbers>, Box<[Expression; 2]>, Span),
    Dot(Box<Dot>, Span),
    If(Box<(Expression, Sequence, Sequence)>),
}

/// `dot(a, i, di, b, j, dj, n)`
#[derive(Debug)]
pub(super) struct Dot {
    pub buffers: [Rc<Numbers>; 2],
    /// `i`, `di`, `j`, `dj` and `n`.
    pub numbers: [Expression; 5],
}

#[derive(Debug)]
pub(super) struct Sequence {
    pub statements: Vec<Command>,
    /// The value, if it is used.
    pub value: Option<Expression>,
}

#[derive(Debug)]
pub(super) enum Command {
    Store(usize, Expression),
    If(Expression, Sequence, Sequence),
    While(Expression, Sequence),
    For {
        slot: usize,
        from: Expression,
        to: Expression,
        body: Sequence,
        span: Span,
    },
}

/// Translates a formula with the variables `predefined` in the first slots, and the names in `known`.
///
/// # Errors
/// An unknown or wrongly used name or function.
pub(super) fn translate(
    block: &Block<'_>,
    predefined: &[&str],
    known: &[(String, Known)],
) -> Result<Program, SyntaxError> {
    let variables = predefined.iter().map(|name| Variable {
        name,
        assignable: false,
    });
    let mut translator = Translator {
        variables: variables.collect(),
        slots: predefined.len(),
        known,
    };
    let body = translator.sequence(block, true)?;
    Ok(Program {
        body,
        slots: translator.slots,
    })
}

struct Variable<'a> {
    name: &'a str,
    /// Defined by `let`.
    assignable: bool,
}

struct Translator<'a> {
    /// The variables in scope; the index is the slot.
    variables: Vec<Variable<'a>>,
    slots: usize,
    known: &'a [(String, Known)],
}

impl<'a> Translator<'a> {
    fn sequence(&mut self, block: &Block<'a>, gives: bool) -> Result<Sequence, SyntaxError> {
        let scope = self.variables.len();
        let mut statements = Vec::with_capacity(block.statements.len());
        for statement in &block.statements {
            statements.push(self.statement(statement)?);
        }
        let value = match &block.value {
            Some(node) if gives => Some(self.expression(node)?),
            None if gives => {
                let problem = "a value is missing: this ends without an expression";
                return Err(syntax_error(&block.span, problem));
            }
            Some(Node {
                kind: Kind::If(inner),
                ..
            }) => {
                statements.push(self.if_statement(inner)?);
                None
            }
            Some(node) => {
                return Err(syntax_error(
                    &node.span,
                    "the value of this expression is not used",
                ));
            }
            None => None,
        };
        self.variables.truncate(scope);
        Ok(Sequence { statements, value })
    }

    fn declare(&mut self, name: &'a str, assignable: bool) -> usize {
        self.variables.push(Variable { name, assignable });
        self.slots = self.slots.max(self.variables.len());
        self.variables.len() - 1
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.variables
            .iter()
            .rposition(|variable| variable.name == name)
    }

    fn statement(&mut self, statement: &Statement<'a>) -> Result<Command, SyntaxError> {
        Ok(match statement {
            Statement::Let(name, value) => {
                let value = self.expression(value)?;
                Command::Store(self.declare(name, true), value)
            }
            Statement::Assign {
                name,
                span,
                operator,
                value,
            } => {
                let assignable = |slot: &usize| {
                    self.variables
                        .get(*slot)
                        .is_some_and(|variable| variable.assignable)
                };
                let Some(slot) = self.slot(name).filter(assignable) else {
                    let problem = format!(
                        "`{name}` cannot be assigned: `let {name} = …;` declares a variable"
                    );
                    return Err(syntax_error(span, &problem));
                };
                let right = self.expression(value)?;
                let value = match operator {
                    Some(operator) => Expression::Binary(
                        *operator,
                        Box::new([Expression::Slot(slot), right]),
                        span.start..value.span.end,
                    ),
                    None => right,
                };
                Command::Store(slot, value)
            }
            Statement::If(inner) => self.if_statement(inner)?,
            Statement::While(condition, body) => {
                Command::While(self.expression(condition)?, self.sequence(body, false)?)
            }
            Statement::For {
                name,
                from,
                to,
                body,
            } => {
                let span = from.span.start..to.span.end;
                let (from, to) = (self.expression(from)?, self.expression(to)?);
                let slot = self.declare(name, false);
                let body = self.sequence(body, false)?;
                self.variables.truncate(slot);
                Command::For {
                    slot,
                    from,
                    to,
                    body,
                    span,
                }
            }
        })
    }

    fn if_statement(&mut self, inner: &If<'a>) -> Result<Command, SyntaxError> {
        let condition = self.expression(&inner.condition)?;
        let then = self.sequence(&inner.then, false)?;
        let otherwise = match &inner.otherwise {
            Some(block) => self.sequence(block, false)?,
            None => Sequence {
                statements: Vec::new(),
                value: None,
            },
        };
        Ok(Command::If(condition, then, otherwise))
    }

    fn boxed(&mut self, node: &Node<'a>) -> Result<Box<Expression>, SyntaxError> {
        self.expression(node).map(Box::new)
    }

    fn all(&mut self, nodes: &[Node<'a>]) -> Result<Vec<Expression>, SyntaxError> {
        nodes.iter().map(|node| self.expression(node)).collect()
    }

    fn expression(&mut self, node: &Node<'a>) -> Result<Expression, SyntaxError> {
        let span = node.span.clone();
        Ok(match &node.kind {
            Kind::Number(number) => Expression::Constant(*number),
            Kind::Name(name) => match (self.slot(name), self.known(name)) {
                (Some(slot), _) => Expression::Slot(slot),
                (None, Some(Known::Number(number))) => Expression::Constant(*number),
                (None, Some(Known::Numbers(_))) => {
                    let problem = format!("`{name}` is a buffer: `{name}[i]` is an element of it");
                    return Err(syntax_error(&span, &problem));
                }
                (None, None) => return Err(self.unknown(name, &span)),
            },
            Kind::Element(name, index) => {
                let index = self.boxed(index)?;
                let buffer = self.buffer(name, &(span.start..span.start + name.len()))?;
                Expression::Element(buffer, index, span)
            }
            Kind::Choice(of, index) => {
                Expression::Choice(self.all(of)?, self.boxed(index)?, index.span.clone())
            }
            Kind::Unary(Unary::Negate, of) => Expression::Negate(self.boxed(of)?, span),
            Kind::Unary(Unary::Not, of) => Expression::Not(self.boxed(of)?),
            Kind::Binary(operator, operands) => {
                let [left, right] = operands.as_ref();
                let operands = Box::new([self.expression(left)?, self.expression(right)?]);
                match operator {
                    Binary::And => Expression::And(operands),
                    Binary::Or => Expression::Or(operands),
                    _ => Expression::Binary(*operator, operands, span),
                }
            }
            Kind::Call(name, arguments) => self.call(name, arguments, span)?,
            Kind::If(inner) => {
                let Some(otherwise) = &inner.otherwise else {
                    return Err(syntax_error(&span, "an `if` with a value needs an `else`"));
                };
                Expression::If(Box::new((
                    self.expression(&inner.condition)?,
                    self.sequence(&inner.then, true)?,
                    self.sequence(otherwise, true)?,
                )))
            }
        })
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Node<'a>],
        span: Span,
    ) -> Result<Expression, SyntaxError> {
        let named = span.start..span.start + name.len();
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            let names = FUNCTIONS.iter().map(|function| function.name);
            let near = nearest(name, names).map(|near| format!(": did you mean `{near}`?"));
            let problem = format!("there is no function `{name}`{}", near.unwrap_or_default());
            return Err(syntax_error(&named, &problem));
        };
        if function.arity != arguments.len() {
            let problem = format!(
                "`{name}` takes {}, found {}",
                match function.arity {
                    1 => "1 argument".to_owned(),
                    arity => format!("{arity} arguments"),
                },
                arguments.len()
            );
            return Err(syntax_error(&span, &problem));
        }
        Ok(match (function.body, arguments) {
            (Body::Length, [of]) => {
                Expression::Constant(Value::Int(self.buffer_of(of)?.len() as i64))
            }
            (Body::Count, [of, number]) => {
                Expression::Count(self.buffer_of(of)?, self.boxed(number)?)
            }
            (Body::Sum, [of, from, to]) => {
                let range = Box::new([self.expression(from)?, self.expression(to)?]);
                Expression::Sum(self.buffer_of(of)?, range, span)
            }
            (Body::Dot, [a, i, di, b, j, dj, n]) => {
                let numbers = [
                    self.expression(i)?,
                    self.expression(di)?,
                    self.expression(j)?,
                    self.expression(dj)?,
                    self.expression(n)?,
                ];
                let buffers = [self.buffer_of(a)?, self.buffer_of(b)?];
                Expression::Dot(Box::new(Dot { buffers, numbers }), span)
            }
            (body, arguments) => Expression::Call(body, self.all(arguments)?, span),
        })
    }

    fn buffer_of(&self, node: &Node<'a>) -> Result<Rc<Numbers>, SyntaxError> {
        match &node.kind {
            Kind::Name(name) => self.buffer(name, &node.span),
            _ => Err(syntax_error(&node.span, "expected the name of a buffer")),
        }
    }

    fn buffer(&self, name: &str, span: &Span) -> Result<Rc<Numbers>, SyntaxError> {
        match (self.slot(name), self.known(name)) {
            (None, Some(Known::Numbers(numbers))) => Ok(numbers.clone()),
            (None, None) => Err(self.unknown(name, span)),
            _ => Err(syntax_error(
                span,
                &format!("`{name}` is a number, not a buffer"),
            )),
        }
    }

    /// The innermost variable of this name.
    fn known(&self, name: &str) -> Option<&'a Known> {
        let mut known = self.known.iter().rev();
        known
            .find(|(known, _)| known == name)
            .map(|(_, known)| known)
    }

    fn unknown(&self, name: &str, span: &Span) -> SyntaxError {
        let variables = self.variables.iter().map(|variable| variable.name);
        let known = self.known.iter().map(|(name, _)| name.as_str());
        // All names of one letter are similar.
        let near = nearest(name, variables.chain(known)).filter(|_| name.len() > 1);
        let problem = match near {
            Some(near) => format!("there is no `{name}`: did you mean `{near}`?"),
            None => format!("there is no `{name}` here"),
        };
        syntax_error(span, &problem)
    }
}

fn syntax_error(span: &Span, problem: &str) -> SyntaxError {
    SyntaxError {
        span: span.clone(),
        problem: problem.to_owned(),
    }
}
