//! Random programs: all that the builder makes passes the checker, and ptxas.

use std::cell::RefCell;
use std::process::Command;

use ptxkit_build::{
    Divide, Global, Kernel, Module, Operand, Pointer, Ptr, Register, Scalar, Shared, Value, special,
};

/// xorshift
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// The values in scope, by type.
struct Pools<'k> {
    random: Random,
    i16s: Vec<Value<'k, i16>>,
    i32s: Vec<Value<'k, i32>>,
    u32s: Vec<Value<'k, u32>>,
    i64s: Vec<Value<'k, i64>>,
    u64s: Vec<Value<'k, u64>>,
    f32s: Vec<Value<'k, f32>>,
    f64s: Vec<Value<'k, f64>>,
    bools: Vec<Value<'k, bool>>,
}

struct Program<'k> {
    k: Kernel<'k>,
    pools: RefCell<Pools<'k>>,
    floats: Pointer<'k, f32, Global>,
    words: Pointer<'k, u32, Global>,
    longs: Pointer<'k, u64, Shared>,
    left: RefCell<usize>,
}

macro_rules! pick {
    ($self:ident . $pool:ident) => {{
        let pools = &mut *$self.pools.borrow_mut();
        let index = pools.random.below(pools.$pool.len());
        pools.$pool[index]
    }};
}

macro_rules! push {
    ($self:ident . $pool:ident, $value:expr) => {{
        let value = $value;
        $self.pools.borrow_mut().$pool.push(value);
    }};
}

impl<'k> Program<'k> {
    fn below(&self, limit: usize) -> usize {
        self.pools.borrow_mut().random.below(limit)
    }

    /// Statements, of which those of inner blocks leave no values behind.
    fn block(&self, depth: usize) {
        let lengths = {
            let pools = self.pools.borrow();
            let Pools {
                i16s,
                i32s,
                u32s,
                i64s,
                u64s,
                f32s,
                f64s,
                bools,
                ..
            } = &*pools;
            [
                i16s.len(),
                i32s.len(),
                u32s.len(),
                i64s.len(),
                u64s.len(),
                f32s.len(),
                f64s.len(),
                bools.len(),
            ]
        };
        for _ in 0..1 + self.below(8) {
            if *self.left.borrow() == 0 {
                break;
            }
            *self.left.borrow_mut() -= 1;
            self.statement(depth);
        }
        let pools = &mut *self.pools.borrow_mut();
        let [a, b, c, d, e, f, g, h] = lengths;
        pools.i16s.truncate(a);
        pools.i32s.truncate(b);
        pools.u32s.truncate(c);
        pools.i64s.truncate(d);
        pools.u64s.truncate(e);
        pools.f32s.truncate(f);
        pools.f64s.truncate(g);
        pools.bools.truncate(h);
    }

    fn statement(&self, depth: usize) {
        match self.below(if depth > 0 { 12 } else { 8 }) {
            0 => push!(
                self.i32s,
                self.arithmetic(pick!(self.i32s), pick!(self.i32s), -5)
            ),
            1 => push!(
                self.f32s,
                self.arithmetic(pick!(self.f32s), pick!(self.f32s), 0.25)
            ),
            2 => self.integers(),
            3 => self.floats(),
            4 => self.conversions(),
            5 => self.memory(),
            6 => self.predicates(),
            7 => self.warp(),
            8 => self.k.if_(pick!(self.bools), || self.block(depth - 1)),
            9 => self.k.if_else(
                pick!(self.bools),
                || self.block(depth - 1),
                || self.block(depth - 1),
            ),
            10 => {
                let end = pick!(self.u32s);
                self.k.for_step(0, end, 3, |i| {
                    push!(self.u32s, i.get());
                    self.block(depth - 1);
                    self.pools.borrow_mut().u32s.pop();
                });
            }
            _ => {
                let var = self.k.var(pick!(self.i64s)).named("x");
                self.k.while_(
                    || var.gt(0),
                    || {
                        self.block(depth - 1);
                        var.sub_assign(1);
                    },
                );
                push!(self.i64s, var.get());
            }
        }
    }

