//! Kernels that are built compute what the same Rust does.

use ptxkit::build::{self, Global, Module, Ptr, Register, Scalar, Value, special};
use ptxkit::driver::{self, Context, DeviceBuffer, LaunchConfig, Pod, Stream};

use crate::kernels::device;

const WARP: u32 = u32::MAX;

/// What a kernel makes of `values`, one thread each, in blocks of 64.
fn run<T: Pod>(module: Module, values: &[T]) -> Vec<T> {
    let ptx = module.finish().unwrap_or_else(|error| panic!("{error}"));
    let context = Context::primary(&device()).unwrap();
    let stream = Stream::new(&context).unwrap();
    let kernel = driver::Module::load(&context, ptx.text().as_bytes()).unwrap();
    let kernel = kernel.kernel("k").unwrap();
    let mut buffer = DeviceBuffer::from_slice(&context, values).unwrap();
    let config = LaunchConfig::for_elements(values.len() as u32, 64);
    // SAFETY: the kernel accesses a value for each thread, and there are whole blocks of them.
    unsafe { kernel.launch(config, &stream, (&mut buffer,)) }.unwrap();
    stream.synchronize().unwrap();
    buffer.to_vec().unwrap()
}

/// A kernel that replaces each value.
fn each<T: Scalar + build::Element<Value = T>>(
    compute: impl for<'k> FnOnce(build::Kernel<'k>, Value<'k, T>) -> Value<'k, T>,
) -> Module {
    let mut module = Module::new("each");
    module.kernel("k", |k| {
        let at = k.param::<Ptr<T, Global>>("values").at(k.global_index());
        at.store(compute(k, at.load()));
    });
    module
}

/// Numbers of every size, and of both signs.
fn words(count: u32) -> Vec<u32> {
    (0..count)
        .map(|i| i.wrapping_mul(0x9E37_79B9).rotate_left(i) >> (i % 31))
        .collect()
}

#[test]
fn operators_of_integers_are_those_of_rust() {
    let module = each::<u32>(|_, x| {
        let sum = (x + 7) * x - (x >> 3);
        let signed = (sum.bits::<i32>() / 3 % 1000).convert::<i64>() * -5;
        let mixed = (x ^ sum) & !(x << 9) | signed.convert::<u32>();
        let narrow = mixed
            .convert::<i16>()
            .max(-77)
            .convert::<i32>()
            .abs()
            .bits::<u32>();
        let wide = x.mul_wide(sum).leading_zeros() + mixed.count_ones();
        narrow
            .mul_high(x)
            .mul_add(wide, 1 + mixed.reverse_bits())
            .min(x.max(99))
    });
    let expected = |x: u32| {
        let sum = x.wrapping_add(7).wrapping_mul(x).wrapping_sub(x >> 3);
        let signed = i64::from(sum as i32 / 3 % 1000) * -5;
        let mixed = (x ^ sum) & !(x << 9) | signed as u32;
        let narrow = i32::from((mixed as i16).max(-77)).unsigned_abs();
        let wide = (u64::from(x) * u64::from(sum)).leading_zeros() + mixed.count_ones();
        let high = ((u64::from(narrow) * u64::from(x)) >> 32) as u32;
        let all = high.wrapping_mul(wide);
        all.wrapping_add(1_u32.wrapping_add(mixed.reverse_bits()))
            .min(x.max(99))
    };
    let values = words(640);
    let expected: Vec<u32> = values.iter().map(|x| expected(*x)).collect();
    assert_eq!(run(module, &values), expected);
}

