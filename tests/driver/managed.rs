use std::sync::mpsc;

use ptxkit::driver::{
    Advice, Attach, Context, DeviceAttribute, DeviceBuffer, Error, LaunchConfig, Location,
    ManagedBuffer, Module, Stream,
};

use crate::pool::{BLOCK, INCREMENT};
use crate::support::{alone, context, device, is_gpu};

fn managed(values: &[u32]) -> ManagedBuffer<u32> {
    ManagedBuffer::from_slice(&context(), values, Attach::Global).unwrap()
}

#[test]
fn kernels_and_host_share_values() {
    alone();
    let increment = Module::load(&context(), INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::non_blocking(&context()).unwrap();
    let mut numbers = managed(&(0..32).collect::<Vec<_>>());
    let (go, wait) = mpsc::channel::<()>();
    stream
        .call(move || wait.recv().unwrap_or_default())
        .unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    go.send(()).unwrap();
    // Read after the kernel, though in no order with its stream.
    assert_eq!(numbers.to_vec().unwrap(), (1..33).collect::<Vec<_>>());
    numbers.write_at(3, &[100, 200]).unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    let mut some = [0; 3];
    numbers.read_at(2, &mut some).unwrap();
    assert_eq!(some, [4, 101, 201]);
}

#[test]
fn a_reader_waits_for_the_kernel() {
    alone();
    let increment = Module::load(&context(), INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::non_blocking(&context()).unwrap();
    let numbers = managed(&[5; 32]);
    let (go, wait) = mpsc::channel::<()>();
    stream
        .call(move || wait.recv().unwrap_or_default())
        .unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| numbers.to_vec().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let waited = !reader.is_finished();
        go.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), [6; 32]);
        assert!(waited, "it read under the kernel");
    });
}

#[test]
fn every_context_reaches_it() {
    alone();
    let numbers = managed(&[1; 32]);
    let other = Context::create(&device(), 0).unwrap();
    let increment = Module::load(&other, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&other).unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    assert_eq!(numbers.to_vec().unwrap(), [2; 32]);

    let theirs = DeviceBuffer::<u32>::zeroed(&context(), 32).unwrap();
    assert!(matches!(
        unsafe { increment.launch(BLOCK, &stream, (&theirs,)) },
        Err(Error::ArgumentContext { .. })
    ));
}

