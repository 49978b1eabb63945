//! Batches of copies, made one after the other: each uses all cores by itself.

use super::entry::entries;
use crate::observe::Direction;
use crate::sanitizer::fresh;
use crate::state::array;
use crate::state::copy::{CopyMode, Endpoint, perform};
use crate::state::region::{self, EndpointDesc};
use crate::state::status::{Failure, Result, Status};
use crate::state::stream;
use crate::state::user_pointer::UserPointer;
use api::{BoxCopy, CUdeviceptr, CUstream, CopyAttributes, CopyOperand};

/// What is wrong, and with which copy, if it is one.
type Wrong = (Option<usize>, Failure);

fn of_all(failure: impl Into<Failure>) -> Wrong {
    (None, failure.into())
}

/// Every set of attributes is known, and begins after the one before it.
fn check_attributes(
    attributes: UserPointer<CopyAttributes>,
    firsts: UserPointer<usize>,
    sets: usize,
    count: usize,
) -> Result {
    let (firsts, attributes) = (firsts.array(sets)?, attributes.array(sets)?);
    let mut next = 0;
    for set in 0..sets {
        let (first, attributes) = (firsts.get_at(set)?, attributes.get_at(set)?);
        let in_order = if set == 0 { first == 0 } else { first >= next };
        if !in_order
            || first >= count
            || !matches!(attributes.source_order, 1..=3)
            || attributes.flags > 1
        {
            return Err(Status::INVALID_VALUE.because(format!(
                "set {set} of the attributes of a batch is not valid"
            )));
        }
        next = first + 1;
    }
    match sets {
        0 => Err(Status::INVALID_VALUE.because("a batch of copies has attributes")),
        _ => Ok(()),
    }
}

fn copies(
    to: UserPointer<CUdeviceptr>,
    from: UserPointer<CUdeviceptr>,
    bytes: UserPointer<usize>,
    count: usize,
    check: impl FnOnce() -> Result,
    stream: usize,
) -> Result<(), Wrong> {
    let stream = stream::find(stream).map_err(of_all)?;
    if count == 0 || stream.1.is_default() {
        return Err(of_all(Status::INVALID_VALUE.because(
            "a batch has copies, and a stream that is not the default one",
        )));
    }
    check().map_err(of_all)?;
    stream
        .1
        .refuse_call("a batch of copies cannot be captured")
        .map_err(of_all)?;
    let bytes = bytes.array(count).map_err(of_all)?;
    let to = to.array(count).map_err(of_all)?;
    let from = from.array(count).map_err(of_all)?;
    let mut all = Vec::new();
    for index in 0..count {
        let endpoints = || {
            let bytes = bytes.get_at(index)?;
            let [to, from] = [to.get_at(index)?, from.get_at(index)?];
            if bytes == 0 {
                return Err(Status::INVALID_VALUE.because("a copy of a batch has 0 bytes"));
            }
            Ok((
                Endpoint::any(to, bytes)?,
                Endpoint::any(from, bytes)?,
                bytes,
            ))
        };
        all.push(endpoints().map_err(|failure: Failure| (Some(index), failure))?);
    }
    let pageable = all.iter().any(|(to, from, _)| to.pageable || from.pageable);
    let whole = all
        .iter()
        .fold(0_usize, |sum, (.., bytes)| sum.saturating_add(*bytes));
    perform(
        &stream,
        CopyMode::Asynchronous,
        pageable,
        whole,
        || Direction::Batch,
        move || {
            for (to, from, bytes) in &all {
                // SAFETY: both endpoints were checked, or the caller answers for them. Memory that
                // is freed meanwhile stays mapped with the arena. `copy` allows overlaps.
                unsafe { std::ptr::copy(from.pointer(0), to.pointer(0), *bytes) }
                fresh::copied(to.address, from.address, *bytes as u64);
            }
        },
    )
    .map_err(of_all)
}

/// An end of a copy of boxes, whose numbers count values of `size` bytes.
fn end_of(operand: &CopyOperand, size: usize) -> Result<EndpointDesc> {
    let [first, second, third] = operand.numbers;
    let bytes = |count: u64| {
        usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(size))
            .ok_or_else(|| Status::INVALID_VALUE.because("an end of a copy is beyond any memory"))
    };
    let desc = EndpointDesc {
        kind: UNIFIED,
        host: 0,
        device: operand.place,
        array: 0,
        origin: [0; 3],
        pitch: 0,
        rows: 0,
    };
    match operand.kind {
        MEMORY => Ok(EndpointDesc {
            pitch: bytes(first)?,
            rows: second as usize,
            ..desc
        }),
        _ => Ok(EndpointDesc {
            kind: ARRAY,
            array: operand.place as usize,
            origin: [bytes(first)?, second as usize, third as usize],
            ..desc
        }),
    }
}

