//! Sync points: a suspended thread stores its operands in a request, and loads the
//! results when it resumes.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};

use crate::abi::{SyncKind, offset};
use crate::codegen::emitter::thread_state::thread_offset;
use crate::codegen::emitter::{EmitResult, Emitter, READONLY, is_signed};
use crate::program::{Arg, Instruction, LoweringError, Program};
use ptx::names::{Modifier as M, Opcode as O, Type as P};

/// The member mask of instructions without `.sync`: every lane of the warp.
pub(in crate::codegen) const ALL_LANES: u64 = 0xFFFF_FFFF;

/// The kind of sync point of an instruction.
pub(in crate::codegen) fn kind_of(i: &Instruction) -> Result<SyncKind, LoweringError> {
    let m = &i.modifiers;
    let unknown = || LoweringError::unsupported(i.span, "unsupported form");
    Ok(match i.opcode {
        _ if i.is_matrix() => SyncKind::Matrix,
        O::Bar if m.has(M::Warp) => SyncKind::WarpBarrier,
        O::Barrier if m.has(M::Cluster) && m.has(M::Arrive) => SyncKind::ClusterArrive,
        O::Barrier if m.has(M::Cluster) => SyncKind::ClusterWait,
        O::Bar | O::Barrier if m.has(M::Red) => match m.first_of(&[M::Popc, M::And, M::Or]) {
            Some(M::Popc) => SyncKind::BarrierPopc,
            Some(M::And) => SyncKind::BarrierAnd,
            Some(M::Or) => SyncKind::BarrierOr,
            _ => return Err(unknown()),
        },
        O::Bar | O::Barrier if m.has(M::Arrive) => SyncKind::BarrierArrive,
        O::Bar | O::Barrier => SyncKind::Barrier,
        O::Shfl => match m.first_of(&[M::Up, M::Down, M::Bfly, M::Idx]) {
            Some(M::Up) => SyncKind::ShflUp,
            Some(M::Down) => SyncKind::ShflDown,
            Some(M::Bfly) => SyncKind::ShflBfly,
            Some(M::Idx) => SyncKind::ShflIdx,
            _ => return Err(unknown()),
        },
        O::Vote => match m.first_of(&[M::All, M::Any, M::Uni, M::Ballot]) {
            Some(M::All) => SyncKind::VoteAll,
            Some(M::Any) => SyncKind::VoteAny,
            Some(M::Uni) => SyncKind::VoteUni,
            Some(M::Ballot) => SyncKind::VoteBallot,
            _ => return Err(unknown()),
        },
        O::Match if m.has(M::All) => SyncKind::MatchAll,
        O::Match => SyncKind::MatchAny,
        O::Redux => {
            let ty = m.types().next().ok_or_else(unknown)?;
            let signed = is_signed(ty);
            let float = ty == P::F32;
            match m.first_of(&[M::Add, M::Min, M::Max, M::And, M::Or, M::Xor]) {
                Some(M::Add) => SyncKind::ReduxAdd,
                Some(M::Min) if float => SyncKind::ReduxMinF32,
                Some(M::Max) if float => SyncKind::ReduxMaxF32,
                Some(M::Min) if signed => SyncKind::ReduxMinS32,
                Some(M::Max) if signed => SyncKind::ReduxMaxS32,
                Some(M::Min) => SyncKind::ReduxMinU32,
                Some(M::Max) => SyncKind::ReduxMaxU32,
                Some(M::And) => SyncKind::ReduxAnd,
                Some(M::Or) => SyncKind::ReduxOr,
                Some(M::Xor) => SyncKind::ReduxXor,
                _ => return Err(unknown()),
            }
        }
        O::Activemask => SyncKind::ActiveMask,
        O::Elect => SyncKind::Elect,
        O::Nanosleep => SyncKind::Yield,
        _ => return Err(unknown()),
    })
}

/// The barrier and the thread count of a barrier instruction, if they are constants.
pub(in crate::codegen) fn constant_barrier(
    program: &Program<'_>,
    i: &Instruction,
) -> Option<[u32; 2]> {
    if !matches!(kind_of(i), Ok(SyncKind::Barrier | SyncKind::BarrierArrive)) {
        return None;
    }
    let number = |arg: &Arg| match *arg {
        Arg::Int(n) => u32::try_from(n).ok(),
        _ => None,
    };
    match program.list(i.args) {
        [id] => Some([number(id)?, 0]),
        [id, threads] => Some([number(id)?, number(threads)?]),
        _ => None,
    }
}

