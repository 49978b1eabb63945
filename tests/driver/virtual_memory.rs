use ptxkit::driver::{
    Access, AddressRange, CaptureMode, Context, DeviceAttribute, DeviceBuffer, Error, Granularity,
    Graph, GrowableBuffer, Location, Mapping, MemoryKind, Module, PhysicalMemory, Stream,
};

use crate::pool::{BLOCK, INCREMENT};
use crate::support::{alone, context, device, isolated};

/// Nothing where the device has no virtual memory management.
fn memory(context: &Context) -> Option<PhysicalMemory> {
    let attribute = DeviceAttribute::VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
    if !device().attribute(attribute).unwrap() {
        return None;
    }
    Some(PhysicalMemory::new(context, 1).unwrap())
}

fn open(range: &AddressRange, at: usize, memory: &PhysicalMemory) -> Mapping {
    let mapping = range.map(at, memory).unwrap();
    mapping.set_access(&device(), Access::ReadWrite).unwrap();
    mapping
}

/// Of memory that is mapped elsewhere too.
fn open_alias(range: &AddressRange, at: usize, memory: &PhysicalMemory) -> Mapping {
    // SAFETY: no kernel is launched safely.
    let mapping = unsafe { range.map_alias(at, memory) }.unwrap();
    mapping.set_access(&device(), Access::ReadWrite).unwrap();
    mapping
}

#[test]
fn sizes_are_whole_granules() {
    let context = context();
    let Some(memory) = memory(&context) else {
        return;
    };
    let least = PhysicalMemory::granularity(&device(), Granularity::Minimum).unwrap();
    let best = PhysicalMemory::granularity(&device(), Granularity::Recommended).unwrap();
    assert!(least.is_power_of_two() && best >= least, "{least} {best}");
    assert_eq!(memory.bytes(), least);
    assert_eq!(memory.location().unwrap(), Some(Location::from(&device())));
    let range = AddressRange::reserve(&context, least + 1, 8 * least).unwrap();
    assert_eq!(range.bytes(), 2 * least);
    assert_eq!(range.address() % (8 * least as u64), 0);
}

#[test]
fn memory_keeps_its_values_wherever_it_is_mapped() {
    let context = context();
    let Some(memory) = memory(&context) else {
        return;
    };
    let bytes = memory.bytes();
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&context).unwrap();
    let range = AddressRange::reserve(&context, 3 * bytes, 0).unwrap();
    let mut first = DeviceBuffer::<u32>::mapped(open(&range, 0, &memory));
    assert_eq!(first.bytes(), bytes);
    first.fill(5).unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&first,)) }.unwrap();
    stream.synchronize().unwrap();

    // The same memory at a second place, and then there alone.
    let second = DeviceBuffer::<u32>::mapped(open_alias(&range, 2 * bytes, &memory));
    assert_eq!(second.address(), range.address() + 2 * bytes as u64);
    let mut found = [0; 33];
    second.read_at(0, &mut found).unwrap();
    assert_eq!((found[0], found[31], found[32]), (6, 6, 5));
    drop(first);
    unsafe { increment.launch(BLOCK, &stream, (&second,)) }.unwrap();
    stream.synchronize().unwrap();
    drop(second);
    let third = DeviceBuffer::<u32>::mapped(open(&range, bytes, &memory));
    third.read_at(0, &mut found).unwrap();
    assert_eq!((found[0], found[31], found[32]), (7, 7, 5));
}

#[test]
fn access_is_told_and_taken() {
    let context = context();
    let Some(memory) = memory(&context) else {
        return;
    };
    let range = AddressRange::reserve(&context, memory.bytes(), 0).unwrap();
    let mapping = range.map(0, &memory).unwrap();
    assert_eq!(mapping.access(&device()).unwrap(), Access::None);
    mapping.set_access(&device(), Access::ReadWrite).unwrap();
    assert_eq!(mapping.access(&device()).unwrap(), Access::ReadWrite);
    mapping.set_access(&device(), Access::None).unwrap();
    assert_eq!(mapping.access(&device()).unwrap(), Access::None);
}

