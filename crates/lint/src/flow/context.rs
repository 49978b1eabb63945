//! The input of rules: a module or function, with its analyses.

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;

use super::accesses::{SharedAccess, accesses};
use super::affine::{Affine, Linear};
use super::assembly::InlineAssembly;
use super::barriers::{BarrierMistake, mistakes};
use super::by_mnemonic::ByMnemonic;
use super::carrier::Carrier;
use super::divergence::{Divergence, Variance};
use super::effect::Effect;
use super::first_pass::FirstPass;
use super::graph::Graph;
use super::instructions::{InstructionId, Instructions, ModuleInfo, Step};
use super::intervals::Synchronization;
use super::locks::{CriticalSection, critical_sections};
use super::memory::{self, MemoryAccess, Place};
use super::origin::{Origin, Origins};
use super::placement::Placement;
use super::uninitialized::UninitializedValues;
use super::users::Users;
use super::values::{ValueId, Values};
use analysis::control_flow::Loops;
use ptx::NameMap;
use ptx::ast::{
    AddressBase, Body, Function, Instruction, Item, Mnemonic, Module, Operand, Space, Span,
    Statement, Variable, Version,
};
use ptx::diagnostic::LineIndex;
use ptx::isa::target::Target;
use ptx::names::{Opcode, SpecialRegister};
use ptx::resolution::Resolution;

/// A module, for the rules that check all of it.
#[derive(Debug)]
pub struct ModuleContext<'m, 'a> {
    /// As parsed.
    pub module: &'m Module<'a>,
    /// The source text.
    pub source: &'a str,
    /// The target to check for: that of the options, or else the module's own.
    pub target: Option<Target>,
    /// The same for the version.
    pub version: Option<Version>,
    /// Indexed by mnemonic.
    effects: Vec<Effect>,
    variables: NameMap<'a, &'m Variable<'a>>,
    functions: NameMap<'a, &'m Function<'a>>,
    lines: OnceCell<LineIndex<'a>>,
    placement: OnceCell<Placement<'a>>,
}

impl<'m, 'a> ModuleContext<'m, 'a> {
    /// Of a module that was parsed from `source`, to check for another target or version than
    /// its own where one is given.
    pub fn new(
        module: &'m Module<'a>,
        source: &'a str,
        target: Option<Target>,
        version: Option<Version>,
    ) -> Self {
        let words = || module.target.iter();
        let own = || words().find_map(|name| Target::from_text(name.text));
        let mut variables = NameMap::default();
        let mut functions = NameMap::default();
        for item in &module.items {
            match item {
                Item::Variable(variable) => {
                    variables.insert(variable.name.text, variable);
                }
                // The definition replaces an earlier declaration.
                Item::Function(function) => {
                    functions.insert(function.name.text, function);
                }
                Item::Directive(_) => {}
            }
        }
        ModuleContext {
            module,
            source,
            target: target.or_else(own),
            version: version.or(module.version.map(|(version, _)| version)),
            effects: module.mnemonics.iter().map(Effect::of).collect(),
            variables,
            functions,
            lines: OnceCell::new(),
            placement: OnceCell::new(),
        }
    }

    /// The functions with a body that was parsed in full.
    pub fn functions(&self) -> impl Iterator<Item = FunctionContext<'_, 'a>> {
        self.module.items.iter().filter_map(|item| match item {
            Item::Function(function) => {
                let body = function.body.as_ref().filter(|body| !body.broken)?;
                let (mnemonics, effects) = (&self.module.mnemonics, &self.effects);
                Some(FunctionContext::new(
                    self, function, body, None, mnemonics, effects,
                ))
            }
            _ => None,
        })
    }

    /// The function of this name: the definition, if there is one.
    pub fn function(&self, name: &str) -> Option<&'m Function<'a>> {
        self.functions.get(name).copied()
    }

