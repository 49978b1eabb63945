//! The one table of driver entry points, and the two ways to fill it.
//!
//! An [`Api`] holds a function pointer for each row of `entries.rs`. NVIDIA's
//! comes from `libcuda.so.1` ([`Api::nvidia`]), the CPU device's from
//! `cpu::table`. Each entry is also a method: it calls through the pointer and
//! turns the plain integer that came back into a [`Result`].

#![allow(non_snake_case, unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

pub use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUDA_MEMCPY3D_PEER, CUDA_MEMSET_NODE_PARAMS_v1, CUarray, CUarrayMapInfo, CUcontext, CUdevice,
    CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUgraphicsResource,
    CUhostFn, CUipcEventHandle, CUipcMemHandle, CUkernel, CUlaunchConfig, CUlibrary, CUlinkState,
    CUmemPoolPtrExportData, CUmemoryPool, CUmipmappedArray, CUmodule, CUoccupancyB2DSize, CUstream,
    CUsurfObject, CUsurfref, CUtexObject, CUtexref, CUuuid,
};

mod code;
mod descriptor;
mod entries;
mod error;
mod external;
mod format;
pub mod identity;
mod resource;
mod unwind;

pub use code::CudaError;
pub use descriptor::{
    Array3dDesc, ArrayDesc, ArrayRequirements, BoxCopy, CopyOperand, ResourceDesc,
    ResourceViewDesc, SparseProperties, TextureDesc,
};
pub use error::{DriverError, DriverMissing, EntryMissing, Error, cuda_version};
pub use external::{
    CUexternalMemory, CUexternalSemaphore, ExternalArrayDesc, ExternalBufferDesc,
    ExternalMemoryDesc, ExternalSemaphoreDesc, ExternalSemaphoreParams,
};
pub use format::ArrayFormat;
pub use resource::{
    AsyncCallback, AsyncNotification, CUdevResourceDesc, CheckpointLock, DeviceResource,
    LogsCallback, MulticastProp,
};
#[doc(hidden)]
pub use unwind::contain_panic;

/// `CUgraphExecUpdateResultInfo` with the reason as a plain integer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphUpdateResult {
    /// `CU_GRAPH_EXEC_UPDATE_*`, 0 where the update was made.
    pub result: c_uint,
    /// The node that differs, or null.
    pub error_node: CUgraphNode,
    /// What depends on it otherwise than before, or null.
    pub error_from_node: CUgraphNode,
}

/// `CUexecAffinityParam` with its kind as a plain integer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExecAffinity {
    /// `CU_EXEC_AFFINITY_TYPE_SM_COUNT` is 0.
    pub kind: c_uint,
    /// Multiprocessors.
    pub count: c_uint,
}

/// `CUctxCreateParams` with what it points to as addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ContextParams {
    /// How many multiprocessors; null for all.
    pub affinities: *mut ExecAffinity,
    /// How many affinities.
    pub num_affinities: c_int,
    /// `CUctxCigParam`: a graphics client to share with, or null.
    pub graphics: *mut c_void,
}

/// `CUgraphEdgeData`: all zeros for an edge that one node's end opens.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeData {
    /// Which part of the first node opens it: 0 is its end.
    pub from_port: u8,
    /// Which part of the second one waits: 0 is all of it.
    pub to_port: u8,
    /// `CU_GRAPH_DEPENDENCY_TYPE_*`: 0 is a full dependency.
    pub kind: u8,
    /// Zeros.
    pub reserved: [u8; 5],
}

// Bindings of CUDA before 12.5 have neither of the two, nor green contexts.
const _: () = assert!(size_of::<EdgeData>() == 8 && size_of::<ContextParams>() == 24);

/// The handle of a green context.
pub type CUgreenCtx = *mut c_void;

/// `CUstreamBatchMemOpParams` as the numbers that it is made of.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryOperation {
    /// `CU_STREAM_MEM_OP_*`
    pub operation: c_uint,
    /// The flags of a barrier.
    pub barrier: c_uint,
    /// Where a value is written or waited for.
    pub address: CUdeviceptr,
    /// The value, 32 bits in the lower half.
    pub value: u64,
    /// As those of `cuStreamWriteValue32` and `cuStreamWaitValue32`.
    pub flags: c_uint,
    pad: c_uint,
    /// Of the driver's own.
    alias: CUdeviceptr,
    end: u64,
}

