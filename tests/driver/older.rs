//! The device behind a table that lacks what came with CUDA 12.4, where a kernel's
//! parameters and a module's kernels are not told, and newer forms of entries.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use ptxkit::driver::api::{Api, CUmodule};
use ptxkit::driver::{
    Advice, Attach, Context, CopyBatch, DeviceBuffer, Driver, EntryMissing, Error, LaunchConfig,
    Location, ManagedBuffer, Module, Stream,
};
use ptxkit::image::{EntryKind, Unpacker};
use ptxkit::jit::{self, JitOptions};
use ptxkit::ptx::{read, signature::signatures};

use crate::kernels::VECADD;
use crate::support::{alone, device, is_gpu};

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
    unsafe { vecadd.launch(config, &stream, (&a, &a, &sum, 3_u32)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sum.to_vec().unwrap(), [2.0, 4.0, 6.0]);
}

fn counts_arguments(module: &Module) {
    let vecadd = module.kernel("vecadd").unwrap();
    let stream = Stream::new(module.context()).unwrap();
    let error =
        unsafe { vecadd.launch(LaunchConfig::default(), &stream, (0_u64, 0_u64)) }.unwrap_err();
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
    let module = unsafe { Module::load_with(&context, &compiled.binary, kernels) }.unwrap();
    adds(&module);
    counts_arguments(&module);
}

#[test]
fn a_binary_of_which_little_is_known_still_runs() {
    let context = older();
    let compiled = jit::compile(&context, VECADD, &JitOptions::default()).unwrap();
    // SAFETY: what the compiler made.
    let module = unsafe { Module::load_image(&context, &compiled.binary) }.unwrap();
    adds(&module);
    let vecadd = module.kernel("vecadd").unwrap();
    if is_gpu() {
        counts_arguments(&module)
    } else {
        assert_eq!(vecadd.layout(), None)
    }
    let stream = Stream::new(&context).unwrap();
    let arguments = (0_u64, 0_u64, 0_u64, 0_u32);
    let cooperative =
        unsafe { vecadd.launch_cooperative(LaunchConfig::default(), &stream, arguments) };
    let Err(Error::EntryMissing(EntryMissing { entry, .. })) = cooperative else {
        panic!("{cooperative:?}")
    };
    assert_eq!(entry, "cuFuncGetParamInfo");
}

/// A kernel with the name and the parameters of one in the cubins of the file below.
const SHARED_SUM: &[u8] = b".version 6.0 .target sm_50 .address_size 64
.visible .entry _Z10shared_sumPf5Pointi(.param .u64 values, .param .align 4 .b8 point[20],
                                        .param .u32 n) {
    .reg .b32 %n; .reg .b64 %to;
    ld.param.u64 %to, [values]; ld.param.u32 %n, [n];
    st.global.u32 [%to], %n; ret; }\0";

/// Loads that kernel whatever the image is: no device here runs all cubins.
unsafe extern "C" fn load_shared_sum(module: *mut CUmodule, _image: *const c_void) -> c_int {
    let load = device().driver().api().cuModuleLoadData;
    // SAFETY: text that ends in NUL, and what the caller gave.
    load.map_or(-1, |load| unsafe {
        load(module, SHARED_SUM.as_ptr().cast())
    })
}

#[test]
fn a_cubin_says_what_its_kernels_take() {
    static TABLE: OnceLock<Api> = OnceLock::new();
    let device = device();
    let table = TABLE.get_or_init(|| {
        let mut table = older().api().clone();
        table.cuModuleLoadData = Some(load_shared_sum);
        table
    });
    // SAFETY: the device's own entries, less some, and one that loads another image.
    let driver = unsafe { Driver::from_api(table) }.unwrap();
    let context = Context::primary(&driver.device(device.ordinal()).unwrap()).unwrap();
    let file = include_bytes!("../../crates/cli/tests/images/fixtures/kernels.fatbin");
    let contents = ptxkit::image::contents(file).unwrap();
    let mut entries = contents.entries();
    let cubin = entries.find(|entry| entry.kind == EntryKind::Elf).unwrap();
    let mut unpacker = Unpacker::default();
    let cubin = unpacker.unpack(&cubin).unwrap();
    // SAFETY: a compiler made it, and the entry loads other code.
    let module = unsafe { Module::load_image(&context, cubin) }.unwrap();
    assert!(
        module
            .kernel_names()
            .contains(&"_Z10shared_sumPf5Pointi".to_owned())
    );
    let kernel = module.kernel("_Z10shared_sumPf5Pointi").unwrap();
    let layout = kernel.layout().unwrap();
    let places: Vec<_> = layout.params.iter().map(|p| (p.offset, p.size)).collect();
    assert_eq!(places, [(0, 8), (8, 20), (28, 4)]);

    let stream = Stream::new(&context).unwrap();
    let one = LaunchConfig::default();
    let values = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let point = [0_u32; 5];
    let few = unsafe { kernel.launch(one, &stream, (&values, point)) }.unwrap_err();
    assert!(
        matches!(few, Error::ArgumentCount { expected: 3, .. }),
        "{few}"
    );
    let small = unsafe { kernel.launch(one, &stream, (&values, 0_u32, 7_u32)) };
    let small = small.unwrap_err();
    assert!(
        matches!(
            small,
            Error::ArgumentSize {
                index: 1,
                expected: 20,
                given: 4,
                ..
            }
        ),
        "{small}"
    );
    unsafe { kernel.launch(one, &stream, (&values, point, 7_u32)) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(values.to_vec().unwrap(), [7]);
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
    let Err(Error::EntryMissing(EntryMissing { entry, .. })) = node else {
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
