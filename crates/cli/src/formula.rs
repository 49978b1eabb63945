//! Formulas of sample files: what a buffer holds, worked out on the host.
//!
//! A formula is an expression or a short script of the [Rhai](https://rhai.rs/book) language,
//! worked out once for each element. It sees
//!
//! - `i`, the index of the element, `n_elements`, and in a buffer of rows also `row`, `col`,
//!   `rows` and `cols`;
//! - every scalar argument by its name, and every buffer and module variable as an array of what
//!   it holds before the launch (`a[i]`);
//! - the functions of Rhai (`sqrt`, `exp`, `min`, `to_float` …) and those of [`FUNCTIONS`].
//!
//! Numbers are `i64` and `f64`; a float of a narrower element is rounded to nearest even when it
//! is compared. A formula whose value is an array gives all elements at once.

use std::rc::Rc;

use rhai::{AST, Array, Dynamic, Engine, EvalAltResult, Scope};

use super::element::{Element, Value};
use super::pattern;

/// The functions a formula has besides Rhai's own.
pub const FUNCTIONS: &str = "\
f32(x) f16(x) bf16(x)   x rounded to that type
fma(a, b, c)            a*b + c, rounded once, in double precision
bits32(x) bits64(x)     the bits of x as f32 or f64
wrap32(x)               the low 32 bits of x, as an unsigned number
mul64(a, b)             the low 64 bits of a*b
popcount(x)             the ones among the 64 bits of x
sum(a, from, to)        a[from] + … + a[to - 1]
dot(a, i, di, b, j, dj, n)   a[i]*b[j] + a[i+di]*b[j+dj] + …, n products
random(seed, i)         63 random bits
uniform(seed, i)        a random multiple of 2^-24 in [0, 1)";

/// The number of elements, and how they are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Elements in all.
    pub count: usize,
    /// Elements of a row, where there are rows.
    pub columns: Option<usize>,
}

/// The largest buffer of a sample, in bytes.
const LARGEST: usize = 4 << 30;

impl Shape {
    /// Whether a buffer may have so many elements.
    pub(crate) fn fits(count: usize, element: Element) -> bool {
        count > 0 && count <= LARGEST / element.size()
    }
}

/// What a formula knows by a name.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Number(Value),
    Numbers(Rc<[Value]>),
}

/// A formula that could not be read or worked out.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    #[error("the formula `{formula}` cannot be read: {problem}")]
    Syntax { formula: String, problem: String },
    #[error("the formula `{formula}` fails at i = {index}: {problem}")]
    Evaluation {
        formula: String,
        index: usize,
        problem: String,
    },
    #[error("the formula `{formula}` gives {given} elements, the buffer has {wanted}")]
    Length {
        formula: String,
        given: usize,
        wanted: usize,
    },
}

/// Works out formulas over the names it was told.
pub(crate) struct Calculator {
    engine: Engine,
    scope: Scope<'static>,
}

/// An array inside a formula; shared, so that handing it over copies nothing.
#[derive(Clone)]
struct Numbers(Rc<[Value]>);

type Outcome<T> = Result<T, Box<EvalAltResult>>;

impl Calculator {
    pub(crate) fn new() -> Self {
        let mut engine = Engine::new();
        // A formula that never ends, or grows for ever, must end with a message.
        engine.set_max_operations(200_000_000);
        engine.set_max_array_size(1 << 26);
        engine.set_max_string_size(1 << 16);
        // Standard output belongs to the kernel and to the report.
        engine.on_print(|_| {}).on_debug(|_, _, _| {});
        register(&mut engine);
        Calculator {
            engine,
            scope: Scope::new(),
        }
    }

    /// Makes `name` known to the formulas that follow.
    pub(crate) fn learn(&mut self, name: &str, known: Known) {
        let value = match known {
            Known::Number(value) => dynamic(value),
            Known::Numbers(values) => Dynamic::from(Numbers(values)),
        };
        self.scope.push_dynamic(name.to_owned(), value);
    }

