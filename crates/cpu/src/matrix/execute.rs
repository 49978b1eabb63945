//! Execution of an operation by a warp.

use super::operation::{Code, Operation};
use super::registers::Registers;
use super::{product, tensor_transfer, transfer, warp_group};
use crate::abi::{BlockContext, WARP_SIZE};
use crate::access::record_tensor_fault;

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
            Code::TensorLoad | Code::TensorStore => {
                let lane = first + lanes.trailing_zeros() % WARP_SIZE;
                // SAFETY: the caller's contract. All lanes have the same operands, and a block
                // has its tensor memory as long as it runs.
                let (request, memory) = unsafe {
                    let request = *(*context).requests.add(lane as usize);
                    (request, &mut *(*context).tensor_memory)
                };
                let [address, halves, ..] = request.operands;
                let at = (address as u32, halves as usize);
                let warp = (first / WARP_SIZE) as usize;
                let moved = tensor_transfer::transfer(self, &mut registers, memory, warp, at);
                if let Err(fault) = moved {
                    // SAFETY: the caller's contract.
                    unsafe { record_tensor_fault(context, lane, fault, line) };
                }
                moved.is_ok()
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
