//! Checkpoints of processes.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use crate::driver::device::driver::Driver;
use crate::driver::error::Error;
use api::CheckpointLock;

/// A process that uses NVIDIA's driver, to be checkpointed (from CUDA 12.8): what it has on
/// devices is moved into its own memory, which a tool as CRIU then saves, and moved back later.
/// The steps are [`lock`](CheckpointProcess::lock), [`checkpoint`](CheckpointProcess::checkpoint),
/// [`restore`](CheckpointProcess::restore), [`unlock`](CheckpointProcess::unlock). The CPU device
/// has no need of it (`CUDA_ERROR_NOT_SUPPORTED`).
///
/// ```no_run
/// use ptxkit::driver::{Driver, ProcessState};
/// let process = Driver::nvidia()?.process(4711);
/// process.lock(None)?;
/// process.checkpoint()?;
/// assert_eq!(process.state()?, ProcessState::Checkpointed);
/// process.restore()?;
/// process.unlock()?;
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CheckpointProcess {
    driver: Driver,
    id: u32,
}

/// What a process that uses devices does (`CUprocessState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessState {
    /// It runs.
    Running,
    /// Its calls wait.
    Locked,
    /// It has nothing on devices.
    Checkpointed,
    /// A step failed, and it cannot go on.
    Failed,
    /// Any other number.
    Other(u32),
}

impl Driver {
    /// A process by its number, also this one.
    pub fn process(&self, id: u32) -> CheckpointProcess {
        CheckpointProcess { driver: *self, id }
    }
}

impl CheckpointProcess {
    fn number(&self) -> c_int {
        // No process has a number that is none.
        c_int::try_from(self.id).unwrap_or(-1)
    }

    /// What it does (`cuCheckpointProcessGetState`).
    pub fn state(&self) -> Result<ProcessState, Error> {
        let mut state: c_uint = 0;
        let api = self.driver.api();
        // SAFETY: writes one number.
        unsafe { api.cuCheckpointProcessGetState(self.number(), &mut state) }?;
        Ok(match state {
            0 => ProcessState::Running,
            1 => ProcessState::Locked,
            2 => ProcessState::Checkpointed,
            3 => ProcessState::Failed,
            other => ProcessState::Other(other),
        })
    }

    /// The thread by which it is to be restored (`cuCheckpointProcessGetRestoreThreadId`).
    pub fn restore_thread(&self) -> Result<u32, Error> {
        let mut thread: c_int = 0;
        let api = self.driver.api();
        // SAFETY: writes one number.
        unsafe { api.cuCheckpointProcessGetRestoreThreadId(self.number(), &mut thread) }?;
        Ok(thread.cast_unsigned())
    }

    /// Lets its calls wait from now on, after those that run (`cuCheckpointProcessLock`). If
    /// these take longer than `timeout`, it runs on, with `CUDA_ERROR_NOT_READY`.
    pub fn lock(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let milliseconds = timeout.map_or(0, |timeout| timeout.as_millis().max(1));
        let mut args = CheckpointLock::default();
        args.timeout_ms = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        let api = self.driver.api();
        // SAFETY: whole arguments.
        unsafe { Ok(api.cuCheckpointProcessLock(self.number(), &mut args)?) }
    }

    /// Moves what it has on devices into its own memory (`cuCheckpointProcessCheckpoint`).
    pub fn checkpoint(&self) -> Result<(), Error> {
        let api = self.driver.api();
        // SAFETY: null stands for the usual arguments.
        unsafe { Ok(api.cuCheckpointProcessCheckpoint(self.number(), std::ptr::null_mut())?) }
    }

    /// Moves it back (`cuCheckpointProcessRestore`).
    pub fn restore(&self) -> Result<(), Error> {
        let api = self.driver.api();
        // SAFETY: null stands for the usual arguments.
        unsafe { Ok(api.cuCheckpointProcessRestore(self.number(), std::ptr::null_mut())?) }
    }

    /// Lets its calls go on (`cuCheckpointProcessUnlock`).
    pub fn unlock(&self) -> Result<(), Error> {
        let api = self.driver.api();
        // SAFETY: null stands for the usual arguments.
        unsafe { Ok(api.cuCheckpointProcessUnlock(self.number(), std::ptr::null_mut())?) }
    }
}
