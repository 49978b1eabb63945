//! Counted loops that several lane groups run together.

use super::assembly::{LANES, LANES_512, function};
use super::body::{Body, Pointer};
use crate::program::Reg;

/// A function that runs a loop.
pub(in crate::codegen) struct WideLoop {
    pub code: Vec<u8>,
    /// What its table of addresses has, entry by entry.
    pub table: Vec<Entry>,
    /// The registers whose values it writes.
    pub written: Vec<Reg>,
    /// It has vectors of 512 bits.
    pub is_512: bool,
}

/// An entry for a group.
#[derive(Clone, Copy)]
pub(in crate::codegen) struct Entry {
    pub group: usize,
    pub address: Address,
}

#[derive(Clone, Copy)]
pub(in crate::codegen) enum Address {
    /// The host address of what a register of the group points to, in shared memory.
    Pointer(Reg),
    /// The values of a register in the lanes, one after the other.
    Values(Reg),
}

/// The function for so many groups of `width` lanes, if there are enough registers; in vectors of 512
/// bits if the processor has them.
pub(in crate::codegen) fn compile(
    body: &Body,
    groups: usize,
    width: u32,
    has_512: bool,
) -> Option<WideLoop> {
    let mut lanes = [LANES_512, LANES].into_iter().skip(usize::from(!has_512));
    let lanes = lanes.find(|lanes| width.is_multiple_of(*lanes))?;
    let pointers = pointers(body, groups);
    let mut table: Vec<Entry> = Vec::new();
    for &(pointer, group) in &pointers {
        let address = Address::Pointer(body.pointers[pointer].base);
        table.push(Entry { group, address });
    }
    for carried in &body.carried {
        let address = Address::Values(carried.reg);
        table.extend((0..groups).map(|group| Entry { group, address }));
    }
    let code = function(body, (groups, width, lanes), &pointers)?;
    let carried = body.carried.iter();
    let written = carried.filter(|carried| carried.first != carried.last);
    let written = written.map(|carried| carried.reg).collect();
    Some(WideLoop {
        code,
        table,
        written,
        is_512: lanes == LANES_512,
    })
}

/// Each pointer of each group, but once for all where it is theirs together.
fn pointers(body: &Body, groups: usize) -> Vec<(usize, usize)> {
    let of = |(number, pointer): (usize, &Pointer)| {
        let own = if pointer.is_own { groups } else { 1 };
        (0..own).map(move |group| (number, group))
    };
    body.pointers.iter().enumerate().flat_map(of).collect()
}
