//! Verifies code between passes: a wrong one is a bug of the pass, whatever the kernel.

use regalloc2::OperandKind;

use super::machine::{Code, Value};

impl Code {
    /// Panics in debug builds where a pass has left wrong code.
    pub fn verified(&self, pass: &str) {
        if cfg!(debug_assertions)
            && let Err(problem) = self.verify()
        {
            panic!("{pass} left wrong code: {problem}");
        }
    }

    /// Each value has one definition, and the arguments of an edge have the classes of the parameters.
    fn verify(&self) -> Result<(), String> {
        let mut is_defined = vec![false; self.values as usize];
        let mut define = |value: Value| {
            if std::mem::replace(&mut is_defined[value.vreg()], true) {
                Err(format!("{value:?} is defined twice"))
            } else {
                Ok(())
            }
        };
        let blocks = || self.layout.iter().map(|at| &self.blocks[at.0 as usize]);
        for block in blocks() {
            block.params.iter().copied().try_for_each(&mut define)?;
            let operands = block.instructions.iter().flat_map(|i| &i.operands);
            for operand in operands.filter(|operand| operand.kind() == OperandKind::Def) {
                define(operand.vreg())?;
            }
        }
        for (at, block) in self.layout.iter().zip(blocks()) {
            for instruction in &block.instructions {
                for operand in &instruction.operands {
                    if !is_defined[operand.vreg().vreg()] {
                        return Err(format!("{operand:?} of {:?} is undefined", instruction.op));
                    }
                }
            }
            for (arguments, to) in block.arguments.iter().zip(block.successors()) {
                let params = &self.blocks[to.0 as usize].params;
                let is_alike = |(a, b): (&Value, &Value)| a.class() == b.class();
                if arguments.len() != params.len()
                    || !arguments.iter().zip(params).all(is_alike)
                    || !arguments.iter().all(|value| is_defined[value.vreg()])
                {
                    return Err(format!(
                        "{arguments:?} from {at:?} for {params:?} of {to:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
