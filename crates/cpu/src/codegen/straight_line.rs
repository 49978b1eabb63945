//! Steps that a lane group executes in a straight line, vector by vector: what the first lanes
//! compute is used before the next ones are loaded, so that fewer values are live.
//!
//! Loads of what lies side by side, such as four halves of each lane, are checked together and
//! loaded once. If one may be out of bounds, the group goes on elsewhere, as if it had executed
//! none of the steps.

use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Type, Value, types};

use super::emitter::{Emitter, LITTLE_ENDIAN};
use super::lane_set::{LaneSet, vectors};
use super::memory::{Space, space_of};
use super::steps::emit_step;
use super::strided_load::is_plain;
use super::vectorize::{Lowering, lowering};
use crate::memory::GRANULE;
use crate::program::{Arg, Base, Instruction, LoweringError, Reg, RegClass, Step, Uniformity};
use ptx::isa::Effect;
use ptx::names::{Opcode as O, Type as P};

/// Steps that are not emitted yet.
pub(super) struct StraightLine<'s> {
    steps: Vec<&'s Step>,
    /// Where the group goes on if an access may be out of bounds. `None` once a step has an effect
    /// that others can see.
    elsewhere: Option<Block>,
}

impl<'s> StraightLine<'s> {
    pub fn new(elsewhere: Block) -> StraightLine<'s> {
        StraightLine {
            steps: Vec::new(),
            elsewhere: Some(elsewhere),
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
                if !run.windows.is_empty() {
                    left = &left[run.steps.len()..];
                    run.emit(e, elsewhere, errors);
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

fn has_effect(step: &Step) -> bool {
    match step {
        Step::Instruction(i) => !matches!(
            i.meaning.effect,
            Effect::Pure | Effect::Load | Effect::Fetch
        ),
        Step::SystemCall { .. } => true,
    }
}

/// How a step of a run is emitted.
#[derive(Clone, Copy)]
enum Kind {
    /// Once.
    Scalar,
    /// For each vector.
    Lanes,
    /// A load from this window, at an offset from its start.
    Load {
        window: usize,
        to: Reg,
        at: u32,
        bytes: u32,
    },
}

/// What each lane loads from at a register.
struct Window {
    base: Reg,
    stride: u32,
    /// From the register.
    start: i64,
    end: i64,
    /// The size of each value.
    bytes: u32,
    /// The register still has the same value.
    is_open: bool,
}

/// Steps that can be executed vector by vector.
struct Run<'r> {
    steps: Vec<(&'r Instruction, Kind)>,
    windows: Vec<Window>,
}

impl<'r> Run<'r> {
    /// The longest run that these steps start with.
    fn of(e: &Emitter<'_, '_>, steps: &[&'r Step]) -> Run<'r> {
        let mut run = Run {
            steps: Vec::new(),
            windows: Vec::new(),
        };
        // The registers that the lanes read.
        let mut read: Vec<Reg> = Vec::new();
        for step in steps {
            let Step::Instruction(i) = step else { break };
            let Some(kind) = run.kind(e, step, i) else {
                break;
            };
            let mut written = Vec::new();
            match kind {
                Kind::Scalar => {
                    e.program
                        .effects(i, &mut |_| {}, &mut |reg| written.push(reg));
                    // The lanes of the next vectors would read what was written later.
                    if written.iter().any(|reg| read.contains(reg)) {
                        break;
                    }
                    for window in &mut run.windows {
                        window.is_open &= !written.contains(&window.base);
                    }
                }
                Kind::Lanes => e.program.effects(i, &mut |reg| read.push(reg), &mut |_| {}),
                Kind::Load { .. } => {}
            }
            run.steps.push((i, kind));
        }
        for (_, kind) in &mut run.steps {
            if let Kind::Load { window, at, .. } = kind {
                *at -= run.windows[*window].start as u32;
            }
        }
        run
    }

    fn kind(&mut self, e: &Emitter<'_, '_>, step: &Step, i: &Instruction) -> Option<Kind> {
        let locations = &e.locations;
        let uniformity_of = |reg: Reg| locations[reg.index()].uniformity;
        let lowering = lowering(e.program, &uniformity_of, step, e.has_fma);
        match lowering {
            Lowering::Uniform if !has_effect(step) => Some(Kind::Scalar),
            Lowering::Widened if i.opcode != O::Ex2 && is_narrow(e, i) => Some(Kind::Lanes),
            Lowering::Contiguous | Lowering::Scalarized if i.opcode == O::Ld => self.load(e, i),
            _ => None,
        }
    }

    /// A load of single values that lanes have at one distance from each other.
    fn load(&mut self, e: &Emitter<'_, '_>, i: &Instruction) -> Option<Kind> {
        let &[to, Arg::Address(Base::Reg(base), offset)] = e.program.list(i.args) else {
            return None;
        };
        let to = match to {
            Arg::Reg(to) => to,
            Arg::List(list) => match *e.program.list(list) {
                [Arg::Reg(to)] => to,
                _ => return None,
            },
            _ => return None,
        };
        let ty = i.modifiers.types().next()?;
        let class = e.program.registers[to.index()];
        let has_its_width = match class {
            // Its lanes have zeros above.
            RegClass::I16 => matches!(ty, P::U16 | P::B16 | P::S16),
            RegClass::I32 => matches!(ty, P::U32 | P::B32 | P::S32),
            RegClass::F32 => matches!(ty, P::F32 | P::B32),
            _ => false,
        };
        let Uniformity::Affine(stride) = e.locations[base.index()].uniformity else {
            return None;
        };
        let stride = u32::try_from(stride).ok()?;
        let bytes = ty.bytes() as u32;
        let is_global =
            space_of(i) == Space::Generic && e.program.registers[base.index()] == RegClass::I64;
        if !is_global
            || !is_plain(e, i)
            || !has_its_width
            || !matches!(stride, 2 | 4 | 8)
            || bytes > stride
            || e.width / 4 * stride < 16
            || offset.checked_rem(bytes.into()) != Some(0)
            || e.is_in_bounds(i)
        {
            return None;
        }
        // Where the window starts is subtracted when it is known.
        let load = |window| Kind::Load {
            window,
            to,
            at: offset as u32,
            bytes,
        };
        for (number, window) in self.windows.iter_mut().enumerate() {
            let (start, end) = (
                window.start.min(offset),
                window.end.max(offset + i64::from(bytes)),
            );
            if window.is_open
                && window.base == base
                && window.bytes == bytes
                && end - start <= stride.into()
            {
                (window.start, window.end) = (start, end);
                return Some(load(number));
            }
        }
        self.windows.push(Window {
            base,
            stride,
            start: offset,
            end: offset + i64::from(bytes),
            bytes,
            is_open: true,
        });
        Some(load(self.windows.len() - 1))
    }

    fn emit(&self, e: &mut Emitter<'_, '_>, elsewhere: Block, errors: &mut Vec<LoweringError>) {
        let mut loaded: Vec<Loaded> = Vec::new();
        for lane in vectors(e.width, RegClass::I32) {
            let LaneSet::Vector(number) = lane else { break };
            for &(i, kind) in &self.steps {
                e.splats.clear();
                e.line = i.line;
                match kind {
                    Kind::Scalar if number > 0 => {}
                    Kind::Scalar => emit_step(e, &Step::Instruction(*i), errors),
                    Kind::Lanes => {
                        e.lane_set = lane;
                        errors.extend(e.instruction(i).err());
                    }
                    Kind::Load {
                        window,
                        to,
                        at,
                        bytes,
                    } => {
                        e.lane_set = LaneSet::Scalar;
                        e.set_guard(None);
                        if window == loaded.len() {
                            loaded.push(Loaded::new(e, &self.windows[window], elsewhere));
                        }
                        let value = loaded[window].value(e, number, at, bytes);
                        e.lane_set = lane;
                        e.set_register(to, value);
                    }
                }
            }
        }
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
    }
}

/// Whether its registers have lanes of 32 bits.
fn is_narrow(e: &Emitter<'_, '_>, i: &Instruction) -> bool {
    let mut is_narrow = true;
    let mut look = |reg: Reg| is_narrow &= e.program.registers[reg.index()].bytes() <= 4;
    e.program.effects(i, &mut look, &mut |_| {});
    e.program.effects(i, &mut |_| {}, &mut look);
    is_narrow
}

/// A window whose accesses were checked.
struct Loaded {
    /// The host address of the first lane's window.
    address: Value,
    stride: u32,
    /// The bytes of a lane that are before its window: nothing behind the last one is loaded.
    unused: u32,
    /// The vectors that were loaded, by their number.
    vectors: Vec<Value>,
}

impl Loaded {
    fn new(e: &mut Emitter<'_, '_>, window: &Window, elsewhere: Block) -> Loaded {
        let bytes = window.end - window.start;
        let base = e.register(window.base);
        let address = e.add_offset(base, window.start);
        let length = i64::from(window.stride) * i64::from(e.width - 1) + bytes;
        debug_assert!(length <= GRANULE.cast_signed());
        let (ok, back) = (e.b.create_block(), e.back_to(elsewhere));
        let shift = window.bytes.trailing_zeros();
        e.check_span(address, shift, length >> shift, ok, back);
        e.enter(ok);
        Loaded {
            address,
            stride: window.stride,
            unused: window.stride - bytes as u32,
            vectors: Vec::new(),
        }
    }

    /// The vector with this number, of values at some bytes from the start of the window, in lanes
    /// of 32 bits.
    fn value(&mut self, e: &mut Emitter<'_, '_>, number: u32, at: u32, bytes: u32) -> Value {
        let flags = LITTLE_ENDIAN.with_notrap();
        if self.stride == 2 {
            let at = 8 * number.cast_signed();
            return e.b.ins().uload16x4(flags, self.address, at);
        }
        // In the lanes of the loaded vectors.
        let at = self.unused + at;
        let word = match self.stride {
            4 => self.vector(e, number, types::I32X4, flags),
            _ => {
                let [first, second] =
                    [0, 1].map(|n| self.vector(e, 2 * number + n, types::I64X2, flags));
                let words = [0, 8, 16, 24].map(|lane| lane + (at / 4 * 4) as u8);
                let order = words.into_iter().flat_map(|word| word..word + 4);
                e.bytes_of(first, second, order.collect())
            }
        };
        match (bytes, at % 4) {
            (2, 0) => {
                e.lane_set = LaneSet::Vector(number);
                let mask = e.int(types::I32, 0xFFFF);
                e.b.ins().band(word, mask)
            }
            (2, _) => {
                let shift = e.scalar_int(types::I32, 16);
                e.b.ins().ushr(word, shift)
            }
            _ => word,
        }
    }

    fn vector(
        &mut self,
        e: &mut Emitter<'_, '_>,
        number: u32,
        ty: Type,
        flags: MemFlagsData,
    ) -> Value {
        while self.vectors.len() <= number as usize {
            let n = self.vectors.len() as i32;
            let vector = match n {
                // Nothing before the first window is loaded.
                0 if self.unused > 0 => {
                    let vector = e.b.ins().load(ty, flags, self.address, 0);
                    let shift = e.scalar_int(types::I32, (8 * self.unused).into());
                    e.b.ins().ishl(vector, shift)
                }
                _ => {
                    e.b.ins()
                        .load(ty, flags, self.address, 16 * n - self.unused.cast_signed())
                }
            };
            self.vectors.push(vector);
        }
        self.vectors[number as usize]
    }
}
