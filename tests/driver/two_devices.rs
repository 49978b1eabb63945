//! Work of two devices together: order between their streams, memory that both reach, code that
//! both run. `peer` has access and copies between them.

use std::sync::mpsc::{self, Sender};

use ptxkit::driver::{
    Access, AddressRange, Attach, CaptureMode, Context, Device, DeviceAttribute, DeviceBuffer,
    Error, Event, Graph, GraphExec, Kernel, Library, Location, ManagedBuffer, MemoryPool, Module,
    PhysicalMemory, PinnedBuffer, Stream,
};

use crate::peer::{linked, two};
use crate::pool::{BLOCK, INCREMENT};

/// A device with a stream and a kernel that adds 1 to each of 32 numbers.
struct Side {
    context: Context,
    stream: Stream,
    increment: Kernel,
}

impl Side {
    fn new(context: Context) -> Side {
        let increment = Module::load(&context, INCREMENT).unwrap();
        let side = Side {
            stream: Stream::non_blocking(&context).unwrap(),
            increment: increment.kernel("increment").unwrap(),
            context,
        };
        // A driver may load a kernel when it is first launched, and wait for all streams then.
        let buffer = DeviceBuffer::<u32>::zeroed(&side.context, 32).unwrap();
        side.add_one(&buffer).unwrap();
        side.context.synchronize().unwrap();
        side
    }

    fn of(device: Device) -> Side {
        Side::new(Context::primary(&device).unwrap())
    }

    fn add_one(&self, numbers: &DeviceBuffer<u32>) -> Result<(), Error> {
        // SAFETY: the kernel accesses 32 numbers.
        unsafe { self.increment.launch(BLOCK, &self.stream, (numbers,)) }
    }

    /// The stream waits until the gate is opened.
    fn hold(&self) -> Sender<()> {
        let (gate, opened) = mpsc::channel();
        let wait = move || opened.recv().unwrap_or_default();
        self.stream.call(wait).unwrap();
        gate
    }
}

fn is_true(device: &Device, attribute: DeviceAttribute<bool>) -> bool {
    device.attribute(attribute).unwrap()
}

/// Each launch finds its own context, whichever the one before it was for.
#[test]
fn launches_on_both_devices_take_turns_in_one_thread() {
    let name = "two_devices::launches_on_both_devices_take_turns_in_one_thread";
    two(name, |devices| {
        let sides = devices.map(Side::of);
        let numbers = [0, 1].map(|side: usize| {
            DeviceBuffer::from_slice(&sides[side].context, &[10 * side as u32; 32]).unwrap()
        });
        for _ in 0..50 {
            for (side, numbers) in sides.iter().zip(&numbers) {
                side.add_one(numbers).unwrap();
            }
        }
        assert_eq!(numbers[0].to_vec().unwrap(), [50; 32]);
        assert_eq!(numbers[1].to_vec().unwrap(), [60; 32]);
        let default = Stream::default_of(&sides[0].context);
        for _ in 0..5 {
            sides[1].add_one(&numbers[1]).unwrap();
            // SAFETY: the kernel accesses 32 numbers.
            unsafe { sides[0].increment.launch(BLOCK, &default, (&numbers[0],)) }.unwrap();
        }
        assert_eq!(numbers[0].to_vec().unwrap(), [55; 32]);
        assert_eq!(numbers[1].to_vec().unwrap(), [65; 32]);

        // SAFETY: it is refused.
        let launched = unsafe {
            sides[0]
                .increment
                .launch(BLOCK, &sides[1].stream, (&numbers[0],))
        };
        let error = launched.unwrap_err();
        assert!(matches!(error, Error::DifferentContexts { .. }), "{error}");
    });
}

#[test]
fn threads_work_on_a_device_each() {
    two("two_devices::threads_work_on_a_device_each", |devices| {
        let sides = devices.map(Side::of);
        std::thread::scope(|scope| {
            for side in &sides {
                scope.spawn(move || {
                    let numbers = DeviceBuffer::<u32>::zeroed(&side.context, 32).unwrap();
                    for _ in 0..200 {
                        side.add_one(&numbers).unwrap();
                    }
                    assert_eq!(numbers.to_vec().unwrap(), [200; 32]);
                });
            }
        });
    });
}