    /// Whether a call of this function may execute an instruction of which `wanted` is
    /// true; a function that is defined elsewhere may do anything.
    pub fn may_execute(&self, name: &str, wanted: impl Fn(&Mnemonic<'a>) -> bool) -> bool {
        self.may_come_to(name, &|instruction| {
            wanted(self.module.mnemonic(instruction))
        })
    }

    /// The same by effect.
    pub fn may_have(&self, name: &str, wanted: impl Fn(&Effect) -> bool) -> bool {
        self.may_come_to(name, &|instruction| {
            let effect = self.effects.get(instruction.mnemonic.index());
            effect.is_some_and(&wanted)
        })
    }

    fn may_come_to(&self, name: &str, wanted: &dyn Fn(&Instruction) -> bool) -> bool {
        let mut visited = HashSet::new();
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            if !visited.insert(name) {
                continue;
            }
            let Some(body) = self.function(name).and_then(|f| f.body.as_ref()) else {
                return true;
            };
            for statement in &body.statements {
                let Statement::Instruction(instruction) = statement else {
                    continue;
                };
                if wanted(instruction) {
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

    /// The layout of the module-level variables.
    pub(crate) fn placement(&self) -> &Placement<'a> {
        self.placement.get_or_init(|| {
            let variables = self.module.items.iter().filter_map(|item| match item {
                Item::Variable(variable) => Some(variable),
                _ => None,
            });
            Placement::new(variables, self.source, None)
        })
    }

    /// The module-level variable of this name.
    pub fn variable(&self, name: &str) -> Option<&'m Variable<'a>> {
        self.variables.get(name).copied()
    }
}

/// A function with a body, and its analyses.
#[derive(Debug)]
pub struct FunctionContext<'m, 'a> {
    /// Its module.
    pub context: &'m ModuleContext<'m, 'a>,
    /// The function itself.
    pub function: &'m Function<'a>,
    /// Its statements.
    pub body: &'m Body<'a>,
    /// The mnemonics that its instructions have the numbers of, and maybe others.
    pub mnemonics: &'m [Mnemonic<'a>],
    /// Indexed by mnemonic.
    effects: &'m [Effect],
    /// What the names in it refer to, if a check has found that out, until `flow` takes it.
    names: RefCell<Option<Resolution<'m, 'a>>>,
    flow: OnceCell<Option<Flow<'m, 'a>>>,
    affine: OnceCell<RefCell<Affine>>,
    origins: OnceCell<RefCell<Origins>>,
    divergence: OnceCell<Option<Divergence>>,
    first_pass: OnceCell<Option<FirstPass>>,
    uninitialized: OnceCell<UninitializedValues>,
    users: OnceCell<Users>,
    specials: OnceCell<Vec<SpecialRegister>>,
    loops: OnceCell<Option<Loops>>,
    synchronization: OnceCell<Synchronization>,
    assembly: OnceCell<InlineAssembly>,
    by_mnemonic: OnceCell<ByMnemonic>,
    accesses: OnceCell<Vec<MemoryAccess<'m>>>,
    places: OnceCell<Vec<Place<'m, 'a>>>,
    barrier_mistakes: OnceCell<Vec<BarrierMistake>>,
    global_accesses: OnceCell<Vec<SharedAccess>>,
    critical_sections: OnceCell<Vec<CriticalSection>>,
}

/// The instructions, control-flow graph and values of a function.
#[derive(Debug)]
pub struct Flow<'m, 'a> {
    /// The instructions.
    pub instructions: Instructions<'m, 'a>,
    /// Their control-flow graph.
    pub graph: Graph,
    /// Their values in SSA form.
    pub values: Values,
}

impl<'m, 'a> FunctionContext<'m, 'a> {
    pub(crate) fn new(
        context: &'m ModuleContext<'m, 'a>,
        function: &'m Function<'a>,
        body: &'m Body<'a>,
        names: Option<Resolution<'m, 'a>>,
        mnemonics: &'m [Mnemonic<'a>],
        effects: &'m [Effect],
    ) -> Self {
        FunctionContext {
            context,
            function,
            body,
            mnemonics,
            effects,
            names: names.into(),
            flow: OnceCell::new(),
            affine: OnceCell::new(),
            origins: OnceCell::new(),
            divergence: OnceCell::new(),
            first_pass: OnceCell::new(),
            uninitialized: OnceCell::new(),
            users: OnceCell::new(),
            specials: OnceCell::new(),
            loops: OnceCell::new(),
            synchronization: OnceCell::new(),
            assembly: OnceCell::new(),
            by_mnemonic: OnceCell::new(),
            accesses: OnceCell::new(),
            places: OnceCell::new(),
            barrier_mistakes: OnceCell::new(),
            global_accesses: OnceCell::new(),
            critical_sections: OnceCell::new(),
        }
    }

    /// The instructions in source order.
    pub fn instructions(&self) -> impl Iterator<Item = &'m Instruction> + use<'m, 'a> {
        let statements = self.body.statements.iter();
        statements.filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }

    /// The opcode with its modifiers.
    pub fn mnemonic(&self, instruction: &Instruction) -> &'m Mnemonic<'a> {
        let found = self.mnemonics.get(instruction.mnemonic.index());
        found.unwrap_or(const { &Mnemonic::UNKNOWN })
    }

