//! One-instruction modules out of the instruction table: each form in legal
//! ways, its neighbours that are not, and words thrown together at random.
//!
//! The table says only what is worth asking. What is true, ptxas says.

use std::collections::{HashMap, HashSet};
use std::io;

use ptxkit_ptx::ast::{Modifiers, Version};
use ptxkit_ptx::isa::target::Target;
use ptxkit_ptx::isa::{self, Fit, Form};
use ptxkit_ptx::names::{Modifier, Opcode};

use crate::archive;
use crate::instruction;
use crate::operands::Operands;
use crate::parallel::parallel;
use crate::random::Random;
use crate::toolkit::Toolkit;

/// So many ways of each form, beyond one for each of its words.
const WAYS: usize = 4;
/// No more ways of a form than this: some have a hundred words.
const MOST_WAYS: usize = 24;
/// So many instructions thrown together for each opcode.
const RANDOM: usize = 24;

const VERSIONS: [(u8, u8); 43] = [
    (1, 0),
    (1, 1),
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 5),
    (2, 0),
    (2, 1),
    (2, 2),
    (2, 3),
    (3, 0),
    (3, 1),
    (3, 2),
    (4, 0),
    (4, 1),
    (4, 2),
    (4, 3),
    (5, 0),
    (5, 1),
    (6, 0),
    (6, 1),
    (6, 2),
    (6, 3),
    (6, 4),
    (6, 5),
    (7, 0),
    (7, 1),
    (7, 2),
    (7, 3),
    (7, 4),
    (7, 5),
    (7, 6),
    (7, 7),
    (7, 8),
    (8, 0),
    (8, 1),
    (8, 2),
    (8, 3),
    (8, 4),
    (8, 5),
    (8, 6),
    (8, 7),
    (8, 8),
];
/// These are what most modules say.
const NEW: [(u8, u8); 6] = [(9, 0), (9, 1), (9, 2), (9, 3), (9, 4), (9, 5)];

const TARGETS: [&str; 36] = [
    "sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_30", "sm_32", "sm_35", "sm_50", "sm_52",
    "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87",
    "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a", "sm_103f", "sm_103a", "sm_107a",
    "sm_110", "sm_110a", "sm_120", "sm_120f", "sm_120a", "sm_121", "sm_121a",
];

/// What random instructions are asked about.
const MODERN: [&str; 6] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Case {
    version: Version,
    target: Target,
    instruction: String,
}

/// Writes one case a line: version, target, verdict, instruction. `keep` asks
/// only about cases that the archive does not hold yet.
pub fn record(toolkit: &Toolkit, keep: bool) -> io::Result<()> {
    let cases = cases();
    println!("grid: {} modules", cases.len());
    let old = if keep {
        archive::read("grid")
    } else {
        String::new()
    };
    // All but the verdict.
    let known: HashMap<(&str, &str, &str), &str> = old
        .lines()
        .filter_map(|line| {
            let [version, target, verdict, instruction] =
                line.splitn(4, ' ').collect::<Vec<_>>().try_into().ok()?;
            Some(((version, target, instruction), verdict))
        })
        .collect();
    let lines = parallel(&cases, |case| {
        let (version, target) = (case.version.to_string(), case.target.to_string());
        let instruction = case.instruction.as_str();
        let verdict = match known.get(&(version.as_str(), target.as_str(), instruction)) {
            Some(verdict) => (*verdict).to_owned(),
            None => {
                let text = instruction::module(&version, &target, instruction);
                toolkit.judge(text.as_bytes())?.to_string()
            }
        };
        Ok(format!("{version} {target} {verdict} {instruction}\n"))
    });
    let text: io::Result<String> = lines.into_iter().collect();
    archive::write("grid", &text?)
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &opcode in Opcode::ALL {
        let name = opcode.text();
        // Of its own, so that new rows do not change the cases of other opcodes.
        let seed = name.bytes().fold(7, |seed: u64, byte| {
            seed.wrapping_mul(131) + u64::from(byte)
        });
        let mut grid = Grid {
            name,
            words: words(isa::forms(opcode)),
            random: Random::new(seed),
            cases: Vec::new(),
        };
        for form in isa::forms(opcode) {
            grid.form(form);
        }
        grid.thrown_together();
        cases.append(&mut grid.cases);
    }
    let mut seen = HashSet::new();
    cases.retain(|case| seen.insert(case.clone()));
    cases
}

