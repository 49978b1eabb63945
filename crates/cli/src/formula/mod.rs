//! Formulas of sample files: contents of buffers, evaluated on the host.
//!
//! A formula is an expression, optionally preceded by variables and loops. It is evaluated once for
//! each element. `docs/samples.md` describes the language.
//!
//! Numbers are `i64` and `f64`. A float for a narrower element is rounded to nearest even before the
//! comparison. All formulas of a run share a budget of steps, time and memory.

mod budget;
mod evaluate;
mod function;
mod parse;
mod program;
mod syntax;

use std::fmt;
use std::rc::Rc;

use self::budget::Budget;
pub use self::budget::Limit;
use self::evaluate::{EvaluationError, Machine};
pub use self::function::{FUNCTIONS, Function};
use self::parse::SyntaxError;
use self::program::Program;
use self::syntax::Span;
use super::element::{Element, Value};

/// The number of elements, and their arrangement in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The total number of elements.
    pub count: usize,
    /// The number of elements of a row, if there are rows.
    pub columns: Option<usize>,
}

/// The largest buffer of a sample, in bytes.
const MAX_BUFFER_BYTES: usize = 4 << 30;

impl Shape {
    /// Whether a buffer may have this number of elements.
    pub(crate) fn fits(count: usize, element: Element) -> bool {
        count > 0 && count <= MAX_BUFFER_BYTES / element.size()
    }
}

/// The definition of a name.
#[derive(Debug)]
pub(crate) enum Known {
    Number(Value),
    Numbers(Rc<Numbers>),
}

/// The elements of a buffer in their memory layout.
#[derive(Debug)]
pub(crate) struct Numbers {
    element: Element,
    bytes: Box<[u8]>,
}

impl Numbers {
    fn len(&self) -> usize {
        self.bytes.len() / self.element.size()
    }

    fn get(&self, index: usize) -> Option<Value> {
        let start = index.checked_mul(self.element.size())?;
        self.element.decode(self.bytes.get(start..)?)
    }
}

/// A formula that cannot be parsed or evaluated.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    #[error("invalid formula: {problem}{place}")]
    Syntax { problem: String, place: Box<Place> },
    #[error("the formula fails at i = {index}: {problem}{place}")]
    Evaluation {
        index: usize,
        problem: String,
        place: Box<Place>,
    },
    #[error("the formula `{formula}` fails at i = {index}: {limit}")]
    Limit {
        formula: String,
        index: usize,
        limit: Limit,
    },
}

/// A part of a formula, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The source line, without leading white space.
    text: String,
    /// The offset and length of the marked characters of `text`.
    marked: (usize, usize),
}

impl Place {
    fn new(formula: &str, span: &Span) -> Box<Place> {
        let characters = |range: Span| formula.get(range).unwrap_or_default().chars().count();
        let before = formula.get(..span.start).unwrap_or(formula);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = formula.get(start..).unwrap_or_default();
        let line = line.lines().next().unwrap_or_default();
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let end = span.end.min(start + line.len());
        Box::new(Place {
            line: before.matches('\n').count() + 1,
            column: characters(start..span.start) + 1,
            text: text.to_owned(),
            marked: (
                characters(start + indent..span.start),
                characters(span.start..end).max(1),
            ),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, text, .. } = self;
        let (before, length) = self.marked;
        let head = format!("line {line}: ");
        let indent = head.len() + before;
        write!(f, "\n  {head}{text}\n  {:indent$}{:^<length$}", "", "")
    }
}

/// Evaluates formulas over defined names.
#[derive(Default)]
pub(crate) struct Calculator {
    known: Vec<(String, Known)>,
    budget: Budget,
}

impl Calculator {
    pub(crate) fn new() -> Self {
        Calculator::default()
    }

    /// Defines a number as `name` for later formulas.
    pub(crate) fn define_number(&mut self, name: &str, number: Value) {
        self.known.push((name.to_owned(), Known::Number(number)));
    }