const _: () = assert!(
    size_of::<MemoryOperation>() == size_of::<cudarc::driver::sys::CUstreamBatchMemOpParams>()
);
const _: () =
    assert!(size_of::<ExecAffinity>() == size_of::<cudarc::driver::sys::CUexecAffinityParam>());

/// `CUlaunchAttributeValue`, which streams have too, as the words that it is
/// made of.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeBits(pub [u32; 16]);

const _: () =
    assert!(size_of::<AttributeBits>() == size_of::<cudarc::driver::sys::CUlaunchAttributeValue>());

/// `CUtensorMap`: what copies of boxes know of a tensor. Its driver alone knows the meaning of
/// the words.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorMap(pub [u64; 16]);

const _: () = assert!(size_of::<TensorMap>() == size_of::<cudarc::driver::sys::CUtensorMap>());

/// `CUmemLocation` with the kind as a plain integer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemLocation {
    /// `CU_MEM_LOCATION_TYPE_*`: 1 a device, 2 the host.
    pub kind: c_uint,
    /// The device's number.
    pub id: c_int,
}

/// `CUmemAccessDesc`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemAccessDesc {
    /// Who.
    pub location: MemLocation,
    /// `CU_MEM_ACCESS_FLAGS_PROT_*`: 0 none, 1 read, 3 read and write.
    pub flags: c_uint,
}

/// `CUmemPoolProps`, likewise; fields that a driver is too old for must be 0 for it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemPoolProps {
    /// `CU_MEM_ALLOCATION_TYPE_*`: 1 is pinned.
    pub alloc_type: c_uint,
    /// `CU_MEM_HANDLE_TYPE_*`: 0 none, 1 a file descriptor.
    pub handle_types: c_uint,
    /// Where its memory is.
    pub location: MemLocation,
    /// On Windows, for handles.
    pub win32_security: *mut c_void,
    /// The most bytes it takes, 0 for as many as there are (from CUDA 12.2).
    pub max_size: usize,
    /// `CU_MEM_POOL_CREATE_USAGE_*` (from CUDA 12.8).
    pub usage: u16,
    /// 0.
    pub reserved: [u8; 54],
}