#[test]
fn operators_of_floats_are_those_of_rust() {
    let module = each::<f32>(|_, x| {
        // Contracted, the product would not be rounded.
        let unfused = x * x - x;
        let fused = x.mul_add(x, -x);
        let root = (x.abs() + 1.0).sqrt() / unfused.max(0.25);
        let double = root.convert::<f64>() * 0.1;
        let whole = (fused * 4.0).convert::<i32>().convert::<f32>();
        let chosen = unfused.lt(fused).select(whole, double.convert());
        x.eq(x).select(chosen, root.ne(root).select(1.0, 2.0))
    });
    let expected = |x: f32| {
        let (unfused, fused) = (x * x - x, x.mul_add(x, -x));
        let root = (x.abs() + 1.0).sqrt() / unfused.max(0.25);
        let double = f64::from(root) * 0.1;
        let whole = (fused * 4.0) as i32 as f32;
        let chosen = if unfused < fused {
            whole
        } else {
            double as f32
        };
        match (x.is_nan(), root.is_nan()) {
            (false, _) => chosen,
            (true, true) => 1.0,
            (true, false) => 2.0,
        }
    };
    let mut values: Vec<f32> = words(640).iter().map(|x| *x as i32 as f32 * 1e-7).collect();
    values[..3].copy_from_slice(&[f32::NAN, f32::INFINITY, -0.0]);
    let expected: Vec<u32> = values.iter().map(|x| expected(*x).to_bits()).collect();
    let found: Vec<u32> = run(module, &values).iter().map(|x| x.to_bits()).collect();
    assert_eq!(found, expected);
}

#[test]
fn branches_loops_and_calls() {
    let mut module = Module::new("flow");
    let factors = module.constant("factors", &[3_u32, 5, 7, 11]);
    let power =
        module.function::<(u32, u32), u32>("power", ["base", "times"], |f, (base, times)| {
            let product = f.var(1).named("product");
            f.for_range(0, times, |_| product.mul_assign(base));
            product.get()
        });
    module.kernel("k", |k| {
        let at = k.param::<Ptr<u32, Global>>("values").at(k.global_index());
        let x = k.var(at.load() & 0xFFF).named("x");
        k.if_else(
            (x & 1).eq(1),
            || {
                k.if_(x.gt(2000), || x.sub_assign(1000));
                x.mul_assign(2);
            },
            || k.for_step(1, x, 100, |i| x.add_assign(i & 3)),
        );
        let steps = k.var(0).named("steps");
        k.while_(
            || x.gt(9),
            || {
                let factor = k.variable(&factors).at(x & 3).load();
                x.set(x / factor);
                steps.add_assign(1);
            },
        );
        k.if_(steps.eq(2), || {
            at.store(77);
            k.ret();
        });
        at.store(k.call(&power, (x, steps)) + steps);
    });
    let expected = |value: u32| {
        let mut x = value & 0xFFF;
        if x % 2 == 1 {
            x = 2 * if x > 2000 { x - 1000 } else { x };
        } else {
            let mut i = 1;
            while i < x {
                x += i & 3;
                i += 100;
            }
        }
        let mut steps = 0;
        while x > 9 {
            x /= [3, 5, 7, 11][x as usize & 3];
            steps += 1;
        }
        if steps == 2 {
            77
        } else {
            x.wrapping_pow(steps) + steps
        }
    };
    let values = words(640);
    let expected: Vec<u32> = values.iter().map(|x| expected(*x)).collect();
    assert_eq!(run(module, &values), expected);
}

#[test]
fn threads_of_a_block_work_together() {
    let mut module = Module::new("together");
    module.kernel("k", |k| {
        let values = k.param::<Ptr<u32, Global>>("values");
        let (sum, last) = (k.shared::<u32>("sum", 1), k.shared::<u32>("last", 64));
        let thread = k.special(special::TID_X).named("thread");
        let at = values.at(k.global_index());
        let x = at.load().named("x");
        k.if_(thread.eq(0), || sum.store(0));
        k.barrier();
        let warp = k.var(x);
        for distance in [16, 8, 4, 2, 1] {
            warp.add_assign(warp.shuffle_xor(distance, WARP));
        }
        let odd = (x & 1).eq(1).ballot(WARP).count_ones();
        k.if_((thread & 31).eq(0), || {
            sum.reduce_add(warp);
            sum.atomic_add(odd);
        });
        last.at(thread).store(x);
        k.barrier();
        let [a, b] = last.at((thread ^ 63) & !1).load_vector::<2>();
        at.store(sum.load() + (a ^ b));
    });
    let values = words(640);
    let expected = values.chunks_exact(64).flat_map(|block| {
        let odd = block.iter().filter(|x| **x % 2 == 1).count() as u32;
        let sum = block.iter().fold(odd, |sum, x| sum.wrapping_add(*x));
        (0..64).map(move |thread| {
            let other = (thread ^ 63) & !1;
            sum.wrapping_add(block[other] ^ block[other + 1])
        })
    });
    assert_eq!(run(module, &values), expected.collect::<Vec<_>>());
}
