//! What one thread executes: each instruction with the values that it reads and writes.
//!
//! Every function computes whether it runs in that thread. In front of each instruction stands
//! code that writes a record to memory of the host if it does, behind it what adds the results.
//! Nothing branches, so the control flow is that of the kernel.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::load::Loaded;
use super::{Insertions, Mention, Shown};
use crate::element::{Element, Value as Number};
use crate::errors::of_driver;
use crate::launch::Placed;
use crate::sample::Sample;
use ptxkit::driver::{Error, PinnedBuffer};
use ptxkit::ptx::ast::{Module, Operand, Statement};
use ptxkit::ptx::diagnostic::LineIndex;
use ptxkit::ptx::names::{Opcode, Type};
use terminal::failure::Failure;

/// The words of records, for the most steps that are kept.
const MAX_WORDS: usize = 1 << 27;

/// A thread of a grid.
#[derive(Clone, Copy, Debug)]
pub struct ThreadIndex {
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

/// The lines of a file that are traced, from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange(pub u32, pub u32);

impl LineRange {
    /// `12`, `12-30`
    pub fn parse(text: &str) -> Result<LineRange, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse().ok().filter(|line| *line > 0);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(LineRange(first, last)),
            _ => Err("a line or two are expected, as 12 or 12-30".into()),
        }
    }

    fn has(self, line: u32) -> bool {
        (self.0..=self.1).contains(&line)
    }
}

/// An instruction that records.
#[derive(Debug)]
struct Probe {
    line: u32,
    /// The instruction on one line.
    text: String,
    /// Whether the first of `reads` is the guard, and is negated.
    guard: Option<bool>,
    reads: Vec<Field>,
    writes: Vec<Field>,
    /// It is `cvta`, or a `mov` of what is no register and no number: of the address of a
    /// variable.
    makes_address: bool,
}

/// A value in a record.
#[derive(Debug)]
struct Field {
    name: String,
    shown: Shown,
    /// In the record, in words of 8 bytes.
    word: usize,
    /// Of 64 bits.
    wide: bool,
}

/// A module that records what a thread executes.
#[derive(Debug)]
pub struct Instrumented {
    pub text: String,
    probes: Vec<Probe>,
    /// The variable for the address of the next record.
    next: String,
    /// The variable for the address behind which no record begins.
    end: String,
    /// The words of the longest record.
    longest: usize,
}

/// Instruments a module without errors; `None` if it does not say the size of addresses.
pub fn instrument(
    module: &Module<'_>,
    source: &str,
    thread: ThreadIndex,
    lines: &[LineRange],
) -> Option<Instrumented> {
    let prefix = super::prefix(source);
    let index = LineIndex::new(source);
    let mut insertions = Insertions::default();
    let mut probes = Vec::new();
    let (next, end) = (format!("{prefix}_next"), format!("{prefix}_end"));
    insertions.add(
        super::head_end(module)?,
        format!(" .visible .global .align 8 .u64 {next}; .visible .global .align 8 .u64 {end};"),
    );
    for (function, body) in super::bodies(module) {
        insertions.add(body.span.start + 1, entry(&prefix, thread));
        super::each_statement(module, function, body, |statement, registers| {
            let Statement::Instruction(instruction) = statement else {
                return;
            };
            let span = instruction.span;
            let line = index.locate(span.start).line;
            if !lines.is_empty() && !lines.iter().any(|range| range.has(line)) {
                return;
            }
            let written = source.get(span.start as usize..span.end as usize);
            let words: Vec<&str> = written.unwrap_or_default().split_whitespace().collect();
            // The words: the number of the probe from 1, then the values.
            let mut word = 1;
            let mut store = |mention: &Mention<'_>| {
                let (code, field) = stored(mention, &prefix, word)?;
                word += 1;
                Some((code, field))
            };
            let reads: Vec<_> = registers.reads.iter().filter_map(&mut store).collect();
            let writes: Vec<_> = registers.writes.iter().filter_map(&mut store).collect();
            let before: String = reads.iter().map(|(code, _)| &**code).collect();
            let after: String = writes.iter().map(|(code, _)| &**code).collect();
            let (number, bytes) = (probes.len() + 1, 8 * word);
            insertions.add(
                span.start,
                format!(
                    "@%{prefix}_on ld.global.u64 %{prefix}_at, [{next}]; \
                     setp.le.and.u64 %{prefix}_run, %{prefix}_at, %{prefix}_last, %{prefix}_on; \
                     @%{prefix}_run st.global.u64 [%{prefix}_at], {number}; {before}\
                     add.u64 %{prefix}_new, %{prefix}_at, {bytes}; \
                     @%{prefix}_run st.global.u64 [{next}], %{prefix}_new; "
                ),
            );
            if !after.is_empty() {
                insertions.add(span.end, format!(" {after}"));
            }
            let fields = |stored: Vec<(String, Field)>| stored.into_iter().map(|(_, f)| f);
            probes.push(Probe {
                line,
                text: words.join(" "),
                guard: body.guard(instruction).map(|guard| guard.negated),
                makes_address: instruction.opcode == Opcode::Cvta
                    || instruction.opcode == Opcode::Mov
                        && reads.is_empty()
                        && matches!(
                            body.list(instruction.operands).last(),
                            Some(Operand::Name(_) | Operand::Offset { .. })
                        ),
                reads: fields(reads).collect(),
                writes: fields(writes).collect(),
            });
        });
    }
    Some(Instrumented {
        text: insertions.apply(source),
        longest: probes.iter().map(Probe::words).max().unwrap_or(1),
        probes,
        next,
        end,
    })
}