impl Emitter<'_, '_> {
    fn request(&mut self) -> Value {
        let context = self.fixed.context;
        let requests = self
            .b
            .ins()
            .load(types::I64, READONLY, context, offset::REQUESTS);
        let at = thread_offset(self, offset::REQUEST_SIZE as u32);
        self.b.ins().iadd(requests, at)
    }

    /// Stores the operands for the scheduler.
    pub fn store_request(&mut self, i: &Instruction) -> EmitResult<()> {
        let kind = kind_of(i)?;
        if constant_barrier(self.program, i).is_some() {
            return Ok(());
        }
        let mut operands: Vec<Value> = Vec::with_capacity(4);
        let mut word = |e: &mut Self, n: usize| -> EmitResult<()> {
            let value = e.operand(i, n, types::I32)?;
            operands.push(value);
            Ok(())
        };
        let has = |e: &Self, n: usize| e.arg_count(i) > n;
        match kind {
            SyncKind::Barrier | SyncKind::BarrierArrive => {
                word(self, 0)?;
                if has(self, 1) {
                    word(self, 1)?;
                } else {
                    operands.push(self.int(types::I32, 0));
                }
            }
            SyncKind::BarrierPopc | SyncKind::BarrierAnd | SyncKind::BarrierOr => {
                word(self, 1)?;
                let last = self.arg_count(i).saturating_sub(1);
                if last == 3 {
                    word(self, 2)?;
                } else {
                    let all = self.int(types::I32, 0);
                    operands.push(all);
                }
                let predicate = self.predicate(i, last)?;
                operands.push(predicate);
            }
            SyncKind::WarpBarrier => word(self, 0)?,
            SyncKind::ShflUp | SyncKind::ShflDown | SyncKind::ShflBfly | SyncKind::ShflIdx => {
                for n in 1..=3 {
                    word(self, n)?;
                }
                if has(self, 4) {
                    word(self, 4)?;
                } else {
                    operands.push(self.int(types::I32, ALL_LANES));
                }
            }
            SyncKind::VoteAll | SyncKind::VoteAny | SyncKind::VoteUni | SyncKind::VoteBallot => {
                let predicate = self.predicate(i, 1)?;
                operands.push(predicate);
                if has(self, 2) {
                    let mask = self.operand(i, 2, types::I32)?;
                    operands.push(mask);
                } else {
                    operands.push(self.int(types::I32, ALL_LANES));
                }
            }
            SyncKind::MatchAny | SyncKind::MatchAll => {
                let ty = self.native(i, 0)?;
                let value = self.operand(i, 1, ty)?;
                let mask = self.operand(i, 2, types::I32)?;
                operands.extend([value, mask]);
            }
            SyncKind::ActiveMask => {}
            SyncKind::Elect => word(self, 1)?,
            SyncKind::Yield if has(self, 0) => word(self, 0)?,
            SyncKind::Yield => operands.push(self.int(types::I32, 0)),
            SyncKind::ClusterArrive | SyncKind::ClusterWait => {}
            SyncKind::Matrix => operands.extend(self.matrix_request(i)?),
            _ => {
                // `redux`
                word(self, 1)?;
                word(self, 2)?;
                let flags =
                    u64::from(i.modifiers.has(M::Abs)) | u64::from(i.modifiers.has(M::NaN)) << 1;
                operands.push(self.int(types::I32, flags));
            }
        }
        if operands.is_empty() {
            return Ok(());
        }
        let request = self.request();
        for (n, value) in operands.into_iter().enumerate() {
            let value = self.coerce(value, types::I64);
            let at = offset::REQUEST_OPERANDS + 8 * n as i32;
            self.b
                .ins()
                .store(MemFlagsData::trusted(), value, request, at);
        }
        Ok(())
    }

    /// Loads the results from the scheduler.
    pub fn load_results(&mut self, i: &Instruction) -> EmitResult<()> {
        // The results of an operation on matrices are in slots.
        if !self.program.has_destination(i) || i.is_matrix() {
            return Ok(());
        }
        let request = self.request();
        let to = self.arg(i, 0)?;
        let parts = match &to {
            Arg::List(list) => self.list(*list),
            single => std::slice::from_ref(single),
        };
        for (n, &to) in parts.iter().enumerate().take(2) {
            let at = offset::REQUEST_RESULTS + 8 * n as i32;
            let value = self
                .b
                .ins()
                .load(types::I64, MemFlagsData::trusted(), request, at);
            self.write(i, to, value)?;
        }
        Ok(())
    }
}
