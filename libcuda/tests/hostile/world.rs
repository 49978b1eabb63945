//! Objects of each kind, of which some are freed, and memory that pointers point to.

use std::any::TypeId;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use api::*;
use cuda::*;
use cudarc::driver::sys::CUarray_st;

pub const KERNELS: &CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .global .align 8 .b8 g[64];\n.global .texref t;\n.global .surfref s;\n\
    .visible .entry k(.param .u64 p, .param .u32 n) { ret; }\n";

pub struct World {
    /// Handles that are good, or were when they were made, by the type that they point to.
    pub handles: Vec<(TypeId, usize)>,
    /// Handles that are freed.
    pub freed: Vec<usize>,
    /// Addresses of device memory, of which the last is freed.
    pub numbers: Vec<u64>,
}

macro_rules! make {
    ($name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: pointers are to variables of the types that the entry asks for.
        assert_eq!(unsafe { $name($($arg),*) }, 0, stringify!($name))
    };
}

impl World {
    pub fn new() -> World {
        let mut world = World {
            handles: Vec::new(),
            freed: Vec::new(),
            numbers: Vec::new(),
        };
        let mut context: CUcontext = null_mut();
        make!(cuInit(0));
        // A call before may have left a stream in a capture, which forbids calls in other modes.
        let mut relaxed = 2;
        make!(cuThreadExchangeStreamCaptureMode(&mut relaxed));
        make!(cuCtxCreate_v2(&mut context, 0, 0));
        world.add(context);
        world.streams();
        world.code();
        world.memory();
        world.arrays();
        world.graphs();
        world
    }

    /// Whether the thread has a context, without which entries refuse everything.
    pub fn has_context() -> bool {
        let mut context: CUcontext = null_mut();
        make!(cuCtxGetCurrent(&mut context));
        !context.is_null()
    }

    pub fn add<T: 'static>(&mut self, handle: *mut T) {
        self.handles.push((TypeId::of::<T>(), handle.addr()));
    }

    fn free<T>(&mut self, handle: *mut T) {
        self.freed.push(handle.addr());
    }

    fn streams(&mut self) {
        let (mut stream, mut freed) = (null_mut(), null_mut());
        make!(cuStreamCreate(&mut stream, 1));
        make!(cuStreamCreate(&mut freed, 1));
        make!(cuStreamDestroy_v2(freed));
        self.add(stream);
        self.free(freed);
        let (mut event, mut freed) = (null_mut(), null_mut());
        make!(cuEventCreate(&mut event, 0));
        make!(cuEventCreate(&mut freed, 0));
        make!(cuEventDestroy_v2(freed));
        self.add(event);
        self.free(freed);
    }

    fn code(&mut self) {
        let (mut module, mut freed, mut function) = (null_mut(), null_mut(), null_mut());
        make!(cuModuleLoadData(&mut module, KERNELS.as_ptr().cast()));
        make!(cuModuleLoadData(&mut freed, KERNELS.as_ptr().cast()));
        make!(cuModuleGetFunction(&mut function, freed, c"k".as_ptr()));
        self.free(function);
        make!(cuModuleUnload(freed));
        make!(cuModuleGetFunction(&mut function, module, c"k".as_ptr()));
        self.add(module);
        self.free(freed);
        self.add(function);
        let (mut texture, mut surface) = (null_mut(), null_mut());
        make!(cuModuleGetTexRef(&mut texture, module, c"t".as_ptr()));
        make!(cuModuleGetSurfRef(&mut surface, module, c"s".as_ptr()));
        self.add(texture);
        self.add(surface);
        let (mut library, mut kernel, mut link) = (null_mut(), null_mut(), null_mut());
        make!(cuLibraryLoadData(
            &mut library,
            KERNELS.as_ptr().cast(),
            null_mut(),
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            0
        ));
        make!(cuLibraryGetKernel(&mut kernel, library, c"k".as_ptr()));
        make!(cuLinkCreate_v2(0, null_mut(), null_mut(), &mut link));
        self.add(library);
        self.add(kernel);
        self.add(link);
    }

    fn memory(&mut self) {
        let (mut device, mut managed, mut freed, mut reserved) = (0, 0, 0, 0);
        make!(cuMemAlloc_v2(&mut device, 4096));
        make!(cuMemAllocManaged(&mut managed, 4096, 1));
        make!(cuMemAlloc_v2(&mut freed, 4096));
        make!(cuMemFree_v2(freed));
        make!(cuMemAddressReserve(&mut reserved, 2 << 20, 0, 0, 0));
        let mut physical = 0;
        let of = MemAllocationProp {
            alloc_type: 1,
            handle_types: 0,
            location: MemLocation { kind: 1, id: 0 },
            win32_meta: null_mut(),
            compression: 0,
            gpu_direct_rdma: 0,
            usage: 0,
            reserved: [0; 4],
        };
        make!(cuMemCreate(&mut physical, 2 << 20, &of, 0));
        let mut pool: CUmemoryPool = null_mut();
        make!(cuDeviceGetDefaultMemPool(&mut pool, 0));
        self.add(pool);
        self.handles.push((TypeId::of::<u64>(), physical as usize));
        self.numbers
            .extend([device, managed, reserved, device + 4095, freed]);
    }

    fn arrays(&mut self) {
        let of = ArrayDesc {
            width: 16,
            height: 16,
            format: 0x20,
            channels: 1,
        };
        let (mut array, mut freed) = (null_mut(), null_mut());
        make!(cuArrayCreate_v2(&mut array, &of));
        make!(cuArrayCreate_v2(&mut freed, &of));
        make!(cuArrayDestroy(freed));
        self.add::<CUarray_st>(array);
        self.free::<CUarray_st>(freed);
        let of = Array3dDesc {
            width: 16,
            height: 16,
            depth: 0,
            format: 0x20,
            channels: 1,
            flags: 0,
        };
        let mut mipmapped: CUmipmappedArray = null_mut();
        make!(cuMipmappedArrayCreate(&mut mipmapped, &of, 3));
        self.add(mipmapped);
    }

    fn graphs(&mut self) {
        let (mut graph, mut freed, mut ready) = (null_mut(), null_mut(), null_mut());
        make!(cuGraphCreate(&mut graph, 0));
        make!(cuGraphCreate(&mut freed, 0));
        let (mut first, mut second, mut gone) = (null_mut(), null_mut(), null_mut());
        make!(cuGraphAddEmptyNode(&mut gone, freed, null(), 0));
        make!(cuGraphDestroy(freed));
        make!(cuGraphAddEmptyNode(&mut first, graph, null(), 0));
        make!(cuGraphAddEmptyNode(&mut second, graph, &first, 1));
        make!(cuGraphInstantiateWithFlags(&mut ready, graph, 0));
        self.add(graph);
        self.add(first);
        self.add(second);
        self.add(ready);
        self.free(freed);
        self.free(gone);
        let mut object: CUuserObject = null_mut();
        make!(cuUserObjectCreate(
            &mut object,
            null_mut(),
            Some(nothing),
            1,
            1
        ));
        self.add(object);
    }
}

/// A host function.
pub unsafe extern "C" fn nothing(_: *mut c_void) {}

/// What the CPU device says of the last failure.
pub fn last_fault() -> String {
    let mut text = vec![0_u8; 2000];
    // SAFETY: the buffer has this many bytes.
    unsafe { ptxkitGetLastFault(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&text[..end.unwrap_or(0)]).into_owned()
}
