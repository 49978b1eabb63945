//! Barriers in shared memory, stores that they count, and the addresses of a cluster.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};

use super::memory::Space;
use crate::abi::{Access, offset};
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{Arg, Base, Instruction, Storage};
use crate::runtime::{AddressSpace, BarrierOperation, Helper};
use ptx::names::{Modifier as M, Opcode as O};

impl Emitter<'_, '_> {
    /// The value of address operand `n`, in the state space that its instruction names.
    pub fn address_value(&mut self, i: &Instruction, n: usize) -> EmitResult<(Base, Value)> {
        let (base, offset) = self.address(i, n)?;
        // In shared memory the runtime takes its lower half.
        Ok((base, self.address_in(Space::Generic, base, offset)))
    }

    /// The generic address of an operand in `.shared::cluster`.
    pub fn cluster_address(&mut self, address: Value) -> Value {
        let context = self.fixed.context;
        self.call(Helper::cluster_to_generic, &[context, address])
    }

    /// `mapa`, `getctarank`
    pub fn map_address(&mut self, i: &Instruction) -> EmitResult<()> {
        let shared = i.modifiers.has(M::SharedCluster);
        let mut address = self.operand(i, 1, types::I64)?;
        if shared || matches!(self.arg(i, 1)?, Arg::Symbol(..)) {
            address = self.cluster_address(address);
        } else if self.native(i, 0)? != types::I64 {
            return self.unsupported(i, "generic addresses of 32 bits");
        }
        let context = self.fixed.context;
        if i.opcode == O::Getctarank {
            let rank = self.call(Helper::rank_of, &[context, address]);
            return self.result(i, rank);
        }
        let rank = self.operand(i, 2, types::I32)?;
        let mut mapped = self.call(Helper::map_generic, &[context, address, rank]);
        if shared {
            mapped = self.call(Helper::generic_to_cluster, &[context, mapped]);
        }
        self.result(i, mapped)
    }

    /// Ends the thread if a helper has recorded a fault.
    fn fail_after_fault(&mut self) {
        let context = self.fixed.context;
        let flags = MemFlagsData::trusted();
        let kind = self
            .b
            .ins()
            .load(types::I32, flags, context, offset::FAULT_KIND);
        let (ok, fail) = (self.b.create_block(), self.fail);
        self.b.ins().brif(kind, fail, &[], ok, &[]);
        self.enter(ok);
    }

    /// The first operand that is an address.
    fn first_address(&self, i: &Instruction) -> usize {
        let args = self.program.list(i.args).iter();
        let mut addresses = args.enumerate().skip(1);
        let found = addresses.find(|(_, arg)| matches!(arg, Arg::Address(..) | Arg::Symbol(..)));
        match self.program.list(i.args).first() {
            Some(Arg::Address(..) | Arg::Symbol(..)) => 0,
            _ => found.map_or(1, |(n, _)| n),
        }
    }

    pub fn call_mbarrier(
        &mut self,
        operation: BarrierOperation,
        space: AddressSpace,
        address: Value,
        operand: Value,
    ) -> Value {
        let context = self.fixed.context;
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | (space as u64) << 8 | operation as u64;
        let encoded = self.int(types::I64, encoded);
        let args = [context, thread, encoded, address, operand];
        let result = self.call(Helper::mbarrier, &args);
        self.fail_after_fault();
        result
    }

    /// `mbarrier`, and `cp.async.mbarrier.arrive`.
    pub fn mbarrier(&mut self, i: &Instruction) -> EmitResult<()> {
        use BarrierOperation::*;
        let m = &i.modifiers;
        // The next layout, and barriers of several blocks at once.
        let newer = ["layout::v1", "phase_type::conditional"];
        if m.as_slice()
            .iter()
            .any(|word| newer.contains(&word.text()) || word.text().starts_with("multicast"))
        {
            return self.unsupported(i, "unsupported form of a barrier");
        }
        if m.has(M::PendingCount) {
            let state = self.operand(i, 1, types::I64)?;
            let mask = self.int(types::I64, (1 << 20) - 1);
            let count = self.b.ins().band(state, mask);
            return self.result(i, count);
        }
        let at = self.first_address(i);
        let (base, address) = self.address_value(i, at)?;
        let space = match m.first_of(&[M::Shared, M::SharedCta, M::SharedCluster]) {
            _ if matches!(
                base,
                Base::Storage(Storage::Shared(_) | Storage::DynamicShared)
            ) =>
            {
                AddressSpace::Shared
            }
            Some(M::SharedCluster) => AddressSpace::Cluster,
            Some(_) => AddressSpace::Shared,
            None => AddressSpace::Generic,
        };
        let drop = m.has(M::ArriveDrop);
        let expects = m.has(M::ExpectTx);
        let parity = m.has(M::Parity);
        let (operation, wide) = match () {
            () if i.opcode == O::Cp => (Arrive, false),
            () if m.has(M::Init) => (Init, false),
            () if m.has(M::Inval) => (Inval, false),
            () if drop && expects => (ArriveDropExpectTx, false),
            () if drop => (ArriveDrop, false),
            () if m.has(M::Arrive) && expects => (ArriveExpectTx, false),
            () if m.has(M::Arrive) => (Arrive, false),
            () if expects => (ExpectTx, false),
            () if m.has(M::CompleteTx) => (CompleteTx, false),
            () if m.first_of(&[M::TestWait, M::TryWait]).is_some() && parity => (TestParity, false),
            () if m.first_of(&[M::TestWait, M::TryWait]).is_some() => (TestState, true),
            () => return self.unsupported(i, "unsupported operation on a barrier"),
        };
        if i.opcode == O::Cp && !m.has(M::Noinc) {
            // It adds a pending arrival and arrives, as the copies before it are complete.
            return Ok(());
        }
        let ty = if wide { types::I64 } else { types::I32 };
        let operand = match self.arg(i, at + 1) {
            Ok(_) if operation != Inval => self.operand(i, at + 1, ty)?,
            _ => self.int(ty, u64::from(operation != Inval)),
        };
        let operand = self.coerce(operand, types::I64);
        let result = self.call_mbarrier(operation, space, address, operand);
        if at == 0 {
            return Ok(());
        }
        match operation {
            TestState | TestParity => {
                let complete = self.icmp_imm(IntCC::NotEqual, result, 0);
                self.result(i, complete)
            }
            _ => self.result(i, result),
        }
    }

