//! Memory of devices and hosts.

pub(crate) mod allocation;
pub(crate) mod batch;
pub(crate) mod buffer;
pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod growable;
pub(crate) mod host;
pub(crate) mod ipc;
pub(crate) mod length;
pub(crate) mod location;
pub(crate) mod managed;
pub(crate) mod memory_op;
pub(crate) mod order;
pub(crate) mod peer;
pub(crate) mod pinned;
pub(crate) mod pinned_part;
pub(crate) mod pitched;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod region;
pub(crate) mod slice;
pub(crate) mod tensor_map;
pub(crate) mod uses;
pub(crate) mod virtual_memory;
