//! Steps that a lane group executes in a straight line, vector by vector: what the first lanes
//! compute is used before the next ones are loaded, so that fewer values are live.
//!
//! Loads of what lies side by side, such as four halves of each lane, are checked together and
//! loaded once. If one may be out of bounds, the group goes on elsewhere, as if it had executed
//! none of the steps.

use cranelift_codegen::ir::Block;

use super::emitter::Emitter;
use super::lane_set::{LaneSet, vectors};
use super::steps::emit_step;
use super::vectorize::{Lowering, has_effect, is_narrow, lowering};
use super::window::{CheckedWindow, Window};
use crate::program::{Arg, Instruction, LoweringError, Reg, RegClass, Step};
use ptx::names::{Opcode as O, Type as P};

/// Steps that are not emitted yet.
pub(super) struct StraightLine<'s> {
    steps: Vec<&'s Step>,
    /// Where the group goes on if an access may be out of bounds. `None` once a step has an effect
    /// that others can see.
    elsewhere: Option<Block>,
    /// No step has one.
    is_unwritten: bool,
}

impl<'s> StraightLine<'s> {
    /// `is_unwritten` says that nothing is written as long as what the steps compute is used.
    pub fn new(elsewhere: Block, is_unwritten: bool) -> StraightLine<'s> {
        StraightLine {
            steps: Vec::new(),
            elsewhere: Some(elsewhere),
            is_unwritten,
        }
    }

    pub fn push(&mut self, step: &'s Step) {
        self.steps.push(step);
    }

    /// Emits the steps.
    pub fn flush(&mut self, e: &mut Emitter<'_, '_>, errors: &mut Vec<LoweringError>) {
        let steps = std::mem::take(&mut self.steps);
        let mut left = steps.as_slice();
        while let [first, rest @ ..] = left {
            if let Some(elsewhere) = self.elsewhere {
                let run = Run::of(e, left);
                if !run.windows.is_empty() || run.has_calls() {
                    left = &left[run.steps.len()..];
                    run.emit(e, (elsewhere, self.is_unwritten), errors);
                    continue;
                }
            }
            if has_effect(first) {
                self.elsewhere = None;
            }
            emit_step(e, first, errors);
            left = rest;
        }
    }
}

/// How a step of a run is emitted.
#[derive(Clone, Copy)]
enum Kind {
    /// Once.
    Scalar,
    /// For each vector.
    Lanes,
    /// A load to a register from a part of the window with this number.
    Load(usize, Window, Reg),
    /// A conversion to a float of a half that is in the window with this number.
    Half(usize),
}

/// Steps that can be executed vector by vector.
struct Run<'r> {
    steps: Vec<(&'r Instruction, Kind)>,
    windows: Vec<Window>,
    /// Which of the windows have no infinite half or NaN.
    finite: Vec<usize>,
}

