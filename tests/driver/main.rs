//! The driver layer, seen from outside, on the device that `PTXKIT_DEVICE`
//! names (`cpu` where it names none): the same tests for both drivers.
//!
//! `unsafe` blocks without a comment launch kernels of these tests, which access
//! what each test passes them and no more; where one does more on purpose, the
//! device finds out. Binaries among the inputs are the tests' own, or refused.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "launches of kernels that are declared beside them"
)]
#![cfg(feature = "driver")]

mod answers;
mod array;
mod batch;
mod context;
mod device;
mod documentation;
mod examples;
mod external;
mod faults;
mod finished;
mod graph;
mod graph_change;
mod graph_conditional;
mod graph_memory;
mod green;
mod header;
mod host;
mod host_copy;
mod ipc;
mod jit;
mod kernels;
mod launch;
mod managed;
mod memory;
mod missing;
mod module;
mod occupancy;
mod older;
mod opengl;
mod options;
mod order;
mod peer;
mod pointer;
mod pool;
mod process;
mod reference;
mod region;
mod runtime;
mod slice;
mod sparse;
mod stream;
mod support;
mod surface;
mod tensor_map;
mod texture;
mod texture_array;
mod threads;
mod two_devices;
mod two_drivers;
mod typed;
mod virtual_memory;
