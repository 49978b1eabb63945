//! Memory of other processes: the allocations that map files of theirs.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context;
use super::device::{self, arena};
use super::exported::Exported;
use super::memory;
use super::pool::{self, Place, Sharing};
use super::primary;
use super::status::{Result, Status};
use super::virtual_memory::system;
use crate::memory::{Physical, Purpose};
use crate::sanitizer::fresh;
use api::CUipcMemHandle;

/// The first bytes of a handle.
const TITLE: &[u8; 8] = b"ptxkipc1";

/// An allocation that maps another process's memory.
struct Opened {
    address: u64,
    /// The number of the allocation, which another at its address lacks.
    buffer: u64,
    references: usize,
}

static OPENED: Mutex<BTreeMap<Exported, Opened>> = Mutex::new(BTreeMap::new());

fn all_opened() -> MutexGuard<'static, BTreeMap<Exported, Opened>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle of the allocation that holds an address, which is in a pool or in none.
#[cfg(unix)]
pub(crate) fn export(address: u64, in_pool: bool) -> Result<CUipcMemHandle> {
    let found = arena()?.range_of(address);
    let found =
        found.ok_or_else(|| Status::INVALID_VALUE.because("no allocation holds this address"))?;
    let info = memory::info(found.start);
    let of = info.map_or(0, |info| info.pool);
    let context = match info {
        // Any thread exports what is in a pool: Python does when it sends an object.
        Some(info) if in_pool => context::find(info.context_handle)?,
        _ => context::working()?,
    };
    let is_shared = if in_pool {
        pool::get(of).is_ok_and(|pool| pool.sharing == Sharing::Shareable)
    } else {
        found.purpose == Purpose::Device && of == 0
    };
    if !is_shared {
        return Err(Status::INVALID_VALUE
            .because("processes share memory of cuMemAlloc, and of pools that are made for it"));
    }
    context.wait();
    let describe = |file: &File| Exported::of(file, found.size);
    // SAFETY: the context's work is done. That of other contexts, which peers have, is the
    // caller's to order, as with a free.
    let shared = unsafe { arena()?.share(found.start, describe) };
    let exported = shared.flatten().map_err(|error| system(&error))?;
    context.finish_wait()?;
    // The other process may write all of it.
    fresh::wrote(found.start, found.size);
    Ok(CUipcMemHandle {
        reserved: exported.to_handle(TITLE),
    })
}

#[cfg(not(unix))]
pub(crate) fn export(_: u64, _: bool) -> Result<CUipcMemHandle> {
    Err(Status::NOT_SUPPORTED.because("processes share memory on Linux alone"))
}

/// Maps the memory of a handle; returns its address. A handle that is open already has the
/// same address, and is closed as often. What is in a pool is opened with the pool that was
/// imported from the same process; 0 is no pool.
pub(crate) fn open(handle: &CUipcMemHandle, into: usize) -> Result<u64> {
    let exported = Exported::from_handle(TITLE, &handle.reserved)?;
    let (context, purpose) = if into == 0 {
        (context::working()?, Purpose::Imported)
    } else {
        let pool = pool::find(into)?;
        if !matches!(pool.sharing, Sharing::Imported(process) if u64::from(process) == exported.process)
        {
            return Err(
                Status::INVALID_VALUE.because("the pool is not imported from the memory's process")
            );
        }
        // A pool is a device's, so no context need be current: Python's has none yet when it
        // receives an object. The primary one stays for the memory.
        let context = match context::current() {
            Ok(_) => context::working()?,
            Err(_) => primary::retain(pool.place.1)?,
        };
        match pool.place.0 {
            Purpose::Device => (context, Purpose::Imported),
            host => (context, host),
        }
    };
    if exported.process == u64::from(std::process::id()) {
        return Err(Status::INVALID_CONTEXT.because("a process does not open its own memory"));
    }
    let mut opened = all_opened();
    if let Some(found) = opened.get_mut(&exported)
        && memory::info(found.address).is_some_and(|info| info.buffer == found.buffer)
    {
        found.references += 1;
        return Ok(found.address);
    }
    let file = exported.file()?;
    let physical = Physical::of_file(file).map_err(|error| system(&error))?;
    let bytes = usize::try_from(exported.bytes).map_err(|_| Status::INVALID_VALUE)?;
    let address = memory::allocate_imported(into, &context, bytes, purpose)?;
    if let Err(error) = arena()?.map(address, physical.bytes(), Some(&physical)) {
        let _ = memory::remove(address, &[purpose]); // it is there
        let _ = arena()?.free(address);
        return Err(system(&error));
    }
    let buffer = memory::info(address).map_or(0, |info| info.buffer);
    opened.insert(
        exported,
        Opened {
            address,
            buffer,
            references: 1,
        },
    );
    Ok(address)
}

