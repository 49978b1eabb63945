//! Imported semaphores.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, MutexGuard};

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::external::settle;
use crate::driver::stream::Stream;
use crate::driver::stream::retained::Retained;
use crate::driver::stream::users::{Users, UsingStreams, Waits};
use api::{CUexternalSemaphore, ExternalSemaphoreDesc, ExternalSemaphoreParams};

/// What kind of semaphore a file descriptor stands for (`CUexternalSemaphoreHandleType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SemaphoreKind {
    /// Signaled or not: each wait takes one signal.
    Binary = 1,
    /// A number that rises: a wait ends when it is reached (`VK_SEMAPHORE_TYPE_TIMELINE`).
    Timeline = 9,
}

/// A semaphore of another library (`cuImportExternalSemaphore`). Clones share it; it goes with
/// the last clone and the last graph that uses it, after the work of the streams that do
/// (`cuDestroyExternalSemaphore`).
#[derive(Clone, Debug)]
pub struct Semaphore {
    import: Arc<Import>,
}

#[derive(Debug)]
struct Import {
    context: Context,
    handle: CUexternalSemaphore,
    kind: SemaphoreKind,
    users: UsingStreams,
}

// SAFETY: the handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Import {}
// SAFETY: as above.
unsafe impl Sync for Import {}

impl Semaphore {
    /// Imports a semaphore. The file descriptor goes to the driver, and is closed if that fails.
    ///
    /// # Safety
    /// The descriptor must be an opaque one (`VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT`)
    /// of a semaphore of this kind: no driver promises to check it, and a signal writes.
    pub unsafe fn import(
        context: &Context,
        kind: SemaphoreKind,
        descriptor: OwnedFd,
    ) -> Result<Semaphore, Error> {
        let api = context.bind()?;
        let described = ExternalSemaphoreDesc {
            kind: kind as u32,
            descriptor: descriptor.as_raw_fd(),
            ..ExternalSemaphoreDesc::default()
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the caller answers for the descriptor; writes one handle.
        let imported = unsafe { api.cuImportExternalSemaphore(&mut handle, &described) };
        settle(descriptor, &imported, context);
        imported?;
        Ok(Semaphore {
            import: Arc::new(Import {
                context: context.clone(),
                handle,
                kind,
                users: UsingStreams::default(),
            }),
        })
    }

    /// Which kind it is.
    pub fn kind(&self) -> SemaphoreKind {
        self.import.kind
    }

    /// The context it was imported in.
    pub fn context(&self) -> &Context {
        &self.import.context
    }

    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> CUexternalSemaphore {
        self.import.handle
    }

    /// Signals it after the work queued so far in a stream
    /// (`cuSignalExternalSemaphoresAsync`). A timeline is set to `value`, which must be greater
    /// than any before; for others `value` means nothing.
    pub fn signal(&self, value: u64, stream: &Stream) -> Result<(), Error> {
        self.queue(value, stream, "signal of a semaphore", |params| {
            let api = stream.context().bind()?;
            // SAFETY: one live semaphore, kept until the stream is done, and its parameters.
            unsafe {
                Ok(api.cuSignalExternalSemaphoresAsync(&self.raw(), params, 1, stream.raw())?)
            }
        })
    }

    /// Lets a stream wait for it (`cuWaitExternalSemaphoresAsync`): for a signal, or until a
    /// timeline has reached `value`.
    pub fn wait(&self, value: u64, stream: &Stream) -> Result<(), Error> {
        self.queue(value, stream, "wait for a semaphore", |params| {
            let api = stream.context().bind()?;
            // SAFETY: one live semaphore, kept until the stream is done, and its parameters.
            unsafe { Ok(api.cuWaitExternalSemaphoresAsync(&self.raw(), params, 1, stream.raw())?) }
        })
    }

    fn queue(
        &self,
        value: u64,
        stream: &Stream,
        what: &'static str,
        call: impl FnOnce(&ExternalSemaphoreParams) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if stream.context() != self.context() {
            return Err(Error::DifferentContexts {
                what: "semaphore and stream",
            });
        }
        let enqueue = stream.begin_enqueue();
        match enqueue.capture() {
            Some(capture) => capture.retain(self.import.clone()),
            None => self.import.users.record(stream),
        }
        call(&ExternalSemaphoreParams {
            value,
            ..ExternalSemaphoreParams::default()
        })?;
        drop(enqueue);
        if stream.context().check_mode() {
            stream.wait_for_check(|| what.to_owned())
        } else {
            Ok(())
        }
    }
}

impl Retained for Import {
    fn before_launch(
        &self,
        stream: &Stream,
        _waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.users.record(stream);
        Ok(None)
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        if !self.users.wait_until_done() {
            return; // better lost than destroyed while a stream waits for it
        }
        report_drop(
            self.context
                .bind()
                // SAFETY: imported once, destroyed once, when no stream uses it any more.
                .and_then(|api| unsafe { Ok(api.cuDestroyExternalSemaphore(self.handle)?) }),
        );
    }
}
