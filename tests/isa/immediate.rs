//! Constants of every kind in every form that takes bits or a predicate.
//!
//! The expected bits follow from the PTX ISA and from what ptxas makes of a
//! constant, without a look at our code: an integer has its lowest bits, `0f…`
//! the bits that it names in a place of any width, a double is rounded where an
//! `.f32` belongs, and every integer but 0 is a true predicate.
//!
//! A kernel has many cases, and each case a slot for each thread. Its registers
//! are its own, so that the uses around a constant decide how the CPU device
//! holds them: as integers or as floats, whatever they are declared as.

use std::fmt::Write;

use ptxkit::cpu::{CompileOptions, Vectorization, compile};
use ptxkit::driver::{Context, DeviceBuffer, DriverKind, LaunchConfig, Module, Stream};

use crate::constant::{
    BITS, CONSTANTS, Case, Class, FLOATS, SIGNED, THREADS, Type, UNSIGNED, Value, odd, truths,
    types, varying,
};
use crate::kernels::device;

fn moves() -> Vec<Case> {
    let mut cases = Vec::new();
    for ty in types() {
        let name = ty.name();
        for register in ty.registers() {
            for (a, b) in ty.pairs() {
                let (first, second) = (ty.of(a), ty.of(b));
                let text = format!("mov.{name} %x, {};", a.text);
                cases.push(register.case(&text, |_| first));
                let text = format!("{text} @%odd mov.{name} %x, {};", b.text);
                cases.push(register.case(&text, |t| if odd(t) { second } else { first }));
            }
        }
    }
    cases
}

/// The third operand of a `slct`, with its type, and whether it chooses the first
/// operand in a thread.
type Choice = (&'static str, &'static str, fn(u64) -> bool);

fn selections() -> Vec<Case> {
    let choices: [Choice; 4] = [
        ("s32", "%sign", |thread| !odd(thread)),
        // Not 0x80000000, which NVIDIA's driver of CUDA 13.0 takes as a positive number.
        ("s32", "-5", |_| false),
        ("s32", "0xFFFFFFFF00000000", |_| true),
        ("f32", "0dBFF0000000000000", |_| false),
    ];
    let mut cases = Vec::new();
    for ty in types() {
        let name = ty.name();
        for register in ty.registers() {
            let pairs = ty.pairs().into_iter();
            for (((a, b), truth), choice) in pairs.zip(truths().cycle()).zip(choices.iter().cycle())
            {
                let (first, second) = (ty.of(a), ty.of(b));
                let (a, b) = (a.text, b.text);
                let mut case = |text: String, chooses: &dyn Fn(u64) -> bool| {
                    cases.push(register.case(&text, |t| if chooses(t) { first } else { second }));
                };
                case(format!("selp.{name} %x, {a}, {b}, %odd;"), &odd);
                let (condition, holds) = truth;
                case(format!("selp.{name} %x, {a}, {b}, {condition};"), &|_| {
                    holds
                });
                let (kind, condition, chooses) = choice;
                case(
                    format!("slct.{name}.{kind} %x, {a}, {b}, {condition};"),
                    chooses,
                );
            }
        }
    }
    cases
}

fn logic() -> Vec<Case> {
    let mut cases = Vec::new();
    for ty in BITS {
        let (name, bits) = (ty.name(), ty.bits);
        for register in ty.registers() {
            for (a, _) in ty.pairs() {
                let (text, value) = (a.text, ty.of(a));
                let mut case = |statement: String, expected: &dyn Fn(u64) -> u64| {
                    cases.push(register.case(&statement, |t| ty.cut(expected(t))));
                };
                case(format!("and.{name} %x, %t{bits}, {text};"), &|t| {
                    varying(t) & value
                });
                case(format!("or.{name} %x, {text}, %t{bits};"), &|t| {
                    varying(t) | value
                });
                case(format!("xor.{name} %x, %t{bits}, {text};"), &|t| {
                    varying(t) ^ value
                });
                case(format!("not.{name} %x, {text};"), &|_| !value);
                case(format!("cnot.{name} %x, {text};"), &|_| {
                    u64::from(value == 0)
                });
            }
        }
        // Amounts are 32 bits, and no more than the width.
        for (text, amount) in [("5", 5), ("99", 99), ("0x100000003", 3), ("WARP_SZ", 32)] {
            let shift = |value: u64, left: bool| match (amount < bits, left) {
                (false, _) => 0,
                (true, true) => ty.cut(value << amount),
                (true, false) => ty.cut(value) >> amount,
            };
            // NVIDIA's driver of CUDA 13.0 leaves 64 bits as they are in a shift by a constant
            // that is larger than the width.
            if bits == 64 && amount > bits {
                continue;
            }
            for register in ty.registers() {
                let left = format!("shl.{name} %x, %t{bits}, {text};");
                cases.push(register.case(&left, |t| shift(varying(t), true)));
                let right = format!("shr.{name} %x, %t{bits}, {text};");
                cases.push(register.case(&right, |t| shift(varying(t), false)));
            }
        }
    }
    cases
}

