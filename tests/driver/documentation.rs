//! `docs/driver-api.md` lists every entry of the table with its Rust names, and
//! is made here from the sources: `PTXKIT_WRITE_DOCS=1 cargo test --test driver`
//! writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ptxkit::driver::api::Api;

use crate::support::device;

/// Rust names by entry: of functions whose documentation names it, of those
/// that call it, and of the types that call it by themselves.
#[derive(Default)]
struct Names {
    told: BTreeMap<String, Vec<String>>,
    called: BTreeMap<String, Vec<String>>,
    within: BTreeMap<String, Vec<String>>,
}

/// Private handles with a file of their own, and the public type that each is part of.
const SHARED_HANDLES: &[(&str, &str)] = &[
    ("LibraryHandle", "Library"),
    ("MipmappedMemory", "MipmappedArray"),
];

/// The entries that a line names.
fn entries(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("cu").filter_map(move |(at, _)| {
        let begins = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let name = line[at..]
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()?;
        let is_entry = name.len() > 4 && name.as_bytes()[2].is_ascii_uppercase();
        (begins && is_entry).then_some(name)
    })
}

/// What stands behind the parameters of an `impl`, if it has any.
fn after_generics(rest: &str) -> &str {
    let mut depth = 0;
    let end = rest.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0
    });
    if rest.starts_with('<') {
        end.map_or(rest, |end| &rest[end + 1..])
    } else {
        rest
    }
}

/// Reads one source file: types, their public functions, and what those name.
/// `module` stands before the names of a module that is public itself.
fn read(module: &str, source: &str, names: &mut Names) {
    let (mut of, mut told, mut function) = (String::new(), Vec::new(), None);
    let first = |start: &str| {
        let rest = source.lines().find_map(|line| line.strip_prefix(start))?;
        rest.split(|c: char| !c.is_alphanumeric()).next()
    };
    let shared = || {
        let handle = first("pub(crate) struct ")?;
        SHARED_HANDLES
            .iter()
            .find_map(|(shared, of)| (*shared == handle).then_some(*of))
    };
    let main = first("pub struct ").or_else(shared);
    let mut drops = false;
    for line in source.lines() {
        let text = line.trim_start();
        if let Some(doc) = text.strip_prefix("///") {
            told.extend(entries(doc).map(str::to_owned));
            continue;
        }
        if let Some(rest) = line.strip_prefix("impl") {
            let rest = after_generics(rest).trim_start();
            let rest = rest.rsplit(" for ").next().unwrap_or(rest);
            let end = rest
                .find(|c: char| !c.is_alphanumeric())
                .unwrap_or(rest.len());
            of = rest[..end].to_owned();
            drops = line.contains("Drop for");
            function = None;
        } else if let Some(after) = ["pub fn ", "pub unsafe fn ", "pub const fn "]
            .iter()
            .find_map(|start| text.strip_prefix(start))
        {
            let end = after
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(0);
            let name = if line.starts_with(' ') {
                format!("{module}{of}::{}", &after[..end])
            } else {
                format!("{module}{}", &after[..end])
            };
            for entry in told.drain(..) {
                names.told.entry(entry).or_default().push(name.clone());
            }
            function = Some(name);
        } else if text.starts_with("fn ") || text.starts_with("pub(crate) fn ") {
            function = None;
        } else if let (None, Some(main)) = (&function, main)
            && !text.starts_with("//")
        {
            let how = if drops { "dropping" } else { "within" };
            for entry in entries(text) {
                let all = names.within.entry(entry.to_owned()).or_default();
                all.push(format!("{how} {module}{main}"));
            }
        } else if let Some(function) = &function
            && !text.starts_with("//")
        {
            for entry in entries(text) {
                let all = names.called.entry(entry.to_owned()).or_default();
                if all.last() != Some(function) {
                    all.push(function.clone());
                }
            }
        }
        if !text.starts_with('#') {
            told.clear();
        }
    }
}

