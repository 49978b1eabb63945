//! Tensor memory (`tcgen05`) but for loads and stores, which are in `matrix`. A product is
//! complete where it stands: fences and waits do nothing, and a commit arrives at its barrier.

use cranelift_codegen::ir::{Value, types};

use crate::codegen::emitter::{EmitResult, Emitter};
use crate::matrix::{Copied, Flags, Kind};
use crate::program::{Arg, Instruction};
use crate::runtime::{AddressSpace, BarrierOperation, Helper};
use ptx::names::Modifier as M;

impl Emitter<'_, '_> {
    /// `tcgen05` but for loads and stores.
    pub fn tensor(&mut self, i: &Instruction) -> EmitResult<()> {
        let m = &i.modifiers;
        if m.has(M::CtaGroup2) {
            return self.unsupported(i, "tensor memory of pairs of blocks");
        }
        match () {
            () if m.has(M::Alloc) => self.tensor_allocate(i),
            () if m.has(M::Dealloc) => self.tensor_free(i),
            () if m.has(M::Commit) => {
                let (base, address) = self.address_value(i, 0)?;
                let space = self.barrier_space(i, base);
                let one = self.int(types::I64, 1);
                self.call_mbarrier(BarrierOperation::Arrive, space, address, one);
                Ok(())
            }
            () if m.has(M::Mma) => self.tensor_multiply(i),
            () if m.has(M::Cp) => self.tensor_copy(i),
            // Fences, waits, and the promise that nothing else is allocated.
            () => Ok(()),
        }
    }

    fn tensor_allocate(&mut self, i: &Instruction) -> EmitResult<()> {
        let (base, address) = self.address_value(i, 0)?;
        let space = match self.barrier_space(i, base) {
            AddressSpace::Generic => AddressSpace::Generic,
            _ => AddressSpace::Shared,
        };
        let encoded = space as u64 | u64::from(self.line) << 32;
        let columns = self.operand(i, 1, types::I32)?;
        let encoded = self.int(types::I64, encoded);
        let args = [
            self.fixed.context,
            self.thread_index(),
            encoded,
            address,
            columns,
        ];
        let failed = self.call(Helper::tensor_allocate, &args);
        self.fail_if(failed);
        Ok(())
    }

    fn tensor_free(&mut self, i: &Instruction) -> EmitResult<()> {
        let address = self.operand(i, 0, types::I32)?;
        let columns = self.operand(i, 1, types::I32)?;
        let line = self.int(types::I32, self.line.into());
        let args = [
            self.fixed.context,
            self.thread_index(),
            line,
            address,
            columns,
        ];
        let failed = self.call(Helper::tensor_free, &args);
        self.fail_if(failed);
        Ok(())
    }

    /// An address in tensor memory, in brackets.
    fn tensor_address_value(&mut self, i: &Instruction, n: usize) -> EmitResult<Value> {
        let (_, address) = self.address_value(i, n)?;
        Ok(self.coerce(address, types::I32))
    }

    fn tensor_multiply(&mut self, i: &Instruction) -> EmitResult<()> {
        let m = &i.modifiers;
        let kinds = [
            (M::KindF16, Kind::F16),
            (M::KindTf32, Kind::Tf32),
            (M::KindF8f6f4, Kind::F8f6f4),
            (M::KindI8, Kind::I8),
            (M::KindMxf8f6f4, Kind::Mxf8f6f4),
            (M::KindMxf4, Kind::Mxf4),
            (M::KindMxf4nvf4, Kind::Mxf4),
        ];
        let Some((_, kind)) = kinds.into_iter().find(|(word, _)| m.has(*word)) else {
            return self.unsupported(i, "a product of this kind");
        };
        if m.has(M::Sp) {
            return self.unsupported(i, "a sparse product in tensor memory");
        }
        // Of the two scaled kinds of 64 elements along `k`, one has two scales alone.
        let four = m.first_of(&[M::ScaleVec4X, M::Block16]).is_some();
        let scales = match (m.has(M::BlockScale), kind) {
            (false, _) => 0,
            (true, Kind::Mxf8f6f4) => 1,
            (true, _) => 2 + u64::from(four),
        };
        let weights = m.has(M::Ws);
        let in_tensor_memory = matches!(self.arg(i, 1)?, Arg::Address(..));
        let d = self.tensor_address_value(i, 0)?;
        let a = if in_tensor_memory {
            self.address_value(i, 1)?.1
        } else {
            self.operand(i, 1, types::I64)?
        };
        let b = self.operand(i, 2, types::I64)?;
        let instruction = self.operand(i, 3, types::I32)?;
        let mut next = 4;
        let zero = self.int(types::I64, 0);
        let mut disabled = [zero; 2];
        if let Arg::List(list) = self.arg(i, next)? {
            next += 1;
            for (half, words) in disabled.iter_mut().zip(self.list(list).chunks(2)) {
                if let [low, high] = *words {
                    let low = self.read(low, types::I32)?;
                    let low = self.coerce(low, types::I64);
                    let high = self.read(high, types::I32)?;
                    *half = self.above(low, high, 32);
                }
            }
        }
        if scales > 0 {
            for value in &mut disabled {
                let address = self.tensor_address_value(i, next)?;
                *value = self.coerce(address, types::I64);
                next += 1;
            }
        }
        let adds = self.predicate(i, next)?;
        let adds = self.coerce(adds, types::I32);
        let scale = match self.arg(i, next + 1) {
            Ok(Arg::Int(0)) | Err(_) => 0,
            Ok(Arg::Int(scale)) if !weights && scale < 16 => scale,
            _ => return self.unsupported(i, "a mask of columns that are zero"),
        };
        let encoded = (kind as u64) << Flags::KIND
            | u64::from(in_tensor_memory) << Flags::A_IN_TENSOR_MEMORY
            | u64::from(weights) << Flags::WEIGHTS
            | scale << Flags::SCALE
            | scales << Flags::SCALES
            | u64::from(self.line) << 32;
        let encoded = self.int(types::I64, encoded);
        let (context, thread) = (self.fixed.context, self.thread_index());
        let [low, high] = disabled;
        let args = [
            context,
            thread,
            encoded,
            d,
            a,
            b,
            instruction,
            adds,
            low,
            high,
        ];
        let failed = self.call(Helper::tensor_multiply, &args);
        self.fail_if(failed);
        Ok(())
    }

    fn tensor_copy(&mut self, i: &Instruction) -> EmitResult<()> {
        let words = i.modifiers.as_slice();
        let number = Copied::number(|word| words.iter().any(|each| each.text() == word));
        let Some(number) = number else {
            return self.unsupported(i, "a copy of this form to tensor memory");
        };
        let to = self.tensor_address_value(i, 0)?;
        let from = self.operand(i, 1, types::I64)?;
        let encoded = number as u64 | u64::from(self.line) << 32;
        let encoded = self.int(types::I64, encoded);
        let args = [self.fixed.context, self.thread_index(), encoded, to, from];
        let failed = self.call(Helper::tensor_copy, &args);
        self.fail_if(failed);
        Ok(())
    }
}
