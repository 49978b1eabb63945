//! What rules look at.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::Options;
use super::flow::{
    Affine, Code, Divergence, Effect, Graph, InstructionId, Linear, Origins, Readers, Step,
    Surroundings, UnsetValues, Values,
};
use ptx::NameMap;
use ptx::ast::{
    AddressBase, Body, Function, Instruction, Item, Mnemonic, Module, Operand, Span, Statement,
    Variable, Version,
};
use ptx::diagnostic::LineIndex;
use ptx::isa::target::Target;
use ptx::names::Opcode;

/// A module, for the rules that look at all of it.
#[derive(Debug)]
pub struct Subject<'m, 'a> {
    /// As read.
    pub module: &'m Module<'a>,
    /// The text it was read from.
    pub source: &'a str,
    /// What it is judged for: what was asked for, or else what it says.
    pub target: Option<Target>,
    /// The same of the version.
    pub version: Option<Version>,
    /// By the number of the mnemonic.
    effects: Vec<Effect>,
    variables: NameMap<'a, &'m Variable<'a>>,
    functions: NameMap<'a, &'m Function<'a>>,
    lines: OnceCell<LineIndex<'a>>,
}

impl<'m, 'a> Subject<'m, 'a> {
    pub fn new(module: &'m Module<'a>, source: &'a str, options: &Options) -> Self {
        let words = || module.target.iter();
        let own = || words().find_map(|name| Target::from_text(name.text));
        let mut variables = NameMap::default();
        let mut functions = NameMap::default();
        for item in &module.items {
            match item {
                Item::Variable(variable) => {
                    variables.insert(variable.name.text, variable);
                }
                // The definition says more than what declared it before.
                Item::Function(function) => {
                    functions.insert(function.name.text, function);
                }
                Item::Directive(_) => {}
            }
        }
        Subject {
            module,
            source,
            target: options.target.or_else(own),
            version: options
                .version
                .or(module.version.map(|(version, _)| version)),
            effects: module.mnemonics.iter().map(Effect::of).collect(),
            variables,
            functions,
            lines: OnceCell::new(),
        }
    }

    /// The functions that have a body which could be read.
    pub fn functions(&self) -> impl Iterator<Item = FunctionSubject<'_, 'a>> {
        self.module.items.iter().filter_map(|item| match item {
            Item::Function(function) => {
                let body = function.body.as_ref().filter(|body| !body.broken)?;
                Some(FunctionSubject {
                    subject: self,
                    function,
                    body,
                    flow: OnceCell::new(),
                    affine: OnceCell::new(),
                    origins: OnceCell::new(),
                    divergence: OnceCell::new(),
                    unset: OnceCell::new(),
                    readers: OnceCell::new(),
                })
            }
            _ => None,
        })
    }

    /// The function of this name: the definition, if there is one.
    pub fn function(&self, name: &str) -> Option<&'m Function<'a>> {
        self.functions.get(name).copied()
    }

    /// Whether a call of this function may come to an instruction of which
    /// `wanted` is true: what is defined elsewhere may do anything.
    pub fn may_execute(&self, name: &str, wanted: impl Fn(&Mnemonic<'a>) -> bool) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            let Some(body) = self.function(name).and_then(|f| f.body.as_ref()) else {
                return true;
            };
            for statement in &body.statements {
                let Statement::Instruction(instruction) = statement else {
                    continue;
                };
                if wanted(self.module.mnemonic(instruction)) {
                    return true;
                }
                if instruction.opcode == Opcode::Call {
                    match callee(body.list(instruction.operands)) {
                        Some(name) => open.push(name),
                        None => return true,
                    }
                }
            }
        }
        false
    }

    /// Whether the module has an instruction of which `wanted` is true.
    pub fn uses(&self, wanted: impl Fn(&Mnemonic<'a>) -> bool) -> bool {
        self.module.mnemonics.iter().any(wanted)
    }

    /// The variable of this name outside of functions.
    pub fn variable(&self, name: &str) -> Option<&'m Variable<'a>> {
        self.variables.get(name).copied()
    }
}

/// A function with a body, and what is known of it.
#[derive(Debug)]
pub struct FunctionSubject<'m, 'a> {
    /// The module it stands in.
    pub subject: &'m Subject<'m, 'a>,
    /// Its head.
    pub function: &'m Function<'a>,
    /// Its statements.
    pub body: &'m Body<'a>,
    flow: OnceCell<Option<Flow<'m, 'a>>>,
    affine: OnceCell<Affine>,
    origins: OnceCell<Origins>,
    divergence: OnceCell<Option<Divergence>>,
    unset: OnceCell<UnsetValues>,
    readers: OnceCell<Readers>,
}

/// The instructions of a function, the ways through it, and its values.
#[derive(Debug)]
pub struct Flow<'m, 'a> {
    /// The instructions.
    pub code: Code<'m, 'a>,
    /// The ways through them.
    pub graph: Graph,
    /// What registers hold.
    pub values: Values,
}

