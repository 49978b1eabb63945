//! Loop interchange: the lane groups of a block run a loop that goes on by the size of the block
//! or of the grid step by step, each one iteration after the other group's.
//!
//! A group that ran such a loop to its end would access one short run in each iteration, a stride
//! from the one before. Prefetchers do not follow that, and strides of a power of two share few
//! sets of the caches. So the loop is strip-mined: after [`STEPS`] iterations the registers of a group
//! are saved, as at a sync point, and the next group goes on. The block runs its groups again and again
//! until none of them is in the loop. A group that leaves the loop sooner saves nothing.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::Variable;

use super::emitter::Emitter;
use super::resume::ResumePlan;
use super::slots::{reload, save};
use super::thread_state::{set_state, thread_state};
use crate::abi::{IN_LOOP, offset};
use crate::program::{BlockId, Reg};

/// The iterations of a turn: so many runs, a stride apart, are accessed side by side. Eight gain little
/// more, and where the stride is a power of two they fill a set of a cache of eight ways.
const STEPS: u32 = 4;

/// The code between the iterations of such loops.
pub(super) struct Interchange {
    edges: Vec<Edges>,
    /// Whether the groups are in loops: then each resumes there.
    in_loops: Variable,
    /// Whether one of them goes on in a loop.
    goes_on: Variable,
    /// Iterations until the next group goes on.
    left: Variable,
    /// Whether the group has not been saved since it entered the loop.
    is_first: Variable,
    /// The loop over the groups that are in loops.
    head: Block,
    /// Starts it.
    again: Block,
}

/// The blocks at the head of a loop.
struct Edges {
    /// A group comes from outside.
    entry: Block,
    /// It starts the next iteration.
    latch: Block,
    state: u32,
}

impl Interchange {
    /// At the start of the function.
    pub fn new(e: &mut Emitter<'_, '_>, plan: &ResumePlan) -> Option<Interchange> {
        if e.width == 1 || plan.interchanged.is_empty() {
            return None;
        }
        let edges = plan.interchanged.iter().map(|interchanged| {
            Some(Edges {
                entry: e.b.create_block(),
                latch: e.b.create_block(),
                state: plan.divergence_state(interchanged.head)?,
            })
        });
        let edges = edges.collect::<Option<Vec<_>>>()?;
        let [in_loops, goes_on, left, is_first] = [(); 4].map(|()| {
            let variable = e.b.declare_var(types::I32);
            let no = e.scalar_int(types::I32, 0);
            e.b.def_var(variable, no);
            variable
        });
        Some(Interchange {
            edges,
            in_loops,
            goes_on,
            left,
            is_first,
            head: e.b.create_block(),
            again: e.b.create_block(),
        })
    }

    /// Starts with all groups, at `head`, or goes on in the loop in which the block was left.
    pub fn start(&self, e: &mut Emitter<'_, '_>, head: Block) {
        let flags = MemFlagsData::trusted();
        let context = e.fixed.context;
        let in_loop = e.b.ins().load(types::I32, flags, context, offset::IN_LOOP);
        e.b.ins().brif(in_loop, self.again, &[], head, &[]);
    }

    /// Emits what a group does where it enters a loop, at `blocks`, or starts the next iteration.
    pub fn suspend(&self, e: &mut Emitter<'_, '_>, plan: &ResumePlan, blocks: &[Block]) {
        for (interchanged, edges) in plan.interchanged.iter().zip(&self.edges) {
            let live = &plan.resume_points[edges.state as usize - 1].reload;
            let is_written = |reg: &&Reg| interchanged.written.binary_search(*reg).is_ok();
            let written: Vec<Reg> = live.iter().filter(is_written).copied().collect();
            let head = blocks[interchanged.head.index()];
            let [again, turn, first, later] = [(); 4].map(|()| e.b.create_block());
            e.b.switch_to_block(edges.entry);
            self.start_turn(e, true);
            e.b.ins().jump(head, &[]);

            e.b.switch_to_block(edges.latch);
            let left = e.b.use_var(self.left);
            let left = e.add_offset(left, -1);
            e.b.def_var(self.left, left);
            e.b.ins().brif(left, again, &[], turn, &[]);
            e.b.switch_to_block(again);
            e.b.ins().jump(head, &[]);
            e.b.switch_to_block(turn);
            let is_first = e.b.use_var(self.is_first);
            e.b.ins().brif(is_first, first, &[], later, &[]);

            e.b.switch_to_block(first);
            save(e, plan, live);
            set_state(e, edges.state);
            self.go_on(e);
            e.b.switch_to_block(later);
            save(e, plan, &written);
            self.go_on(e);
        }
    }

    fn start_turn(&self, e: &mut Emitter<'_, '_>, is_first: bool) {
        for (variable, value) in [(self.left, STEPS), (self.is_first, is_first.into())] {
            let value = e.scalar_int(types::I32, value.into());
            e.b.def_var(variable, value);
        }
    }

    fn go_on(&self, e: &mut Emitter<'_, '_>) {
        let yes = e.scalar_int(types::I32, 1);
        e.b.def_var(self.goes_on, yes);
        let next = e.next_thread;
        e.b.ins().jump(next, &[]);
    }

