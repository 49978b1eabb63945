//! Functions that a stream calls on the host.

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::sync::Arc;

use crate::driver::callback::call_back;
use crate::driver::error::Error;
use crate::driver::stream::Stream;
use crate::driver::stream::retained::Retained;
use api::CUstream;
use api::CudaError;

/// How messages name one.
const FUNCTION: &str = "a function called by a stream";

impl Stream {
    /// Calls `function` on a thread of the driver after all work queued so far
    /// (`cuLaunchHostFunc`). Work queued later waits for it. It must not call the driver,
    /// which would deadlock. After an error in the stream it is not called.
    ///
    /// A capturing stream refuses it, as a graph may be launched many times: use
    /// [`call_each_launch`](Stream::call_each_launch).
    pub fn call(&self, function: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        type Call = Box<dyn FnOnce() + Send>;

        unsafe extern "C" fn run(data: *mut c_void) {
            // SAFETY: the pointer made below, handed over once.
            let call = unsafe { Box::from_raw(data.cast::<Call>()) };
            call_back(FUNCTION, call);
        }

        let enqueue = self.begin_enqueue();
        if enqueue.capture().is_some() {
            return Err(Error::CapturedOnce);
        }
        let api = self.context().bind()?;
        let call: Call = Box::new(function);
        let data = Box::into_raw(Box::new(call));
        // SAFETY: `run` takes the pointer back; the function may go to another thread.
        let result = unsafe { api.cuLaunchHostFunc(self.raw(), Some(run), data.cast()) };
        drop(enqueue);
        if result.is_err() {
            // SAFETY: a call that was not queued is never run.
            drop(unsafe { Box::from_raw(data) });
        }
        Ok(result?)
    }

    /// The same for a function that receives the result of the work before it, and is
    /// called after an error too (`cuStreamAddCallback`). CUDA deprecates the entry: it may
    /// delay later work for longer than [`call`](Stream::call). A capturing stream refuses
    /// it.
    pub fn add_callback(
        &self,
        function: impl FnOnce(Result<(), CudaError>) + Send + 'static,
    ) -> Result<(), Error> {
        type Call = Box<dyn FnOnce(Result<(), CudaError>) + Send>;

        unsafe extern "C" fn run(_stream: CUstream, status: c_uint, data: *mut c_void) {
            // SAFETY: the pointer made below, handed over once.
            let call = unsafe { Box::from_raw(data.cast::<Call>()) };
            let result = match status.cast_signed() {
                0 => Ok(()),
                code => Err(CudaError(code)),
            };
            call_back(FUNCTION, || call(result));
        }

        let enqueue = self.begin_enqueue();
        if enqueue.capture().is_some() {
            return Err(Error::CapturedOnce);
        }
        let api = self.context().bind()?;
        let call: Call = Box::new(function);
        let data = Box::into_raw(Box::new(call));
        // SAFETY: `run` takes the pointer back; the function may go to another thread.
        let result = unsafe { api.cuStreamAddCallback(self.raw(), Some(run), data.cast(), 0) };
        drop(enqueue);
        if result.is_err() {
            // SAFETY: a call that was not queued is never run.
            drop(unsafe { Box::from_raw(data) });
        }
        Ok(result?)
    }

    /// [`call`](Stream::call) for a function that may be called several times: if the
    /// stream is capturing, each launch of the graph calls it, and the graph retains it.
    pub fn call_each_launch(
        &self,
        function: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let enqueue = self.begin_enqueue();
        let Some(capture) = enqueue.capture() else {
            drop(enqueue);
            return self.call(function);
        };
        let function = Arc::new(HostFunction::new(function));
        let api = self.context().bind()?;
        // SAFETY: the graph that is made of the capture keeps the function.
        unsafe { api.cuLaunchHostFunc(self.raw(), Some(HostFunction::RUN), function.data()) }?;
        capture.retain(function);
        Ok(())
    }
}

/// A function that the driver may call any number of times.
pub(crate) struct HostFunction {
    function: Box<dyn Fn() + Send + Sync>,
}

impl HostFunction {
    pub fn new(function: impl Fn() + Send + Sync + 'static) -> HostFunction {
        HostFunction {
            function: Box::new(function),
        }
    }

    /// The argument of [`RUN`](HostFunction::RUN), valid as long as `self`.
    pub fn data(self: &Arc<Self>) -> *mut c_void {
        Arc::as_ptr(self).cast_mut().cast()
    }

    pub const RUN: unsafe extern "C" fn(*mut c_void) = HostFunction::run;

    unsafe extern "C" fn run(data: *mut c_void) {
        // SAFETY: whoever handed the pointer over keeps the function until its last call.
        let this = unsafe { &*data.cast::<HostFunction>() };
        call_back(FUNCTION, || (this.function)());
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostFunction")
    }
}

impl Retained for HostFunction {
    fn must_outlive_launches(&self) -> bool {
        true
    }
}
