//! OpenGL: no OpenGL context is of the CPU device, so there is nothing to share.

use std::ffi::c_uint;

use super::entry::entries;
use crate::state::context;

use crate::state::status::{Result, Status};
use api::{CUarray, CUdevice, CUdeviceptr, CUgraphicsResource, CUmipmappedArray, CUstream};

fn not_shared<T>() -> Result<T> {
    context::working()?;
    Err(Status::NOT_SUPPORTED.because("the CPU device shares nothing with OpenGL"))
}

/// No resource was ever registered, so no handle is one.
fn unknown<T>() -> Result<T> {
    context::working()?;
    Err(Status::INVALID_HANDLE.because("no registered graphics resource has this handle"))
}

entries! {
    fn cuGLGetDevices_v2(
        _count: *mut c_uint,
        _devices: *mut CUdevice,
        _capacity: c_uint,
        _list: c_uint,
    ) {
        Err(Status::NOT_SUPPORTED.because("the CPU device shares nothing with OpenGL"))
    }

    fn cuGraphicsGLRegisterBuffer(
        _resource: *mut CUgraphicsResource,
        _buffer: c_uint,
        _flags: c_uint,
    ) {
        not_shared()
    }

    fn cuGraphicsGLRegisterImage(
        _resource: *mut CUgraphicsResource,
        _image: c_uint,
        _target: c_uint,
        _flags: c_uint,
    ) {
        not_shared()
    }

    fn cuGraphicsUnregisterResource(_resource: CUgraphicsResource) {
        unknown()
    }

    fn cuGraphicsResourceSetMapFlags_v2(_resource: CUgraphicsResource, _flags: c_uint) {
        unknown()
    }

    fn cuGraphicsMapResources(
        _count: c_uint,
        _resources: *mut CUgraphicsResource,
        _stream: CUstream,
    ) {
        unknown()
    }

    fn cuGraphicsUnmapResources(
        _count: c_uint,
        _resources: *mut CUgraphicsResource,
        _stream: CUstream,
    ) {
        unknown()
    }

    fn cuGraphicsResourceGetMappedPointer_v2(
        _address: *mut CUdeviceptr,
        _bytes: *mut usize,
        _resource: CUgraphicsResource,
    ) {
        unknown()
    }

    fn cuGraphicsSubResourceGetMappedArray(
        _array: *mut CUarray,
        _resource: CUgraphicsResource,
        _layer: c_uint,
        _level: c_uint,
    ) {
        unknown()
    }

    fn cuGraphicsResourceGetMappedMipmappedArray(
        _levels: *mut CUmipmappedArray,
        _resource: CUgraphicsResource,
    ) {
        unknown()
    }
}