#[test]
fn memory_without_access_is_out_of_reach() {
    isolated(
        "virtual_memory::memory_without_access_is_out_of_reach",
        &[],
        || {
            let context = Context::create(&device(), 0).unwrap();
            let Some(memory) = memory(&context) else {
                return;
            };
            let increment = Module::load(&context, INCREMENT).unwrap();
            let increment = increment.kernel("increment").unwrap();
            let stream = Stream::new(&context).unwrap();
            let range = AddressRange::reserve(&context, memory.bytes(), 0).unwrap();
            let buffer = DeviceBuffer::<u32>::mapped(range.map(0, &memory).unwrap());
            let launched = unsafe { increment.launch(BLOCK, &stream, (&buffer,)) };
            let error = launched.and_then(|()| stream.synchronize()).unwrap_err();
            assert!(error.is_sticky(), "{error}");
        },
    );
}

#[test]
fn nothing_is_mapped_twice_or_outside() {
    let context = context();
    let Some(memory) = memory(&context) else {
        return;
    };
    let bytes = memory.bytes();
    let range = AddressRange::reserve(&context, 2 * bytes, 0).unwrap();
    let mapping = range.map(0, &memory).unwrap();
    // The addresses are free, and two buffers would be the same memory.
    for at in [0, bytes] {
        let twice = range.map(at, &memory);
        assert!(matches!(twice, Err(Error::Mapped)), "{twice:?}");
    }
    let other = PhysicalMemory::new(&context, 1).unwrap();
    for at in [0, bytes / 2] {
        let taken = range.map(at, &other);
        assert!(matches!(taken, Err(Error::Driver(_))), "{taken:?}");
    }
    drop(range.map(bytes, &other).unwrap());
    for at in [2 * bytes, bytes + 1, usize::MAX] {
        let outside = range.map(at, &memory);
        assert!(
            matches!(outside, Err(Error::Length { capacity, .. }) if capacity == 2 * bytes),
            "{outside:?}"
        );
    }
    drop(mapping);
    drop(range.map(0, &memory).unwrap());
    assert!(PhysicalMemory::new(&context, usize::MAX).is_err());
}

#[test]
fn handles_are_found_by_address() {
    let context = context();
    let Some(memory) = memory(&context) else {
        return;
    };
    let bytes = memory.bytes();
    let range = AddressRange::reserve(&context, 2 * bytes, 0).unwrap();
    let mut buffer = DeviceBuffer::<u32>::mapped(open(&range, 0, &memory));
    buffer.fill(3).unwrap();
    // SAFETY: the memory has that many bytes.
    let found = unsafe { PhysicalMemory::at(&context, buffer.address() + 8, bytes) }.unwrap();
    drop(memory);
    let twice = range.map(bytes, &found);
    assert!(matches!(twice, Err(Error::Mapped)), "{twice:?}");
    let again = DeviceBuffer::<u32>::mapped(open_alias(&range, bytes, &found));
    let mut some = [0; 2];
    again.read_at(100, &mut some).unwrap();
    assert_eq!(some, [3, 3]);
    let facts = context.pointer_attributes(again.address() + 4).unwrap();
    assert_eq!(facts.kind, Some(MemoryKind::Device));
    let host = [0_u8; 4];
    // SAFETY: nothing is found there.
    let none = unsafe { PhysicalMemory::at(&context, host.as_ptr() as u64, bytes) };
    assert!(none.is_err());
}

#[cfg(unix)]
#[test]
fn memory_goes_through_a_file_descriptor() {
    use std::os::fd::AsFd;

    let context = context();
    let attribute = DeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    let Some(memory) = memory(&context).filter(|_| device().attribute(attribute).unwrap()) else {
        return;
    };
    let bytes = memory.bytes();
    let range = AddressRange::reserve(&context, 2 * bytes, 0).unwrap();
    let mut buffer = DeviceBuffer::<u32>::mapped(open(&range, 0, &memory));
    let descriptor = memory.export().unwrap();
    // SAFETY: the descriptor is of memory with that many bytes.
    let imported = unsafe { PhysicalMemory::import(&context, descriptor.as_fd(), bytes) }.unwrap();
    let again = DeviceBuffer::<u32>::mapped(open(&range, bytes, &imported));
    buffer.fill(9).unwrap();
    let mut some = [0; 2];
    again.read_at(7, &mut some).unwrap();
    assert_eq!(some, [9, 9]);
}

