//! What a kernel says of the blocks that it is launched with.

use ptx::ast::{Function, FunctionKind, Span};

/// `.reqntid` or `.maxntid`, and what else bears on how many blocks are resident.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchBounds {
    /// Threads of a block, at most.
    pub threads: Option<u32>,
    /// Where that is said, or the name of the kernel.
    pub span: Span,
    /// `.minnctapersm`
    pub blocks: Option<(u32, Span)>,
    /// `.maxnreg`
    pub registers: Option<u32>,
}

impl LaunchBounds {
    /// Those of a kernel; `None` for a function.
    pub fn of(function: &Function<'_>, source: &str) -> Option<LaunchBounds> {
        if function.kind != FunctionKind::Entry {
            return None;
        }
        let find = |name: &str| function.directives.iter().find(|d| d.name == name);
        let product = |values: &[u32]| values.iter().fold(1_u32, |all, n| all.saturating_mul(*n));
        let threads = find("reqntid").or_else(|| find("maxntid"));
        let blocks = find("minnctapersm");
        Some(LaunchBounds {
            threads: threads.map(|known| product(&known.values)),
            span: threads.map_or_else(|| function.name.span(source), |known| known.span),
            blocks: blocks.and_then(|known| Some((*known.values.first()?, known.span))),
            registers: find("maxnreg").and_then(|known| known.values.first().copied()),
        })
    }
}
