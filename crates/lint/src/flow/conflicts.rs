//! Whether two accesses of two threads are a race: what they order, write and make of
//! what they read.

use super::accesses::SharedAccess;
use super::affine::Linear;
use super::effect::Terminator;
use super::evaluate::{Known, Place, Turns};
use super::instructions::InstructionId;
use super::lanes::WARP;
use super::memory::AccessKind;
use super::races::{Instance, Search};
use super::values::{Definition, ValueId};
use ptx::ast::{Operand, Space};
use ptx::names::Opcode;

/// The other steps of a reduction are among so many accesses before and behind.
const NEAR: usize = 16;

/// Of so many instructions, one of what another makes, data is taken apart.
const MADE: u32 = 8;

/// So many values are followed to see what becomes of what is read.
const FOLLOWED: usize = 64;

impl Search<'_, '_, '_> {
    /// Whether all threads add to their own what lies a part of a warp further, as one
    /// step of several: what is read across warps is dropped later.
    fn is_step(&self, write: &Instance, read: &Instance) -> bool {
        let linear = |of: &SharedAccess| self.evaluator.function.linear(of.access.address);
        let (Some(own), Some(other)) = (linear(&write.of), linear(&read.of)) else {
            return false;
        };
        let apart = |linear: &Linear| {
            let mut moved = *linear;
            moved.constant = own.constant;
            (moved == own).then(|| linear.constant - own.constant)
        };
        let Some(step) = apart(&other) else {
            return false;
        };
        let element = read.of.access.bytes as i64;
        if step == 0 || step.abs() >= i64::from(WARP) * element {
            return false;
        }
        let of = |of: &SharedAccess| linear(of).and_then(|linear| apart(&linear));
        let at = self.accesses.partition_point(|of| of.id < read.of.id);
        let end = self.accesses.len().min(at + NEAR);
        let near = &self.accesses[at.saturating_sub(NEAR)..end];
        let stores = || {
            let stores = near.iter();
            stores.filter(|one| one.access.kind == AccessKind::Store && of(one) == Some(0))
        };
        // The step before or after is twice or half as far.
        near.iter().any(|next| {
            of(next).is_some_and(|next| next == 2 * step || 2 * next == step)
                && stores().any(|store| self.is_made_of(store, next.id))
        })
    }

    /// The values that a store writes.
    fn stored(&self, store: &SharedAccess) -> Vec<ValueId> {
        let flow = self.flow;
        match flow.instructions.body.operands.get(store.value) {
            Some(Operand::Vector(list, _)) => (list.start..list.start + list.len)
                .map(|at| flow.values.of_operand(at as usize))
                .collect(),
            _ => vec![flow.values.of_operand(store.value)],
        }
    }

    /// Whether what a store writes is made of what a load reads.
    pub(super) fn is_made_of(&self, store: &SharedAccess, load: InstructionId) -> bool {
        let (instructions, values) = (&self.flow.instructions, &self.flow.values);
        let stored = self.stored(store).into_iter();
        let mut open: Vec<(ValueId, u32)> = stored.map(|value| (value, 0)).collect();
        while let Some((value, depth)) = open.pop() {
            let Some(Definition::Written(id)) = values.definition(value) else {
                continue;
            };
            if id == load {
                return true;
            }
            // A tree of few instructions, or none.
            if depth < 4 && open.len() < 16 {
                let reads = values.reads(instructions, &instructions.steps[id.index()]);
                open.extend(reads.map(|(_, value)| (value, depth + 1)));
            }
        }
        false
    }

    /// Whether the write of one thread and the access of another of its block are a race.
    pub(super) fn meets(
        &mut self,
        write: &Instance,
        writer: usize,
        access: &Instance,
        thread: usize,
    ) -> bool {
        let same_warp = writer / WARP as usize == thread / WARP as usize;
        !same_warp
            && (write.layer == 0 || access.layer == 0)
            && (self.clashes(write, writer, access, thread, true)
                || self.leave_other_data(write, writer, access, thread))
            && write
                .conditions
                .agree(writer, &access.conditions, thread, &self.evaluator)
            && self.matters(write, writer, access, thread)
    }

    /// Whether the write of one thread and the access of another touch the same bytes in a way
    /// that needs order. Where a thread is `alike`, it makes the write to the same place as the
    /// writer if the numbers say so; one of another block need not.
    pub(super) fn clashes(
        &self,
        write: &Instance,
        writer: usize,
        access: &Instance,
        thread: usize,
        alike: bool,
    ) -> bool {
        let (a, b) = (&write.of, &access.of);
        if a.strong && b.strong {
            return false;
        }
        let between = write.offset.at(writer) - access.offset.at(thread);
        if between >= b.access.bytes as i64 || -between >= a.access.bytes as i64 {
            return false;
        }
        let atomic = |of: &SharedAccess| of.access.kind == AccessKind::Atomic;
        if atomic(a) && (atomic(b) || b.strong) || atomic(b) && a.strong {
            return false;
        }
        if !write.conditions.admits(writer) {
            return false;
        }
        if b.access.kind == AccessKind::Store && a.access.kind == AccessKind::Store {
            let of_data = *write.value() == Known::Data || *access.value() == Known::Data;
            let line = self.evaluator.shape.0[1..] == [1, 1];
            if !differ(write, writer, access, thread) || of_data && !line {
                return false;
            }
            // Where all threads make both, each with one value, the last one stays.
            let one_value = |one: &Instance| match one.value() {
                Known::Sum(sum) => sum.is_uniform() && one.offset.same().is_some(),
                _ => false,
            };
            if a.id != b.id && one_value(write) && one_value(access) {
                return false;
            }
        } else if b.access.kind == AccessKind::Load {
            // A part of what is read may be another member of a structure.
            if a.access.element < b.access.element {
                return false;
            }
            // Who has written the same itself reads that, unless it is made of what has
            // been read: all add to it.
            let own = alike
                && write.conditions.admits(thread)
                && write.offset.at(thread) == write.offset.at(writer)
                && !differ(write, writer, write, thread);
            if own && !atomic(a) && !self.is_made_of(a, b.id) {
                return false;
            }
        }
        true
    }

    /// Whether two threads of a line leave different data at one address: they make it alike of
    /// what they load, each from an address of its own. Copies that overlap leave the same.
    fn leave_other_data(
        &mut self,
        write: &Instance,
        writer: usize,
        access: &Instance,
        thread: usize,
    ) -> bool {
        let line = self.evaluator.shape.0[1..] == [1, 1];
        let stores = |one: &Instance| {
            let of = &one.of;
            of.access.kind == AccessKind::Store && !of.strong && *one.value() == Known::Data
        };
        let one_place = write.offset.at(writer) == access.offset.at(thread)
            && write.of.access.bytes == access.of.access.bytes;
        // What all leave in one word may be to nobody.
        let of_all = write.offset.same().is_some() && access.offset.same().is_some();
        if !line || !one_place || of_all || !stores(write) || !stores(access) {
            return false;
        }
        let place = |search: &Self, one: &Instance| {
            let block = search.flow.graph.block_of(one.of.id);
            search.evaluator.place(block, one.turns)
        };
        let values = [write.of.value, access.of.value];
        let places = [place(self, write), place(self, access)];
        write.conditions.admits(writer)
            && self.are_other(values, places, [writer, thread], 0) == Some(true)
    }

    /// Whether what two threads read in these operands is made alike of what they load from
    /// different addresses; `None` if it is not made alike.
    fn are_other(
        &mut self,
        operands: [usize; 2],
        places: [Place; 2],
        threads: [usize; 2],
        depth: u32,
    ) -> Option<bool> {
        let flow = self.flow;
        let known = [0, 1].map(|side| self.evaluator.operand(operands[side], places[side]));
        if let [Known::Sum(a), Known::Sum(b)] = &known {
            let same = a.symbols == b.symbols && a.lanes.at(threads[0]) == b.lanes.at(threads[1]);
            return same.then_some(false);
        }
        let made =
            operands.map(
                |operand| match flow.values.definition(flow.values.of_operand(operand)) {
                    Some(Definition::Written(id)) => Some(id),
                    _ => None,
                },
            );
        let [Some(a), Some(b)] = made else {
            return None;
        };
        let (one, other) = (flow.instructions.get(a)?, flow.instructions.get(b)?);
        let steps = [a, b].map(|id| &flow.instructions.steps[id.index()]);
        let function = self.evaluator.function;
        let alike = one.mnemonic == other.mnemonic && one.operands.len == other.operands.len;
        if depth > MADE || !alike || steps.iter().any(|step| step.partial) {
            return None;
        }
        let places = [0, 1].map(|side| {
            let block = flow.graph.block_of([a, b][side]);
            self.evaluator.place(block, places[side].turns)
        });
        let operand = |at: u32| [one, other].map(|of| (of.operands.start + at) as usize);
        if matches!(one.opcode, Opcode::Ld | Opcode::Ldu) {
            let [index, its_index] = operand(1);
            let address = self.evaluator.operand(index, places[0]).sum()?;
            let its_address = self.evaluator.operand(its_index, places[1]).sum()?;
            return (address.symbols == its_address.symbols)
                .then(|| address.lanes.at(threads[0]) != its_address.lanes.at(threads[1]));
        }
        let effect = function.effect(steps[0]);
        if !effect.pure || effect.writes != 1 {
            return None;
        }
        let mut differs = false;
        for at in 1..one.operands.len {
            differs |= self.are_other(operand(at), places, threads, depth + 1)?;
        }
        Some(differs)
    }

    /// Whether anything comes of it that two accesses touch the same bytes.
    pub(super) fn matters(
        &mut self,
        write: &Instance,
        writer: usize,
        access: &Instance,
        thread: usize,
    ) -> bool {
        !self.writes_back(write, writer)
            && (access.of.access.kind != AccessKind::Load
                || !self.is_step(write, access) && self.is_used(access, thread))
    }

    /// Whether a store may write what its thread has read from there.
    fn writes_back(&mut self, write: &Instance, writer: usize) -> bool {
        if write.of.access.kind != AccessKind::Store {
            return false;
        }
        let flow = self.flow;
        let mut open = self.stored(&write.of);
        let place = self
            .evaluator
            .place(flow.graph.block_of(write.of.id), write.turns);
        for _ in 0..FOLLOWED {
            let Some(value) = open.pop() else {
                break;
            };
            match flow.values.definition(value) {
                Some(Definition::Phi(_)) => {
                    open.extend(flow.values.phi_operands(&flow.graph, value));
                }
                Some(Definition::Written(id)) => {
                    open.extend(flow.values.prior(value));
                    let from = self.accesses.binary_search_by_key(&id, |of| of.id);
                    if let Ok(at) = from {
                        let address = self.accesses[at].access.address;
                        let read = self.evaluator.operand(address, place).sum();
                        if read.is_some_and(|read| read.lanes.at(writer) == write.offset.at(writer))
                        {
                            return true;
                        }
                    } else if flow
                        .instructions
                        .get(id)
                        .is_some_and(|i| i.opcode == Opcode::Mov)
                    {
                        let step = &flow.instructions.steps[id.index()];
                        let reads = flow.values.reads(&flow.instructions, step);
                        open.extend(reads.map(|(_, value)| value));
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Whether a thread makes anything of what it reads.
    fn is_used(&mut self, read: &Instance, thread: usize) -> bool {
        let flow = self.flow;
        let Some(users) = self.evaluator.function.users() else {
            return true;
        };
        let step = &flow.instructions.steps[read.of.id.index()];
        let written = flow.values.writes(&flow.instructions, step);
        let mut open: Vec<ValueId> = written.map(|(_, value)| value).collect();
        let mut visited = open.clone();
        while let Some(value) = open.pop() {
            for user in users.readers(value) {
                let id = match user {
                    Ok(id) => id,
                    Err(phi) => {
                        if !visited.contains(&phi) {
                            visited.push(phi);
                            open.push(phi);
                        }
                        continue;
                    }
                };
                let step = &flow.instructions.steps[id.index()];
                if self.is_dropped(id, read.turns, thread) {
                    continue;
                }
                if !self.evaluator.function.effect(step).pure || visited.len() > FOLLOWED {
                    return true;
                }
                for (_, value) in flow.values.writes(&flow.instructions, step) {
                    if !visited.contains(&value) {
                        visited.push(value);
                        open.push(value);
                    }
                }
            }
        }
        false
    }

    /// Whether the guard of an instruction is known not to hold of a thread.
    fn is_dropped(&mut self, id: InstructionId, turns: Turns, thread: usize) -> bool {
        let flow = self.flow;
        let step = &flow.instructions.steps[id.index()];
        let Some(guard) = flow.values.guard(&flow.instructions, step) else {
            return false;
        };
        if flow.instructions.steps[id.index()].terminator != Terminator::FallThrough {
            return false;
        }
        let place = self.evaluator.place(flow.graph.block_of(id), turns);
        let guard = self.evaluator.value(guard, place).sum();
        guard.is_some_and(|guard| guard.is_exact() && (guard.lanes.at(thread) != 0) == step.negated)
    }
}

/// Whether two threads surely store different values.
fn differ(a: &Instance, thread: usize, b: &Instance, other: usize) -> bool {
    let of_shared = |one: &Instance| one.of.space == Space::Shared;
    match (a.value(), b.value()) {
        (Known::Sum(left), Known::Sum(right)) => {
            left.symbols == right.symbols && left.lanes.at(thread) != right.lanes.at(other)
        }
        (Known::Unknown, _) | (_, Known::Unknown) => false,
        // What threads leave in one word of global memory may be to nobody, and what
        // they load from one address is the same.
        (Known::Data, _) | (_, Known::Data) => of_shared(a) && a.offset.same().is_some(),
        _ => true,
    }
}