/// A stream waits for an event of the other device.
#[test]
fn an_event_orders_streams_of_both_devices() {
    let name = "two_devices::an_event_orders_streams_of_both_devices";
    two(name, |devices| {
        let sides = devices.map(Side::of);
        for [first, second] in [[0, 1], [1, 0]] {
            let (first, second) = (&sides[first], &sides[second]);
            let numbers = DeviceBuffer::<u32>::zeroed(&second.context, 32).unwrap();
            second.context.synchronize().unwrap();
            let gate = first.hold();
            let event = Event::without_timing(&first.context).unwrap();
            event.record(&first.stream).unwrap();
            second.stream.wait_for(&event).unwrap();
            second.add_one(&numbers).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!second.stream.is_done().unwrap(), "it did not wait");
            drop(gate);
            second.stream.synchronize().unwrap();
            assert!(event.is_done().unwrap());
            assert_eq!(numbers.to_vec().unwrap(), [1; 32]);
        }
    });
}

/// Buffers order work of both devices by themselves, as that of two streams of one.
#[test]
fn work_on_a_peers_memory_is_in_order() {
    linked(
        "two_devices::work_on_a_peers_memory_is_in_order",
        |[first, second]| {
            let _access = second.enable_peer(&first).unwrap();
            let (first, second) = (Side::new(first), Side::new(second));
            let mut numbers = DeviceBuffer::<u32>::zeroed(&first.context, 32).unwrap();
            let mut copy = DeviceBuffer::<u32>::zeroed(&second.context, 32).unwrap();
            for context in [&first.context, &second.context] {
                context.synchronize().unwrap();
            }
            let gate = first.hold();
            numbers.fill_async(5, &first.stream).unwrap();
            second.add_one(&numbers).unwrap();
            first.add_one(&numbers).unwrap();
            copy.copy_from_peer_async(&numbers, &second.stream).unwrap();
            first.add_one(&numbers).unwrap();
            assert!(!second.stream.is_done().unwrap());
            drop(gate);
            assert_eq!(numbers.to_vec().unwrap(), [8; 32]);
            assert_eq!(copy.to_vec().unwrap(), [7; 32]);
        },
    );
}

#[test]
fn memory_of_a_pool_is_open_to_a_peer() {
    linked(
        "two_devices::memory_of_a_pool_is_open_to_a_peer",
        |[first, second]| {
            let pool = MemoryPool::new(first.device()).unwrap();
            assert_eq!(pool.access(second.device()).unwrap(), Access::None);
            pool.set_access(second.device(), Access::ReadWrite).unwrap();
            assert_eq!(pool.access(second.device()).unwrap(), Access::ReadWrite);
            let (first, second) = (Side::new(first), Side::new(second));
            let mut numbers = pool.buffer::<u32>(&first.stream, 32).unwrap();
            numbers.fill_async(3, &first.stream).unwrap();
            first.stream.synchronize().unwrap();
            // Access of a pool is not that of a context: the address is passed.
            let launch = |address: u64| {
                // SAFETY: 32 numbers that the device reaches, alive until the stream is waited for.
                unsafe { second.increment.launch(BLOCK, &second.stream, (address,)) }.unwrap();
                second.stream.synchronize()
            };
            launch(numbers.address()).unwrap();
            assert_eq!(numbers.to_vec().unwrap(), [4; 32]);

            // With access of the context the buffer is passed, and freed after the work of both.
            let _access = second.context.enable_peer(&first.context).unwrap();
            let gate = second.hold();
            second.add_one(&numbers).unwrap();
            let mut copy = DeviceBuffer::<u32>::new(&second.context, 32).unwrap();
            copy.copy_from_peer_async(&numbers, &second.stream).unwrap();
            drop(gate);
            drop(numbers);
            let mut next = pool.buffer::<u32>(&first.stream, 32).unwrap();
            next.fill_async(9, &first.stream).unwrap();
            assert_eq!(copy.to_vec().unwrap(), [5; 32]);
            assert_eq!(next.to_vec().unwrap(), [9; 32]);
        },
    );
}