    /// Defines the elements in `bytes` as `name` for later formulas.
    ///
    /// # Errors
    /// [`Limit::Memory`]
    pub(crate) fn define_numbers(
        &mut self,
        name: &str,
        element: Element,
        bytes: &[u8],
    ) -> Result<(), Limit> {
        let mut copy = self.memory(bytes.len())?;
        copy.extend_from_slice(bytes);
        let numbers = Numbers {
            element,
            bytes: copy.into(),
        };
        self.known
            .push((name.to_owned(), Known::Numbers(Rc::new(numbers))));
        Ok(())
    }

    /// Allocates `bytes` bytes for a buffer or an expectation.
    ///
    /// # Errors
    /// [`Limit::Memory`], or [`Limit::OutOfMemory`].
    pub(crate) fn memory(&self, bytes: usize) -> Result<Vec<u8>, Limit> {
        self.budget.hold(bytes as u64)?;
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(bytes)
            .map_err(|_| Limit::OutOfMemory(bytes as u64))?;
        Ok(buffer)
    }

    /// Evaluates the elements of `formula`, one after the other.
    ///
    /// # Errors
    /// The formula is invalid. An element that cannot be evaluated is an error item.
    pub(crate) fn elements<'a>(
        &'a self,
        formula: &'a str,
        shape: Shape,
    ) -> Result<impl Iterator<Item = Result<Value, FormulaError>> + 'a, FormulaError> {
        let program =
            self.translate(formula, shape)
                .map_err(|syntax_error| FormulaError::Syntax {
                    place: Place::new(formula, &syntax_error.span),
                    problem: syntax_error.problem,
                })?;
        let mut machine = Machine {
            slots: vec![Value::Int(0); program.slots],
            budget: &self.budget,
        };
        let number = |number: usize| Value::Int(number as i64);
        Ok((0..shape.count).map(move |index| {
            let columns = shape.columns.unwrap_or(shape.count).max(1);
            let variables = [
                index,
                shape.count,
                index / columns,
                index % columns,
                shape.count / columns,
                columns,
            ];
            for (slot, variable) in machine.slots.iter_mut().zip(variables) {
                *slot = number(variable);
            }
            machine.value(&program.body).map_err(|error| match *error {
                EvaluationError::Wrong { span, problem } => FormulaError::Evaluation {
                    index,
                    problem,
                    place: Place::new(formula, &span),
                },
                EvaluationError::Limit(limit) => FormulaError::Limit {
                    formula: formula.trim().to_owned(),
                    index,
                    limit,
                },
            })
        }))
    }

    fn translate(&self, formula: &str, shape: Shape) -> Result<Program, SyntaxError> {
        let predefined = match shape.columns {
            Some(_) => &PREDEFINED[..],
            None => &PREDEFINED[..2],
        };
        program::translate(&parse::parse(formula)?, predefined, &self.known)
    }
}