    /// The elements that `formula` gives.
    pub(crate) fn elements(
        &mut self,
        formula: &str,
        shape: Shape,
    ) -> Result<Vec<Value>, FormulaError> {
        let script = self
            .engine
            .compile(formula)
            .map_err(|error| FormulaError::Syntax {
                formula: formula.to_owned(),
                problem: error.to_string(),
            })?;
        let known = self.scope.len();
        let elements = self.evaluate(formula, &script, shape);
        self.scope.rewind(known);
        elements
    }

    fn evaluate(
        &mut self,
        formula: &str,
        script: &AST,
        shape: Shape,
    ) -> Result<Vec<Value>, FormulaError> {
        let failure = |index, problem: String| FormulaError::Evaluation {
            formula: formula.to_owned(),
            index,
            problem,
        };
        let number = |number: usize| number as i64;
        self.scope.push("n_elements", number(shape.count));
        if let Some(columns) = shape.columns {
            self.scope.push("cols", number(columns));
            self.scope
                .push("rows", number(shape.count / columns.max(1)));
        }
        let named = self.scope.len();
        let mut elements = Vec::with_capacity(shape.count);
        for index in 0..shape.count {
            self.scope.push("i", number(index));
            if let Some(columns) = shape.columns {
                self.scope.push("row", number(index / columns.max(1)));
                self.scope.push("col", number(index % columns.max(1)));
            }
            let value = self
                .engine
                .eval_ast_with_scope::<Dynamic>(&mut self.scope, script)
                .map_err(|error| failure(index, error.to_string()))?;
            self.scope.rewind(named);
            if index == 0 && value.is_array() {
                return all_at_once(formula, value, shape.count);
            }
            let kind = value.type_name();
            elements
                .push(plain(&value).ok_or_else(|| {
                    failure(index, format!("a number is wanted, this is {kind}"))
                })?);
        }
        Ok(elements)
    }
}

fn all_at_once(formula: &str, value: Dynamic, wanted: usize) -> Result<Vec<Value>, FormulaError> {
    let array: Array = value.into_array().unwrap_or_default();
    if array.len() != wanted {
        return Err(FormulaError::Length {
            formula: formula.to_owned(),
            given: array.len(),
            wanted,
        });
    }
    array
        .iter()
        .enumerate()
        .map(|(index, value)| {
            plain(value).ok_or_else(|| FormulaError::Evaluation {
                formula: formula.to_owned(),
                index,
                problem: format!("a number is wanted, this is {}", value.type_name()),
            })
        })
        .collect()
}

fn dynamic(value: Value) -> Dynamic {
    match value {
        Value::Int(number) => Dynamic::from_int(number),
        Value::Float(number) => Dynamic::from_float(number),
    }
}

fn plain(value: &Dynamic) -> Option<Value> {
    if let Ok(number) = value.as_int() {
        Some(Value::Int(number))
    } else if let Ok(number) = value.as_float() {
        Some(Value::Float(number))
    } else {
        value
            .as_bool()
            .ok()
            .map(|truth| Value::Int(i64::from(truth)))
    }
}

fn register(engine: &mut Engine) {
    engine
        .register_type_with_name::<Numbers>("buffer")
        .register_indexer_get(|numbers: &mut Numbers, index: i64| numbers.at(index).map(dynamic))
        .register_fn("len", |numbers: &mut Numbers| numbers.0.len() as i64)
        .register_fn("sum", sum)
        .register_fn("dot", dot);
    for element in [Element::F32, Element::F16, Element::Bf16] {
        engine
            .register_fn(element.name(), move |x: f64| element.round(x))
            .register_fn(element.name(), move |x: i64| element.round(x as f64));
    }
    engine
        .register_fn("fma", |a: f64, b: f64, c: f64| a.mul_add(b, c))
        .register_fn("bits32", |x: f64| i64::from((x as f32).to_bits()))
        .register_fn("bits64", |x: f64| x.to_bits() as i64)
        .register_fn("wrap32", |x: i64| x & 0xffff_ffff)
        .register_fn("mul64", i64::wrapping_mul)
        .register_fn("popcount", |x: i64| i64::from(x.count_ones()))
        .register_fn("random", |seed: i64, index: i64| {
            (pattern::random(seed as u64, index as u64) >> 1) as i64
        })
        .register_fn("uniform", |seed: i64, index: i64| {
            pattern::uniform(pattern::random(seed as u64, index as u64), 24)
        });
}

