//! What a function does, as far as its text shows: which way it goes, where
//! each register gets its value, what that value is, and whether all threads
//! have the same.
//!
//! Everything is found once a function and shared by the rules. Registers,
//! instructions, blocks and values are numbers, so that sets of them are arrays.

mod affine;
mod code;
mod consequence;
mod divergence;
mod effect;
mod graph;
mod names;
mod origin;
mod pending;
mod shown;
mod unset;
mod values;

pub use affine::{Affine, Linear, Term};
pub(super) use code::Surroundings;
pub use code::{Code, InstructionId, Slot, Step};
pub use consequence::Readers;
pub(super) use consequence::is_noticed;
pub use divergence::{Divergence, Fork, Variance};
pub use effect::{Effect, Ends};
pub use graph::{Block, BlockId, Graph};
pub use names::{Reference, Register, VariableId};
pub use origin::{Origin, Origins};
pub(super) use pending::{Event, is_waited_for};
pub(super) use shown::Ways;
pub(super) use unset::copied;
pub use unset::{Unset, UnsetValues};
pub use values::{Definition, ValueId, Values};

/// No graph, order or set of values is worth more steps than this for each
/// instruction: a text may not choose how long a look at it takes.
const STEPS_FOR_EACH: usize = 200;
