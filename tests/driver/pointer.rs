use ptxkit::driver::{
    Access, Attach, DeviceBuffer, HostFlags, ManagedBuffer, MemoryKind, MemoryPool, PinnedBuffer,
    Stream,
};

use crate::support::{alone, context, device};

#[test]
fn device_memory_tells_of_itself() {
    let context = context();
    let buffer = DeviceBuffer::<u32>::new(&context, 1000).unwrap();
    let (start, end) = (buffer.address(), buffer.address() + 4000);
    let found = context.pointer_attributes(start + 100).unwrap();
    assert_eq!(found.kind, Some(MemoryKind::Device));
    assert_eq!(found.context, context.raw());
    assert_eq!(found.device_address, start + 100);
    assert_eq!(found.host_address, None);
    assert_eq!(found.device, Some(device().ordinal()));
    assert!(!found.managed && !found.synchronous);
    assert_eq!(found.range.start, start);
    assert!(found.range.end >= end, "{found:?}");
    assert_eq!(found.access, Access::ReadWrite);
    assert!(found.pool.is_null());
    assert_eq!(context.address_range(end - 1).unwrap().start, start);

    let other = DeviceBuffer::<u32>::new(&context, 1000).unwrap();
    let other = context.pointer_attributes(other.address()).unwrap();
    assert_ne!(other.buffer_id, found.buffer_id);
    let again = context.pointer_attributes(end - 4).unwrap();
    assert_eq!(again.buffer_id, found.buffer_id);
}

#[test]
fn pinned_and_managed_memory_have_both_addresses() {
    let context = context();
    let flags = HostFlags::default();
    let pinned = PinnedBuffer::<u8>::with_flags(&context, 5000, flags).unwrap();
    let found = context
        .pointer_attributes(pinned.pointer() as u64 + 7)
        .unwrap();
    assert_eq!(found.kind, Some(MemoryKind::Host));
    assert_eq!(found.host_address, Some(pinned.pointer() as usize + 7));
    assert_eq!(found.device_address, pinned.device_address() + 7);
    assert!(!found.managed);

    let managed = ManagedBuffer::<u8>::zeroed(&context, 5000, Attach::Global).unwrap();
    let found = context.pointer_attributes(managed.address() + 7).unwrap();
    assert!(found.managed);
    assert!(
        matches!(found.kind, Some(MemoryKind::Device | MemoryKind::Unified)),
        "{found:?}"
    );
    assert_eq!(found.host_address, Some(managed.address() as usize + 7));
    assert_eq!(found.device_address, managed.address() + 7);
}

#[test]
fn memory_of_pools_names_its_pool() {
    alone();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let pool = MemoryPool::new(&device()).unwrap();
    let mut buffer = pool.buffer::<u32>(&stream, 100).unwrap();
    let found = context.pointer_attributes(buffer.address()).unwrap();
    assert_eq!(found.kind, Some(MemoryKind::Device));
    assert_eq!(found.pool, pool.raw());
    buffer.fill(1).unwrap();
}

#[test]
fn memory_that_the_driver_does_not_know() {
    let context = context();
    let own = [0_u8; 16];
    let found = context.pointer_attributes(own.as_ptr() as u64).unwrap();
    assert_eq!(found.kind, None);
    assert_eq!(found.device, None);
    // A device that reads the host's pages by itself has an address for them.
    let at = found.host_address;
    assert!(at.is_none_or(|at| at == own.as_ptr() as usize), "{found:?}");
    assert!(context.address_range(own.as_ptr() as u64).is_err());

    let buffer = DeviceBuffer::<u32>::new(&context, 10).unwrap();
    let address = buffer.address();
    drop(buffer);
    // Freed memory may be another test's by now.
    let found = context.pointer_attributes(address).unwrap();
    assert!(found.kind.is_none() || !found.range.is_empty());
}

#[test]
fn a_thread_without_a_context_reads_attributes() {
    const RANGE_SIZE: u32 = 12; // CU_POINTER_ATTRIBUTE_RANGE_SIZE
    let context = context();
    let buffer = DeviceBuffer::<u32>::new(&context, 1000).unwrap();
    let (api, address) = (context.api(), buffer.address());
    let size = std::thread::spawn(move || {
        let mut size = 0_u64;
        // SAFETY: the attribute has 8 bytes.
        unsafe { api.cuPointerGetAttribute((&raw mut size).cast(), RANGE_SIZE, address) }?;
        Ok::<_, ptxkit::driver::Error>(size)
    });
    assert!(size.join().unwrap().unwrap() >= 4000);
}

#[test]
fn copies_are_made_synchronous() {
    let context = context();
    let mut buffer = DeviceBuffer::<u32>::new(&context, 1000).unwrap();
    buffer.set_synchronous(true).unwrap();
    let synchronous = |buffer: &DeviceBuffer<u32>| {
        let found = context.pointer_attributes(buffer.address());
        found.unwrap().synchronous
    };
    assert!(synchronous(&buffer));
    buffer.set_synchronous(false).unwrap();
    assert!(!synchronous(&buffer));
}
