//! Name resolution: what the names in a function refer to, as numbers.
//!
//! The checker looks each name up, and keeps what it has found for who comes after it.

use super::symbols::{Role, Symbol};
use crate::ast::{
    AddressBase, Body, Function, Instruction, List, Name, Operand, Space, Statement, Targets,
    Variable,
};
use crate::name_map::NameMap;
use crate::names::Type;
use crate::scope::{self, Meaning, Scopes};

/// A register of a function, by number; `%r<9>` is nine of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u32);

/// A variable in memory or a parameter that a function names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// What a name in an operand refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// A function, a prototype, or nothing that is declared; or the operand is no name.
    #[default]
    Nothing,
    /// A register.
    Register(Register),
    /// The address of a variable.
    Variable(VariableId),
    /// A label, by number in the order of the text.
    Label(u32),
    /// A list of `.branchtargets`, by number.
    Targets(u32),
}

/// Registers beyond this number share one id: a text may declare billions.
const MAX_REGISTERS: u32 = 1 << 22;

/// What the names in a function refer to.
///
/// ```
/// use ptxkit_ptx::ast::{Item, Statement};
/// use ptxkit_ptx::resolution::{Reference, Register, Resolution};
///
/// let source = ".version 8.0\n.target sm_80\n.entry k() { .reg .b32 %r<4>; mov.b32 %r2, 1; }";
/// let module = ptxkit_ptx::read(source).module;
/// let Some(Item::Function(function)) = module.items.first() else { panic!() };
/// let body = function.body.as_ref().unwrap();
/// let names = Resolution::of(function, body, source, &|_| None);
/// assert_eq!(names.reference(0), Reference::Register(Register(2)));
/// assert_eq!(names.registers, 4);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Resolution<'m, 'a> {
    /// Indexed by the operand pool.
    references: Vec<Reference>,
    /// The number of registers.
    pub registers: u32,
    /// The registers that are declared one by one, in order.
    single: Vec<Register>,
    /// By [`VariableId`]: the parameters first.
    variables: Vec<&'m Variable<'a>>,
    parameters: u32,
    /// The registers that hold arguments at the entry.
    pub arguments: Vec<Register>,
    /// The registers that hold the return values, if there are any.
    pub returned: Vec<Register>,
    /// The labels of each list of `.branchtargets`.
    targets: Vec<Vec<u32>>,
}

impl<'m, 'a> Resolution<'m, 'a> {
    /// Of a body that nobody checks; `variable` finds the variables of the module.
    pub fn of(
        function: &'m Function<'a>,
        body: &'m Body<'a>,
        source: &'a str,
        variable: &dyn Fn(&str) -> Option<&'m Variable<'a>>,
    ) -> Self {
        let mut names = Names::new(body, source, |_| {});
        names.parameters(function, Role::Parameter, |_| {});
        for statement in &body.statements {
            match statement {
                Statement::Begin(_) => names.open(),
                Statement::End(_) => names.close(),
                // A name that is declared twice is an error of the checker.
                Statement::Variable(variable) => {
                    let _ = names.declare(variable, Role::Own);
                }
                Statement::Targets(targets) => {
                    let _ = names.declare_targets(targets);
                }
                Statement::Instruction(instruction) => {
                    names.instruction(instruction, body, variable);
                }
                _ => {}
            }
        }
        names.end()
    }

    /// What the operand with this index in the pool refers to; behind the operands of an
    /// instruction that has a guard, what that does.
    #[inline]
    pub fn reference(&self, operand: usize) -> Reference {
        self.references.get(operand).copied().unwrap_or_default()
    }

    /// The declaration of a variable.
    pub fn variable(&self, id: VariableId) -> &'m Variable<'a> {
        self.variables[id.0 as usize]
    }

    /// Every variable that it declares or names, its parameters first.
    pub fn variables(&self) -> &[&'m Variable<'a>] {
        &self.variables
    }

    /// Whether it is a parameter of the function.
    pub fn is_parameter(&self, id: VariableId) -> bool {
        id.0 < self.parameters
    }

    /// Whether a register is one of a range, `%r<100>`, as compilers declare them; a
    /// person gives each a name.
    pub fn is_numbered(&self, register: Register) -> bool {
        self.single.binary_search(&register).is_err()
    }