fn rust_names(names: &Names, entry: &str) -> String {
    let base = entry.trim_end_matches("_v2");
    let found = [&names.told, &names.called, &names.within]
        .into_iter()
        .find_map(|map| map.get(entry).or_else(|| map.get(base)));
    let Some(found) = found else {
        let why = ALONE.iter().find(|(names, _)| names.contains(&entry));
        return match why {
            Some((_, why)) => format!("`Api` alone: {why}"),
            None => "`Api` alone".to_owned(),
        };
    };
    let quoted = |name: &String| match name.split_once(' ') {
        Some((how, name)) => format!("{how} `{name}`"),
        None => format!("`{name}`"),
    };
    let mut found: Vec<_> = found.iter().map(quoted).collect();
    found.sort();
    found.dedup();
    found.join(", ")
}

/// The source files of a folder and the folders in it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn document(sources: &Path, api: &Api) -> String {
    let mut names = Names::default();
    let mut files = Vec::new();
    list(sources, &mut files);
    list(&sources.join("../jit"), &mut files);
    // It names entries that it does not call.
    files.retain(|path| !path.ends_with("device/report.rs"));
    files.sort();
    for file in files {
        let module = match () {
            () if file.ends_with("opengl.rs") => "opengl::",
            () if file
                .parent()
                .is_some_and(|folder| folder.ends_with("external")) =>
            {
                "external::"
            }
            () => "",
        };
        read(module, &std::fs::read_to_string(file).unwrap(), &mut names);
    }

    let mut text = String::from(HEAD);
    let rows = std::fs::read_to_string(sources.join("../../crates/api/src/entries.rs")).unwrap();
    let since: BTreeMap<&str, i32> = api
        .entries()
        .map(|(name, _, since)| (name, since))
        .collect();
    for line in rows.lines().map(str::trim) {
        if let Some(title) = line.strip_prefix("// ") {
            write!(
                text,
                "\n## {title}\n\n| entry | since | in Rust |\n|---|---|---|\n"
            )
            .unwrap();
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let name = rest.split('(').next().unwrap();
            let since = since[name];
            let since = match since {
                0 => "–".to_owned(),
                since => format!("{}.{}", since / 1000, since % 1000 / 10),
            };
            writeln!(
                text,
                "| `{name}` | {since} | {} |",
                rust_names(&names, name)
            )
            .unwrap();
        }
    }
    text.push_str(TAIL);
    text
}

const HEAD: &str = "# The driver API in Rust

Every entry of `libcuda` that ptxkit calls, the CUDA version that brought it in
this form, and the names in `ptxkit::driver` and `ptxkit::jit` that are made of it. Each
entry is also a method of `Api` (`Context::api`, `Driver::api`), which takes raw
handles: every safe type gives its own by `raw`. An entry that the driver lacks
is an error that names both.

This file is made from the sources, and a test compares them.

## What safe means here

Safe calls reach no freed memory, no handle of another driver, and no memory
behind a Rust reference by themselves: what a call uses is kept until its work is
done, also by a graph; what the host reads waits for the work that writes it.

A kernel is code. On the CPU device every address of a PTX kernel is checked. On a
GPU nobody checks what a kernel does with a bare number or behind the end of a
buffer: it reaches whatever its device reaches, and where
`DeviceAttribute::PAGEABLE_MEMORY_ACCESS` is true, that is all memory of the process.
So `Kernel::launch` is `unsafe`, and so is loading a binary (`Module::load_image`).
`Kernel::typed` declares the parameters of a kernel, which is `unsafe` once, and
`TypedKernel::launch` is safe. The first page of the crate has the whole rule.
";

