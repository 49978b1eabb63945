//! The rows of the table: every entry point of the driver API that ptxkit calls
//! or serves, with the name `cuGetProcAddress` knows it by and the CUDA version
//! that brought it in this form.
//!
//! Enums of the C API are plain integers here: a number that the bindings do
//! not know is data, not undefined behaviour.

/// Hands all rows to the macro named: `driver_entries!(my::macro)`.
#[doc(hidden)]
#[macro_export]
macro_rules! driver_entries {
    ($($then:tt)+) => {
        $($then)+! {
        // Start and errors
        /// Starts the driver; `flags` is 0.
        fn cuInit(flags: c_uint) = "cuInit" 2000;
        /// The newest CUDA version this driver serves: 13000 is 13.0.
        fn cuDriverGetVersion(driver_version: *mut c_int) = "cuDriverGetVersion" 2020;
        /// The name of an error number.
        fn cuGetErrorName(error: c_uint, p_str: *mut *const c_char) = "cuGetErrorName" 6000;
        /// The driver's sentence for an error number.
        fn cuGetErrorString(error: c_uint, p_str: *mut *const c_char) = "cuGetErrorString" 6000;

        // Devices
        /// How many devices there are.
        fn cuDeviceGetCount(count: *mut c_int) = "cuDeviceGetCount" 2000;
        /// The handle of device `ordinal`.
        fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) = "cuDeviceGet" 2000;
        /// The device's name, NUL-terminated, cut to `len` bytes.
        fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice) = "cuDeviceGetName" 2000;
        /// The device's 16-byte identity; differs for each MIG slice.
        fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, dev: CUdevice) = "cuDeviceGetUuid" 11040;
        /// Bytes of memory on the device.
        fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) = "cuDeviceTotalMem" 3020;
        /// One number about the device.
        fn cuDeviceGetAttribute(pi: *mut c_int, attrib: c_uint, dev: CUdevice) = "cuDeviceGetAttribute" 2000;
        /// The PCI address as text, `0000:3b:00.0`.
        fn cuDeviceGetPCIBusId(pci_bus_id: *mut c_char, len: c_int, dev: CUdevice) = "cuDeviceGetPCIBusId" 4010;
        /// The device at a PCI address.
        fn cuDeviceGetByPCIBusId(dev: *mut CUdevice, pci_bus_id: *const c_char) = "cuDeviceGetByPCIBusId" 4010;
        /// Windows' name for a device, and its place among linked adapters.
        fn cuDeviceGetLuid(luid: *mut c_char, device_node_mask: *mut c_uint, dev: CUdevice) = "cuDeviceGetLuid" 10000;
        /// Whether contexts can have some multiprocessors only.
        fn cuDeviceGetExecAffinitySupport(pi: *mut c_int, kind: c_uint, dev: CUdevice) = "cuDeviceGetExecAffinitySupport" 11040;
        /// Compute capability, as `cuDeviceGetAttribute` gives it too.
        fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, dev: CUdevice) = "cuDeviceComputeCapability" 2000;
        /// One number about two devices as peers.
        fn cuDeviceGetP2PAttribute(value: *mut c_int, attrib: c_uint, src_device: CUdevice, dst_device: CUdevice) = "cuDeviceGetP2PAttribute" 8000;
        /// Whether one device can reach another's memory.
        fn cuDeviceCanAccessPeer(can_access_peer: *mut c_int, dev: CUdevice, peer_dev: CUdevice) = "cuDeviceCanAccessPeer" 4000;
        /// The device's primary context, its use count raised.
        fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) = "cuDevicePrimaryCtxRetain" 7000;
        /// Lowers the primary context's use count; destroys it at 0.
        fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) = "cuDevicePrimaryCtxRelease" 11000;
        /// Scheduling flags of the primary context.
        fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: c_uint) = "cuDevicePrimaryCtxSetFlags" 11000;
        /// Flags of the primary context, and whether it is alive.
        fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut c_uint, active: *mut c_int) = "cuDevicePrimaryCtxGetState" 7000;
        /// Destroys the primary context whoever uses it.
        fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) = "cuDevicePrimaryCtxReset" 11000;
        /// The device's default memory pool.
        fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice) = "cuDeviceGetDefaultMemPool" 11020;
        /// The device's current memory pool.
        fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) = "cuDeviceGetMemPool" 11020;
        /// Makes a pool the one that `cuMemAllocAsync` takes from on a device.
        fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) = "cuDeviceSetMemPool" 11020;
        /// The default pool of memory of a place and a kind.
        fn cuMemGetDefaultMemPool(pool_out: *mut CUmemoryPool, location: *mut MemLocation, kind: c_uint) = "cuMemGetDefaultMemPool" 13000;
        /// The pool that allocations of memory of a place and a kind are from.
        fn cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut MemLocation, kind: c_uint) = "cuMemGetMemPool" 13000;
        /// Makes a pool that one.
        fn cuMemSetMemPool(location: *mut MemLocation, kind: c_uint, pool: CUmemoryPool) = "cuMemSetMemPool" 13000;

        // Contexts
        /// A new context, pushed on this thread.
        fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) = "cuCtxCreate" 3020;
        /// The same with a share of the multiprocessors.
        fn cuCtxCreate_v3(pctx: *mut CUcontext, params: *mut ExecAffinity, num_params: c_int, flags: c_uint, dev: CUdevice) = "cuCtxCreate" 11040;
        /// The same with what a context may share with graphics; null for a context of all.
        fn cuCtxCreate_v4(pctx: *mut CUcontext, params: *mut ContextParams, flags: c_uint, dev: CUdevice) = "cuCtxCreate" 12050;
        /// The share of the multiprocessors that the current context has.
        fn cuCtxGetExecAffinity(p_exec_affinity: *mut ExecAffinity, kind: c_uint) = "cuCtxGetExecAffinity" 11040;
        /// Destroys a context and all that lives in it.
        fn cuCtxDestroy_v2(ctx: CUcontext) = "cuCtxDestroy" 4000;
        /// Makes a context current over the one that is.
        fn cuCtxPushCurrent_v2(ctx: CUcontext) = "cuCtxPushCurrent" 4000;
        /// Takes the current context off this thread.
        fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) = "cuCtxPopCurrent" 4000;
        /// Replaces this thread's current context.
        fn cuCtxSetCurrent(ctx: CUcontext) = "cuCtxSetCurrent" 4000;
        /// This thread's current context, or null.
        fn cuCtxGetCurrent(pctx: *mut CUcontext) = "cuCtxGetCurrent" 4000;
        /// The current context's device.
        fn cuCtxGetDevice(device: *mut CUdevice) = "cuCtxGetDevice" 2000;
        /// The device of any context; null for the current one.
        fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) = "cuCtxGetDevice" 13000;
        /// The current context's flags.
        fn cuCtxGetFlags(flags: *mut c_uint) = "cuCtxGetFlags" 7000;
        /// Waits for all work of the current context.
        fn cuCtxSynchronize() = "cuCtxSynchronize" 2000;
        /// Waits for all work of any context; null for the current one.
        fn cuCtxSynchronize_v2(ctx: CUcontext) = "cuCtxSynchronize" 13000;
        /// A limit of the current context: stack, heap, printf buffer.
        fn cuCtxGetLimit(pvalue: *mut usize, limit: c_uint) = "cuCtxGetLimit" 3010;
        /// Sets a limit of the current context.
        fn cuCtxSetLimit(limit: c_uint, value: usize) = "cuCtxSetLimit" 3010;
        /// Preference between L1 and shared memory.
        fn cuCtxGetCacheConfig(pconfig: *mut c_uint) = "cuCtxGetCacheConfig" 3020;
        /// Sets the preference between L1 and shared memory.
        fn cuCtxSetCacheConfig(config: c_uint) = "cuCtxSetCacheConfig" 3020;
        /// The API version a context was made with.
        fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint) = "cuCtxGetApiVersion" 3020;
        /// A number that no other context of the process has.
        fn cuCtxGetId(ctx: CUcontext, ctx_id: *mut u64) = "cuCtxGetId" 12000;
        /// Raises the current context's use count.
        fn cuCtxAttach(pctx: *mut CUcontext, flags: c_uint) = "cuCtxAttach" 2000;
        /// Lowers it; destroys the context at 0.
        fn cuCtxDetach(ctx: CUcontext) = "cuCtxDetach" 2000;
        /// Width of the banks of shared memory.
        fn cuCtxGetSharedMemConfig(p_config: *mut c_uint) = "cuCtxGetSharedMemConfig" 4020;
        /// Sets the width of the banks of shared memory.
        fn cuCtxSetSharedMemConfig(config: c_uint) = "cuCtxSetSharedMemConfig" 4020;
        /// Forgets which lines of L2 were to persist.
        fn cuCtxResetPersistingL2Cache() = "cuCtxResetPersistingL2Cache" 11000;
        /// Lowest and highest stream priority; greater is less urgent.
        fn cuCtxGetStreamPriorityRange(least_priority: *mut c_int, greatest_priority: *mut c_int) = "cuCtxGetStreamPriorityRange" 5050;
        /// Lets the current context reach a peer's memory.
        fn cuCtxEnablePeerAccess(peer_context: CUcontext, flags: c_uint) = "cuCtxEnablePeerAccess" 4000;
        /// Ends peer access.
        fn cuCtxDisablePeerAccess(peer_context: CUcontext) = "cuCtxDisablePeerAccess" 4000;

        // Modules
        /// Loads a file with PTX, a cubin or a fatbin.
        fn cuModuleLoad(module: *mut CUmodule, fname: *const c_char) = "cuModuleLoad" 2000;
        /// Loads PTX (NUL-terminated), a cubin or a fatbin.
        fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) = "cuModuleLoadData" 2000;
        /// The same with JIT options.
        fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void) = "cuModuleLoadDataEx" 2010;
        /// Loads a fatbin.
        fn cuModuleLoadFatBinary(module: *mut CUmodule, fat_cubin: *const c_void) = "cuModuleLoadFatBinary" 2000;
        /// Unloads a module.
        fn cuModuleUnload(hmod: CUmodule) = "cuModuleUnload" 2000;
        /// A kernel by name.
        fn cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char) = "cuModuleGetFunction" 2000;
        /// Address and size of a module variable.
        fn cuModuleGetGlobal_v2(dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, name: *const c_char) = "cuModuleGetGlobal" 3020;
        /// 1 eager, 2 lazy.
        fn cuModuleGetLoadingMode(mode: *mut c_uint) = "cuModuleGetLoadingMode" 11070;
        /// How many kernels a module has.
        fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) = "cuModuleGetFunctionCount" 12040;
        /// The kernels of a module.
        fn cuModuleEnumerateFunctions(functions: *mut CUfunction, num_functions: c_uint, module: CUmodule) = "cuModuleEnumerateFunctions" 12040;

        // The JIT linker
        /// A new linking session.
        fn cuLinkCreate_v2(num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void, state_out: *mut CUlinkState) = "cuLinkCreate" 6050;
        /// Adds PTX, a cubin, a library … to it.
        fn cuLinkAddData_v2(state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize, name: *const c_char, num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void) = "cuLinkAddData" 6050;
        /// Adds a file to it.
        fn cuLinkAddFile_v2(state: CUlinkState, kind: c_uint, path: *const c_char, num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void) = "cuLinkAddFile" 6050;
        /// Compiles and links; the result lives as long as the session.
        fn cuLinkComplete(state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize) = "cuLinkComplete" 5050;
        /// Ends the session.
        fn cuLinkDestroy(state: CUlinkState) = "cuLinkDestroy" 5050;

        // Libraries
        /// Loads code independent of a context.
        fn cuLibraryLoadData(library: *mut CUlibrary, code: *const c_void, jit_options: *mut c_uint, jit_options_values: *mut *mut c_void, num_jit_options: c_uint, library_options: *mut c_uint, library_option_values: *mut *mut c_void, num_library_options: c_uint) = "cuLibraryLoadData" 12000;
        /// Loads a file, independent of a context.
        fn cuLibraryLoadFromFile(library: *mut CUlibrary, file_name: *const c_char, jit_options: *mut c_uint, jit_options_values: *mut *mut c_void, num_jit_options: c_uint, library_options: *mut c_uint, library_option_values: *mut *mut c_void, num_library_options: c_uint) = "cuLibraryLoadFromFile" 12000;
        /// Unloads a library.
        fn cuLibraryUnload(library: CUlibrary) = "cuLibraryUnload" 12000;
        /// A kernel of a library.
        fn cuLibraryGetKernel(p_kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) = "cuLibraryGetKernel" 12000;
        /// A library as a module of the current context.
        fn cuLibraryGetModule(p_mod: *mut CUmodule, library: CUlibrary) = "cuLibraryGetModule" 12000;
        /// Address and size of a library's variable.
        fn cuLibraryGetGlobal(dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char) = "cuLibraryGetGlobal" 12000;
        /// Address and size of a library's managed variable.
        fn cuLibraryGetManaged(dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char) = "cuLibraryGetManaged" 12000;
        /// How many kernels a library has.
        fn cuLibraryGetKernelCount(count: *mut c_uint, lib: CUlibrary) = "cuLibraryGetKernelCount" 12040;
        /// The kernels of a library.
        fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, num_kernels: c_uint, lib: CUlibrary) = "cuLibraryEnumerateKernels" 12040;
        /// A library's kernel in the current context.
        fn cuKernelGetFunction(p_func: *mut CUfunction, kernel: CUkernel) = "cuKernelGetFunction" 12000;
        /// A library kernel's name.
        fn cuKernelGetName(name: *mut *const c_char, hfunc: CUkernel) = "cuKernelGetName" 12030;
        /// Offset and size of a library kernel's parameter.
        fn cuKernelGetParamInfo(kernel: CUkernel, param_index: usize, param_offset: *mut usize, param_size: *mut usize) = "cuKernelGetParamInfo" 12040;
        /// One number about a library's kernel on a device.
        fn cuKernelGetAttribute(pi: *mut c_int, attrib: c_uint, kernel: CUkernel, dev: CUdevice) = "cuKernelGetAttribute" 12000;
        /// Sets one.
        fn cuKernelSetAttribute(attrib: c_uint, val: c_int, kernel: CUkernel, dev: CUdevice) = "cuKernelSetAttribute" 12000;
        /// Preference between L1 and shared memory for a library's kernel.
        fn cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, dev: CUdevice) = "cuKernelSetCacheConfig" 12000;
        /// The library a kernel is of.
        fn cuKernelGetLibrary(p_lib: *mut CUlibrary, kernel: CUkernel) = "cuKernelGetLibrary" 12050;

        // Functions
        /// One number about a kernel: registers, shared bytes, largest block …
        fn cuFuncGetAttribute(pi: *mut c_int, attrib: c_uint, hfunc: CUfunction) = "cuFuncGetAttribute" 2020;
        /// Sets one: dynamic shared memory above 48 KB, carve-out.
        fn cuFuncSetAttribute(hfunc: CUfunction, attrib: c_uint, value: c_int) = "cuFuncSetAttribute" 9000;
        /// Preference between L1 and shared memory for a kernel.
        fn cuFuncSetCacheConfig(hfunc: CUfunction, config: c_uint) = "cuFuncSetCacheConfig" 3000;
        /// Width of the banks of shared memory for a kernel.
        fn cuFuncSetSharedMemConfig(hfunc: CUfunction, config: c_uint) = "cuFuncSetSharedMemConfig" 4020;
        /// The module a kernel is of.
        fn cuFuncGetModule(hmod: *mut CUmodule, hfunc: CUfunction) = "cuFuncGetModule" 11000;
        /// A kernel's name.
        fn cuFuncGetName(name: *mut *const c_char, hfunc: CUfunction) = "cuFuncGetName" 12030;
        /// Offset and size of a kernel's parameter.
        fn cuFuncGetParamInfo(func: CUfunction, param_index: usize, param_offset: *mut usize, param_size: *mut usize) = "cuFuncGetParamInfo" 12040;
        /// Whether a lazily loaded kernel is there.
        fn cuFuncIsLoaded(state: *mut c_uint, function: CUfunction) = "cuFuncIsLoaded" 12040;
        /// Loads a lazily loaded kernel.
        fn cuFuncLoad(function: CUfunction) = "cuFuncLoad" 12040;
        /// Blocks of a kernel that fit one multiprocessor.
        fn cuOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_smem_size: usize) = "cuOccupancyMaxActiveBlocksPerMultiprocessor" 6050;
        /// The same with flags.
        fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_smem_size: usize, flags: c_uint) = "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" 7000;
        /// The block size with the best occupancy.
        fn cuOccupancyMaxPotentialBlockSize(min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction, block_size_to_dynamic_smem_size: CUoccupancyB2DSize, dynamic_smem_size: usize, block_size_limit: c_int) = "cuOccupancyMaxPotentialBlockSize" 6050;
        /// Dynamic shared bytes a block can have.
        fn cuOccupancyAvailableDynamicSMemPerBlock(dynamic_smem_size: *mut usize, func: CUfunction, num_blocks: c_int, block_size: c_int) = "cuOccupancyAvailableDynamicSMemPerBlock" 10020;
        /// The same as `cuOccupancyMaxPotentialBlockSize` with flags.
        fn cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction, block_size_to_dynamic_smem_size: CUoccupancyB2DSize, dynamic_smem_size: usize, block_size_limit: c_int, flags: c_uint) = "cuOccupancyMaxPotentialBlockSizeWithFlags" 7000;
        /// Clusters of a kernel that the device holds.
        fn cuOccupancyMaxActiveClusters(num_clusters: *mut c_int, func: CUfunction, config: *const CUlaunchConfig) = "cuOccupancyMaxActiveClusters" 11070;
        /// Blocks that a cluster of a kernel can have.
        fn cuOccupancyMaxPotentialClusterSize(cluster_size: *mut c_int, func: CUfunction, config: *const CUlaunchConfig) = "cuOccupancyMaxPotentialClusterSize" 11070;

        // Launching
        /// Launches a grid.
        fn cuLaunchKernel(f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: CUstream, kernel_params: *mut *mut c_void, extra: *mut *mut c_void) = "cuLaunchKernel" 4000;
        /// Launches a grid with attributes.
        fn cuLaunchKernelEx(config: *const CUlaunchConfig, f: CUfunction, kernel_params: *mut *mut c_void, extra: *mut *mut c_void) = "cuLaunchKernelEx" 11060;
        /// Launches a grid whose blocks may wait for one another.
        fn cuLaunchCooperativeKernel(f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: CUstream, kernel_params: *mut *mut c_void) = "cuLaunchCooperativeKernel" 9000;
        /// Calls a host function in stream order.
        fn cuLaunchHostFunc(h_stream: CUstream, function: CUhostFn, user_data: *mut c_void) = "cuLaunchHostFunc" 10000;

        // Memory
        /// Free and total bytes of the current context's device.
        fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = "cuMemGetInfo" 3020;
        /// Allocates device memory.
        fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) = "cuMemAlloc" 3020;
        /// Allocates rows aligned for coalesced access.
        fn cuMemAllocPitch_v2(dptr: *mut CUdeviceptr, p_pitch: *mut usize, width_in_bytes: usize, height: usize, element_size_bytes: c_uint) = "cuMemAllocPitch" 3020;
        /// Frees device memory.
        fn cuMemFree_v2(dptr: CUdeviceptr) = "cuMemFree" 3020;
        /// The allocation an address is in.
        fn cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) = "cuMemGetAddressRange" 3020;
        /// Allocates memory host and device share.
        fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) = "cuMemAllocManaged" 6000;
        /// Allocates pinned host memory.
        fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, flags: c_uint) = "cuMemHostAlloc" 2020;
        /// The same without flags.
        fn cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) = "cuMemAllocHost" 3020;
        /// Frees pinned host memory.
        fn cuMemFreeHost(p: *mut c_void) = "cuMemFreeHost" 2000;
        /// The device's address of pinned host memory.
        fn cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, flags: c_uint) = "cuMemHostGetDevicePointer" 3020;
        /// The flags pinned host memory was made with.
        fn cuMemHostGetFlags(p_flags: *mut c_uint, p: *mut c_void) = "cuMemHostGetFlags" 2030;
        /// Pins memory the caller has.
        fn cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, flags: c_uint) = "cuMemHostRegister" 6050;
        /// Undoes `cuMemHostRegister`.
        fn cuMemHostUnregister(p: *mut c_void) = "cuMemHostUnregister" 4000;
        /// Allocates in stream order.
        fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, h_stream: CUstream) = "cuMemAllocAsync" 11020;
        /// Frees in stream order.
        fn cuMemFreeAsync(dptr: CUdeviceptr, h_stream: CUstream) = "cuMemFreeAsync" 11020;
        /// A new memory pool.
        fn cuMemPoolCreate(pool: *mut CUmemoryPool, pool_props: *const MemPoolProps) = "cuMemPoolCreate" 11020;
        /// Destroys a memory pool.
        fn cuMemPoolDestroy(pool: CUmemoryPool) = "cuMemPoolDestroy" 11020;
        /// Gives a pool's unused memory back.
        fn cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize) = "cuMemPoolTrimTo" 11020;
        /// One number about a pool.
        fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) = "cuMemPoolGetAttribute" 11020;
        /// Sets one.
        fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) = "cuMemPoolSetAttribute" 11020;
        /// Allocates from a pool in stream order.
        fn cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, h_stream: CUstream) = "cuMemAllocFromPoolAsync" 11020;
        /// Lets devices reach a pool's memory.
        fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const MemAccessDesc, count: usize) = "cuMemPoolSetAccess" 11020;
        /// Whether a device reaches a pool's memory: 0 no, 1 to read, 3 to read and write.
        fn cuMemPoolGetAccess(flags: *mut c_uint, mem_pool: CUmemoryPool, location: *mut MemLocation) = "cuMemPoolGetAccess" 11020;
        /// A pool as a file descriptor, for other processes.
        fn cuMemPoolExportToShareableHandle(handle_out: *mut c_void, pool: CUmemoryPool, handle_type: c_uint, flags: u64) = "cuMemPoolExportToShareableHandle" 11020;
        /// The pool of another process.
        fn cuMemPoolImportFromShareableHandle(pool_out: *mut CUmemoryPool, handle: *mut c_void, handle_type: c_uint, flags: u64) = "cuMemPoolImportFromShareableHandle" 11020;
        /// What another process finds an allocation of a shared pool with.
        fn cuMemPoolExportPointer(share_data_out: *mut CUmemPoolPtrExportData, ptr: CUdeviceptr) = "cuMemPoolExportPointer" 11020;
        /// An allocation in the pool of another process.
        fn cuMemPoolImportPointer(ptr_out: *mut CUdeviceptr, pool: CUmemoryPool, share_data: *mut CUmemPoolPtrExportData) = "cuMemPoolImportPointer" 11020;
        /// Tells the driver how managed memory will be used.
        fn cuMemAdvise(dev_ptr: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice) = "cuMemAdvise" 8000;
        /// The same with a location.
        fn cuMemAdvise_v2(dev_ptr: CUdeviceptr, count: usize, advice: c_uint, location: MemLocation) = "cuMemAdvise" 12020;
        /// Moves managed memory to a device or, with -1, to the host in stream order.
        fn cuMemPrefetchAsync(dev_ptr: CUdeviceptr, count: usize, dst_device: CUdevice, h_stream: CUstream) = "cuMemPrefetchAsync" 8000;
        /// The same with a location.
        fn cuMemPrefetchAsync_v2(dev_ptr: CUdeviceptr, count: usize, location: MemLocation, flags: c_uint, h_stream: CUstream) = "cuMemPrefetchAsync" 12020;
        /// Several ranges at once, each to its place.
        fn cuMemPrefetchBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, prefetch_locs: *mut MemLocation, prefetch_loc_idxs: *mut usize, num_prefetch_locs: usize, flags: u64, h_stream: CUstream) = "cuMemPrefetchBatchAsync" 13000;
        /// Says that what ranges of managed memory have is needed no more.
        fn cuMemDiscardBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: u64, h_stream: CUstream) = "cuMemDiscardBatchAsync" 13000;
        /// Both.
        fn cuMemDiscardAndPrefetchBatchAsync(dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize, prefetch_locs: *mut MemLocation, prefetch_loc_idxs: *mut usize, num_prefetch_locs: usize, flags: u64, h_stream: CUstream) = "cuMemDiscardAndPrefetchBatchAsync" 13000;
        /// What was advised for a range of managed memory, or where it was moved.
        fn cuMemRangeGetAttribute(data: *mut c_void, data_size: usize, attribute: c_uint, dev_ptr: CUdeviceptr, count: usize) = "cuMemRangeGetAttribute" 8000;
        /// Several of these.
        fn cuMemRangeGetAttributes(data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut c_uint, num_attributes: usize, dev_ptr: CUdeviceptr, count: usize) = "cuMemRangeGetAttributes" 8000;
        /// Says which streams may use managed memory.
        fn cuStreamAttachMemAsync(h_stream: CUstream, dptr: CUdeviceptr, length: usize, flags: c_uint) = "cuStreamAttachMemAsync" 6000;
        /// One fact about an address.
        fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, ptr: CUdeviceptr) = "cuPointerGetAttribute" 4000;
        /// Several facts about an address.
        fn cuPointerGetAttributes(num_attributes: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, ptr: CUdeviceptr) = "cuPointerGetAttributes" 7000;
        /// Sets one: whether synchronous copies of the memory always wait.
        fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, ptr: CUdeviceptr) = "cuPointerSetAttribute" 6000;

        // Virtual memory
        /// What sizes and addresses of physical memory are multiples of.
        fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const MemAllocationProp, option: c_uint) = "cuMemGetAllocationGranularity" 10020;
        /// Physical memory without an address.
        fn cuMemCreate(handle: *mut u64, size: usize, prop: *const MemAllocationProp, flags: u64) = "cuMemCreate" 10020;
        /// Gives physical memory back, once it is mapped nowhere.
        fn cuMemRelease(handle: u64) = "cuMemRelease" 10020;
        /// Addresses without memory.
        fn cuMemAddressReserve(ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: u64) = "cuMemAddressReserve" 10020;
        /// Gives addresses back.
        fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) = "cuMemAddressFree" 10020;
        /// Puts physical memory at reserved addresses.
        fn cuMemMap(ptr: CUdeviceptr, size: usize, offset: usize, handle: u64, flags: u64) = "cuMemMap" 10020;
        /// Takes it away from there.
        fn cuMemUnmap(ptr: CUdeviceptr, size: usize) = "cuMemUnmap" 10020;
        /// Who may use mapped memory, and how.
        fn cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const MemAccessDesc, count: usize) = "cuMemSetAccess" 10020;
        /// How a location may use mapped memory: 0 not, 1 to read, 3 to read and write.
        fn cuMemGetAccess(flags: *mut u64, location: *const MemLocation, ptr: CUdeviceptr) = "cuMemGetAccess" 10020;
        /// The physical memory at an address, its use count raised.
        fn cuMemRetainAllocationHandle(handle: *mut u64, addr: *mut c_void) = "cuMemRetainAllocationHandle" 11000;
        /// What physical memory was made with.
        fn cuMemGetAllocationPropertiesFromHandle(prop: *mut MemAllocationProp, handle: u64) = "cuMemGetAllocationPropertiesFromHandle" 10020;
        /// Physical memory as a file descriptor, for other processes.
        fn cuMemExportToShareableHandle(shareable_handle: *mut c_void, handle: u64, handle_type: c_uint, flags: u64) = "cuMemExportToShareableHandle" 10020;
        /// Physical memory of another process.
        fn cuMemImportFromShareableHandle(handle: *mut u64, os_handle: *mut c_void, handle_type: c_uint) = "cuMemImportFromShareableHandle" 10020;

        // Copies
        /// Copies between any two addresses.
        fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize) = "cuMemcpy" 4000;
        /// The same in stream order.
        fn cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, h_stream: CUstream) = "cuMemcpyAsync" 4000;
        /// Copies between contexts.
        fn cuMemcpyPeer(dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr, src_context: CUcontext, byte_count: usize) = "cuMemcpyPeer" 4000;
        /// The same in stream order.
        fn cuMemcpyPeerAsync(dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr, src_context: CUcontext, byte_count: usize, h_stream: CUstream) = "cuMemcpyPeerAsync" 4000;
        /// Copies a box between contexts.
        fn cuMemcpy3DPeer(p_copy: *const CUDA_MEMCPY3D_PEER) = "cuMemcpy3DPeer" 4000;
        /// The same in stream order.
        fn cuMemcpy3DPeerAsync(p_copy: *const CUDA_MEMCPY3D_PEER, h_stream: CUstream) = "cuMemcpy3DPeerAsync" 4000;
        /// Several copies in stream order, in any order among themselves.
        fn cuMemcpyBatchAsync(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attrs: *mut CopyAttributes, attrs_idxs: *mut usize, num_attrs: usize, fail_idx: *mut usize, h_stream: CUstream) = "cuMemcpyBatchAsync" 12080;
        /// The same without the index of a copy that fails.
        fn cuMemcpyBatchAsync_v2(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attrs: *mut CopyAttributes, attrs_idxs: *mut usize, num_attrs: usize, h_stream: CUstream) = "cuMemcpyBatchAsync" 13000;
        /// Host to device.
        fn cuMemcpyHtoD_v2(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize) = "cuMemcpyHtoD" 3020;
        /// Device to host.
        fn cuMemcpyDtoH_v2(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize) = "cuMemcpyDtoH" 3020;
        /// Device to device.
        fn cuMemcpyDtoD_v2(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize) = "cuMemcpyDtoD" 3020;
        /// Host to device in stream order.
        fn cuMemcpyHtoDAsync_v2(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize, h_stream: CUstream) = "cuMemcpyHtoDAsync" 3020;
        /// Device to host in stream order.
        fn cuMemcpyDtoHAsync_v2(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream) = "cuMemcpyDtoHAsync" 3020;
        /// Device to device in stream order.
        fn cuMemcpyDtoDAsync_v2(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream) = "cuMemcpyDtoDAsync" 3020;
        /// Copies a rectangle; pitches as `cuMemAllocPitch` gave them.
        fn cuMemcpy2D_v2(p_copy: *const CUDA_MEMCPY2D) = "cuMemcpy2D" 3020;
        /// Copies a rectangle with any pitch.
        fn cuMemcpy2DUnaligned_v2(p_copy: *const CUDA_MEMCPY2D) = "cuMemcpy2DUnaligned" 3020;
        /// Copies a rectangle in stream order.
        fn cuMemcpy2DAsync_v2(p_copy: *const CUDA_MEMCPY2D, h_stream: CUstream) = "cuMemcpy2DAsync" 3020;
        /// Copies a box.
        fn cuMemcpy3D_v2(p_copy: *const CUDA_MEMCPY3D) = "cuMemcpy3D" 3020;
        /// Copies a box in stream order.
        fn cuMemcpy3DAsync_v2(p_copy: *const CUDA_MEMCPY3D, h_stream: CUstream) = "cuMemcpy3DAsync" 3020;
        /// Sets bytes.
        fn cuMemsetD8_v2(dst_device: CUdeviceptr, uc: u8, n: usize) = "cuMemsetD8" 3020;
        /// Sets 16-bit words.
        fn cuMemsetD16_v2(dst_device: CUdeviceptr, us: u16, n: usize) = "cuMemsetD16" 3020;
        /// Sets 32-bit words.
        fn cuMemsetD32_v2(dst_device: CUdeviceptr, ui: c_uint, n: usize) = "cuMemsetD32" 3020;
        /// Sets bytes in stream order.
        fn cuMemsetD8Async(dst_device: CUdeviceptr, uc: u8, n: usize, h_stream: CUstream) = "cuMemsetD8Async" 3020;
        /// Sets 16-bit words in stream order.
        fn cuMemsetD16Async(dst_device: CUdeviceptr, us: u16, n: usize, h_stream: CUstream) = "cuMemsetD16Async" 3020;
        /// Sets 32-bit words in stream order.
        fn cuMemsetD32Async(dst_device: CUdeviceptr, ui: c_uint, n: usize, h_stream: CUstream) = "cuMemsetD32Async" 3020;
        /// Sets bytes of a rectangle.
        fn cuMemsetD2D8_v2(dst_device: CUdeviceptr, dst_pitch: usize, uc: u8, width: usize, height: usize) = "cuMemsetD2D8" 3020;
        /// Sets 16-bit words of a rectangle.
        fn cuMemsetD2D16_v2(dst_device: CUdeviceptr, dst_pitch: usize, us: u16, width: usize, height: usize) = "cuMemsetD2D16" 3020;
        /// Sets 32-bit words of a rectangle.
        fn cuMemsetD2D32_v2(dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize, height: usize) = "cuMemsetD2D32" 3020;
        /// Sets bytes of a rectangle in stream order.
        fn cuMemsetD2D8Async(dst_device: CUdeviceptr, dst_pitch: usize, uc: u8, width: usize, height: usize, h_stream: CUstream) = "cuMemsetD2D8Async" 3020;
        /// Sets 16-bit words of a rectangle in stream order.
        fn cuMemsetD2D16Async(dst_device: CUdeviceptr, dst_pitch: usize, us: u16, width: usize, height: usize, h_stream: CUstream) = "cuMemsetD2D16Async" 3020;
        /// Sets 32-bit words of a rectangle in stream order.
        fn cuMemsetD2D32Async(dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize, height: usize, h_stream: CUstream) = "cuMemsetD2D32Async" 3020;

        // Arrays
        /// A 1D or 2D array.
        fn cuArrayCreate_v2(p_handle: *mut CUarray, p_allocate_array: *const ArrayDesc) = "cuArrayCreate" 3020;
        /// An array of any shape.
        fn cuArray3DCreate_v2(p_handle: *mut CUarray, p_allocate_array: *const Array3dDesc) = "cuArray3DCreate" 3020;
        /// Destroys an array.
        fn cuArrayDestroy(h_array: CUarray) = "cuArrayDestroy" 2000;
        /// What a 1D or 2D array is.
        fn cuArrayGetDescriptor_v2(p_array_descriptor: *mut ArrayDesc, h_array: CUarray) = "cuArrayGetDescriptor" 3020;
        /// What an array is.
        fn cuArray3DGetDescriptor_v2(p_array_descriptor: *mut Array3dDesc, h_array: CUarray) = "cuArray3DGetDescriptor" 3020;
        /// A plane of an array of a planar format.
        fn cuArrayGetPlane(p_plane_array: *mut CUarray, h_array: CUarray, plane_idx: c_uint) = "cuArrayGetPlane" 11020;
        /// An array with levels of half the size each.
        fn cuMipmappedArrayCreate(p_handle: *mut CUmipmappedArray, p_mipmapped_array_desc: *const Array3dDesc, num_mipmap_levels: c_uint) = "cuMipmappedArrayCreate" 5000;
        /// A level of a mipmapped array.
        fn cuMipmappedArrayGetLevel(p_level_array: *mut CUarray, h_mipmapped_array: CUmipmappedArray, level: c_uint) = "cuMipmappedArrayGetLevel" 5000;
        /// Destroys a mipmapped array with its levels.
        fn cuMipmappedArrayDestroy(h_mipmapped_array: CUmipmappedArray) = "cuMipmappedArrayDestroy" 5000;
        /// Host to a 1D array.
        fn cuMemcpyHtoA_v2(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize) = "cuMemcpyHtoA" 3020;
        /// A 1D array to the host.
        fn cuMemcpyAtoH_v2(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize) = "cuMemcpyAtoH" 3020;
        /// Device memory to a 1D array.
        fn cuMemcpyDtoA_v2(dst_array: CUarray, dst_offset: usize, src_device: CUdeviceptr, byte_count: usize) = "cuMemcpyDtoA" 3020;
        /// A 1D array to device memory.
        fn cuMemcpyAtoD_v2(dst_device: CUdeviceptr, src_array: CUarray, src_offset: usize, byte_count: usize) = "cuMemcpyAtoD" 3020;
        /// A 1D array to another.
        fn cuMemcpyAtoA_v2(dst_array: CUarray, dst_offset: usize, src_array: CUarray, src_offset: usize, byte_count: usize) = "cuMemcpyAtoA" 3020;
        /// Host to a 1D array in stream order.
        fn cuMemcpyHtoAAsync_v2(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize, h_stream: CUstream) = "cuMemcpyHtoAAsync" 3020;
        /// A 1D array to the host in stream order.
        fn cuMemcpyAtoHAsync_v2(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize, h_stream: CUstream) = "cuMemcpyAtoHAsync" 3020;

        // Tensors
        /// The map of a tensor, for copies of its boxes.
        fn cuTensorMapEncodeTiled(tensor_map: *mut TensorMap, tensor_data_type: c_uint, tensor_rank: c_uint, global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64, box_dim: *const c_uint, element_strides: *const c_uint, interleave: c_uint, swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint) = "cuTensorMapEncodeTiled" 12000;
        /// The map of images, for copies of columns of their pixels.
        fn cuTensorMapEncodeIm2col(tensor_map: *mut TensorMap, tensor_data_type: c_uint, tensor_rank: c_uint, global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64, pixel_box_lower_corner: *const c_int, pixel_box_upper_corner: *const c_int, channels_per_pixel: c_uint, pixels_per_column: c_uint, element_strides: *const c_uint, interleave: c_uint, swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint) = "cuTensorMapEncodeIm2col" 12000;
        /// The same for columns along the width alone.
        fn cuTensorMapEncodeIm2colWide(tensor_map: *mut TensorMap, tensor_data_type: c_uint, tensor_rank: c_uint, global_address: *mut c_void, global_dim: *const u64, global_strides: *const u64, pixel_box_lower_corner_width: c_int, pixel_box_upper_corner_width: c_int, channels_per_pixel: c_uint, pixels_per_column: c_uint, element_strides: *const c_uint, interleave: c_uint, mode: c_uint, swizzle: c_uint, l2_promotion: c_uint, oob_fill: c_uint) = "cuTensorMapEncodeIm2colWide" 12080;
        /// Lets a map stand for a tensor at another address.
        fn cuTensorMapReplaceAddress(tensor_map: *mut TensorMap, global_address: *mut c_void) = "cuTensorMapReplaceAddress" 12000;

        // Textures and surfaces
        /// A texture of an array or of memory.
        fn cuTexObjectCreate(p_tex_object: *mut CUtexObject, p_res_desc: *const ResourceDesc, p_tex_desc: *const TextureDesc, p_res_view_desc: *const ResourceViewDesc) = "cuTexObjectCreate" 5000;
        /// Destroys a texture.
        fn cuTexObjectDestroy(tex_object: CUtexObject) = "cuTexObjectDestroy" 5000;
        /// What a texture is of.
        fn cuTexObjectGetResourceDesc(p_res_desc: *mut ResourceDesc, tex_object: CUtexObject) = "cuTexObjectGetResourceDesc" 5000;
        /// How a texture is read.
        fn cuTexObjectGetTextureDesc(p_tex_desc: *mut TextureDesc, tex_object: CUtexObject) = "cuTexObjectGetTextureDesc" 5000;
        /// What a texture shows of its array.
        fn cuTexObjectGetResourceViewDesc(p_res_view_desc: *mut ResourceViewDesc, tex_object: CUtexObject) = "cuTexObjectGetResourceViewDesc" 5000;
        /// A surface of an array.
        fn cuSurfObjectCreate(p_surf_object: *mut CUsurfObject, p_res_desc: *const ResourceDesc) = "cuSurfObjectCreate" 5000;
        /// Destroys a surface.
        fn cuSurfObjectDestroy(surf_object: CUsurfObject) = "cuSurfObjectDestroy" 5000;
        /// What a surface is of.
        fn cuSurfObjectGetResourceDesc(p_res_desc: *mut ResourceDesc, surf_object: CUsurfObject) = "cuSurfObjectGetResourceDesc" 5000;
        /// The most texels of a texture of linear memory.
        fn cuDeviceGetTexture1DLinearMaxWidth(max_width_in_elements: *mut usize, format: c_uint, num_channels: c_uint, dev: CUdevice) = "cuDeviceGetTexture1DLinearMaxWidth" 11010;

        // Texture and surface references
        /// A texture reference of a module, by name.
        fn cuModuleGetTexRef(p_tex_ref: *mut CUtexref, hmod: CUmodule, name: *const c_char) = "cuModuleGetTexRef" 2000;
        /// A surface reference of a module, by name.
        fn cuModuleGetSurfRef(p_surf_ref: *mut CUsurfref, hmod: CUmodule, name: *const c_char) = "cuModuleGetSurfRef" 3000;
        /// Binds a texture reference to an array.
        fn cuTexRefSetArray(h_tex_ref: CUtexref, h_array: CUarray, flags: c_uint) = "cuTexRefSetArray" 2000;
        /// Binds a texture reference to a mipmapped array.
        fn cuTexRefSetMipmappedArray(h_tex_ref: CUtexref, h_mipmapped_array: CUmipmappedArray, flags: c_uint) = "cuTexRefSetMipmappedArray" 5000;
        /// Binds a texture reference to linear memory.
        fn cuTexRefSetAddress_v2(byte_offset: *mut usize, h_tex_ref: CUtexref, dptr: CUdeviceptr, bytes: usize) = "cuTexRefSetAddress" 3020;
        /// Binds a texture reference to rows of memory.
        fn cuTexRefSetAddress2D_v3(h_tex_ref: CUtexref, desc: *const ArrayDesc, dptr: CUdeviceptr, pitch: usize) = "cuTexRefSetAddress2D" 4010;
        /// The format of linear memory.
        fn cuTexRefSetFormat(h_tex_ref: CUtexref, fmt: c_uint, num_packed_components: c_int) = "cuTexRefSetFormat" 2000;
        /// What stands outside of a texture, along one dimension.
        fn cuTexRefSetAddressMode(h_tex_ref: CUtexref, dim: c_int, am: c_uint) = "cuTexRefSetAddressMode" 2000;
        /// How a texture is filtered.
        fn cuTexRefSetFilterMode(h_tex_ref: CUtexref, fm: c_uint) = "cuTexRefSetFilterMode" 2000;
        /// How a texture is filtered between levels.
        fn cuTexRefSetMipmapFilterMode(h_tex_ref: CUtexref, fm: c_uint) = "cuTexRefSetMipmapFilterMode" 5000;
        /// What is added to the level asked for.
        fn cuTexRefSetMipmapLevelBias(h_tex_ref: CUtexref, bias: f32) = "cuTexRefSetMipmapLevelBias" 5000;
        /// The least and the greatest level.
        fn cuTexRefSetMipmapLevelClamp(h_tex_ref: CUtexref, min_mipmap_level_clamp: f32, max_mipmap_level_clamp: f32) = "cuTexRefSetMipmapLevelClamp" 5000;
        /// Texels along the longer axis of a footprint.
        fn cuTexRefSetMaxAnisotropy(h_tex_ref: CUtexref, max_aniso: c_uint) = "cuTexRefSetMaxAnisotropy" 5000;
        /// The colour of the border: four numbers.
        fn cuTexRefSetBorderColor(h_tex_ref: CUtexref, p_border_color: *mut f32) = "cuTexRefSetBorderColor" 8000;
        /// Integers as they are, normalised coordinates, sRGB.
        fn cuTexRefSetFlags(h_tex_ref: CUtexref, flags: c_uint) = "cuTexRefSetFlags" 2000;
        /// The array that a texture reference is bound to.
        fn cuTexRefGetArray(ph_array: *mut CUarray, h_tex_ref: CUtexref) = "cuTexRefGetArray" 2000;
        /// What stands outside of a texture, along one dimension.
        fn cuTexRefGetAddressMode(pam: *mut c_uint, h_tex_ref: CUtexref, dim: c_int) = "cuTexRefGetAddressMode" 2000;
        /// How a texture is filtered.
        fn cuTexRefGetFilterMode(pfm: *mut c_uint, h_tex_ref: CUtexref) = "cuTexRefGetFilterMode" 2000;
        /// What `cuTexRefSetFlags` set.
        fn cuTexRefGetFlags(p_flags: *mut c_uint, h_tex_ref: CUtexref) = "cuTexRefGetFlags" 2000;
        /// Binds a surface reference to an array.
        fn cuSurfRefSetArray(h_surf_ref: CUsurfref, h_array: CUarray, flags: c_uint) = "cuSurfRefSetArray" 3000;
        /// The array that a surface reference is bound to.
        fn cuSurfRefGetArray(ph_array: *mut CUarray, h_surf_ref: CUsurfref) = "cuSurfRefGetArray" 3000;

        // Streams
        /// A new stream.
        fn cuStreamCreate(ph_stream: *mut CUstream, flags: c_uint) = "cuStreamCreate" 2000;
        /// A new stream with a priority.
        fn cuStreamCreateWithPriority(ph_stream: *mut CUstream, flags: c_uint, priority: c_int) = "cuStreamCreateWithPriority" 5050;
        /// Destroys a stream once its work is done.
        fn cuStreamDestroy_v2(h_stream: CUstream) = "cuStreamDestroy" 4000;
        /// Waits for a stream's work.
        fn cuStreamSynchronize(h_stream: CUstream) = "cuStreamSynchronize" 2000;
        /// 0 when done, 600 while not.
        fn cuStreamQuery(h_stream: CUstream) = "cuStreamQuery" 2000;
        /// Work of a stream waits for an event.
        fn cuStreamWaitEvent(h_stream: CUstream, h_event: CUevent, flags: c_uint) = "cuStreamWaitEvent" 3020;
        /// Calls a host function in stream order, with the stream's error.
        fn cuStreamAddCallback(h_stream: CUstream, callback: StreamCallback, user_data: *mut c_void, flags: c_uint) = "cuStreamAddCallback" 5000;
        /// A stream's context.
        fn cuStreamGetCtx(h_stream: CUstream, pctx: *mut CUcontext) = "cuStreamGetCtx" 9020;
        /// The same, or the green context of a stream that has one.
        fn cuStreamGetCtx_v2(h_stream: CUstream, pctx: *mut CUcontext, p_green_ctx: *mut CUgreenCtx) = "cuStreamGetCtx" 12050;
        /// A stream's flags.
        fn cuStreamGetFlags(h_stream: CUstream, flags: *mut c_uint) = "cuStreamGetFlags" 5050;
        /// A stream's priority.
        fn cuStreamGetPriority(h_stream: CUstream, priority: *mut c_int) = "cuStreamGetPriority" 5050;
        /// A number that no other stream of the process has.
        fn cuStreamGetId(h_stream: CUstream, stream_id: *mut u64) = "cuStreamGetId" 12000;
        /// A stream's device.
        fn cuStreamGetDevice(h_stream: CUstream, device: *mut CUdevice) = "cuStreamGetDevice" 12080;
        /// Writes 4 bytes in stream order.
        fn cuStreamWriteValue32_v2(stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint) = "cuStreamWriteValue32" 11070;
        /// Writes 8 bytes in stream order.
        fn cuStreamWriteValue64_v2(stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint) = "cuStreamWriteValue64" 11070;
        /// Work of a stream waits for 4 bytes in memory.
        fn cuStreamWaitValue32_v2(stream: CUstream, addr: CUdeviceptr, value: u32, flags: c_uint) = "cuStreamWaitValue32" 11070;
        /// Work of a stream waits for 8 bytes in memory.
        fn cuStreamWaitValue64_v2(stream: CUstream, addr: CUdeviceptr, value: u64, flags: c_uint) = "cuStreamWaitValue64" 11070;
        /// Several writes and waits at once.
        fn cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint, param_array: *mut MemoryOperation, flags: c_uint) = "cuStreamBatchMemOp" 11070;
        /// One attribute of a stream.
        fn cuStreamGetAttribute(h_stream: CUstream, attr: c_uint, value_out: *mut AttributeBits) = "cuStreamGetAttribute" 11000;
        /// Sets one.
        fn cuStreamSetAttribute(h_stream: CUstream, attr: c_uint, value: *const AttributeBits) = "cuStreamSetAttribute" 11000;
        /// Gives a stream the attributes of another.
        fn cuStreamCopyAttributes(dst: CUstream, src: CUstream) = "cuStreamCopyAttributes" 11000;
        /// Work of a stream goes into a graph from now on.
        fn cuStreamBeginCapture_v2(h_stream: CUstream, mode: c_uint) = "cuStreamBeginCapture" 10010;
        /// The graph of what was captured.
        fn cuStreamEndCapture(h_stream: CUstream, ph_graph: *mut CUgraph) = "cuStreamEndCapture" 10000;
        /// 0 if a stream does not capture, 1 if it does, 2 if its capture was spoilt.
        fn cuStreamIsCapturing(h_stream: CUstream, capture_status: *mut c_uint) = "cuStreamIsCapturing" 10000;
        /// The graph that a capture makes, and what its next node depends on.
        fn cuStreamGetCaptureInfo_v2(h_stream: CUstream, capture_status: *mut c_uint, id: *mut u64, graph: *mut CUgraph, dependencies: *mut *const CUgraphNode, num_dependencies: *mut usize) = "cuStreamGetCaptureInfo" 11030;
        /// The same with what each edge carries.
        fn cuStreamGetCaptureInfo_v3(h_stream: CUstream, capture_status: *mut c_uint, id: *mut u64, graph: *mut CUgraph, dependencies: *mut *const CUgraphNode, edge_data: *mut *const EdgeData, num_dependencies: *mut usize) = "cuStreamGetCaptureInfo" 12030;
        /// Adds to what the next node of a capture depends on, or replaces it.
        fn cuStreamUpdateCaptureDependencies(h_stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize, flags: c_uint) = "cuStreamUpdateCaptureDependencies" 11030;
        /// The same with what each edge carries.
        fn cuStreamUpdateCaptureDependencies_v2(h_stream: CUstream, dependencies: *mut CUgraphNode, edge_data: *const EdgeData, num_dependencies: usize, flags: c_uint) = "cuStreamUpdateCaptureDependencies" 12030;
        /// Begins a capture that adds to a graph.
        fn cuStreamBeginCaptureToGraph(h_stream: CUstream, h_graph: CUgraph, dependencies: *const CUgraphNode, edge_data: *const EdgeData, num_dependencies: usize, mode: c_uint) = "cuStreamBeginCaptureToGraph" 12030;
        /// What this thread may do while others capture; gives what it might before.
        fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) = "cuThreadExchangeStreamCaptureMode" 10010;

        // Events
        /// A new event.
        fn cuEventCreate(ph_event: *mut CUevent, flags: c_uint) = "cuEventCreate" 2000;
        /// Destroys an event.
        fn cuEventDestroy_v2(h_event: CUevent) = "cuEventDestroy" 4000;
        /// Records an event in a stream.
        fn cuEventRecord(h_event: CUevent, h_stream: CUstream) = "cuEventRecord" 2000;
        /// Waits for an event.
        fn cuEventSynchronize(h_event: CUevent) = "cuEventSynchronize" 2000;
        /// 0 when done, 600 while not.
        fn cuEventQuery(h_event: CUevent) = "cuEventQuery" 2000;
        /// Milliseconds between two events.
        fn cuEventElapsedTime(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent) = "cuEventElapsedTime" 2000;
        /// The same, as CUDA 12.8 has it.
        fn cuEventElapsedTime_v2(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent) = "cuEventElapsedTime" 12080;
        /// Records an event in a stream, from a captured stream as a node of its own.
        fn cuEventRecordWithFlags(h_event: CUevent, h_stream: CUstream, flags: c_uint) = "cuEventRecordWithFlags" 11010;

        // Between processes
        /// What another process opens an event with.
        fn cuIpcGetEventHandle(p_handle: *mut CUipcEventHandle, event: CUevent) = "cuIpcGetEventHandle" 4010;
        /// The event of another process.
        fn cuIpcOpenEventHandle(ph_event: *mut CUevent, handle: CUipcEventHandle) = "cuIpcOpenEventHandle" 4010;
        /// What another process opens device memory with.
        fn cuIpcGetMemHandle(p_handle: *mut CUipcMemHandle, dptr: CUdeviceptr) = "cuIpcGetMemHandle" 4010;
        /// The device memory of another process.
        fn cuIpcOpenMemHandle_v2(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) = "cuIpcOpenMemHandle" 11000;
        /// Ends the use of another process's device memory.
        fn cuIpcCloseMemHandle(dptr: CUdeviceptr) = "cuIpcCloseMemHandle" 4010;

        // Graphs
        /// A new graph without nodes.
        fn cuGraphCreate(ph_graph: *mut CUgraph, flags: c_uint) = "cuGraphCreate" 10000;
        /// Destroys a graph.
        fn cuGraphDestroy(h_graph: CUgraph) = "cuGraphDestroy" 10000;
        /// A copy of a graph.
        fn cuGraphClone(ph_graph_clone: *mut CUgraph, original_graph: CUgraph) = "cuGraphClone" 10000;
        /// The copy of a node in a copy of its graph.
        fn cuGraphNodeFindInClone(ph_node: *mut CUgraphNode, h_original_node: CUgraphNode, h_cloned_graph: CUgraph) = "cuGraphNodeFindInClone" 10000;
        /// Adds a launch.
        fn cuGraphAddKernelNode_v2(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS_v2) = "cuGraphAddKernelNode" 12000;
        /// Adds a copy.
        fn cuGraphAddMemcpyNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext) = "cuGraphAddMemcpyNode" 10000;
        /// Adds a fill.
        fn cuGraphAddMemsetNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, memset_params: *const CUDA_MEMSET_NODE_PARAMS_v1, ctx: CUcontext) = "cuGraphAddMemsetNode" 10000;
        /// Adds a call of a host function.
        fn cuGraphAddHostNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_HOST_NODE_PARAMS_v1) = "cuGraphAddHostNode" 10000;
        /// Adds a node that does nothing.
        fn cuGraphAddEmptyNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize) = "cuGraphAddEmptyNode" 10000;
        /// Adds a node of any kind.
        fn cuGraphAddNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *mut GraphNodeParams) = "cuGraphAddNode" 12020;
        /// The same with what each edge carries.
        fn cuGraphAddNode_v2(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, dependency_data: *const EdgeData, num_dependencies: usize, node_params: *mut GraphNodeParams) = "cuGraphAddNode" 12030;
        /// Takes a node out of its graph, with its edges.
        fn cuGraphDestroyNode(h_node: CUgraphNode) = "cuGraphDestroyNode" 10000;
        /// Gives a node other parameters of its kind.
        fn cuGraphNodeSetParams(h_node: CUgraphNode, node_params: *mut GraphNodeParams) = "cuGraphNodeSetParams" 12020;
        /// Makes a value that kernels of a graph set, and that its conditional nodes read.
        fn cuGraphConditionalHandleCreate(handle_out: *mut u64, h_graph: CUgraph, ctx: CUcontext, default_launch_value: c_uint, flags: c_uint) = "cuGraphConditionalHandleCreate" 12030;
        /// Adds a copy of another graph as one node.
        fn cuGraphAddChildGraphNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, child_graph: CUgraph) = "cuGraphAddChildGraphNode" 10000;
        /// Adds the recording of an event.
        fn cuGraphAddEventRecordNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, event: CUevent) = "cuGraphAddEventRecordNode" 11010;
        /// Adds waiting for an event.
        fn cuGraphAddEventWaitNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, event: CUevent) = "cuGraphAddEventWaitNode" 11010;
        /// Adds an allocation, whose address is known at once.
        fn cuGraphAddMemAllocNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *mut MemAllocNodeParams) = "cuGraphAddMemAllocNode" 11040;
        /// Adds the end of an allocation.
        fn cuGraphAddMemFreeNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, dptr: CUdeviceptr) = "cuGraphAddMemFreeNode" 11040;
        /// Gives back what a device keeps for graphs and none uses.
        fn cuDeviceGraphMemTrim(device: CUdevice) = "cuDeviceGraphMemTrim" 11040;
        /// One number about the memory of graphs.
        fn cuDeviceGetGraphMemAttribute(device: CUdevice, attr: c_uint, value: *mut c_void) = "cuDeviceGetGraphMemAttribute" 11040;
        /// Sets a high-water mark of the memory of graphs to 0.
        fn cuDeviceSetGraphMemAttribute(device: CUdevice, attr: c_uint, value: *mut c_void) = "cuDeviceSetGraphMemAttribute" 11040;
        /// The nodes of a graph, or how many there are.
        fn cuGraphGetNodes(h_graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize) = "cuGraphGetNodes" 10000;
        /// What a node does.
        fn cuGraphNodeGetType(h_node: CUgraphNode, node_type: *mut c_uint) = "cuGraphNodeGetType" 10000;
        /// What a launch in a graph launches.
        fn cuGraphKernelNodeGetParams_v2(h_node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS_v2) = "cuGraphKernelNodeGetParams" 12000;
        /// What a copy copies.
        fn cuGraphMemcpyNodeGetParams(h_node: CUgraphNode, node_params: *mut CUDA_MEMCPY3D) = "cuGraphMemcpyNodeGetParams" 10000;
        /// What a fill fills.
        fn cuGraphMemsetNodeGetParams(h_node: CUgraphNode, node_params: *mut CUDA_MEMSET_NODE_PARAMS_v1) = "cuGraphMemsetNodeGetParams" 10000;
        /// What a host node calls.
        fn cuGraphHostNodeGetParams(h_node: CUgraphNode, node_params: *mut CUDA_HOST_NODE_PARAMS_v1) = "cuGraphHostNodeGetParams" 10000;
        /// The graph of a node that is one.
        fn cuGraphChildGraphNodeGetGraph(h_node: CUgraphNode, ph_graph: *mut CUgraph) = "cuGraphChildGraphNodeGetGraph" 10000;
        /// The event that a node records.
        fn cuGraphEventRecordNodeGetEvent(h_node: CUgraphNode, event_out: *mut CUevent) = "cuGraphEventRecordNodeGetEvent" 11010;
        /// The event that a node waits for.
        fn cuGraphEventWaitNodeGetEvent(h_node: CUgraphNode, event_out: *mut CUevent) = "cuGraphEventWaitNodeGetEvent" 11010;
        /// What a node allocates.
        fn cuGraphMemAllocNodeGetParams(h_node: CUgraphNode, params_out: *mut MemAllocNodeParams) = "cuGraphMemAllocNodeGetParams" 11040;
        /// What a node frees.
        fn cuGraphMemFreeNodeGetParams(h_node: CUgraphNode, dptr_out: *mut CUdeviceptr) = "cuGraphMemFreeNodeGetParams" 11040;
        /// The nodes that depend on none.
        fn cuGraphGetRootNodes(h_graph: CUgraph, root_nodes: *mut CUgraphNode, num_root_nodes: *mut usize) = "cuGraphGetRootNodes" 10000;
        /// The nodes that a node depends on.
        fn cuGraphNodeGetDependencies(h_node: CUgraphNode, dependencies: *mut CUgraphNode, num_dependencies: *mut usize) = "cuGraphNodeGetDependencies" 10000;
        /// The same with what each edge carries.
        fn cuGraphNodeGetDependencies_v2(h_node: CUgraphNode, dependencies: *mut CUgraphNode, edge_data: *mut EdgeData, num_dependencies: *mut usize) = "cuGraphNodeGetDependencies" 12030;
        /// The nodes that depend on a node.
        fn cuGraphNodeGetDependentNodes(h_node: CUgraphNode, dependent_nodes: *mut CUgraphNode, num_dependent_nodes: *mut usize) = "cuGraphNodeGetDependentNodes" 10000;
        /// The same with what each edge carries.
        fn cuGraphNodeGetDependentNodes_v2(h_node: CUgraphNode, dependent_nodes: *mut CUgraphNode, edge_data: *mut EdgeData, num_dependent_nodes: *mut usize) = "cuGraphNodeGetDependentNodes" 12030;
        /// Which node comes after which, or how many such pairs there are.
        fn cuGraphGetEdges(h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, num_edges: *mut usize) = "cuGraphGetEdges" 10000;
        /// The same with what each edge carries.
        fn cuGraphGetEdges_v2(h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edge_data: *mut EdgeData, num_edges: *mut usize) = "cuGraphGetEdges" 12030;
        /// Lets nodes come after others.
        fn cuGraphAddDependencies(h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, num_dependencies: usize) = "cuGraphAddDependencies" 10000;
        /// The same with what each edge carries.
        fn cuGraphAddDependencies_v2(h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edge_data: *const EdgeData, num_dependencies: usize) = "cuGraphAddDependencies" 12030;
        /// Lets them be independent.
        fn cuGraphRemoveDependencies(h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, num_dependencies: usize) = "cuGraphRemoveDependencies" 10000;
        /// The same with what each edge carries.
        fn cuGraphRemoveDependencies_v2(h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edge_data: *const EdgeData, num_dependencies: usize) = "cuGraphRemoveDependencies" 12030;
        /// Makes a graph ready to be launched.
        fn cuGraphInstantiateWithFlags(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, flags: u64) = "cuGraphInstantiateWithFlags" 11040;
        /// The same with what was refused, and where to upload.
        fn cuGraphInstantiateWithParams(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, instantiate_params: *mut InstantiateParams) = "cuGraphInstantiateWithParams" 12000;
        /// The flags that a graph was made ready with.
        fn cuGraphExecGetFlags(h_graph_exec: CUgraphExec, flags: *mut u64) = "cuGraphExecGetFlags" 12000;
        /// Gives a node in a graph that is ready other parameters.
        fn cuGraphExecNodeSetParams(h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *mut GraphNodeParams) = "cuGraphExecNodeSetParams" 12020;
        /// Gives a graph that is ready the parameters of another of the same shape.
        fn cuGraphExecUpdate_v2(h_graph_exec: CUgraphExec, h_graph: CUgraph, result_info: *mut GraphUpdateResult) = "cuGraphExecUpdate" 12000;
        /// Gives a launch in a graph that is ready other parameters.
        fn cuGraphExecKernelNodeSetParams_v2(h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS_v2) = "cuGraphExecKernelNodeSetParams" 12000;
        /// Gives a copy other ends.
        fn cuGraphExecMemcpyNodeSetParams(h_graph_exec: CUgraphExec, h_node: CUgraphNode, copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext) = "cuGraphExecMemcpyNodeSetParams" 10020;
        /// Gives a fill another value or memory.
        fn cuGraphExecMemsetNodeSetParams(h_graph_exec: CUgraphExec, h_node: CUgraphNode, memset_params: *const CUDA_MEMSET_NODE_PARAMS_v1, ctx: CUcontext) = "cuGraphExecMemsetNodeSetParams" 10020;
        /// Gives a call another function.
        fn cuGraphExecHostNodeSetParams(h_graph_exec: CUgraphExec, h_node: CUgraphNode, node_params: *const CUDA_HOST_NODE_PARAMS_v1) = "cuGraphExecHostNodeSetParams" 10020;
        /// Gives a graph within the graph other parameters.
        fn cuGraphExecChildGraphNodeSetParams(h_graph_exec: CUgraphExec, h_node: CUgraphNode, child_graph: CUgraph) = "cuGraphExecChildGraphNodeSetParams" 11010;
        /// Lets another event be recorded.
        fn cuGraphExecEventRecordNodeSetEvent(h_graph_exec: CUgraphExec, h_node: CUgraphNode, event: CUevent) = "cuGraphExecEventRecordNodeSetEvent" 11010;
        /// Lets another event be waited for.
        fn cuGraphExecEventWaitNodeSetEvent(h_graph_exec: CUgraphExec, h_node: CUgraphNode, event: CUevent) = "cuGraphExecEventWaitNodeSetEvent" 11010;
        /// Lets launches pass a node over, or not any more.
        fn cuGraphNodeSetEnabled(h_graph_exec: CUgraphExec, h_node: CUgraphNode, is_enabled: c_uint) = "cuGraphNodeSetEnabled" 11060;
        /// Whether launches run a node.
        fn cuGraphNodeGetEnabled(h_graph_exec: CUgraphExec, h_node: CUgraphNode, is_enabled: *mut c_uint) = "cuGraphNodeGetEnabled" 11060;
        /// Puts a graph on the device ahead of its first launch.
        fn cuGraphUpload(h_graph_exec: CUgraphExec, h_stream: CUstream) = "cuGraphUpload" 11010;
        /// Launches a graph.
        fn cuGraphLaunch(h_graph_exec: CUgraphExec, h_stream: CUstream) = "cuGraphLaunch" 10000;
        /// Destroys a graph that is ready, once its launches are done.
        fn cuGraphExecDestroy(h_graph_exec: CUgraphExec) = "cuGraphExecDestroy" 10000;
        /// Writes a graph as a drawing for Graphviz.
        fn cuGraphDebugDotPrint(h_graph: CUgraph, path: *const c_char, flags: c_uint) = "cuGraphDebugDotPrint" 11030;
        /// Counts references to an object of the caller's, which is destroyed with the last.
        fn cuUserObjectCreate(object_out: *mut CUuserObject, ptr: *mut c_void, destroy: CUhostFn, initial_refcount: c_uint, flags: c_uint) = "cuUserObjectCreate" 11030;
        /// Adds references.
        fn cuUserObjectRetain(object: CUuserObject, count: c_uint) = "cuUserObjectRetain" 11030;
        /// Takes references away.
        fn cuUserObjectRelease(object: CUuserObject, count: c_uint) = "cuUserObjectRelease" 11030;
        /// Lets a graph have references, and all that is made of it.
        fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) = "cuGraphRetainUserObject" 11030;
        /// Takes references from a graph.
        fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) = "cuGraphReleaseUserObject" 11030;

        // OpenGL
        /// The devices of the current OpenGL context.
        fn cuGLGetDevices_v2(p_cuda_device_count: *mut c_uint, p_cuda_devices: *mut CUdevice, cuda_device_count: c_uint, device_list: c_uint) = "cuGLGetDevices" 6050;
        /// Registers a buffer object.
        fn cuGraphicsGLRegisterBuffer(p_cuda_resource: *mut CUgraphicsResource, buffer: c_uint, flags: c_uint) = "cuGraphicsGLRegisterBuffer" 3000;
        /// Registers a texture or a renderbuffer.
        fn cuGraphicsGLRegisterImage(p_cuda_resource: *mut CUgraphicsResource, image: c_uint, target: c_uint, flags: c_uint) = "cuGraphicsGLRegisterImage" 3000;
        /// Ends a registration.
        fn cuGraphicsUnregisterResource(resource: CUgraphicsResource) = "cuGraphicsUnregisterResource" 3000;
        /// Says what kernels do with it from the next mapping on.
        fn cuGraphicsResourceSetMapFlags_v2(resource: CUgraphicsResource, flags: c_uint) = "cuGraphicsResourceSetMapFlags" 6050;
        /// Takes resources from OpenGL.
        fn cuGraphicsMapResources(count: c_uint, resources: *mut CUgraphicsResource, h_stream: CUstream) = "cuGraphicsMapResources" 3000;
        /// Gives them back.
        fn cuGraphicsUnmapResources(count: c_uint, resources: *mut CUgraphicsResource, h_stream: CUstream) = "cuGraphicsUnmapResources" 3000;
        /// Where a mapped buffer is.
        fn cuGraphicsResourceGetMappedPointer_v2(p_dev_ptr: *mut CUdeviceptr, p_size: *mut usize, resource: CUgraphicsResource) = "cuGraphicsResourceGetMappedPointer" 3020;
        /// One layer and level of a mapped image.
        fn cuGraphicsSubResourceGetMappedArray(p_array: *mut CUarray, resource: CUgraphicsResource, array_index: c_uint, mip_level: c_uint) = "cuGraphicsSubResourceGetMappedArray" 3000;
        /// All levels of a mapped image.
        fn cuGraphicsResourceGetMappedMipmappedArray(p_mipmapped_array: *mut CUmipmappedArray, resource: CUgraphicsResource) = "cuGraphicsResourceGetMappedMipmappedArray" 5000;

        // Profiler
        /// Starts profiling, where a tool waits for it.
        fn cuProfilerStart() = "cuProfilerStart" 4000;
        /// Stops profiling.
        fn cuProfilerStop() = "cuProfilerStop" 4000;

        // The CPU device alone
        /// Text of the last fault on the CPU device: kernel, thread, address, PTX line.
        fn ptxkitGetLastFault(buffer: *mut c_char, len: usize) = "ptxkitGetLastFault" 0;
        }
    };
}
