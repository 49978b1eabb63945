//! Values in memory that streams write and wait for.

use std::ffi::c_uint;
use std::sync::Arc;

use super::entry::entries;
use crate::state::node::{NodeKind, Work};
use crate::state::status::{Result, Status};
use crate::state::{stream, value};
use api::{CUdeviceptr, CUstream, MemoryOperation};

fn push(stream: usize, work: Work) -> Result {
    let (context, stream) = stream::find(stream)?;
    if !stream.record(NodeKind::Memory, || work.clone())? {
        stream.push(&context, move |context| work(context));
    }
    Ok(())
}

/// `CU_STREAM_MEM_OP_…`
fn operation(params: MemoryOperation) -> Result<Work> {
    let MemoryOperation {
        operation,
        address,
        value,
        flags,
        ..
    } = params;
    match operation {
        1 => value::wait_32(address, value as u32, flags), // the lower 32 bits
        2 => value::write_32(address, value as u32, flags),
        4 => value::wait_64(address, value, flags),
        5 => value::write_64(address, value, flags),
        // BARRIER: everything is visible in order here.
        6 => Ok(Arc::new(|_| ())),
        3 => Err(Status::NOT_SUPPORTED.because("not supported: flushing remote writes")),
        number => Err(Status::INVALID_VALUE
            .because(format!("no operation on memory has the number {number}"))),
    }
}

entries! {
    fn cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) {
        push(stream.addr(), value::write_32(address, value, flags)?)
    }

    fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) {
        push(stream.addr(), value::write_64(address, value, flags)?)
    }

    fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) {
        push(stream.addr(), value::wait_32(address, value, flags)?)
    }

    fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) {
        push(stream.addr(), value::wait_64(address, value, flags)?)
    }

    /// All operations are checked before the first is queued.
    fn cuStreamBatchMemOp_v2(
        stream: CUstream,
        count: c_uint,
        operations: *mut MemoryOperation,
        flags: c_uint,
    ) {
        if flags != 0 || count > 256 {
            return Err(Status::INVALID_VALUE
                .because("the flags of a batch must be 0, and it has at most 256 operations"));
        }
        let all = (0..count as usize)
            .map(|index| operation(operations.get_at(index)?))
            .collect::<Result<Vec<Work>>>()?;
        push(stream.addr(), Arc::new(move |context| all.iter().for_each(|work| work(context))))
    }
}
