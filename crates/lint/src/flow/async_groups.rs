//! Asynchronous operations that must be waited for, alone or in groups.

use super::InstructionId;
use super::graph::{BlockId, Graph};

/// What an instruction does to pending asynchronous operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// Nothing.
    None,
    /// Commits all pending operations to a group.
    Commit,
    /// Waits for groups.
    WaitForGroups,
    /// Waits for all of them, or delegates the wait.
    WaitForAll,
}

/// Whether some path from `start` waits for the operation that starts there. `events` has the
/// instructions that do something to such operations, in source order.
pub(crate) fn is_waited_for(
    graph: &Graph,
    start: InstructionId,
    events: &[(InstructionId, AsyncEvent)],
) -> bool {
    // Indexed by whether the operation is in a group.
    let mut visited = vec![[false; 2]; graph.blocks.len()];
    let home = graph.block_of(start);
    let mut open = Vec::new();
    let walk = |block: BlockId, from: u32, mut grouped: bool, open: &mut Vec<_>| {
        let end = graph.blocks[block.index()].end;
        let first = events.partition_point(|(id, _)| id.0 < from);
        for (_, event) in events[first..].iter().take_while(|(id, _)| id.0 < end) {
            match event {
                AsyncEvent::WaitForAll => return true,
                AsyncEvent::WaitForGroups if grouped => return true,
                AsyncEvent::Commit => grouped = true,
                AsyncEvent::None | AsyncEvent::WaitForGroups => {}
            }
        }
        open.extend(graph.successors(block).map(|next| (next, grouped)));
        false
    };
    if walk(home, start.0 + 1, false, &mut open) {
        return true;
    }
    while let Some((block, grouped)) = open.pop() {
        let first = &mut visited[block.index()][usize::from(grouped)];
        if std::mem::replace(first, true) {
            continue;
        }
        if walk(block, graph.blocks[block.index()].start, grouped, &mut open) {
            return true;
        }
    }
    false
}
