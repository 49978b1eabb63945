//! Memoizes accepted instructions.
//!
//! Compilers write the same instruction again and again with other registers.
//! Whether it fits a row depends on its spelling, the kinds of its operands and
//! the types of its registers, and not on names, constants or the code around
//! it. The latter two are packed into a key. An instruction whose key was accepted for its
//! spelling before, in this module or in one before it, is accepted without a check. Only
//! accepted instructions are memoized; an instruction whose check depends on more has no key.

use std::cell::Cell;

use super::address::is_opaque;
use super::function::Checker;
use super::symbols::Symbol;
use crate::ast::{
    AddressBase, Attributes, FloatValue, FunctionKind, Instruction, List, Name, Operand, Space,
    Version,
};
use crate::names::{SpecialRegister, Type};

/// The number of keys of a spelling; a new one replaces the old one in its slot.
const SLOTS: usize = 16;

/// The bits of one operand: its kind and a detail.
const OPERAND_BITS: u32 = 10;

/// The bits of the detail, such as the type of a register.
const DETAIL_BITS: u32 = 6;

const _: () = {
    // Every type fits the detail.
    let mut index = 0;
    while index < Type::ALL.len() {
        assert!((Type::ALL[index] as u16) < 1 << DETAIL_BITS);
        index += 1;
    }
};

/// Everything that the check of an instruction with this spelling depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionKey(u64);

/// The keys of accepted instructions of a spelling, each with the lowest `.version` that has it.
#[derive(Debug, Default)]
pub struct AcceptedKeys([Cell<(u64, Version)>; SLOTS]);

impl AcceptedKeys {
    #[inline]
    fn slot(&self, key: InstructionKey) -> &Cell<(u64, Version)> {
        // The upper bits of the product depend on all operands.
        let hash = key.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOTS.ilog2());
        &self.0[hash as usize]
    }

    /// The lowest `.version` of an instruction with this key, if one was accepted.
    #[inline]
    pub fn get(&self, key: InstructionKey) -> Option<Version> {
        let (known, version) = self.slot(key).get();
        (known == key.0).then_some(version)
    }

    pub fn add(&self, key: InstructionKey, version: Version) {
        self.slot(key).set((key.0, version));
    }
}

/// The kind of an operand in a key; the low bits are the detail.
#[derive(Clone, Copy)]
#[repr(u16)]
enum OperandKind {
    Register = 1 << DETAIL_BITS,
    NotRegister = 2 << DETAIL_BITS,
    Address = 3 << DETAIL_BITS,
    AddressWithOffset = 4 << DETAIL_BITS,
    /// The address of a variable of this space and role.
    Variable = 5 << DETAIL_BITS,
    VariableWithOffset = 6 << DETAIL_BITS,
    Integer = 7 << DETAIL_BITS,
    Float = 8 << DETAIL_BITS,
    Label = 9 << DETAIL_BITS,
    Pair = 10 << DETAIL_BITS,
    Quad = 11 << DETAIL_BITS,
    /// `%r1|%p1`: the second is a predicate.
    WithPredicate = 12 << DETAIL_BITS,
    /// The last kind: the detail of special registers needs more bits.
    Special = 13 << DETAIL_BITS,
}

impl OperandKind {
    fn of(self, detail: u16) -> Option<u64> {
        let limit = match self {
            OperandKind::Special => 1 << OPERAND_BITS,
            other => other as u16 + (1 << DETAIL_BITS),
        };
        let bits = self as u16 + detail;
        (bits < limit).then_some(u64::from(bits))
    }
}

