//! Objects of the program that a graph keeps.

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use crate::driver::callback::call_back;
use crate::driver::error::Error;
use crate::driver::graph::Graph;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`: no call waits for the destructor.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's reference becomes the graph's.
const MOVE: c_uint = 1;

impl Graph {
    /// Keeps an object as long as the graph, its clones and executable graphs, and launches of
    /// those (`cuUserObjectCreate`, `cuGraphRetainUserObject`, from CUDA 11.3): what calls that the
    /// safe layer does not have made its nodes use. What nodes of the safe layer use is kept
    /// without this.
    ///
    /// A thread of the driver drops the reference some time after the last use. Where it is the
    /// last one, the object's destructor must not call the driver, which would deadlock.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use std::sync::Arc;
    /// use ptxkit::driver::{Context, Driver, Graph};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let table = Arc::new(vec![1, 2, 3]);
    /// let mut graph = Graph::new(&context)?;
    /// graph.retain(table.clone())?;
    /// assert_eq!(Arc::strong_count(&table), 2);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn retain<T: Send + Sync + 'static>(&mut self, object: Arc<T>) -> Result<(), Error> {
        unsafe extern "C" fn release<T>(object: *mut c_void) {
            // SAFETY: the pointer made below, handed over once.
            let object = unsafe { Arc::from_raw(object.cast::<T>()) };
            call_back("the destructor of an object that a graph retained", || {
                drop(object)
            });
        }

        let api = self.inner.context.bind()?;
        let graph = self.inner.lock()?;
        let mut handle = null_mut();
        let data = Arc::into_raw(object);
        let (place, release) = (data.cast_mut().cast(), Some(release::<T> as _));
        // SAFETY: `release` takes the pointer back; the object may go to another thread.
        let created =
            unsafe { api.cuUserObjectCreate(&mut handle, place, release, 1, NO_DESTRUCTOR_SYNC) };
        if let Err(error) = created {
            // SAFETY: an object that was not created is never released.
            drop(unsafe { Arc::from_raw(data) });
            return Err(error.into());
        }
        // SAFETY: graph and object are live.
        let retained = unsafe { api.cuGraphRetainUserObject(graph.0, handle, 1, MOVE) };
        if let Err(error) = retained {
            // SAFETY: the object is live, and this is its one reference.
            unsafe { api.cuUserObjectRelease(handle, 1) }?;
            return Err(error.into());
        }
        Ok(())
    }
}
