//! What an instruction means: the last column of a row.
//!
//! Analyses ask for it instead of deciding by opcode.

use std::cell::RefCell;
use std::collections::HashMap;

use super::Form;
use crate::ast::Modifiers;
use crate::name_map::Seed;
use crate::names::{Modifier, Opcode};

/// What an instruction means besides its syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What it is counted as.
    pub class: Class,
    /// What it does besides its result.
    pub effect: Effect,
    /// What its result depends on.
    pub result: Outcome,
    /// The threads that execute it together.
    pub convergence: Convergence,
    /// The memory operation is strong: other threads may access the same at the same time.
    pub strong: bool,
    /// It waits for other threads or orders memory between them.
    pub orders: bool,
    /// A barrier that all threads of a warp have to come to together.
    pub aligned: bool,
    /// It announces the thread at a barrier, and waits for nobody.
    pub arrives: bool,
    /// It reads the carry of the instruction before.
    pub carry_in: bool,
    /// It leaves a carry for the next.
    pub carry_out: bool,
    /// It reads its results before it writes them.
    pub accumulates: bool,
    /// One source may decide the result whatever the others are.
    pub absorbs: bool,
    /// The result is one of two sources; the last says which.
    pub selects: bool,
    /// The CPU device has it.
    pub cpu: bool,
}

impl Meaning {
    /// Nothing is known: it may do anything.
    pub const UNKNOWN: Meaning = Meaning {
        class: Class::Other,
        effect: Effect::Effectful,
        result: Outcome::Thread,
        convergence: Convergence::Alone,
        strong: false,
        orders: true,
        aligned: false,
        arrives: false,
        carry_in: false,
        carry_out: false,
        accumulates: false,
        absorbs: false,
        selects: false,
        cpu: false,
    };

    /// Whether it does nothing but compute its result: it may be executed again, or not at
    /// all where nobody wants the result. A weak load is pure, too.
    pub const fn is_pure(&self) -> bool {
        let quiet = match self.effect {
            Effect::Pure => true,
            Effect::Load => !self.strong,
            Effect::Store
            | Effect::Update
            | Effect::Fetch
            | Effect::Jump
            | Effect::Table
            | Effect::Return
            | Effect::Exit
            | Effect::Trap
            | Effect::Call
            | Effect::Effectful => false,
        };
        quiet && !self.carry_out
    }

    /// Whether several threads execute it together, so that it matters who comes.
    pub const fn is_collective(&self) -> bool {
        match self.convergence {
            Convergence::Alone | Convergence::Active => false,
            Convergence::Mask | Convergence::Warp | Convergence::Block | Convergence::Cluster => {
                true
            }
        }
    }
}

/// What an instruction is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Arithmetic and logic, counted by type.
    Arithmetic,
    /// Loads and stores, counted by state space.
    Memory,
    /// Atomic operations and reductions.
    Atomic,
    /// Asynchronous copies and caches.
    Copy,
    /// Matrices.
    Matrix,
    /// Textures and surfaces.
    Texture,
    /// Barriers and fences.
    Barrier,
    /// Between the threads of a warp.
    Warp,
    /// Control flow.
    Control,
    /// Comparison and selection.
    Compare,
    /// Conversion.
    Convert,
    /// Moves and addresses.
    Move,
    /// None of these.
    Other,
}

/// What an instruction does besides its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Pure,
    /// It reads memory at its address.
    Load,
    /// It writes memory at its address.
    Store,
    /// It reads and writes memory at its address as one step.
    Update,
    /// It reads a texture or a surface.
    Fetch,
    /// It goes to a label.
    Jump,
    /// It goes to one of several labels.
    Table,
    /// It ends the function.
    Return,
    /// It ends the thread.
    Exit,
    /// It ends the kernel.
    Trap,
    /// It calls a function.
    Call,
    /// Something else: it waits, copies, orders memory.
    Effectful,
}

/// What the result of an instruction depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// On its operands, or what it reads at an address.
    Operands,
    /// The same, and of integers that are sums over the bits of the thread's index it is
    /// one.
    Linear,
    /// On the difference of two operands.
    Compared,
    /// On an operand of another lane.
    Shuffled,
    /// On the operands of all lanes of the warp together.
    Warp,
    /// On which lanes of the warp execute it together.
    Active,
    /// On the operands of all threads of the block together.
    Block,
    /// On the lane, too.
    Lane,
    /// On the thread, too.
    Thread,
}

