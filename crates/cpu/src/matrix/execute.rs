//! Execution of an operation by a warp.

use super::operation::{Code, Operation};
use super::registers::Registers;
use super::{product, transfer, warp_group};
use crate::abi::BlockContext;

impl Operation {
    /// Executes it for the warp whose first thread is `first`, of which `lanes` take part, or
    /// for all of [`warps`](Self::warps) from there on. Returns false if the context has a
    /// fault.
    ///
    /// # Safety
    /// The context is that of a block with these warps, its slots include those of the
    /// operation, and no other reference to its arrays is in use.
    pub(crate) unsafe fn execute(
        &self,
        context: *mut BlockContext,
        first: u32,
        lanes: u32,
        line: u32,
    ) -> bool {
        // SAFETY: the caller's contract.
        let mut registers = unsafe { Registers::new(context, first, &self.slots) };
        match self.code {
            Code::Mma | Code::WmmaMma => {
                product::multiply(self, &mut registers);
                true
            }
            Code::WarpGroupMma => {
                // SAFETY: the caller's contract.
                unsafe { warp_group::multiply(self, context, first, line) }.is_some()
            }
            Code::MoveMatrix => {
                transfer::transpose(&mut registers);
                true
            }
            _ => {
                let access = transfer::Access {
                    context,
                    first,
                    lanes,
                    line,
                    shared: self.has(Operation::SHARED),
                };
                // SAFETY: the caller's contract.
                unsafe { transfer::transfer(self, &mut registers, &access) }.is_some()
            }
        }
    }
}