impl Numbers {
    fn at(&self, index: i64) -> Outcome<Value> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.0.get(index))
            .copied()
            .ok_or_else(|| format!("index {index} of a buffer of {}", self.0.len()).into())
    }
}

fn float(value: Value) -> f64 {
    match value {
        Value::Int(number) => number as f64,
        Value::Float(number) => number,
    }
}

fn sum(numbers: &mut Numbers, from: i64, to: i64) -> Outcome<Dynamic> {
    let mut total = Value::Int(0);
    for index in from..to {
        total = match (total, numbers.at(index)?) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_add(b)),
            (a, b) => Value::Float(float(a) + float(b)),
        };
    }
    Ok(dynamic(total))
}

fn dot(
    a: &mut Numbers,
    a_start: i64,
    a_step: i64,
    b: Numbers,
    b_start: i64,
    b_step: i64,
    count: i64,
) -> Outcome<f64> {
    let at = |start: i64, step: i64, k: i64| {
        step.checked_mul(k)
            .and_then(|offset| offset.checked_add(start))
            .unwrap_or(-1)
    };
    let mut total = 0.0;
    for k in 0..count {
        let x = float(a.at(at(a_start, a_step, k))?);
        let y = float(b.at(at(b_start, b_step, k))?);
        total += x * y;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(formula: &str, count: usize) -> Result<Vec<Value>, FormulaError> {
        let mut calculator = Calculator::new();
        calculator.learn("n", Known::Number(Value::Int(3)));
        let a = [1.5, 2.5, 4.0].map(Value::Float);
        calculator.learn("a", Known::Numbers(Rc::from(a)));
        let shape = Shape {
            count,
            columns: Some(2),
        };
        calculator.elements(formula, shape)
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
        assert_eq!(elements("sum(a, 0, n)", 1).unwrap(), [Float(8.0)]);
        assert_eq!(
            elements("dot(a, 0, 1, a, 2, -1, 3)", 1).unwrap(),
            [Float(6.0 + 6.25 + 6.0)]
        );
        assert_eq!(elements("f16(2049)", 1).unwrap(), [Float(2048.0)]);
        assert_eq!(elements("i == 1", 2).unwrap(), [Int(0), Int(1)]);
    }

    #[test]
    fn an_array_is_all_elements() {
        let script = "let all = []; for k in 0..n { all.push(k * k); } all";
        let script = script.replace("all.push(k * k)", "all += k * k");
        assert_eq!(elements(&script, 3).unwrap(), [0, 1, 4].map(Value::Int));
        let error = elements("[1, 2]", 3).unwrap_err();
        assert!(matches!(
            error,
            FormulaError::Length {
                given: 2,
                wanted: 3,
                ..
            }
        ));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = |formula| elements(formula, 3).unwrap_err().to_string();
        assert!(text("a[i").contains("cannot be read"));
        assert!(text("b[i]").contains('b'));
        assert!(text("a[i + 1]").contains("fails at i = 2: "));
        assert!(text("a[i + 1]").contains("index 3 of a buffer of 3"));
        assert!(text("\"x\"").contains("a number is wanted"));
        assert!(text("loop { }").contains("operations"));
        assert!(text("let s = \"ab\"; loop { s += s; }").contains("too large"));
        assert!(text("i / 0").contains("by zero"));
        assert!(text("9223372036854775807 + i").contains("overflow"));
    }

    #[test]
    fn every_function_named_in_the_help_exists() {
        let calls = "f32(0.1) f16(0.1) bf16(0.1) fma(1.0,2.0,3.0) bits32(1.0) bits64(1.0) wrap32(-1) \
                     mul64(2,3) popcount(7) sum(a,0,1) dot(a,0,1,a,0,1,1) random(1,2) uniform(1,2)";
        for call in calls.split_whitespace() {
            let name = &call[..=call.find('(').unwrap()];
            assert!(FUNCTIONS.contains(name), "{name}");
            elements(call, 1).unwrap();
        }
    }
}
