//! What is begun and has to be waited for.

use super::InstructionId;
use super::graph::{BlockId, Graph};

/// What an instruction is to work that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing.
    None,
    /// Puts all that was begun into a group.
    Commit,
    /// Waits for groups.
    WaitForGroups,
    /// Waits for all, or hands the waiting to someone else.
    WaitForAll,
}

/// Whether some way from `start` on waits for what is begun there.
pub(crate) fn is_waited_for(
    graph: &Graph,
    start: InstructionId,
    event: impl Fn(InstructionId) -> Event,
) -> bool {
    // By whether it is in a group.
    let mut seen = vec![[false; 2]; graph.blocks.len()];
    let home = graph.block_of(start);
    let mut open = Vec::new();
    let walk = |block: BlockId, from: u32, mut grouped: bool, open: &mut Vec<_>| {
        for id in from..graph.blocks[block.index()].end {
            match event(InstructionId(id)) {
                Event::WaitForAll => return true,
                Event::WaitForGroups if grouped => return true,
                Event::Commit => grouped = true,
                Event::None | Event::WaitForGroups => {}
            }
        }
        open.extend(graph.successors(block).map(|next| (next, grouped)));
        false
    };
    if walk(home, start.0 + 1, false, &mut open) {
        return true;
    }
    while let Some((block, grouped)) = open.pop() {
        let first = &mut seen[block.index()][usize::from(grouped)];
        if std::mem::replace(first, true) {
            continue;
        }
        if walk(block, graph.blocks[block.index()].start, grouped, &mut open) {
            return true;
        }
    }
    false
}
