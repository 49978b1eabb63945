//! Memory pools. Freed memory goes back to the arena at once, where an access to it is
//! found; a pool's reserve is a number that follows CUDA's rules.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::device;
use super::handle::Handles;
use super::status::{Result, Status};
use crate::memory::Purpose;
use api::CUdevice;

static POOLS: Handles<Pool> = Handles::new();

/// What a pool's memory is for, and of which device it is.
pub(crate) type Place = (Purpose, CUdevice);

/// Handles of the default and the current pool of each place.
static OF_PLACES: Mutex<BTreeMap<Place, [usize; 2]>> = Mutex::new(BTreeMap::new());

/// A pool of an H200 reserves memory in these units.
const RESERVE_UNIT: u64 = 32 << 20;

/// Whether something was freed since the last [`trim_all`].
static FREED: AtomicBool = AtomicBool::new(false);

/// Whether processes share a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Private,
    /// Others may import it.
    Shareable,
    /// It is the pool of the process with this number, and allocates nothing here.
    Imported(u32),
}

pub(crate) struct Pool {
    pub(crate) place: Place,
    pub(crate) sharing: Sharing,
    is_default: bool,
    /// A bit mask of the other devices that reach its memory, if it is a device's.
    pub(crate) open_to: AtomicU32,
    state: Mutex<State>,
}

pub(crate) struct State {
    /// Whether memory is reused: by events, opportunistically, by internal dependencies.
    pub(crate) reuse: [c_int; 3],
    pub(crate) threshold: u64,
    /// 0 for no limit.
    max: u64,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
    /// The handle is freed; the pool stays until its memory is.
    destroyed: bool,
}

impl Pool {
    fn insert(place: Place, is_default: bool, max: u64, sharing: Sharing) -> usize {
        POOLS.insert(Arc::new(Pool {
            place,
            sharing,
            is_default,
            open_to: AtomicU32::new(0),
            state: Mutex::new(State {
                reuse: [1; 3],
                threshold: 0,
                max,
                used: 0,
                used_high: 0,
                reserved: 0,
                reserved_high: 0,
                destroyed: false,
            }),
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what `allocate` allocates for a context of `device`.
    pub(crate) fn allocate(
        &self,
        device: CUdevice,
        bytes: usize,
        allocate: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        if self.place.0 == Purpose::Device && self.place.1 != device {
            return Err(Status::NOT_SUPPORTED
                .because("a stream allocates from pools of its own device only"));
        }
        if let Sharing::Imported(process) = self.sharing {
            return Err(Status::INVALID_VALUE.because(format!(
                "the pool is process {process}'s, which alone allocates from it"
            )));
        }
        let mut state = self.state();
        let used = state.used.saturating_add(bytes as u64);
        if state.max > 0 && used > state.max {
            return Err(Status::OUT_OF_MEMORY.because(format!(
                "the pool has {} bytes, {} in use, {bytes} requested",
                state.max, state.used
            )));
        }
        let start = allocate()?;
        state.used = used;
        state.used_high = state.used_high.max(used);
        state.reserved = state.reserved.max(used.next_multiple_of(RESERVE_UNIT));
        state.reserved_high = state.reserved_high.max(state.reserved);
        Ok(start)
    }
}

impl State {
    /// Releases what is not in use, down to `keep` bytes.
    pub(crate) fn trim(&mut self, keep: u64) {
        let used = self.used.next_multiple_of(RESERVE_UNIT);
        self.reserved = used.max(self.reserved.min(keep));
    }
}

/// A pool of `max` bytes, or without a limit for 0; returns its handle.
pub(crate) fn create(place: Place, max: u64, sharing: Sharing) -> usize {
    Pool::insert(place, false, max, sharing)
}

/// Frees the pool's handle, and the pool once its memory is freed.
pub(crate) fn destroy(handle: usize) -> Result {
    let pool = find(handle)?;
    if pool.is_default {
        return Err(Status::INVALID_VALUE.because("a default pool is not destroyed"));
    }
    let [default, current] = of_place(pool.place)?;
    if current == handle {
        set_current(pool.place, default);
    }
    let mut state = pool.state();
    state.destroyed = true;
    if state.used == 0 {
        drop(state);
        POOLS.remove(handle);
    }
    Ok(())
}

/// Handles of the default and the current pool of a place.
pub(crate) fn of_place(place: Place) -> Result<[usize; 2]> {
    device::check(place.1)?;
    let mut all = OF_PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = all.entry(place);
    Ok(*pools.or_insert_with(|| [Pool::insert(place, true, 0, Sharing::Private); 2]))
}

pub(crate) fn set_current(place: Place, handle: usize) {
    let mut all = OF_PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pools) = all.get_mut(&place) {
        pools[1] = handle;
    }
}

pub(crate) fn find(handle: usize) -> Result<Arc<Pool>> {
    let found = POOLS.get(handle).filter(|pool| !pool.state().destroyed);
    found.ok_or_else(|| Status::INVALID_VALUE.because("no live memory pool has this handle"))
}

/// The pool of a handle, also if it is destroyed and still has memory.
pub(crate) fn get(handle: usize) -> Result<Arc<Pool>> {
    Ok(POOLS.get(handle).ok_or(Status::INVALID_VALUE)?)
}

/// Counts bytes that came back to a pool; 0 is no pool.
pub(crate) fn freed(handle: usize, bytes: u64) {
    let Some(pool) = POOLS.get(handle) else {
        return;
    };
    let mut state = pool.state();
    state.used = state.used.saturating_sub(bytes);
    FREED.store(true, Ordering::Release);
    if state.destroyed && state.used == 0 {
        drop(state);
        POOLS.remove(handle);
    }
}

/// Trims all pools to their thresholds, if memory was freed since the last call.
pub(crate) fn trim_all() {
    if FREED.swap(false, Ordering::AcqRel) {
        POOLS.for_each(|pool| {
            let mut state = pool.state();
            let keep = state.threshold;
            state.trim(keep);
        });
    }
}