/// `CUmemcpyAttributes`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyAttributes {
    /// `CU_MEMCPY_SRC_ACCESS_ORDER_*`: 1 is the stream's.
    pub source_order: c_uint,
    /// Where managed memory that is read is.
    pub source: MemLocation,
    /// Where managed memory that is written is.
    pub target: MemLocation,
    /// `CU_MEMCPY_FLAG_*`
    pub flags: c_uint,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAllocNodeParams {
    /// Where the memory is; no handles.
    pub pool: MemPoolProps,
    /// Which other devices reach it.
    pub access: *const MemAccessDesc,
    /// How many they are.
    pub access_count: usize,
    /// Its size.
    pub bytes: usize,
    /// Its address, which the driver gives.
    pub address: CUdeviceptr,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstantiateParams {
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_*`
    pub flags: u64,
    /// Where the graph is uploaded, if a flag asks for that.
    pub upload_stream: CUstream,
    /// The node that is refused, or null; the driver gives it.
    pub error_node: CUgraphNode,
    /// `CUDA_GRAPH_INSTANTIATE_*`: 0 for success; the driver gives it.
    pub result: c_uint,
}

/// `CUgraphNodeParams` with its kind and its union as numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphNodeParams {
    /// `CU_GRAPH_NODE_TYPE_*`
    pub kind: c_uint,
    /// Zeros.
    pub reserved0: [c_int; 3],
    /// The parameters of that kind.
    pub of_kind: [u64; 29],
    /// 0.
    pub reserved2: i64,
}

/// `CUDA_CONDITIONAL_NODE_PARAMS`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConditionalParams {
    /// Of `cuGraphConditionalHandleCreate`.
    pub handle: u64,
    /// `CU_GRAPH_COND_TYPE_*`: 0 if, 1 while, 2 switch.
    pub kind: c_uint,
    /// How many graphs it has.
    pub size: c_uint,
    /// These graphs, which the driver gives.
    pub graphs: *mut CUgraph,
    /// Their context, or null.
    pub context: CUcontext,
}

/// The handle of a user object.
pub type CUuserObject = *mut c_void;

/// `CUmemAllocationProp`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAllocationProp {
    /// `CU_MEM_ALLOCATION_TYPE_*`: 1 is pinned.
    pub alloc_type: c_uint,
    /// `CU_MEM_HANDLE_TYPE_*`: 0 none, 1 a file descriptor.
    pub handle_types: c_uint,
    /// Where the memory is.
    pub location: MemLocation,
    /// On Windows, for handles.
    pub win32_meta: *mut c_void,
    /// `CU_MEM_ALLOCATION_COMP_*`
    pub compression: u8,
    /// Whether network cards reach it.
    pub gpu_direct_rdma: u8,
    /// `CU_MEM_CREATE_USAGE_*`
    pub usage: u16,
    /// 0.
    pub reserved: [u8; 4],
}

const _: () = assert!(
    size_of::<MemPoolProps>() == size_of::<cudarc::driver::sys::CUmemPoolProps>()
        && size_of::<MemAllocationProp>() == size_of::<cudarc::driver::sys::CUmemAllocationProp>()
);

const _: () = assert!(
    size_of::<CopyAttributes>() == 24
        && size_of::<MemAllocNodeParams>() == size_of::<MemPoolProps>() + 32
        && size_of::<InstantiateParams>() == 32
        && size_of::<GraphNodeParams>() == 256
        && size_of::<ConditionalParams>() == 32
);

/// `CUstreamCallback` with the status as a plain integer.
pub type StreamCallback = Option<unsafe extern "C" fn(CUstream, c_uint, *mut c_void)>;

/// Which driver stands behind a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// NVIDIA's, from `libcuda.so.1`.
    Nvidia,
    /// The embedded CPU device.
    Cpu,
}

impl std::fmt::Display for DriverKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DriverKind::Nvidia => "NVIDIA driver",
            DriverKind::Cpu => "CPU device",
        })
    }
}

/// Makes [`Api`] from the rows: a field and a method of the same name for each.
macro_rules! driver_table {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $base:literal $since:literal; )*) => {
        /// The table of entry points of one driver; `None` where the driver has no such entry.
        #[derive(Clone)]
        pub struct Api {
            kind: DriverKind,
            get_proc_address: Option<GetProcAddress>,
            $( $(#[$doc])* pub $name: Option<unsafe extern "C" fn($($ty),*) -> c_int>, )*
        }

        impl Api {
            /// A table without entries, for a driver that fills the fields itself.
            pub const fn empty(kind: DriverKind) -> Api {
                Api { kind, get_proc_address: None, $( $name: None, )* }
            }

            /// Fills the table by asking `find` for each entry:
            /// exported name, base name, CUDA version of this form.
            fn fill(
                kind: DriverKind,
                get_proc_address: Option<GetProcAddress>,
                mut find: impl FnMut(&str, &str, c_int) -> Option<*mut c_void>,
            ) -> Api {
                Api {
                    kind,
                    get_proc_address,
                    $( $name: find(stringify!($name), $base, $since).map(|address| {
                        // SAFETY: `find` gives the address of the entry of that name, whose
                        // signature in the form asked for is the one of the row.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> c_int>(address) }
                    }), )*
                }
            }

            /// Name of every row, whether this driver has it, and the CUDA
            /// version that brought it.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, bool, i32)> + use<> {
                [$( (stringify!($name), self.$name.is_some(), $since), )*].into_iter()
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The arguments must be what the entry's CUDA documentation asks for.
                #[allow(clippy::too_many_arguments)]
                #[inline]
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), Error> {
                    match self.$name {
                        // SAFETY: the pointer is the entry's, the caller answers for the arguments.
                        Some(entry) => match unsafe { entry($($arg),*) } {
                            0 => Ok(()),
                            code => Err(self.failed(stringify!($name), code)),
                        },
                        None => Err(self.missing(stringify!($name), $since)),
                    }
                }
            )*
        }
    };
}

crate::driver_entries!(driver_table);

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Which driver this is.
    pub fn kind(&self) -> DriverKind {
        self.kind
    }

    /// NVIDIA's driver, opened once a process and never closed.
    ///
    /// `PTXKIT_LIBCUDA` names the library file to open instead of the usual ones.
    pub fn nvidia() -> Result<&'static Api, Error> {
        static NVIDIA: OnceLock<Result<Api, DriverMissing>> = OnceLock::new();
        NVIDIA
            .get_or_init(|| {
                open(|library| {
                    let is_gpu = is_named() || kind_of(library) == DriverKind::Nvidia;
                    is_gpu.then_some(DriverKind::Nvidia)
                })
            })
            .as_ref()
            .map_err(|missing| Error::DriverMissing(missing.clone()))
    }

    /// The driver that a program finds, NVIDIA's or the CPU device under its names: opened
    /// once a process and never closed. For `libcudart`.
    #[doc(hidden)]
    pub fn shared_library() -> Result<&'static Api, Error> {
        static FOUND: OnceLock<Result<Api, DriverMissing>> = OnceLock::new();
        FOUND
            .get_or_init(|| open(|library| Some(kind_of(library))))
            .as_ref()
            .map_err(|missing| Error::DriverMissing(missing.clone()))
    }

    /// The driver's own `cuGetProcAddress_v2`, of a driver in a shared library.
    #[doc(hidden)]
    pub fn get_proc_address(&self) -> Option<GetProcAddress> {
        self.get_proc_address
    }

    /// The version that `cuDriverGetVersion` gives (13000 is CUDA 13.0), 0 where it gives none.
    pub fn version(&self) -> i32 {
        let mut version = 0;
        match self.cuDriverGetVersion {
            // SAFETY: the entry may be called before `cuInit` and writes one integer.
            Some(entry) if unsafe { entry(&mut version) } == 0 => version,
            _ => 0,
        }
    }

    #[cold]
    #[inline(never)]
    fn failed(&self, entry: &'static str, code: c_int) -> Error {
        let detail = self.last_fault().or_else(|| self.logged(code));
        Error::Driver(DriverError::new(entry, code, detail))
    }

    #[cold]
    #[inline(never)]
    pub fn missing(&self, entry: &'static str, since: c_int) -> Error {
        Error::EntryMissing(EntryMissing {
            entry,
            driver: self.kind,
            version: self.version(),
            since,
        })
    }

    /// Lets errors of NVIDIA's driver carry what it has logged since the one before
    /// (`cuLogsCurrent`, `cuLogsDumpToMemory`), in the whole process.
    pub fn explain_errors(&self) -> Result<(), Error> {
        if self.kind == DriverKind::Cpu {
            return Ok(());
        }
        let mut next = 0;
        // SAFETY: writes one number; the flags must be 0.
        unsafe { self.cuLogsCurrent(&mut next, 0) }?;
        *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(())
    }

    /// What NVIDIA's driver has logged, if its errors are to be explained.
    fn logged(&self, code: c_int) -> Option<String> {
        // That work is not done yet is no failure, and asked often.
        if self.kind == DriverKind::Cpu || code == CudaError::NOT_READY.0 {
            return None;
        }
        // A function that is told of messages may be called while the log is read.
        let mut log = LOG.try_lock().ok()?;
        let next = log.as_mut()?;
        let mut text = vec![0_u8; 32 << 10]; // more than the driver keeps
        let mut bytes = text.len();
        let entry = self.cuLogsDumpToMemory?;
        // SAFETY: writes at most as many bytes as said, and two numbers; the flags must be 0.
        let code = unsafe { entry(next, text.as_mut_ptr().cast(), &mut bytes, 0) };
        let text = String::from_utf8_lossy(text.get(..bytes)?);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        (code == 0 && !lines.is_empty()).then(|| lines.join("; "))
    }

    /// What the CPU device has to say about its last fault.
    fn last_fault(&self) -> Option<String> {
        let entry = self.ptxkitGetLastFault?;
        let mut text = [0u8; 1024];
        // SAFETY: the entry writes at most `len` bytes, NUL included.
        let code = unsafe { entry(text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).ok()?;
        (code == 0 && !text.is_empty()).then(|| text.to_string_lossy().into_owned())
    }
}

/// From where on the log of NVIDIA's driver was not read, if errors are to be explained.
static LOG: Mutex<Option<c_uint>> = Mutex::new(None);

/// The driver's file, set by the interposer: opening `libcuda.so.1` by name would find the interposer itself.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Makes [`Api::nvidia`] open this file. Without effect after the first call.
#[doc(hidden)]
pub fn set_driver_file(file: PathBuf) {
    let _ = FILE.set(file);
}

/// The file set by [`set_driver_file`].
pub(crate) fn driver_file() -> Option<&'static PathBuf> {
    FILE.get()
}

/// Whether the user named the file to open.
fn is_named() -> bool {
    driver_file().is_some()
        || std::env::var_os("PTXKIT_LIBCUDA").is_some_and(|name| !name.is_empty())
}

/// Whether a library is the CPU device under the driver's names (the member
/// `libcuda`), which other programs may find first. It is no GPU.
fn kind_of(library: &libloading::Library) -> DriverKind {
    // SAFETY: only asks whether there is such a symbol.
    match unsafe { library.get::<*mut c_void>("ptxkitGetLastFault") } {
        Ok(_) => DriverKind::Cpu,
        Err(_) => DriverKind::Nvidia,
    }
}

/// The names to try, best first: `libcuda.so` comes after `libcuda.so.1`
/// because a toolkit's stub has that name.
fn library_names() -> Vec<String> {
    if let Some(file) = driver_file() {
        return vec![file.to_string_lossy().into_owned()];
    }
    match std::env::var("PTXKIT_LIBCUDA") {
        Ok(name) if !name.is_empty() => vec![name],
        _ if cfg!(windows) => vec!["nvcuda.dll".into()],
        _ => vec!["libcuda.so.1".into(), "libcuda.so".into()],
    }
}

/// Opens the first library that `take` takes for a driver.
fn open(take: impl Fn(&libloading::Library) -> Option<DriverKind>) -> Result<Api, DriverMissing> {
    let mut tried = Vec::new();
    for name in library_names() {
        // SAFETY: opening runs the library's initialisers; the names are the driver's own,
        // or the file the user named.
        match unsafe { libloading::Library::new(&name) } {
            Ok(library) => {
                let Some(kind) = take(&library) else {
                    tried.push((name, "it is ptxkit's own CPU device".into()));
                    continue;
                };
                // The driver starts threads of its own and must stay mapped.
                let library: &'static libloading::Library = Box::leak(Box::new(library));
                // Found now: the list of mappings is many times as long once it is started.
                identity::driver_build();
                return Ok(fill_from(library, kind));
            }
            Err(error) => {
                // The loader's own sentence is the cause of libloading's error.
                let why = std::error::Error::source(&error)
                    .unwrap_or(&error)
                    .to_string();
                tried.push((name, why));
            }
        }
    }
    Err(DriverMissing { tried })
}

/// `cuGetProcAddress_v2`
#[doc(hidden)]
pub type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_int;

fn fill_from(library: &'static libloading::Library, kind: DriverKind) -> Api {
    let symbol = |name: &str| -> Option<*mut c_void> {
        // SAFETY: only the address is taken here.
        let symbol = unsafe { library.get::<*mut c_void>(name) }.ok()?;
        // SAFETY: the library is never closed, so the address stays good.
        let address = unsafe { symbol.into_raw() }.as_raw_ptr();
        (!address.is_null()).then_some(address)
    };
    let get_proc_address: Option<GetProcAddress> = symbol("cuGetProcAddress_v2")
        // SAFETY: `cuGetProcAddress_v2` has this signature since CUDA 12.0.
        .map(|address| unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(address) });

    let mut version = 0;
    if let Some(address) = symbol("cuDriverGetVersion") {
        // SAFETY: the entry has this signature since CUDA 2.2; it writes one integer.
        unsafe {
            let get = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>;
            get(address)(&mut version)
        };
    }

    Api::fill(kind, get_proc_address, |exported, base, since| {
        // An older driver would give the form it knows, with other parameters.
        let known = get_proc_address.filter(|_| version == 0 || since <= version);
        let from_driver = known.and_then(|get| {
            let base = CString::new(base).ok()?;
            let mut address = std::ptr::null_mut();
            let mut status = 0;
            // SAFETY: name and out-pointers live through the call; flags 0 asks for the
            // entries of the legacy default stream.
            let code = unsafe { get(base.as_ptr(), &mut address, since, 0, &mut status) };
            (code == 0 && status == 0 && !address.is_null()).then_some(address)
        });
        from_driver.or_else(|| symbol(exported))
    })
}