fn predicates() -> Vec<Case> {
    let mut cases = Vec::new();
    for ((a, first), (b, second)) in truths().zip(truths().skip(1)) {
        let mut case = |text: String, expected: &dyn Fn(u64) -> bool| {
            cases.push(Case::of_predicate(&text, expected));
        };
        case(format!("mov.pred %p, {a};"), &|_| first);
        case(format!("mov.pred %p, {a}; not.pred %p, %p;"), &|_| !first);
        case(format!("mov.pred %p, {a}; @%odd not.pred %p, %p;"), &|t| {
            first != odd(t)
        });
        case(
            format!("mov.pred %p, {a}; @%odd mov.pred %p, {b}; xor.pred %p, %p, %odd;"),
            &|t| if odd(t) { !second } else { first },
        );
        case(format!("not.pred %p, {a};"), &|_| !first);
        case(format!("and.pred %p, %odd, {a};"), &|t| odd(t) && first);
        case(format!("or.pred %p, {a}, %odd;"), &|t| odd(t) || first);
        case(format!("xor.pred %p, %odd, {a};"), &|t| odd(t) != first);
        case(format!("and.pred %p, {a}, {b};"), &|_| first && second);
        case(format!("xor.pred %p, {a}, {b};"), &|_| first != second);
        case(
            format!("mov.pred %q, {a}; mov.pred %p, 0; @%q not.pred %p, %p;"),
            &|_| first,
        );
        case(
            format!("mov.pred %q, {a}; mov.pred %p, 0; @!%q mov.pred %p, {b};"),
            &|_| !first && second,
        );
        // A branch on it.
        case(
            format!(
                "mov.pred %q, {a}; not.pred %q, %q; mov.pred %p, 1;
                 @%q bra PAST; mov.pred %p, 0; PAST:"
            ),
            &|_| !first,
        );
        // NVIDIA's driver of CUDA 13.0 takes 32 bits of the constant in these three.
        if matches!(a, "0x100000000" | "0x3FF0000000000000") {
            continue;
        }
        for (name, combine) in [
            ("and", (|x, y| x && y) as fn(bool, bool) -> bool),
            ("or", |x, y| x || y),
            ("xor", |x, y| x != y),
        ] {
            case(format!("setp.lt.{name}.u32 %p|%q, %t, 9, {a};"), &|t| {
                combine(t < 9, first)
            });
            case(format!("setp.lt.{name}.u32 %q|%p, %t, 9, {a};"), &|t| {
                combine(t >= 9, first)
            });
            case(
                format!("set.lt.{name}.u32.u32 %k, %t, 9, {a}; setp.ne.u32 %p, %k, 0;"),
                &|t| combine(t < 9, first),
            );
        }
    }
    cases
}

