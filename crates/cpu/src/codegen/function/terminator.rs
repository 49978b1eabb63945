//! The ends of blocks at which the thread goes on, or faults.

use cranelift_codegen::ir::{Block, BlockCall, InstBuilder, JumpTableData, types};

use crate::abi::FaultKind;
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{Arg, BlockId, Terminator};

/// Emits a jump, a branch, a table or a fault. Other terminators are never reached.
pub(in crate::codegen) fn within(
    e: &mut Emitter<'_, '_>,
    block: BlockId,
    blocks: &[Block],
) -> EmitResult<()> {
    let to = |block: &BlockId| blocks[block.index()];
    match &e.program.blocks[block.index()].terminator {
        Terminator::Jump(next) => {
            e.b.ins().jump(to(next), &[]);
        }
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => {
            let (yes, no) = if predicate.negated {
                (otherwise, then)
            } else {
                (then, otherwise)
            };
            let value = e.register(predicate.reg);
            e.b.ins().brif(value, to(yes), &[], to(no), &[]);
        }
        Terminator::Table {
            index,
            targets: cases,
            otherwise,
            line,
        } => {
            e.line = *line;
            let index = e.read(*index, types::I32)?;
            let out_of_range = match otherwise {
                Some(otherwise) => to(otherwise),
                None => e.b.create_block(),
            };
            e.b.set_cold_block(out_of_range);
            let calls: Vec<BlockCall> = cases
                .iter()
                .map(|t| BlockCall::new(to(t), std::iter::empty(), &mut e.b.func.dfg.value_lists))
                .collect();
            let default = BlockCall::new(
                out_of_range,
                std::iter::empty(),
                &mut e.b.func.dfg.value_lists,
            );
            let table = e.b.create_jump_table(JumpTableData::new(default, &calls));
            e.b.ins().br_table(index, table);
            if otherwise.is_none() {
                e.b.switch_to_block(out_of_range);
                e.fault(FaultKind::IllegalInstruction, None);
            }
        }
        Terminator::Fault {
            kind,
            address,
            line,
        } => {
            e.line = *line;
            let address = address.map(|reg| e.read(Arg::Reg(reg), types::I64));
            e.fault(*kind, address.transpose()?);
        }
        Terminator::Exit | Terminator::Sync { .. } => {
            let fail = e.fail;
            e.b.ins().jump(fail, &[]);
        }
    }
    Ok(())
}
