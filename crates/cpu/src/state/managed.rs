//! Advice about managed memory, page by page. Host and devices share their memory
//! here, so advice is stored and moves nothing.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::device::{MAX_DEVICES, arena};
use super::status::{Result, Status};
use crate::memory::Purpose;

/// Advice applies to whole pages of this many bytes.
const PAGE: u64 = 4096;

/// `CU_DEVICE_CPU`, `CU_DEVICE_INVALID`
pub(crate) const HOST: c_int = -1;
pub(crate) const NOWHERE: c_int = -2;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: c_int,
    pub(crate) prefetched: c_int,
    /// One bit for each device, and the lowest for the host.
    pub(crate) accessed_by: u16,
}

const _: () = assert!(MAX_DEVICES < 16);

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

/// Pages by the first address of their allocation.
static ADVISED: Mutex<BTreeMap<u64, Vec<Page>>> = Mutex::new(BTreeMap::new());

fn advised() -> MutexGuard<'static, BTreeMap<u64, Vec<Page>>> {
    ADVISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the advice about an allocation that is freed.
pub(crate) fn forget(start: u64) {
    advised().remove(&start);
}

/// Calls `access` with the pages of a range of managed memory.
pub(crate) fn pages<R>(
    address: u64,
    count: usize,
    access: impl FnOnce(&mut [Page]) -> R,
) -> Result<R> {
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
        .map(access)
        .ok_or_else(bad)
}

/// `CU_MEM_ADVISE_…` number `advice`; `place` is called for the advice that needs a
/// device or the host.
pub(crate) fn advise(
    address: u64,
    count: usize,
    advice: c_uint,
    place: impl FnOnce() -> Result<c_int>,
) -> Result {
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
