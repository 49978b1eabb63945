//! Special registers (PTX ISA, "Special Registers").

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use crate::abi::{WARP_SIZE, offset};
use crate::codegen::emitter::{EmitResult, Emitter, READONLY};
use crate::program::LoweringError;
use crate::runtime::Helper;
use ptx::ast::Span;
use ptx::names::SpecialRegister as S;

impl Emitter<'_, '_> {
    pub fn special(&mut self, register: S) -> EmitResult<Value> {
        let component = |base: i32, n: i32| base + 4 * n;
        Ok(match register {
            S::TidX => self.tid(0),
            S::TidY => self.tid(1),
            S::TidZ => self.tid(2),
            S::NtidX => self.field(types::I32, component(offset::BLOCK_DIM, 0)),
            S::NtidY => self.field(types::I32, component(offset::BLOCK_DIM, 1)),
            S::NtidZ => self.field(types::I32, component(offset::BLOCK_DIM, 2)),
            S::CtaidX => self.field(types::I32, component(offset::BLOCK, 0)),
            S::CtaidY => self.field(types::I32, component(offset::BLOCK, 1)),
            S::CtaidZ => self.field(types::I32, component(offset::BLOCK, 2)),
            S::NctaidX => self.field(types::I32, component(offset::GRID_DIM, 0)),
            S::NctaidY => self.field(types::I32, component(offset::GRID_DIM, 1)),
            S::NctaidZ => self.field(types::I32, component(offset::GRID_DIM, 2)),
            S::TidW | S::NtidW | S::CtaidW | S::NctaidW => self.int(types::I32, 0),
            S::Gridid => self.field(types::I64, offset::GRID_ID),
            S::Laneid => self.lane_id(),
            S::Warpid => {
                let thread = self.thread_index();
                let shift = self.int(types::I32, WARP_SIZE.trailing_zeros().into());
                self.b.ins().ushr(thread, shift)
            }
            S::Nwarpid => {
                let threads = self.field(types::I32, offset::THREADS);
                let threads = self.b.ins().iadd_imm_s(threads, i64::from(WARP_SIZE) - 1);
                let shift = self.int(types::I32, WARP_SIZE.trailing_zeros().into());
                self.b.ins().ushr(threads, shift)
            }
            S::Smid => self.field(types::I32, offset::WORKER),
            S::Nsmid => self.field(types::I32, offset::WORKERS),
            S::LanemaskEq | S::LanemaskLe | S::LanemaskLt | S::LanemaskGe | S::LanemaskGt => {
                let lane = self.lane_id();
                let one = self.int(types::I32, 1);
                let equal = self.b.ins().ishl(one, lane);
                let below = self.b.ins().iadd_imm_s(equal, -1);
                match register {
                    S::LanemaskEq => equal,
                    S::LanemaskLt => below,
                    S::LanemaskLe => self.b.ins().bor(below, equal),
                    S::LanemaskGe => self.b.ins().bnot(below),
                    _ => {
                        let up_to = self.b.ins().bor(below, equal);
                        self.b.ins().bnot(up_to)
                    }
                }
            }
            S::Clock64 => self.call(Helper::clock, &[]),
            S::Clock => {
                let clock = self.call(Helper::clock, &[]);
                self.coerce(clock, types::I32)
            }
            S::ClockHi => {
                let clock = self.call(Helper::clock, &[]);
                self.upper(clock)
            }
            S::Globaltimer => self.call(Helper::global_timer, &[]),
            S::GlobaltimerLo => {
                let time = self.call(Helper::global_timer, &[]);
                self.coerce(time, types::I32)
            }
            S::GlobaltimerHi => {
                let time = self.call(Helper::global_timer, &[]);
                self.upper(time)
            }
            // Registers that the driver sets: no other of them is in use.
            S::Envreg1 => {
                let workspace = self.grid_workspace();
                self.upper(workspace)
            }
            S::Envreg2 => {
                let workspace = self.grid_workspace();
                self.coerce(workspace, types::I32)
            }
            S::DynamicSmemSize => self.field(types::I32, offset::DYNAMIC_SHARED),
            S::TotalSmemSize | S::AggrSmemSize => self.field(types::I32, offset::TOTAL_SHARED),
            // Without clusters, each block is a cluster.
            S::ClusteridX => self.in_clusters(offset::BLOCK, 0),
            S::ClusteridY => self.in_clusters(offset::BLOCK, 1),
            S::ClusteridZ => self.in_clusters(offset::BLOCK, 2),
            S::NclusteridX => self.in_clusters(offset::GRID_DIM, 0),
            S::NclusteridY => self.in_clusters(offset::GRID_DIM, 1),
            S::NclusteridZ => self.in_clusters(offset::GRID_DIM, 2),
            S::ClusterNctaidX => self.field(types::I32, component(offset::CLUSTER_DIM, 0)),
            S::ClusterNctaidY => self.field(types::I32, component(offset::CLUSTER_DIM, 1)),
            S::ClusterNctaidZ => self.field(types::I32, component(offset::CLUSTER_DIM, 2)),
            S::ClusterNctarank => self.field(types::I32, offset::CLUSTER_BLOCKS),
            S::ClusterCtaidX => self.field(types::I32, component(offset::CLUSTER_BLOCK, 0)),
            S::ClusterCtaidY => self.field(types::I32, component(offset::CLUSTER_BLOCK, 1)),
            S::ClusterCtaidZ => self.field(types::I32, component(offset::CLUSTER_BLOCK, 2)),
            S::ClusterCtarank => self.field(types::I32, offset::CLUSTER_RANK),
            S::IsExplicitCluster => {
                let blocks = self.field(types::I32, offset::CLUSTER_BLOCKS);
                self.icmp_imm(IntCC::UnsignedGreaterThan, blocks, 1)
            }
            _ => {
                return Err(LoweringError::unsupported(
                    Span::default(),
                    format!("the special register {}", register.text()),
                ));
            }
        })
    }

