//! The launch bounds of a kernel.

use ptx::ast::{Function, FunctionKind, Span};

/// `.reqntid` or `.maxntid`, and the other directives that affect occupancy.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchBounds {
    /// The maximum number of threads of a block.
    pub threads: Option<u32>,
    /// The span of that directive, or of the name of the kernel.
    pub span: Span,
    /// `.minnctapersm`
    pub blocks: Option<(u32, Span)>,
    /// `.maxnreg`
    pub registers: Option<u32>,
}

impl LaunchBounds {
    /// The launch bounds of a kernel; `None` for a function.
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