/// At the start of a function: the registers, and whether this is the thread.
fn entry(prefix: &str, thread: ThreadIndex) -> String {
    let mut code = format!(
        " .reg .pred %{prefix}_on, %{prefix}_run; .reg .b32 %{prefix}_word; \
         .reg .b64 %{prefix}_at, %{prefix}_new, %{prefix}_last; \
         mov.u64 %{prefix}_at, 0; ld.global.u64 %{prefix}_last, [{prefix}_end]; \
         setp.ne.u64 %{prefix}_on, %{prefix}_last, 0;"
    );
    for (register, [x, y, z]) in [("ctaid", thread.block), ("tid", thread.thread)] {
        for (axis, value) in [("x", x), ("y", y), ("z", z)] {
            // Writing to a String cannot fail.
            let _ = write!(
                code,
                " mov.u32 %{prefix}_word, %{register}.{axis}; \
                 setp.eq.and.u32 %{prefix}_on, %{prefix}_word, {value}, %{prefix}_on;"
            );
        }
    }
    code
}

/// The code that stores a register as a word of the record; `None` for one of 128 bits.
fn stored(mention: &Mention<'_>, prefix: &str, word: usize) -> Option<(String, Field)> {
    let (name, offset) = (mention.name, 8 * word);
    let at = format!("@%{prefix}_run st.global");
    let code = match mention.declared {
        Type::Pred => format!(
            "selp.b32 %{prefix}_word, 1, 0, {name}; \
             {at}.b32 [%{prefix}_at+{offset}], %{prefix}_word; "
        ),
        ty => match ty.bits() {
            bits @ (8 | 16 | 32 | 64) => {
                format!("{at}.b{bits} [%{prefix}_at+{offset}], {name}; ")
            }
            _ => return None,
        },
    };
    let field = Field {
        name: name.to_owned(),
        shown: mention.shown,
        word,
        wide: mention.declared.bits() == 64,
    };
    Some((code, field))
}

/// An instruction as the thread came to it.
#[derive(Debug)]
pub struct Step<'p> {
    probe: &'p Probe,
    words: &'p [u64],
    /// Whether its results were recorded.
    complete: bool,
}

/// The records of a thread.
#[derive(Debug)]
pub struct Traced {
    pub words: Vec<u64>,
    /// The error that ended the kernel.
    pub error: Option<Error>,
    /// Where the arguments were.
    pub placed: Vec<Option<Placed>>,
}

