//! Pinned host memory, which a device copies from and to by itself.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api::CUdeviceptr;
use super::context::{Context, report_drop};
use super::error::Error;
use super::keep::{Keep, Kept};
use super::plain::{Plain, bytes_of, bytes_of_mut, zeroed};
use super::stream::Stream;

/// An array in pinned host memory (`cuMemHostAlloc`), for copies that run
/// beside the program.
///
/// The memory is reached by copying only: a device may write it at any time, so
/// no reference into it is handed out. Reading, writing and freeing wait for
/// the copies that were started with it, also by the launch of a graph.
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    memory: Arc<PinnedMemory>,
    len: usize,
    values: PhantomData<T>,
}

/// What is freed once nobody uses it.
#[derive(Debug)]
struct PinnedMemory {
    context: Context,
    /// Null where there are no bytes.
    pointer: *mut u8,
    /// Streams with copies that may still run, of any context. Whoever reads or
    /// writes the bytes holds the lock, so that no graph is launched meanwhile.
    pending: Mutex<Vec<Stream>>,
}

// SAFETY: the memory belongs to the process, not to a thread, and is reached
// under the lock only.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above.
unsafe impl Sync for PinnedMemory {}

impl Keep for PinnedMemory {
    fn launching(&self, stream: &Stream) -> Option<MutexGuard<'_, Vec<Stream>>> {
        Some(self.used_by(stream))
    }
}

/// Portable to all contexts, and mapped into the device's addresses.
const FLAGS: u32 = 0x1 | 0x2;

impl<T: Plain> PinnedBuffer<T> {
    /// `len` values of zero bits.
    pub fn zeroed(context: &Context, len: usize) -> Result<PinnedBuffer<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        let mut raw = std::ptr::null_mut();
        if bytes > 0 {
            // SAFETY: writes one pointer.
            unsafe { context.bind()?.cuMemHostAlloc(&mut raw, bytes, FLAGS) }?;
            // SAFETY: the driver gave that many bytes.
            unsafe { raw.cast::<u8>().write_bytes(0, bytes) };
        }
        Ok(PinnedBuffer {
            memory: Arc::new(PinnedMemory {
                context: context.clone(),
                pointer: raw.cast(),
                pending: Mutex::default(),
            }),
            len,
            values: PhantomData,
        })
    }

    /// A copy of `values`.
    pub fn from_slice(context: &Context, values: &[T]) -> Result<PinnedBuffer<T>, Error> {
        let mut buffer = PinnedBuffer::zeroed(context, values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.memory.context
    }

    /// Writes all of it, after the copies that use it.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.check("write to pinned memory", values.len())?;
        let _idle = self.memory.idle()?;
        let bytes = bytes_of(values);
        // SAFETY: as many bytes as there is room for; no copy runs, and none is started while
        // the lock is held. By bytes: the driver knows nothing of `T`'s alignment.
        unsafe { self.memory.pointer.copy_from(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Reads all of it, after the copies that use it.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        self.check("read of pinned memory", values.len())?;
        let _idle = self.memory.idle()?;
        let room = bytes_of_mut(values);
        // SAFETY: as many bytes as there are; no copy runs, and none is started while the lock
        // is held.
        unsafe { room.as_mut_ptr().copy_from(self.memory.pointer, room.len()) };
        Ok(())
    }

    /// All of it as a vector, after the copies that use it.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = zeroed(self.len);
        self.read(&mut values)?;
        Ok(values)
    }

    /// Waits for the copies that use it.
    pub fn wait(&self) -> Result<(), Error> {
        self.memory.idle().map(drop)
    }

    /// The host address, for calls that the safe layer does not have.
    pub fn pointer(&self) -> *mut T {
        self.memory.pointer.cast()
    }

    /// The address under which a kernel reaches it (`cuMemHostGetDevicePointer_v2`).
    /// Work that uses it is not waited for: synchronise before reading.
    pub fn device_address(&self) -> Result<CUdeviceptr, Error> {
        let mut address = 0;
        if self.len > 0 {
            let api = self.context().bind()?;
            // SAFETY: the memory was allocated as mapped; writes one address.
            unsafe { api.cuMemHostGetDevicePointer_v2(&mut address, self.pointer().cast(), 0) }?;
        }
        Ok(address)
    }

    /// Remembers that a copy in `stream` uses it.
    pub(crate) fn used_by(&self, stream: &Stream) {
        if stream.is_capturing() {
            // The copy runs when the graph is launched, and in the stream that it is launched into.
            return stream.keep(|| self.memory.clone());
        }
        drop(self.memory.used_by(stream));
    }

    /// For a graph that uses it.
    pub(crate) fn kept(&self) -> Kept {
        self.memory.clone()
    }

    fn check(&self, what: &'static str, given: usize) -> Result<(), Error> {
        if given != self.len {
            return Err(Error::Length {
                what,
                given,
                room: self.len,
            });
        }
        Ok(())
    }
}

impl PinnedMemory {
    fn used_by(&self, stream: &Stream) -> MutexGuard<'_, Vec<Stream>> {
        let mut pending = self.pending();
        // The default streams of all contexts have one handle: the contexts tell them apart.
        let same =
            |other: &Stream| other.raw() == stream.raw() && other.context() == stream.context();
        if !pending.iter().any(same) {
            pending.push(stream.clone());
        }
        pending
    }

    /// Waits for the copies that use it. None begins while the result lives.
    fn idle(&self) -> Result<MutexGuard<'_, Vec<Stream>>, Error> {
        let mut pending = self.pending();
        // A stream stays listed until it is known to be done.
        while let Some(stream) = pending.last() {
            let result = stream.synchronize();
            let lost = result.as_ref().is_err_and(Error::is_sticky);
            if result.is_ok() || lost {
                pending.pop();
            }
            result?;
        }
        Ok(pending)
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.pointer.is_null() {
            return;
        }
        let pending = self
            .pending
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for stream in pending.drain(..) {
            let result = stream.synchronize();
            let running = result.as_ref().is_err_and(|error| !error.is_sticky());
            report_drop(result);
            // Memory that a copy may still reach is better lost than given to others.
            if running {
                return;
            }
        }
        let pointer = self.pointer.cast();
        // SAFETY: allocated once, freed once, no copy uses it any more.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { api.cuMemFreeHost(pointer) }),
        );
    }
}
