//! The shapes that the block of a kernel may be launched with, and the races that it
//! has then.

use std::cell::OnceCell;

use super::accessed::AccessedIntervals;
use super::accesses::{SharedAccess, accesses, retain_meeting};
use super::context::FunctionContext;
use super::evaluate::Evaluator;
use super::intervals::Orders;
use super::lanes::Shape;
use super::races::{Race, Search};
use ptx::ast::{FunctionKind, Space};
use ptx::names::SpecialRegister;

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 60;
const STEPS: u64 = 200_000;

/// The blocks of which a kernel has its races.
#[derive(Clone, Copy, Debug, Default)]
pub enum Blocks {
    /// All that it may be launched with.
    #[default]
    All,
    /// All of more than one warp.
    OfWarps,
    /// Those of this shape; others may have none.
    Of(Shape),
}

/// Races, and the blocks that have them.
#[derive(Debug, Default)]
pub struct Races {
    /// Where they are.
    pub blocks: Blocks,
    /// At most one of each base address in a barrier interval.
    pub races: Vec<Race>,
}

impl Races {
    /// Those of a kernel in one state space.
    pub fn of(function: &FunctionContext<'_, '_>, space: Space) -> Races {
        Races::found(function, space).unwrap_or_default()
    }

    fn found(function: &FunctionContext<'_, '_>, space: Space) -> Option<Races> {
        if function.function.kind != FunctionKind::Entry {
            return None;
        }
        let block = Block::of(function);
        // A plane is mostly made for one shape, which shared memory alone gives away.
        if space != Space::Shared && matches!(block, Block::Plane(_)) {
            return None;
        }
        let flow = function.flow()?;
        let of_space = match space {
            Space::Global => {
                let mut global = function.global_accesses().to_vec();
                retain_meeting(function, &mut global);
                global
            }
            _ => accesses(function, flow, space),
        };
        if !of_space.iter().any(SharedAccess::writes) {
            return None;
        }
        let loops = function.loops()?;
        let orders = Orders::of_function(function)?;
        // Threads that wait for those of their warp alone may be one warp.
        if orders.of_warps_alone() && !matches!(block, Block::Known(_)) {
            return None;
        }
        // What lies in shared memory says how many threads there are.
        let shared = OnceCell::new();
        let shared = || match space {
            Space::Shared => &of_space,
            _ => shared.get_or_init(|| accesses(function, flow, Space::Shared)),
        };
        let count = flow.instructions.steps.len() as u64;
        let budget = count * STEPS_FOR_EACH + STEPS;
        let evaluator = |shape: Shape| {
            // A large block is looked at where a usual one has a race: that is seldom.
            let budget = match block {
                Block::Line => budget * u64::from(shape.threads().div_ceil(USUAL)),
                Block::Known(_) | Block::Plane(_) => budget,
            };
            Evaluator::new(function, flow, loops, shape, budget)
        };
        let is_line = matches!(block, Block::Line);
        let intervals = AccessedIntervals::new(&orders, &of_space);
        let launch = Launch {
            races: &|shape| Search::new(&orders, &of_space, evaluator(shape)).races(&intervals),
            is_plausible: &|shape| {
                Search::new(&orders, shared(), evaluator(shape)).is_plausible(is_line)
            },
            is_plane: !function.names_special(|register| register == SpecialRegister::TidZ),
            is_any: function.names_special(|register| register == SpecialRegister::NtidX),
            has_barrier: orders.starts().nth(1).is_some(),
            is_small: count <= SMALL,
        };
        Some(match block {
            Block::Known(shape) => Races {
                blocks: Blocks::Of(shape),
                races: (launch.races)(shape),
            },
            Block::Line => launch.of_line(),
            Block::Plane(most) => launch.of_plane(most),
        })
    }
}

/// The threads of a usual block of one dimension.
const USUAL: u32 = 256;

/// So many instructions a short kernel has.
const SMALL: u64 = 1_000;

/// What a kernel says of the shape of its block.
pub(super) enum Block {
    Known(Shape),
    /// One dimension.
    Line,
    /// Two or three dimensions, and how many threads at most.
    Plane(u32),
}

impl Block {
    pub(super) fn of(function: &FunctionContext<'_, '_>) -> Block {
        let side = |values: &[u32], at: usize| values.get(at).copied().unwrap_or(1).max(1);
        let directive = |name: &str| {
            let found = function.function.directives.iter().find(|d| d.name == name);
            found.map(|d| Shape([side(&d.values, 0), side(&d.values, 1), side(&d.values, 2)]))
        };
        let fits = |shape: &Shape| shape.threads() <= 1024;
        if let Some(shape) = directive("reqntid").filter(fits) {
            return Block::Known(shape);
        }
        let most = directive("maxntid").filter(fits);
        let is_line = !function.names_special(|register| {
            matches!(register, SpecialRegister::TidY | SpecialRegister::TidZ)
        });
        match (most, is_line) {
            (Some(shape), true) => Block::Known(Shape([shape.threads(), 1, 1])),
            (Some(shape), false) if shape.0[1] > 1 || shape.0[2] > 1 => Block::Known(shape),
            (most, false) => Block::Plane(most.map_or(1024, Shape::threads)),
            (None, true) => Block::Line,
        }
    }

