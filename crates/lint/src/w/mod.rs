//! Wrong, or nearly so.

pub mod barrier_beyond_launch_bounds;
pub mod bit_field_beyond_width;
pub mod bulk_copy_without_wait;
pub mod copy_without_wait;
pub mod divergent_barrier;
pub mod divergent_warp_operation;
pub mod endless_loop;
pub mod global_race;
pub mod invariant_loop;
pub mod misaligned_offset;
pub mod misaligned_stride;
pub mod missing_return;
pub mod out_of_bounds;
pub mod return_value_not_set;
pub mod shared_race;
pub mod shift_beyond_width;
pub mod truncated_immediate;
pub mod unconverted_parameter;
pub mod uninitialised_mbarrier;
pub mod uninitialised_register;
pub mod unreachable_code;
pub mod unused_result;
pub mod weak_alignment;
pub mod wgmma_without_wait;
pub mod wrong_address_space;
