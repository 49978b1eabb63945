//! The CPU device beneath the safe layer: its entries as a C program meets them.
#![cfg(feature = "cpu")]

#[macro_use]
mod entry;

mod before_init;
mod context;
mod kernels;
mod launch;
mod lazy;
mod memory;
mod module;
mod stream;
mod unwritten;
