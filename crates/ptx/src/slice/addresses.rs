//! Follows the addresses of private variables and functions through the registers of a
//! function: a variable that is only read may be copied.

use std::collections::HashMap;

use super::graph::{Graph, Kind, NodeId};
use crate::ast::{Body, Instruction, List, Module, Name, Operand, Statement};
use crate::name_map::NameMap;
use crate::names::{Modifier, Opcode};

/// Functions of the driver that read what an address points to, and do not keep it.
const READERS: [&str; 4] = ["vprintf", "__assertfail", "malloc", "free"];

/// The rounds after which an address that still reaches new registers counts as stored.
const ROUNDS: usize = 8;

/// The `.global` variables that a function writes or whose address it stores or passes
/// on, and the functions and kernels whose address it takes.
pub fn follow<'a>(module: &Module<'a>, body: &Body<'a>, graph: &Graph<'a>) -> Vec<NodeId> {
    let mut flow = Flow {
        graph,
        body,
        classes: Classes::default(),
        registers: NameMap::default(),
        filter: 0,
        passed: NameMap::default(),
        taken: Vec::new(),
        grown: false,
    };
    for round in 0.. {
        flow.grown = false;
        flow.taken.clear();
        for statement in &body.statements {
            match statement {
                Statement::Instruction(instruction) => flow.instruction(module, instruction),
                // Another variable of the same name, as a rule `param0`, in another block.
                Statement::Variable(variable) => flow.end(variable.name),
                _ => {}
            }
        }
        for (_, passed) in flow.passed.drain() {
            flow.classes.leak_unless_taken(passed);
        }
        if !flow.grown {
            break;
        }
        if round == ROUNDS {
            flow.classes.leak_all();
            break;
        }
    }
    let mut found = flow.taken;
    found.extend(flow.classes.leaked());
    found
}

/// Variables whose addresses may be in the same registers.
#[derive(Debug, Default)]
struct Classes {
    of_node: HashMap<NodeId, u32>,
    parents: Vec<u32>,
    leaks: Vec<bool>,
}

impl Classes {
    fn of(&mut self, node: NodeId) -> u32 {
        let new = self.parents.len() as u32;
        let class = *self.of_node.entry(node).or_insert(new);
        if class == new {
            self.parents.push(class);
            self.leaks.push(false);
        }
        self.find(class)
    }

    fn find(&mut self, mut class: u32) -> u32 {
        while self.parents[class as usize] != class {
            let parent = self.parents[class as usize];
            self.parents[class as usize] = self.parents[parent as usize];
            class = parent;
        }
        class
    }

    fn join(&mut self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.find(a), self.find(b));
        self.parents[b as usize] = a;
        self.leaks[a as usize] |= self.leaks[b as usize];
        a
    }

    /// Something may be written through an address, or an address is stored.
    fn leak(&mut self, class: u32) {
        let class = self.find(class);
        self.leaks[class as usize] = true;
    }

    /// What no call takes is the result of the function.
    fn leak_unless_taken(&mut self, passed: Passed) {
        if !passed.taken {
            self.leak(passed.class);
        }
    }

    fn leak_all(&mut self) {
        self.leaks.fill(true);
    }

    fn leaked(mut self) -> Vec<NodeId> {
        let nodes = std::mem::take(&mut self.of_node).into_iter();
        let leaked = nodes.filter(|(_, class)| {
            let class = self.find(*class);
            self.leaks[class as usize]
        });
        leaked.map(|(node, _)| node).collect()
    }
}

struct Flow<'g, 'a> {
    graph: &'g Graph<'a>,
    body: &'g Body<'a>,
    classes: Classes,
    /// The registers that may hold an address, by name: those of one name in two blocks
    /// count as one.
    registers: NameMap<'a, u32>,
    /// A bit for each of the names in `registers`; see [`bit`].
    filter: u64,
    /// The addresses in parameters of calls.
    passed: NameMap<'a, Passed>,
    /// Functions and kernels whose address is taken.
    taken: Vec<NodeId>,
    /// Whether an address has reached another register.
    grown: bool,
}

/// What is stored in a `.param` variable.
#[derive(Clone, Copy)]
struct Passed {
    class: u32,
    /// Whether a call has it as an argument.
    taken: bool,
}

/// One bit of 64, by the end of a name, which is a number as a rule.
fn bit(name: &str) -> u64 {
    let end = name.bytes().rev().take(2);
    1 << (end.fold(0, |sum, byte| sum * 10 + u32::from(byte)) % 64)
}