/// Entries that have no Rust name, and why that is right.
const ALONE: &[(&[&str], &str)] = &[
    (
        &[
            "cuMulticastGetGranularity",
            "cuMulticastCreate",
            "cuMulticastAddDevice",
            "cuMulticastBindMem",
            "cuMulticastBindAddr",
            "cuMulticastUnbind",
        ],
        "a multicast object is for one library, as NCCL, and `Api` is tested for refusals alone",
    ),
    (
        &["cuMemMapArrayAsync"],
        "what is mapped must be kept until it is unmapped, which nothing here follows",
    ),
    (
        &[
            "cuCtxRecordEvent",
            "cuCtxWaitEvent",
            "cuGreenCtxRecordEvent",
            "cuGreenCtxWaitEvent",
        ],
        "`Event::record` and `Stream::wait_for` name a stream; `Context::synchronize` waits for all",
    ),
    (
        &["cuGreenCtxGetId", "cuStreamGetGreenCtx"],
        "`Stream::context` is the green context, `Context::raw_green` its handle",
    ),
    (
        &[
            "cuTexRefCreate",
            "cuTexRefDestroy",
            "cuTexRefGetAddress_v2",
            "cuTexRefGetFormat",
        ],
        "deprecated; references are those of modules, and keep what is bound to them",
    ),
    (
        &[
            "cuGraphAddNode",
            "cuGraphNodeSetParams",
            "cuGraphExecNodeSetParams",
        ],
        "the functions for each kind of node have its types",
    ),
    (
        &["cuGraphDestroyNode"],
        "the nodes of a `Graph` stay, as `GraphNode` is a plain handle",
    ),
    (
        &[
            "cuStreamUpdateCaptureDependencies",
            "cuStreamUpdateCaptureDependencies_v2",
        ],
        "`Graph::capture` lends the stream for a whole graph",
    ),
    (
        &["cuGraphHostNodeGetParams"],
        "what comes back is a bare pointer",
    ),
    (
        &[
            "cuGraphGetRootNodes",
            "cuGraphNodeGetDependencies",
            "cuGraphNodeGetDependencies_v2",
            "cuGraphNodeGetDependentNodes",
            "cuGraphNodeGetDependentNodes_v2",
        ],
        "`Graph::edges` has them all",
    ),
    (
        &["cuGraphInstantiateWithParams", "cuGraphExecGetFlags"],
        "`Graph::instantiate` needs neither",
    ),
    (
        &["cuUserObjectRetain", "cuGraphReleaseUserObject"],
        "`Graph::retain` gives each graph a reference of its own",
    ),
    (
        &["cuMemSetMemPool"],
        "`MemoryPool::make_current` is for devices, and nothing is allocated by another place",
    ),
    (
        &["cuDeviceSetGraphMemAttribute"],
        "`Device::graph_memory` reads the marks",
    ),
    (
        &["cuArrayGetPlane"],
        "for formats with planes, which `ArrayFormat` has none of",
    ),
    (
        &["cuGetErrorName", "cuGetErrorString"],
        "`CudaError` knows names and advice without a driver",
    ),
    (
        &["cuDeviceComputeCapability"],
        "deprecated; `Device::compute_capability` asks for the attributes",
    ),
    (
        &["cuMemAllocHost_v2"],
        "`PinnedBuffer` gives flags, with `cuMemHostAlloc`",
    ),
    (
        &["cuMemRangeGetAttributes"],
        "`ManagedBuffer` asks for one at a time",
    ),
    (
        &["cuPointerGetAttribute"],
        "`Context::pointer_attributes` asks for all at once",
    ),
    (
        &["cuModuleLoadFatBinary"],
        "`Module::load_image` takes fatbins, and checks their sizes first",
    ),
    (
        &["cuLinkAddFile_v2"],
        "`LinkInput` takes the file's bytes, and checks them first",
    ),
    (
        &["cuLibraryLoadFromFile"],
        "`Library::load_file` checks the file first",
    ),
    (
        &["cuKernelGetLibrary"],
        "a kernel here keeps its library by itself",
    ),
    (
        &[
            "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
            "cuOccupancyMaxPotentialBlockSizeWithFlags",
        ],
        "the one flag is about GPUs of capability 5.x",
    ),
    (
        &["ptxkitGetLastFault"],
        "`DriverError::detail` has the text",
    ),
];

const TAIL: &str = "
## What the guide names and newer entries do

