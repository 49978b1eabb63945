//! Calls of functions that are encoded here: those that run loops in wide vectors, and others.

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, InstBuilder, Signature, StackSlotData, StackSlotKind,
    Value, types,
};
use cranelift_codegen::isa::CallConv;

use super::emitter::Emitter;
use super::machine_code::encoded_name;
use super::other_group::Other;
use super::phase::Phase;
use super::resume::{ResumePlan, ResumePoint};
use super::slot_address::Slots;
use super::slots::save;
use super::wide::{self, Address, WideLoop};
use crate::abi::offset;
use crate::program::{Reg, Uniformity};

/// How many groups run a loop together, if there are so many. A vector of 512 bits has all lanes of a
/// group, so that as many sums are there for eight of them as otherwise for four: enough to add to one
/// while others wait for their last addition.
const GROUPS: [u32; 3] = [8, 4, 2];

/// The functions for a loop, and for how many groups they are: those for more come first.
pub(super) fn find(
    e: &Emitter<'_, '_>,
    plan: &ResumePlan,
    phase: &Phase<'_>,
) -> Vec<(u32, WideLoop)> {
    let Some(counted) = phase.counted.filter(|_| e.has_wide_vectors) else {
        return Vec::new();
    };
    let is_divergent = |reg: Reg| e.locations[reg.index()].uniformity == Uniformity::Divergent;
    let source = wide::Source {
        program: e.program,
        counted,
        steps: &phase.live_steps(e.program),
        own: &phase.own,
        liveness: &plan.liveness,
        is_divergent: &is_divergent,
    };
    let Some(body) = wide::read(&source) else {
        return Vec::new();
    };
    let has_slot = |reg: Reg| plan.slots[reg.index()].is_some();
    if !body.carried_registers().all(has_slot) {
        return Vec::new();
    }
    // In a block of known size, fewer of them are never left.
    let threads = e.program.block_threads();
    let all = threads.map(|threads| threads / e.width);
    let mut found: Vec<(u32, WideLoop)> = Vec::new();
    for groups in GROUPS.into_iter().skip(usize::from(!e.has_512)) {
        let is_needed = |(more, _): &(u32, WideLoop)| all.is_none_or(|all| all % more >= groups);
        let fits = all.is_none_or(|all| all >= groups);
        if fits
            && found.last().is_none_or(is_needed)
            && let Some(wide) = wide::compile(&body, groups as usize, e.width, e.has_512)
        {
            found.push((groups, wide));
        }
    }
    found
}

/// Has the function run the loop up to the iteration with the number `last`. What it writes is then
/// in slots alone.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, phase): (&ResumePoint, &Phase<'_>),
    wide: &WideLoop,
    others: &mut [Other],
    last: Value,
) {
    let mut addresses = Vec::new();
    for entry in &wide.table {
        addresses.push(match entry.group.checked_sub(1) {
            None => address(e, plan, (point, phase), entry.address),
            Some(other) => {
                others[other].swapped(e, |e| address(e, plan, (point, phase), entry.address))
            }
        });
    }
    e.encoded.uses_512 |= wide.is_512;
    let count = e.add_offset(last, 1);
    call(e, wide.code.clone(), &addresses, count);
}

/// Has a function run a loop of so many iterations, with a table of addresses.
pub(super) fn call(e: &mut Emitter<'_, '_>, code: Vec<u8>, addresses: &[Value], count: Value) {
    let size = 8 * addresses.len() as u32;
    let table = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
    let table = e.b.create_sized_stack_slot(table);
    for (number, &address) in (0..).zip(addresses) {
        e.b.ins()
            .stack_store(types::I64, address, table, 8 * number);
    }
    let table = e.b.ins().stack_addr(types::I64, table, 0);
    call_function(e, code, &[table, count]);
}

/// Calls a function with addresses or numbers of 64 bits.
pub(super) fn call_function(e: &mut Emitter<'_, '_>, code: Vec<u8>, arguments: &[Value]) {
    call_by(e, CallConv::SystemV, code, arguments);
}

/// Calls one that changes no register. It may have vectors, too.
pub(super) fn call_preserving(e: &mut Emitter<'_, '_>, code: Vec<u8>, arguments: &[Value]) {
    call_by(e, CallConv::PreserveAll, code, arguments);
}

fn call_by(e: &mut Emitter<'_, '_>, convention: CallConv, code: Vec<u8>, arguments: &[Value]) {
    let mut signature = Signature::new(convention);
    let types = arguments
        .iter()
        .map(|value| e.b.func.dfg.value_type(*value));
    signature.params.extend(types.map(AbiParam::new));
    let signature = e.b.import_signature(signature);
    let known = e.encoded.functions.iter().position(|known| *known == code);
    let number = known.unwrap_or(e.encoded.functions.len());
    if known.is_none() {
        e.encoded.functions.push(code);
    }
    let name = encoded_name(number);
    let name = e.b.func.declare_imported_user_function(name);
    let function = e.b.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated: true,
        patchable: false,
    });
    e.b.ins().call(function, arguments);
}

/// The address for the current group.
fn address(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, phase): (&ResumePoint, &Phase<'_>),
    address: Address,
) -> Value {
    match address {
        Address::Pointer(reg) => {
            let shared = e.context_word(offset::SHARED);
            let value = e.register(reg);
            let value = e.coerce(value, types::I64);
            e.b.ins().iadd(shared, value)
        }
        Address::Values(reg) => {
            let is_saved = point.reload.contains(&reg) && !phase.writes_before(e.program, reg);
            if !is_saved {
                save(e, plan, &[reg]);
            }
            let class = e.program.registers[reg.index()];
            // The function is for a loop whose registers have slots.
            let slot = plan.slots[reg.index()].unwrap_or(0);
            let (at, offset) = Slots::new(e, plan).at(slot, class);
            e.add_offset(at, offset.into())
        }
    }
}
