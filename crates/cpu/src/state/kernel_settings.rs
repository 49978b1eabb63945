//! What callers set of a kernel: the attributes of `cuKernelSetAttribute` and `cuFuncSetAttribute`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Settings of a kernel. A function of a library has those of the library's kernel where it has
/// none of its own.
pub(crate) struct KernelSettings {
    values: [AtomicI64; COUNT],
    of_library: Option<Arc<KernelSettings>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Setting {
    /// The maximum of a launch's dynamic shared memory, in bytes.
    SharedLimit,
    /// The percentage of the on-chip memory that it prefers as shared memory; -1 for none.
    Carveout,
    /// The blocks of its clusters along x, y and z; 0 for none.
    ClusterX,
    ClusterY,
    ClusterZ,
    /// 1 if clusters of more than 8 blocks are allowed.
    LargeClusters,
}

/// The axes of a cluster.
pub(crate) const CLUSTER: [Setting; 3] = [Setting::ClusterX, Setting::ClusterY, Setting::ClusterZ];

const COUNT: usize = Setting::LargeClusters as usize + 1;
const UNSET: i64 = i64::MIN;

impl KernelSettings {
    pub(crate) fn new(of_library: Option<Arc<KernelSettings>>) -> Arc<KernelSettings> {
        Arc::new(KernelSettings {
            values: [const { AtomicI64::new(UNSET) }; COUNT],
            of_library,
        })
    }

    pub(crate) fn get(&self, setting: Setting) -> Option<i64> {
        match self.values[setting as usize].load(Ordering::Relaxed) {
            UNSET => self.of_library.as_ref()?.get(setting),
            value => Some(value),
        }
    }

    pub(crate) fn set(&self, setting: Setting, value: impl Into<i64>) {
        self.values[setting as usize].store(value.into(), Ordering::Relaxed);
    }
}
