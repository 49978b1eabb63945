//! Managed memory: advice, prefetches and attributes of ranges.

use std::ffi::{c_int, c_uint, c_void};

use super::entry::entries;
use crate::memory::Purpose;
use crate::state::device::{self, MAX_DEVICES, arena};
use crate::state::managed::{self, HOST, NOWHERE, Page};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, stream};
use api::{CUdevice, CUdeviceptr, CUstream, MemLocation};

/// The number of a device, or -1 for the host.
fn place(location: MemLocation) -> Result<c_int> {
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

fn place_of_device(device: CUdevice) -> Result<c_int> {
    if device != HOST {
        device::check(device)?;
    }
    Ok(device)
}

/// Writes `CU_MEM_RANGE_ATTRIBUTE_…` number `number`: the value that all pages share.
fn range_attribute(
    data: UserPointer<c_void>,
    size: usize,
    number: c_uint,
    address: u64,
    count: usize,
) -> Result {
    let data = data.cast::<c_int>();
    let capacity = size / size_of::<c_int>();
    let is_whole = size > 0 && size.is_multiple_of(size_of::<c_int>());
    if !is_whole || (number != 3 && capacity != 1) {
        return Err(Status::INVALID_VALUE.because("the buffer for the attribute has a wrong size"));
    }
    let data = data.array(capacity)?;
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
    managed::pages(address, count, |pages| match number {
        1 => data.put(common(pages, &|page| c_int::from(page.read_mostly), 0)),
        2 => data.put(common(pages, &|page| page.preferred, NOWHERE)),
        3 => {
            let by_all = pages.iter().fold(!0, |all, page| all & page.accessed_by);
            let places = (0..MAX_DEVICES).chain([HOST]);
            let mut by = places.filter(|place| by_all >> (place + 1) & 1 == 1);
            (0..capacity).try_for_each(|index| data.put_at(index, by.next().unwrap_or(NOWHERE)))
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

fn prefetch(address: u64, count: usize, place: c_int, stream: usize) -> Result {
    let (_, stream) = stream::find(stream)?;
    stream.refuse_captured("a prefetch is not captured")?;
    managed::pages(address, count, |pages| {
        pages.iter_mut().for_each(|page| page.prefetched = place);
    })
}

/// Ranges of managed memory, and for each the first index of a place: `CU_MEM_…BatchAsync`.
struct Batch {
    addresses: UserPointer<CUdeviceptr>,
    sizes: UserPointer<usize>,
    count: usize,
    places: UserPointer<MemLocation>,
    first: UserPointer<usize>,
    place_count: usize,
}

impl Batch {
    /// Moves each range to the place whose indices it is among.
    fn prefetch(&self, stream: usize) -> Result {
        let (addresses, sizes) = self.ranges()?;
        let first = self.first.slice(self.place_count)?;
        let rises = first.windows(2).all(|pair| pair[0] < pair[1]);
        if first.first() != Some(&0) || !rises {
            return Err(Status::INVALID_VALUE
                .because("the indices of the places of a batch begin at 0 and rise"));
        }
        for (index, (address, size)) in addresses.iter().zip(sizes).enumerate() {
            let of_range = first.partition_point(|first| *first <= index) - 1;
            prefetch(
                *address,
                *size,
                place(self.places.get_at(of_range)?)?,
                stream,
            )?;
        }
        Ok(())
    }

    fn ranges(&self) -> Result<(&[CUdeviceptr], &[usize])> {
        if self.count == 0 {
            return Err(Status::INVALID_VALUE.because("a batch has at least one range"));
        }
        Ok((
            self.addresses.slice(self.count)?,
            self.sizes.slice(self.count)?,
        ))
    }

    /// Fails unless all is managed memory, of which nothing is kept elsewhere.
    fn discard(&self, stream: usize) -> Result {
        let (_, stream) = stream::find(stream)?;
        stream.refuse_captured("a discard is not captured")?;
        let (addresses, sizes) = self.ranges()?;
        for (address, size) in addresses.iter().zip(sizes) {
            managed::pages(*address, *size, |_| ())?;
        }
        Ok(())
    }
}

fn check_batch_flags(flags: u64) -> Result {
    match flags {
        0 => Ok(()),
        _ => Err(Status::INVALID_VALUE.because("the flags of a batch must be 0")),
    }
}

entries! {
    fn cuMemPrefetchBatchAsync(
        addresses: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        places: *mut MemLocation,
        first: *mut usize,
        place_count: usize,
        flags: u64,
        stream: CUstream,
    ) {
        check_batch_flags(flags)?;
        Batch { addresses, sizes, count, places, first, place_count }.prefetch(stream.addr())
    }

    fn cuMemDiscardBatchAsync(
        addresses: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        flags: u64,
        stream: CUstream,
    ) {
        check_batch_flags(flags)?;
        let (places, first, place_count) = (UserPointer::null(), UserPointer::null(), 0);
        Batch { addresses, sizes, count, places, first, place_count }.discard(stream.addr())
    }

    fn cuMemDiscardAndPrefetchBatchAsync(
        addresses: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        places: *mut MemLocation,
        first: *mut usize,
        place_count: usize,
        flags: u64,
        stream: CUstream,
    ) {
        check_batch_flags(flags)?;
        let batch = Batch { addresses, sizes, count, places, first, place_count };
        batch.discard(stream.addr())?;
        batch.prefetch(stream.addr())
    }

    fn cuMemAdvise(address: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice) {
        context::working()?;
        managed::advise(address, count, advice, || place_of_device(device))
    }

    fn cuMemAdvise_v2(address: CUdeviceptr, count: usize, advice: c_uint, location: MemLocation) {
        context::working()?;
        managed::advise(address, count, advice, || place(location))
    }

    fn cuMemPrefetchAsync(
        address: CUdeviceptr,
        count: usize,
        device: CUdevice,
        stream: CUstream,
    ) {
        prefetch(address, count, place_of_device(device)?, stream.addr())
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
        prefetch(address, count, place(location)?, stream.addr())
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
        let (sizes, numbers) = (sizes.array(how_many)?, numbers.array(how_many)?);
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
        let (_, attached) = stream::find(stream.addr())?;
        attached.refuse_captured("the stream is capturing; attach memory before or after the capture")?;
        if stream.is_null() {
            return Err(Status::INVALID_VALUE.because("the stream is null; pass a stream of cuStreamCreate"));
        }
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
