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
//! .visible .entry twice(.param .u64 numbers, .param .u64 length) {
//!     .reg .b32 %r<3>; .reg .b64 %rd<5>; .reg .pred %p;
//!     mov.u32 %r1, %tid.x;
//!     cvt.u64.u32 %rd1, %r1;
//!     ld.param.u64 %rd2, [length];
//!     setp.ge.u64 %p, %rd1, %rd2;
//!     @%p ret;
//!     ld.param.u64 %rd3, [numbers];
//!     mad.lo.u64 %rd4, %rd1, 4, %rd3;
//!     ld.global.u32 %r2, [%rd4];
//!     add.u32 %r2, %r2, %r2;
//!     st.global.u32 [%rd4], %r2;
//!     ret;
//! }";
//! let context = Context::primary(&select(Selection::Cpu)?.device)?;
//! let kernel = Module::load(&context, ptx)?.kernel("twice")?;
//! // SAFETY: the kernel takes a slice, and accesses what is below its length.
//! let twice = unsafe { kernel.typed::<(&mut [u32],)>() }?;
//! let mut numbers = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3])?;
//! let stream = Stream::new(&context)?;
//! twice.launch(LaunchConfig::for_elements(3, 32), &stream, (&mut numbers,))?;
//! stream.synchronize()?;
//! assert_eq!(numbers.to_vec()?, [2, 4, 6]);
//! # }
//! # Ok::<(), ptxkit::driver::Error>(())
//! ```

mod callback;
mod compiler_library;
mod device;
mod error;
#[cfg(unix)]
pub mod external;
mod graph;
mod launch;
pub(crate) mod log;
mod memory;
pub(crate) mod module;
pub mod nvptxcompiler;
pub mod opengl;
mod pod;
mod process;
mod stream;
mod tensor_map_error;
mod texture;

pub use ::api;
pub use api::{ArrayFormat, CudaError, DriverError, DriverKind, DriverMissing, EntryMissing};
pub use device::attribute::{
    AttributeValue, ComputeMode, DeviceAttribute, Kilohertz, NumaConfig, WritesOrdering,
};
pub use device::context::Context;
pub use device::context::current::Entered;
pub use device::context::green::{SmResource, SmSplit};
pub use device::context::settings::Profiling;
pub use device::driver::Driver;
pub use device::report::{Capability, DeviceReport, DriverReport, Missing, MissingEntry};
pub use device::select::{Selected, Selection, select};
pub use device::settings::{CacheConfig, ContextFlags, Limit, Scheduling, SharedBanks};
pub use device::{Device, DeviceLimits};
pub use error::{Error, JitError};
pub use graph::conditional::GraphCondition;
pub use graph::edge::EdgeKind;
pub use graph::exec::GraphExec;
pub use graph::memory::GraphMemory;
pub use graph::node_query::NodeParams;
pub use graph::{Graph, GraphNode, NodeKind};
pub use launch::argument::{Arg, Argument, Arguments};
pub use launch::config::{Dim, LaunchConfig};
pub use launch::occupancy::SuggestedBlock;
pub use launch::options::{ClusterScheduling, LaunchOptions};
pub use launch::params::ParamBuffer;
#[cfg(feature = "cache")]
pub(crate) use launch::typed::types_of;
pub use launch::typed::{
    ArgumentFor, ArgumentsFor, ByValue, Count, Parameter, Parameters, TypedKernel,
};
pub use log::{LogLine, LogSeverity};
pub use memory::batch::CopyBatch;
pub use memory::box_batch::BoxBatch;
pub use memory::buffer::{DeviceBuffer, DeviceMemory};
pub use memory::copy::{Linear, LinearMut, copy, copy_async};
pub use memory::growable::GrowableBuffer;
pub use memory::ipc::IpcBuffer;
pub use memory::location::{Access, Location};
pub use memory::managed::{Advice, Attach, ManagedBuffer};
pub use memory::managed_batch::ManagedBatch;
pub use memory::memory_op::{MemoryOp, WaitValue};
pub use memory::peer::{PeerAccess, PeerLink};
pub use memory::pinned::{HostFlags, PinnedBuffer, PinnedSlice, PinnedSliceMut, RegisterFlags};
pub use memory::pinned_part::{PinnedPart, PinnedPartMut};
pub use memory::pitched::PitchedBuffer;
pub use memory::pointer::{MemoryKind, PointerAttributes};
pub use memory::pool::{MemoryPool, PoolBytes, PoolReuse};
pub use memory::region::{Rows, RowsMut};
pub use memory::slice::{DeviceSlice, DeviceSliceMut};
pub use memory::tensor_map::element::{TensorElement, TensorValue};
pub use memory::tensor_map::layout::{
    Im2col, Im2colWide, L2Promotion, TensorInterleave, TensorSwizzle,
};
pub use memory::tensor_map::map::TensorMap;
pub use memory::tensor_map::view::TensorView;
pub use memory::virtual_memory::{AddressRange, Granularity, Mapping, PhysicalMemory};
pub use module::global::Global;
pub use module::kernel::{Kernel, KernelAttribute};
pub use module::layout::{KernelLayout, ParamLayout};
pub use module::library::Library;
pub use module::link::LinkInput;
pub use module::nvjitlink;
pub use module::{Loading, Module, Symbol, WeakModule};
pub use pod::Pod;
pub use pod::boolean::Bool;
#[cfg(feature = "cache")]
pub(crate) use pod::bytes_of;
pub use pod::device_pointer::DevicePointer;
#[doc(hidden)]
pub use pod::layout_check;
pub use pod::param::{DeviceField, DeviceParam, Fields};
pub use pod::texel::{F16, Texel};
pub use pod::vector::*;
pub use process::checkpoint::{CheckpointProcess, ProcessState};
pub use process::core_dump::{CoreDumpFlags, CoreDumps};
pub use process::driver_log::{DriverLog, LogListener, MessageLevel};
pub use process::notification::BudgetListener;
pub use stream::Stream;
pub use stream::attribute::{AccessPolicy, AccessProperty};
pub use stream::capture::{CaptureMode, CaptureStatus};
pub use stream::event::Event;
pub use stream::finished::Finished;
pub use tensor_map_error::TensorMapError;
pub use texture::array::Array;
pub use texture::mipmapped::MipmappedArray;
pub use texture::reference::{SurfaceReference, TextureReference};
pub use texture::resource::TextureResource;
pub use texture::shape::{ArrayDescriptor, ArrayFlags, ArrayShape};
pub use texture::sparse::SparseTiles;
pub use texture::surface::Surface;
pub use texture::{AddressMode, FilterMode, ResourceView, Texture, TextureDescriptor};