    fn grid_workspace(&mut self) -> Value {
        let context = self.fixed.context;
        self.call(Helper::grid_workspace, &[context])
    }

    pub fn field(&mut self, ty: Type, at: i32) -> Value {
        let context = self.fixed.context;
        self.b.ins().load(ty, READONLY, context, at)
    }

    /// A number of blocks in clusters.
    fn in_clusters(&mut self, at: i32, axis: i32) -> Value {
        let blocks = self.field(types::I32, at + 4 * axis);
        let size = self.field(types::I32, offset::CLUSTER_DIM + 4 * axis);
        // No cluster is empty, but the division must never trap.
        let one = self.b.ins().iconst(types::I32, 1);
        let size = self.b.ins().umax(size, one);
        self.b.ins().udiv(blocks, size)
    }

    fn tid(&mut self, axis: usize) -> Value {
        match self.first_code {
            Some(_) => self.field(types::I32, offset::TID + 4 * axis as i32),
            None => self.b.use_var(self.thread.tid[axis]),
        }
    }

    fn lane_id(&mut self) -> Value {
        let thread = self.thread_index();
        let mask = self.int(types::I32, u64::from(WARP_SIZE) - 1);
        self.b.ins().band(thread, mask)
    }

    fn upper(&mut self, value: Value) -> Value {
        let shift = self.int(types::I32, 32);
        let upper = self.b.ins().ushr(value, shift);
        self.coerce(upper, types::I32)
    }

    /// Advances `%tid` by one thread.
    pub fn advance_tid(&mut self, used: [bool; 3]) {
        let Some(last) = used.iter().rposition(|&u| u) else {
            return;
        };
        let mut carry = None;
        for axis in 0..=last {
            let variable = self.thread.tid[axis];
            let at = self.b.use_var(variable);
            let next = match carry {
                None => self.add_offset(at, 1),
                Some(carry) => {
                    let carry = self.coerce(carry, types::I32);
                    self.b.ins().iadd(at, carry)
                }
            };
            let size = self.field(types::I32, offset::BLOCK_DIM + 4 * axis as i32);
            let wraps = self.b.ins().icmp(IntCC::Equal, next, size);
            let zero = self.int(types::I32, 0);
            let next = self.b.ins().select(wraps, zero, next);
            self.b.def_var(variable, next);
            carry = Some(wraps);
        }
    }

    /// Initializes `%tid` from the linear index of the first thread.
    pub fn first_tid(&mut self, used: [bool; 3], first: Value) {
        let Some(last) = used.iter().rposition(|&u| u) else {
            return;
        };
        let mut rest = first;
        for axis in 0..=last {
            let size = self.field(types::I32, offset::BLOCK_DIM + 4 * axis as i32);
            // No block is empty, but the division must never trap.
            let one = self.int(types::I32, 1);
            let size = self.b.ins().umax(size, one);
            let at = if axis == last {
                self.b.ins().urem(rest, size)
            } else {
                // One division instead of two.
                let rows = self.b.ins().udiv(rest, size);
                let start = self.b.ins().imul(rows, size);
                let at = self.b.ins().isub(rest, start);
                rest = rows;
                at
            };
            self.b.def_var(self.thread.tid[axis], at);
        }
    }
}
