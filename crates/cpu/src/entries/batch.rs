//! Batches of copies, done one after the other: each uses all cores by itself.

use super::copy::{Side, When, perform};
use super::entry::{Given, entries};
use super::status::{Answer, Failure, Status};
use super::stream;
use api::{CUdeviceptr, CUstream, CopyAttributes};

/// What is wrong, and with which copy, if with one.
type Wrong = (Option<usize>, Failure);

fn of_all(failure: impl Into<Failure>) -> Wrong {
    (None, failure.into())
}

/// Every set of attributes is known, and begins after the one before it.
fn check_attributes(
    attributes: Given<CopyAttributes>,
    firsts: Given<usize>,
    sets: usize,
    count: usize,
) -> Answer {
    let mut next = 0;
    for set in 0..sets {
        let (first, asked) = (firsts.get_at(set)?, attributes.get_at(set)?);
        let in_order = if set == 0 { first == 0 } else { first >= next };
        if !in_order || first >= count || !matches!(asked.source_order, 1..=3) || asked.flags > 1 {
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
    to: Given<CUdeviceptr>,
    from: Given<CUdeviceptr>,
    bytes: Given<usize>,
    count: usize,
    check: impl FnOnce() -> Answer,
    stream: Given<cudarc::driver::sys::CUstream_st>,
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
        .refuse_captured("a batch of copies is not captured")
        .map_err(of_all)?;
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        let ends = || {
            let bytes = bytes.get_at(index)?;
            let ends = [to.get_at(index)?, from.get_at(index)?];
            Ok((
                Side::any(ends[0], bytes)?,
                Side::any(ends[1], bytes)?,
                bytes,
            ))
        };
        all.push(ends().map_err(|failure: Failure| (Some(index), failure))?);
    }
    let pageable = all.iter().any(|(to, from, _)| to.pageable || from.pageable);
    let whole = all.iter().map(|(.., bytes)| bytes).sum();
    perform(&stream, When::InOrder, pageable, whole, move || {
        for (to, from, bytes) in &all {
            // SAFETY: both sides were checked, or the caller answers for them; a side that is
            // freed meanwhile stays mapped with the arena. They may overlap.
            unsafe { std::ptr::copy(from.pointer(0), to.pointer(0), *bytes) }
        }
    })
    .map_err(of_all)
}

entries! {
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
        copies(to, from, bytes, count, check, stream).map_err(|(_, failure)| failure)
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
        copies(to, from, bytes, count, check, stream).map_err(|(index, failure)| {
            failed.put_if_asked(index.unwrap_or(usize::MAX));
            failure
        })
    }
}
