//! The driver layer, seen from outside, on the device that `PTXKIT_DEVICE`
//! names (`cpu` where it names none): the same tests for both drivers.
#![cfg(feature = "driver")]

mod array;
mod batch;
mod context;
mod device;
mod documentation;
mod examples;
mod faults;
mod graph;
mod graph_change;
mod graph_memory;
mod host;
mod ipc;
mod jit;
mod kernels;
mod launch;
mod managed;
mod memory;
mod missing;
mod module;
mod older;
mod opengl;
mod options;
mod peer;
mod pointer;
mod pool;
mod reference;
mod region;
mod runtime;
mod stream;
mod support;
mod surface;
mod texture;
mod texture_array;
mod threads;
mod two_drivers;
mod virtual_memory;