| entry of older drivers | instead |
|---|---|
| `cuParamSetSize`, `cuParamSeti`, `cuParamSetf`, `cuParamSetv`, `cuLaunch`, `cuLaunchGrid`, `cuLaunchGridAsync` | `Kernel::launch`, `Kernel::launch_buffer` |
| `cuFuncSetBlockShape`, `cuFuncSetSharedSize` | `LaunchConfig` |
| `cuCtxAttach`, `cuCtxDetach` | `Context::clone`; `Context::attach` where the driver is to count |
| `cuDeviceGetProperties` | `Device::attribute` |
| `cuMemAllocHost` | `PinnedBuffer::zeroed` |
| `cuGLCtxCreate` | any context: `driver::opengl` |
| `cuWGLGetDevice` | nothing: Windows alone has it; `opengl::devices` |
| `cuD3D9GetDevice`, `cuD3D9GetDevices`, `cuD3D9CtxCreate`, `cuD3D9CtxCreateOnDevice`, `cuGraphicsD3D9RegisterResource` | nothing: Direct3D is left out |
| `cuD3D10GetDevice`, `cuD3D10GetDevices`, `cuD3D10CtxCreate`, `cuD3D10CtxCreateOnDevice`, `cuGraphicsD3D10RegisterResource` | nothing, likewise |
| `cuD3D11GetDevice`, `cuD3D11GetDevices`, `cuD3D11CtxCreate`, `cuD3D11CtxCreateOnDevice`, `cuGraphicsD3D11RegisterResource` | nothing, likewise |
| `cuLaunchCooperativeKernelMultiDevice` | `Kernel::launch_cooperative` on each device |
| `cuModuleLoad` | `Module::load_file`, which checks the file first |

## The guide's samples

| section of the driver chapter | in `examples/` |
|---|---|
| 3.3 vectors added | `vecadd` |
| 3.3.1 a library's own context | `guide_context` |
| 3.3.2 modules, errors of the compiler | `guide_module` |
| 3.3.3 parameters as pointers, as a buffer, as a structure | `guide_launch` |
| 3.3.4 linear and pitched memory, arrays | `guide_memory` |
| 3.3.4 variables of a module | `guide_module` |
| 3.3.5 a matrix product in shared memory | `guide_shared` |
| 3.3.6 page-locked memory | `guide_memory` |
| 3.3.7 streams and events | `guide_streams` |
| 3.3.8 devices, peers | `guide_devices` |
| 3.3.9 unified addressing | `guide_memory` |
| 3.3.11 limits | `guide_context` |
| 3.3.12 textures | `guide_textures` |
| 3.3.12 surfaces | `guide_surfaces` |
| 3.3.13 OpenGL | `guide_opengl` |
| 3.3.13 Direct3D | nothing: it is left out |
| 3.4 beside the runtime | `guide_context` |

## Options of the JIT compiler

| option (`CU_JIT_*`) | in Rust |
|---|---|
| `MAX_REGISTERS`, `THREADS_PER_BLOCK`, `OPTIMIZATION_LEVEL`, `CACHE_MODE` | `JitOptions::max_registers`, `threads_per_block`, `optimization`, `cache_mode` |
| `GENERATE_DEBUG_INFO`, `GENERATE_LINE_INFO`, `LOG_VERBOSE` | `JitOptions::debug`, `line_info`, `verbose` |
| `TARGET`, `TARGET_FROM_CUCONTEXT` | `JitOptions::target`, or none for the context's |
| `POSITION_INDEPENDENT_CODE`, `MIN_CTA_PER_SM`, `MAX_THREADS_PER_BLOCK`, `OVERRIDE_DIRECTIVE_VALUES`, `SPLIT_COMPILE` | `JitOptions::position_independent`, `min_blocks_per_multiprocessor`, `max_threads_per_block`, `override_directives`, `threads` |
| `WALL_TIME`, `INFO_LOG_BUFFER`, `ERROR_LOG_BUFFER` and their sizes | `Compiled::wall_time_ms`, `Compiled::info_log`, `JitError::log` |
| `GLOBAL_SYMBOL_NAMES`, `_ADDRESSES`, `_COUNT` | `Module::load_resolving` |
| `FALLBACK_STRATEGY` | nothing: the loader chooses the image itself, and says why |
| `BINARY_LOADER_THREAD_COUNT` | nothing |
| `LTO`, `FTZ`, `PREC_DIV`, `PREC_SQRT`, `FMA`, `REFERENCED_*`, `OPTIMIZE_UNUSED_DEVICE_VARIABLES` | nothing: for code of toolkits before CUDA 12.0; `nvjitlink` takes what replaces them |
| `NEW_SM3X_OPT`, `FAST_COMPILE` | nothing: the driver's own |

## What is left out