fn comparisons() -> Vec<Case> {
    let mut cases = Vec::new();
    for ty in BITS.into_iter().chain(UNSIGNED).chain(SIGNED) {
        let (name, bits) = (ty.name(), ty.bits);
        for (a, b) in ty.pairs() {
            let (first, second) = (ty.number(ty.of(a)), ty.number(ty.of(b)));
            let number = |t| ty.number(varying(t));
            let (a, b) = (a.text, b.text);
            let text = format!("setp.eq.{name} %p, {a}, {b};");
            cases.push(Case::of_predicate(&text, |_| first == second));
            let text = format!(
                "{{ .reg .{name} %c; mov.{name} %c, %t{bits}; @%odd mov.{name} %c, {a};
                 setp.eq.{name} %p, %c, {a}; }}"
            );
            cases.push(Case::of_predicate(&text, |t| odd(t) || number(t) == first));
            let text = format!("set.ne.u32.{name} %k, %t{bits}, {a}; setp.ne.u32 %p, %k, 0;");
            cases.push(Case::of_predicate(&text, |t| number(t) != first));
            if ty.class != Class::Bits {
                let text = format!("setp.lt.{name} %p, %t{bits}, {a};");
                cases.push(Case::of_predicate(&text, |t| number(t) < first));
                let text = format!("setp.ge.{name} %p, {a}, %t{bits};");
                cases.push(Case::of_predicate(&text, |t| first >= number(t)));
            }
        }
    }
    for ty in FLOATS {
        let name = ty.name();
        let number = |constant| match ty.bits {
            32 => f64::from(f32::from_bits(ty.of(constant) as u32)),
            _ => f64::from_bits(ty.of(constant)),
        };
        for (a, b) in ty.pairs() {
            let (first, second) = (number(a), number(b));
            let text = format!("setp.lt.{name} %p, {}, {};", a.text, b.text);
            cases.push(Case::of_predicate(&text, |_| first < second));
            let text = format!("setp.nan.{name} %p, {}, {};", a.text, a.text);
            cases.push(Case::of_predicate(&text, |_| first.is_nan()));
        }
    }
    cases
}

/// Instructions on the bits of 32-bit and 64-bit constants.
fn fields() -> Vec<Case> {
    let mut cases = Vec::new();
    let word = BITS[1];
    for register in word.registers() {
        for (a, b) in word.pairs() {
            let (first, second) = (word.of(a), word.of(b));
            let (a, b) = (a.text, b.text);
            let mut case = |statement: String, expected: &dyn Fn(u64) -> u64| {
                cases.push(register.case(&statement, |t| word.cut(expected(t))));
            };
            case(format!("brev.b32 %x, {a};"), &|_| {
                (first as u32).reverse_bits().into()
            });
            case(format!("bfi.b32 %x, {a}, {b}, 8, 12;"), &|_| {
                second & !0xFFF00 | first << 8 & 0xFFF00
            });
            case(format!("prmt.b32 %x, {a}, %t32, 0x5410;"), &|t| {
                first & 0xFFFF | varying(t) << 16
            });
            case(format!("prmt.b32 %x, {a}, {b}, %sel;"), &|_| {
                first >> 16 & 0xFFFF | second << 16
            });
            case(format!("lop3.b32 %x, %t32, {a}, {b}, 0x96;"), &|t| {
                varying(t) ^ first ^ second
            });
            case(format!("shf.l.wrap.b32 %x, {a}, {b}, -28;"), &|_| {
                (second << 32 | first) << 4 >> 32
            });
            case(format!("shf.r.clamp.b32 %x, {a}, %t32, 4;"), &|t| {
                (varying(t) << 32 | first) >> 4
            });
        }
    }
    for register in UNSIGNED[1].registers() {
        for ty in [BITS[1], BITS[2]] {
            let name = ty.name();
            for (a, _) in ty.pairs() {
                let (value, a) = (ty.of(a), a.text);
                let text = format!("popc.{name} %x, {a};");
                cases.push(register.case(&text, |_| value.count_ones().into()));
                let text = format!("clz.{name} %x, {a};");
                let unused = 64 - ty.bits;
                let zeros = value.leading_zeros() - unused;
                cases.push(register.case(&text, |_| zeros.into()));
            }
        }
    }
    for (truth, holds) in truths() {
        let text = format!("lop3.and.b32 %k|%p, %t32, 3, 0, 0xC0, {truth};");
        cases.push(Case::of_predicate(&text, |t| varying(t) & 3 != 0 && holds));
    }
    cases
}

