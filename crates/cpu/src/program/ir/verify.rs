//! The verifier of programs, which runs after each pass in debug builds.

use super::{Arg, ArgList, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Terminator};

/// The maximum depth of operand lists within lists.
const MAX_NESTED: u32 = 4;

/// Fails with the first error of the program.
pub(in crate::program) fn verify(program: &Program<'_>) -> Result<(), String> {
    if program.blocks.is_empty() {
        return Err("it has no entry".to_owned());
    }
    let verifier = Verifier { program };
    if let Some(carry) = program.carry {
        verifier.register(carry)?;
    }
    for (number, block) in program.blocks.iter().enumerate() {
        let in_block = |problem| format!("block{number}: {problem}");
        for step in &block.steps {
            verifier.step(step).map_err(in_block)?;
        }
        verifier.terminator(&block.terminator).map_err(in_block)?;
    }
    Ok(())
}

struct Verifier<'p, 'a> {
    program: &'p Program<'a>,
}

impl Verifier<'_, '_> {
    fn register(&self, reg: Reg) -> Result<RegClass, String> {
        let class = self.program.registers.get(reg.index());
        class
            .copied()
            .ok_or_else(|| format!("register {} is not declared", reg.0))
    }

    fn predicate(&self, reg: Reg) -> Result<(), String> {
        match self.register(reg)? {
            RegClass::Pred => Ok(()),
            class => Err(format!("register {} is of {class:?}, no predicate", reg.0)),
        }
    }

    fn block(&self, block: BlockId) -> Result<(), String> {
        if block.index() < self.program.blocks.len() {
            Ok(())
        } else {
            Err(format!(
                "it branches to block{}, which does not exist",
                block.0
            ))
        }
    }

    fn list(&self, list: ArgList, depth: u32) -> Result<(), String> {
        let args = self.program.list(list);
        if args.len() != list.len as usize {
            return Err("a list of operands is out of range".to_owned());
        }
        if depth > MAX_NESTED {
            return Err("lists of operands are nested too deeply".to_owned());
        }
        args.iter().try_for_each(|arg| self.arg(*arg, depth))
    }

    fn arg(&self, arg: Arg, depth: u32) -> Result<(), String> {
        match arg {
            Arg::Reg(reg) | Arg::Select { reg, .. } | Arg::Address(Base::Reg(reg), _) => {
                self.register(reg).map(drop)
            }
            Arg::Not(reg) => self.predicate(reg),
            Arg::List(list) => self.list(list, depth + 1),
            _ => Ok(()),
        }
    }

    fn instruction(&self, i: &Instruction) -> Result<(), String> {
        if let Some(guard) = i.guard {
            self.predicate(guard.reg)?;
        }
        self.list(i.args, 0)
            .map_err(|problem| format!("{} in line {}: {problem}", i.opcode.text(), i.line))?;
        let first = self.program.list(i.args).first();
        let is_written = matches!(
            first,
            None | Some(Arg::Reg(_) | Arg::List(_) | Arg::Sink | Arg::Select { .. })
        );
        if self.program.has_destination(i) && !is_written {
            Err(format!(
                "{} in line {} writes to an operand that is no register",
                i.opcode.text(),
                i.line
            ))
        } else {
            Ok(())
        }
    }

    fn step(&self, step: &Step) -> Result<(), String> {
        match step {
            Step::Instruction(i) => self.instruction(i),
            Step::SystemCall { args, result, .. } => {
                self.list(*args, 0)?;
                result.map_or(Ok(()), |reg| self.register(reg).map(drop))
            }
        }
    }

    fn terminator(&self, terminator: &Terminator) -> Result<(), String> {
        terminator
            .successors()
            .try_for_each(|next| self.block(next))?;
        match terminator {
            Terminator::Branch { predicate, .. } => self.predicate(predicate.reg),
            Terminator::Table { index, .. } => self.arg(*index, 0),
            Terminator::Fault {
                address: Some(reg), ..
            } => self.register(*reg).map(drop),
            Terminator::Sync { instruction, .. } => self.instruction(instruction),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ir::{BasicBlock, Guard};
    use crate::program::test_program::with_program;

    const KERNEL: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
        .visible .entry k(.param .u32 n) { .reg .b32 %r; .reg .pred %p; ld.param.u32 %r, [n];\n\
        setp.eq.u32 %p, %r, 0; @%p bra END; add.u32 %r, %r, 1; st.shared.u32 [0], %r; END: ret; }";

    /// The problem of the program after a change.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Program<'_>), problem: &str) {
        with_program(KERNEL, |program| {
            let mut program = program.clone();
            assert_eq!(verify(&program), Ok(()));
            change(&mut program);
            let found = verify(&program).unwrap_err();
            assert!(found.contains(problem), "{found}");
        });
    }

    #[test]
    fn each_fault_is_found() {
        check(|program| program.blocks.clear(), "no entry");
        check(|program| program.registers.truncate(1), "is not declared");
        check(|program| program.blocks.truncate(1), "which does not exist");
        check(|program| program.args.truncate(1), "out of range");
        check(
            |program| {
                let block = BasicBlock {
                    steps: Vec::new(),
                    terminator: Terminator::Branch {
                        predicate: Guard {
                            reg: Reg(0),
                            negated: false,
                        },
                        then: BlockId(0),
                        otherwise: BlockId(0),
                    },
                };
                program.registers[0] = RegClass::I32;
                program.blocks.push(block);
            },
            "no predicate",
        );
    }
}
