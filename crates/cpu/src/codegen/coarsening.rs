//! Thread coarsening: several lane groups run together what they do in a straight line.
//!
//! A kernel that computes element by element has as many instructions for its guard, its addresses
//! and their checks as for the elements of a lane group. Where the following groups are in the same
//! row of the block, take the same branches and access what is in bounds, that is computed once for
//! all of them. Where something differs, nothing has been stored yet, and each group starts by itself.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, StackSlotData, StackSlotKind, Value, types,
};

use super::checked_address::CheckedAddress;
use super::emitter::{EmitResult, Emitter};
use super::lane_group::contiguous_vector;
use super::lane_set::{LaneSet, vectors};
use super::resume::ResumePlan;
use super::steps::emit_step;
use super::vector_major::is_word_access;
use super::vectorize::{Lowering, has_effect, is_narrow, lowering};
use super::wide::{Elements, ElementsLoop, Pointed};
use super::{ends, streaming, wide_call, wrap_check};
use crate::abi::{EXITED, MAX_UNITS, WARP_SIZE, offset};
use crate::program::{
    Arg, Base, BlockId, Guard, Instruction, LoweringError, NoWrap, Program, Reg, RegClass, Step,
    Storage, Terminator, Uniformity, extended,
};
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S, Type};

/// The groups that run together.
const GROUPS: u32 = 4;
/// The most steps that they have.
const MAX_STEPS: usize = 64;
/// Blocks without steps in front of an exit.
const MAX_JUMPS: usize = 4;
/// Bytes of an element.
const BYTES: u32 = 4;

/// What the groups do, in the order of the kernel.
enum Part<'p> {
    /// Once for all of them.
    Scalar(&'p Step),
    /// Once: it must hold.
    Check(NoWrap),
    /// Once: the path goes on where it holds for all lanes.
    Guard(BlockId, Guard),
    /// For each vector.
    Lanes(&'p Instruction),
    /// For each vector, from or to an address that is checked once.
    Access(&'p Instruction),
}

/// How the value of a register varies over the lanes of the groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lanes {
    /// They have the same.
    Common,
    /// With the stride of a lane group.
    Affine,
    /// A predicate that compares such values.
    Compared,
    /// Each has its own.
    Own,
}

/// The path of all groups through a kernel.
pub(super) struct Coarsening<'p>(Vec<Part<'p>>);

