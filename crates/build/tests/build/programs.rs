//! Programs that use every part of the builder.

use ptxkit_build::{Code, F16, Generic, Global, Module, Ptr, Register, Scope, Value, special};

const WARP: u32 = u32::MAX;

/// Sums blocks of numbers by shuffles and shared memory.
pub fn block_sums() -> Module {
    let mut module = Module::new("block_sums");
    module.kernel("block_sums", |k| {
        k.max_threads(256, 1, 1);
        let input = k.param::<Ptr<f32, Global>>("input");
        let sums = k.param::<Ptr<f32, Global>>("sums");
        let n = k.param::<u32>("n");
        let partial = k.shared::<f32>("partial", 8);
        let thread = k.special(special::TID_X).named("thread");
        let i = k.global_index().named("i");
        let sum = k.var(0.0).named("sum");
        k.if_(i.lt(n), || sum.set(input.at(i).load_readonly()));
        k.comment("Within the warp.");
        for distance in [16, 8, 4, 2, 1] {
            sum.add_assign(sum.shuffle_down(distance, WARP));
        }
        let lane = (thread & 31).named("lane");
        let warp = (thread >> 5).named("warp");
        k.if_(lane.eq(0), || partial.at(warp).store(sum));
        k.barrier();
        k.if_(thread.eq(0), || {
            k.comment("Within the block.");
            let total = k.var(0.0).named("total");
            k.for_range(0, 8, |warp| total.add_assign(partial.at(warp).load()));
            sums.at(k.special(special::CTAID_X)).store(total);
        });
    });
    module
}

/// Collatz: a loop with a branch in it, on integers.
pub fn collatz() -> Module {
    let mut module = Module::new("collatz");
    let odd = module.function::<(u64,), u64>("odd", ["x"], |_, (x,)| x * 3 + 1);
    module.kernel("collatz", |k| {
        let steps = k.param::<Ptr<u32, Global>>("steps");
        let n = k.param::<u32>("n");
        let i = k.global_index().named("i");
        k.if_(i.ge(n), || k.ret());
        let x = k.var((i + 1).convert::<u64>()).named("x");
        let count = k.var(0).named("count");
        k.while_(
            || x.gt(1),
            || {
                k.if_else(
                    (x & 1).eq(0),
                    || x.set(x >> 1),
                    || x.set(k.call(&odd, (x,))),
                );
                count.add_assign(1);
            },
        );
        steps.at(i).store(count);
    });
    module
}

/// What the other programs do not use.
pub fn parts() -> Module {
    let mut module = Module::new("parts");
    let table = module.constant("table", &[1.0_f32, 0.5, 0.25]);
    let counter = module.global("counter", &[0_u64]);
    let bins = module.global_zeroed::<u32>("bins", 16);
    let scale =
        module.function::<(Ptr<f32, Global>, f32), ()>("scale", ["at", "by"], |_, (at, by)| {
            at.store(at.load() * by);
        });
    module.kernel("parts", |k| {
        let out = k.param::<Ptr<f32, Global>>("out");
        let bytes = k.param::<Ptr<u8, Global>>("bytes");
        let half = k.param::<F16>("half");
        let any = k.param::<Ptr<i32, Generic>>("any");
        let mine = k.local::<f64>("mine", 4);
        let more = k.dynamic_shared::<f32>("more");
        let lane = k.special(special::LANEID).named("lane");
        integers(*k, any.load());
        mine.at(1).store(half.convert::<f64>().sqrt());
        more.at(lane).store(mine.at(1).load().convert());
        k.warp_barrier(k.active_mask());
        let [a, b] = more.load_vector();
        out.at(2).store_vector([a, b]);
        let byte = bytes.at(lane).load();
        k.variable(&bins).at(byte & 15).atomic_add(1);
        k.variable(&counter).reduce_add(1);
        let before = k.variable(&counter).atomic_compare_exchange(7, 8);
        k.if_(before.eq(7), || k.trap());
        let chosen = a.lt(b).select(a, 1.0 - b);
        k.call(
            &scale,
            (&out.at(lane), chosen / k.variable(&table).at(lane).load()),
        );
        out.store((-chosen.abs()).exp2_approx().bits::<u32>().bits());
        k.fence(Scope::Device);
    });
    module
}

fn integers<'k>(k: Code<'k>, x: Value<'k, i32>) {
    let wide = x.mul_wide(x);
    let big = !(wide << 3) ^ 5;
    let small = (x % 7).convert::<i16>().min(3).convert::<u16>();
    k.value(small.convert::<u32>().leading_zeros() + big.count_ones());
}
