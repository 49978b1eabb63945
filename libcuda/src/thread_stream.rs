//! Copies and fills that name no stream, in the form for the default stream of the thread: the
//! symbols that a program links which is compiled for `CUDA_API_PER_THREAD_DEFAULT_STREAM`. Those
//! of entries that take a stream, `…_ptsz`, stand beside the entries.
//!
//! They run in the legacy stream, which waits for those of the threads.

use std::ffi::{c_int, c_uint, c_void};

use api::*;

macro_rules! forms {
    ($( fn $name:ident($($arg:ident: $ty:ty),*) = $legacy:ident; )*) => {
        $(
            #[doc = concat!("As [`", stringify!($legacy), "`](crate::", stringify!($legacy), ").")]
            ///
            /// # Safety
            /// The arguments must be what the entry's CUDA documentation asks for.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                // SAFETY: the caller's word for this entry is that for the other.
                unsafe { super::$legacy($($arg),*) }
            }
        )*
    };
}

forms! {
    fn cuMemcpy_ptds(dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize) = cuMemcpy;
    fn cuMemcpy2DUnaligned_v2_ptds(p_copy: *const CUDA_MEMCPY2D) = cuMemcpy2DUnaligned_v2;
    fn cuMemcpy2D_v2_ptds(p_copy: *const CUDA_MEMCPY2D) = cuMemcpy2D_v2;
    fn cuMemcpy3DPeer_ptds(p_copy: *const CUDA_MEMCPY3D_PEER) = cuMemcpy3DPeer;
    fn cuMemcpy3D_v2_ptds(p_copy: *const CUDA_MEMCPY3D) = cuMemcpy3D_v2;
    fn cuMemcpyAtoA_v2_ptds(dst_array: CUarray, dst_offset: usize, src_array: CUarray, src_offset: usize, byte_count: usize) = cuMemcpyAtoA_v2;
    fn cuMemcpyAtoD_v2_ptds(dst_device: CUdeviceptr, src_array: CUarray, src_offset: usize, byte_count: usize) = cuMemcpyAtoD_v2;
    fn cuMemcpyAtoH_v2_ptds(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize) = cuMemcpyAtoH_v2;
    fn cuMemcpyDtoA_v2_ptds(dst_array: CUarray, dst_offset: usize, src_device: CUdeviceptr, byte_count: usize) = cuMemcpyDtoA_v2;
    fn cuMemcpyDtoD_v2_ptds(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize) = cuMemcpyDtoD_v2;
    fn cuMemcpyDtoH_v2_ptds(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize) = cuMemcpyDtoH_v2;
    fn cuMemcpyHtoA_v2_ptds(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize) = cuMemcpyHtoA_v2;
    fn cuMemcpyHtoD_v2_ptds(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize) = cuMemcpyHtoD_v2;
    fn cuMemcpyPeer_ptds(dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr, src_context: CUcontext, byte_count: usize) = cuMemcpyPeer;
    fn cuMemsetD16_v2_ptds(dst_device: CUdeviceptr, us: u16, n: usize) = cuMemsetD16_v2;
    fn cuMemsetD2D16_v2_ptds(dst_device: CUdeviceptr, dst_pitch: usize, us: u16, width: usize, height: usize) = cuMemsetD2D16_v2;
    fn cuMemsetD2D32_v2_ptds(dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize, height: usize) = cuMemsetD2D32_v2;
    fn cuMemsetD2D8_v2_ptds(dst_device: CUdeviceptr, dst_pitch: usize, uc: u8, width: usize, height: usize) = cuMemsetD2D8_v2;
    fn cuMemsetD32_v2_ptds(dst_device: CUdeviceptr, ui: c_uint, n: usize) = cuMemsetD32_v2;
    fn cuMemsetD8_v2_ptds(dst_device: CUdeviceptr, uc: u8, n: usize) = cuMemsetD8_v2;
}