/// Vectors, and values taken apart and put together.
fn vectors() -> Vec<Case> {
    let mut cases = Vec::new();
    for whole in [BITS[1], BITS[2]] {
        let half = Type::new(Class::Bits, whole.bits / 2);
        let name = whole.name();
        for register in whole.registers() {
            for (a, b) in half.pairs() {
                // Constants side by side are of one kind.
                if matches!(a.value, Value::Integer(_)) != matches!(b.value, Value::Integer(_)) {
                    continue;
                }
                let (low, high) = (half.of(a), half.of(b));
                let text = format!("mov.{name} %x, {{{}, {}}};", a.text, b.text);
                cases.push(register.case(&text, |_| high << half.bits | low));
            }
        }
        for register in half.registers() {
            for (a, _) in whole.pairs() {
                let (register, value) = (&register, whole.of(a));
                let other = register.declared.replace("%x", "%o");
                for (parts, shift) in [("{%x, %o}", 0), ("{%o, %x}", half.bits)] {
                    let text = format!("{other} mov.{name} {parts}, {};", a.text);
                    cases.push(register.case(&text, |_| half.cut(value >> shift)));
                }
            }
        }
    }
    for ty in [BITS[1], UNSIGNED[1], FLOATS[0]] {
        let name = ty.name();
        for (a, b) in ty.pairs() {
            if matches!(a.value, Value::Integer(_)) != matches!(b.value, Value::Integer(_)) {
                continue;
            }
            let value = ty.of(b) << 32 | ty.of(a);
            let (a, b) = (a.text, b.text);
            let text = format!("st.global.v2.{name} [@], {{{a}, {b}}};");
            cases.push(Case::new(text, |_| value));
            for register in ty.registers() {
                let (declared, uses) = (&register.declared, register.uses);
                let other = declared.replace("%x", "%o");
                let text = format!(
                    "{declared} {other} mov.v2.{name} {{%x, %o}}, {{{a}, {b}}}; {uses}
                     st.global.v2.b32 [@], {{%x, %o}};"
                );
                cases.push(Case::new(text, |_| value));
            }
        }
    }
    cases
}

fn stores() -> Vec<Case> {
    let bytes = [Class::Bits, Class::Unsigned, Class::Signed].map(|class| Type::new(class, 8));
    let mut cases = Vec::new();
    for ty in types().chain(bytes) {
        for (a, _) in ty.pairs() {
            let text = format!("st.global.{} [@], {};", ty.name(), a.text);
            cases.push(Case::new(text, |_| ty.of(a)));
        }
    }
    cases
}

fn conversions() -> Vec<Case> {
    let mut cases = Vec::new();
    let bytes = [Class::Unsigned, Class::Signed].map(|class| Type::new(class, 8));
    for from in bytes.into_iter().chain(UNSIGNED).chain(SIGNED) {
        for to in [UNSIGNED[0], SIGNED[1], UNSIGNED[2]] {
            for (a, _) in from.pairs() {
                let value = from.number(from.of(a)) as u64;
                let text = format!("cvt.{}.{} %x, {};", to.name(), from.name(), a.text);
                let register = &to.registers()[0];
                cases.push(register.case(&text, |_| to.cut(value)));
            }
        }
    }
    for register in FLOATS[1].registers() {
        for (a, _) in FLOATS[0].pairs() {
            let value = f32::from_bits(FLOATS[0].of(a) as u32);
            if !value.is_nan() {
                let text = format!("cvt.f64.f32 %x, {};", a.text);
                cases.push(register.case(&text, |_| f64::from(value).to_bits()));
            }
        }
    }
    cases
}

