//! Kernels that `kernels!` declares, on a device.

use ptxkit::DeviceRepr;
use ptxkit::cache::{Cache, Slicing};
use ptxkit::driver::{
    Count, DeviceBuffer, DevicePointer, DeviceSlice, DeviceSliceMut, DriverKind, Error,
    LaunchConfig, ParamBuffer, Stream, TensorMap, TensorView,
};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{CacheUse, LoadError, Loader, Source};

use crate::{context, policy};

/// With a name for its padding.
#[derive(Clone, Copy, Debug, PartialEq, DeviceRepr)]
#[repr(C)]
struct Step {
    count: u32,
    _padding: [u8; 4],
    width: f64,
}

ptxkit::kernels! {
    /// Of a file.
    mod declared in "declared.ptx";
    unsafe extern {
        // SAFETY: it accesses `n` values.
        safe fn scale(values: &mut DeviceSlice<f32>, n: Count<u32>, factor: f32);
        /// The same kernel, for a part of a buffer.
        #[link_name = "scale"]
        #[block(32)]
        safe fn scale_in_warps(values: &mut DeviceSliceMut<'_, f32>, n: Count<u32>, factor: f32);
        // SAFETY: it stays below both lengths.
        #[link_name = "_Z4copyPKjmPjm"]
        #[block(32)]
        safe fn copy(from: &[u32], to: &mut [u32]);
        #[cooperative]
        fn store(to: *mut Step, step: Step);
        #[link_name = "store"]
        fn store_at(to: u64, step: Step);
    }

    /// Of its text. A parameter may have the names of those that all methods have.
    pub(crate) mod inline = r#"
        .version 8.0 .target sm_70 .address_size 64
        .visible .entry nothing(.param .b32 a, .param .u64 b) { ret; }"#;
    unsafe extern {
        pub safe fn nothing(stream: u32, config: i64);
    }
}

fn loader(folder: &tempfile::TempDir) -> Loader {
    let policy = policy(folder.path()).with_slicing(Slicing::Always);
    Loader::new(context(), Cache::new(policy))
}

#[test]
fn declared_kernels_are_compiled_when_they_are_launched() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let mut values = DeviceBuffer::from_slice(&context, &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
    let config = LaunchConfig::for_elements(4, 32);
    let mut used = Vec::new();
    for _ in 0..2 {
        let kernels = declared::load(&loader(&folder)).unwrap();
        assert!(kernels.module().kernel_report("scale").is_none());
        kernels.scale(config, &stream, &mut values, 3, 2.0).unwrap();
        used.push(kernels.module().kernel_report("scale").unwrap().cache);
        assert!(kernels.module().kernel_report("store").is_none());
        // A clone has what the first has loaded.
        kernels
            .clone()
            .scale(config, &stream, &mut values, 1, 10.0)
            .unwrap();
    }
    assert_eq!(used, [CacheUse::Miss, CacheUse::Hit]);
    assert_eq!(values.to_vec().unwrap(), [400.0, 8.0, 12.0, 4.0]);

    let kernels = declared::load(&loader(&folder)).unwrap();
    kernels.prepare().unwrap();
    for name in ["scale", "store", "_Z4copyPKjmPjm"] {
        assert!(kernels.module().kernel_report(name).is_some(), "{name}");
    }
    assert!(kernels.module().kernel_report("shared_address").is_none());
}

#[test]
fn the_digest_is_that_of_run_time() {
    let folder = tempfile::tempdir().unwrap();
    let options = JitOptions::default();
    let bytes = std::fs::read("tests/loader/declared.ptx").unwrap();
    let at_run_time = Source::new("declared.ptx", &bytes);
    // Whole it does not load on a GPU: no argument is an address in shared memory.
    let key = |source| {
        let module = loader(&folder).load_sliced(source, &options).unwrap();
        module.report().key.unwrap()
    };
    assert_eq!(key(&declared::SOURCE), key(&at_run_time));
}

#[test]
fn a_launch_is_refused_that_was_not_declared() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let kernels = declared::load(&loader(&folder)).unwrap();
    let mut values = DeviceBuffer::<f32>::zeroed(&context, 4).unwrap();
    let wide = LaunchConfig::for_elements(4, 64);
    let warp = LaunchConfig::for_elements(4, 32);

    // More values than there are.
    let error = kernels.scale(warp, &stream, &mut values, 5, 2.0);
    assert!(
        matches!(
            error,
            Err(LoadError::Driver(Error::Length {
                given: 5,
                capacity: 4,
                ..
            }))
        ),
        "{error:?}"
    );
    // Another block than the declaration's, where the PTX takes any.
    kernels.scale(wide, &stream, &mut values, 4, 2.0).unwrap();
    let mut part = values.slice_mut(1..).unwrap();
    let error = kernels.scale_in_warps(wide, &stream, &mut part, 3, 2.0);
    assert!(
        matches!(
            error,
            Err(LoadError::Driver(Error::RequiredBlock {
                required: [32, 1, 1],
                ..
            }))
        ),
        "{error:?}"
    );
    kernels
        .scale_in_warps(warp, &stream, &mut part, 3, 2.0)
        .unwrap();
    // More threads than `.maxntid`.
    let mut steps = DeviceBuffer::<Step>::zeroed(&context, 1).unwrap();
    let step = Step {
        count: 7,
        _padding: [0; 4],
        width: 0.5,
    };
    // SAFETY: it writes one element.
    let error = unsafe {
        let many = LaunchConfig::new([1; 3], [65, 1, 1]);
        kernels.store(many, &stream, &mut steps, step)
    };
    assert!(
        matches!(
            error,
            Err(LoadError::Driver(Error::BlockTooLarge { limit: 64, .. }))
        ),
        "{error:?}"
    );
}