impl Outcome {
    /// Whether it matters which operand depends on what.
    pub const fn distinguishes_operands(self) -> bool {
        match self {
            Outcome::Linear | Outcome::Compared | Outcome::Shuffled => true,
            Outcome::Operands
            | Outcome::Warp
            | Outcome::Active
            | Outcome::Block
            | Outcome::Lane
            | Outcome::Thread => false,
        }
    }
}

/// The threads that execute an instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// Each for itself.
    Alone,
    /// Those lanes of the warp that happen to be together.
    Active,
    /// The lanes of the mask that is the last operand.
    Mask,
    /// All lanes of the warp.
    Warp,
    /// The threads of the block, or as many as an operand says.
    Block,
    /// The threads of the cluster.
    Cluster,
}

/// A word of the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Class(Class),
    Effect(Effect),
    Result(Outcome),
    Convergence(Convergence),
    Strong,
    Orders,
    Aligned,
    Arrives,
    CarryIn,
    CarryOut,
    Accumulates,
    Absorbs,
    Selects,
    Cpu,
}

/// The words of the column.
const WORDS: &[(&str, Fact)] = &[
    ("arithmetic", Fact::Class(Class::Arithmetic)),
    ("memory", Fact::Class(Class::Memory)),
    ("atomic", Fact::Class(Class::Atomic)),
    ("copy", Fact::Class(Class::Copy)),
    ("matrix", Fact::Class(Class::Matrix)),
    ("texture", Fact::Class(Class::Texture)),
    ("barrier", Fact::Class(Class::Barrier)),
    ("warp", Fact::Class(Class::Warp)),
    ("control", Fact::Class(Class::Control)),
    ("compare", Fact::Class(Class::Compare)),
    ("convert", Fact::Class(Class::Convert)),
    ("move", Fact::Class(Class::Move)),
    ("other", Fact::Class(Class::Other)),
    ("pure", Fact::Effect(Effect::Pure)),
    ("load", Fact::Effect(Effect::Load)),
    ("store", Fact::Effect(Effect::Store)),
    ("update", Fact::Effect(Effect::Update)),
    ("fetch", Fact::Effect(Effect::Fetch)),
    ("jump", Fact::Effect(Effect::Jump)),
    ("table", Fact::Effect(Effect::Table)),
    ("return", Fact::Effect(Effect::Return)),
    ("exit", Fact::Effect(Effect::Exit)),
    ("trap", Fact::Effect(Effect::Trap)),
    ("call", Fact::Effect(Effect::Call)),
    ("effectful", Fact::Effect(Effect::Effectful)),
    ("of-operands", Fact::Result(Outcome::Operands)),
    ("linear", Fact::Result(Outcome::Linear)),
    ("compared", Fact::Result(Outcome::Compared)),
    ("shuffled", Fact::Result(Outcome::Shuffled)),
    ("of-warp", Fact::Result(Outcome::Warp)),
    ("of-active", Fact::Result(Outcome::Active)),
    ("of-block", Fact::Result(Outcome::Block)),
    ("of-lane", Fact::Result(Outcome::Lane)),
    ("of-thread", Fact::Result(Outcome::Thread)),
    ("by-active", Fact::Convergence(Convergence::Active)),
    ("by-mask", Fact::Convergence(Convergence::Mask)),
    ("by-warp", Fact::Convergence(Convergence::Warp)),
    ("by-block", Fact::Convergence(Convergence::Block)),
    ("by-cluster", Fact::Convergence(Convergence::Cluster)),
    ("strong", Fact::Strong),
    ("orders", Fact::Orders),
    ("aligned", Fact::Aligned),
    ("arrives", Fact::Arrives),
    ("carry-in", Fact::CarryIn),
    ("carry-out", Fact::CarryOut),
    ("accumulates", Fact::Accumulates),
    ("absorbs", Fact::Absorbs),
    ("selects", Fact::Selects),
    ("cpu", Fact::Cpu),
];

/// The column of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Each word, with the modifiers of which it needs one; none: it always holds.
    facts: Vec<(Fact, Vec<Modifier>)>,
}