/// Counts that memory is closed which [`open`] mapped: whether that was the last time. `None` if
/// it is no such memory.
pub(crate) fn closed(address: u64) -> Option<bool> {
    let mut opened = all_opened();
    let live = |found: &Opened| {
        found.address == address
            && memory::info(address).is_some_and(|info| info.buffer == found.buffer)
    };
    let (&exported, found) = opened.iter_mut().find(|(_, found)| live(found))?;
    found.references -= 1;
    let is_last = found.references == 0;
    if is_last {
        opened.remove(&exported);
    }
    Some(is_last)
}

/// Unmaps memory that [`open`] mapped, once it is closed as often as it was opened.
pub(crate) fn close(address: u64) -> Result {
    let context = context::working()?;
    let is_last = closed(address).ok_or_else(|| {
        Status::INVALID_VALUE.because("the address is of no other process's memory")
    })?;
    if !is_last {
        return Ok(());
    }
    memory::remove(address, &[Purpose::Imported])?;
    context.wait();
    arena()?.free(address)?;
    context.finish_wait()
}

/// The first bytes of the file that stands for a pool.
const POOL_TITLE: u64 = u64::from_le_bytes(*b"ptxkpool");

/// What the file says: its title, the process, whether the pool is the host's, its device.
const POOL_WORDS: usize = 4;

/// A file that stands for a pool, for another process to [import](import_pool).
#[cfg(unix)]
pub(crate) fn export_pool(place: Place) -> Result<File> {
    use std::os::unix::fs::FileExt;

    let process = u64::from(std::process::id());
    let is_host = u64::from(place.0 == Purpose::Host);
    let device = place.1 as u64; // it is not negative
    let words: [u64; POOL_WORDS] = [POOL_TITLE, process, is_host, device];
    let bytes = words.map(u64::to_le_bytes);
    let file = Physical::new(8 * POOL_WORDS as u64)
        .and_then(|physical| physical.export())
        .and_then(|file| file.write_all_at(bytes.as_flattened(), 0).map(|()| file));
    file.map_err(|error| system(&error))
}

/// A pool whose memory another process allocates; returns its handle.
#[cfg(unix)]
pub(crate) fn import_pool(file: &File) -> Result<usize> {
    use std::os::unix::fs::FileExt;

    let bad = || Status::INVALID_VALUE.because("the descriptor is of no pool of a CPU device");
    let mut bytes = [[0; 8]; POOL_WORDS];
    file.read_exact_at(bytes.as_flattened_mut(), 0)
        .map_err(|_| bad())?;
    let [title, process, is_host, device] = bytes.map(u64::from_le_bytes);
    let process = u32::try_from(process).map_err(|_| bad())?;
    let device = i32::try_from(device).map_err(|_| bad())?;
    if title != POOL_TITLE || is_host > 1 {
        return Err(bad());
    }
    device::check(device)?;
    let purpose = match is_host {
        0 => Purpose::Device,
        _ => Purpose::Host,
    };
    Ok(pool::create(
        (purpose, device),
        0,
        Sharing::Imported(process),
    ))
}

#[cfg(not(unix))]
pub(crate) fn export_pool(_: Place) -> Result<File> {
    Err(Status::NOT_SUPPORTED.because("processes share pools on Linux alone"))
}

#[cfg(not(unix))]
pub(crate) fn import_pool(_: &File) -> Result<usize> {
    Err(Status::NOT_SUPPORTED.because("processes share pools on Linux alone"))
}
