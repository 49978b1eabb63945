//! The launches of each kernel since the last writing.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::take;
use std::time::Duration;

use cpu::observe::Launch;
use report::{KernelFault, Launches, Shape};

use super::sources::Sources;

/// Different shapes of a kernel that are kept.
const MAX_SHAPES: usize = 12;

/// Different faults of a kernel that are kept.
const MAX_FAULTS: usize = 20;

/// By the number of the module's code, and by name.
#[derive(Default)]
pub(super) struct Kernels(HashMap<u64, HashMap<String, Kernel>>);

#[derive(Default)]
struct Kernel {
    launches: u64,
    time: Duration,
    longest: Duration,
    shapes: Vec<Shape>,
    other_shapes: u64,
    faults: Vec<KernelFault>,
}

impl Kernels {
    pub(super) fn launched(&mut self, launch: &Launch<'_>) {
        let module = self.0.entry(launch.module).or_default();
        match module.get_mut(launch.kernel) {
            Some(kernel) => kernel.launched(launch),
            None => module
                .entry(launch.kernel.to_owned())
                .or_default()
                .launched(launch),
        }
    }

    /// Removes the launches; the longest come first.
    pub(super) fn take(&mut self, sources: &Sources) -> Vec<Launches> {
        let mut all = Vec::new();
        for (module, kernels) in take(&mut self.0) {
            let digest = sources.digest(module);
            for (name, kernel) in kernels {
                let mut shapes = kernel.shapes;
                shapes.sort_by_key(|shape| Reverse(shape.launches));
                all.push(Launches {
                    module: digest.clone(),
                    launches: kernel.launches,
                    seconds: kernel.time.as_secs_f64(),
                    max_seconds: kernel.longest.as_secs_f64(),
                    shapes,
                    other_shapes: kernel.other_shapes,
                    faults: kernel.faults,
                    ..Launches::new(name)
                });
            }
        }
        all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        all
    }
}

impl Kernel {
    fn launched(&mut self, launch: &Launch<'_>) {
        self.launches += 1;
        self.time += launch.span.time;
        self.longest = self.longest.max(launch.span.time);
        let shape = Shape {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            launches: 1,
        };
        let has_room = self.shapes.len() < MAX_SHAPES;
        let known = self.shapes.iter_mut().find(|known| {
            (known.grid, known.block) == (shape.grid, shape.block)
                && (known.cluster, known.shared_bytes) == (shape.cluster, shape.shared_bytes)
        });
        match known {
            Some(known) => known.launches += 1,
            None if has_room => self.shapes.push(shape),
            None => self.other_shapes += 1,
        }
        if let Some(fault) = launch.fault {
            let has_room = self.faults.len() < MAX_FAULTS;
            let known = self
                .faults
                .iter_mut()
                .find(|known| known.message == fault.message);
            match known {
                Some(known) => known.times += 1,
                None if has_room => self.faults.push(KernelFault {
                    message: fault.message.to_owned(),
                    line: fault.line,
                    times: 1,
                }),
                None => {}
            }
        }
    }
}