impl<'p> Coarsening<'p> {
    /// That of a kernel, if it has one.
    pub fn of(e: &Emitter<'p, '_>, plan: &ResumePlan) -> Option<Coarsening<'p>> {
        let is_plain = plan.sync_points.is_empty()
            && plan.interchanged.is_empty()
            && plan.together.loops.is_empty()
            && plan.entry_live_in.is_empty();
        if e.width != WARP_SIZE || e.is_sanitized || !is_plain {
            return None;
        }
        let mut path = Path {
            e,
            parts: Vec::new(),
            values: vec![None; e.program.registers.len()],
            read_by_lanes: Vec::new(),
            has_stored: false,
        };
        let mut at = BlockId(0);
        let mut passed = Vec::new();
        loop {
            let is_loop = passed.contains(&at);
            if is_loop || plan.clamped[at.index()].is_some() {
                return None;
            }
            passed.push(at);
            let block = &e.program.blocks[at.index()];
            for step in &block.steps {
                path.step(step)?;
                if path.parts.len() > MAX_STEPS {
                    return None;
                }
            }
            at = match block.terminator {
                Terminator::Exit => break,
                Terminator::Jump(to) => to,
                Terminator::Branch {
                    predicate,
                    then,
                    otherwise,
                } => path.branch(at, predicate, (then, otherwise))?,
                _ => return None,
            };
        }
        let accesses = path.parts.iter().filter(|p| matches!(p, Part::Access(_)));
        (accesses.count() > 0).then_some(Coarsening(path.parts))
    }

    /// Emits the loop over such groups up to thread `last`, after which `rest` runs the others.
    pub fn emit(
        &self,
        e: &mut Emitter<'_, '_>,
        plan: &ResumePlan,
        (last, rest): (Value, Block),
        errors: &mut Vec<LoweringError>,
    ) {
        let [head, body] = [(); 2].map(|()| e.b.create_block());
        e.b.ins().jump(head, &[]);
        e.b.switch_to_block(head);
        let width = e.width;
        e.width = GROUPS * width;
        let threads = i64::from(e.width);
        let index = e.b.use_var(e.thread.index);
        let next = e.add_offset(index, threads);
        let exist = e.icmp(IntCC::UnsignedLessThanOrEqual, next, last);
        let x = e.b.use_var(e.thread.tid[0]);
        let row_end = e.add_offset(x, threads);
        let row = e.field(types::I32, offset::BLOCK_DIM);
        let in_row = e.icmp(IntCC::UnsignedLessThanOrEqual, row_end, row);
        let both = e.b.ins().band(exist, in_row);
        e.b.ins().brif(both, body, &[], rest, &[]);

        e.enter(body);
        let addresses = self.check(e, rest, errors);
        e.width = width;
        let done = e.b.create_block();
        if let Some(streaming) = self.streaming(e) {
            let cached = e.b.create_block();
            self.stream(e, streaming, &addresses, (cached, done));
            e.enter(cached);
        }
        self.elements(e, &addresses, done, errors);
        e.enter(done);
        e.b.def_var(e.thread.index, next);
        e.width = GROUPS * width;
        e.advance_tid(plan.tid);
        e.width = width;
        if let Some(together) = e.arrival.and_then(|arrival| arrival.together) {
            let exited = e.scalar_int(types::I32, EXITED.into());
            e.b.def_var(together.reached, exited);
        }
        e.splats.clear();
        e.b.ins().jump(head, &[]);
    }

    /// Emits what is done once for all groups. Returns the addresses of the accesses.
    fn check(
        &self,
        e: &mut Emitter<'_, '_>,
        rest: Block,
        errors: &mut Vec<LoweringError>,
    ) -> Vec<CheckedAddress> {
        let mut addresses = Vec::new();
        for part in &self.0 {
            e.lane_set = LaneSet::Scalar;
            e.splats.clear();
            match part {
                Part::Scalar(step) => emit_step(e, step, errors),
                Part::Check(check) => wrap_check::emit(e, &[*check], |e| {
                    e.b.ins().jump(rest, &[]);
                }),
                Part::Guard(block, guard) => {
                    let holds = match e.locations[guard.reg.index()].uniformity {
                        Uniformity::Uniform => Some(vec![e.guard_value(*guard)]),
                        _ => ends::hold_at_ends(e, *block, *guard),
                    };
                    // What is not known does not hold.
                    let holds = holds.unwrap_or_else(|| vec![e.scalar_int(types::I8, 0)]);
                    for holds in holds {
                        require(e, holds, rest);
                    }
                }
                Part::Lanes(_) => {}
                Part::Access(i) => match address(e, i, rest) {
                    Ok(address) => addresses.push(address),
                    Err(error) => errors.push(error.at(i)),
                },
            }
        }
        addresses
    }

    /// The loop over the groups' elements that stores past the caches, if there is one.
    fn streaming(&self, e: &Emitter<'_, '_>) -> Option<ElementsLoop> {
        let mut elements = Elements::new(e.program);
        for part in &self.0 {
            match part {
                Part::Lanes(i) => elements.compute(i)?,
                Part::Access(i) => {
                    let loads = i.opcode != O::St;
                    if !loads && !e.may_stream(i) {
                        return None;
                    }
                    let value = e.program.list(i.args).get(usize::from(!loads))?;
                    let &Arg::Reg(value) = value else { return None };
                    elements.access(value, loads)?;
                }
                _ => {}
            }
        }
        let stores = self.0.iter().any(|part| match part {
            Part::Access(i) => i.opcode == O::St,
            _ => false,
        });
        elements.compile().filter(|_| stores)
    }

    /// Has a function run the loop over the groups' elements, from these addresses on, where the
    /// grid has many. Where it does not, goes on at `cached`.
    fn stream(
        &self,
        e: &mut Emitter<'_, '_>,
        streaming: ElementsLoop,
        elements: &[CheckedAddress],
        (cached, done): (Block, Block),
    ) {
        let accesses = self.0.iter().filter_map(|part| match part {
            Part::Access(i) => Some(i),
            _ => None,
        });
        let stores = accesses.zip(elements).filter(|(i, _)| i.opcode == O::St);
        streaming::require(e, stores.map(|(i, to)| (*i, to.address)), cached);

        let mut addresses = Vec::new();
        for pointed in &streaming.table {
            addresses.extend(match *pointed {
                Pointed::Elements(access) => elements.get(access).map(|checked| checked.address),
                Pointed::Value(reg) => Some(spilled(e, reg)),
            });
        }
        let iterations = GROUPS * e.width / ElementsLoop::LANES;
        let iterations = e.scalar_int(types::I64, iterations.into());
        wide_call::call(e, streaming.code, &addresses, iterations);
        e.b.ins().jump(done, &[]);
    }

    /// Emits the loop over the groups' elements.
    fn elements(
        &self,
        e: &mut Emitter<'_, '_>,
        addresses: &[CheckedAddress],
        done: Block,
        errors: &mut Vec<LoweringError>,
    ) {
        let group = e.b.create_block();
        let distance = e.b.append_block_param(group, types::I64);
        let zero = e.scalar_int(types::I64, 0);
        e.b.ins().jump(group, &[BlockArg::Value(zero)]);
        e.b.switch_to_block(group);
        for lane in vectors(e.width, RegClass::I32) {
            let mut addresses = addresses.iter();
            for part in &self.0 {
                e.splats.clear();
                e.lane_set = lane;
                let (i, emitted) = match part {
                    Part::Lanes(i) => {
                        e.line = i.line;
                        (i, e.instruction(i))
                    }
                    Part::Access(i) => {
                        e.set_guard(None);
                        let Some(first) = addresses.next() else {
                            // An address is missing only after an error.
                            break;
                        };
                        let address = e.b.ins().iadd(first.address, distance);
                        let address = CheckedAddress::new(address, first.offset);
                        (i, contiguous_vector(e, i, address, lane))
                    }
                    _ => continue,
                };
                errors.extend(emitted.err().map(|error| error.at(i)));
            }
        }
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
        let bytes = i64::from(BYTES * e.width);
        let next = e.add_offset(distance, bytes);
        let ends = e.icmp_imm(IntCC::Equal, next, bytes * i64::from(GROUPS));
        e.b.ins()
            .brif(ends, done, &[], group, &[BlockArg::Value(next)]);
    }
}

