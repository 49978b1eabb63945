//! Copies and fills of consecutive bytes.

use std::ffi::{c_uint, c_void};

use super::entry::entries;
use crate::state::copy::{CopyMode, Endpoint, copy, fill, host};
use crate::state::stream;
use api::{CUdeviceptr, CUstream};

entries! {
    fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        copy(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            Endpoint::any(to, bytes)?,
            Endpoint::any(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            Endpoint::any(to, bytes)?,
            Endpoint::any(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        copy(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            Endpoint::device(to, bytes)?,
            host(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        copy(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            host(to, bytes)?,
            Endpoint::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        copy(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            Endpoint::device(to, bytes)?,
            Endpoint::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            Endpoint::device(to, bytes)?,
            host(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            host(to, bytes)?,
            Endpoint::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            Endpoint::device(to, bytes)?,
            Endpoint::device(from, bytes)?,
            bytes,
        )
    }

    fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) {
        fill(&stream::default_stream()?, CopyMode::Synchronous, to, 0, value, count, 1)
    }

    fn cuMemsetD16_v2(to: CUdeviceptr, value: u16, count: usize) {
        fill(&stream::default_stream()?, CopyMode::Synchronous, to, 0, value, count, 1)
    }

    fn cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, count: usize) {
        fill(&stream::default_stream()?, CopyMode::Synchronous, to, 0, value, count, 1)
    }

    fn cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        fill(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            to,
            0,
            value,
            count,
            1,
        )
    }

    fn cuMemsetD16Async(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        fill(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            to,
            0,
            value,
            count,
            1,
        )
    }

    fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) {
        fill(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            to,
            0,
            value,
            count,
            1,
        )
    }

    fn cuMemsetD2D8Async(
        to: CUdeviceptr,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D8_v2(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        fill(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D16Async(
        to: CUdeviceptr,
        pitch: usize,
        value: u16,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D16_v2(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        fill(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D32Async(
        to: CUdeviceptr,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill(
            &stream::find(stream.addr())?,
            CopyMode::Asynchronous,
            to,
            pitch,
            value,
            width,
            height,
        )
    }

    fn cuMemsetD2D32_v2(to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) {
        fill(
            &stream::default_stream()?,
            CopyMode::Synchronous,
            to,
            pitch,
            value,
            width,
            height,
        )
    }
}