impl<'m, 'a> FunctionSubject<'m, 'a> {
    /// Its instructions in the order of the text.
    pub fn instructions(&self) -> impl Iterator<Item = &'m Instruction> + use<'m, 'a> {
        let statements = self.body.statements.iter();
        statements.filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }

    /// The opcode with its modifiers.
    pub fn mnemonic(&self, instruction: &Instruction) -> &'m Mnemonic<'a> {
        self.subject.module.mnemonic(instruction)
    }

    /// The operands in the order of the text.
    pub fn operands(&self, instruction: &Instruction) -> &'m [Operand<'a>] {
        self.body.list(instruction.operands)
    }

    /// What an instruction does besides naming its operands.
    pub fn effect(&self, step: &Step) -> &'m Effect {
        // A step has been made of an effect.
        &self.subject.effects[step.mnemonic as usize]
    }

    /// The same, by instruction.
    pub fn effect_of(&self, instruction: &Instruction) -> Option<&'m Effect> {
        self.subject.effects.get(instruction.mnemonic.index())
    }

    /// Instructions, graph and values; `None` for a function that is in error, or
    /// so tangled that they would take out of all proportion.
    pub fn flow(&self) -> Option<&Flow<'m, 'a>> {
        let flow = self.flow.get_or_init(|| {
            // What is no instruction may have been meant for any: a jump, `ret` …
            let unknown = |opcode| opcode == Opcode::Unknown;
            if self.subject.uses(|mnemonic| unknown(mnemonic.opcode))
                && self
                    .instructions()
                    .any(|instruction| unknown(instruction.opcode))
            {
                return None;
            }
            let around = Surroundings {
                effects: &self.subject.effects,
                variables: &self.subject.variables,
                functions: &self.subject.functions,
            };
            let code = Code::new(self.function, self.body, &around);
            if code.unclear {
                return None;
            }
            let graph = Graph::new(&code)?;
            let values = Values::new(&code, &graph)?;
            Some(Flow {
                code,
                graph,
                values,
            })
        });
        flow.as_ref()
    }

    /// Values as sums of `%tid`, parameters, addresses.
    pub fn affine(&self) -> Option<&Affine> {
        let flow = self.flow()?;
        let mnemonics = &self.subject.module.mnemonics;
        let effects = &self.subject.effects;
        let new = || Affine::new(&flow.code, &flow.graph, &flow.values, mnemonics, effects);
        Some(self.affine.get_or_init(new))
    }

    /// What addresses are made of.
    pub fn origins(&self) -> Option<&Origins> {
        let flow = self.flow()?;
        let mnemonics = &self.subject.module.mnemonics;
        let new = || Origins::new(&flow.code, &flow.graph, &flow.values, mnemonics);
        Some(self.origins.get_or_init(new))
    }

    /// What registers hold that nothing was written to.
    pub fn unset(&self) -> Option<&UnsetValues> {
        let flow = self.flow()?;
        let new = || UnsetValues::new(&flow.code, &flow.graph, &flow.values);
        Some(self.unset.get_or_init(new))
    }

    /// Which instructions read each value.
    pub fn readers(&self) -> Option<&Readers> {
        let flow = self.flow()?;
        Some(self.readers.get_or_init(|| Readers::new(flow)))
    }

    /// What differs between threads.
    pub fn divergence(&self) -> Option<&Divergence> {
        let (flow, affine) = (self.flow()?, self.affine()?);
        let mnemonics = &self.subject.module.mnemonics;
        let new = || Divergence::new(&flow.code, &flow.graph, &flow.values, affine, mnemonics);
        self.divergence.get_or_init(new).as_ref()
    }

    /// The sum that an address or another operand is, by its place in the pool.
    pub fn linear(&self, place: usize) -> Option<Linear> {
        let flow = self.flow()?;
        self.affine()?.of_operand(&flow.code, &flow.values, place)
    }

    /// Each instruction with its step.
    pub fn steps(&self) -> impl Iterator<Item = (InstructionId, &Step, &'m Instruction)> {
        let code = self.flow().map(|flow| &flow.code);
        code.into_iter().flat_map(|code| {
            code.ids()
                .filter_map(|id| Some((id, code.steps.get(id.index())?, code.instruction(id)?)))
        })
    }

    /// Where an operand of an instruction stands.
    pub fn operand_span(&self, instruction: &Instruction, operand: &Operand<'_>) -> Span {
        match *operand {
            Operand::Name(name)
            | Operand::Component { name, .. }
            | Operand::Not(name)
            | Operand::Negated(name)
            | Operand::Select { name, .. }
            | Operand::Offset { name, .. }
            | Operand::Address {
                base: AddressBase::Name(name),
                ..
            } => name.span(self.subject.source),
            Operand::Address {
                base: AddressBase::Immediate(span),
                ..
            }
            | Operand::Special(_, span)
            | Operand::Element(_, span)
            | Operand::Vector(_, span)
            | Operand::Arguments(_, span)
            | Operand::Indexed(_, span)
            | Operand::Pair(_, span)
            | Operand::Sink(span) => span,
            Operand::Integer(integer) => integer.span,
            Operand::Float(float) => float.span,
        }
        .or(instruction.opcode_span)
    }

    /// Whether an instruction is inline assembly, which the compiler put into its
    /// own text without looking at it.
    pub fn is_inline_assembly(&self, instruction: &Instruction) -> bool {
        let (start, end) = (self.function.span.start, instruction.span.start);
        let before = self.subject.source.get(start as usize..end as usize);
        let mark = |text: &str| before.and_then(|before| before.rfind(text));
        mark("// begin inline asm") > mark("// end inline asm")
    }

    /// The line that something stands on, from 1, for messages.
    pub fn line(&self, span: Span) -> u32 {
        let lines = &self.subject.lines;
        let lines = lines.get_or_init(|| LineIndex::new(self.subject.source));
        lines.locate(span.start).line
    }
}

/// What a call names.
pub fn callee<'a>(operands: &[Operand<'a>]) -> Option<&'a str> {
    let mut names = operands.iter().filter_map(|operand| match operand {
        Operand::Name(name) => Some(name.text),
        _ => None,
    });
    names.next()
}

trait OrElse {
    fn or(self, other: Span) -> Span;
}

impl OrElse for Span {
    fn or(self, other: Span) -> Span {
        if self == Span::default() { other } else { self }
    }
}
