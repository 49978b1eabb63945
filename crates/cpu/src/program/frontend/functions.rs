//! The functions of a module: which have addresses, and which may call themselves.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::module_symbol::ModuleSymbol;
use ptx::ast::{Body, Function, FunctionKind, Initializer, Item, Module, Operand, Statement};
use ptx::names::Opcode;

/// No device memory and no host memory has such an address.
const TAG: u64 = 0xFA << 56;
/// The bits of an address that number the functions of a module. Those above tell modules
/// apart.
const NUMBER_BITS: u32 = 24;

/// The functions of a module that have addresses, and those that may call themselves.
///
/// An address is a number and no place in memory: a call finds the function in a table.
#[derive(Default)]
pub(crate) struct FunctionTable<'m, 'a> {
    first: u64,
    addressed: Vec<&'m Function<'a>>,
    numbers: HashMap<&'a str, u64>,
    recursive: HashSet<&'a str>,
}

/// The functions, as the scan numbers them.
type Symbols<'s, 'm, 'a> = &'s HashMap<&'a str, ModuleSymbol<'m, 'a>>;

struct Scan<'s, 'm, 'a> {
    symbols: Symbols<'s, 'm, 'a>,
    numbers: HashMap<&'a str, usize>,
    /// Whether the function's address is taken.
    addressed: Vec<bool>,
    /// The functions that each calls; `None` stands for those with addresses.
    calls: Vec<Vec<Option<usize>>>,
}

impl<'m, 'a> FunctionTable<'m, 'a> {
    pub fn new(
        module: &'m Module<'a>,
        source: &str,
        symbols: Symbols<'_, 'm, 'a>,
    ) -> FunctionTable<'m, 'a> {
        let functions = module.items.iter().filter_map(|item| match item {
            Item::Function(function) if function.kind != FunctionKind::Entry => {
                Some((function, function.body.as_ref()?))
            }
            _ => None,
        });
        let functions: Vec<(&Function<'a>, &Body<'a>)> = functions.collect();
        if functions.is_empty() {
            return FunctionTable::default();
        }
        let numbers = functions.iter().enumerate();
        let mut scan = Scan {
            symbols,
            numbers: numbers
                .map(|(number, (function, _))| (function.name.text, number))
                .collect(),
            addressed: vec![false; functions.len()],
            calls: vec![Vec::new(); functions.len()],
        };
        for item in &module.items {
            match item {
                Item::Variable(variable) => {
                    if let Some(init) = &variable.init {
                        scan.initializer(init);
                    }
                }
                Item::Function(function) => {
                    if let Some(body) = &function.body {
                        let number = scan.numbers.get(function.name.text).copied();
                        scan.body(body, number);
                    }
                }
                Item::Directive(_) => {}
            }
        }
        let name = |number: usize| {
            functions
                .get(number)
                .map(|(function, _)| function.name.text)
        };
        let mut table = FunctionTable {
            recursive: scan.recursive().into_iter().filter_map(name).collect(),
            ..FunctionTable::default()
        };
        let addressed = functions.iter().zip(&scan.addressed).filter(|f| *f.1);
        for (&(function, _), _) in addressed {
            let number = table.addressed.len() as u64;
            table.numbers.insert(function.name.text, number);
            table.addressed.push(function);
        }
        if !table.addressed.is_empty() {
            let mut hasher = DefaultHasher::new();
            source.hash(&mut hasher);
            table.first = TAG | (hasher.finish() >> 32) << NUMBER_BITS;
        }
        table
    }

    /// The address of a function; `None` if it has none.
    pub fn address(&self, function: &Function<'_>) -> Option<u64> {
        let number = *self.numbers.get(function.name.text)?;
        (number >> NUMBER_BITS == 0).then_some(self.first + number)
    }

    /// The functions with addresses: those from [`first`](Self::first) on.
    pub fn addressed(&self) -> &[&'m Function<'a>] {
        &self.addressed
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    /// Whether the function may call itself, or a function that may.
    pub fn is_recursive(&self, function: &Function<'_>) -> bool {
        self.recursive.contains(function.name.text)
    }
}

impl<'a> Scan<'_, '_, 'a> {
    /// The number of a function that a name stands for.
    fn function(&self, name: &str) -> Option<usize> {
        match self.symbols.get(name)? {
            ModuleSymbol::Function(function) => self.numbers.get(function.name.text).copied(),
            _ => None,
        }
    }

    fn take_address(&mut self, name: &str) {
        if let Some(number) = self.function(name) {
            self.addressed[number] = true;
        }
    }

    fn initializer(&mut self, init: &Initializer<'a>) {
        match init {
            Initializer::List(items) => items.iter().for_each(|item| self.initializer(item)),
            Initializer::Address { name, .. } => self.take_address(name.text),
            _ => {}
        }
    }

    /// `caller` is `None` for a kernel, which nobody calls.
    fn body(&mut self, body: &Body<'a>, caller: Option<usize>) {
        for statement in &body.statements {
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            let operands = body.list(instruction.operands);
            match (instruction.opcode, operands) {
                // Most operands are registers.
                (Opcode::Mov, [_, Operand::Name(name)]) if !name.text.starts_with('%') => {
                    self.take_address(name.text);
                }
                (
                    Opcode::Call,
                    [Operand::Name(name), ..] | [Operand::Arguments(..), Operand::Name(name), ..],
                ) => {
                    let callee = self.function(name.text);
                    let is_known = self.symbols.contains_key(name.text);
                    // With a prototype or a list of targets the name is that of a register, which
                    // may hide a function.
                    let names = operands.iter();
                    let names = names.filter(|operand| matches!(operand, Operand::Name(_)));
                    let is_indirect = names.count() > 1;
                    if let Some(caller) = caller {
                        if callee.is_some() {
                            self.calls[caller].push(callee);
                        }
                        if is_indirect || !is_known {
                            self.calls[caller].push(None);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The functions from which a cycle of calls can be reached: what is left when those
    /// are taken away, again and again, that call none that is left.
    fn recursive(&self) -> Vec<usize> {
        let count = self.calls.len();
        // One more node stands for any function with an address.
        let any = count;
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
        let mut left = vec![0_usize; count + 1];
        for (caller, calls) in self.calls.iter().enumerate() {
            for callee in calls {
                callers[callee.unwrap_or(any)].push(caller);
                left[caller] += 1;
            }
        }
        for (callee, _) in self.addressed.iter().enumerate().filter(|a| *a.1) {
            callers[callee].push(any);
            left[any] += 1;
        }
        let mut done: Vec<usize> = (0..=count).filter(|node| left[*node] == 0).collect();
        while let Some(node) = done.pop() {
            for &caller in &callers[node] {
                left[caller] -= 1;
                if left[caller] == 0 {
                    done.push(caller);
                }
            }
        }
        (0..count).filter(|node| left[*node] > 0).collect()
    }
}
