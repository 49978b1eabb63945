//! Evaluates a formula.

use super::Numbers;
use super::budget::{Budget, Limit};
use super::function::{binary, call, float, int};
use super::program::{Command, Dot, Expression, Sequence};
use super::syntax::{Binary, Span};
use crate::element::Value;

/// An evaluation error.
#[derive(Debug)]
pub(super) enum EvaluationError {
    Wrong { span: Span, problem: String },
    Limit(Limit),
}

impl From<Limit> for Box<EvaluationError> {
    fn from(limit: Limit) -> Self {
        Box::new(EvaluationError::Limit(limit))
    }
}

/// Boxed, so that a result is as small as a value.
pub(super) type Outcome<T> = Result<T, Box<EvaluationError>>;

/// The variables of a formula, and its budget.
pub(super) struct Machine<'a> {
    pub slots: Vec<Value>,
    pub budget: &'a Budget,
}

impl Machine<'_> {
    /// The value of a sequence, or 0 if it has none.
    pub fn value(&mut self, sequence: &Sequence) -> Outcome<Value> {
        for statement in &sequence.statements {
            self.run(statement)?;
        }
        match &sequence.value {
            Some(expression) => self.evaluate(expression),
            None => Ok(Value::Int(0)),
        }
    }

    fn store(&mut self, slot: usize, value: Value) {
        if let Some(variable) = self.slots.get_mut(slot) {
            *variable = value;
        }
    }

    fn run(&mut self, command: &Command) -> Outcome<()> {
        match command {
            Command::Store(slot, value) => {
                let value = self.evaluate(value)?;
                self.store(*slot, value);
            }
            Command::If(condition, then, otherwise) => {
                let chosen = if self.holds(condition)? {
                    then
                } else {
                    otherwise
                };
                self.value(chosen)?;
            }
            Command::While(condition, body) => {
                while self.holds(condition)? {
                    self.value(body)?;
                }
            }
            Command::For {
                slot,
                from,
                to,
                body,
                span,
            } => {
                let (from, to) = (self.whole(from, span)?, self.whole(to, span)?);
                for index in from..to {
                    self.budget.step(1)?;
                    self.store(*slot, Value::Int(index));
                    self.value(body)?;
                }
            }
        }
        Ok(())
    }

    fn holds(&mut self, condition: &Expression) -> Outcome<bool> {
        Ok(match self.evaluate(condition)? {
            Value::Int(number) => number != 0,
            Value::Float(number) => number != 0.0,
        })
    }

    fn whole(&mut self, expression: &Expression, span: &Span) -> Outcome<i64> {
        at(span, int(self.evaluate(expression)?))
    }

    fn evaluate(&mut self, expression: &Expression) -> Outcome<Value> {
        self.budget.step(1)?;
        Ok(match expression {
            Expression::Constant(value) => *value,
            Expression::Slot(slot) => self.slots.get(*slot).copied().unwrap_or(Value::Int(0)),
            Expression::Element(buffer, index, span) => {
                let index = self.whole(index, span)?;
                at(span, element(buffer, index))?
            }
            Expression::Choice(of, index, span) => {
                let index = self.whole(index, span)?;
                let chosen = usize::try_from(index).ok().and_then(|index| of.get(index));
                let missing = || format!("number {index} of a list of {}", of.len());
                let chosen = at(span, chosen.ok_or_else(missing))?;
                self.evaluate(chosen)?
            }
            Expression::Negate(of, span) => match self.evaluate(of)? {
                Value::Int(number) => {
                    let negated = number.checked_neg();
                    let overflow = || "integer overflow".to_owned();
                    Value::Int(at(span, negated.ok_or_else(overflow))?)
                }
                Value::Float(number) => Value::Float(-number),
            },
            Expression::Not(of) => truth(!self.holds(of)?),
            Expression::And(operands) => {
                let [left, right] = operands.as_ref();
                truth(self.holds(left)? && self.holds(right)?)
            }
            Expression::Or(operands) => {
                let [left, right] = operands.as_ref();
                truth(self.holds(left)? || self.holds(right)?)
            }
            Expression::Binary(operator, operands, span) => {
                let [left, right] = operands.as_ref();
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                at(span, binary(*operator, left, right))?
            }
            Expression::Call(body, arguments, span) => {
                let mut values = [Value::Int(0); 3];
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = self.evaluate(argument)?;
                }
                at(span, call(*body, &values))?
            }
            Expression::Count(buffer, number) => {
                let number = self.evaluate(number)?;
                self.budget.step(buffer.len() as u64)?;
                Value::Int(count(buffer, number))
            }
            Expression::Sum(buffer, range, span) => {
                let [from, to] = range.as_ref();
                let (from, to) = (self.whole(from, span)?, self.whole(to, span)?);
                self.budget.step(from.abs_diff(to.max(from)))?;
                at(span, sum(buffer, from, to))?
            }
            Expression::Dot(product, span) => {
                let mut numbers = [0; 5];
                for (number, expression) in numbers.iter_mut().zip(&product.numbers) {
                    *number = self.whole(expression, span)?;
                }
                self.budget.step(numbers[4].max(0).unsigned_abs())?;
                at(span, dot(product, numbers))?
            }
            Expression::If(inner) => {
                let (condition, then, otherwise) = inner.as_ref();
                let chosen = if self.holds(condition)? {
                    then
                } else {
                    otherwise
                };
                self.value(chosen)?
            }
        })
    }
}

fn truth(truth: bool) -> Value {
    Value::Int(i64::from(truth))
}

fn at<T>(span: &Span, result: Result<T, String>) -> Outcome<T> {
    result.map_err(|problem| {
        Box::new(EvaluationError::Wrong {
            span: span.clone(),
            problem,
        })
    })
}

fn element(buffer: &Numbers, index: i64) -> Result<Value, String> {
    usize::try_from(index)
        .ok()
        .and_then(|index| buffer.get(index))
        .ok_or_else(|| format!("index {index} of a buffer of {}", buffer.len()))
}

fn count(buffer: &Numbers, number: Value) -> i64 {
    let numbers = (0..buffer.len()).filter_map(|index| buffer.get(index));
    let equal = numbers.filter(|&other| binary(Binary::Equal, other, number) == Ok(Value::Int(1)));
    equal.count() as i64
}

fn sum(buffer: &Numbers, from: i64, to: i64) -> Result<Value, String> {
    let mut total = Value::Int(0);
    for index in from..to {
        total = match (total, element(buffer, index)?) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_add(b)),
            (a, b) => Value::Float(float(a) + float(b)),
        };
    }
    Ok(total)
}

fn dot(product: &Dot, [i, di, j, dj, count]: [i64; 5]) -> Result<Value, String> {
    let [a, b] = &product.buffers;
    let index = |start: i64, step: i64, k: i64| {
        step.checked_mul(k)
            .and_then(|offset| offset.checked_add(start))
            .unwrap_or(-1)
    };
    let mut total = 0.0;
    for k in 0..count {
        let x = float(element(a, index(i, di, k))?);
        let y = float(element(b, index(j, dj, k))?);
        total += x * y;
    }
    Ok(Value::Float(total))
}