/// The predefined variables of a formula; the last four only for buffers with rows.
const PREDEFINED: [&str; 6] = ["i", "n_elements", "row", "col", "rows", "cols"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn calculator(budget: Budget) -> Calculator {
        let mut calculator = Calculator {
            budget,
            ..Calculator::default()
        };
        calculator.define_number("n", Value::Int(3));
        let a: Vec<u8> = [1.5f64, 2.5, 4.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        calculator.define_numbers("a", Element::F64, &a).unwrap();
        calculator
    }

    fn within(budget: Budget, formula: &str, count: usize) -> Result<Vec<Value>, FormulaError> {
        let shape = Shape {
            count,
            columns: Some(2),
        };
        calculator(budget).elements(formula, shape)?.collect()
    }

    fn elements(formula: &str, count: usize) -> Result<Vec<Value>, FormulaError> {
        within(Budget::default(), formula, count)
    }

    fn one(formula: &str) -> Value {
        elements(formula, 1).unwrap_or_else(|error| panic!("{formula}: {error}"))[0]
    }

    #[test]
    fn a_formula_sees_its_names() {
        use Value::{Float, Int};
        assert_eq!(elements("i * n", 3).unwrap(), [Int(0), Int(3), Int(6)]);
        assert_eq!(elements("a[i] * 2", 2).unwrap(), [Float(3.0), Float(5.0)]);
        assert_eq!(
            elements("row * 10 + col + rows * cols", 4).unwrap(),
            [Int(4), Int(5), Int(14), Int(15)]
        );
        assert_eq!(one("sum(a, 0, n)"), Float(8.0));
        assert_eq!(one("dot(a, 0, 1, a, 2, -1, 3)"), Float(6.0 + 6.25 + 6.0));
        assert_eq!(one("count(a, 4) * 10 + count(a, n)"), Int(10));
        assert_eq!(one("f16(2049)"), Float(2048.0));
        assert_eq!(elements("i == 1", 2).unwrap(), [Int(0), Int(1)]);
        assert_eq!(one("len(a) + n_elements"), Int(4));
    }

    #[test]
    fn operators_bind_as_in_rust() {
        use Value::{Float, Int};
        for (formula, value) in [
            ("1 + 2 * 3 - 4 / 2", Int(5)),
            ("10 - 3 - 2", Int(5)),
            ("-2 ** 2", Int(-4)),
            ("2 ** 3 ** 2", Int(512)),
            ("2 ** -1", Float(0.5)),
            ("-7 / 2 * 10 + -7 % 2", Int(-31)),
            ("1 | 6 ^ 2 & 3 << 1", Int(5)),
            ("1 + 1 << 2", Int(8)),
            ("1 < 2 && !(3 <= 2) || 1 / 0", Int(1)),
            ("0 && 1 / 0", Int(0)),
            ("1 == 1.0", Int(1)),
            ("7 / 2.0", Float(3.5)),
            ("0xff_ff + 0b11", Int(0x1_0002)),
            ("0xffffffffffffffff", Int(-1)),
            ("1e3 + 1.5e-1", Float(1000.15)),
            ("[5, 1 / 0, 7][2]", Int(7)),
            ("(n + 1) // a comment\n * 2", Int(8)),
            ("max(n, 2.5) + min(1, 2) + abs(-4)", Float(8.0)),
            ("to_int(-2.7)", Int(-2)),
        ] {
            assert_eq!(one(formula), value, "{formula}");
        }
    }

    #[test]
    fn variables_loops_and_conditions() {
        use Value::Int;
        for (formula, value) in [
            ("let x = 2; let y = x * x; y + 1", 5),
            ("let x = 1; let x = x + 1; x", 2),
            ("let x = 1; for k in 0..5 { x *= 2 } x", 32),
            ("let x = 1; for k in 5..0 { x = 0; } x", 1),
            (
                "let x = 27; let n = 0; while x != 1 { x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 }; n += 1; } n",
                111,
            ),
            (
                "let x = 5; if x > 3 { x -= 1; } if x == 4 { x = 9 } else { x = 0 } x",
                9,
            ),
            (
                "if n == 1 { 10 } else if n == 3 { let y = 2; y * 15 } else { 20 }",
                30,
            ),
            ("let x = 1; if n == 3 { let x = 5; } x", 1),
            (
                "let w = 0; for k in 0..4 { if k % 2 == 0 { w |= 1 << k; } } w",
                5,
            ),
            ("if n > 2 { 1 } else { 0 } + 4", 5),
        ] {
            assert_eq!(one(formula), Int(value), "{formula}");
        }
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_stands() {
        let text = |formula| elements(formula, 3).unwrap_err().to_string();
        assert_eq!(
            text("let x = 1;\n  x + aa[i]"),
            "invalid formula: there is no `aa`: did you mean `a`?\n  \
             line 2: x + aa[i]\n              ^^"
        );
        assert_eq!(
            text("a[i + 1]"),
            "the formula fails at i = 2: index 3 of a buffer of 3\n  \
             line 1: a[i + 1]\n          ^^^^^^^^"
        );
        for (formula, problem) in [
            ("", "a value is missing"),
            (
                "a[i",
                "expected `]` or an operator, found the end of the formula",
            ),
            ("1 +", "expected a number, a name or `(`, found the end"),
            (
                "1 2",
                "expected an operator, `;` or the end of the formula, found `2`",
            ),
            ("1; 2", "the value of this expression is not used"),
            ("(1", "expected `)` or an operator"),
            ("max(1,)", "expected a number, a name or `(`, found `)`"),
            ("max(1)", "`max` takes 2 arguments, found 1"),
            (
                "maxx(1, 2)",
                "there is no function `maxx`: did you mean `max`?",
            ),
            ("sleep(1000)", "there is no function `sleep`"),
            ("a", "`a` is a buffer"),
            ("n[0]", "`n` is a number, not a buffer"),
            ("sum(n, 0, 1)", "`n` is a number, not a buffer"),
            ("i = 2; i", "`i` cannot be assigned"),
            ("let if = 2; 1", "expected a name, found `if`"),
            ("if i { 1 }", "an `if` with a value needs an `else`"),
            ("if i { 1 } else { let x = 2; }", "a value is missing"),
            ("let all = []; all", "expected a number, a name or `(`"),
            ("[1, 2]", "expected `[` and an index"),
            ("[1, 2][i]", "number 2 of a list of 2"),
            ("loop { }", "expected an operator"),
            ("\"x\"", "expected a number, a name or `(`, found `\"`"),
            ("1x", "`1x` is not a 64-bit number"),
            ("99999999999999999999", "is not a 64-bit number"),
            ("1 / i", "division by zero"),
            ("9223372036854775807 + i", "overflow"),
            ("1 << 64", "invalid shift by 64 bits"),
            ("1.5 & 1", "expected an integer, found the float 1.5"),
            ("a[0.5]", "expected an integer"),
        ] {
            let text = text(formula);
            assert!(text.contains(problem), "{formula}: {text}");
        }
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let deep =
            |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for formula in [
            deep("(", ")"),
            deep("-", ""),
            deep("[", "][0]"),
            deep("max(1, ", ")"),
            deep("if 1 { ", " } else { 0 }"),
            deep("2 ** ", ""),
            "1 + ".repeat(100_000) + "1",
            "if 0 { 1 } else ".repeat(100_000) + "{ 2 }",
        ] {
            let error = elements(&formula, 1).unwrap_err().to_string();
            assert!(
                error.contains("nested deeper") || error.contains("operands and operators"),
                "{}",
                error.get(..200).unwrap_or(&error)
            );
        }
        assert_eq!(one(&("1 + ".repeat(240) + "1")), Value::Int(241));
        let nested = format!("{}1{}", "(".repeat(30), ")".repeat(30));
        assert_eq!(one(&nested), Value::Int(1));
    }

    #[test]
    fn all_formulas_of_a_run_share_one_budget() {
        let steps = |formula, count| {
            let budget = Budget::new(10_000, Duration::MAX, u64::MAX);
            within(budget, formula, count).unwrap_err().to_string()
        };
        for formula in [
            "while 1 { } 0",
            "for k in 0..1000000000000 { } 0",
            "dot(a, 0, 0, a, 0, 0, 1000000000000)",
            "sum(a, -9223372036854775807, 9223372036854775807)",
        ] {
            let text = steps(formula, 1);
            assert!(text.contains("limit of 10000 steps"), "{formula}: {text}");
        }
        // A single element is far below the limit.
        let text = steps("let x = 0; for k in 0..100 { x += k } x", 1000);
        assert!(text.contains("fails at i = 24: "), "{text}");

        let budget = Budget::new(u64::MAX, Duration::ZERO, u64::MAX);
        let text = within(budget, "while 1 { } 0", 1).unwrap_err().to_string();
        assert!(text.contains("limit of 0 s"), "{text}");

        let small = Budget::new(u64::MAX, Duration::MAX, 100);
        let mut calculator = Calculator {
            budget: small,
            ..Calculator::default()
        };
        calculator
            .define_numbers("a", Element::U8, &[0; 60])
            .unwrap();
        let error = calculator.define_numbers("b", Element::U8, &[0; 60]);
        assert_eq!(error, Err(Limit::Memory(100)));
    }

    #[test]
    fn every_function_can_be_called() {
        for function in FUNCTIONS {
            let call = match (function.name, function.arity) {
                ("len", _) => "len(a)".to_owned(),
                ("count", _) => "count(a, 1)".to_owned(),
                ("sum", _) => "sum(a, 0, 1)".to_owned(),
                ("dot", _) => "dot(a, 0, 1, a, 0, 1, 1)".to_owned(),
                (name, arity) => format!("{name}({})", vec!["1"; arity].join(", ")),
            };
            one(&call);
        }
    }
}
