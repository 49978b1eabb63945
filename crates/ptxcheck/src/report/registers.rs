//! The registers of a function, and what their values have to do with the thread.

use std::collections::HashMap;

use serde::Serialize;

use super::functions::register_name;
use super::text::Places;
use analysis::dependence::{BITS, Dependence, Linear, Sources};
use lint::FunctionContext;
use lint::flow::{Divergence, ValueId, Variance};
use ptx::ast::{Space, Statement, Variable};

/// Name, number of its [`Kind`], number of reads, and the lines that write it.
pub type Register<'t> = (&'t str, u32, u32, Vec<u32>);

/// The type of a register, and what its values depend on, in words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Kind {
    #[serde(rename = "type")]
    ty: &'static str,
    /// Which threads have the same: those of the `grid`, a `block`, a `warp`, or one `thread`.
    same: &'static str,
    /// `lane bits 0-1, warp, %ctaid`
    on: String,
    /// `4 × %tid.x + base`; empty where it is no sum that is known.
    how: String,
}

/// More lines that write one register are only counted by the page.
const MAX_LINES: usize = 50;

#[derive(Default)]
struct Row<'t> {
    name: &'t str,
    reads: u32,
    lines: Vec<u32>,
    values: Vec<ValueId>,
}

/// Those of a function in the order of their first writes; `None` where it was not analysed.
pub fn registers<'t>(
    function: &FunctionContext<'_, 't>,
    places: &Places<'t>,
    kinds: &mut Kinds,
) -> Option<Vec<Register<'t>>> {
    let (flow, divergence) = (function.flow()?, function.divergence()?);
    let mut rows: Vec<Row<'t>> = Vec::new();
    let mut numbers = HashMap::new();
    for (_, step, instruction) in function.steps() {
        for (slot, value) in flow.values.writes(&flow.instructions, step) {
            let Some(name) = register_name(function, instruction, slot) else {
                continue;
            };
            let number = *numbers.entry(slot.register).or_insert_with(|| {
                rows.push(Row {
                    name,
                    ..Row::default()
                });
                rows.len() - 1
            });
            let line = places.line(instruction.span.start);
            let row = &mut rows[number];
            if row.lines.last() != Some(&line) && row.lines.len() < MAX_LINES {
                row.lines.push(line);
            }
            row.values.push(value);
        }
    }
    for (_, step, _) in function.steps() {
        for (slot, _) in flow.values.reads(&flow.instructions, step) {
            if let Some(number) = numbers.get(&slot.register) {
                rows[*number].reads += 1;
            }
        }
    }
    let declared = Declared::of(function);
    let rows = rows.into_iter().map(|row| {
        let kind = kind(declared.ty(row.name), divergence, &row.values);
        (row.name, kinds.number(kind), row.reads, row.lines)
    });
    Some(rows.collect())
}

/// The kinds of the registers of a text, each once: there are few.
#[derive(Default)]
pub struct Kinds {
    pub all: Vec<Kind>,
    numbers: HashMap<Kind, u32>,
}

impl Kinds {
    fn number(&mut self, kind: Kind) -> u32 {
        *self.numbers.entry(kind.clone()).or_insert_with(|| {
            self.all.push(kind);
            self.all.len() as u32 - 1
        })
    }
}

/// The types of registers by name. Of one name in several scopes it is the last.
struct Declared<'t> {
    single: HashMap<&'t str, &'static str>,
    /// `%r` of `%r<9>`
    ranges: HashMap<&'t str, &'static str>,
}

impl<'t> Declared<'t> {
    fn of(function: &FunctionContext<'_, 't>) -> Declared<'t> {
        let mut declared = Declared {
            single: HashMap::new(),
            ranges: HashMap::new(),
        };
        let own = function.body.statements.iter();
        let own = own.filter_map(|statement| match statement {
            Statement::Variable(variable) => Some(&**variable),
            _ => None,
        });
        let around = function.function.params.iter();
        let around = around.chain(&function.function.returns);
        let registers = around.chain(own);
        for Variable {
            name, ty, count, ..
        } in registers.filter(|variable| variable.space == Space::Reg)
        {
            match count {
                Some(_) => declared.ranges.insert(name.text, ty.text()),
                None => declared.single.insert(name.text, ty.text()),
            };
        }
        declared
    }

    fn ty(&self, name: &str) -> &'static str {
        let prefix = || name.trim_end_matches(|last: char| last.is_ascii_digit());
        let single = self.single.get(name);
        let known = single.or_else(|| self.ranges.get(prefix()));
        known.copied().unwrap_or_default()
    }
}

/// What all values of a register depend on together.
fn kind(ty: &'static str, divergence: &Divergence, values: &[ValueId]) -> Kind {
    let dependences = || values.iter().map(|value| divergence.dependence(*value));
    let sources = dependences().fold(Sources::NONE, |all, one| all | one.sources);
    let variances = values.iter().map(|value| divergence.of(*value));
    let same = match variances.max().unwrap_or_default() {
        Variance::Thread => "thread",
        Variance::Warp => "warp",
        Variance::Block if sources.any(Sources::BLOCK) => "block",
        Variance::Block => "grid",
    };
    let mut sums = dependences().map(|one| sum(&one));
    let how = sums.next().unwrap_or_default();
    Kind {
        ty,
        same,
        on: names(sources),
        how: if sums.all(|other| other == how) {
            how
        } else {
            String::new()
        },
    }
}

