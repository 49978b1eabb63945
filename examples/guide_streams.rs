//! Streams and events, as in the guide's driver chapter (3.3.7): copies and
//! kernels of two streams overlap, events take the time; and the same work as a
//! graph.
//!
//! `cargo run --release --example guide_streams [auto|nvidia|nvidia:N|cpu]`

use std::error::Error;

use ptxkit::driver::{
    CaptureMode, Context, Device, DeviceBuffer, Event, Graph, Kernel, LaunchConfig, Module,
    PinnedBuffer, Stream, select,
};

const PTX: &str = include_str!("../ptx-samples/vecadd.ptx");
const N: usize = 1 << 16;

/// One half of the work: in, add to itself, out.
struct Half {
    stream: Stream,
    from: PinnedBuffer<f32>,
    to: PinnedBuffer<f32>,
    input: DeviceBuffer<f32>,
    output: DeviceBuffer<f32>,
}

impl Half {
    fn new(context: &Context, start: usize) -> Result<Half, ptxkit::driver::Error> {
        let numbers: Vec<f32> = (start..start + N).map(|n| n as f32).collect();
        Ok(Half {
            stream: Stream::non_blocking(context)?,
            from: PinnedBuffer::from_slice(context, &numbers)?,
            to: PinnedBuffer::zeroed(context, N)?,
            input: DeviceBuffer::new(context, N)?,
            output: DeviceBuffer::new(context, N)?,
        })
    }

    fn queue(&mut self, stream: &Stream, vecadd: &Kernel) -> Result<(), ptxkit::driver::Error> {
        self.input.write_async(&self.from, stream)?;
        let config = LaunchConfig::for_elements(N as u32, 256);
        let arguments = (&self.input, &self.input, &self.output, N as u32);
        // SAFETY: the kernel accesses as many values as each buffer has.
        unsafe { vecadd.launch(config, stream, arguments) }?;
        self.output.read_async(&mut self.to, stream)
    }

    fn is_right(&self) -> Result<bool, ptxkit::driver::Error> {
        let (from, to) = (self.from.to_vec()?, self.to.to_vec()?);
        Ok(from.iter().zip(&to).all(|(from, to)| *to == from + from))
    }
}

pub fn run(device: Device) -> Result<(), Box<dyn Error>> {
    let context = Context::primary(&device)?;
    let vecadd = Module::load(&context, PTX.as_bytes())?.kernel("vecadd")?;
    let mut halves = [Half::new(&context, 0)?, Half::new(&context, N)?];

    let (start, stop) = (Event::new(&context)?, Event::new(&context)?);
    start.record(&halves[0].stream)?;
    for half in &mut halves {
        let stream = half.stream.clone();
        half.queue(&stream, &vecadd)?;
    }
    // The first stream's end is the end of both.
    let second = Event::without_timing(&context)?;
    second.record(&halves[1].stream)?;
    halves[0].stream.wait_for(&second)?;
    stop.record(&halves[0].stream)?;
    stop.synchronize()?;
    println!(
        "{}: {:.3} ms",
        device.name()?,
        stop.elapsed_ms_since(&start)?
    );
    assert!(halves[0].is_right()? && halves[1].is_right()?);

    // Captured once, launched as often as needed with one call.
    let half = &mut halves[0];
    let stream = half.stream.clone();
    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        half.queue(stream, &vecadd)
    })?;
    let ready = graph.instantiate()?;
    half.from.write(&vec![21.0; N])?;
    ready.launch(&stream)?;
    assert_eq!(half.to.to_vec()?[N - 1], 42.0);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    run(select(word.parse()?)?.device)
}
