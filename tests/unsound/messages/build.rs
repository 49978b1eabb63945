//! What the types of the builder refuse.

use ptxkit::build::{Const, Global, Local, Module, Ptr, Register};

fn main() {
    let mut module = Module::new("wrong");
    let square = module.function::<(f32,), f32>("square", ["x"], |_, (x,)| x * x);
    module.kernel("wrong", |k| {
        let (a, b) = (k.param::<f32>("a"), k.param::<i32>("b"));
        let _ = a + b;
        let _ = a.max(1_u32);
        let _ = a & a;
        let _ = a == a;
        k.param::<Ptr<f32, Global>>("to").store(b);
        k.param::<Ptr<f32, Const>>("table").store(1.0);
        k.param::<Ptr<u32, Local>>("mine").reduce_add(1);
        let _ = k.param::<Ptr<f64, Global>>("wide").load_vector::<4>();
        let _ = k.call(&square, (b,));
        k.if_(b, || {});
    });
}