impl<'r> Run<'r> {
    /// The longest run that these steps start with.
    fn of(e: &Emitter<'_, '_>, steps: &[&'r Step]) -> Run<'r> {
        let mut run = Run {
            steps: Vec::new(),
            windows: Vec::new(),
            finite: Vec::new(),
        };
        // The windows whose registers still have the same value.
        let mut open: Vec<usize> = Vec::new();
        // The registers that the lanes read.
        let mut read: Vec<Reg> = Vec::new();
        // The registers with what was loaded.
        let mut loaded: Vec<(Reg, usize)> = Vec::new();
        for step in steps {
            let Step::Instruction(i) = step else { break };
            let Some(kind) = run.kind(e, step, i, &mut open) else {
                break;
            };
            match kind {
                Kind::Scalar => {
                    let mut written = Vec::new();
                    e.program
                        .effects(i, &mut |_| {}, &mut |reg| written.push(reg));
                    // The lanes of the next vectors would read what was written later.
                    if written.iter().any(|reg| read.contains(reg)) {
                        break;
                    }
                    open.retain(|&number| !written.contains(&run.windows[number].base));
                }
                Kind::Lanes | Kind::Half(_) => {
                    e.program.effects(i, &mut |reg| read.push(reg), &mut |_| {});
                }
                Kind::Load(..) => {}
            }
            let from = half(e, i);
            let mut known = loaded.iter().filter(|(reg, _)| Some(*reg) == from);
            let kind = match (kind, known.next()) {
                (Kind::Lanes, Some((_, number))) => Kind::Half(*number),
                _ => kind,
            };
            e.program.effects(i, &mut |_| {}, &mut |reg| {
                loaded.retain(|(known, _)| *known != reg);
            });
            if let Kind::Load(number, _, to) = kind {
                loaded.push((to, number));
            }
            run.steps.push((i, kind));
        }
        for (_, kind) in &mut run.steps {
            if let Kind::Half(number) = *kind {
                match run.windows[number].is_full() {
                    true => run.finite.push(number),
                    false => *kind = Kind::Lanes,
                }
            }
        }
        run
    }

    /// Whether there are conversions that are calls: these keep their order, and what they need is
    /// computed before each.
    fn has_calls(&self) -> bool {
        let steps = self.steps.iter();
        let calls = steps.filter(|(i, kind)| matches!(kind, Kind::Lanes) && is_to_half(i));
        calls.count() > 1
    }

    fn kind(
        &mut self,
        e: &Emitter<'_, '_>,
        step: &Step,
        i: &Instruction,
        open: &mut Vec<usize>,
    ) -> Option<Kind> {
        let locations = &e.locations;
        let uniformity_of = |reg: Reg| locations[reg.index()].uniformity;
        match lowering(e.program, &uniformity_of, step, e.has_fma) {
            Lowering::Uniform if !has_effect(step) => Some(Kind::Scalar),
            Lowering::Widened if i.opcode != O::Ex2 && is_narrow(e.program, i) => Some(Kind::Lanes),
            Lowering::Contiguous | Lowering::Scalarized if i.opcode == O::Ld => {
                let (window, to) = Window::of(e, i)?;
                for &number in open.iter() {
                    if let Some(both) = self.windows[number].with(&window) {
                        self.windows[number] = both;
                        return Some(Kind::Load(number, window, to));
                    }
                }
                open.push(self.windows.len());
                self.windows.push(window);
                Some(Kind::Load(self.windows.len() - 1, window, to))
            }
            _ => None,
        }
    }

    fn emit(
        &self,
        e: &mut Emitter<'_, '_>,
        (elsewhere, is_unwritten): (Block, bool),
        errors: &mut Vec<LoweringError>,
    ) {
        let mut checked: Vec<CheckedWindow> = Vec::new();
        for lane in vectors(e.width, RegClass::I32) {
            let LaneSet::Vector(number) = lane else { break };
            for (i, kind) in &self.steps {
                e.splats.clear();
                e.line = i.line;
                match kind {
                    Kind::Scalar if number > 0 => {}
                    Kind::Scalar => emit_step(e, &Step::Instruction(**i), errors),
                    Kind::Lanes => {
                        e.lane_set = lane;
                        errors.extend(e.instruction(i).err());
                    }
                    Kind::Half(_) => {
                        e.lane_set = lane;
                        errors.extend(e.finite_half(i).err());
                    }
                    Kind::Load(window, load, to) => {
                        if *window == checked.len() {
                            let back = e.back_to(elsewhere);
                            let here = self.windows[*window].checked(e, back, is_unwritten);
                            if self.finite.contains(window) {
                                let back = e.back_to(elsewhere);
                                here.require_finite(e, back);
                            }
                            checked.push(here);
                        }
                        // That of the step before is one of other lanes.
                        e.set_guard(None);
                        let value = checked[*window].value(e, number, load);
                        e.set_register(*to, value);
                    }
                }
            }
        }
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
    }
}

fn is_to_half(i: &Instruction) -> bool {
    i.opcode == O::Cvt && i.modifiers.types().next() == Some(P::F16)
}

/// The register that an instruction converts from a half to a float, if it is such a one.
fn half(e: &Emitter<'_, '_>, i: &Instruction) -> Option<Reg> {
    let mut types = i.modifiers.types();
    let is_half =
        i.opcode == O::Cvt && types.next() == Some(P::F32) && types.next() == Some(P::F16);
    match *e.program.list(i.args) {
        [Arg::Reg(_), Arg::Reg(from)] if is_half => Some(from),
        _ => None,
    }
}
