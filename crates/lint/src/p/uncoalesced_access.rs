//! `ld.global.f32 a, [p + 128 * %tid.x]`

use std::collections::BTreeMap;

use super::warp_addresses::WarpAddresses;
use crate::flow::{BlockId, Linear, Origin, Term};
use crate::memory::{Access, AccessKind};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;

pub static RULE: Rule = Rule {
    code: Code::new('P', 102),
    name: "uncoalesced-access",
    summary: "Neighbouring threads access global memory with gaps in between.",
    why: "Global memory is read and written in sectors of 32 bytes. Where the 32 threads of a warp \
          access neighbouring elements, a request takes as many sectors as it has bytes for; \
          where each is a stride away from the next, most of what is moved is not used, and up \
          to 32 sectors are moved for one element each.",
    instead: "Let `%tid.x` count neighbouring elements: a structure of arrays in place of an array \
              of structures, rows in place of columns, or a tile that is turned around in shared \
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

/// Bytes that move at once.
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
                function.origins().map(|all| all.of_operand(
                    &flow.instructions,
                    &flow.values,
                    access.address
                )),
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
    // What one access leaves of a sector, another of the same block may take.
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
                    "neighbouring threads are {} bytes apart: a warp {does} {} bytes in {sectors} \
                     sectors, and {least} would hold them",
                    stride.unsigned_abs(),
                    bytes as usize * strided.lanes.offsets.len(),
                ),
            )
            .help(format!(
                "with a stride of {bytes} bytes, the accesses of a warp become one of {least} sectors",
            ));
    }
}

/// How many sectors a warp accesses, and how many are enough for as many bytes.
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
