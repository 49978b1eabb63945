//! Faults and their messages.

use super::*;

body!(half_waits, true, |t, state| {
    match state {
        0 => {
            t.ask(if t.index < 32 {
                [0, 0, 0, 0]
            } else {
                [1, 0, 0, 0]
            });
            if t.index < 32 { 1 } else { 2 }
        }
        _ => EXITED,
    }
});

#[test]
fn a_deadlock_is_a_fault_that_names_the_lines() {
    let points = points([SyncKind::Barrier, SyncKind::Barrier]);
    let fault = launch(&engine(2), &kernel(half_waits, &points), config(8, 64), 1).unwrap_err();
    assert_eq!(
        (fault.kind, fault.block, fault.line),
        (FaultKind::Deadlock, [0; 3], Some(10))
    );
    assert_eq!(
        fault.message,
        "kernel test, block (0,0,0), thread (0,0,0): deadlock: 32 threads wait at barrier 0 in line 10, \
         32 threads wait at barrier 1 in line 11; PTX line 10"
    );
}

body!(barrier_99, true, |t, _| {
    t.ask([99, 0, 0, 0]);
    1
});

#[test]
fn a_barrier_that_does_not_exist_is_a_fault() {
    let points = points([SyncKind::Barrier]);
    let fault = launch(&engine(1), &kernel(barrier_99, &points), config(1, 4), 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
    assert!(fault.message.contains("barrier 99"), "{fault}");
}

// Block 3, thread 17 reads four bytes past the end of the output.
body!(out_of_bounds, false, |t, _| {
    if t.context().block == [3, 0, 0] && t.index == 17 {
        let address = std::ptr::from_ref(t.out(0)) as u64 + 1028;
        let fault = crate::abi::FaultRecord {
            kind: FaultKind::OutOfBounds as u32,
            line: 27,
            thread: 17,
            access: 4,
            address,
        };
        unsafe { (*t.context).fault = fault };
    }
    0
});

#[test]
fn a_fault_says_kernel_block_thread_address_and_line() {
    let engine = engine(2);
    let mut kernel = kernel(out_of_bounds, &[]);
    kernel.name = "vecadd";
    let fault = launch(&engine, &kernel, config(6, 32), 128).unwrap_err();
    let address = fault.address.unwrap();
    assert_eq!(
        fault.message,
        format!(
            "kernel vecadd, block (3,0,0), thread (17,0,0): out-of-bounds read of 4 bytes at {address:#x}, \
             4 bytes past the end of the 1024-byte allocation at {:#x}; PTX line 27",
            address - 1028
        )
    );
    assert_eq!(
        (fault.block, fault.thread, fault.line),
        ([3, 0, 0], [17, 0, 0], Some(27))
    );
    // The engine is usable after a fault.
    assert!(launch(&engine, &self::kernel(write_index, &[]), config(1, 1), 1).is_ok());
}

#[test]
fn a_fault_in_shared_memory_gives_the_offset() {
    let context_fault = |access| {
        let engine = engine(1);
        unsafe extern "C" fn fault(context: *mut BlockContext, _: u32, _: u32) -> u32 {
            unsafe {
                let access = (*context).params.cast::<u64>().read() as u32;
                (*context).fault = crate::abi::FaultRecord {
                    kind: 1,
                    line: 5,
                    thread: 0,
                    access,
                    address: 4096,
                };
            }
            1
        }
        engine
            .run(
                0,
                &kernel(fault, &[]),
                &Grid::new(config(1, 1)).unwrap(),
                &ParamBlock::new(&u64::from(access).to_le_bytes(), 8),
            )
            .unwrap_err()
            .message
    };
    assert!(context_fault(4 | Access::WRITE | Access::SHARED).contains(
        "out-of-bounds write of 4 bytes at shared address 0x1000, the block has 4096 bytes"
    ));
}
