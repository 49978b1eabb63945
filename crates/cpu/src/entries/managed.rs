//! What callers advise for managed memory, page by page. Host and devices share
//! their memory here, so that advice is remembered and moves nothing.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::device::{self, MOST_DEVICES};
use super::entry::{Given, entries};
use super::memory::arena;
use super::status::{Answer, Status};
use super::{context, stream};
use crate::memory::Purpose;
use api::{CUdevice, CUdeviceptr, CUstream, MemLocation};

/// Advice is given to whole pages of this many bytes.
const PAGE: u64 = 4096;

/// `CU_DEVICE_CPU`, `CU_DEVICE_INVALID`
const HOST: c_int = -1;
const NOWHERE: c_int = -2;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Page {
    read_mostly: bool,
    preferred: c_int,
    prefetched: c_int,
    /// One bit a device, and the lowest for the host.
    accessed_by: u16,
}

const _: () = assert!(MOST_DEVICES < 16);

impl Default for Page {
    fn default() -> Page {
        Page {
            read_mostly: false,
            preferred: NOWHERE,
            prefetched: NOWHERE,
            accessed_by: 0,
        }
    }
}

/// Pages by the first address of their allocation, where advice was given.
static ADVISED: Mutex<BTreeMap<u64, Vec<Page>>> = Mutex::new(BTreeMap::new());

fn advised() -> MutexGuard<'static, BTreeMap<u64, Vec<Page>>> {
    ADVISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Its memory is freed.
pub(super) fn forget(start: u64) {
    advised().remove(&start);
}

/// Hands the pages of a range of managed memory to `look`.
fn pages<R>(address: u64, count: usize, look: impl FnOnce(&mut [Page]) -> R) -> Answer<R> {
    let bad = || {
        Status::INVALID_VALUE.because(format!(
            "{count} bytes at {address:#x} are not all managed memory"
        ))
    };
    let found = arena()?.range_of(address).ok_or_else(bad)?;
    let offset = address - found.start;
    if found.purpose != Purpose::Managed || count == 0 || count as u64 > found.size - offset {
        return Err(bad());
    }
    let mut advised = advised();
    let all = advised
        .entry(found.start)
        .or_insert_with(|| vec![Page::default(); found.size.div_ceil(PAGE) as usize]);
    let (first, end) = (offset / PAGE, (offset + count as u64).div_ceil(PAGE));
    all.get_mut(first as usize..end as usize)
        .map(look)
        .ok_or_else(bad)
}

/// A device's number, or -1 for the host.
fn place(location: MemLocation) -> Answer<c_int> {
    match location.kind {
        1 => {
            device::check(location.id)?;
            Ok(location.id)
        }
        // The host, and its NUMA nodes, which are not told apart.
        2..=4 => Ok(HOST),
        _ => Err(Status::INVALID_VALUE.because("the location is neither a device nor the host")),
    }
}

fn place_of_device(device: CUdevice) -> Answer<c_int> {
    if device != HOST {
        device::check(device)?;
    }
    Ok(device)
}

/// `CU_MEM_ADVISE_…`
fn advise(
    address: u64,
    count: usize,
    advice: c_uint,
    place: impl FnOnce() -> Answer<c_int>,
) -> Answer {
    let place = if matches!(advice, 3 | 5 | 6) {
        place()?
    } else {
        NOWHERE
    };
    let bit = 1_u16 << (place + 1).max(0);
    let change: &dyn Fn(&mut Page) = match advice {
        1 | 2 => &|page| page.read_mostly = advice == 1,
        3 | 4 => &|page| page.preferred = place,
        5 => &|page| page.accessed_by |= bit,
        6 => &|page| page.accessed_by &= !bit,
        _ => return Err(Status::INVALID_VALUE.because("unknown advice")),
    };
    pages(address, count, |pages| pages.iter_mut().for_each(change))
}

