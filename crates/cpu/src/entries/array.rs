//! Arrays and mipmapped arrays, and their copies of single rows; those of
//! rectangles and boxes are in `region`.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use super::entry::entries;
use crate::state::array::{self, Array};
use crate::state::copy::{CopyMode, Endpoint, copy, host};
use crate::state::handle::pointer;
use crate::state::status::{Failure, Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, stream};
use api::{
    Array3dDesc, ArrayDesc, ArrayRequirements, CUarray, CUarrayMapInfo, CUdevice, CUdeviceptr,
    CUmipmappedArray, CUstream, SparseProperties,
};

fn create(result: UserPointer<CUarray>, desc: Array3dDesc) -> Result {
    context::working()?;
    if result.is_null() {
        return Err(Status::INVALID_VALUE.because("the pointer for the array is null"));
    }
    result.put(pointer(array::create(desc)?))
}

fn find<H>(array: UserPointer<H>) -> Result<Arc<Array>> {
    context::working()?;
    array::find(array.addr())
}

/// `bytes` bytes of the first row of an array from `offset` on.
fn row<H>(array: UserPointer<H>, offset: usize, bytes: usize) -> Result<Endpoint> {
    if array.is_null() {
        return Err(Status::INVALID_VALUE.because("the array is null"));
    }
    array::row(&*find(array)?, offset, bytes)
}

fn not_sparse() -> Failure {
    Status::INVALID_VALUE.because("the CPU device has no sparse arrays, so the array is none")
}

fn not_deferred() -> Failure {
    Status::INVALID_VALUE.because("the array has memory: the CPU device maps none later")
}

entries! {
    capture_unsafe cuArrayCreate_v2(array: *mut CUarray, params: *const ArrayDesc) {
        let desc = params.get()?;
        create(array, Array3dDesc {
            width: desc.width,
            height: desc.height,
            depth: 0,
            format: desc.format,
            channels: desc.channels,
            flags: 0,
        })
    }

    capture_unsafe cuArray3DCreate_v2(array: *mut CUarray, params: *const Array3dDesc) {
        create(array, params.get()?)
    }

    capture_unsafe cuArrayDestroy(array: CUarray) {
        array::destroy(array.addr())
    }

    fn cuArrayGetDescriptor_v2(params: *mut ArrayDesc, array: CUarray) {
        let Array3dDesc { width, height, format, channels, .. } = find(array)?.texels.described;
        params.put(ArrayDesc { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2(params: *mut Array3dDesc, array: CUarray) {
        params.put(find(array)?.texels.described)
    }

    /// No format here has planes.
    fn cuArrayGetPlane(_plane: *mut CUarray, array: CUarray, _index: c_uint) {
        find(array)?;
        Err(Status::INVALID_VALUE.because("the array's format has no planes"))
    }

    fn cuArrayGetSparseProperties(_properties: *mut SparseProperties, array: CUarray) {
        find(array)?;
        Err(not_sparse())
    }

    fn cuMipmappedArrayGetSparseProperties(
        _properties: *mut SparseProperties,
        mipmap: CUmipmappedArray,
    ) {
        array::find_mipmapped(mipmap.addr())?;
        Err(not_sparse())
    }

    fn cuArrayGetMemoryRequirements(
        _requirements: *mut ArrayRequirements,
        array: CUarray,
        _device: CUdevice,
    ) {
        find(array)?;
        Err(not_deferred())
    }

    fn cuMipmappedArrayGetMemoryRequirements(
        _requirements: *mut ArrayRequirements,
        mipmap: CUmipmappedArray,
        _device: CUdevice,
    ) {
        array::find_mipmapped(mipmap.addr())?;
        Err(not_deferred())
    }

    fn cuMemMapArrayAsync(_maps: *mut CUarrayMapInfo, _count: c_uint, _stream: CUstream) {
        Err(Status::NOT_SUPPORTED.because("the CPU device has no sparse arrays"))
    }

    capture_unsafe cuMipmappedArrayCreate(
        array: *mut CUmipmappedArray,
        params: *const Array3dDesc,
        levels: c_uint,
    ) {
        context::working()?;
        let desc = params.get()?;
        if array.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the array is null"));
        }
        array.put(pointer(array::create_mipmapped(desc, levels)?))
    }

    fn cuMipmappedArrayGetLevel(level: *mut CUarray, array: CUmipmappedArray, index: c_uint) {
        context::working()?;
        let found = array::find_mipmapped(array.addr())?;
        match found.arrays.get(index as usize) {
            Some(array) => level.put(pointer(*array)),
            None => Err(Status::INVALID_VALUE.because("the mipmapped array has no such level")),
        }
    }

    capture_unsafe cuMipmappedArrayDestroy(array: CUmipmappedArray) {
        array::destroy_mipmapped(array.addr())
    }

    fn cuMemcpyHtoA_v2(to: CUarray, offset: usize, from: *const c_void, bytes: usize) {
        let to = row(to, offset, bytes)?;
        copy(&stream::default_stream()?, CopyMode::Synchronous, to, host(from, bytes)?, bytes)
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, offset: usize, bytes: usize) {
        let from = row(from, offset, bytes)?;
        copy(&stream::default_stream()?, CopyMode::Synchronous, host(to, bytes)?, from, bytes)
    }

    fn cuMemcpyDtoA_v2(to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) {
        let to = row(to, offset, bytes)?;
        copy(&stream::default_stream()?, CopyMode::Synchronous, to, Endpoint::device(from, bytes)?, bytes)
    }

    fn cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) {
        let from = row(from, offset, bytes)?;
        copy(&stream::default_stream()?, CopyMode::Synchronous, Endpoint::device(to, bytes)?, from, bytes)
    }

    fn cuMemcpyAtoA_v2(
        to: CUarray,
        to_offset: usize,
        from: CUarray,
        from_offset: usize,
        bytes: usize,
    ) {
        let to = row(to, to_offset, bytes)?;
        let from = row(from, from_offset, bytes)?;
        copy(&stream::default_stream()?, CopyMode::Synchronous, to, from, bytes)
    }

    fn cuMemcpyHtoAAsync_v2(
        to: CUarray,
        offset: usize,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) {
        let to = row(to, offset, bytes)?;
        copy(&stream::find(stream.addr())?, CopyMode::Asynchronous, to, host(from, bytes)?, bytes)
    }

    fn cuMemcpyAtoHAsync_v2(
        to: *mut c_void,
        from: CUarray,
        offset: usize,
        bytes: usize,
        stream: CUstream,
    ) {
        let from = row(from, offset, bytes)?;
        copy(&stream::find(stream.addr())?, CopyMode::Asynchronous, host(to, bytes)?, from, bytes)
    }
}