    /// Its instructions by mnemonic.
    fn by_mnemonic(&self) -> &ByMnemonic {
        let new = || ByMnemonic::new(self.body, self.mnemonics.len());
        self.by_mnemonic.get_or_init(new)
    }

    /// The instructions whose mnemonic or effect is wanted, in source order. A rule looks at
    /// these alone: the others are many.
    pub(crate) fn instructions_with(
        &self,
        wanted: impl Fn(&Mnemonic<'a>, &Effect) -> bool,
    ) -> Vec<(InstructionId, &'m Instruction)> {
        let wanted = |number: usize| wanted(&self.mnemonics[number], &self.effects[number]);
        self.by_mnemonic().chosen(self.body, &wanted)
    }

    /// Whether it has an instruction of which `wanted` is true. A rule asks this before it looks
    /// at each instruction.
    pub(crate) fn has_mnemonic(&self, wanted: impl Fn(&Mnemonic<'a>) -> bool) -> bool {
        let mut numbers = self.by_mnemonic().numbers();
        numbers.any(|number| wanted(&self.mnemonics[number]))
    }

    /// The same by effect.
    pub(crate) fn has_effect(&self, wanted: impl Fn(&Effect) -> bool) -> bool {
        let mut numbers = self.by_mnemonic().numbers();
        numbers.any(|number| wanted(&self.effects[number]))
    }

    /// The operands in source order.
    pub fn operands(&self, instruction: &Instruction) -> &'m [Operand<'a>] {
        self.body.list(instruction.operands)
    }

    /// Whether it names a special register of which `wanted` is true.
    pub(crate) fn names_special(&self, wanted: impl Fn(SpecialRegister) -> bool) -> bool {
        let specials = self.specials.get_or_init(|| {
            let mut specials = Vec::new();
            for operand in &self.body.operands {
                if let Operand::Special(register, _) = operand
                    && !specials.contains(register)
                {
                    specials.push(*register);
                }
            }
            specials
        });
        specials.iter().any(|register| wanted(*register))
    }

    /// The effect of an instruction besides its operands.
    pub fn effect(&self, step: &Step) -> &'m Effect {
        // A step has been made of an effect.
        &self.effects[step.mnemonic as usize]
    }