impl<'a> Flow<'_, 'a> {
    fn instruction(&mut self, module: &Module<'a>, instruction: &Instruction) {
        let operands = self.body.list(instruction.operands);
        match instruction.opcode {
            Opcode::Call => self.call(operands),
            Opcode::Ld | Opcode::Ldu | Opcode::Prefetch | Opcode::Prefetchu => {}
            Opcode::St => {
                let Some((target, values)) = operands.split_first() else {
                    return;
                };
                self.leak(std::slice::from_ref(target));
                let Some(class) = self.class(values) else {
                    return;
                };
                let modifiers = &module.mnemonic(instruction).modifiers;
                match target.name() {
                    Some(name) if modifiers.has(Modifier::Param) => self.pass(name, class),
                    _ => self.classes.leak(class),
                }
            }
            opcode if computes(opcode) => {
                let Some((result, sources)) = operands.split_first() else {
                    return;
                };
                // The address of a comparison tells nothing of the variable.
                if let Some(class) = self.class(sources)
                    && !matches!(opcode, Opcode::Setp | Opcode::Set | Opcode::Isspacep)
                {
                    self.reach(std::slice::from_ref(result), class);
                }
            }
            _ => self.leak(operands),
        }
    }

    /// An argument is stored in a `.param` of the block, or it is a register.
    fn call(&mut self, operands: &[Operand<'a>]) {
        let mut target = None;
        let mut class = None;
        for operand in operands {
            match operand {
                Operand::Arguments(list, _) => {
                    for argument in self.body.list(*list) {
                        let passed = argument
                            .name()
                            .and_then(|name| self.passed.get_mut(name.text));
                        let passed = passed.map(|passed| {
                            passed.taken = true;
                            passed.class
                        });
                        let direct = self.class(std::slice::from_ref(argument));
                        for found in [passed, direct].into_iter().flatten() {
                            class = Some(match class {
                                Some(class) => self.classes.join(class, found),
                                None => found,
                            });
                        }
                    }
                }
                Operand::Name(name) if target.is_none() => target = Some(*name),
                operand => {
                    if let Some(found) = self.class(std::slice::from_ref(operand)) {
                        self.classes.leak(found);
                    }
                }
            }
        }
        let reads = target.is_some_and(|target| READERS.contains(&target.text));
        if let Some(class) = class
            && !reads
        {
            self.classes.leak(class);
        }
    }

    /// An address is stored in a `.param` variable.
    fn pass(&mut self, parameter: Name<'a>, class: u32) {
        let before = self.passed.get(parameter.text).copied();
        let class = match before {
            Some(before) => self.classes.join(before.class, class),
            None => class,
        };
        let taken = false;
        self.passed.insert(parameter.text, Passed { class, taken });
    }

    /// The scope of a `.param` variable ends.
    fn end(&mut self, parameter: Name<'a>) {
        if let Some(passed) = self.passed.remove(parameter.text) {
            self.classes.leak_unless_taken(passed);
        }
    }

    fn leak(&mut self, operands: &[Operand<'a>]) {
        if let Some(class) = self.class(operands) {
            self.classes.leak(class);
        }
    }

    /// The addresses that any of the operands holds.
    fn class(&mut self, operands: &[Operand<'a>]) -> Option<u32> {
        let mut found = None;
        for operand in operands {
            let class = match inner(operand) {
                Some(list) => self.class(self.body.list(list)),
                None => operand.name().and_then(|name| self.class_of(name)),
            };
            found = match (found, class) {
                (Some(a), Some(b)) => Some(self.classes.join(a, b)),
                (found, class) => found.or(class),
            };
        }
        found
    }

    fn class_of(&mut self, name: Name<'a>) -> Option<u32> {
        if !name.text.starts_with('%')
            && let Some(found) = self.graph.find(name.text)
        {
            let node = self.graph.node(found);
            return match node.kind {
                Kind::Global if !node.single => Some(self.classes.of(found)),
                Kind::Kernel | Kind::Function => {
                    self.taken.push(found);
                    None
                }
                _ => None,
            };
        }
        if self.filter & bit(name.text) == 0 {
            return None;
        }
        let class = *self.registers.get(name.text)?;
        Some(self.classes.find(class))
    }

    /// The results may hold the addresses of a class.
    fn reach(&mut self, results: &[Operand<'a>], class: u32) {
        for result in results {
            if let Some(list) = inner(result) {
                self.reach(self.body.list(list), class);
            } else if let Some(name) = result.name() {
                match self.registers.get(name.text) {
                    Some(known) => {
                        let known = self.classes.find(*known);
                        if known != self.classes.find(class) {
                            self.classes.join(known, class);
                        }
                    }
                    None => {
                        self.registers.insert(name.text, class);
                        self.filter |= bit(name.text);
                        self.grown = true;
                    }
                }
            }
        }
    }
}

/// The operands inside an operand. Reading bounds the nesting.
fn inner(operand: &Operand<'_>) -> Option<List> {
    match *operand {
        Operand::Vector(list, _)
        | Operand::Pair(list, _)
        | Operand::Arguments(list, _)
        | Operand::Element(list, _)
        | Operand::Indexed(list, _) => Some(list),
        _ => None,
    }
}

/// Whether an instruction makes its first operand of the others, and does nothing else.
fn computes(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(
        opcode,
        Add | Addc
            | And
            | Bfe
            | Bfi
            | Cvt
            | Cvta
            | Isspacep
            | Lop3
            | Mad
            | Mad24
            | Madc
            | Max
            | Min
            | Mov
            | Mul
            | Mul24
            | Not
            | Or
            | Prmt
            | Sad
            | Selp
            | Set
            | Setp
            | Shf
            | Shl
            | Shr
            | Slct
            | Sub
            | Subc
            | Xor
    )
}