#[test]
fn mapped_memory_is_open_to_both_devices() {
    linked(
        "two_devices::mapped_memory_is_open_to_both_devices",
        |contexts| {
            let supported = DeviceAttribute::VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
            if !contexts
                .iter()
                .all(|context| is_true(context.device(), supported))
            {
                eprintln!("left out: a device has no virtual memory management");
                return;
            }
            let memory = PhysicalMemory::new(&contexts[0], 1).unwrap();
            let range = AddressRange::reserve(&contexts[0], memory.bytes(), 0).unwrap();
            let mapping = range.map(0, &memory).unwrap();
            for context in &contexts {
                mapping
                    .set_access(context.device(), Access::ReadWrite)
                    .unwrap();
                assert_eq!(mapping.access(context.device()).unwrap(), Access::ReadWrite);
            }
            let mut numbers = DeviceBuffer::<u32>::mapped(mapping);
            numbers.fill(1).unwrap();
            contexts[0].synchronize().unwrap();
            let address = numbers.address();
            for side in contexts.map(Side::new) {
                // SAFETY: 32 numbers that both devices reach, alive until the stream is waited for.
                unsafe { side.increment.launch(BLOCK, &side.stream, (address,)) }.unwrap();
                side.stream.synchronize().unwrap();
            }
            let mut found = [0; 33];
            numbers.read_at(0, &mut found).unwrap();
            assert_eq!((found[0], found[31], found[32]), (3, 3, 1));
        },
    );
}

#[test]
fn managed_memory_moves_between_devices() {
    two(
        "two_devices::managed_memory_moves_between_devices",
        |devices| {
            let concurrent = DeviceAttribute::CONCURRENT_MANAGED_ACCESS;
            if !devices.iter().all(|device| is_true(device, concurrent)) {
                eprintln!("left out: managed memory does not move while both devices work");
                return;
            }
            let sides = devices.map(Side::of);
            let context = &sides[0].context;
            let numbers = ManagedBuffer::from_slice(context, &[7_u32; 32], Attach::Global).unwrap();
            for side in &sides {
                let here = Location::from(side.context.device());
                numbers.prefetch(here, &side.stream).unwrap();
                // SAFETY: the kernel accesses 32 numbers.
                unsafe { side.increment.launch(BLOCK, &side.stream, (&numbers,)) }.unwrap();
                side.stream.synchronize().unwrap();
                assert_eq!(numbers.last_prefetch().unwrap(), Some(here));
            }
            assert_eq!(numbers.to_vec().unwrap(), [9; 32]);
        },
    );
}

/// Pinned memory is portable by default: kernels of both devices take it.
#[test]
fn pinned_memory_is_for_both_devices() {
    two(
        "two_devices::pinned_memory_is_for_both_devices",
        |devices| {
            let sides = devices.map(Side::of);
            let numbers = PinnedBuffer::from_slice(&sides[0].context, &[1_u32; 32]).unwrap();
            for side in &sides {
                // SAFETY: the kernel accesses 32 numbers.
                unsafe { side.increment.launch(BLOCK, &side.stream, (&numbers,)) }.unwrap();
            }
            assert_eq!(numbers.to_vec().unwrap(), [3; 32]);
        },
    );
}

/// Loaded once, a library has a kernel and variables for each context.
#[test]
fn a_library_runs_on_both_devices() {
    const COUNTING: &[u8] = b".version 6.0 .target sm_50 .address_size 64
        .visible .global .u32 count = 5;
        .visible .entry add(.param .u32 n) {
            .reg .b32 %r<2>;
            ld.param.u32 %r1, [n];
            red.global.add.u32 [count], %r1;
            ret;
        }";
    two("two_devices::a_library_runs_on_both_devices", |devices| {
        let contexts = devices.map(|device| Context::primary(&device).unwrap());
        let library = match Library::load(&contexts[0], COUNTING) {
            Err(Error::EntryMissing(missing)) => return eprintln!("left out: {missing}"),
            library => library.unwrap(),
        };
        for (context, n) in contexts.iter().zip([1_u32, 10]) {
            let add = library.kernel(context, "add").unwrap();
            assert_eq!(add.context(), context);
            let stream = Stream::new(context).unwrap();
            // SAFETY: the kernel writes the variable.
            unsafe { add.launch(BLOCK, &stream, (n,)) }.unwrap();
            stream.synchronize().unwrap();
        }
        let counts = contexts.each_ref().map(|context| {
            let count = library.global(context, "count").unwrap();
            count.get::<u32>().unwrap()
        });
        assert_eq!(counts, [5 + 32, 5 + 320]);
    });
}