    /// The same, by instruction.
    pub fn effect_of(&self, instruction: &Instruction) -> Option<&'m Effect> {
        self.effects.get(instruction.mnemonic.index())
    }

    /// Instructions, graph and values; `None` for a function with errors, or one whose
    /// analysis takes too many steps.
    pub fn flow(&self) -> Option<&Flow<'m, 'a>> {
        let flow = self.flow.get_or_init(|| {
            // An unknown opcode may be any instruction: a jump, `ret` …
            if self.has_mnemonic(|mnemonic| mnemonic.opcode == Opcode::Unknown) {
                return None;
            }
            let names = self.names.take().unwrap_or_else(|| {
                let variable = |name: &str| self.context.variable(name);
                Resolution::of(self.function, self.body, self.context.source, &variable)
            });
            let around = ModuleInfo {
                effects: self.effects,
                functions: &self.context.functions,
            };
            let instructions = Instructions::new(self.function, self.body, names, &around);
            if instructions.unclear {
                return None;
            }
            let graph = Graph::new(&instructions);
            let values = Values::new(&instructions, &graph)?;
            Some(Flow {
                instructions,
                graph,
                values,
            })
        });
        flow.as_ref()
    }

    /// The provenance of the address or number in an operand, by its index in the pool.
    pub fn origin(&self, place: usize) -> Option<Origin> {
        let flow = self.flow()?;
        let origins = self.origins.get_or_init(|| Origins::new(flow).into());
        Some(origins.borrow_mut().of_operand(self, flow, place))
    }

    /// The uninitialized values.
    pub fn uninitialized(&self) -> Option<&UninitializedValues> {
        let flow = self.flow()?;
        let new = || UninitializedValues::new(&flow.instructions, &flow.graph, &flow.values);
        Some(self.uninitialized.get_or_init(new))
    }

    /// The users of each value.
    pub fn users(&self) -> Option<&Users> {
        let flow = self.flow()?;
        Some(self.users.get_or_init(|| Users::new(flow)))
    }

    /// The loop nest; `None` for one that is not followed.
    pub(crate) fn loops(&self) -> Option<&Loops> {
        let flow = self.flow()?;
        self.loops.get_or_init(|| Loops::new(&flow.graph)).as_ref()
    }

    /// How the instructions bear on the order of the threads of a block.
    pub(crate) fn synchronization(&self) -> Option<&Synchronization> {
        let (flow, loops) = (self.flow()?, self.loops()?);
        let new = || Synchronization::new(self, flow, loops);
        Some(self.synchronization.get_or_init(new))
    }

    /// The values and branches that differ between threads.
    pub fn divergence(&self) -> Option<&Divergence> {
        let flow = self.flow()?;
        let new = || Divergence::new(self, flow);
        self.divergence.get_or_init(new).as_ref()
    }

    /// What makes a divergent value differ between threads; `None` where that is not one
    /// special register, or too far away.
    pub fn carrier(&self, value: ValueId) -> Option<Carrier> {
        let (flow, divergence) = (self.flow()?, self.divergence()?);
        let differs = |part| divergence.of(part) != Variance::Block;
        Carrier::find(self, flow, value, differs)
    }

    /// The threads that come to each block at first, and the branches that part them.
    pub fn first_pass(&self) -> Option<&FirstPass> {
        let flow = self.flow()?;
        let new = || FirstPass::new(self, flow);
        self.first_pass.get_or_init(new).as_ref()
    }

    /// The number that an operand is, by its index in the pool, if it is always the same.
    pub(crate) fn number(&self, place: usize) -> Option<i64> {
        let flow = self.flow()?;
        let affine = self.affine.get_or_init(|| Affine::new(flow).into());
        affine.borrow_mut().number(self, flow, place)
    }

    /// The affine expression of an operand, by its index in the pool.
    pub fn linear(&self, place: usize) -> Option<Linear> {
        let flow = self.flow()?;
        let affine = self.affine.get_or_init(|| Affine::new(flow).into());
        affine.borrow_mut().of_operand(self, flow, place)
    }

    /// That of a value; the value itself as a term where no more is known.
    pub fn linear_of(&self, value: ValueId) -> Option<Linear> {
        let flow = self.flow()?;
        let affine = self.affine.get_or_init(|| Affine::new(flow).into());
        Some(affine.borrow_mut().of_value(self, value))
    }

    /// Each instruction with its step.
    pub fn steps(&self) -> impl Iterator<Item = (InstructionId, &Step, &'m Instruction)> {
        let instructions = self.flow().map(|flow| &flow.instructions);
        instructions.into_iter().flat_map(|instructions| {
            instructions.ids().filter_map(|id| {
                Some((
                    id,
                    instructions.steps.get(id.index())?,
                    instructions.get(id)?,
                ))
            })
        })
    }

    /// The span of an operand of an instruction.
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
            } => name.span(self.context.source),
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

    /// The accesses to memory, in source order; none where there is no [`flow`](Self::flow).
    pub(crate) fn accesses(&self) -> &[MemoryAccess<'m>] {
        self.accesses.get_or_init(|| memory::accesses(self))
    }

    /// The accesses to variables that are known.
    pub(crate) fn places(&self) -> &[Place<'m, 'a>] {
        self.places.get_or_init(|| memory::places(self))
    }

    /// The accesses to global memory whose base is known.
    pub(crate) fn global_accesses(&self) -> &[SharedAccess] {
        let new = |flow| accesses(self, flow, Space::Global);
        let found = || self.flow().map(new).unwrap_or_default();
        self.global_accesses.get_or_init(found)
    }

    /// What is executed with a lock held that lies in global memory.
    pub(crate) fn critical_sections(&self) -> &[CriticalSection] {
        let new = || critical_sections(self);
        self.critical_sections.get_or_init(new)
    }

    /// What goes wrong at its barriers of some threads.
    pub(crate) fn barrier_mistakes(&self) -> &[BarrierMistake] {
        self.barrier_mistakes.get_or_init(|| mistakes(self))
    }

    /// Whether an instruction is inline assembly, which the compiler does not check.
    pub fn is_inline_assembly(&self, instruction: &Instruction) -> bool {
        let (source, function) = (self.context.source, self.function.span);
        let new = || InlineAssembly::new(source, function, self.body);
        let assembly = self.assembly.get_or_init(new);
        assembly.contains(source, function, instruction.span.start)
    }

    /// The line of a span, from 1, for messages.
    pub fn line(&self, span: Span) -> u32 {
        let lines = &self.context.lines;
        let lines = lines.get_or_init(|| LineIndex::new(self.context.source));
        lines.locate(span.start).line
    }
}

/// The callee of a call.
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
