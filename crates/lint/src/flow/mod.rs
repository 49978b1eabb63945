//! Data-flow analyses of a function: control flow, static single assignment,
//! affine values, provenance of addresses, divergence.
//!
//! Each analysis runs once for a function, and the rules share its result.
//! Registers, instructions, blocks and values are numbers, so that sets of them
//! are arrays.

mod accessed;
mod accesses;
mod affine;
mod alignment;
mod arithmetic;
mod assembly;
mod async_groups;
mod barriers;
mod bounds;
mod by_mnemonic;
mod carrier;
mod conditions;
mod conflicts;
pub(super) mod context;
mod dependences;
mod divergence;
mod early_accesses;
mod effect;
mod evaluate;
mod executors;
mod fences;
mod first_pass;
mod graph;
mod grid_accesses;
mod grid_races;
mod handovers;
mod instructions;
mod intervals;
mod joins;
mod lanes;
mod launch;
mod locks;
mod member_masks;
pub mod memory;
mod mentions;
mod numbers;
mod operands;
mod origin;
mod overlaps;
mod parting;
mod placement;
mod pressure;
mod races;
mod spans;
mod threads;
mod truth;
mod uninitialized;
mod users;
mod values;
mod warp;
mod witness;

pub use affine::{Linear, Term};
pub(super) use alignment::misaligned;
pub use analysis::control_flow::{Loop, LoopId, Loops};
pub(super) use async_groups::{AsyncEvent, is_waited_for};
pub(super) use barriers::{BarrierMistake, MistakeKind};
pub(super) use bounds::outside;
pub use carrier::Carrier;
pub(super) use conditions::coming;
pub(super) use context::callee;
pub use divergence::{Divergence, DivergentBranch, Variance};
pub(super) use early_accesses::{Hazard, early_accesses, is_small_copy};
pub use effect::{Effect, Terminator};
pub use executors::{Executors, is_of_block};
pub use fences::Scope;
pub use first_pass::{Arrival, FirstPass};
pub use graph::{BasicBlock, BlockId, Graph};
pub(super) use grid_races::grid_races;
pub(super) use handovers::{published_behind, waits_besides};
pub use instructions::{InstructionId, Instructions, RegisterOperand, Step};
pub(super) use launch::{Blocks, Races};
pub use locks::CriticalSection;
pub(super) use locks::{is_of_grid, word_of_grid};
pub(super) use member_masks::{MaskMistakeKind, mask_mistakes};
pub use origin::Origin;
pub(super) use overlaps::overlaps;
pub use parting::Parting;
pub(super) use placement::Placement;
pub use pressure::Pressure;
pub use ptx::resolution::{Reference, Register, VariableId};
pub use threads::{Block, ThreadSet};
pub use truth::Truth;
pub(super) use uninitialized::copied;
pub use uninitialized::{Uninitialized, UninitializedValues};
pub use users::Users;
pub(super) use users::is_observable;
pub use values::{Definition, ValueId, Values};
pub(super) use witness::WitnessPaths;

/// Maps of numbers and names. The hash of the standard library takes longer than most of
/// what is looked up here.
type HashMap<K, V> = std::collections::HashMap<K, V, ptx::Seed>;

/// A map with space for what most functions put there: to grow it step by step takes longer.
fn roomy_map<K, V>() -> HashMap<K, V> {
    HashMap::with_capacity_and_hasher(14, ptx::Seed::default())
}

/// The limit of steps for each instruction, in every analysis: the time must not be
/// superlinear in the size of the text.
const STEPS_FOR_EACH: usize = 200;