    /// Calls `found` with the number of each label that a jump to this leads to.
    pub fn each_target(&self, reference: Reference, mut found: impl FnMut(u32)) {
        match reference {
            Reference::Label(label) => found(label),
            Reference::Targets(list) => {
                let list = self.targets.get(list as usize);
                list.into_iter().flatten().copied().for_each(found);
            }
            _ => {}
        }
    }
}

/// A declaration, with the number of the first register, of the variable, of the label or of
/// the list of targets.
#[derive(Clone, Copy, Debug)]
struct Declared<'m, 'a> {
    symbol: Symbol<'m, 'a>,
    number: u32,
}

impl Meaning for Declared<'_, '_> {
    type Register = (Type, u32);

    fn register(&self) -> Option<(Type, u32)> {
        match self.symbol {
            Symbol::Register { ty, vector: 1 } => Some((ty, self.number)),
            _ => None,
        }
    }
}

/// A register of a range.
fn numbered(first: u32, number: u32) -> Reference {
    Reference::Register(Register(
        first.saturating_add(number).min(MAX_REGISTERS - 1),
    ))
}

/// The names that are in scope at one place of a function, and what those before refer to.
#[derive(Debug)]
pub(super) struct Names<'m, 'a> {
    source: &'a str,
    scopes: Scopes<'a, Declared<'m, 'a>>,
    /// The variables of the module that were named so far.
    of_module: NameMap<'a, VariableId>,
    found: Resolution<'m, 'a>,
}

impl<'m, 'a> Names<'m, 'a> {
    /// At the start of a body. `twice` is called for each label that is declared twice in its
    /// block.
    pub fn new(body: &Body<'a>, source: &'a str, twice: impl FnMut(Name<'a>)) -> Self {
        let mut labels = 0..;
        let label = |_| Declared {
            symbol: Symbol::Label,
            number: labels.next().unwrap_or(u32::MAX),
        };
        Names {
            source,
            scopes: Scopes::new(&body.statements, label, twice),
            of_module: NameMap::default(),
            found: Resolution {
                references: vec![Reference::Nothing; body.operands.len()],
                ..Resolution::default()
            },
        }
    }

    /// Declares what the head of a function does; calls `twice` for each name that is there
    /// already.
    pub fn parameters(
        &mut self,
        function: &'m Function<'a>,
        role: Role,
        mut twice: impl FnMut(Name<'a>),
    ) {
        for variable in &function.params {
            self.declare(variable, role).unwrap_or_else(&mut twice);
            if let Some(register) = self.alone(variable) {
                self.found.arguments.push(register);
            }
        }
        self.found.parameters = self.found.variables.len() as u32;
        for variable in &function.returns {
            self.declare(variable, Role::Returned)
                .unwrap_or_else(&mut twice);
            if let Some(register) = self.alone(variable) {
                self.found.returned.push(register);
            }
        }
    }

    /// The register that was declared last, if this is its declaration and one alone.
    fn alone(&self, variable: &Variable<'a>) -> Option<Register> {
        let alone = variable.space == Space::Reg && variable.count.is_none();
        self.found.single.last().copied().filter(|_| alone)
    }

    pub fn open(&mut self) {
        self.scopes.open();
    }

    pub fn close(&mut self) {
        self.scopes.close();
    }

    /// Declares a register or variable.
    ///
    /// # Errors
    /// The name is declared in its block already; it is the later of the two.
    pub fn declare(&mut self, variable: &'m Variable<'a>, role: Role) -> Result<(), Name<'a>> {
        let number = match variable.space {
            Space::Reg => {
                let first = self.found.registers;
                let count = variable.count.unwrap_or(1);
                self.found.registers = first.saturating_add(count).min(MAX_REGISTERS);
                let first = first.min(MAX_REGISTERS - 1);
                if variable.count.is_none() {
                    self.found.single.push(Register(first));
                }
                first
            }
            _ => self.add(variable).0,
        };
        let symbol = Symbol::of(variable, role);
        let declared = Declared { symbol, number };
        self.scopes.declare(variable.name, variable.count, declared)
    }

    /// The same for a list of labels or functions.
    pub fn declare_targets(&mut self, targets: &'m Targets<'a>) -> Result<(), Name<'a>> {
        let labels = targets.targets.iter().filter_map(|name| {
            let label = self.scopes.get(name.text)?;
            matches!(label.symbol, Symbol::Label).then_some(label.number)
        });
        let labels = labels.collect();
        self.found.targets.push(labels);
        let number = self.found.targets.len() as u32 - 1;
        let symbol = Symbol::Targets(targets);
        let declared = Declared { symbol, number };
        self.scopes.declare(targets.name, None, declared)
    }

