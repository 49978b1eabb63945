//! Which lane each lane of a warp reads in a shuffle.

use crate::abi::SyncKind;

/// The lane from which `lane` takes its value, and whether it is in range: otherwise the lane
/// keeps its own. `b` and `c` are the operands of these names.
pub(crate) fn source(kind: SyncKind, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let b = b & 31;
    let segment = c >> 8 & 31;
    let clamp = c & 31;
    let most = (lane & segment) | (clamp & !segment);
    let least = lane & segment;
    match kind {
        // For `.up` the clamp is the lowest lane, so that `most` is the lower bound.
        SyncKind::ShflUp => (
            lane.wrapping_sub(b),
            lane.cast_signed() - b.cast_signed() >= most.cast_signed(),
        ),
        SyncKind::ShflDown => (lane + b, lane + b <= most),
        SyncKind::ShflBfly => (lane ^ b, lane ^ b <= most),
        _ => {
            let source = least | (b & !segment);
            (source, source <= most)
        }
    }
}