| entries | what they are for |
|---|---|
| `cuMemcpyWithAttributesAsync`, `cuMemcpy3DWithAttributesAsync` | one copy with hints: a batch of one does it |
| `cuMulticastBindMem_v2`, `cuMulticastBindAddr_v2` | multicast by device, newer than the first forms |
| `cuDevSmResourceSplit`, `cuStreamGetDevResource` | groups of different sizes (CUDA 13.1); `SmResource::split`, `Context::sm_resource` |
| `cuTensorMapSetAllocationClass` | a hint in a tensor map, of CUDA 13.5 |
| `cuEGL*`, `cuVDPAU*`, `cuGraphicsEGL*`, `cuGraphicsVDPAU*`, `cuGraphicsResourceGetMappedEglFrame`, `cuEventCreateFromEGLSync`, `cuDeviceGetNvSciSyncAttributes` | frames and fences of EGL, VDPAU and NvSci |
| `cuGLInit`, `cuGL*BufferObject*` | OpenGL before CUDA 3.0: `driver::opengl` |
| `cuCoredumpRegister*`, `cuCoredumpDeregister*` | functions called while a core dump is written (CUDA 13.2) |
| `cuCheckpointOperationComplete` | checkpoints into storage of the program's own (CUDA 13.4) |
| `cuGraphAddExternalSemaphores*`, `cuGraphExternalSemaphores*`, `cuGraphExecExternalSemaphores*` | nodes of semaphores: `external::Semaphore` signals and waits in streams |
| `cuGraphAddBatchMemOpNode`, `cuGraphBatchMemOpNode*`, `cuGraphExecBatchMemOpNode*` | nodes that write and wait for values: `Stream::memory_operations` does so in streams |
| `cuGraphKernelNodeSetParams`, `cuGraphMemcpyNodeSetParams`, `cuGraphMemsetNodeSetParams`, `cuGraphHostNodeSetParams`, `cuGraphEventRecordNodeSetEvent`, `cuGraphEventWaitNodeSetEvent`, `cuGraphNodeSetParams_v2` | nodes of a graph changed before it is ready: `GraphExec` changes them after |
| `cuGraphKernelNodeCopyAttributes`, `cuGraphKernelNodeGetAttribute`, `cuGraphKernelNodeSetAttribute` | attributes of kernel nodes: `LaunchOptions` of the launch |
| `cuGraphInstantiate` | forms before `cuGraphInstantiateWithFlags` |
| `cuGraphAddNode_v3`, `cuGraphNodeGetParams` | forms of CUDA 13.2 and 13.4 |
| `cuGraphGetId`, `cuGraphExecGetId`, `cuGraphNodeGetContainingGraph`, `cuGraphNodeGetLocalId`, `cuGraphNodeGetToolsId` | names of nodes for tools (CUDA 13.1) |
| `cuStreamBeginRecaptureToGraph`, `cuStreamBeginCaptureToCig`, `cuStreamEndCaptureToCig` | captures of CUDA 13.1 and 13.3 |
| `cuLaunchHostFunc_v2` | a host function that spins (CUDA 13.1): `Stream::call` |
| `cuFuncGetParamCount`, `cuKernelGetParamCount` | `Kernel::layout` has all parameters |
| `cuLibraryGetUnifiedFunction` | functions that host and device call by one pointer |
| `cuParamSetTexRef` | texture references as parameters, of CUDA 2 |
| `cuMemBatchDecompressAsync` | the decompression engine of Blackwell |
| `cuFlushGPUDirectRDMAWrites` | writes of network cards, which nothing here drives |
| `cuMemGetLocationInfo` | localities within a device, of CUDA 13.4 |
| `cuDeviceGetHostAtomicCapabilities`, `cuDeviceGetP2PAtomicCapabilities` | single atomic operations; `DeviceAttribute::HOST_NATIVE_ATOMIC_SUPPORTED`, `Device::link_to` |
| `cuDeviceGetClique*`, `cuDeviceGetFabricClusterUuid`, `cuFabricCpyBatchAsync`, `cuLogicalEndpoint*` | memory of other machines over NVLink |
| `cuProfilerInitialize` | output files of a profiler that is no more: `Context::profile` |
| `cuGetProcAddress`, `cuGetExportTable` | `Api` is filled by the first; the second is the driver's own |
| `cu*_ptsz`, `cu*_ptds` | each thread's default stream by another name: `Stream::per_thread` |
";

