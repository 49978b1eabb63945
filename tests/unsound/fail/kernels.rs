//! Declared kernels: what would alias, what is unsafe to launch, values of other types.
use ptxkit::driver::{Count, DeviceBuffer, DeviceSlice, LaunchConfig, Stream};

ptxkit::kernels! {
    mod vector in "../messages/right.ptx";
    unsafe extern {
        safe fn vecadd(
            a: &DeviceSlice<f32>,
            b: &DeviceSlice<f32>,
            sum: &mut DeviceSlice<f32>,
            n: Count<u32>,
        );
        fn tile(place: u64);
    }
}

fn aliases(kernels: &vector::Kernels, stream: &Stream, a: &mut DeviceBuffer<f32>) {
    let config = LaunchConfig::default();
    let _ = kernels.vecadd(config, stream, &*a, &*a, &mut *a, 1); //~ E0502
    let mut part = a.slice_mut(1..).unwrap();
    let _ = kernels.vecadd(config, stream, &*a, &*a, &mut part, 1); //~ E0502
}

fn shared(kernels: &vector::Kernels, stream: &Stream, a: &DeviceBuffer<f32>) {
    let _ = kernels.vecadd(LaunchConfig::default(), stream, a, a, a, 1); //~ E0277
}

fn others(kernels: &vector::Kernels, stream: &Stream, a: &mut DeviceBuffer<u8>) {
    let b = DeviceBuffer::zeroed(stream.context(), 1).unwrap();
    let _ = kernels.vecadd(LaunchConfig::default(), stream, &b, &b, a, 1); //~ E0277
    let _ = kernels.vecadd(LaunchConfig::default(), stream, &b, &b, 0_u64, 1); //~ E0277
}

fn raw(kernels: &vector::Kernels, stream: &Stream) {
    let _ = kernels.tile(LaunchConfig::default(), stream, 0); //~ E0133
}

fn typed(kernels: &vector::Kernels) {
    let _ = kernels.tile.get(); //~ E0616
}

fn main() {}