/// `lane bits 0-1, warp, %ctaid`
fn names(sources: Sources) -> String {
    let mut names = Vec::new();
    let bits: Vec<u32> = (0..5)
        .filter(|bit| sources.any(Sources::lane(*bit)))
        .collect();
    match bits.as_slice() {
        [] => {}
        [0, 1, 2, 3, 4] => names.push("lane".to_owned()),
        [one] => names.push(format!("lane bit {one}")),
        [first, .., last] if (last - first) as usize == bits.len() - 1 => {
            names.push(format!("lane bits {first}-{last}"));
        }
        some => {
            let some: Vec<String> = some.iter().map(u32::to_string).collect();
            names.push(format!("lane bits {}", some.join(" ")));
        }
    }
    for (source, name) in [
        (Sources::WARP, "warp"),
        (Sources::ROW, "%tid.y"),
        (Sources::PLANE, "%tid.z"),
        (Sources::BLOCK, "%ctaid"),
    ] {
        if sources.any(source) {
            names.push(name.to_owned());
        }
    }
    names.join(", ")
}

/// `4 × %tid.x + base`; a slice of bits is written `%tid.x[4:0]`.
fn sum(dependence: &Dependence) -> String {
    let Some(linear) = &dependence.linear else {
        return String::new();
    };
    if let Some(number) = linear.as_number() {
        return format!("constant {number}");
    }
    if linear.is_uniform() {
        return String::new();
    }
    let mut parts = Vec::new();
    let mut part = |factor: i64, of: String| match factor {
        0 => {}
        1 => parts.push(of),
        _ => parts.push(format!("{factor} × {of}")),
    };
    match linear.stride() {
        Some(stride) => part(i64::from(stride), "%tid.x".to_owned()),
        None => slices(linear, &mut part),
    }
    part(i64::from(linear.row), "%tid.y".to_owned());
    part(i64::from(linear.plane), "%tid.z".to_owned());
    if linear.base.symbol.is_some() {
        parts.push("base".to_owned());
    }
    let sum = parts.join(" + ");
    match linear.base.offset {
        0 => sum,
        offset if offset < 0 => format!("{sum} - {}", offset.unsigned_abs()),
        offset => format!("{sum} + {offset}"),
    }
}

/// The runs of bits of `%tid.x` in which each adds twice as much as the one before.
fn slices(linear: &Linear, part: &mut impl FnMut(i64, String)) {
    let mut bit = 0;
    while bit < BITS {
        let first = bit;
        while bit + 1 < BITS && linear.bits[bit].checked_mul(2) == Some(linear.bits[bit + 1]) {
            bit += 1;
        }
        let of = if bit == first {
            format!("%tid.x[{first}]")
        } else {
            format!("%tid.x[{bit}:{first}]")
        };
        part(i64::from(linear.bits[first]), of);
        bit += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependences_are_told_in_short() {
        let lanes = |bits: &[u32]| {
            let bits = bits.iter().map(|bit| Sources::lane(*bit));
            bits.fold(Sources::NONE, |all, one| all | one)
        };
        for (sources, wanted) in [
            (Sources::NONE, ""),
            (Sources::THREAD, "lane, warp, %tid.y, %tid.z"),
            (lanes(&[0, 1]) | Sources::BLOCK, "lane bits 0-1, %ctaid"),
            (lanes(&[3]), "lane bit 3"),
            (lanes(&[0, 2, 4]), "lane bits 0 2 4"),
        ] {
            assert_eq!(names(sources), wanted);
        }
    }

    #[test]
    fn sums_are_told_by_slices_of_the_index() {
        let of = |linear: Linear| {
            sum(&Dependence {
                sources: Sources::NONE,
                linear: Some(linear),
            })
        };
        let tid = Linear::tid_x(None);
        assert_eq!(of(tid), "%tid.x");
        let mut scaled = tid;
        scaled.bits = tid.bits.map(|part| part * 4);
        scaled.row = 1024;
        scaled.base.symbol = Some(7);
        scaled.base.offset = -8;
        assert_eq!(of(scaled), "4 × %tid.x + 1024 × %tid.y + base - 8");
        // (%tid.x & 3) * 8 + (%tid.x >> 5)
        let mut apart = Linear::number(2);
        apart.bits = [8, 16, 0, 0, 0, 1, 2, 4, 8, 16];
        assert_eq!(of(apart), "8 × %tid.x[1:0] + %tid.x[9:5] + 2");
        assert_eq!(of(Linear::number(5)), "constant 5");
        assert_eq!(of(Linear::symbol(1, 0)), "");
        assert_eq!(sum(&Dependence::opaque(Sources::LANES)), "");
    }
}
