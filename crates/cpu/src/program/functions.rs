//! The functions of a module: which have addresses, and which may call themselves.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::module_data::ModuleSymbol;
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
                    if let Some(caller) = caller
                        && (callee.is_some() || !is_known)
                    {
                        self.calls[caller].push(callee);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::module_data;

    fn with_table(items: &str, check: impl FnOnce(&FunctionTable<'_, '_>, &[u8])) {
        let source = format!(".version 8.0\n.target sm_80\n.address_size 64\n{items}");
        let reading = ptx::read(&source);
        assert_eq!(reading.diagnostics, []);
        let (data, errors) = module_data(&reading.module, &source);
        assert!(errors.is_empty(), "{errors:?}");
        check(
            &data.functions,
            data.variables.first().map_or(&[], |v| &v.init),
        );
    }

    fn names<'a>(table: &FunctionTable<'_, 'a>) -> (Vec<&'a str>, Vec<&'a str>) {
        let mut recursive: Vec<&str> = table.recursive.iter().copied().collect();
        recursive.sort_unstable();
        let addressed = table.addressed.iter().map(|function| function.name.text);
        (addressed.collect(), recursive)
    }

    #[test]
    fn functions_that_reach_a_cycle_are_recursive() {
        let items = ".func b(); .func leaf() { ret; } .func a() { call b; call leaf; ret; }
            .func b() { call a; ret; } .func above() { call a; ret; } .func self() { call self; }
            .entry k() { call above; call leaf; ret; }";
        with_table(items, |table, _| {
            assert_eq!(names(table), (vec![], vec!["a", "above", "b", "self"]));
        });
    }

    #[test]
    fn a_call_through_a_register_may_reach_what_has_an_address() {
        let items = ".func f() { .reg .b64 r; p: .callprototype _ (); call r, p; ret; }
            .func g() { .reg .b64 r; mov.u64 r, h; p: .callprototype _ (); call r, p; ret; }
            .func h() { ret; }
            .entry k() { .reg .b64 r; mov.u64 r, g; ret; }";
        with_table(items, |table, _| {
            assert_eq!(names(table), (vec!["g", "h"], vec!["f", "g"]));
        });
    }

    #[test]
    fn variables_hold_addresses_which_differ_between_modules() {
        let items = ".global .u64 table[2] = {g, f};
            .func f() { ret; } .func g() { ret; } .func h() { ret; }";
        let mut first = 0;
        with_table(items, |table, init| {
            assert_eq!(names(table), (vec!["f", "g"], vec![]));
            let word = |at: usize| u64::from_le_bytes(*init[at..].first_chunk().unwrap());
            assert_eq!([word(0), word(8)], [table.first() + 1, table.first()]);
            assert_eq!(table.first() >> 56, 0xFA);
            first = table.first();
        });
        with_table(&format!("{items}\n"), |table, _| {
            assert_ne!(table.first(), first)
        });
    }
}