fn arithmetic() -> Vec<Case> {
    let mut cases = Vec::new();
    for ty in UNSIGNED.into_iter().chain(SIGNED) {
        let (name, bits) = (ty.name(), ty.bits);
        let number = |t| ty.number(varying(t));
        for register in ty.registers() {
            for (a, _) in ty.pairs() {
                let (value, a) = (ty.number(ty.of(a)), a.text);
                let mut case = |statement: String, expected: &dyn Fn(u64) -> i128| {
                    cases.push(register.case(&statement, |t| ty.cut(expected(t) as u64)));
                };
                case(format!("add.{name} %x, %t{bits}, {a};"), &|t| {
                    number(t) + value
                });
                case(format!("sub.{name} %x, {a}, %t{bits};"), &|t| {
                    value - number(t)
                });
                case(format!("mul.lo.{name} %x, %t{bits}, {a};"), &|t| {
                    number(t).wrapping_mul(value)
                });
                case(format!("min.{name} %x, %t{bits}, {a};"), &|t| {
                    number(t).min(value)
                });
                case(format!("max.{name} %x, {a}, %t{bits};"), &|t| {
                    number(t).max(value)
                });
            }
        }
        if bits < 64 {
            let wide = Type::new(ty.class, 2 * bits);
            for register in wide.registers() {
                for (a, _) in ty.pairs() {
                    let value = ty.number(ty.of(a));
                    let text = format!("mad.wide.{name} %x, %t{bits}, {}, -1;", a.text);
                    let expected = |t| wide.cut((number(t) * value - 1) as u64);
                    cases.push(register.case(&text, expected));
                }
            }
        }
    }
    // Sums that are exact.
    for register in FLOATS[1].registers() {
        for (a, _) in FLOATS[1].pairs() {
            let value = f64::from_bits(FLOATS[1].of(a));
            let text = format!("add.f64 %x, {}, 0d0000000000000000;", a.text);
            cases.push(register.case(&text, |_| (value + 0.0).to_bits()));
        }
    }
    cases
}

/// Atomic operations on a slot, which keeps what they leave there.
fn atomics() -> Vec<Case> {
    let mut cases = Vec::new();
    for ty in [BITS[1], BITS[2]] {
        let (name, bits) = (ty.name(), ty.bits);
        for register in ty.registers() {
            let (declared, uses) = (&register.declared, register.uses);
            for (a, b) in ty.pairs() {
                let (first, second) = (ty.of(a), ty.of(b));
                let (a, b) = (a.text, b.text);
                let mut case = |statements: String, expected: &dyn Fn(u64) -> u64| {
                    let text = format!("{declared} {statements} {uses}");
                    cases.push(Case::new(text, |t| ty.cut(expected(t))));
                };
                case(format!("atom.global.exch.{name} %x, [@], {a};"), &|_| first);
                case(
                    format!("st.global.{name} [@], {a}; atom.global.cas.{name} %x, [@], {a}, {b};"),
                    &|_| second,
                );
                for (operation, apply) in [
                    ("and", (|x, y| x & y) as fn(u64, u64) -> u64),
                    ("or", |x, y| x | y),
                    ("xor", |x, y| x ^ y),
                ] {
                    case(
                        format!(
                            "st.global.b{bits} [@], %t{bits};
                             atom.global.{operation}.{name} %x, [@], {a};"
                        ),
                        &|t| apply(varying(t), first),
                    );
                }
            }
        }
    }
    for ty in FLOATS {
        for (a, _) in ty.pairs() {
            let value = ty.of(a);
            // A sum flushes subnormals of `.f32` and loses the bits of a NaN.
            let normal = match ty.bits {
                32 => f32::from_bits(value as u32).is_normal(),
                _ => true,
            };
            if normal {
                let text = format!("red.global.add.{} [@], {};", ty.name(), a.text);
                cases.push(Case::new(text, |_| value));
            }
        }
    }
    cases
}

/// Arguments of functions, by register and by parameter.
fn calls() -> Vec<Case> {
    let mut cases = Vec::new();
    for ty in types().filter(|ty| ty.bits > 16) {
        let name = ty.name();
        for register in ty.registers() {
            for (a, _) in ty.pairs() {
                let (value, a) = (ty.of(a), a.text);
                let text = format!(
                    "{{ .param .{name} a; .param .{name} r; st.param.{name} [a], {a};
                     call.uni (r), same_{name}, (a); ld.param.{name} %x, [r]; }}"
                );
                cases.push(register.case(&text, |_| value));
            }
        }
    }
    // A wider register takes an argument extended: neighbouring threads have
    // neighbouring values in 32 bits, and not in 64.
    for (name, extended) in [
        ("u32", (|value| u64::from(value)) as fn(u32) -> u64),
        ("s32", |value| value as i32 as u64),
    ] {
        for register in UNSIGNED[2].registers() {
            let text = format!(
                "{{ .reg .b32 %v; .param .{name} a; .param .{name} r; sub.u32 %v, %t, 5;
                 st.param.{name} [a], %v; call.uni (r), same_{name}, (a);
                 ld.param.{name} %x, [r]; }}"
            );
            cases.push(register.case(&text, |t| extended((t as u32).wrapping_sub(5))));
        }
    }
    cases
}

