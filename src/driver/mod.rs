//! The driver API, safe, on two drivers.
//!
//! [`api`] is the table of entry points; everything else is written once
//! against it. Handles are owned and shared by cheap clones: what lives in a
//! context keeps the context, a kernel keeps its module. [`select`] finds a
//! device, and then:
//!
//! ```
//! # #[cfg(feature = "cpu")] {
//! use ptxkit::driver::{select, Context, DeviceBuffer, LaunchConfig, Module, Selection, Stream};
//!
//! let ptx = b".version 8.0 .target sm_80 .address_size 64
//! .visible .entry twice(.param .u64 numbers) {
//!     .reg .b32 %r<3>; .reg .b64 %rd<4>;
//!     ld.param.u64 %rd1, [numbers];
//!     mov.u32 %r1, %tid.x;
//!     mul.wide.u32 %rd2, %r1, 4;
//!     add.s64 %rd3, %rd1, %rd2;
//!     ld.global.u32 %r2, [%rd3];
//!     add.u32 %r2, %r2, %r2;
//!     st.global.u32 [%rd3], %r2;
//!     ret;
//! }";
//! let context = Context::primary(&select(Selection::Cpu)?.device)?;
//! let kernel = Module::load(&context, ptx)?.kernel("twice")?;
//! let numbers = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3])?;
//! let stream = Stream::new(&context)?;
//! kernel.launch(LaunchConfig::new([1, 1, 1], [3, 1, 1]), &stream, (&numbers,))?;
//! stream.synchronize()?;
//! assert_eq!(numbers.to_vec()?, [2, 4, 6]);
//! # }
//! # Ok::<(), ptxkit::driver::Error>(())
//! ```

mod allocation;
pub mod api;
mod argument;
mod array;
mod attribute;
mod batch;
pub(crate) mod build;
mod capture;
mod code;
mod context;
mod context_settings;
mod describe;
mod descriptor;
mod device;
mod element;
mod entries;
mod error;
mod event;
mod extent;
mod gate;
mod global;
mod graph;
mod graph_exec;
mod graph_memory;
mod graph_node;
mod growable;
mod ipc;
mod keep;
mod kernel;
mod launch;
mod launch_config;
mod layout;
mod length;
mod library;
pub(crate) mod link;
mod location;
pub(crate) mod log;
mod managed;
mod memory;
mod mipmapped;
mod module;
pub mod nvjitlink;
mod occupancy;
mod open;
pub mod opengl;
mod options;
mod param;
mod params;
mod peer;
mod pinned;
mod pitched;
mod plain;
mod pointer;
mod pool;
mod reference;
mod region;
mod resource;
mod select;
mod shape;
mod stream;
mod stream_attribute;
mod surface;
mod texel;
mod texture;
mod transfer;
mod unified;
mod value;
mod vector;
mod virtual_memory;

pub use api::DriverKind;
pub use argument::{Arg, Argument, Arguments};
pub use array::Array;
pub use attribute::{Attribute, AttributeValue, Kilohertz, NumaConfig, WritesOrdering};
pub use batch::CopyBatch;
pub use capture::{CaptureMode, CaptureStatus};
pub use code::CudaError;
pub use context::{Context, Entered, Profiling};
pub use context_settings::{CacheConfig, ContextFlags, Limit, Scheduling, SharedBanks};
pub use device::{ComputeMode, Device, DeviceLimits};
pub use error::{DriverError, DriverMissing, Error, JitError};
pub use event::Event;
pub use global::Global;
pub use graph::{Graph, GraphNode, NodeKind};
pub use graph_exec::GraphExec;
pub use graph_memory::GraphMemory;
pub use growable::GrowableBuffer;
pub use ipc::IpcBuffer;
pub use kernel::{Kernel, KernelAttribute};
pub use launch_config::{Dim, LaunchConfig};
pub use layout::{KernelLayout, ParamLayout};
pub use library::Library;
pub use link::LinkInput;
pub use location::{Access, Location};
pub use log::{LogLine, LogSeverity};
pub use managed::{Advice, Attach, ManagedBuffer};
pub use memory::{DeviceBuffer, DeviceMemory, DeviceSlice};
pub use mipmapped::MipmappedArray;
pub use module::{Loading, Module, Symbol, WeakModule};
pub use occupancy::SuggestedBlock;
pub use open::Driver;
pub use options::{ClusterScheduling, LaunchOptions};
pub use param::{DeviceField, DeviceParam};
#[doc(hidden)]
pub use param::{padding_count, padding_of};
pub use params::ParamBuffer;
pub use peer::{PeerAccess, PeerLink};
pub use pinned::{HostFlags, PinnedBuffer, RegisterFlags};
pub use pitched::PitchedBuffer;
pub use plain::Plain;
pub use pointer::{MemoryKind, PointerAttributes};
pub use pool::{MemoryPool, PoolBytes, PoolReuse};
pub use reference::{SurfaceReference, TextureReference};
pub use region::{Rows, RowsMut};
pub use resource::TextureResource;
pub use select::{Selected, Selection, select};
pub use shape::{ArrayDescriptor, ArrayFlags, ArrayShape};
pub use stream::Stream;
pub use stream_attribute::{AccessPolicy, AccessProperty};
pub use surface::Surface;
pub use texel::{ArrayFormat, F16, Texel};
pub use texture::{AddressMode, FilterMode, ResourceView, Texture, TextureDescriptor};
pub use unified::{Linear, copy, copy_async};
pub use value::{MemoryOp, WaitValue};
pub use vector::*;
pub use virtual_memory::{AddressRange, Granularity, Mapping, PhysicalMemory};
