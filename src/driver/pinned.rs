//! Pinned host memory, which a device copies from and to by itself.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::api::CUdeviceptr;
use super::context::{Context, report_drop};
use super::error::Error;
use super::plain::{Plain, bytes_of, bytes_of_mut, zeroed};
use super::stream::Stream;

/// An array in pinned host memory (`cuMemHostAlloc`), for copies that run
/// beside the program.
///
/// The memory is reached by copying only: a device may write it at any time, so
/// no reference into it is handed out. Reading, writing and freeing wait for
/// the copies that were started with it.
#[derive(Debug)]
pub struct PinnedBuffer<T> {
    context: Context,
    pointer: NonNull<T>,
    len: usize,
    /// Streams with copies that may still run, of any context.
    pending: Mutex<Vec<Stream>>,
}

// SAFETY: the memory belongs to the process, not to a thread, and holds plain values.
unsafe impl<T: Plain> Send for PinnedBuffer<T> {}
// SAFETY: `&self` only reads the memory.
unsafe impl<T: Plain> Sync for PinnedBuffer<T> {}

/// Portable to all contexts, and mapped into the device's addresses.
const FLAGS: u32 = 0x1 | 0x2;

impl<T: Plain> PinnedBuffer<T> {
    /// `len` values of zero bits.
    pub fn zeroed(context: &Context, len: usize) -> Result<PinnedBuffer<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        let mut pointer = NonNull::<T>::dangling();
        if bytes > 0 {
            let mut raw = std::ptr::null_mut();
            // SAFETY: writes one pointer.
            unsafe { context.bind()?.cuMemHostAlloc(&mut raw, bytes, FLAGS) }?;
            // SAFETY: the driver gave that many bytes.
            unsafe { raw.cast::<u8>().write_bytes(0, bytes) };
            // SAFETY: no driver succeeds with a null pointer.
            pointer = unsafe { NonNull::new_unchecked(raw.cast()) };
        }
        Ok(PinnedBuffer {
            context: context.clone(),
            pointer,
            len,
            pending: Mutex::default(),
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
        &self.context
    }

    /// Writes all of it, after the copies that use it.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.check("write to pinned memory", values.len())?;
        self.wait()?;
        let bytes = bytes_of(values);
        // SAFETY: as many bytes as there is room for; no copy runs and `&mut self` starts none.
        // By bytes: the driver knows nothing of `T`'s alignment.
        unsafe {
            self.pointer
                .as_ptr()
                .cast::<u8>()
                .copy_from(bytes.as_ptr(), bytes.len())
        };
        Ok(())
    }

    /// Reads all of it, after the copies that use it.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        self.check("read of pinned memory", values.len())?;
        self.wait()?;
        let room = bytes_of_mut(values);
        // SAFETY: as many bytes as there are; a copy into it needs `&mut self`.
        unsafe {
            room.as_mut_ptr()
                .copy_from(self.pointer.as_ptr().cast(), room.len())
        };
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
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // A stream stays listed until it is known to be done.
        while let Some(stream) = pending.last() {
            let result = stream.synchronize();
            let lost = result.as_ref().is_err_and(Error::is_sticky);
            if result.is_ok() || lost {
                pending.pop();
            }
            result?;
        }
        Ok(())
    }

    /// The host address, for calls that the safe layer does not have.
    pub fn pointer(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    /// The address under which a kernel reaches it (`cuMemHostGetDevicePointer_v2`).
    /// Work that uses it is not waited for: synchronise before reading.
    pub fn device_address(&self) -> Result<CUdeviceptr, Error> {
        let mut address = 0;
        if self.len > 0 {
            let api = self.context.bind()?;
            // SAFETY: the memory was allocated as mapped; writes one address.
            unsafe {
                api.cuMemHostGetDevicePointer_v2(&mut address, self.pointer.as_ptr().cast(), 0)
            }?;
        }
        Ok(address)
    }

    /// Remembers that a copy in `stream` uses it.
    pub(crate) fn used_by(&self, stream: &Stream) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // The default streams of all contexts have one handle: the contexts tell them apart.
        let same =
            |other: &Stream| other.raw() == stream.raw() && other.context() == stream.context();
        if !pending.iter().any(same) {
            pending.push(stream.clone());
        }
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

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if self.len == 0 || size_of::<T>() == 0 {
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
        let pointer = self.pointer.as_ptr().cast();
        // SAFETY: allocated once, freed once, no copy uses it any more.
        report_drop(
            self.context
                .bind()
                .and_then(|api| unsafe { api.cuMemFreeHost(pointer) }),
        );
    }
}