    /// The same for what has no number.
    pub fn declare_symbol(
        &mut self,
        name: Name<'a>,
        symbol: Symbol<'m, 'a>,
    ) -> Result<(), Name<'a>> {
        let declared = Declared { symbol, number: 0 };
        self.scopes.declare(name, None, declared)
    }

    fn add(&mut self, variable: &'m Variable<'a>) -> VariableId {
        self.found.variables.push(variable);
        VariableId(self.found.variables.len() as u32 - 1)
    }

    /// The symbol of a name of the function.
    pub fn symbol(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        self.scopes.get(name).map(|declared| declared.symbol)
    }

    /// The type of a register, where that is found fast; notes that the operand with this index
    /// refers to it.
    #[inline]
    pub fn resolve_register(&mut self, operand: usize, name: Name<'a>) -> Option<Type> {
        let word = scope::word(name, self.source)?;
        let (ty, first) = self.scopes.register(word)?;
        self.note(operand, numbered(first, scope::number(word)));
        Some(ty)
    }

    /// The symbol of a name of the function; notes that the operand with this index refers to
    /// it.
    pub fn resolve(&mut self, operand: usize, name: Name<'a>) -> Option<Symbol<'m, 'a>> {
        let found = self.scopes.find(name.text)?;
        let Declared { symbol, number } = found.meaning;
        let reference = match symbol {
            Symbol::Register { .. } => numbered(number, found.number),
            Symbol::Variable(..) => Reference::Variable(VariableId(number)),
            Symbol::Label => Reference::Label(number),
            Symbol::Targets(_) => Reference::Targets(number),
            Symbol::Function(_) | Symbol::Prototype(_) => Reference::Nothing,
        };
        self.note(operand, reference);
        Some(symbol)
    }

    /// Notes what the names in an instruction refer to; `variable` finds those of the module.
    pub fn instruction(
        &mut self,
        instruction: &Instruction,
        body: &Body<'a>,
        variable: &dyn Fn(&str) -> Option<&'m Variable<'a>>,
    ) {
        let List { start, len } = instruction.operands;
        // The guard stands behind.
        let len = len + u32::from(instruction.guarded);
        self.list(List { start, len }, body, variable);
    }

    fn list(
        &mut self,
        list: List,
        body: &Body<'a>,
        variable: &dyn Fn(&str) -> Option<&'m Variable<'a>>,
    ) {
        for (place, operand) in (list.start as usize..).zip(body.list(list)) {
            match *operand {
                Operand::Vector(list, _)
                | Operand::Pair(list, _)
                | Operand::Arguments(list, _)
                | Operand::Element(list, _)
                | Operand::Indexed(list, _) => self.list(list, body, variable),
                Operand::Name(name)
                | Operand::Component { name, .. }
                | Operand::Not(name)
                | Operand::Negated(name)
                | Operand::Select { name, .. }
                | Operand::Offset { name, .. }
                | Operand::Address {
                    base: AddressBase::Name(name),
                    ..
                } => self.name(place, name, variable),
                Operand::Special(..)
                | Operand::Integer(_)
                | Operand::Float(_)
                | Operand::Sink(_)
                | Operand::Address { .. } => {}
            }
        }
    }

    fn name(
        &mut self,
        place: usize,
        name: Name<'a>,
        variable: &dyn Fn(&str) -> Option<&'m Variable<'a>>,
    ) {
        if self.resolve_register(place, name).is_some() || self.resolve(place, name).is_some() {
            return;
        }
        let known = self.of_module.get(name.text).copied();
        let id = known.or_else(|| {
            let variable = variable(name.text).filter(|variable| variable.space != Space::Reg)?;
            let id = self.add(variable);
            self.of_module.insert(name.text, id);
            Some(id)
        });
        if let Some(id) = id {
            self.note(place, Reference::Variable(id));
        }
    }

    #[inline]
    fn note(&mut self, operand: usize, reference: Reference) {
        if let Some(known) = self.found.references.get_mut(operand) {
            *known = reference;
        }
    }

    /// The declaration, as `%r<9>`, of the range that is too short for `name`.
    pub fn range_before(&self, name: &str) -> Option<String> {
        self.scopes.range_before(name)
    }

    /// The names in scope, for suggestions.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &'a str> + '_ {
        self.scopes.names()
    }

    /// What was found.
    pub fn end(self) -> Resolution<'m, 'a> {
        self.found
    }
}
