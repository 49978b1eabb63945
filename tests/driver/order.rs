//! Work that uses the same memory in several streams is in order by itself.

use std::sync::mpsc;

use ptxkit::driver::{
    CaptureMode, Context, Count, DeviceBuffer, Graph, LaunchConfig, PinnedBuffer, Stream,
    TypedKernel, WaitValue, copy_async,
};

use crate::kernels::VECADD;
use crate::support::{alone, context, kernel};

/// Two streams that keep no order with the default stream, of which the first is held.
struct Streams {
    /// The first goes on when it is sent something, or when this is dropped.
    gate: mpsc::Sender<()>,
    first: Stream,
    second: Stream,
}

fn streams() -> Streams {
    alone();
    let context = context();
    let [first, second] = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    let gate = hold(&first);
    Streams {
        gate,
        first,
        second,
    }
}

fn hold(stream: &Stream) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel();
    let wait = move || {
        let _ = gate.recv();
    };
    stream.call(wait).unwrap();
    open
}

fn filled(context: &Context, value: u32) -> DeviceBuffer<u32> {
    let mut buffer = DeviceBuffer::new(context, 64).unwrap();
    buffer.fill(value).unwrap();
    context.synchronize().unwrap();
    buffer
}

type Add = TypedKernel<(*const f32, *const f32, *mut f32, Count<u32>)>;

fn adding() -> (Context, Add) {
    alone();
    let (context, stream, vecadd) = kernel(VECADD, "vecadd");
    let add: Add = unsafe { vecadd.typed() }.unwrap();
    // A driver may load a kernel when it is first launched, and wait for all streams then.
    let [a, b, mut sum] = [(); 3].map(|()| DeviceBuffer::zeroed(&context, 1).unwrap());
    let config = LaunchConfig::for_elements(1, 32);
    add.launch(config, &stream, (&a, &b, &mut sum, 1)).unwrap();
    stream.synchronize().unwrap();
    (context, add)
}

#[test]
fn a_copy_waits_for_what_another_stream_fills() {
    alone();
    let context = context();
    let (mut from, mut to) = (filled(&context, 1), filled(&context, 2));
    let on = streams();
    from.fill_async(7, &on.first).unwrap();
    to.copy_from_async(&from, &on.second).unwrap();
    assert!(!on.second.is_done().unwrap());
    on.gate.send(()).unwrap();
    on.second.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [7; 64]);
}

#[test]
fn a_launch_waits_for_copies_and_the_host_for_the_launch() {
    let (context, add) = adding();
    let [ones, twos] = [1.0, 2.0].map(|value| PinnedBuffer::from_slice(&context, &[value; 64]));
    let (ones, twos) = (ones.unwrap(), twos.unwrap());
    let [mut a, mut b, mut sum] = [(); 3].map(|()| DeviceBuffer::zeroed(&context, 64).unwrap());
    context.synchronize().unwrap();
    let on = streams();
    a.write_async(&ones, &on.first).unwrap();
    b.write_async(&twos, &on.first).unwrap();
    let config = LaunchConfig::for_elements(64, 64);
    add.launch(config, &on.second, (&a, &b, &mut sum, 64_u32))
        .unwrap();
    assert!(!on.second.is_done().unwrap());
    on.gate.send(()).unwrap();
    // The default stream keeps no order with either.
    assert_eq!(sum.to_vec().unwrap(), [3.0; 64]);
}

#[test]
fn work_of_the_default_stream_is_waited_for() {
    let (context, add) = adding();
    let default = Stream::default_of(&context);
    let second = Stream::non_blocking(&context).unwrap();
    let [mut a, b, mut sum] = [(); 3].map(|()| DeviceBuffer::zeroed(&context, 64).unwrap());
    let gate = hold(&default);
    a.fill_async(5.0, &default).unwrap();
    let config = LaunchConfig::for_elements(64, 64);
    add.launch(config, &second, (&a, &b, &mut sum, 64_u32))
        .unwrap();
    assert!(!second.is_done().unwrap());
    gate.send(()).unwrap();
    second.synchronize().unwrap();
    assert_eq!(sum.to_vec().unwrap(), [5.0; 64]);
}

#[test]
fn raw_arguments_are_written_unless_they_are_read_only() {
    let (context, add) = adding();
    let add = add.kernel();
    let [a, b] = [(); 2].map(|()| DeviceBuffer::<f32>::zeroed(&context, 64).unwrap());
    let [sum, other] = [(); 2].map(|()| DeviceBuffer::<f32>::zeroed(&context, 64).unwrap());
    context.synchronize().unwrap();
    let on = streams();
    let config = LaunchConfig::for_elements(64, 64);
    let inputs = (a.arg().read_only(), b.arg().read_only());
    unsafe { add.launch(config, &on.first, (inputs.0, inputs.1, &sum, 64_u32)) }.unwrap();
    unsafe { add.launch(config, &on.second, (inputs.0, inputs.1, &other, 64_u32)) }.unwrap();
    on.second.synchronize().unwrap();
    unsafe { add.launch(config, &on.second, (&a, inputs.1, &other, 64_u32)) }.unwrap();
    assert!(!on.second.is_done().unwrap());
    on.gate.send(()).unwrap();
    on.second.synchronize().unwrap();
}

#[test]
fn reads_wait_for_no_reads_and_a_write_for_all() {
    alone();
    let context = context();
    let mut from = filled(&context, 1);
    let [mut one, mut other] = [2, 3].map(|value| filled(&context, value));
    let on = streams();
    one.copy_from_async(&from, &on.first).unwrap();
    other.copy_from_async(&from, &on.second).unwrap();
    on.second.synchronize().unwrap();
    from.fill_async(9, &on.second).unwrap();
    assert!(!on.second.is_done().unwrap());
    on.gate.send(()).unwrap();
    assert_eq!(one.to_vec().unwrap(), [1; 64]);
    assert_eq!(other.to_vec().unwrap(), [1; 64]);
    assert_eq!(from.to_vec().unwrap(), [9; 64]);
}

