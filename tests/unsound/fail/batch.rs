//! Batches that would write what they may only read.
use ptxkit::driver::{CopyBatch, DeviceBuffer, DeviceSlice, PinnedBuffer};

fn through_a_shared_part(to: &DeviceBuffer<u32>, from: &DeviceBuffer<u32>) {
    let mut part: DeviceSlice<'_, u32> = to.all();
    let _ = CopyBatch::new().copy(&mut part, from); //~ E0277
}

fn into_pinned_memory(to: &PinnedBuffer<u32>, from: &DeviceBuffer<u32>) {
    let mut part = to.part(..1).unwrap();
    let _ = CopyBatch::new().copy(&mut part, from); //~ E0277
}

fn main() {}
