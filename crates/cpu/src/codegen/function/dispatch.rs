//! Dispatch of an instruction to the code that lowers it.

use crate::abi::FaultKind;
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{Instruction, Step};
use ptx::names::{Modifier, Opcode as O, Type};

impl Emitter<'_, '_> {
    pub fn step(&mut self, step: &Step) -> EmitResult<()> {
        match step {
            Step::Instruction(instruction) => self.instruction(instruction),
            Step::SystemCall {
                call,
                args,
                result,
                line,
            } => self.system_call(*call, *args, *result, *line),
        }
    }

    pub fn instruction(&mut self, i: &Instruction) -> EmitResult<()> {
        self.line = i.line;
        self.set_guard(i.guard);
        match i.opcode {
            O::Ld | O::Ldu => self.load(i),
            O::St if i.modifiers.has(Modifier::Async) => self.store_async(i),
            O::St => self.store(i),
            O::Mov => self.mov(i),
            O::Cvta => self.cvta(i),
            O::Isspacep => self.isspacep(i),
            O::Cvt => self.convert(i),
            O::Setp => self.setp(i),
            O::Set => self.set(i),
            O::Selp => self.selp(i),
            O::Slct => self.slct(i),
            O::Atom | O::Red => self.atomic(i),
            O::And
            | O::Or
            | O::Xor
            | O::Not
            | O::Cnot
            | O::Shl
            | O::Shr
            | O::Shf
            | O::Lop3
            | O::Prmt
            | O::Popc
            | O::Clz
            | O::Bfind
            | O::Brev
            | O::Bfe
            | O::Bfi
            | O::Fns
            | O::Clmad
            | O::Bmsk
            | O::Szext => self.bits(i),
            O::Mul24
            | O::Mad24
            | O::Sad
            | O::Dp4a
            | O::Dp2a
            | O::Addc
            | O::Subc
            | O::Madc
            | O::Rem => self.integer(i),
            O::Vadd
            | O::Vsub
            | O::Vabsdiff
            | O::Vmin
            | O::Vmax
            | O::Vshl
            | O::Vshr
            | O::Vmad
            | O::Vset
            | O::Vadd2
            | O::Vadd4
            | O::Vsub2
            | O::Vsub4
            | O::Vavrg2
            | O::Vavrg4
            | O::Vabsdiff2
            | O::Vabsdiff4
            | O::Vmin2
            | O::Vmin4
            | O::Vmax2
            | O::Vmax4
            | O::Vset2
            | O::Vset4 => self.video(i),
            O::Add
            | O::Sub
            | O::Mul
            | O::Mad
            | O::Fma
            | O::Div
            | O::Abs
            | O::Neg
            | O::Min
            | O::Max => {
                let ty = self.ty(i, 0)?;
                match ty {
                    Type::F32 | Type::F64 => self.float_arithmetic(i),
                    Type::F32x2 => self.float_pair(i),
                    Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => self.half(i),
                    _ => self.integer(i),
                }
            }
            O::Rcp
            | O::Sqrt
            | O::Rsqrt
            | O::Sin
            | O::Cos
            | O::Lg2
            | O::Ex2
            | O::Tanh
            | O::Copysign
            | O::Testp => {
                let ty = self.ty(i, 0)?;
                match ty {
                    Type::F32 | Type::F64 => self.float_arithmetic(i),
                    _ => self.half(i),
                }
            }
            // The threads of a block share a host thread, so that a fence is needed only
            // between blocks.
            O::Membar | O::Fence => {
                self.memory_barrier();
                Ok(())
            }
            O::Cp if i.modifiers.has(Modifier::Mbarrier) => self.mbarrier(i),
            O::Cp if i.modifiers.has(Modifier::Bulk) => self.copy_bulk(i),
            O::Cp => self.copy_async(i),
            O::Tensormap => self.tensor_map(i),
            O::Tcgen05 => self.tensor(i),
            O::Clusterlaunchcontrol => self.launch_control(i),
            O::Mbarrier => self.mbarrier(i),
            O::Mapa | O::Getctarank => self.map_address(i),
            O::Tex | O::Tld4 | O::Txq | O::Suld | O::Sust | O::Sured | O::Suq | O::Istypep => {
                self.texture(i)
            }
            // Hints, and waits for operations that have already completed.
            O::Prefetch
            | O::Prefetchu
            | O::Discard
            | O::Applypriority
            | O::Griddepcontrol
            | O::Pmevent
            | O::Setmaxnreg
            | O::Wgmma => Ok(()),
            O::Createpolicy => {
                let zero = self.zero(cranelift_codegen::ir::types::I64);
                self.result(i, zero)
            }
            O::Brkpt => {
                self.trap(FaultKind::Trap);
                Ok(())
            }
            // The table says what is supported; this is a row that is mistaken.
            _ => self.unsupported(i, "unsupported instruction"),
        }
    }

    /// An unconditional fault. The following code is unreachable.
    fn trap(&mut self, kind: FaultKind) {
        self.fault(kind, None);
        let dead = self.b.create_block();
        self.b.switch_to_block(dead);
    }
}