    /// The state space of addresses in shared memory, which an instruction need not name.
    pub fn barrier_space(&self, i: &Instruction, base: Base) -> AddressSpace {
        let is_wide = match base {
            Base::Reg(reg) => self.program.registers[reg.index()].bytes() == 8,
            _ => false,
        };
        match i
            .modifiers
            .first_of(&[M::Shared, M::SharedCta, M::SharedCluster])
        {
            Some(M::SharedCluster) => AddressSpace::Cluster,
            None if is_wide => AddressSpace::Generic,
            _ => AddressSpace::Shared,
        }
    }

    /// `st.async`, whose bytes a barrier counts.
    pub fn store_async(&mut self, i: &Instruction) -> EmitResult<()> {
        if self.arg_count(i) < 3 {
            return self.store(i);
        }
        let ty = self.native(i, 0)?;
        let from = self.arg(i, 1)?;
        let parts = match &from {
            Arg::List(list) => self.list(*list),
            single => std::slice::from_ref(single),
        };
        let width = ty.bytes() * parts.len() as u32;
        let (base, address) = self.address_value(i, 0)?;
        let address = match self.barrier_space(i, base) {
            AddressSpace::Generic => address,
            _ => self.cluster_address(address),
        };
        self.check(address, Space::Generic, width, width | Access::WRITE);
        for (n, &part) in parts.iter().enumerate() {
            let value = self.read(part, ty)?;
            let at = n as i32 * ty.bytes() as i32;
            let flags = MemFlagsData::trusted();
            self.b.ins().store(flags, value, address, at);
        }
        self.count_bytes(i, 2, width)
    }

    /// `clusterlaunchcontrol`: a request to cancel blocks that have not begun always fails, as
    /// where all of them have begun. The response is 0.
    pub fn launch_control(&mut self, i: &Instruction) -> EmitResult<()> {
        const RESPONSE: u32 = 16;
        if i.modifiers.has(M::QueryCancel) {
            let to = self.arg(i, 0)?;
            let parts = match &to {
                Arg::List(list) => self.list(*list),
                single => std::slice::from_ref(single),
            };
            let is_flag = i.modifiers.has(M::IsCanceled);
            let ty = if is_flag { types::I8 } else { types::I32 };
            for &part in parts {
                let zero = self.int(ty, 0);
                self.write(i, part, zero)?;
            }
            return Ok(());
        }
        if i.modifiers.has(M::MulticastClusterAll) {
            return self.unsupported(i, "a response to several blocks");
        }
        let (base, address) = self.address_value(i, 0)?;
        let address = match self.barrier_space(i, base) {
            AddressSpace::Generic => address,
            _ => self.cluster_address(address),
        };
        self.check(address, Space::Generic, RESPONSE, RESPONSE | Access::WRITE);
        let zero = self.int(types::I64, 0);
        for at in [0, 8] {
            let flags = MemFlagsData::trusted();
            self.b.ins().store(flags, zero, address, at);
        }
        self.count_bytes(i, 1, RESPONSE)
    }

    /// Counts bytes that have come at the barrier of operand `n`.
    pub fn count_bytes(&mut self, i: &Instruction, n: usize, bytes: u32) -> EmitResult<()> {
        let (base, barrier) = self.address_value(i, n)?;
        let space = self.barrier_space(i, base);
        let bytes = self.int(types::I64, bytes.into());
        self.call_mbarrier(BarrierOperation::CompleteTx, space, barrier, bytes);
        Ok(())
    }
}