#[test]
fn slices_structures_and_raw_kernels_are_passed() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let kernels = declared::load(&loader(&folder)).unwrap();
    let from = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3]).unwrap();
    let mut to = DeviceBuffer::<u32>::zeroed(&context, 4).unwrap();
    let warp = LaunchConfig::new([1; 3], [32, 1, 1]);
    let mut end = to.slice_mut(2..).unwrap();
    kernels.copy(warp, &stream, &from, &mut end).unwrap();
    assert_eq!(to.to_vec().unwrap(), [0, 0, 1, 2]);
    let copy = kernels.copy.get().unwrap();
    copy.launch(warp, &stream, (&from.slice(2..).unwrap(), &mut to))
        .unwrap();
    assert_eq!(to.to_vec().unwrap(), [3, 0, 1, 2]);

    let mut steps = DeviceBuffer::<Step>::zeroed(&context, 2).unwrap();
    let step = |count| Step {
        count,
        _padding: [0; 4],
        width: 0.5,
    };
    let one = LaunchConfig::default();
    // SAFETY: each writes one element of the buffer.
    unsafe {
        kernels.store(one, &stream, &mut steps, step(7)).unwrap();
        let second = steps.address() + size_of::<Step>() as u64;
        kernels.store_at(one, &stream, second, step(8)).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(steps.to_vec().unwrap(), [step(7), step(8)]);

    let inline = inline::load(&loader(&folder)).unwrap();
    inline.nothing(one, &stream, 1, -1).unwrap();
}

ptxkit::kernels! {
    pub mod vector in "vector.ptx";
    unsafe extern {
        // SAFETY: the test passes no more than there are; `Count<u32>` would be checked.
        pub safe fn vecadd(a: &DeviceSlice<f32>, b: &DeviceSlice<f32>, sum: &mut DeviceSlice<f32>, n: u32);
        pub fn raw(p: DevicePointer); // unsafe to launch
    }
}

#[test]
fn numbers_and_addresses_are_declared_as_they_are() -> Result<(), LoadError> {
    let folder = tempfile::tempdir().unwrap();
    let (context, loader) = (context(), loader(&folder));
    let stream = Stream::new(&context)?;
    let [a, b] = [[1.0_f32, 2.0], [10.0, 20.0]].map(|v| DeviceBuffer::from_slice(&context, &v));
    let (a, b, mut sum) = (a?, b?, DeviceBuffer::<f32>::zeroed(&context, 2)?);
    let (cfg, n) = (LaunchConfig::for_elements(2, 32), 2);

    let kernels = vector::load(&loader)?;
    kernels.vecadd(cfg, &stream, &a, &b, &mut sum, n)?;
    assert_eq!(sum.to_vec()?, [11.0, 22.0]);
    let second = DevicePointer(sum.address() + 4);
    // SAFETY: a float of the buffer, which outlives the work.
    unsafe { kernels.raw(LaunchConfig::default(), &stream, second) }?;
    stream.synchronize()?;
    assert_eq!(sum.to_vec()?, [11.0, 1.0]);
    Ok(())
}

ptxkit::kernels! {
    // `.ptr .align 16`: its code may load four values at once.
    mod aligned = r#"
        .version 8.0 .target sm_70 .address_size 64
        .visible .entry sum(.param .u64 .ptr .global .align 16 values)
        {
            .reg .b64 %rd; .reg .f32 %f<5>;
            ld.param.u64 %rd, [values];
            ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd];
            add.f32 %f1, %f1, %f2;
            add.f32 %f1, %f1, %f3;
            add.f32 %f1, %f1, %f4;
            st.global.f32 [%rd], %f1;
            ret;
        }"#;
    unsafe extern {
        // SAFETY: the test passes four values.
        safe fn sum(values: &mut DeviceSlice<f32>);
    }
}