/// The words of all forms of an opcode.
fn words(forms: &[Form]) -> Vec<Modifier> {
    let slots = forms.iter().flat_map(|form| &form.slots);
    let mut words: Vec<_> = slots
        .flat_map(|slot| slot.words.iter().map(|w| w.modifier))
        .chain(forms.iter().flat_map(|form| form.opcode_words.clone()))
        .collect();
    words.sort();
    words.dedup();
    words
}

/// The cases of one opcode as they come.
struct Grid {
    name: &'static str,
    words: Vec<Modifier>,
    random: Random,
    cases: Vec<Case>,
}

impl Grid {
    fn form(&mut self, form: &Form) {
        let mut ways: Vec<Vec<Modifier>> = Vec::new();
        let forced =
            form.slots.iter().enumerate().flat_map(|(at, slot)| {
                slot.words.iter().map(move |word| Some((at, word.modifier)))
            });
        for forced in forced.chain([None; WAYS]) {
            // Conditions of the form leave few ways: some throws miss them.
            let way = (0..20).find_map(|_| self.throw(form, forced));
            if let Some(way) = way.filter(|way| !ways.contains(way)) {
                ways.push(way);
            }
        }
        while ways.len() > MOST_WAYS {
            let left_out = self.random.below(ways.len());
            ways.swap_remove(left_out);
        }
        let mut first = true;
        for way in &ways {
            let modifiers = modifiers(way);
            let Ok(fit) = form.fit(&modifiers) else {
                continue;
            };
            let legal = Operands::new(&mut self.random, &modifiers).of(form, &fit.types);
            let Some(target) = self.target(&fit) else {
                continue;
            };
            self.add(LATEST, target, way, &legal);
            if first {
                self.in_braces(target, way, &legal);
                first = false;
            }
            if self.random.once_in(2) {
                self.floors(&fit, way, &legal);
            }
            for _ in 0..2 {
                self.neighbour(target, way, &legal);
            }
        }
    }

    /// Modifiers that fit a form, one of them given; `None` if they do not.
    fn throw(&mut self, form: &Form, forced: Option<(usize, Modifier)>) -> Option<Vec<Modifier>> {
        let mut way = form.opcode_words.clone();
        for (at, slot) in form.slots.iter().enumerate() {
            match forced {
                Some((place, word)) if place == at => way.push(word),
                _ if slot.required || self.random.once_in(3) => {
                    way.push(self.random.choose(&slot.words).modifier);
                }
                _ => {}
            }
        }
        form.fit(&modifiers(&way)).is_ok().then_some(way)
    }

    /// A target that has all of it in the latest version.
    fn target(&mut self, fit: &Fit<'_>) -> Option<Target> {
        let able: Vec<Target> = targets()
            .filter(|target| target.number >= 75)
            .filter(|target| fit.since.iter().all(|since| since.permits(LATEST, *target)))
            .collect();
        (!able.is_empty()).then(|| *self.random.choose(&able))
    }

    /// The lowest version and target that should do, and one below each.
    fn floors(&mut self, fit: &Fit<'_>, way: &[Modifier], operands: &[String]) {
        let permits = |version, target| fit.since.iter().all(|s| s.permits(version, target));
        let all: Vec<Target> = targets().collect();
        let edges = all
            .windows(2)
            .filter(|pair| permits(LATEST, pair[0]) != permits(LATEST, pair[1]));
        let edges: Vec<&[Target]> = edges.collect();
        if !edges.is_empty() {
            for target in *self.random.choose(&edges) {
                self.add(LATEST, *target, way, operands);
            }
        }
        let steps: Vec<(Target, Version, Version)> = all
            .iter()
            .flat_map(|target| {
                let since = target.since().unwrap_or(LATEST);
                let known: Vec<Version> = versions().filter(|version| *version >= since).collect();
                let changes = known
                    .windows(2)
                    .filter(|v| permits(v[0], *target) != permits(v[1], *target));
                changes.map(|v| (*target, v[0], v[1])).collect::<Vec<_>>()
            })
            .collect();
        if !steps.is_empty() {
            let (target, before, after) = *self.random.choose(&steps);
            self.add(before, target, way, operands);
            self.add(after, target, way, operands);
        }
    }

