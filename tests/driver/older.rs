//! The device behind a table that lacks what came with CUDA 12.4, where a kernel's
//! parameters and a module's kernels are not told, and newer forms of entries.

use std::sync::OnceLock;

use ptxkit::driver::api::Api;
use ptxkit::driver::{
    Advice, Attach, Context, CopyBatch, DeviceBuffer, Driver, Error, LaunchConfig, Location,
    ManagedBuffer, Module, Stream,
};
use ptxkit::jit::{self, JitOptions};
use ptxkit::ptx::{read, signature::signatures};

use crate::kernels::VECADD;
use crate::support::{alone, device};

fn older() -> Context {
    static TABLE: OnceLock<Api> = OnceLock::new();
    // Asked for first: it may wait for a test that runs alone and wants the table.
    let device = device();
    let table = TABLE.get_or_init(|| {
        let mut table = device.driver().api().clone();
        table.cuFuncGetParamInfo = None;
        table.cuModuleGetFunctionCount = None;
        table.cuModuleEnumerateFunctions = None;
        table.cuMemAdvise_v2 = None;
        table.cuMemPrefetchAsync_v2 = None;
        table.cuMemcpyBatchAsync_v2 = None;
        table
    });
    // SAFETY: the device's own entries, less some.
    let driver = unsafe { Driver::from_api(table) }.unwrap();
    Context::primary(&driver.device(device.ordinal()).unwrap()).unwrap()
}

fn adds(module: &Module) {
    let context = module.context();
    let vecadd = module.kernel("vecadd").unwrap();
    let stream = Stream::new(context).unwrap();
    let a = DeviceBuffer::from_slice(context, &[1.0_f32, 2.0, 3.0]).unwrap();
    let sum = DeviceBuffer::<f32>::zeroed(context, 3).unwrap();
    let config = LaunchConfig::for_elements(3, 32);
    vecadd
        .launch(config, &stream, (&a, &a, &sum, 3_u32))
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sum.to_vec().unwrap(), [2.0, 4.0, 6.0]);
}

fn counts_arguments(module: &Module) {
    let vecadd = module.kernel("vecadd").unwrap();
    let stream = Stream::new(module.context()).unwrap();
    let error = vecadd
        .launch(LaunchConfig::default(), &stream, (0_u64, 0_u64))
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::ArgumentCount {
                expected: 4,
                given: 2,
                ..
            }
        ),
        "{error}"
    );
    let error = module.kernel("vecsub").unwrap_err();
    assert!(error.to_string().contains("`vecadd`"), "{error}");
}

#[test]
fn ptx_is_read_for_what_the_driver_does_not_tell() {
    let module = Module::load(&older(), VECADD.as_bytes()).unwrap();
    adds(&module);
    counts_arguments(&module);
}

#[test]
fn a_binary_takes_what_its_ptx_says() {
    let context = older();
    let compiled = jit::compile(&context, VECADD, &JitOptions::default()).unwrap();
    let kernels = signatures(&read(VECADD).module, VECADD);
    let module = Module::load_with(&context, &compiled.binary, kernels).unwrap();
    adds(&module);
    counts_arguments(&module);
}

#[test]
fn a_binary_of_which_nothing_is_known_still_runs() {
    let context = older();
    let compiled = jit::compile(&context, VECADD, &JitOptions::default()).unwrap();
    let module = Module::load(&context, &compiled.binary).unwrap();
    adds(&module);
    let vecadd = module.kernel("vecadd").unwrap();
    assert_eq!(vecadd.layout(), None);
    let stream = Stream::new(&context).unwrap();
    let cooperative = vecadd.launch_cooperative(LaunchConfig::default(), &stream, (0_u64,));
    let Err(Error::EntryMissing { entry, .. }) = cooperative else {
        panic!("{cooperative:?}")
    };
    assert_eq!(entry, "cuFuncGetParamInfo");
}

#[test]
fn locations_are_devices_or_the_host() {
    alone();
    let context = older();
    let stream = Stream::new(&context).unwrap();
    let numbers = ManagedBuffer::<u8>::zeroed(&context, 4 << 20, Attach::Global).unwrap();
    for location in [Location::from(context.device()), Location::Host] {
        numbers.advise(Advice::PreferredLocation, location).unwrap();
        assert_eq!(numbers.preferred_location().unwrap(), Some(location));
        numbers.prefetch(location, &stream).unwrap();
        assert_eq!(numbers.last_prefetch().unwrap(), Some(location));
    }
    let node = numbers.advise(Advice::PreferredLocation, Location::HostNuma(0));
    let Err(Error::EntryMissing { entry, .. }) = node else {
        panic!("{node:?}")
    };
    assert_eq!(entry, "cuMemAdvise_v2");
}

#[test]
fn a_batch_of_copies_in_its_first_form() {
    let context = older();
    if context.api().cuMemcpyBatchAsync.is_none() {
        return; // it came with CUDA 12.8
    }
    let stream = Stream::non_blocking(&context).unwrap();
    let from = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3]).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&context, 3).unwrap();
    context.synchronize().unwrap();
    let mut batch = CopyBatch::new();
    batch.copy(&mut to, &from).unwrap();
    batch.queue(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [1, 2, 3]);
}