#[test]
fn an_address_that_the_code_cannot_load_from_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let kernels = aligned::load(&loader(&folder)).unwrap();
    let one = LaunchConfig::default();
    let mut values = DeviceBuffer::from_slice(&context, &[1.0_f32; 16]).unwrap();
    let refused = |error: &Error| match error {
        Error::AddressAlignment {
            index: 0,
            align: 16,
            ..
        } => {}
        error => panic!("{error}"),
    };
    // The first launch in a stream takes another way than the next.
    for _ in 0..2 {
        kernels.sum(one, &stream, &mut values).unwrap();
        let mut fifth = values.slice_mut(4..).unwrap();
        kernels.sum(one, &stream, &mut fifth).unwrap();
        let mut third = values.slice_mut(2..).unwrap();
        let error = kernels.sum(one, &stream, &mut third).unwrap_err();
        let LoadError::Driver(error) = error else {
            panic!("{error}")
        };
        refused(&error);

        let kernel = kernels.sum.get().unwrap().kernel();
        // SAFETY: it is refused.
        refused(&unsafe { kernel.launch(one, &stream, [third.arg()]) }.unwrap_err());
        let mut params = ParamBuffer::new();
        params.push(third.arg());
        // SAFETY: it is refused.
        refused(&unsafe { kernel.launch_buffer(one, &stream, &params) }.unwrap_err());
    }
    let values = values.to_vec().unwrap();
    assert_eq!((values[0], values[2], values[4]), (7.0, 1.0, 7.0));
}

ptxkit::kernels! {
    mod many = r#"
        .version 8.0 .target sm_70 .address_size 64
        .visible .entry last(
            .param .u64 out,
            .param .u32 p1, .param .u32 p2, .param .u32 p3, .param .u32 p4, .param .u32 p5,
            .param .u32 p6, .param .u32 p7, .param .u32 p8, .param .u32 p9, .param .u32 p10,
            .param .u32 p11, .param .u32 p12, .param .u32 p13, .param .u32 p14, .param .u32 p15,
            .param .u32 p16, .param .u32 p17, .param .u32 p18, .param .u32 p19, .param .u32 p20,
            .param .u32 p21, .param .u32 p22, .param .u32 p23, .param .u32 p24, .param .u32 p25,
            .param .u32 p26, .param .u32 p27, .param .u32 p28, .param .u32 p29, .param .u32 p30,
            .param .u32 p31)
        {
            .reg .b64 %rd; .reg .b32 %r;
            ld.param.u64 %rd, [out];
            ld.param.u32 %r, [p31];
            st.global.u32 [%rd], %r;
            ret;
        }"#;
    unsafe extern {
        // SAFETY: the test passes one number.
        safe fn last(
            out: &mut DeviceSlice<u32>,
            p1: u32, p2: u32, p3: u32, p4: u32, p5: u32, p6: u32, p7: u32, p8: u32, p9: u32,
            p10: u32, p11: u32, p12: u32, p13: u32, p14: u32, p15: u32, p16: u32, p17: u32,
            p18: u32, p19: u32, p20: u32, p21: u32, p22: u32, p23: u32, p24: u32, p25: u32,
            p26: u32, p27: u32, p28: u32, p29: u32, p30: u32, p31: u32,
        );
    }
}

#[test]
fn a_kernel_has_32_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let kernels = many::load(&loader(&folder)).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let one = LaunchConfig::default();
    kernels
        .last(
            one, &stream, &mut out, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
            19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
        )
        .unwrap();
    assert_eq!(out.to_vec().unwrap(), [31]);
}

ptxkit::kernels! {
    mod tiles in "../../ptx-samples/tensor_tiles.ptx";
    unsafe extern {
        // SAFETY: it copies from the one tensor and to the other.
        #[block(128)]
        safe fn tensor_tiles(from: &TensorMap, to: &mut TensorMap);
    }
}

#[test]
fn a_tensor_map_is_declared() {
    let context = context();
    let (major, _) = context.device().compute_capability().unwrap();
    if context.device().driver().kind() == DriverKind::Nvidia && major < 9 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(context.clone(), Cache::new(policy(folder.path())));
    let kernels = tiles::load(&loader).unwrap();
    let from = DeviceBuffer::from_slice(&context, &[2.5_f32; 40 * 20]).unwrap();
    let to = DeviceBuffer::<f32>::zeroed(&context, 40 * 20).unwrap();
    let map = |buffer: &DeviceBuffer<f32>| {
        let view = TensorView::new(&buffer.all(), &[40, 20]);
        view.tiles(&[32, 16]).unwrap()
    };
    let (source, mut target) = (map(&from), map(&to));
    let stream = Stream::new(&context).unwrap();
    let config = LaunchConfig::new([2, 2, 1], [128, 1, 1]);
    kernels
        .tensor_tiles(config, &stream, &source, &mut target)
        .unwrap();
    assert_eq!(to.to_vec().unwrap(), [5.0; 40 * 20]);
}