    /// After a group: continues with the next one that is in a loop, if the groups are. Otherwise
    /// the code that follows runs.
    pub fn next_group(&self, e: &mut Emitter<'_, '_>, plan: &ResumePlan) {
        let (inside, outside) = (e.b.create_block(), e.b.create_block());
        let in_loops = e.b.use_var(self.in_loops);
        e.b.ins().brif(in_loops, inside, &[], outside, &[]);
        e.b.switch_to_block(inside);
        if plan.resumes_with_tid {
            e.advance_tid(plan.tid);
        }
        e.b.ins().jump(self.head, &[]);
        e.b.switch_to_block(outside);
    }

    /// After all groups from `first` to `last`: runs those that are in loops again, and continues
    /// where there are none.
    pub fn run_again(
        &self,
        e: &mut Emitter<'_, '_>,
        plan: &ResumePlan,
        (first, last): (Value, Value),
        blocks: &[Block],
    ) {
        let [step, done, end, leave] = [(); 4].map(|()| e.b.create_block());
        e.b.ins().jump(end, &[]);
        e.b.switch_to_block(end);
        let goes_on = e.b.use_var(self.goes_on);
        e.b.ins().brif(goes_on, step, &[], done, &[]);

        // Other blocks take their turn before the next step.
        e.b.switch_to_block(step);
        let flags = MemFlagsData::trusted();
        let context = e.fixed.context;
        let in_turn = e.b.ins().load(types::I32, flags, context, offset::IN_TURN);
        e.b.ins().brif(in_turn, leave, &[], self.again, &[]);
        e.b.switch_to_block(leave);
        let one = e.scalar_int(types::I32, 1);
        e.b.ins().store(flags, one, context, offset::IN_LOOP);
        let in_loop = e.scalar_int(types::I32, IN_LOOP.into());
        e.b.ins().return_(&[in_loop]);

        e.b.switch_to_block(self.again);
        let (no, yes) = (e.scalar_int(types::I32, 0), e.scalar_int(types::I32, 1));
        e.b.def_var(self.goes_on, no);
        e.b.def_var(self.in_loops, yes);
        e.b.def_var(e.thread.index, first);
        if plan.resumes_with_tid {
            e.first_tid(plan.tid, first);
        }
        e.b.ins().jump(self.head, &[]);

        e.b.switch_to_block(self.head);
        let thread = e.b.use_var(e.thread.index);
        let more = e.icmp(IntCC::UnsignedLessThan, thread, last);
        let body = e.b.create_block();
        e.b.ins().brif(more, body, &[], end, &[]);
        e.b.switch_to_block(body);
        let state = thread_state(e);
        for (interchanged, edges) in plan.interchanged.iter().zip(&self.edges) {
            let (here, elsewhere) = (e.b.create_block(), e.b.create_block());
            let is_here = e.icmp_imm(IntCC::Equal, state, edges.state.into());
            e.b.ins().brif(is_here, here, &[], elsewhere, &[]);
            e.b.switch_to_block(here);
            reload(
                e,
                plan,
                &plan.resume_points[edges.state as usize - 1].reload,
            );
            self.start_turn(e, false);
            e.b.ins().jump(blocks[interchanged.head.index()], &[]);
            e.b.switch_to_block(elsewhere);
        }
        let next = e.next_thread;
        e.b.ins().jump(next, &[]);
        e.b.switch_to_block(done);
        let zero = e.scalar_int(types::I32, 0);
        e.b.ins().store(flags, zero, context, offset::IN_LOOP);
    }
}

/// Which of Cranelift's blocks jumps go to: at the head of a loop, to where a group enters it or
/// starts the next iteration.
pub(super) struct JumpTargets {
    outside: Vec<Block>,
    /// From inside of each loop.
    inside: Vec<Vec<Block>>,
    /// By block: the loop that it is in.
    loops: Vec<Option<usize>>,
}

impl JumpTargets {
    pub fn new(
        plan: &ResumePlan,
        interchange: Option<&Interchange>,
        blocks: &[Block],
    ) -> JumpTargets {
        let mut targets = JumpTargets {
            outside: blocks.to_vec(),
            inside: Vec::new(),
            loops: vec![None; blocks.len()],
        };
        let Some(interchange) = interchange else {
            return targets;
        };
        let loops = || plan.interchanged.iter().zip(&interchange.edges);
        for (interchanged, edges) in loops() {
            targets.outside[interchanged.head.index()] = edges.entry;
        }
        for (number, (interchanged, edges)) in loops().enumerate() {
            let mut inside = targets.outside.clone();
            inside[interchanged.head.index()] = edges.latch;
            targets.inside.push(inside);
            for block in &interchanged.blocks {
                targets.loops[block.index()] = Some(number);
            }
        }
        targets
    }

    /// For a thread that starts or resumes.
    pub fn outside(&self) -> &[Block] {
        &self.outside
    }

    /// For jumps from a block of the kernel.
    pub fn from(&self, block: BlockId) -> &[Block] {
        match self.loops[block.index()] {
            Some(number) => &self.inside[number],
            None => &self.outside,
        }
    }
}
