//! A value of one kernel gets into no other.

use ptxkit::build::{Kernel, Module, Register, Value};

fn mix<'a, 'b>(a: Value<'a, f32>, b: Value<'b, f32>) {
    let _ = a + b;
}

fn main() {
    let mut module = Module::new("wrong");
    let mut kept = None;
    module.kernel("first", |k| kept = Some(k.param::<f32>("x")));
    module.kernel("second", |k: Kernel<'_>| mix(k.value(1.0), k.value(2.0).abs()));
}
