//! The objects of the driver API and what they do: contexts, streams, events, modules,
//! memory, graphs. The C entries are above, in `entries`.
//!
//! Objects are behind `handle`s that are looked up and never followed, so a wrong or
//! freed handle is an error. Work goes through the `queue` of its stream. After a kernel's
//! fault its `context` fails every call, and its device takes no new contexts, as on a GPU.
//!
//! Imports between the files form no cycle: `status`, `handle`, `queue` and `device` are
//! below `context`, then come `stream`, the objects of a context, `graph`, and last
//! `teardown`, which ends a context with all that lives in it.

pub(crate) mod array;
pub(crate) mod capture;
pub(crate) mod condition;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod core_dump;
pub(crate) mod device;
pub(crate) mod event;
mod exported;
pub(crate) mod fatbin;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod graph_exec;
pub(crate) mod graph_memory;
pub(crate) mod green;
pub(crate) mod handle;
pub(crate) mod host_function;
pub(crate) mod image;
pub(crate) mod ipc;
pub(crate) mod kernel_settings;
pub(crate) mod launch;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod node;
pub(crate) mod options;
pub(crate) mod peer;
pub(crate) mod pointer;
pub(crate) mod pool;
pub(crate) mod primary;
pub(crate) mod queue;
pub(crate) mod reference;
pub(crate) mod region;
mod shared_event;
pub(crate) mod status;
pub(crate) mod stream;
pub(crate) mod teardown;
pub(crate) mod texture;
pub(crate) mod user_object;
pub(crate) mod user_pointer;
pub(crate) mod value;
pub(crate) mod virtual_memory;