    /// One that it may well have.
    pub(super) fn usual(&self) -> Shape {
        match self {
            Block::Known(shape) => *shape,
            Block::Line => Shape([128, 1, 1]),
            Block::Plane(_) => Shape([16, 16, 1]),
        }
    }
}

/// What a launch with a block of a given shape has.
struct Launch<'l> {
    races: &'l dyn Fn(Shape) -> Vec<Race>,
    is_plausible: &'l dyn Fn(Shape) -> bool,
    /// The kernel does not use `%tid.z`.
    is_plane: bool,
    /// The kernel asks how many threads there are: it is made for any number.
    is_any: bool,
    /// Its threads wait for each other: mostly, a warp alone need not.
    has_barrier: bool,
    /// The kernel is short.
    is_small: bool,
}

impl Launch<'_> {
    /// The races of blocks of one dimension.
    fn of_line(&self) -> Races {
        let line = |threads| Shape([threads, 1, 1]);
        let plausible = |threads| (self.is_plausible)(line(threads));
        let mut races = (self.races)(line(USUAL));
        if races.is_empty() {
            return self.of_large(line);
        }
        if plausible(512) {
            // Memory does not say how many threads there are: each number has to have
            // them, and there may be no more than one warp.
            let of_warps = !self.is_any && !races.iter().any(|race| race.of_any_block);
            if of_warps && !self.has_barrier {
                races.clear();
            }
            races.retain(|race| self.is_any || of_warps || race.of_any_block);
            for threads in [128, 512, 1024] {
                if races.is_empty() || threads == 1024 && !plausible(1024) {
                    break;
                }
                let other = (self.races)(line(threads));
                races.retain(|race| other.iter().any(|other| other.second == race.second));
            }
            return if races.is_empty() {
                self.of_large(line)
            } else {
                Races {
                    blocks: if of_warps {
                        Blocks::OfWarps
                    } else {
                        Blocks::All
                    },
                    races,
                }
            };
        }
        let limited = [256, 128, 64];
        let Some(threads) = limited.into_iter().find(|threads| plausible(*threads)) else {
            return Races::default();
        };
        if threads != USUAL {
            races = (self.races)(line(threads));
        }
        Races {
            blocks: Blocks::Of(line(threads)),
            races,
        }
    }

    /// Those of a block of 512 or 1024 threads, where shared memory is made for that.
    fn of_large(&self, line: impl Fn(u32) -> Shape) -> Races {
        let threads = match () {
            () if !self.is_small || !(self.is_plausible)(line(512)) => None,
            () if !(self.is_plausible)(line(1024)) => Some(512),
            () if !(self.is_plausible)(line(2048)) => Some(1024),
            () => None,
        };
        threads.map_or(Races::default(), |threads| Races {
            blocks: Blocks::Of(line(threads)),
            races: (self.races)(line(threads)),
        })
    }

    /// The races that blocks of several dimensions have whatever their shape.
    fn of_plane(&self, most: u32) -> Races {
        let sides = |least: u32, most: u32| {
            std::iter::successors(Some(least), |side| Some(side * 2))
                .take_while(move |side| *side <= most)
        };
        let planes = sides(4, 1024).flat_map(|x| sides(1, 128).map(move |y| [x, y, 1]));
        let boxes = sides(4, 32).map(|side| [side, 4, 4]);
        let mut shapes: Vec<Shape> = planes.map(Shape).collect();
        if !self.is_plane {
            shapes.extend(boxes.map(Shape));
        }
        shapes.retain(|shape| (64..=most).contains(&shape.threads()));
        // A usual one first: most have no race there, and are done.
        shapes.sort_by_key(|shape| shape.0[0].abs_diff(16) + shape.0[1].abs_diff(16));
        let mut all: Option<Vec<Race>> = None;
        for shape in shapes {
            let mut races = (self.races)(shape);
            if races.is_empty() {
                return Races::default();
            }
            if !(self.is_plausible)(shape) {
                continue;
            }
            if let Some(all) = all {
                races.retain(|race| all.iter().any(|known| known.second == race.second));
            }
            all = Some(races);
        }
        Races {
            blocks: Blocks::All,
            races: all.unwrap_or_default(),
        }
    }
}