impl Instrumented {
    /// Launches the loaded kernel, and returns the records of up to `limit` steps and one more.
    #[allow(unsafe_code, reason = "reads what a kernel wrote before it failed")]
    pub fn follow(&self, loaded: &Loaded, sample: &Sample, limit: u64) -> Result<Traced, Failure> {
        let limit = usize::try_from(limit).unwrap_or(MAX_WORDS);
        let capacity = limit.saturating_add(1).saturating_mul(self.longest);
        let capacity = capacity.min(MAX_WORDS);
        // Memory of the host, which can be read after the kernel has failed. Zeros behind the
        // last record are no record.
        let records: PinnedBuffer<u64> =
            PinnedBuffer::zeroed(loaded.context(), capacity).map_err(|error| of_driver(&error))?;
        let first = records.device_address();
        loaded.set(&self.next, first)?;
        loaded.set(&self.end, first + 8 * (capacity - self.longest) as u64)?;
        let mut placed = Vec::new();
        let launched = loaded.launch(sample, |arguments| {
            placed = arguments.to_vec();
            Ok(())
        })?;
        let pointer = records.pointer();
        // SAFETY: the buffer has that many words. Every launch is done, or the context has failed
        // and executes nothing any more, so nobody writes them.
        let words = unsafe { std::slice::from_raw_parts(pointer, capacity) }.to_vec();
        Ok(Traced {
            words,
            error: launched.error,
            placed,
        })
    }

    /// Whether no instruction records.
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty()
    }

    /// Whether an instruction that records has a register of this name.
    pub fn has_register(&self, name: &str) -> bool {
        let mut probes = self.probes.iter();
        probes.any(|probe| probe.fields().any(|field| field.name == name))
    }

    /// The steps in `words`, up to the first that is none. The last has no results if the thread
    /// was `stopped` there.
    pub fn steps<'p>(&'p self, mut words: &'p [u64], stopped: bool) -> Vec<Step<'p>> {
        let mut steps = Vec::new();
        while let Some(probe) = self.probe(words) {
            let Some((record, rest)) = words.split_at_checked(probe.words()) else {
                break;
            };
            steps.push(Step {
                probe,
                words: record,
                complete: true,
            });
            words = rest;
        }
        if let Some(last) = steps.last_mut() {
            last.complete = !stopped;
        }
        steps
    }

    /// The probe of the record at the start of `words`.
    fn probe(&self, words: &[u64]) -> Option<&Probe> {
        let number = usize::try_from(*words.first()?).ok()?;
        self.probes.get(number.checked_sub(1)?)
    }
}

impl Probe {
    fn fields(&self) -> impl Iterator<Item = &Field> {
        self.reads.iter().chain(&self.writes)
    }

    /// The length of its records.
    fn words(&self) -> usize {
        1 + self.reads.len() + self.writes.len()
    }
}

/// A value that a step wrote.
#[derive(Clone, Copy, Debug)]
pub struct StepResult {
    pub bits: u64,
    /// Of 64 bits, as addresses are.
    pub wide: bool,
    /// The instruction makes addresses.
    pub is_address: bool,
    /// The type that the instruction gives it.
    ty: Option<Type>,
}

/// A floating-point number in a result, which may have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float {
    pub bits: u64,
    pub is_nan: bool,
}

impl StepResult {
    /// The numbers in it; none if the instruction has another type.
    pub fn floats(self) -> impl Iterator<Item = Float> {
        let (element, count) = match self.ty {
            Some(Type::F16) => (Element::F16, 1),
            Some(Type::F16x2) => (Element::F16, 2),
            Some(Type::Bf16) => (Element::Bf16, 1),
            Some(Type::Bf16x2) => (Element::Bf16, 2),
            Some(Type::F32) => (Element::F32, 1),
            Some(Type::F32x2) => (Element::F32, 2),
            Some(Type::F64) => (Element::F64, 1),
            _ => (Element::F64, 0),
        };
        let width = 8 * element.size();
        (0..count).map(move |lane| {
            let bits = self.bits >> (lane * width) & (u64::MAX >> (64 - width));
            let value = element.decode(&bits.to_le_bytes());
            Float {
                bits,
                is_nan: matches!(value, Some(Number::Float(number)) if number.is_nan()),
            }
        })
    }
}