impl Column {
    /// Parses words such as `load` and `strong?volatile|relaxed`; the error is the invalid
    /// one.
    pub(super) fn parse(text: &str) -> Result<Column, String> {
        let fact = |text: &str| {
            let (word, when) = text.split_once('?').unwrap_or((text, ""));
            let (_, fact) = WORDS.iter().find(|(known, _)| *known == word)?;
            let when = when.split('|').filter(|word| !word.is_empty());
            Some((*fact, when.map(Modifier::from_text).collect::<Option<_>>()?))
        };
        let facts = text
            .split_ascii_whitespace()
            .map(|word| fact(word).ok_or_else(|| format!("meaning `{word}`")));
        Ok(Column {
            facts: facts.collect::<Result<_, _>>()?,
        })
    }

    /// What it says of an instruction with these modifiers; of two words for the same, the
    /// later.
    fn of(&self, modifiers: &Modifiers) -> Meaning {
        let mut meaning = Meaning {
            orders: false,
            ..Meaning::UNKNOWN
        };
        for (fact, when) in &self.facts {
            if !when.is_empty() && modifiers.first_of(when).is_none() {
                continue;
            }
            match *fact {
                Fact::Class(class) => meaning.class = class,
                Fact::Effect(effect) => meaning.effect = effect,
                Fact::Result(result) => meaning.result = result,
                Fact::Convergence(convergence) => meaning.convergence = convergence,
                Fact::Strong => meaning.strong = true,
                Fact::Orders => meaning.orders = true,
                Fact::Aligned => meaning.aligned = true,
                Fact::Arrives => meaning.arrives = true,
                Fact::CarryIn => meaning.carry_in = true,
                Fact::CarryOut => meaning.carry_out = true,
                Fact::Accumulates => meaning.accumulates = true,
                Fact::Absorbs => meaning.absorbs = true,
                Fact::Selects => meaning.selects = true,
                Fact::Cpu => meaning.cpu = true,
            }
        }
        meaning
    }
}

impl Form {
    /// What an instruction of this form with these modifiers means.
    pub fn meaning(&self, modifiers: &Modifiers) -> Meaning {
        self.meaning.of(modifiers)
    }
}

/// The rows of instructions without operands.
type Rows = HashMap<(Opcode, Modifiers), &'static Form, Seed>;

/// The maximum number of rows that are kept.
const MAX_FOUND: usize = 1024;

thread_local! {
    /// Compilers write the same few instructions again and again.
    static FOUND: RefCell<Rows> = RefCell::default();
}

/// The row of an instruction: the one that its modifiers fit, or the first of its opcode if
/// it is invalid.
pub fn form(opcode: Opcode, modifiers: &Modifiers) -> Option<&'static Form> {
    let key = (opcode, *modifiers);
    FOUND.with_borrow_mut(|found| {
        if let Some(form) = found.get(&key) {
            return Some(*form);
        }
        if found.len() == MAX_FOUND {
            found.clear();
        }
        let form = find(opcode, modifiers)?;
        found.insert(key, form);
        Some(form)
    })
}

fn find(opcode: Opcode, modifiers: &Modifiers) -> Option<&'static Form> {
    let mut candidates = super::candidates(opcode, modifiers).into_iter();
    let fitting = candidates.find(|form| form.fit(modifiers).is_ok());
    let first = || super::forms_of(opcode, modifiers).next();
    fitting
        .or_else(first)
        .or_else(|| super::forms(opcode).first())
}