/// What a warp does together: these have no place for a divergent thread.
fn warps() -> Vec<Case> {
    let mut cases = Vec::new();
    let all = (1 << THREADS) - 1;
    for (truth, holds) in truths() {
        let ballot = format!("vote.sync.ballot.b32 %k, {truth}, -1; st.global.u32 [@], %k;");
        cases.push(Case::new(ballot, |_| if holds { all } else { 0 }));
        for kind in ["all", "any"] {
            let text = format!("vote.sync.{kind}.pred %p, {truth}, -1;");
            cases.push(Case::of_predicate(&text, |_| holds));
        }
        let count = format!("bar.red.popc.u32 %k, 0, {truth}; st.global.u32 [@], %k;");
        cases.push(Case::new(count, |_| if holds { THREADS } else { 0 }));
        let text = format!("bar.red.and.pred %p, 0, {truth};");
        cases.push(Case::of_predicate(&text, |_| holds));
    }
    let word = BITS[1];
    for register in word.registers() {
        for (a, _) in word.pairs() {
            let value = word.of(a);
            let text = format!("shfl.sync.idx.b32 %x, {}, 3, 31, -1;", a.text);
            cases.push(register.case(&text, |_| value));
        }
    }
    for register in UNSIGNED[1].registers() {
        for (a, _) in word.pairs() {
            let value = word.of(a);
            let text = format!("match.any.sync.b32 %x, {}, -1;", a.text);
            cases.push(register.case(&text, |_| all));
            if matches!(a.value, Value::Integer(_)) {
                let text = format!("redux.sync.or.b32 %x, {}, -1;", a.text);
                cases.push(register.case(&text, |_| value));
            }
        }
    }
    cases
}

/// Initial values of variables, and their declarations.
fn initial_values() -> (String, Vec<Case>) {
    let (mut declarations, mut cases) = (String::new(), Vec::new());
    for ty in types() {
        let (name, bits) = (ty.name(), ty.bits);
        for constant in CONSTANTS {
            // Of a variable of bits ptxas takes each kind of constant.
            let taken = ty.takes(*constant) || ty.class == Class::Bits;
            // But not a number that a larger type is needed for.
            let fits = match constant.value {
                Value::Integer(n) => bits == 64 || (n as i64).unsigned_abs() >> bits == 0,
                _ => true,
            };
            if !taken || !fits {
                continue;
            }
            let variable = format!("v{}", cases.len());
            writeln!(
                declarations,
                ".global .{name} {variable} = {};",
                constant.text
            )
            .expect("a string takes everything");
            let text = format!(
                "{{ .reg .b{bits} %x; ld.global.b{bits} %x, [{variable}];
                 st.global.b{bits} [@], %x; }}"
            );
            cases.push(Case::new(text, |_| ty.of(*constant)));
        }
    }
    (declarations, cases)
}

/// Cases a kernel: code generators take more than linear time for a function.
const CASES: usize = 64;

/// A module of kernels `k0`, `k1`, …, each of `CASES` cases.
fn module(declarations: &str, cases: &[Case]) -> String {
    let mut text = ".version 8.2\n.target sm_80\n.address_size 64\n".to_owned();
    text.push_str(declarations);
    for (number, cases) in cases.chunks(CASES).enumerate() {
        write!(text, ".visible .entry k{number}").expect("a string takes everything");
        push_body(&mut text, cases);
    }
    text
}

