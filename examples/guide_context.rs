//! Contexts, as in the guide's driver chapter: a library that keeps a context of
//! its own beside the application's (3.3.1), limits (3.3.11), and working beside
//! CUDA's runtime (3.4).
//!
//! `cargo run --release --example guide_context [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{Context, Device, DeviceBuffer, Limit, Scheduling, Stream, select};

/// A library that its callers need not prepare anything for.
struct Library {
    context: Context,
    table: DeviceBuffer<f32>,
}

impl Library {
    /// `cuCtxCreate` and `cuCtxPopCurrent`: the caller's current context stays.
    fn new(device: &Device) -> Result<Library, ptxkit::driver::Error> {
        let context = Context::create(device, Scheduling::Block)?;
        let table = DeviceBuffer::from_slice(&context, &[1.0, 2.0, 4.0])?;
        Ok(Library { context, table })
    }

    /// `cuCtxPushCurrent` and `cuCtxPopCurrent` around the call. Calls of ptxkit
    /// find their context by themselves; this is for code that does not.
    fn sum(&self) -> Result<f32, ptxkit::driver::Error> {
        let _current = self.context.enter()?;
        Ok(self.table.to_vec()?.iter().sum())
    }
    // Dropped, the context is destroyed.
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    // The primary context is the one that CUDA's runtime uses: pointers and
    // streams of either work in the other (`Stream::from_raw`, `Stream::raw`,
    // `DeviceBuffer::address`).
    let context = Context::primary(&device)?;
    let numbers = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3])?;
    let library = Library::new(&device)?;
    assert_eq!(library.sum()?, 7.0);
    assert_eq!(numbers.to_vec()?, [1, 2, 3]);

    let stream = Stream::new(&context)?;
    // SAFETY: the stream lives as long as the one made of its handle.
    let same = unsafe { Stream::from_raw(&context, stream.raw()) };
    same.synchronize()?;

    // A clone is one more use; the driver's own count serves code in C.
    let another = context.clone();
    assert_eq!(another, context);

    // The stack of a thread on the device.
    let stack = library.context.limit(Limit::STACK_SIZE)?;
    library.context.set_limit(Limit::STACK_SIZE, 2 * stack)?;
    println!("{}: stack of {stack} bytes doubled", device.name()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