/// What an instruction means: the last column of its [`form`].
///
/// ```
/// use ptxkit_ptx::{ast::Modifiers, isa, names::{Modifier, Opcode}};
/// let mut modifiers = Modifiers::NONE;
/// modifiers.push(Modifier::Global);
/// modifiers.push(Modifier::U32);
/// assert!(isa::meaning(Opcode::Ld, &modifiers).is_pure());
/// modifiers.push(Modifier::Volatile);
/// assert!(!isa::meaning(Opcode::Ld, &modifiers).is_pure());
/// ```
pub fn meaning(opcode: Opcode, modifiers: &Modifiers) -> Meaning {
    let form = form(opcode, modifiers);
    form.map_or(Meaning::UNKNOWN, |form| form.meaning(modifiers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::forms;

    fn all_forms() -> impl Iterator<Item = &'static Form> {
        Opcode::ALL.iter().flat_map(|opcode| forms(*opcode))
    }

    fn of(text: &str) -> Meaning {
        let mut words = text.split('.');
        let opcode = words.next().and_then(Opcode::from_text).unwrap();
        let mut modifiers = Modifiers::NONE;
        for word in words {
            assert!(modifiers.push(Modifier::from_text(word).unwrap()));
        }
        let mut fitting = super::super::forms_of(opcode, &modifiers);
        assert!(fitting.any(|form| form.fit(&modifiers).is_ok()), "{text}");
        meaning(opcode, &modifiers)
    }

    #[test]
    fn every_opcode_has_a_row() {
        for opcode in Opcode::ALL {
            let known = *opcode != Opcode::Unknown;
            assert_eq!(!forms(*opcode).is_empty(), known, "{}", opcode.text());
        }
    }

    #[test]
    fn every_row_says_what_it_means() {
        for form in all_forms() {
            let always = |is: fn(&Fact) -> bool| {
                let facts = form.meaning.facts.iter();
                facts
                    .filter(|(fact, when)| is(fact) && when.is_empty())
                    .count()
            };
            let text = &form.text;
            assert_eq!(
                always(|fact| matches!(fact, Fact::Class(_))),
                1,
                "class: {text}"
            );
            assert_eq!(
                always(|fact| matches!(fact, Fact::Effect(_))),
                1,
                "effect: {text}"
            );
            assert!(
                always(|fact| matches!(fact, Fact::Convergence(_))) < 2,
                "{text}"
            );
            let writes = form.operands.iter().any(|rule| rule.kind.is_written());
            assert_eq!(
                always(|fact| matches!(fact, Fact::Result(_))),
                usize::from(writes || form.open_operands),
                "what the result depends on: {text}"
            );
            for (_, when) in &form.meaning.facts {
                let known = when.iter().all(|word| form.may_have(*word));
                assert!(known, "a condition that the row does not have: {text}");
            }
        }
    }

    #[test]
    fn rows_for_the_same_modifiers_mean_the_same() {
        let syntax = |form: &Form| {
            let modifiers = form.text.split(" :").next().unwrap_or_default();
            modifiers.to_owned()
        };
        let mut known = std::collections::HashMap::new();
        for form in all_forms() {
            let first = known.entry(syntax(form)).or_insert(&form.meaning);
            assert_eq!(*first, &form.meaning, "{}", form.text);
        }
    }

    #[test]
    fn modifiers_have_the_meaning_that_they_have_everywhere() {
        for form in all_forms() {
            let required = |word| {
                let slots = form.slots.iter().filter(|slot| slot.required);
                let mut words = slots.map(|slot| slot.words.as_slice());
                words.any(|words| words.len() == 1 && words[0].modifier == word)
            };
            let always = form.meaning(&Modifiers::NONE);
            let text = &form.text;
            if required(Modifier::Sync) {
                assert!(always.is_collective(), "{text}");
            }
            assert_eq!(required(Modifier::Cc), always.carry_out, "{text}");
            let with = |word| {
                let mut one = Modifiers::NONE;
                assert!(one.push(word));
                form.may_have(word).then(|| form.meaning(&one))
            };
            for word in [Modifier::Acquire, Modifier::Release, Modifier::AcqRel] {
                assert!(with(word).is_none_or(|meaning| meaning.orders), "{text}");
            }
            if always.effect == Effect::Load {
                for word in [Modifier::Volatile, Modifier::Relaxed, Modifier::Mmio] {
                    assert!(with(word).is_none_or(|meaning| meaning.strong), "{text}");
                }
            }
        }
    }

    #[test]
    fn conditions_choose_by_modifier() {
        assert_eq!(of("ld.param.u32").result, Outcome::Operands);
        assert_eq!(of("ld.local.u32").result, Outcome::Thread);
        assert!(!of("red.global.add.u32").orders);
        assert!(of("red.release.gpu.global.add.u32").orders);
        assert!(of("multimem.st.release.gpu.global.u32").orders);
        assert!(!of("multimem.st.weak.global.u32").orders);
        assert!(of("add.cc.u32").carry_out && !of("addc.u32").carry_out);
        assert_eq!(of("cvt.pack.sat.u16.s32").result, Outcome::Operands);
        assert!(!of("barrier.sync").aligned && of("barrier.sync.aligned").aligned);
    }
}