/// A stream of the other device joins a capture by an event; the graph has nodes on both.
#[test]
fn a_graph_has_nodes_on_both_devices() {
    two(
        "two_devices::a_graph_has_nodes_on_both_devices",
        |devices| {
            let [first, second] = devices.map(Side::of);
            let here = DeviceBuffer::<u32>::zeroed(&first.context, 32).unwrap();
            let there = DeviceBuffer::<u32>::zeroed(&second.context, 32).unwrap();
            let [fork, join] =
                [&first, &second].map(|side| Event::without_timing(&side.context).unwrap());
            for side in [&first, &second] {
                side.context.synchronize().unwrap();
            }
            let graph = Graph::capture(&first.stream, CaptureMode::ThreadLocal, |stream| {
                first.add_one(&here)?;
                fork.record(stream)?;
                second.stream.wait_for(&fork)?;
                second.add_one(&there)?;
                join.record(&second.stream)?;
                stream.wait_for(&join)?;
                first.add_one(&here)
            })
            .unwrap();
            assert_eq!(graph.nodes().unwrap().len(), 3);
            let ready = graph.instantiate().unwrap();
            for _ in 0..4 {
                ready.launch(&first.stream).unwrap();
            }
            first.stream.synchronize().unwrap();
            assert_eq!(here.to_vec().unwrap(), [8; 32]);
            assert_eq!(there.to_vec().unwrap(), [4; 32]);
        },
    );
}

/// Launches a graph in the first device's stream, which waits for the gate. Its one node, on the
/// second device, adds 1 to `there`.
fn pending([first, second]: [&Side; 2], there: &DeviceBuffer<u32>) -> (GraphExec, Sender<()>) {
    let [fork, join] = [first, second].map(|side| Event::without_timing(&side.context).unwrap());
    second.context.synchronize().unwrap();
    let graph = Graph::capture(&first.stream, CaptureMode::ThreadLocal, |stream| {
        fork.record(stream)?;
        second.stream.wait_for(&fork)?;
        second.add_one(there)?;
        join.record(&second.stream)?;
        stream.wait_for(&join)
    })
    .unwrap();
    let ready = graph.instantiate().unwrap();
    let gate = first.hold();
    ready.launch(&first.stream).unwrap();
    (ready, gate)
}

/// Whether a stream is done with what waits for the gate after `free`, which comes before it opens.
fn is_waited_for(stream: &Stream, gate: Sender<()>, free: impl FnOnce() + Send) -> bool {
    std::thread::scope(|scope| {
        let freed = scope.spawn(move || {
            free();
            stream.is_done().unwrap()
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        gate.send(()).unwrap();
        freed.join().unwrap()
    })
}

/// Freeing memory and unloading code wait for the work of their own device, and the graph is
/// another's.
#[test]
fn memory_and_code_stay_until_a_graph_of_another_device_is_done() {
    two(
        "two_devices::memory_and_code_stay_until_a_graph_of_another_device_is_done",
        |devices| {
            let [first, second] = devices.map(Side::of);
            let [freed, kept] =
                [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&second.context, 32).unwrap());
            let (ready, gate) = pending([&first, &second], &freed);
            let free = move || drop((ready, freed));
            assert!(is_waited_for(&first.stream, gate, free), "memory");

            let (ready, gate) = pending([&first, &second], &kept);
            let free = move || drop((ready, second));
            assert!(is_waited_for(&first.stream, gate, free), "code");
        },
    );
}