/// `CU_MEM_RANGE_ATTRIBUTE_…`: what all pages have in common.
fn range_attribute(
    data: Given<c_void>,
    size: usize,
    number: c_uint,
    address: u64,
    count: usize,
) -> Answer {
    let data = data.cast::<c_int>();
    let room = size / size_of::<c_int>();
    let is_whole = size > 0 && size.is_multiple_of(size_of::<c_int>());
    if !is_whole || (number != 3 && room != 1) {
        return Err(Status::INVALID_VALUE.because("the room for the attribute has a wrong size"));
    }
    let common = |pages: &[Page], of: &dyn Fn(&Page) -> c_int, otherwise: c_int| {
        let first = pages.first().map_or(otherwise, of);
        let same = pages.iter().all(|page| of(page) == first);
        if same { first } else { otherwise }
    };
    // As kind and number: nowhere (0), a device (1) or the host (2).
    let kind = |place: c_int| match place {
        NOWHERE => 0,
        HOST => 2,
        _ => 1,
    };
    pages(address, count, |pages| match number {
        1 => data.put(common(pages, &|page| c_int::from(page.read_mostly), 0)),
        2 => data.put(common(pages, &|page| page.preferred, NOWHERE)),
        3 => {
            let by_all = pages.iter().fold(!0, |all, page| all & page.accessed_by);
            let mut by = (HOST..MOST_DEVICES).filter(|place| by_all >> (place + 1) & 1 == 1);
            (0..room).try_for_each(|index| data.put_at(index, by.next().unwrap_or(NOWHERE)))
        }
        4 => data.put(common(pages, &|page| page.prefetched, NOWHERE)),
        5 => data.put(kind(common(pages, &|page| page.preferred, NOWHERE))),
        6 => data.put(common(pages, &|page| page.preferred, NOWHERE)),
        7 => data.put(kind(common(pages, &|page| page.prefetched, NOWHERE))),
        8 => data.put(common(pages, &|page| page.prefetched, NOWHERE)),
        _ => {
            Err(Status::INVALID_VALUE
                .because(format!("no range attribute has the number {number}")))
        }
    })?
}

fn prefetch(
    address: u64,
    count: usize,
    place: c_int,
    stream: Given<cudarc::driver::sys::CUstream_st>,
) -> Answer {
    let (_, stream) = stream::find(stream)?;
    stream.refuse_captured("a prefetch is not captured")?;
    pages(address, count, |pages| {
        pages.iter_mut().for_each(|page| page.prefetched = place);
    })
}

entries! {
    fn cuMemAdvise(address: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice) {
        context::working()?;
        advise(address, count, advice, || place_of_device(device))
    }

    fn cuMemAdvise_v2(address: CUdeviceptr, count: usize, advice: c_uint, location: MemLocation) {
        context::working()?;
        advise(address, count, advice, || place(location))
    }

    fn cuMemPrefetchAsync(
        address: CUdeviceptr,
        count: usize,
        device: CUdevice,
        stream: CUstream,
    ) {
        prefetch(address, count, place_of_device(device)?, stream)
    }

    fn cuMemPrefetchAsync_v2(
        address: CUdeviceptr,
        count: usize,
        location: MemLocation,
        flags: c_uint,
        stream: CUstream,
    ) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of a prefetch must be 0"));
        }
        prefetch(address, count, place(location)?, stream)
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        size: usize,
        number: c_uint,
        address: CUdeviceptr,
        count: usize,
    ) {
        context::working()?;
        range_attribute(data, size, number, address, count)
    }

    fn cuMemRangeGetAttributes(
        data: *mut *mut c_void,
        sizes: *mut usize,
        numbers: *mut c_uint,
        how_many: usize,
        address: CUdeviceptr,
        count: usize,
    ) {
        context::working()?;
        for index in 0..how_many {
            let (size, number) = (sizes.get_at(index)?, numbers.get_at(index)?);
            range_attribute(data.follow(index)?, size, number, address, count)?;
        }
        Ok(())
    }

    /// Every stream reaches managed memory here, as on devices with
    /// `CONCURRENT_MANAGED_ACCESS`: the flags change nothing.
    fn cuStreamAttachMemAsync(
        stream: CUstream,
        address: CUdeviceptr,
        length: usize,
        flags: c_uint,
    ) {
        stream::find(stream)?;
        let found = arena()?
            .range_of(address)
            .filter(|found| found.start == address && found.purpose == Purpose::Managed);
        let is_whole = |size: u64| length == 0 || length as u64 == size;
        match found {
            Some(found) if is_whole(found.size) && matches!(flags, 1 | 2 | 4) => Ok(()),
            _ => Err(Status::INVALID_VALUE
                .because("managed memory is attached as a whole, with one of 1, 2 and 4")),
        }
    }
}