/// What the guide's driver chapter calls or names.
const CHAPTER: &str = "cuArrayCreate cuArrayDestroy cuArray3DCreate cuCtxAttach cuCtxCreate
    cuCtxDestroy cuCtxDetach cuCtxEnablePeerAccess cuCtxGetCurrent cuCtxGetLimit cuCtxPopCurrent
    cuCtxPushCurrent cuCtxSetCurrent cuCtxSetLimit cuCtxSynchronize cuDeviceCanAccessPeer
    cuDeviceComputeCapability cuDeviceGet cuDeviceGetCount cuEventCreate cuEventDestroy
    cuEventElapsedTime cuEventRecord cuEventSynchronize cuFuncSetSharedSize cuGLCtxCreate
    cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGraphicsMapResources
    cuGraphicsResourceGetMappedPointer cuGraphicsResourceSetMapFlags
    cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources cuGraphicsUnregisterResource
    cuInit cuLaunchKernel cuMemAlloc cuMemAllocHost cuMemAllocPitch cuMemFree cuMemFreeHost
    cuMemHostAlloc cuMemHostGetDevicePointer cuMemHostRegister cuMemcpy cuMemcpy2D cuMemcpy3D
    cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpyAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoD
    cuMemcpyHtoDAsync cuMemcpyPeer cuMemcpyPeerAsync cuModuleGetFunction cuModuleGetGlobal
    cuModuleGetSurfRef cuModuleGetTexRef cuModuleLoad cuModuleLoadDataEx cuPointerGetAttribute
    cuStreamCreate cuStreamDestroy cuSurfRefSetArray cuTexRefSetAddress cuTexRefSetAddress2D
    cuTexRefSetAddressMode cuTexRefSetArray cuTexRefSetFilterMode cuTexRefSetFlags
    cuTexRefSetFormat cuWGLGetDevice cuD3D9GetDevice cuD3D9CtxCreate cuD3D9CtxCreateOnDevice
    cuGraphicsD3D9RegisterResource cuD3D10GetDevice cuD3D10CtxCreate cuD3D10CtxCreateOnDevice
    cuGraphicsD3D10RegisterResource cuD3D11GetDevice cuD3D11CtxCreate cuD3D11CtxCreateOnDevice
    cuGraphicsD3D11RegisterResource";

#[test]
fn every_entry_of_the_guide_is_in_the_documentation() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/driver-api.md");
    let Ok(text) = std::fs::read_to_string(file) else {
        return; // a packed test, away from the sources
    };
    for entry in CHAPTER.split_whitespace() {
        let named = ["", "_v2", "_v3"].iter();
        let mut named = named.map(|version| format!("`{entry}{version}`"));
        assert!(named.any(|name| text.contains(&name)), "{entry}");
    }
}

#[test]
fn every_entry_is_in_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = root.join("src/driver");
    if !sources.exists() {
        return; // a packed test, away from the sources
    }
    let made = document(&sources, device().driver().api());
    assert!(
        made.contains("| `cuCtxCreate_v2` | 3.2 | `Context::create` |"),
        "{made}"
    );
    let file = root.join("docs/driver-api.md");
    if std::env::var_os("PTXKIT_WRITE_DOCS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    for (line, (made, there)) in (1..).zip(made.lines().zip(there.lines())) {
        assert_eq!(
            made, there,
            "docs/driver-api.md:{line}: set PTXKIT_WRITE_DOCS=1 and run again"
        );
    }
    assert_eq!(
        made.lines().count(),
        there.lines().count(),
        "set PTXKIT_WRITE_DOCS=1"
    );
}

#[test]
fn every_sample_of_the_guide_is_an_example() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    if !examples.exists() {
        return; // a packed test, away from the sources
    }
    let rows = TAIL.lines().filter(|line| line.starts_with("| 3."));
    let named: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(named.len(), 16);
    for name in named {
        assert!(examples.join(name).with_extension("rs").exists(), "{name}");
    }
}
