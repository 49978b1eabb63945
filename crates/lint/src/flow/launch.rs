//! The shapes that the block of a kernel may be launched with, and the races that it
//! has then.

use super::evaluate::Evaluator;
use super::intervals::Orders;
use super::lanes::Shape;
use super::loops::Loops;
use super::races::{Race, Search, accesses};
use crate::FunctionContext;
use ptx::ast::{FunctionKind, Operand, Space};
use ptx::names::SpecialRegister;

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 600;
const STEPS: u64 = 4_000_000;

/// Races, and the shape of a block that has them where another may have none.
#[derive(Debug, Default)]
pub struct Races {
    /// `None` if every shape has them.
    pub shape: Option<Shape>,
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
        let flow = function.flow()?;
        let of_space = accesses(function, flow, space);
        if of_space.is_empty() {
            return None;
        }
        let loops = Loops::new(&flow.graph)?;
        let orders = Orders::new(function, flow, &loops);
        let block = Block::of(function);
        // Threads that wait for those of their warp alone may be one warp.
        if orders.of_warps_alone() && !matches!(block, Block::Known(_)) {
            return None;
        }
        // What lies in shared memory says how many threads there are.
        let shared = match space {
            Space::Shared => of_space.clone(),
            _ => accesses(function, flow, Space::Shared),
        };
        let count = flow.instructions.steps.len() as u64;
        let budget = count * STEPS_FOR_EACH + STEPS;
        let evaluator = |shape| Evaluator::new(function, flow, &loops, shape, budget);
        let launch = Launch {
            races: &|shape| Search::new(&orders, &of_space, evaluator(shape)).races(),
            is_plausible: &|shape| Search::new(&orders, &shared, evaluator(shape)).is_plausible(),
        };
        Some(match block {
            Block::Known(shape) => Races {
                shape: Some(shape),
                races: (launch.races)(shape),
            },
            Block::Line => launch.of_line(),
            Block::Plane(most) => launch.of_plane(most),
        })
    }
}

/// What a kernel says of the shape of its block.
enum Block {
    Known(Shape),
    /// One dimension.
    Line,
    /// Two or three dimensions, and how many threads at most.
    Plane(u32),
}

impl Block {
    fn of(function: &FunctionContext<'_, '_>) -> Block {
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
        let flat = |register: &SpecialRegister| {
            !matches!(register, SpecialRegister::TidY | SpecialRegister::TidZ)
        };
        let is_line = function.body.operands.iter().all(|operand| match operand {
            Operand::Special(register, _) => flat(register),
            _ => true,
        });
        match (most, is_line) {
            (Some(shape), true) => Block::Known(Shape([shape.threads(), 1, 1])),
            (Some(shape), false) if shape.0[1] > 1 || shape.0[2] > 1 => Block::Known(shape),
            (most, false) => Block::Plane(most.map_or(1024, Shape::threads)),
            (None, true) => Block::Line,
        }
    }
}

/// What a launch with a block of a given shape has.
struct Launch<'l> {
    races: &'l dyn Fn(Shape) -> Vec<Race>,
    is_plausible: &'l dyn Fn(Shape) -> bool,
}

impl Launch<'_> {
    /// The races of blocks of one dimension.
    fn of_line(&self) -> Races {
        let line = |threads| Shape([threads, 1, 1]);
        let plausible = |threads| (self.is_plausible)(line(threads));
        let mut races = (self.races)(line(256));
        if plausible(512) {
            // Memory does not say how many threads there are: each number has to have
            // them.
            for threads in [128, 512, 1024] {
                if races.is_empty() || threads == 1024 && !plausible(1024) {
                    break;
                }
                let other = (self.races)(line(threads));
                races.retain(|race| other.iter().any(|other| other.second == race.second));
            }
            return Races { shape: None, races };
        }
        let limited = [256, 128, 64];
        let Some(threads) = limited.into_iter().find(|threads| plausible(*threads)) else {
            return Races::default();
        };
        if threads != 256 {
            races = (self.races)(line(threads));
        }
        Races {
            shape: Some(line(threads)),
            races,
        }
    }

    /// The races that blocks of two or three dimensions have whatever their shape.
    fn of_plane(&self, most: u32) -> Races {
        let shapes = [
            [16, 16, 1],
            [32, 8, 1],
            [32, 32, 1],
            [8, 8, 1],
            [64, 4, 1],
            [32, 4, 1],
            [8, 8, 8],
            [4, 4, 4],
        ];
        let mut all: Option<Vec<Race>> = None;
        for shape in shapes.map(Shape) {
            if shape.threads() > most || !(self.is_plausible)(shape) {
                continue;
            }
            let mut races = (self.races)(shape);
            if let Some(all) = all {
                races.retain(|race| all.iter().any(|known| known.second == race.second));
            }
            if races.is_empty() {
                return Races::default();
            }
            all = Some(races);
        }
        Races {
            shape: None,
            races: all.unwrap_or_default(),
        }
    }
}