/// The address of the value of a register that all lanes share.
fn spilled(e: &mut Emitter<'_, '_>, reg: Reg) -> Value {
    let value = e.register(reg);
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, BYTES, 2);
    let slot = e.b.create_sized_stack_slot(slot);
    e.b.ins().stack_store(types::I64, value, slot, 0);
    e.b.ins().stack_addr(types::I64, slot, 0)
}

/// Goes on where a condition holds.
fn require(e: &mut Emitter<'_, '_>, holds: Value, rest: Block) {
    let ok = e.b.create_block();
    e.b.ins().brif(holds, ok, &[], rest, &[]);
    e.enter(ok);
}

/// The address of an access, if the elements of all groups are in the allocation that its pointer
/// points to.
fn address(e: &mut Emitter<'_, '_>, i: &Instruction, rest: Block) -> EmitResult<CheckedAddress> {
    e.line = i.line;
    let (base, at) = e.address(i, usize::from(i.opcode != O::St))?;
    let Base::Reg(reg) = base else {
        return e.unsupported(i, "unsupported address");
    };
    let value = e.register(reg);
    let value = e.coerce(value, types::I64);
    let address = e.add_offset(value, at);
    let shift = BYTES.trailing_zeros();
    let Some((place, places)) = e.place_in_extent(address, shift, Some(reg)) else {
        return e.unsupported(i, "unsupported address");
    };
    let good = e.icmp(IntCC::UnsignedLessThan, place, places);
    require(e, good, rest);
    // So many are inside from each place on.
    let others = i64::from(e.width) - MAX_UNITS.cast_signed();
    let last = e.add_offset(place, others);
    let good = e.icmp(IntCC::UnsignedLessThan, last, places);
    require(e, good, rest);
    Ok(CheckedAddress::new(address, 0))
}