    fn arithmetic<T: Divide>(
        &self,
        a: Value<'k, T>,
        b: Value<'k, T>,
        constant: impl Operand<'k, T>,
    ) -> Value<'k, T> {
        match self.below(9) {
            0 => a + b,
            1 => a - constant,
            2 => a * b,
            3 => a / constant,
            4 => a.mul_add(b, constant),
            5 => a.min(b),
            6 => a.max(constant),
            7 => self.k.value(constant),
            _ => self.k.uninitialized_after(a),
        }
    }

    fn integers(&self) {
        let (a, b) = (pick!(self.u32s), pick!(self.u32s));
        push!(
            self.u32s,
            match self.below(9) {
                0 => a & b,
                1 => a | 0xF0,
                2 => a ^ b,
                3 => !a,
                4 => a << b,
                5 => a >> 3,
                6 => a % 7,
                7 => a.mul_high(b),
                _ => a.reverse_bits(),
            }
        );
        let (a, b) = (pick!(self.u64s), pick!(self.i64s));
        push!(self.u64s, (a << 1) + b.bits::<u64>());
        push!(self.u32s, a.count_ones() + b.leading_zeros());
        push!(self.i64s, -b.abs() >> a.convert::<u32>());
        push!(self.i16s, pick!(self.i16s) * 3 - pick!(self.i16s));
        push!(self.i64s, pick!(self.i32s).mul_wide(-1));
    }

    fn floats(&self) {
        let a = pick!(self.f32s);
        push!(
            self.f32s,
            match self.below(7) {
                0 => a.sqrt(),
                1 => -a,
                2 => a.abs().rsqrt_approx(),
                3 => a.exp2_approx(),
                4 => a.sin_approx(),
                5 => a.tanh_approx(),
                _ => 1.0 / a,
            }
        );
        let b = pick!(self.f64s);
        push!(self.f64s, (b / a.convert()).mul_add(b, f64::NAN));
        push!(self.u32s, a.bits());
    }

    fn conversions(&self) {
        push!(self.i16s, pick!(self.f64s).convert());
        push!(self.i32s, pick!(self.i16s).convert());
        push!(self.u32s, pick!(self.i32s).convert());
        push!(self.i64s, pick!(self.f32s).convert());
        push!(self.u64s, pick!(self.i64s).convert());
        push!(self.f32s, pick!(self.u64s).convert());
        push!(self.f64s, pick!(self.u32s).convert());
        push!(self.f32s, pick!(self.f64s).convert());
    }

    fn memory(&self) {
        let index = pick!(self.u32s);
        match self.below(8) {
            0 => push!(self.f32s, self.floats.at(index).load()),
            1 => self
                .floats
                .at(pick!(self.i64s))
                .at(3)
                .store(pick!(self.f32s)),
            2 => {
                let [a, b, c, d] = self.floats.at(index).load_vector_readonly();
                self.floats.at(4).store_vector([d, c, b, a]);
            }
            3 => push!(self.u64s, self.longs.at(index).atomic_add(pick!(self.u64s))),
            4 => push!(
                self.u32s,
                self.words.at(1).atomic_compare_exchange(index, 7)
            ),
            5 => self.words.at(pick!(self.i32s)).reduce_add(1),
            6 => push!(self.u32s, self.words.cast::<u8>().at(index).load()),
            _ => push!(self.u64s, self.longs.generic().load_volatile()),
        }
    }

    fn predicates(&self) {
        let (a, b) = (pick!(self.bools), pick!(self.bools));
        push!(
            self.bools,
            match self.below(6) {
                0 => a & b,
                1 => !a | b,
                2 => pick!(self.f32s).ne(0.5),
                3 => pick!(self.u64s).ge(u64::MAX),
                4 => pick!(self.i16s).lt(-3),
                _ => a ^ pick!(self.f64s).le(pick!(self.f64s)),
            }
        );
        push!(self.i32s, a.select(pick!(self.i32s), i32::MIN));
        push!(self.f64s, b.select(1e300, pick!(self.f64s)));
        push!(self.i16s, b.select(pick!(self.i16s), 1));
    }

    fn warp(&self) {
        let mask = self.k.active_mask();
        match self.below(5) {
            0 => push!(self.f32s, pick!(self.f32s).shuffle_xor(1, mask)),
            1 => push!(self.u32s, pick!(self.bools).ballot(mask)),
            2 => push!(self.bools, pick!(self.bools).any(mask)),
            3 => push!(self.u32s, self.k.special(special::SMID)),
            _ => push!(self.u32s, pick!(self.u32s).warp_sum(mask)),
        }
    }
}

/// A variable that is set and read.
trait Through<'k> {
    fn uninitialized_after<T: Scalar>(self, value: Value<'k, T>) -> Value<'k, T>;
}

impl<'k> Through<'k> for Kernel<'k> {
    fn uninitialized_after<T: Scalar>(self, value: Value<'k, T>) -> Value<'k, T> {
        let var = self.uninitialized();
        var.set(value);
        var.get()
    }
}

fn program(seed: u64) -> Module {
    let mut module = Module::new("random");
    let table = module.constant("table", &[1_i64, i64::MIN, -1]);
    module.kernel("random", |k| {
        let floats = k.param::<Ptr<f32, Global>>("floats");
        let words = k.param::<Ptr<u32, Global>>("words");
        let longs = k.shared::<u64>("longs", 32);
        let x = k.param::<f64>("x");
        let n = k.param::<u32>("n");
        let long = k.variable(&table).at(n).load();
        let pools = Pools {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            i16s: vec![k.param::<i16>("short")],
            i32s: vec![n.bits()],
            u32s: vec![n],
            i64s: vec![long],
            u64s: vec![long.bits()],
            f32s: vec![x.convert()],
            f64s: vec![x],
            bools: vec![n.gt(3)],
        };
        let program = Program {
            k,
            pools: RefCell::new(pools),
            floats,
            words,
            longs,
            left: RefCell::new(200),
        };
        while *program.left.borrow() > 0 {
            program.block(4);
        }
    });
    module
}

#[test]
fn random_programs_pass_the_checker_and_are_canonical() {
    for seed in 0..200 {
        let ptx = program(seed)
            .finish()
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(ptx.text(), ptx::printer::format(ptx.text()).unwrap());
    }
}

/// `PTXAS=/usr/local/cuda/bin/ptxas cargo test -p ptxkit-build -- --ignored`; `PROGRAMS` is how
/// many.
#[test]
#[ignore = "needs ptxas"]
fn random_programs_pass_ptxas() {
    let ptxas = std::env::var("PTXAS").expect("PTXAS names the program");
    let count = std::env::var("PROGRAMS").map_or(100, |count| count.parse().unwrap());
    let file = std::env::temp_dir().join(format!("ptxkit-build-{}.ptx", std::process::id()));
    for seed in 0..count {
        let ptx = program(seed).finish().unwrap();
        std::fs::write(&file, ptx.text()).unwrap();
        let target = ptx
            .target()
            .unwrap()
            .replace("sm_", "")
            .parse::<u32>()
            .unwrap()
            .max(75);
        let output = Command::new(&ptxas)
            .arg(format!("-arch=sm_{target}"))
            .args(["-o", "/dev/null"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{seed}: {said}");
    }
    std::fs::remove_file(file).unwrap();
    println!("{count} programs");
}
