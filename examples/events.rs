//! Times a kernel and the copies around it with events, in two streams.
//!
//! `cargo run --release --example events [auto|nvidia|nvidia:N|cpu]`

use ptxkit::driver::{
    Context, DeviceBuffer, Event, LaunchConfig, Module, PinnedBuffer, Stream, select,
};

const PTX: &str = include_str!("../ptx-samples/vecadd.ptx");
const N: u32 = 1 << 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let word = std::env::args().nth(1).unwrap_or("auto".into());
    let chosen = select(word.parse()?)?;
    println!("{} ({})", chosen.device.name()?, chosen.why);
    let context = Context::primary(&chosen.device)?;
    let vecadd = Module::load(&context, PTX.as_bytes())?.kernel("vecadd")?;

    // Pinned memory is copied while the program goes on.
    let numbers: Vec<f32> = (0..N).map(|n| (n % 1000) as f32).collect();
    let from = PinnedBuffer::from_slice(&context, &numbers)?;
    let mut to = PinnedBuffer::<f32>::zeroed(&context, numbers.len())?;
    let mut a = DeviceBuffer::<f32>::new(&context, numbers.len())?;
    let mut b = DeviceBuffer::<f32>::new(&context, numbers.len())?;
    let sum = DeviceBuffer::<f32>::new(&context, numbers.len())?;

    // `b` comes through a stream of its own; an event makes the kernel wait for it.
    let stream = Stream::non_blocking(&context)?;
    let other = Stream::non_blocking(&context)?;
    let b_is_there = Event::without_timing(&context)?;
    let times = [(); 4].map(|()| Event::new(&context));
    let [start, copied, added, end] = times;
    let (start, copied, added, end) = (start?, copied?, added?, end?);

    start.record(&stream)?;
    a.write_async(&from, &stream)?;
    b.write_async(&from, &other)?;
    b_is_there.record(&other)?;
    stream.wait_for(&b_is_there)?;
    copied.record(&stream)?;
    // SAFETY: the kernel accesses N values of each buffer.
    unsafe {
        vecadd.launch(
            LaunchConfig::for_elements(N, 256),
            &stream,
            (&a, &b, &sum, N),
        )
    }?;
    added.record(&stream)?;
    sum.read_async(&mut to, &stream)?;
    end.record(&stream)?;
    end.synchronize()?;

    println!("copies in  {:8.3} ms", copied.elapsed_ms_since(&start)?);
    println!("kernel     {:8.3} ms", added.elapsed_ms_since(&copied)?);
    println!("copy out   {:8.3} ms", end.elapsed_ms_since(&added)?);
    let sum = to.to_vec()?;
    let wrong = sum
        .iter()
        .zip(&numbers)
        .filter(|(sum, n)| **sum != **n + **n)
        .count();
    println!("{N} sums, {wrong} wrong");
    Ok(())
}
