//! The TOML structure of a sample file.

use std::path::PathBuf;

use serde::Deserialize;

use crate::element::{Element, Value};
use crate::expect::Tolerance;

/// The structure of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub ptx: Option<PathBuf>,
    pub kernel: Option<String>,
    pub grid: Extent,
    pub block: Extent,
    #[serde(default)]
    pub shared: u32,
    pub launches: Option<u32>,
    #[serde(default)]
    pub args: Vec<ArgText>,
    #[serde(default)]
    pub globals: Vec<GlobalText>,
    pub expect_error: Option<ErrorText>,
    pub expect_output: Option<String>,
    #[serde(default)]
    pub unordered_lines: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgText {
    pub name: String,
    pub buffer: Option<Element>,
    pub count: Option<Count>,
    #[serde(default)]
    pub pitched: bool,
    pub init: Option<Content>,
    pub expect: Option<Content>,
    pub tolerance: Option<ToleranceText>,
    pub tensor: Option<TensorText>,
    pub scalar: Option<Element>,
    pub value: Option<Numbers>,
    pub pitch_of: Option<String>,
    pub fields: Option<Vec<FieldText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorText {
    /// Elements of a box, the contiguous dimension first.
    #[serde(rename = "box")]
    pub elements: Vec<u32>,
    /// Those of the tensor, in the same order.
    pub sizes: Option<Vec<u64>>,
    #[serde(default)]
    pub swizzle: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldText {
    pub name: String,
    pub scalar: Element,
    pub value: Numbers,
    pub align: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobalText {
    pub name: String,
    pub element: Element,
    pub count: Option<Count>,
    pub init: Option<Content>,
    pub expect: Option<Content>,
    pub tolerance: Option<ToleranceText>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(super) struct ToleranceText {
    #[serde(default)]
    pub absolute: f64,
    #[serde(default)]
    pub relative: f64,
    #[serde(default)]
    pub ulp: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorText {
    pub code: String,
    pub stderr_contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a whole number, or a list of one to three of them"
)]
pub(super) enum Extent {
    X(u32),
    Axes(Vec<u32>),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "a number of elements, or [rows, columns]")]
pub(super) enum Count {
    Elements(usize),
    Rows([usize; 2]),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "a number")]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or a list of numbers")]
pub(super) enum Numbers {
    One(Number),
    Many(Vec<Number>),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a pattern or formula in quotes, or a list of numbers"
)]
pub(super) enum Content {
    Text(String),
    Numbers(Vec<Number>),
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        match number {
            Number::Int(number) => Value::Int(number),
            Number::Float(number) => Value::Float(number),
        }
    }
}

impl Numbers {
    pub fn values(&self) -> Vec<Value> {
        match self {
            Numbers::One(number) => vec![(*number).into()],
            Numbers::Many(numbers) => numbers.iter().map(|&number| number.into()).collect(),
        }
    }
}

impl From<ToleranceText> for Tolerance {
    fn from(text: ToleranceText) -> Tolerance {
        Tolerance {
            absolute: text.absolute,
            relative: text.relative,
            ulp: text.ulp,
            nan_bits: false,
        }
    }
}
