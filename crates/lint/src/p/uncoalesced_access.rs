//! `ld.global.f32 a, [p + 128 * %tid.x]`

use std::collections::BTreeMap;

use super::warp_addresses::WarpAddresses;
use crate::flow::memory::{Access, AccessKind};
use crate::flow::{BlockId, Linear, Origin, Term};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;

pub static RULE: Rule = Rule {
    code: Code::new('P', 102),
    name: "uncoalesced-access",
    summary: "The threads of a warp access global memory with a stride.",
    why: "Global memory is accessed in sectors of 32 bytes. If the 32 threads of a warp access \
          adjacent elements, a request takes as few sectors as possible. With a stride most of \
          the transferred bytes are unused, up to one sector for each element.",
    instead: "Let `%tid.x` index adjacent elements: a structure of arrays instead of an array of \
              structures, rows instead of columns, or a tile that is transposed in shared \
              memory.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 i;
	.reg .b64 p, o;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 128;
	add.u64 p, p, o;
	st.global.u32 [p], i;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 i;
	.reg .b64 p, o;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	add.u64 p, p, o;
	st.global.u32 [p], i;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The size of a memory transaction in bytes.
const SECTOR: i64 = 32;

struct Strided {
    access: Access,
    lanes: WarpAddresses,
    linear: Linear,
    block: BlockId,
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    let mut all = Vec::new();
    for (id, _, instruction) in function.steps() {
        let Some(access) = Access::of(function, instruction) else {
            continue;
        };
        let is_global = match access.space {
            Some(space) => space == Space::Global,
            None => matches!(
                function.origin(access.address),
                Some(Origin::Parameter(_) | Origin::Generic(Space::Global, _))
            ),
        };
        if !is_global {
            continue;
        }
        if let (Some(lanes), Some(linear)) = (
            WarpAddresses::of(function, access.address),
            function.linear(access.address),
        ) {
            all.push(Strided {
                access,
                lanes,
                linear,
                block: flow.graph.block_of(id),
            });
        }
    }
    // Other accesses of the same block may use the rest of a sector.
    let mut taken: BTreeMap<(u32, Vec<(Term, i64)>), u64> = BTreeMap::new();
    let key = |strided: &Strided| {
        let mut terms = strided.linear.terms().to_vec();
        terms.sort_unstable();
        (strided.block.0, terms)
    };
    for strided in &all {
        *taken.entry(key(strided)).or_default() += strided.access.bytes;
    }
    for strided in &all {
        let Access {
            kind, bytes, span, ..
        } = strided.access;
        let stride = strided.lanes.stride;
        let together = taken.get(&key(strided)).copied().unwrap_or(bytes);
        if stride == 0 || together.saturating_mul(2) > stride.unsigned_abs() {
            continue;
        }
        let (sectors, least) = sectors(&strided.lanes, bytes);
        if sectors < 2 * least {
            continue;
        }
        let does = match kind {
            AccessKind::Load => "reads",
            AccessKind::Store => "writes",
            AccessKind::Atomic => "changes",
        };
        findings
            .add(
                span,
                format!(
                    "the stride between threads is {} bytes: a warp {does} {} bytes in {sectors} \
                     sectors instead of {least}",
                    stride.unsigned_abs(),
                    bytes as usize * strided.lanes.offsets.len(),
                ),
            )
            .help(format!(
                "with a stride of {bytes} bytes, a warp accesses {least} sectors",
            ));
    }
}

/// The number of sectors that a warp accesses, and the minimum for that number of bytes.
fn sectors(lanes: &WarpAddresses, bytes: u64) -> (usize, usize) {
    let bytes = bytes as i64;
    let mut touched: Vec<i64> = lanes
        .offsets
        .iter()
        .flat_map(|offset| {
            let (first, last) = (
                offset.div_euclid(SECTOR),
                (offset + bytes - 1).div_euclid(SECTOR),
            );
            first..=last
        })
        .collect();
    touched.sort_unstable();
    touched.dedup();
    let least = (lanes.addresses() * bytes as usize).div_ceil(SECTOR as usize);
    (touched.len(), least.max(1))
}
