//! Two drivers in one process: what is of one is refused by the other. The
//! second is the device's own behind another table.

use std::sync::{Arc, OnceLock};

use ptxkit::driver::api::Api;
use ptxkit::driver::{
    Access, AddressRange, Attach, CacheConfig, Context, Driver, Error, Event, Graph,
    KernelAttribute, LaunchOptions, Library, Location, ManagedBuffer, MemoryPool, Module,
    PhysicalMemory, PinnedBuffer, Stream, copy,
};

use crate::pool::{BLOCK, INCREMENT};
use crate::support::{alone, context, device};

fn other() -> Context {
    static TABLE: OnceLock<Api> = OnceLock::new();
    let device = device();
    let table = TABLE.get_or_init(|| device.driver().api().clone());
    // SAFETY: the device's own entries.
    let driver = unsafe { Driver::from_api(table) }.unwrap();
    Context::primary(&driver.device(device.ordinal()).unwrap()).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(
        matches!(
            result,
            Err(Error::DifferentContexts { .. } | Error::ArgumentContext { .. })
        ),
        "{result:?}"
    );
}

#[test]
fn events_are_of_one() {
    let (here, there) = (context(), other());
    let stream = Stream::new(&here).unwrap();
    let theirs = Arc::new(Event::new(&there).unwrap());
    refused(stream.wait_for(&theirs));
    refused(theirs.record(&stream));
    let ours = Arc::new(Event::new(&here).unwrap());
    refused(ours.elapsed_ms_since(&theirs));
    let mut graph = Graph::new(&here).unwrap();
    refused(graph.add_event_wait(&[], &theirs));
    refused(graph.add_event_record(&[], &theirs));
    let node = graph.add_event_wait(&[], &ours).unwrap();
    let mut ready = graph.instantiate().unwrap();
    refused(ready.set_event_wait(node, &theirs));
}

#[test]
fn memory_that_all_contexts_reach_is_of_one() {
    let (here, there) = (context(), other());
    let increment = Module::load(&here, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&here).unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(&there, 32).unwrap();
    refused(unsafe { increment.launch(BLOCK, &stream, (&pinned,)) });
    let mut managed = ManagedBuffer::<u32>::zeroed(&there, 32, Attach::Global).unwrap();
    refused(unsafe { increment.launch(BLOCK, &stream, (&managed,)) });
    let ours = PinnedBuffer::<u32>::zeroed(&here, 32).unwrap();
    refused(copy(&mut managed, &ours));
}

#[test]
fn memory_without_addresses_is_of_one() {
    let (here, there) = (context(), other());
    let Ok(memory) = PhysicalMemory::new(&there, 1) else {
        return; // a device without it
    };
    let range = AddressRange::reserve(&here, memory.bytes(), 0).unwrap();
    refused(range.map(0, &memory));
}

/// A device's number would be taken for that of another device.
#[track_caller]
fn unknown<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::UnknownDevice { .. })),
        "{result:?}"
    );
}

#[test]
fn devices_that_are_named_are_of_one() {
    alone();
    let (here, there) = (context(), other());
    let theirs = there.device();
    let library = Library::load(&here, INCREMENT).unwrap();
    unknown(library.attribute("increment", KernelAttribute::NUM_REGS, theirs));
    let most = KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    unknown(library.set_attribute("increment", most, 1024, theirs));
    unknown(library.set_cache_config("increment", CacheConfig::PreferL1, theirs));
    if let Ok(pool) = MemoryPool::new(here.device()) {
        unknown(pool.access(theirs));
        unknown(pool.set_access(theirs, Access::ReadWrite));
    }
    if let Ok(memory) = PhysicalMemory::new(&here, 1) {
        let range = AddressRange::reserve(&here, memory.bytes(), 0).unwrap();
        let mapping = range.map(0, &memory).unwrap();
        unknown(mapping.access(theirs));
        unknown(mapping.set_access(theirs, Access::ReadWrite));
    }
}

#[test]
fn streams_and_events_that_are_named_are_of_one() {
    let (here, there) = (context(), other());
    let stream = Stream::new(&there).unwrap();
    let managed = ManagedBuffer::<u32>::zeroed(&here, 32, Attach::Global).unwrap();
    refused(managed.prefetch(Location::from(here.device()), &stream));
    refused(managed.attach(Attach::Single, &stream));
    let increment = Module::load(&here, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let event = Event::without_timing(&there).unwrap();
    let options = LaunchOptions::new().completion_event(&event);
    refused(increment.max_active_clusters(BLOCK, &options));
}
