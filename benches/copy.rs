//! What a safe copy adds to a bare call of the driver: 64 MiB from pinned memory
//! to the device, back, and within the device, and as many small copies, checked
//! and bare in turn.
//!
//! `PTXKIT_DEVICE` chooses the device; the goals are meant for a GPU.

mod paired;

use ptxkit::driver::{Context, DeviceBuffer, PinnedBuffer, Selection, Stream, select};

const BYTES: usize = 64 << 20;
const SMALL: usize = 4 << 10;
const MANY: usize = 1000;
const RUNS: usize = 51;
const GOAL: f64 = 1.02;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let selection: Selection = std::env::var("PTXKIT_DEVICE")
        .unwrap_or("auto".into())
        .parse()?;
    let selected = select(selection)?;
    println!("{} ({})", selected.device.name()?, selected.why);
    let context = Context::primary(&selected.device)?;
    let stream = Stream::new(&context)?;
    copies(&context, &stream, "64 MiB", BYTES, 1)?;
    copies(&context, &stream, "4 KiB x 1000", SMALL, MANY)
}

fn copies(
    context: &Context,
    stream: &Stream,
    size: &str,
    bytes: usize,
    times: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let host = PinnedBuffer::from_slice(context, &vec![1_u8; bytes])?;
    let mut back = PinnedBuffer::<u8>::zeroed(context, bytes)?;
    let mut device = DeviceBuffer::<u8>::zeroed(context, bytes)?;
    let mut other = DeviceBuffer::<u8>::zeroed(context, bytes)?;
    let api = context.bind()?;
    let (to, from) = (device.address(), host.pointer());
    let (target, room) = (other.address(), back.pointer());
    let queue = stream.raw();
    let rest = |what: &str| format!("{what}, {size}");
    let done = || stream.synchronize().expect("the copies");

    paired::paired(
        &rest("to the device"),
        RUNS,
        GOAL,
        || {
            for _ in 0..times {
                device.write_async(&host, stream).expect("the copy");
            }
            done();
        },
        || {
            for _ in 0..times {
                // SAFETY: both have that many bytes, and the stream is waited for.
                unsafe { api.cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, queue) }
                    .expect("the copy");
            }
            done();
        },
    );
    paired::paired(
        &rest("to the host"),
        RUNS,
        GOAL,
        || {
            for _ in 0..times {
                device.read_async(&mut back, stream).expect("the copy");
            }
            done();
        },
        || {
            for _ in 0..times {
                // SAFETY: as above.
                unsafe { api.cuMemcpyDtoHAsync_v2(room.cast(), to, bytes, queue) }
                    .expect("the copy");
            }
            done();
        },
    );
    paired::paired(
        &rest("within the device"),
        RUNS,
        GOAL,
        || {
            for _ in 0..times {
                other.copy_from_async(&device, stream).expect("the copy");
            }
            done();
        },
        || {
            for _ in 0..times {
                // SAFETY: as above.
                unsafe { api.cuMemcpyDtoDAsync_v2(target, to, bytes, queue) }.expect("the copy");
            }
            done();
        },
    );
    assert!(back.to_vec()?.iter().all(|&byte| byte == 1));
    Ok(())
}
