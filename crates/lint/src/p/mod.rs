//! Performance rules, which are opt-in. Each explains the behaviour of the hardware; numbers of
//! instructions are those of ptxas 13.5 for sm_90.

pub mod bank_conflict;
pub mod contended_atomic;
pub mod divergent_constant;
pub mod division_by_constant;
pub mod division_by_power_of_two;
pub mod double_precision;
pub mod exact_division;
pub mod float_division;
pub mod generic_address;
mod integer_division;
pub mod invariant_load;
mod launch_bounds;
pub mod local_memory;
pub mod low_occupancy;
pub mod mixed_flushing;
pub mod multiply_24;
pub mod no_launch_bounds;
pub mod partial_warp;
pub mod reciprocal_root;
pub mod redundant_fence;
pub mod repeated_barrier;
pub mod scalar_accesses;
pub mod shuffled_reduction;
pub mod single_warp_barrier;
pub mod software_atomic;
pub mod staged_copy;
pub mod uncoalesced_access;
pub mod unfused_product;
pub mod unreachable_min_blocks;
mod warp_addresses;