impl<'c, 'a> Checker<'c, '_, 'a> {
    /// The key of an instruction, whose names are resolved then, and the keys that were accepted
    /// for its spelling; `None` if its check depends on more.
    #[inline]
    pub fn key(&mut self, instruction: &Instruction) -> Option<(InstructionKey, &'c AcceptedKeys)> {
        let spelling = self.context.spellings.get(instruction.mnemonic)?;
        let operands = self.body.list(instruction.operands);
        // Two flag bits, and ten bits for each of six operands.
        if !spelling.memoizable || operands.len() > 6 {
            return None;
        }
        #[cfg(test)]
        if tests::NEVER.get() {
            return None;
        }
        let mut key = 1 | u64::from(self.kind == FunctionKind::Func) << 1;
        let mut shift = 2;
        for (place, operand) in (instruction.operands.start as usize..).zip(operands) {
            key |= self.operand_key(instruction, place, operand)? << shift;
            shift += OPERAND_BITS;
        }
        Some((InstructionKey(key), &spelling.accepted))
    }

    #[inline]
    fn operand_key(
        &mut self,
        instruction: &Instruction,
        place: usize,
        operand: &Operand<'a>,
    ) -> Option<u64> {
        match *operand {
            Operand::Name(name) => match self.names.resolve_register(place, name) {
                Some(ty) => OperandKind::Register.of(ty as u16),
                None => self.name_key(place, name),
            },
            Operand::Address {
                base: AddressBase::Name(name),
                offset,
                unified: false,
            } => match (self.names.resolve_register(place, name), offset) {
                (Some(ty), 0) => OperandKind::Address.of(ty as u16),
                (Some(ty), _) => OperandKind::AddressWithOffset.of(ty as u16),
                (None, _) => self.variable_key(instruction, place, name, offset),
            },
            Operand::Integer(_) => OperandKind::Integer.of(0),
            Operand::Float(float) => match float.value {
                FloatValue::F32(_) => OperandKind::Float.of(0),
                FloatValue::F64(_) => OperandKind::Float.of(1),
            },
            Operand::Vector(list, _) => self.vector_key(list),
            Operand::Pair(list, _) => self.pair_key(list),
            Operand::Not(name) => {
                let ty = self.names.resolve_register(place, name)?;
                OperandKind::NotRegister.of(ty as u16)
            }
            // These depend on a directive of the kernel.
            Operand::Special(
                SpecialRegister::Perctamemorysize | SpecialRegister::Perctamemoryoffset,
                _,
            ) => None,
            Operand::Special(register, _) => OperandKind::Special.of(register as u16),
            _ => None,
        }
    }

    /// `{%f1, %f2}`, registers of one type.
    fn vector_key(&mut self, list: List) -> Option<u64> {
        let kind = match list.len {
            2 => OperandKind::Pair,
            4 => OperandKind::Quad,
            _ => return None,
        };
        let elements = (list.start as usize..).zip(self.body.list(list));
        let names = &mut self.names;
        let mut types = elements.map(|(place, element)| match element {
            Operand::Name(name) => names.resolve_register(place, *name),
            _ => None,
        });
        let first = types.next()??;
        if types.all(|ty| ty == Some(first)) {
            kind.of(first as u16)
        } else {
            None
        }
    }

    /// `%r1|%p1`, `%p1|%p2`
    fn pair_key(&mut self, list: List) -> Option<u64> {
        let (start, body) = (list.start as usize, self.body);
        let [Operand::Name(first), Operand::Name(second)] = *body.list(list) else {
            return None;
        };
        let ty = self.names.resolve_register(start, first)?;
        let other = self.names.resolve_register(start + 1, second)?;
        match other {
            Type::Pred => OperandKind::WithPredicate.of(ty as u16),
            _ => None,
        }
    }

    /// A label, or a register that is looked up by name.
    fn name_key(&mut self, place: usize, name: Name<'a>) -> Option<u64> {
        match self.names.resolve(place, name)? {
            Symbol::Label => OperandKind::Label.of(0),
            Symbol::Register { ty, vector: 1 } => OperandKind::Register.of(ty as u16),
            _ => None,
        }
    }

    /// `[name]`: a parameter, a variable in memory, or a register that the fast lookup does
    /// not know.
    fn variable_key(
        &mut self,
        instruction: &Instruction,
        place: usize,
        name: Name<'a>,
        offset: i64,
    ) -> Option<u64> {
        let (variable, role) = match (self.names.resolve(place, name)?, offset) {
            (Symbol::Variable(variable, role), _) => (variable, role),
            (Symbol::Register { ty, vector: 1 }, 0) => return OperandKind::Address.of(ty as u16),
            (Symbol::Register { ty, vector: 1 }, _) => {
                return OperandKind::AddressWithOffset.of(ty as u16);
            }
            _ => return None,
        };
        let memoizable = matches!(variable.space, Space::Param | Space::Shared | Space::Local)
            && !is_opaque(variable)
            && variable.attributes == Attributes::default();
        if !memoizable || instruction.guarded {
            return None;
        }
        let detail = (variable.space as u16) << 2 | role as u16;
        match offset {
            0 => OperandKind::Variable.of(detail),
            _ => OperandKind::VariableWithOffset.of(detail),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

#[cfg(test)]
#[path = "../../tests/conformance/instruction.rs"]
mod instruction;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::{archive, instruction};
    use crate::ast::Version;
    use crate::check::{CheckOptions, check, floor};
    use crate::diagnostic::Diagnostic;
    use crate::read;

    thread_local! {
        /// Whether every instruction is checked.
        pub static NEVER: Cell<bool> = const { Cell::new(false) };
    }

    /// The errors, and the lowest `.version` if there are none, with or without memoization.
    fn found(source: &str, memoized: bool) -> (Vec<Diagnostic>, Option<Version>) {
        NEVER.set(!memoized);
        let module = read(source).module;
        let options = CheckOptions::default();
        let found = (check(&module, source), floor(&module, source, &options));
        NEVER.set(false);
        found
    }

    /// All instructions of the grid for one version and target in one kernel,
    /// the accepted ones first: each wrong one follows the accepted ones with its key, also those
    /// of the modules before.
    #[test]
    fn memoization_does_not_change_the_verdicts() {
        let grid = archive::read("grid");
        let mut kernels: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for line in grid.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let [version, target, verdict, instruction] = words[..] else {
                panic!("`{line}` is not a line of the grid");
            };
            let kernel = kernels.entry((version, target)).or_default();
            kernel.push((verdict != "ok", instruction));
        }
        kernels.retain(|_, instructions| instructions.len() > 1000);
        assert!(kernels.len() > 10, "{}", kernels.len());
        for ((version, target), mut instructions) in kernels {
            instructions.sort_by_key(|(wrong, _)| *wrong);
            let text: Vec<&str> = instructions.iter().map(|(_, text)| *text).collect();
            let source = instruction::module(version, target, &text.join("\n"));
            let unmemoized = found(&source, false);
            assert!(unmemoized.0.len() > 100, "{version} {target}");
            assert_eq!(found(&source, true), unmemoized, "{version} {target}");
            // By itself, an accepted instruction needs the same version as when it was checked.
            let accepted = instructions.iter().take_while(|(wrong, _)| !wrong);
            for (_, text) in accepted.step_by(40) {
                let source = instruction::module(version, target, text);
                let (errors, needed) = found(&source, false);
                assert!(
                    errors.is_empty() && needed.is_some(),
                    "{source}: {errors:?}"
                );
                assert_eq!(found(&source, true), (errors, needed), "{source}");
            }
        }
    }

    #[test]
    fn declared_predicates_hide_special_registers() {
        let kernel = |name: &str| {
            format!(
                ".version 8.0\n.target sm_80\n.entry k() {{ .reg .pred %p<2>, {name}; mov.pred %p0, !%laneid; }}"
            )
        };
        assert_eq!(found(&kernel("%laneid"), false).0, []);
        assert_ne!(found(&kernel("%q"), true).0, []);
    }

    #[test]
    fn keys_distinguish_types_scopes_guards_and_constants() {
        let source = ".version 8.0\n.target sm_90\n.address_size 64\n.func f(.param .b32 q) {\n\
            .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>; .param .b32 own;\n\
            add.s32 %r1, %r2, %r3; add.s32 %r1, %r2, %f3; add.s32 %r4, %r5, %r9;\n\
            { .reg .f32 %r<2>; add.s32 %r1, %r5, %r6; add.s32 %r2, %r5, %r6; } add.s32 %r1, %r2, %r3;\n\
            ld.param.b32 %r1, [q]; st.param.b32 [own], %r1; @%p1 st.param.b32 [own], %r1;\n\
            mov.f32 %f1, 0f00000000; mov.f32 %f1, 0; bfe.u32 %r1, %r2, 3, 4; add.s32 %r1, %rd1, 4;\n\
            shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1; shfl.sync.idx.b32 %rd1|%p2, %r2, 0, 31, -1;\n\
            shfl.sync.idx.b32 %r1|%r3, %r2, 0, 31, -1;\n}";
        let found = |memoized| -> Vec<_> {
            let (found, _) = found(source, memoized);
            let found = found.into_iter();
            found
                .map(|d| &source[d.span.start as usize..d.span.end as usize])
                .collect()
        };
        let refused = ["%f3", "%r9", "%r1", "own", "0", "%rd1", "%rd1", "%r3"];
        assert_eq!(found(true), refused);
        assert_eq!(found(false), refused);
    }
}