/// Safe code has the file: what is mapped must not get shorter under the device.
#[cfg(unix)]
#[test]
fn an_exported_file_keeps_its_size() {
    let context = context();
    let attribute = DeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    let Some(memory) = memory(&context).filter(|_| device().attribute(attribute).unwrap()) else {
        return;
    };
    let range = AddressRange::reserve(&context, memory.bytes(), 0).unwrap();
    let mut buffer = DeviceBuffer::<u32>::mapped(open(&range, 0, &memory));
    buffer.fill(7).unwrap();
    let file = std::fs::File::from(memory.export().unwrap());
    for bytes in [0, 1, memory.bytes() as u64 - 1, 1 << 30] {
        file.set_len(bytes).unwrap_err();
    }
    assert!(buffer.to_vec().unwrap().iter().all(|&value| value == 7));
}

#[test]
fn buffers_grow_where_they_are() {
    let context = context();
    let Some(memory) = memory(&context) else {
        return;
    };
    let granule = memory.bytes() / 4;
    let mut numbers = GrowableBuffer::<u32>::with_capacity(&context, 4 * granule).unwrap();
    assert_eq!((numbers.len(), numbers.mapped_bytes()), (0, 0));
    let address = numbers.address();
    let values: Vec<u32> = (0..3 * granule as u32).collect();
    numbers.extend(&values[..10]).unwrap();
    assert_eq!(numbers.mapped_bytes(), memory.bytes());
    // Over the end of the first piece of memory.
    numbers.extend(&values[10..granule + 10]).unwrap();
    assert_eq!(numbers.mapped_bytes(), 2 * memory.bytes());
    numbers.extend(&values[granule + 10..]).unwrap();
    assert_eq!(numbers.address(), address);
    assert_eq!(numbers.to_vec().unwrap(), values);

    // One kernel, one copy and one fill see both sides of a border.
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&context).unwrap();
    let border = numbers.slice(granule - 16..granule + 16).unwrap();
    unsafe { increment.launch(BLOCK, &stream, (border,)) }.unwrap();
    let mut some = [0; 34];
    numbers.read_at(granule - 17, &mut some).unwrap();
    let first = granule as u32 - 17;
    assert_eq!(some[0], first);
    assert!(
        (1..33).all(|at| some[at] == first + at as u32 + 1),
        "{some:?}"
    );
    assert_eq!(some[33], first + 33);
    numbers.buffer_mut().fill(8).unwrap();
    assert!(numbers.to_vec().unwrap().iter().all(|&value| value == 8));

    let error = numbers.resize(numbers.capacity() + 1).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
    assert_eq!(numbers.len(), 3 * granule);
}

/// Its values may be moved out of it, and are then nobody else's.
#[test]
fn values_that_were_moved_out_have_one_owner() {
    let context = context();
    if memory(&context).is_none() {
        return;
    }
    let mut numbers = GrowableBuffer::<u32>::with_capacity(&context, 1000).unwrap();
    numbers.extend(&[1, 2, 3]).unwrap();
    let other = DeviceBuffer::from_slice(&context, &[4, 5]).unwrap();
    let moved = std::mem::replace(numbers.buffer_mut(), other);
    let grown = numbers.extend(&[6]);
    assert!(matches!(grown, Err(Error::Ended)), "{grown:?}");
    assert!(matches!(numbers.resize(2), Err(Error::Ended)));
    let other = std::mem::replace(numbers.buffer_mut(), moved);
    assert_eq!(other.to_vec().unwrap(), [4, 5]);
    numbers.extend(&[6]).unwrap();
    assert_eq!(numbers.to_vec().unwrap(), [1, 2, 3, 6]);
}

#[test]
fn graphs_keep_what_is_mapped() {
    alone();
    let context = context();
    if memory(&context).is_none() {
        return;
    }
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&context).unwrap();
    let mut result = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
    let mut numbers = GrowableBuffer::<u32>::with_capacity(&context, 100).unwrap();
    numbers.extend(&[1; 32]).unwrap();
    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        unsafe { increment.launch(BLOCK, stream, (&numbers,)) }?;
        result.copy_from_async(&numbers, stream)
    })
    .unwrap();
    let ready = graph.instantiate().unwrap();
    drop((numbers, graph));
    ready.launch(&stream).unwrap();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(result.to_vec().unwrap(), [3; 32]);
}