impl Step<'_> {
    /// What it wrote, in the order of its operands.
    pub fn results(&self) -> impl Iterator<Item = StepResult> + '_ {
        self.written().iter().map(move |field| StepResult {
            bits: self.words[field.word],
            wide: field.wide,
            is_address: self.probe.makes_address,
            ty: match field.shown {
                Shown::Typed(ty) => Some(ty),
                Shown::Address => None,
            },
        })
    }

    /// Whether its guard let it be executed.
    pub fn executed(&self) -> bool {
        match (self.probe.guard, self.probe.reads.first()) {
            (Some(negated), Some(guard)) => (self.words[guard.word] & 1 == 1) != negated,
            _ => true,
        }
    }

    /// Whether one of these registers is read or written; all steps if none is named.
    pub fn concerns(&self, registers: &[String]) -> bool {
        let mut fields = self.probe.fields();
        registers.is_empty() || fields.any(|field| registers.contains(&field.name))
    }

    fn written(&self) -> &[Field] {
        if self.complete && self.executed() {
            &self.probe.writes
        } else {
            &[]
        }
    }

    /// `   12  add.s32 %r1, %r2, %r3;      %r1 = 5  <-  %r2 = 2, %r3 = 3`
    pub fn text(&self) -> String {
        let show = |fields: &[Field]| {
            let each = fields
                .iter()
                .map(|field| format!("{} = {}", field.name, value(field, self.words[field.word])));
            each.collect::<Vec<_>>().join(", ")
        };
        let (writes, reads) = (show(self.written()), show(&self.probe.reads));
        let mut values = match (self.executed(), self.complete) {
            (false, _) => format!("skipped: {reads}"),
            (true, false) => format!("stopped here: {reads}"),
            (true, true) => match (writes.is_empty(), reads.is_empty()) {
                (false, false) => format!("{writes}  <-  {reads}"),
                (true, false) => format!("<-  {reads}"),
                (_, true) => writes,
            },
        };
        if values.ends_with(": ") {
            values.truncate(values.len() - 2);
        }
        let line = format!("{:>6}  {:<46}  {values}", self.probe.line, self.probe.text);
        line.trim_end().to_owned()
    }

    pub fn json(&self) -> Value {
        let all = |fields: &[Field]| {
            let each = fields.iter().map(|field| {
                let value = value(field, self.words[field.word]);
                (field.name.clone(), Value::String(value))
            });
            Value::Object(each.collect::<Map<_, _>>())
        };
        json!({
            "line": self.probe.line,
            "instruction": self.probe.text,
            "executed": self.executed() && self.complete,
            "writes": all(self.written()),
            "reads": all(&self.probe.reads),
        })
    }
}

/// A value as its instruction takes it. Of those without a type and of 64 bits, which may be
/// addresses, small numbers are decimal.
fn value(field: &Field, word: u64) -> String {
    let ty = match field.shown {
        Shown::Address => return format!("{word:#x}"),
        Shown::Typed(ty) => ty,
    };
    let element = match ty {
        Type::Pred => return (word & 1 == 1).to_string(),
        Type::Bf16 => Some(Element::Bf16),
        Type::F16 => Some(Element::F16),
        Type::F32 => Some(Element::F32),
        Type::F64 => Some(Element::F64),
        Type::S8 => Some(Element::S8),
        Type::S16 => Some(Element::S16),
        Type::S32 => Some(Element::S32),
        Type::S64 => Some(Element::S64),
        Type::U8 => Some(Element::U8),
        Type::U16 => Some(Element::U16),
        Type::U32 => Some(Element::U32),
        _ => None,
    };
    if let Some(element) = element {
        return element.show_bits(&word.to_le_bytes());
    }
    let bits = ty.bits().min(64);
    let word = word & (u64::MAX >> (64 - bits.max(1)));
    match word {
        0..=0xFF_FFFF => word.to_string(),
        _ => format!("{word:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_floats_of_their_type() {
        let nans = |ty, bits| {
            let result = StepResult {
                bits,
                wide: false,
                is_address: false,
                ty: Some(ty),
            };
            let floats = result.floats().map(|float| (float.bits, float.is_nan));
            floats.collect::<Vec<_>>()
        };
        assert_eq!(nans(Type::F32, 0x7fc0_0001), [(0x7fc0_0001, true)]);
        let halves = [(0x7c01, true), (0x7c00, false)];
        assert_eq!(nans(Type::F16x2, 0x7c00_7c01), halves);
        let halves = [(0x7f80, false), (0xffff, true)];
        assert_eq!(nans(Type::Bf16x2, 0xffff_7f80), halves);
        assert_eq!(nans(Type::F64, 0x7ff0_0000_0000_0001).len(), 1);
        assert!(nans(Type::B32, 0x7fc0_0001).is_empty());
    }
}