#[test]
fn other_parts_are_not_waited_for() {
    alone();
    let context = context();
    let mut buffer = filled(&context, 1);
    let on = streams();
    let (mut left, mut right) = buffer.all_mut().split_at_mut(32).unwrap();
    left.fill_async(2, &on.first).unwrap();
    right.fill_async(3, &on.second).unwrap();
    on.second.synchronize().unwrap();
    let mut middle = buffer.slice_mut(31..33).unwrap();
    middle.fill_async(4, &on.second).unwrap();
    assert!(!on.second.is_done().unwrap());
    on.gate.send(()).unwrap();
    let expected = [[2; 31].as_slice(), &[4; 2], &[3; 31]].concat();
    assert_eq!(buffer.to_vec().unwrap(), expected);
}

#[test]
fn many_parts_in_two_streams_are_in_order() {
    alone();
    let context = context();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&context, 300).unwrap();
    context.synchronize().unwrap();
    let on = streams();
    for round in 1..=2 {
        for (index, mut chunk) in buffer.all_mut().chunks_mut(1).enumerate() {
            let stream = [&on.first, &on.second][(index + round) % 2];
            chunk.fill_async((index * round) as u32, stream).unwrap();
        }
    }
    on.gate.send(()).unwrap();
    let expected: Vec<u32> = (0..300).map(|index| 2 * index).collect();
    assert_eq!(buffer.to_vec().unwrap(), expected);
}

#[test]
fn pinned_memory_is_in_order() {
    alone();
    let context = context();
    let (from, mut to) = (filled(&context, 6), filled(&context, 0));
    let mut pinned = PinnedBuffer::zeroed(&context, 64).unwrap();
    let on = streams();
    from.read_async(&mut pinned, &on.first).unwrap();
    copy_async(&mut to, &pinned, &on.second).unwrap();
    assert!(!on.second.is_done().unwrap());
    on.gate.send(()).unwrap();
    on.second.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [6; 64]);
}

#[test]
fn it_can_be_turned_off() {
    alone();
    let context = context();
    context.disable_event_tracking();
    assert!(!context.is_event_tracking());
    let [mut from, mut to] = [1, 2].map(|value| filled(&context, value));
    let [first, second] = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    let gate = hold(&first);
    from.fill_async(7, &first).unwrap();
    to.copy_from_async(&from, &second).unwrap();
    second.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [1; 64]);
    context.enable_event_tracking();
    gate.send(()).unwrap();
    first.synchronize().unwrap();
    assert_eq!(from.to_vec().unwrap(), [7; 64]);
}

#[test]
fn launches_of_graphs_are_in_order() {
    alone();
    let context = context();
    let [mut from, mut to] = [1, 2].map(|value| filled(&context, value));
    let third = Stream::non_blocking(&context).unwrap();
    let graph = Graph::capture(&third, CaptureMode::Relaxed, |stream| {
        to.copy_from_async(&from, stream)
    })
    .unwrap();
    let exec = graph.instantiate().unwrap();
    exec.launch(&third).unwrap();
    third.synchronize().unwrap();
    let on = streams();
    from.fill_async(8, &on.first).unwrap();
    exec.launch(&on.second).unwrap();
    assert!(!on.second.is_done().unwrap());
    from.fill_async(9, &third).unwrap();
    assert!(!third.is_done().unwrap());
    on.gate.send(()).unwrap();
    assert_eq!(to.to_vec().unwrap(), [8; 64]);
    assert_eq!(from.to_vec().unwrap(), [9; 64]);
}

/// An event that is recorded in a captured stream would be part of the graph.
#[test]
fn work_before_a_capture_is_waited_for_during_it() {
    alone();
    let context = context();
    let [mut from, mut to, mut within] = [1, 2, 3].map(|value| filled(&context, value));
    let on = streams();
    from.fill_async(7, &on.first).unwrap();
    let graph = Graph::capture(&on.first, CaptureMode::Relaxed, |stream| {
        within.fill_async(4, stream)?;
        to.copy_from_async(&from, &on.second)?;
        assert!(!on.second.is_done()?);
        Ok(())
    })
    .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    on.gate.send(()).unwrap();
    on.second.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [7; 64]);
    assert_eq!(within.to_vec().unwrap(), [3; 64]);
}

/// The default stream takes no event while a stream that keeps order with it is captured.
#[test]
fn work_of_the_default_stream_is_waited_for_during_a_capture() {
    alone();
    let context = context();
    let [mut from, mut to, mut within] = [1, 2, 3].map(|value| filled(&context, value));
    let default = Stream::default_of(&context);
    let (captured, second) = (Stream::new(&context), Stream::non_blocking(&context));
    let (captured, second) = (captured.unwrap(), second.unwrap());
    let gate = hold(&default);
    from.fill_async(7, &default).unwrap();
    let graph = Graph::capture(&captured, CaptureMode::Relaxed, |stream| {
        within.fill_async(4, stream)?;
        to.copy_from_async(&from, &second)?;
        assert!(!second.is_done()?);
        Ok(())
    })
    .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    gate.send(()).unwrap();
    second.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [7; 64]);
}

/// They are the order themselves: the first waits for what the second writes.
#[test]
fn waits_for_values_are_not_ordered() {
    alone();
    let context = context();
    let flag = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();
    let [first, second] = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    first.wait_value(&flag, WaitValue::Equal, 1).unwrap();
    second.write_value(&flag, 1).unwrap();
    first.synchronize().unwrap();
}