/// What is known on the path through a kernel.
struct Path<'w, 'p, 'a> {
    e: &'w Emitter<'p, 'a>,
    parts: Vec<Part<'p>>,
    values: Vec<Option<Lanes>>,
    /// Registers that vectors are computed from.
    read_by_lanes: Vec<Reg>,
    has_stored: bool,
}

impl<'p, 'a> Path<'_, 'p, 'a> {
    /// Adds a step; `None` where the groups cannot do it together.
    fn step(&mut self, step: &'p Step) -> Option<()> {
        let program = self.program();
        let Step::Instruction(i) = step else {
            return None;
        };
        if i.guard.is_some() || i.meaning.carry_in || i.meaning.carry_out {
            return None;
        }
        let uniformity = |reg: Reg| self.e.locations[reg.index()].uniformity;
        match lowering(program, &uniformity, step, self.e.has_fma) {
            Lowering::Contiguous => self.access(i),
            Lowering::Uniform if !has_effect(step) => self.scalar(step, i),
            Lowering::Widened if self.compares(i) => self.define(i, Lanes::Compared),
            Lowering::Widened if i.opcode != O::Ex2 && is_narrow(program, i) => {
                let mut read = Vec::new();
                program.effects(i, &mut |reg| read.push(reg), &mut |_| {});
                let is_known = |reg: &Reg| {
                    matches!(self.values[reg.index()], Some(Lanes::Own | Lanes::Common))
                };
                if !read.iter().all(is_known) || i.meaning.effect != Effect::Pure {
                    return None;
                }
                self.read_by_lanes.extend(read);
                self.parts.push(Part::Lanes(i));
                self.define(i, Lanes::Own)
            }
            _ => None,
        }
    }

    /// The side of a branch that does not end the thread.
    fn branch(
        &mut self,
        at: BlockId,
        predicate: Guard,
        (then, otherwise): (BlockId, BlockId),
    ) -> Option<BlockId> {
        let blocks = &self.program().blocks;
        let ends = |to: BlockId| {
            let next = |block: &BlockId| match blocks[block.index()].terminator {
                Terminator::Jump(to) => Some(to),
                _ => None,
            };
            // Many kernels have one exit, to which branches lead by others.
            let path = std::iter::successors(Some(to), next).take(MAX_JUMPS);
            let is_empty = |block: &BlockId| blocks[block.index()].steps.is_empty();
            let last = path.take_while(is_empty).last();
            last.is_some_and(|last| matches!(blocks[last.index()].terminator, Terminator::Exit))
        };
        let (to, negated) = match (ends(then), ends(otherwise)) {
            (true, false) => (otherwise, !predicate.negated),
            (false, true) => (then, predicate.negated),
            _ => return None,
        };
        let is_known = match self.values[predicate.reg.index()]? {
            Lanes::Common => true,
            Lanes::Compared => ends::is_at_ends(self.e, at, predicate.reg),
            Lanes::Affine | Lanes::Own => false,
        };
        let reg = predicate.reg;
        self.parts.push(Part::Guard(at, Guard { reg, negated }));
        is_known.then_some(to)
    }

    fn scalar(&mut self, step: &'p Step, i: &'p Instruction) -> Option<()> {
        let loads = i.meaning.effect != Effect::Pure;
        let others = [M::Sat, M::Hi, M::Cc];
        if i.modifiers.first_of(&others).is_some() {
            return None;
        }
        if loads && (self.has_stored || !is_plain_load(i)) {
            return None;
        }
        let value = self.computed(i)?;
        if value == Lanes::Affine {
            if loads || !is_linear(i) {
                return None;
            }
            self.check_extension(i)?;
        }
        let program = self.program();
        let (mut is_read, mut is_affine) = (false, true);
        program.effects(i, &mut |_| {}, &mut |reg| {
            is_read |= self.read_by_lanes.contains(&reg);
            let uniformity = self.e.locations[reg.index()].uniformity;
            is_affine &= matches!(uniformity, Uniformity::Affine(_));
        });
        // The vectors would read what it writes.
        if is_read || value == Lanes::Affine && !is_affine {
            return None;
        }
        self.parts.push(Part::Scalar(step));
        self.define(i, value)
    }

    /// What is computed from an instruction's operands, if no lane has its own.
    fn computed(&self, i: &Instruction) -> Option<Lanes> {
        let program = self.program();
        let mut value = Lanes::Common;
        for &arg in program.list(i.args).get(1..)? {
            if self.operand(arg)? == Lanes::Affine {
                value = Lanes::Affine;
            }
        }
        Some(value)
    }

    fn operand(&self, arg: Arg) -> Option<Lanes> {
        match arg {
            Arg::Int(_) | Arg::Float(_) | Arg::Symbol(..) => Some(Lanes::Common),
            Arg::Reg(reg) | Arg::Address(Base::Reg(reg), _) => match self.values[reg.index()]? {
                lanes @ (Lanes::Common | Lanes::Affine) => Some(lanes),
                Lanes::Compared | Lanes::Own => None,
            },
            Arg::Address(Base::Storage(Storage::Param(_) | Storage::Global(_)), _) => {
                Some(Lanes::Common)
            }
            Arg::Special(S::TidX) => Some(Lanes::Affine),
            Arg::Special(
                S::TidY
                | S::TidZ
                | S::NtidX
                | S::NtidY
                | S::NtidZ
                | S::CtaidX
                | S::CtaidY
                | S::CtaidZ
                | S::NctaidX
                | S::NctaidY
                | S::NctaidZ,
            ) => Some(Lanes::Common),
            _ => None,
        }
    }

    /// What an instruction extends to 64 bits must not wrap.
    fn check_extension(&mut self, i: &Instruction) -> Option<()> {
        let Some(from) = extended(i) else {
            return Some(());
        };
        if !matches!(from, Type::U32 | Type::S32) {
            return None;
        }
        // What a product is added to is as wide as the sum.
        for &arg in self.program().list(i.args).get(1..)?.iter().take(2) {
            let Arg::Reg(reg) = arg else { continue };
            if let Uniformity::Affine(stride) = self.e.locations[reg.index()].uniformity
                && self.values[reg.index()] == Some(Lanes::Affine)
            {
                self.parts.push(Part::Check(NoWrap {
                    reg,
                    stride,
                    signed: from == Type::S32,
                    clamp: None,
                }));
            }
        }
        Some(())
    }

    /// Whether it compares values that the lanes share or that have a stride.
    fn compares(&self, i: &Instruction) -> bool {
        i.opcode == O::Setp && self.computed(i) == Some(Lanes::Affine)
    }

    fn access(&mut self, i: &'p Instruction) -> Option<()> {
        let program = self.program();
        let shared = [M::Shared, M::SharedCta, M::Const];
        let (address, value) = match (i.opcode, program.list(i.args)) {
            (O::Ld, &[value, address]) => (address, value),
            (O::St, &[address, value]) => (address, value),
            _ => return None,
        };
        let (Arg::Address(Base::Reg(base), _), Arg::Reg(value)) = (address, value) else {
            return None;
        };
        let is_known = is_word_access(self.e, i)
            && i.modifiers.first_of(&shared).is_none()
            && self.values[base.index()] == Some(Lanes::Affine)
            && self.e.has_extent(base);
        if !is_known {
            return None;
        }
        self.parts.push(Part::Access(i));
        if i.opcode == O::St {
            self.has_stored = true;
            self.read_by_lanes.push(value);
            let is_known = matches!(self.values[value.index()], Some(Lanes::Own | Lanes::Common));
            return is_known.then_some(());
        }
        self.define(i, Lanes::Own)
    }

    fn define(&mut self, i: &Instruction, value: Lanes) -> Option<()> {
        let program = self.program();
        program.effects(i, &mut |_| {}, &mut |reg| {
            self.values[reg.index()] = Some(value);
        });
        Some(())
    }

    fn program(&self) -> &'p Program<'a> {
        self.e.program
    }
}

/// Whether a load finds the same whenever it is executed, as long as the thread stores nothing.
fn is_plain_load(i: &Instruction) -> bool {
    let orders = [M::Volatile, M::Relaxed, M::Acquire, M::Mmio];
    i.opcode == O::Ld && i.modifiers.first_of(&orders).is_none()
}

/// Whether what has a stride for a lane group has it for several, too.
fn is_linear(i: &Instruction) -> bool {
    matches!(
        i.opcode,
        O::Mov | O::Cvta | O::Cvt | O::Add | O::Sub | O::Mul | O::Mad | O::Shl
    )
}
