//! What a launch may ask for beyond grid and block (`CUlaunchAttribute`).

use std::ffi::c_uint;

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::launch::config::LaunchConfig;
use crate::driver::module::kernel::Kernel;
use crate::driver::stream::Stream;
use crate::driver::stream::event::Event;
use api::{CUlaunchConfig, CUstream};

/// Options of [`Kernel::launch_with`]. The default asks for nothing, and is the
/// same as [`Kernel::launch`].
///
/// ```
/// use ptxkit::driver::LaunchOptions;
/// let options = LaunchOptions::new().cluster([2, 1, 1]).programmatic();
/// assert_eq!(options.cluster_size(), Some([2, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchOptions<'a> {
    cooperative: bool,
    cluster: Option<[u32; 3]>,
    cluster_scheduling: Option<ClusterScheduling>,
    programmatic: bool,
    programmatic_event: Option<(&'a Event, bool)>,
    completion_event: Option<&'a Event>,
    priority: Option<i32>,
    remote_memory_domain: bool,
    shared_carveout: Option<u32>,
}

/// How the blocks of a cluster are placed (`CUclusterSchedulingPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ClusterScheduling {
    /// On as many multiprocessors as there are.
    Spread = 1,
    /// So that the multiprocessors have equally much to do.
    LoadBalancing = 2,
}

impl<'a> LaunchOptions<'a> {
    /// Asks for nothing.
    pub const fn new() -> LaunchOptions<'a> {
        LaunchOptions {
            cooperative: false,
            cluster: None,
            cluster_scheduling: None,
            programmatic: false,
            programmatic_event: None,
            completion_event: None,
            priority: None,
            remote_memory_domain: false,
            shared_carveout: None,
        }
    }

    /// All blocks run at once and may wait for one another
    /// (`CU_LAUNCH_ATTRIBUTE_COOPERATIVE`).
    pub const fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Blocks of a cluster in x, y, z; the grid is a multiple of it
    /// (`CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`, `sm_90` and newer).
    pub const fn cluster(mut self, blocks: [u32; 3]) -> Self {
        self.cluster = Some(blocks);
        self
    }

    /// The cluster asked for.
    pub const fn cluster_size(&self) -> Option<[u32; 3]> {
        self.cluster
    }

    /// How clusters are placed
    /// (`CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE`).
    pub const fn cluster_scheduling(mut self, policy: ClusterScheduling) -> Self {
        self.cluster_scheduling = Some(policy);
        self
    }

    /// The kernel may begin before the one ahead of it in the stream has ended,
    /// and waits for it where it says `griddepcontrol.wait`
    /// (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, `sm_90` and newer).
    pub const fn programmatic(mut self) -> Self {
        self.programmatic = true;
        self
    }

    /// Records `event`, made without timing, once all blocks have said
    /// `griddepcontrol.launch_dependents` or ended, or, with `at_block_start`,
    /// once all blocks have begun (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT`).
    pub const fn programmatic_event(mut self, event: &'a Event, at_block_start: bool) -> Self {
        self.programmatic_event = Some((event, at_block_start));
        self
    }

    /// Records `event`, made without timing, about when all blocks have begun
    /// (`CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT`, from CUDA 12.3).
    pub const fn completion_event(mut self, event: &'a Event) -> Self {
        self.completion_event = Some(event);
        self
    }

    /// Its urgency, within [`Stream::priorities`]; the smaller, the more urgent
    /// (`CU_LAUNCH_ATTRIBUTE_PRIORITY`).
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Its memory is ordered apart from that of other kernels
    /// (`CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN`, remote).
    pub const fn remote_memory_domain(mut self) -> Self {
        self.remote_memory_domain = true;
        self
    }

    /// Percent of the on-chip memory preferred as shared memory
    /// (`CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`, from CUDA 12.5).
    pub const fn shared_carveout(mut self, percent: u32) -> Self {
        self.shared_carveout = Some(percent);
        self
    }

    pub(crate) fn check(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        stream: &Stream,
    ) -> Result<(), Error> {
        if let Some(cluster) = self.cluster {
            let fits =
                |axis: usize| cluster[axis] > 0 && config.grid[axis].is_multiple_of(cluster[axis]);
            if !(0..3).all(fits) {
                return Err(Error::Cluster {
                    kernel: kernel.name().to_owned(),
                    grid: config.grid,
                    cluster,
                });
            }
        }
        self.check_events(stream.context(), "event and stream")
    }

    /// Whether the events are of the context in which they are recorded.
    pub(crate) fn check_events(&self, context: &Context, what: &'static str) -> Result<(), Error> {
        if self.events().all(|event| event.context() == context) {
            Ok(())
        } else {
            Err(Error::DifferentContexts { what })
        }
    }

    /// From a captured stream, the events stand for the capture.
    pub(crate) fn record_capture(&self, stream: &Stream) {
        for event in self.events() {
            event.record_capture(stream);
        }
    }

    fn events(&self) -> impl Iterator<Item = &'a Event> {
        let programmatic = self.programmatic_event.map(|(event, _)| event);
        programmatic.into_iter().chain(self.completion_event)
    }

    pub(crate) fn attributes(&self) -> LaunchAttributes {
        let mut all = LaunchAttributes::default();
        if self.cooperative {
            all.add(2, &[1]);
        }
        if let Some(cluster) = self.cluster {
            all.add(4, &cluster);
        }
        if let Some(policy) = self.cluster_scheduling {
            all.add(5, &[policy as u32]);
        }
        if self.programmatic {
            all.add(6, &[1]);
        }
        if let Some((event, at_block_start)) = self.programmatic_event {
            let [low, high] = halves(event);
            all.add(7, &[low, high, 0, u32::from(at_block_start)]);
        }
        if let Some(priority) = self.priority {
            all.add(8, &[priority.cast_unsigned()]);
        }
        if self.remote_memory_domain {
            all.add(10, &[1]);
        }
        if let Some(event) = self.completion_event {
            let [low, high] = halves(event);
            all.add(12, &[low, high, 0]);
        }
        if let Some(percent) = self.shared_carveout {
            all.add(14, &[percent]);
        }
        all
    }
}

/// An event's handle as it lies in an attribute.
fn halves(event: &Event) -> [u32; 2] {
    let handle = event.raw().expose_provenance() as u64;
    let bytes = handle.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

/// One for each method of [`LaunchOptions`].
const MOST_ATTRIBUTES: usize = 9;

/// `CUlaunchAttribute` with its number as a plain one.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaunchAttribute {
    pub number: c_uint,
    pad: u32,
    pub value: [u32; 16],
}

const _: () =
    assert!(size_of::<LaunchAttribute>() == size_of::<cudarc::driver::sys::CUlaunchAttribute>());

/// The attributes of a launch, in memory of their own.
#[derive(Debug, Default)]
pub(crate) struct LaunchAttributes {
    all: [LaunchAttribute; MOST_ATTRIBUTES],
    count: usize,
}

impl LaunchAttributes {
    fn add(&mut self, number: c_uint, value: &[u32]) {
        let attribute = &mut self.all[self.count];
        attribute.number = number;
        attribute.value[..value.len()].copy_from_slice(value);
        self.count += 1;
    }

    /// What `cuLaunchKernelEx` takes; good as long as `self` stays where it is.
    pub fn config(&mut self, config: LaunchConfig, stream: CUstream) -> CUlaunchConfig {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = config;
        CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared_bytes,
            hStream: stream,
            attrs: self.all.as_mut_ptr().cast(),
            numAttrs: self.count as c_uint,
        }
    }
}