/// Freeing waits for the work of its own context, and so must it for that of others.
#[test]
fn it_stays_until_other_contexts_are_done() {
    alone();
    let numbers = managed(&[1; 32]);
    let other = Context::create(&device(), 0).unwrap();
    let increment = Module::load(&other, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::non_blocking(&other).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    stream
        .call(move || wait.recv().unwrap_or_default())
        .unwrap();
    unsafe { increment.launch(BLOCK, &stream, (&numbers,)) }.unwrap();
    std::thread::scope(|scope| {
        let stream = &stream;
        let freed = scope.spawn(move || {
            drop(numbers);
            stream.is_done().unwrap()
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        go.send(()).unwrap();
        assert!(freed.join().unwrap(), "it was freed under the kernel");
    });
}

/// Alone, and of so much memory that it shares no page with other allocations:
/// beside other tests, an H200 once had forgotten the advice to 256 KiB.
#[test]
fn advice_is_remembered() {
    alone();
    let here = Location::from(&device());
    let numbers = ManagedBuffer::<u8>::zeroed(&context(), 4 << 20, Attach::Global).unwrap();
    assert!(!numbers.is_read_mostly().unwrap());
    assert_eq!(numbers.preferred_location().unwrap(), None);
    assert_eq!(numbers.accessed_by().unwrap(), []);

    numbers.advise(Advice::ReadMostly, Location::Host).unwrap();
    assert!(numbers.is_read_mostly().unwrap());
    numbers
        .advise(Advice::UnsetReadMostly, Location::Host)
        .unwrap();
    assert!(!numbers.is_read_mostly().unwrap());

    numbers.advise(Advice::PreferredLocation, here).unwrap();
    assert_eq!(numbers.preferred_location().unwrap(), Some(here));
    numbers
        .advise(Advice::PreferredLocation, Location::Host)
        .unwrap();
    assert_eq!(numbers.preferred_location().unwrap(), Some(Location::Host));
    let node = Location::HostNuma(0);
    if numbers.advise(Advice::PreferredLocation, node).is_ok() {
        // Not every device tells nodes apart: an H200 says that it is the host.
        let told = numbers.preferred_location().unwrap();
        let is_there = told == Some(Location::Host) || (is_gpu() && told == Some(node));
        assert!(is_there, "{told:?}");
    }
    numbers
        .advise(Advice::UnsetPreferredLocation, Location::Host)
        .unwrap();
    assert_eq!(numbers.preferred_location().unwrap(), None);

    numbers.advise(Advice::AccessedBy, here).unwrap();
    assert_eq!(numbers.accessed_by().unwrap(), [here]);
    numbers.advise(Advice::UnsetAccessedBy, here).unwrap();
    assert_eq!(numbers.accessed_by().unwrap(), []);

    let nowhere = Location::Device(4096);
    assert!(numbers.advise(Advice::AccessedBy, nowhere).is_err());
}

#[test]
fn a_prefetch_says_where_to() {
    let stream = Stream::new(&context()).unwrap();
    let numbers = managed(&[7; 10_000]);
    assert_eq!(numbers.last_prefetch().unwrap(), None);
    let here = Location::from(&device());
    numbers.prefetch(here, &stream).unwrap();
    assert_eq!(numbers.last_prefetch().unwrap(), Some(here));
    numbers.prefetch(Location::Host, &stream).unwrap();
    assert_eq!(numbers.last_prefetch().unwrap(), Some(Location::Host));
    assert_eq!(numbers.to_vec().unwrap(), [7; 10_000]);
    assert!(numbers.prefetch(Location::Device(4096), &stream).is_err());
}

#[test]
fn the_host_takes_it_where_it_is() {
    let mut numbers = managed(&[1, 2, 3]);
    let concurrent = device()
        .attribute(DeviceAttribute::CONCURRENT_MANAGED_ACCESS)
        .unwrap();
    if is_gpu() && !concurrent {
        return; // other tests' kernels run
    }
    // SAFETY: no work is given the memory meanwhile.
    unsafe {
        numbers.as_mut_slice().unwrap()[1] = 20;
        assert_eq!(numbers.as_slice().unwrap(), [1, 20, 3]);
    }
    assert_eq!(numbers.to_vec().unwrap(), [1, 20, 3]);
}

#[test]
fn it_is_attached_to_streams() {
    let stream = Stream::new(&context()).unwrap();
    let increment = Module::load(&context(), INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let numbers = ManagedBuffer::<u32>::zeroed(&context(), 32, Attach::Host).unwrap();
    numbers.attach(Attach::Single, &stream).unwrap();
    unsafe {
        increment.launch(
            LaunchConfig::new([1, 1, 1], [32, 1, 1]),
            &stream,
            (&numbers,),
        )
    }
    .unwrap();
    assert_eq!(numbers.to_vec().unwrap(), [1; 32]);
}

#[test]
fn copies_stay_within_it() {
    let mut numbers = managed(&[1, 2, 3]);
    assert!(matches!(
        numbers.write(&[0; 4]),
        Err(Error::Length {
            given: 4,
            capacity: 3,
            ..
        })
    ));
    assert!(numbers.write_at(2, &[0; 2]).is_err());
    assert!(numbers.read_at(usize::MAX, &mut [0; 2]).is_err());
    assert!(managed(&[]).to_vec().unwrap().is_empty());
    // Single is for `attach`, not for the allocation.
    assert!(ManagedBuffer::<u32>::zeroed(&context(), 4, Attach::Single).is_err());
}