/// `CU_MEMCPY_OPERAND_TYPE_POINTER`, `_ARRAY`
const MEMORY: u32 = 1;
const ARRAY_OPERAND: u32 = 2;
/// `CU_MEMORYTYPE_ARRAY`, `_UNIFIED`
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// Checks all copies, and then makes them.
fn boxes(
    count: usize,
    copies: UserPointer<BoxCopy>,
    flags: u64,
    stream: usize,
) -> Result<(), Wrong> {
    let stream = stream::find(stream).map_err(of_all)?;
    if count == 0 || flags != 0 || stream.1.is_default() {
        return Err(of_all(Status::INVALID_VALUE.because(
            "a batch has copies, flags of 0, and a stream that is not the default one",
        )));
    }
    stream
        .1
        .refuse_call("a batch of copies cannot be captured")
        .map_err(of_all)?;
    let copies = copies.array(count).map_err(of_all)?;
    let mut all = Vec::new();
    for index in 0..count {
        let described = || {
            let copy = copies.get_at(index)?;
            let operands = [&copy.from, &copy.to];
            let known = operands
                .iter()
                .all(|operand| matches!(operand.kind, MEMORY | ARRAY_OPERAND));
            if !known || !matches!(copy.source_order, 1..=3) || copy.flags > 1 {
                return Err(Status::INVALID_VALUE.because("unknown attributes of a copy"));
            }
            if copy.extent.contains(&0) {
                return Err(Status::INVALID_VALUE.because("a box of a batch has texels"));
            }
            let mut size = 1;
            for operand in operands {
                if operand.kind == ARRAY_OPERAND {
                    size = array::find(operand.place as usize)?.texels.texel_bytes();
                }
            }
            let [from, to] = operands.map(|operand| end_of(operand, size));
            let [width, height, depth] = copy.extent;
            let width = width.checked_mul(size).ok_or(Status::INVALID_VALUE)?;
            let (from, to, extent) = (from?, to?, [width, height, depth]);
            region::check(&from, &to, extent)?;
            Ok((from, to, extent))
        };
        all.push(described().map_err(|failure: Failure| (Some(index), failure))?);
    }
    for (from, to, extent) in &all {
        region::copy(&stream, CopyMode::Asynchronous, from, to, *extent).map_err(of_all)?;
    }
    Ok(())
}

entries! {
    fn cuMemcpy3DBatchAsync_v2(
        count: usize,
        copies: *mut BoxCopy,
        flags: u64,
        stream: CUstream,
    ) {
        boxes(count, copies, flags, stream.addr()).map_err(|(_, failure)| failure)
    }

    /// The same, and which copy is wrong.
    fn cuMemcpy3DBatchAsync(
        count: usize,
        copies: *mut BoxCopy,
        failed: *mut usize,
        flags: u64,
        stream: CUstream,
    ) {
        boxes(count, copies, flags, stream.addr()).map_err(|(index, failure)| {
            failed.put_optional(index.unwrap_or(usize::MAX));
            failure
        })
    }

    fn cuMemcpyBatchAsync_v2(
        to: *mut CUdeviceptr,
        from: *mut CUdeviceptr,
        bytes: *mut usize,
        count: usize,
        attributes: *mut CopyAttributes,
        firsts: *mut usize,
        sets: usize,
        stream: CUstream,
    ) {
        let check = || check_attributes(attributes, firsts, sets, count);
        copies(to, from, bytes, count, check, stream.addr()).map_err(|(_, failure)| failure)
    }

    /// The same, and which copy is wrong.
    fn cuMemcpyBatchAsync(
        to: *mut CUdeviceptr,
        from: *mut CUdeviceptr,
        bytes: *mut usize,
        count: usize,
        attributes: *mut CopyAttributes,
        firsts: *mut usize,
        sets: usize,
        failed: *mut usize,
        stream: CUstream,
    ) {
        let check = || check_attributes(attributes, firsts, sets, count);
        copies(to, from, bytes, count, check, stream.addr()).map_err(|(index, failure)| {
            failed.put_optional(index.unwrap_or(usize::MAX));
            failure
        })
    }
}
