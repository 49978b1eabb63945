//! Slices of pinned memory beside work that writes it, and after it.
use ptxkit::driver::{Context, DeviceBuffer, PinnedBuffer, Stream, copy_async};

fn written_by_a_copy(from: &DeviceBuffer<u32>, pinned: &mut PinnedBuffer<u32>, stream: &Stream) {
    let slice = pinned.as_slice().unwrap();
    let _ = from.read_async(pinned, stream); //~ E0502
    println!("{slice:?}");
}

fn written_twice(pinned: &mut PinnedBuffer<u32>) {
    let mut one = pinned.as_mut_slice().unwrap();
    let mut other = pinned.as_mut_slice().unwrap(); //~ E0499
    one[0] = other[0];
    other[0] = 1;
}

fn copied_while_written(pinned: &mut PinnedBuffer<u32>, to: &mut DeviceBuffer<u32>, stream: &Stream) {
    let mut slice = pinned.as_mut_slice().unwrap();
    let _ = copy_async(to, &pinned.part(..1).unwrap(), stream); //~ E0502
    slice[0] = 1;
}

fn freed(context: &Context) {
    let pinned = PinnedBuffer::from_slice(context, &[1_u32]).unwrap();
    let slice = pinned.as_slice().unwrap();
    drop(pinned); //~ E0505
    println!("{slice:?}");
}

fn taken_apart(pinned: PinnedBuffer<u32>) {
    let slice = pinned.as_slice().unwrap();
    let _ = pinned.into_vec(); //~ E0505
    println!("{slice:?}");
}

fn outlives(pinned: &PinnedBuffer<u32>) -> &'static [u32] {
    let slice: &'static [u32] = &pinned.as_slice().unwrap(); //~ E0716 error
    slice
}

fn main() {}