    /// Each scalar operand as a list of one element. ptxas takes some of them.
    fn in_braces(&mut self, target: Target, way: &[Modifier], operands: &[String]) {
        for (at, operand) in operands.iter().enumerate() {
            if operand.starts_with(['[', '{']) {
                continue;
            }
            let mut operands = operands.to_vec();
            operands[at] = format!("{{{operand}}}");
            self.add(LATEST, target, way, &operands);
        }
    }

    /// One change to what is legal; most of them are not.
    fn neighbour(&mut self, target: Target, way: &[Modifier], operands: &[String]) {
        let (mut way, mut operands) = (way.to_vec(), operands.to_vec());
        let place = self.random.below(way.len().max(1));
        let operand = self.random.below(operands.len().max(1));
        match self.random.below(8) {
            0 if !way.is_empty() => {
                way.remove(place);
            }
            1 if !way.is_empty() => way[place] = self.word(),
            2 if way.len() > 1 => {
                let other = self.random.below(way.len());
                way.swap(place, other);
            }
            0..=3 => way.insert(place, self.word()),
            4 if !operands.is_empty() => {
                operands.remove(operand);
            }
            4 => operands.push(self.operand()),
            5 if self.random.once_in(3) => operands.insert(operand, self.operand()),
            _ if operands.is_empty() => operands.push(self.operand()),
            _ => operands[operand] = self.operand(),
        }
        self.add(LATEST, target, &way, &operands);
    }

    /// Words and operands without a thought of the forms.
    fn thrown_together(&mut self) {
        for _ in 0..RANDOM {
            let count = self.random.below(5);
            let way: Vec<Modifier> = (0..count).map(|_| self.word()).collect();
            let count = self.random.below(5);
            let operands: Vec<String> = (0..count).map(|_| self.operand()).collect();
            let target = self.random.choose(&MODERN);
            let Some(target) = Target::from_text(target) else {
                continue;
            };
            self.add(LATEST, target, &way, &operands);
        }
    }

    /// A modifier: of this opcode mostly, else any that there is.
    fn word(&mut self) -> Modifier {
        if self.words.is_empty() || self.random.once_in(4) {
            *self.random.choose(Modifier::ALL)
        } else {
            *self.random.choose(&self.words)
        }
    }

    fn operand(&mut self) -> String {
        Operands::new(&mut self.random, &Modifiers::default()).any()
    }

    fn add(&mut self, version: Version, target: Target, way: &[Modifier], operands: &[String]) {
        let mut instruction = self.name.to_owned();
        for word in way {
            instruction += ".";
            instruction += word.text();
        }
        if !operands.is_empty() {
            instruction += " ";
            instruction += &operands.join(", ");
        }
        instruction += ";";
        self.cases.push(Case {
            version,
            target,
            instruction,
        });
    }
}

const LATEST: Version = Version { major: 9, minor: 5 };

fn versions() -> impl Iterator<Item = Version> {
    let all = VERSIONS.into_iter().chain(NEW);
    all.map(|(major, minor)| Version { major, minor })
}

fn targets() -> impl Iterator<Item = Target> {
    TARGETS
        .iter()
        .filter_map(|target| Target::from_text(target))
}

fn modifiers(words: &[Modifier]) -> Modifiers {
    let mut modifiers = Modifiers::default();
    for &word in words {
        // More than an instruction can hold are more than any form has.
        modifiers.push(word);
    }
    modifiers
}
