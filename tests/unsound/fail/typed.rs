//! A kernel that nobody vouched for, and arguments of other types than declared.
use ptxkit::driver::{
    Arg, Argument, ArgumentFor, Count, DeviceBuffer, Kernel, LaunchConfig, Stream, TypedKernel,
};

type Scale = TypedKernel<(*mut f32, Count<u32>)>;

fn declares(kernel: Kernel) {
    let _ = kernel.typed::<(*mut f32, Count<u32>)>(); //~ E0133
}

fn launches(scale: &Scale, stream: &Stream, values: &DeviceBuffer<f32>) {
    let config = LaunchConfig::default();
    let _ = scale.launch(config, stream, (values, 1)); //~ E0277
    let _ = scale.launch(config, stream, (values.address(), 1)); //~ E0277
    let _ = scale.launch(config, stream, (values.arg(), 1)); //~ E0277
}

fn other_values(scale: &Scale, stream: &Stream, values: &mut DeviceBuffer<u8>) {
    let _ = scale.launch(LaunchConfig::default(), stream, (values, 1)); //~ E0277
}

struct Anything(u64);

impl Argument for Anything {
    fn arg(&self) -> Arg<'_> {
        Arg::value(&self.0)
    }
}

impl ArgumentFor<*mut f32> for Anything {} //~ E0277

fn main() {}