/// The parameter and the body of a kernel.
fn push_body(text: &mut String, cases: &[Case]) {
    text.push_str(
        "(.param .u64 out) {\n\
         .reg .b64 %out, %t64, %l;\n.reg .b32 %t, %t32, %k, %sign, %sel;\n.reg .b16 %t16;\n\
         .reg .f32 %y;\n.reg .f64 %z;\n.reg .pred %p, %q, %odd;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %out, %t, 8, %out;\n\
         cvt.u64.u32 %t64, %t;\nmul.lo.u64 %t64, %t64, 0x9E3779B97F4A7C15;\n\
         cvt.u32.u64 %t32, %t64;\ncvt.u16.u64 %t16, %t64;\n\
         and.b32 %k, %t, 1;\nsetp.ne.u32 %odd, %k, 0;\nneg.s32 %sign, %k;\n\
         mov.b32 %sel, 0x5432;\n",
    );
    for (number, case) in cases.iter().enumerate() {
        let slot = format!("[%out+{}]", number as u64 * THREADS * 8);
        let statements = case.text.replace("[@]", &slot);
        writeln!(text, "{{ {statements} }}").expect("a string takes everything");
    }
    text.push_str("ret;\n}\n");
}

/// Runs the cases on the device, on the CPU device in each way to run lanes.
fn check(declarations: &str, cases: &[Case]) {
    let text = module(declarations, cases);
    let device = device();
    let context = Context::primary(&device).expect("a context");
    let stream = Stream::new(&context).expect("a stream");
    let ways: &[Option<Vectorization>] = match device.driver().kind() {
        DriverKind::Nvidia => &[None],
        // `WhenHot` is `Never` until a kernel is hot, and then `Always`.
        _ => &[
            Some(Vectorization::Never),
            Some(Vectorization::Always),
            Some(Vectorization::Always),
        ],
    };
    let mut wrong = Vec::new();
    for &lanes in ways {
        let binary = match lanes {
            None => text.clone().into_bytes(),
            Some(lanes) => {
                let mut options = CompileOptions::default();
                options.vectorization = lanes;
                compile(&text, &options).expect("the CPU device takes it")
            }
        };
        // SAFETY: the binary was compiled a moment ago.
        let module = unsafe { Module::load_image(&context, &binary) }.expect("the device takes it");
        let slots = cases.len() * THREADS as usize;
        let mut output = DeviceBuffer::<u64>::zeroed(&context, slots).expect("memory");
        let config = LaunchConfig::for_elements(THREADS as u32, THREADS as u32);
        for (number, mut part) in output
            .all_mut()
            .chunks_mut(CASES * THREADS as usize)
            .enumerate()
        {
            let kernel = module.kernel(&format!("k{number}")).expect("a kernel");
            // SAFETY: each thread writes its slots of the part, which has one for each.
            unsafe { kernel.launch(config, &stream, (&mut part,)) }.expect("a launch");
        }
        stream.synchronize().expect("the kernels end");
        let found = output.to_vec().expect("a copy");
        for (case, found) in cases.iter().zip(found.chunks(THREADS as usize)) {
            let differs = |(found, expected): (&u64, &u64)| found != expected;
            if let Some(thread) = found.iter().zip(&case.expected).position(differs) {
                let (found, expected) = (found[thread], case.expected[thread]);
                wrong.push(format!(
                    "{} ({lanes:?})\n  gives {found:#X}, not {expected:#X}, in thread {thread}",
                    case.text
                ));
            }
        }
    }
    let count = wrong.len();
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{count} wrong:\n{}", wrong.join("\n"));
}

#[test]
fn constants_are_moved_and_selected() {
    check("", &moves());
    check("", &selections());
}

#[test]
fn constants_are_bits_and_predicates() {
    check("", &logic());
    check("", &predicates());
    check("", &fields());
}

#[test]
fn constants_are_compared_and_computed_with() {
    check("", &comparisons());
    check("", &conversions());
    check("", &arithmetic());
}

#[test]
fn constants_are_stored() {
    check("", &vectors());
    check("", &stores());
    check("", &atomics());
    let (declarations, cases) = initial_values();
    check(&declarations, &cases);
}

#[test]
fn constants_are_passed_on() {
    let functions: String = types()
        .filter(|ty| ty.bits > 16)
        .map(|ty| {
            let (name, bits) = (ty.name(), ty.bits);
            format!(
                ".func (.param .{name} r) same_{name}(.param .{name} a) {{\n\
                 .reg .b{bits} %v;\nld.param.b{bits} %v, [a];\nst.param.b{bits} [r], %v;\nret;\n}}\n"
            )
        })
        .collect();
    check(&functions, &calls());
    check("", &warps());
}
