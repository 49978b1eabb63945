//! One instruction a body, over types, roundings and modifiers.

/// Words of instructions that need not be there.
const FTZ: [&str; 2] = ["", ".ftz"];
const SAT: [&str; 2] = ["", ".sat"];
const ROUNDINGS: [&str; 4] = [".rn", ".rz", ".rm", ".rp"];
const TO_INTEGRAL: [&str; 4] = [".rni", ".rzi", ".rmi", ".rpi"];
const INTEGERS: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

/// The letter of the registers of a type (see [`crate::kernels`]).
fn letter(ty: &str) -> char {
    match ty {
        "u64" | "s64" | "b64" => 'a',
        "f64" => 'g',
        "f32" => 'f',
        "f16" | "bf16" | "u16" | "s16" | "b16" => 'h',
        _ => 'r',
    }
}

/// The register of the result.
fn result(ty: &str) -> String {
    match letter(ty) {
        'a' => "%d".to_owned(),
        letter => format!("%{letter}d"),
    }
}

/// `opcode` with a result of type `to` and a source of each type in `from`.
fn of_types(opcode: &str, to: &str, from: &[&str]) -> String {
    let mut body = format!("{opcode} {}", result(to));
    for (number, ty) in from.iter().enumerate() {
        body += &format!(", %{}{number}", letter(ty));
    }
    body + ";"
}

/// `opcode.ty` whose result and `count` sources are of the type.
fn plain(opcode: &str, ty: &str, count: usize) -> String {
    of_types(&format!("{opcode}.{ty}"), ty, &vec![ty; count])
}

/// All bodies of exact instructions.
pub fn exact() -> Vec<String> {
    let mut all = Vec::new();
    integers(&mut all);
    bits(&mut all);
    comparisons(&mut all);
    floats(&mut all);
    halves(&mut all);
    integer_conversions(&mut all);
    float_conversions(&mut all);
    packed_conversions(&mut all);
    video(&mut all);
    warps(&mut all);
    wide(&mut all);
    all
}

fn integers(all: &mut Vec<String>) {
    for ty in INTEGERS {
        for opcode in ["add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"] {
            all.push(plain(opcode, ty, 2));
        }
        for opcode in ["mad.lo", "mad.hi", "sad"] {
            all.push(plain(opcode, ty, 3));
        }
        if ty.starts_with('s') {
            all.extend(["abs", "neg"].map(|opcode| plain(opcode, ty, 1)));
        }
    }
    for (from, to) in [
        ("u16", "u32"),
        ("s16", "s32"),
        ("u32", "u64"),
        ("s32", "s64"),
    ] {
        all.push(of_types(&format!("mul.wide.{from}"), to, &[from, from]));
        all.push(of_types(&format!("mad.wide.{from}"), to, &[from, from, to]));
    }
    all.extend(["add.sat", "sub.sat"].map(|opcode| plain(opcode, "s32", 2)));
    all.push(plain("mad.hi.sat", "s32", 3));
    for ty in ["u32", "s32"] {
        all.extend(["mul24.lo", "mul24.hi"].map(|opcode| plain(opcode, ty, 2)));
        all.extend(["mad24.lo", "mad24.hi"].map(|opcode| plain(opcode, ty, 3)));
        for other in ["u32", "s32"] {
            for opcode in ["dp4a", "dp2a.lo", "dp2a.hi"] {
                all.push(of_types(
                    &format!("{opcode}.{ty}.{other}"),
                    "b32",
                    &["b32"; 3],
                ));
            }
        }
    }
    all.push(plain("mad24.hi.sat", "s32", 3));
    for ty in ["u16x2", "s16x2"] {
        all.extend(["add", "min", "max"].map(|opcode| plain(opcode, ty, 2)));
    }
    for ty in ["s16x2", "s32"] {
        all.extend(["min.relu", "max.relu"].map(|opcode| plain(opcode, ty, 2)));
    }
    for (add, addc) in [("add.cc", "addc"), ("sub.cc", "subc")] {
        all.push(format!(
            "{add}.u32 %r4, %r0, %r1; {addc}.u32 %r5, %r2, %r3; mov.b64 %d, {{%r4, %r5}};"
        ));
        all.push(format!(
            "{add}.u64 %x0, %a0, %a1; {addc}.u64 %x1, %a2, %a3; xor.b64 %x1, %x1, 0x5555; xor.b64 %d, %x0, %x1;"
        ));
        all.push(format!(
            "{add}.u32 %r4, %r0, %r1; {addc}.cc.u32 %r5, %r2, %r3; {addc}.u32 %r6, %r4, 0; mov.b64 %d, {{%r5, %r6}};"
        ));
    }
    all.push(
        "mad.lo.cc.u32 %r4, %r0, %r1, %r2; madc.hi.u32 %r5, %r0, %r1, %r3; mov.b64 %d, {%r4, %r5};"
            .to_owned(),
    );
    all.push("mad.lo.cc.u64 %x0, %a0, %a1, %a2; madc.hi.u64 %d, %a0, %a1, %a3;".to_owned());
}

fn bits(all: &mut Vec<String>) {
    for width in ["16", "32", "64"] {
        let ty = format!("b{width}");
        all.extend(["and", "or", "xor"].map(|opcode| plain(opcode, &ty, 2)));
        all.extend(["not", "cnot"].map(|opcode| plain(opcode, &ty, 1)));
        for opcode in ["shl.b", "shr.b", "shr.u", "shr.s"] {
            all.push(of_types(&format!("{opcode}{width}"), &ty, &[&ty, "u32"]));
        }
    }
    for ty in ["b32", "b64"] {
        all.extend(["popc", "clz"].map(|op| of_types(&format!("{op}.{ty}"), "u32", &[ty])));
        all.push(plain("brev", ty, 1));
        all.push(of_types(&format!("bfi.{ty}"), ty, &[ty, ty, "u32", "u32"]));
    }
    for ty in ["u32", "s32", "u64", "s64"] {
        all.push(of_types(&format!("bfind.{ty}"), "u32", &[ty]));
        all.push(of_types(&format!("bfind.shiftamt.{ty}"), "u32", &[ty]));
        all.push(of_types(&format!("bfe.{ty}"), ty, &[ty, "u32", "u32"]));
    }
    for mode in ["wrap", "clamp"] {
        for way in ["l", "r"] {
            all.push(plain(&format!("shf.{way}.{mode}"), "b32", 3));
        }
        all.push(plain(&format!("bmsk.{mode}"), "b32", 2));
        all.extend(["u32", "s32"].map(|ty| plain(&format!("szext.{mode}"), ty, 2)));
    }
    for table in [0x00, 0x1B, 0x3C, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF] {
        all.push(format!("lop3.b32 %rd, %r0, %r1, %r2, {table};"));
    }
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        all.push(format!("prmt.b32{mode} %rd, %r0, %r1, %r2;"));
    }
    // A base above 31 is undefined.
    all.push("and.b32 %r4, %r1, 31; shr.s32 %r5, %r2, 26; fns.b32 %rd, %r0, %r4, %r5;".to_owned());
}

const ORDERED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNSIGNED: [&str; 4] = ["lo", "ls", "hi", "hs"];
const UNORDERED: [&str; 8] = ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

/// The comparisons of a type.
fn tests_of(ty: &str) -> Vec<&'static str> {
    let mut tests = ORDERED.to_vec();
    match ty.as_bytes()[0] {
        b'u' => tests.extend(UNSIGNED),
        b's' => {}
        _ => tests.extend(UNORDERED),
    }
    tests
}

fn comparisons(all: &mut Vec<String>) {
    let types = INTEGERS
        .iter()
        .copied()
        .chain(["f32", "f64", "f16", "bf16"]);
    for ty in types {
        let l = letter(ty);
        for test in tests_of(ty) {
            all.push(format!("setp.{test}.{ty} %pd, %{l}0, %{l}1;"));
            if matches!(ty, "f32" | "f16") {
                all.push(format!("setp.{test}.ftz.{ty} %pd, %{l}0, %{l}1;"));
            }
            if matches!(ty, "f16" | "bf16") {
                all.push(of_types(&format!("set.{test}.u16.{ty}"), "u16", &[ty, ty]));
                continue;
            }
            for to in ["u32", "f32"] {
                all.push(of_types(&format!("set.{test}.{to}.{ty}"), to, &[ty, ty]));
            }
        }
    }
    for ty in ["f16x2", "bf16x2"] {
        for test in tests_of(ty) {
            all.push(format!(
                "setp.{test}.{ty} %p0|%p1, %r0, %r1; selp.u64 %d, 1, 2, %p0; @%p1 add.u64 %d, %d, 10;"
            ));
            all.push(of_types(&format!("set.{test}.{ty}.{ty}"), ty, &[ty, ty]));
        }
    }
    for with in ["and", "or", "xor"] {
        for not in ["", "!"] {
            all.push(format!(
                "setp.gt.s32 %p2, %r2, %r3; setp.lt.{with}.s32 %p0|%p1, %r0, %r1, {not}%p2; selp.u64 %d, 1, 2, %p0; @%p1 add.u64 %d, %d, 10;"
            ));
        }
    }
    for ty in ["b16", "b32", "b64", "f32", "f64"] {
        let l = letter(ty);
        all.push(format!(
            "setp.gt.s32 %p0, %r2, %r3; selp.{ty} {}, %{l}0, %{l}1, %p0;",
            result(ty)
        ));
        for by in ["s32", "f32"] {
            all.push(of_types(&format!("slct.{ty}.{by}"), ty, &[ty, ty, by]));
        }
    }
    for what in [
        "finite",
        "infinite",
        "number",
        "notanumber",
        "normal",
        "subnormal",
    ] {
        all.push(format!("testp.{what}.f32 %pd, %f0;"));
        all.push(format!("testp.{what}.f64 %pd, %g0;"));
    }
}

fn floats(all: &mut Vec<String>) {
    for rounding in ROUNDINGS {
        for ftz in FTZ {
            for sat in SAT {
                for opcode in ["add", "sub", "mul"] {
                    all.push(plain(&format!("{opcode}{rounding}{ftz}{sat}"), "f32", 2));
                }
                all.push(plain(&format!("fma{rounding}{ftz}{sat}"), "f32", 3));
            }
            all.push(plain(&format!("div{rounding}{ftz}"), "f32", 2));
            all.extend(["rcp", "sqrt"].map(|op| plain(&format!("{op}{rounding}{ftz}"), "f32", 1)));
        }
        for opcode in ["add", "sub", "mul", "div"] {
            all.push(plain(&format!("{opcode}{rounding}"), "f64", 2));
        }
        all.push(plain(&format!("fma{rounding}"), "f64", 3));
        all.extend(["rcp", "sqrt"].map(|op| plain(&format!("{op}{rounding}"), "f64", 1)));
    }
    for opcode in ["min", "max"] {
        for ftz in FTZ {
            for how in ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"] {
                all.push(plain(&format!("{opcode}{ftz}{how}"), "f32", 2));
            }
        }
        all.push(plain(opcode, "f64", 2));
    }
    for opcode in ["abs", "neg"] {
        all.extend(FTZ.map(|ftz| plain(&format!("{opcode}{ftz}"), "f32", 1)));
        all.push(plain(opcode, "f64", 1));
    }
    all.extend(["f32", "f64"].map(|ty| plain("copysign", ty, 2)));
}

fn halves(all: &mut Vec<String>) {
    for ty in ["f16", "f16x2"] {
        for ftz in FTZ {
            for sat in SAT {
                for opcode in ["add", "sub", "mul"] {
                    all.push(plain(&format!("{opcode}{ftz}{sat}"), ty, 2));
                }
                all.push(plain(&format!("fma.rn{ftz}{sat}"), ty, 3));
            }
            all.push(plain(&format!("fma.rn{ftz}.relu"), ty, 3));
            all.extend(["abs", "neg"].map(|op| plain(&format!("{op}{ftz}"), ty, 1)));
        }
    }
    for ty in ["bf16", "bf16x2"] {
        all.extend(["add", "sub", "mul"].map(|opcode| plain(opcode, ty, 2)));
        all.extend(["fma.rn", "fma.rn.relu"].map(|opcode| plain(opcode, ty, 3)));
        all.extend(["abs", "neg"].map(|opcode| plain(opcode, ty, 1)));
    }
    for ty in ["f16", "f16x2", "bf16", "bf16x2"] {
        for opcode in ["min", "max"] {
            for how in ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"] {
                all.push(plain(&format!("{opcode}{how}"), ty, 2));
                if ty.starts_with('f') {
                    all.push(plain(&format!("{opcode}.ftz{how}"), ty, 2));
                }
            }
        }
    }
}

/// Whether every number of type `from` is one of `to`: then nothing saturates.
fn holds(to: &str, from: &str) -> bool {
    let parts = |ty: &str| (ty.starts_with('s'), ty[1..].parse::<u32>().expect("bits"));
    match (parts(to), parts(from)) {
        ((to_signed, to), (from_signed, from)) if to_signed == from_signed => to >= from,
        ((true, to), (false, from)) => to > from,
        _ => false,
    }
}

fn integer_conversions(all: &mut Vec<String>) {
    const TYPES: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
    for to in TYPES {
        for from in TYPES {
            all.push(of_types(&format!("cvt.{to}.{from}"), to, &[from]));
            if !holds(to, from) {
                all.push(of_types(&format!("cvt.sat.{to}.{from}"), to, &[from]));
            }
        }
        for from in ["f16", "bf16", "f32", "f64"] {
            // To 8 bits there is none from bf16.
            if from == "bf16" && to.ends_with('8') {
                continue;
            }
            for rounding in TO_INTEGRAL {
                all.push(of_types(&format!("cvt{rounding}.{to}.{from}"), to, &[from]));
                if from == "f32" {
                    let opcode = format!("cvt{rounding}.ftz.{to}.f32");
                    all.push(of_types(&opcode, to, &[from]));
                }
            }
        }
        for rounding in ROUNDINGS {
            for float in ["f16", "f32", "f64"] {
                for sat in SAT {
                    let opcode = format!("cvt{rounding}{sat}.{float}.{to}");
                    all.push(of_types(&opcode, float, &[to]));
                }
            }
            if !to.ends_with('8') {
                let opcode = format!("cvt{rounding}.bf16.{to}");
                all.push(of_types(&opcode, "bf16", &[to]));
            }
        }
    }
}

fn float_conversions(all: &mut Vec<String>) {
    let mut cvt = |modifiers: &str, to: &str, from: &str| {
        all.push(of_types(
            &format!("cvt{modifiers}.{to}.{from}"),
            to,
            &[from],
        ));
    };
    for sat in SAT {
        for rounding in ROUNDINGS {
            for ftz in FTZ {
                cvt(&format!("{rounding}{ftz}{sat}"), "f32", "f64");
                cvt(&format!("{rounding}{ftz}{sat}"), "f16", "f32");
            }
            cvt(&format!("{rounding}{sat}"), "f16", "f64");
        }
        for ftz in FTZ {
            cvt(&format!("{ftz}{sat}"), "f32", "f16");
            cvt(&format!("{ftz}{sat}"), "f64", "f32");
            cvt(&format!("{ftz}{sat}"), "f32", "f32");
        }
        cvt(sat, "f64", "f16");
        for rounding in TO_INTEGRAL {
            for ftz in FTZ {
                cvt(&format!("{rounding}{ftz}{sat}"), "f32", "f32");
            }
            cvt(&format!("{rounding}{sat}"), "f64", "f64");
            cvt(&format!("{rounding}{sat}"), "f16", "f16");
        }
    }
    for rounding in ROUNDINGS {
        for from in ["f32", "f64", "f16"] {
            cvt(rounding, "bf16", from);
        }
    }
    cvt("", "f32", "bf16");
    cvt("", "f64", "bf16");
    for rounding in TO_INTEGRAL {
        cvt(rounding, "bf16", "bf16");
    }
    for relu in ["", ".relu"] {
        for rounding in [".rn", ".rz"] {
            for satfinite in ["", ".satfinite"] {
                cvt(&format!("{rounding}{relu}{satfinite}"), "f16", "f32");
                cvt(&format!("{rounding}{relu}{satfinite}"), "bf16", "f32");
            }
            cvt(&format!("{rounding}{relu}"), "tf32", "f32");
        }
    }
    cvt(".rna", "tf32", "f32");
}

fn packed_conversions(all: &mut Vec<String>) {
    for relu in ["", ".relu"] {
        for rounding in [".rn", ".rz"] {
            for to in ["f16x2", "bf16x2"] {
                for satfinite in ["", ".satfinite"] {
                    let opcode = format!("cvt{rounding}{relu}{satfinite}.{to}.f32");
                    all.push(of_types(&opcode, to, &["f32", "f32"]));
                }
            }
        }
        for eight in ["e4m3x2", "e5m2x2"] {
            let opcode = format!("cvt.rn.satfinite{relu}.{eight}");
            all.push(format!("{opcode}.f32 %hd, %f0, %f1;"));
            all.push(format!("{opcode}.f16x2 %hd, %r0;"));
            all.push(format!("cvt.rn{relu}.f16x2.{eight} %rd, %h0;"));
        }
    }
}

fn video(all: &mut Vec<String>) {
    const SIGNS: [&str; 2] = ["u32", "s32"];
    for to in SIGNS {
        for a in SIGNS {
            for b in SIGNS {
                for opcode in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"] {
                    let types = format!("{to}.{a}.{b}");
                    all.push(format!("{opcode}.{types} %rd, %r0, %r1;"));
                    all.push(format!("{opcode}.{types}.sat %rd, %r0.b1, %r1.h1;"));
                    all.push(format!("{opcode}.{types}.add %rd, %r0.h0, %r1.b3, %r2;"));
                    all.push(format!("{opcode}.{types}.sat.min %rd, %r0, %r1, %r2;"));
                    all.push(format!("{opcode}.{types} %rd.b2, %r0, %r1, %r2;"));
                }
                for opcode in ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"] {
                    for lanes in ["2", "4"] {
                        let head = format!("{opcode}{lanes}.{to}.{a}.{b}");
                        all.push(format!("{head}.sat %rd, %r0, %r1, %r2;"));
                        all.push(format!("{head} %rd, %r0, %r1, %r2;"));
                        all.push(format!("{head}.add %rd, %r0, %r1, %r2;"));
                    }
                }
            }
            for opcode in ["vshl", "vshr"] {
                for mode in ["clamp", "wrap"] {
                    let head = format!("{opcode}.{to}.{a}.u32");
                    all.push(format!("{head}.{mode} %rd, %r0, %r1;"));
                    all.push(format!("{head}.sat.{mode}.max %rd, %r0.h1, %r1.b0, %r2;"));
                }
            }
            for test in ORDERED {
                all.push(format!("vset.{to}.{a}.{test} %rd, %r0, %r1;"));
                for lanes in ["2", "4"] {
                    let head = format!("vset{lanes}.{to}.{a}.{test}");
                    all.push(format!("{head} %rd, %r0, %r1, %r2;"));
                    all.push(format!("{head}.add %rd, %r0, %r1, %r2;"));
                }
            }
        }
        for shift in ["", ".shr7", ".shr15"] {
            let head = format!("vmad.{to}.{to}.{to}");
            all.push(format!("{head}{shift} %rd, %r0.h0, %r1.h1, %r2;"));
            all.push(format!("{head}.sat{shift} %rd, %r0, %r1, %r2;"));
        }
    }
    all.push("vmad.u32.u32.u32.po %rd, %r0.h0, %r1.b1, %r2;".to_owned());
    for lanes in ["2.u32.u32.u32", "4.s32.s32.s32"] {
        all.push(format!(
            "vadd{lanes} %rd.{}, %r0, %r1, %r2;",
            if lanes.starts_with('2') { "h1" } else { "b20" }
        ));
    }
}

/// Registers of 128 bits, and `cvt.pack`.
fn wide(all: &mut Vec<String>) {
    let folded = "shf.l.wrap.b32 %r4, %r1, %r0, 7;";
    let half = "xor.b64 %d, %x0, %x3; add.u64 %d, %d, %x1;";
    all.push(format!(
        "{{ .reg .b128 %q<3>; {folded} cvt.u64.u32 %x3, %r4; mov.b128 %q1, {{%a0, %a1}}; \
         mov.b128 %q2, %q1; mov.b128 {{%x0, %x1}}, %q2; {half} }}"
    ));
    all.push(format!(
        "{{ .reg .b128 %q; mov.u64 %x3, 0; ld.global.b128 %q, [%in+16]; \
         mov.b128 {{%x0, %x1}}, %q; {half} }}"
    ));
    all.push(
        "{ .reg .b128 %q; .local .align 16 .b8 l[32]; mov.b128 %q, {%a2, %a3}; \
         st.local.b128 [l+16], %q; ld.local.v2.b64 {%x0, %x1}, [l+16]; sub.u64 %d, %x0, %x1; }"
            .to_owned(),
    );
    for to in ["u16", "s16"] {
        all.push(format!("cvt.pack.sat.{to}.s32 %rd, %r0, %r1;"));
    }
    for to in ["u8", "s8", "u4", "s4", "u2", "s2"] {
        all.push(format!("cvt.pack.sat.{to}.s32.b32 %rd, %r0, %r1, %r2;"));
    }
}

/// What threads of a whole warp tell one another. Inputs fill whole warps.
fn warps(all: &mut Vec<String>) {
    for mode in ["up", "down", "bfly", "idx"] {
        let shfl = format!("shfl.sync.{mode}.b32");
        // Any clamp and mask of segments, and that of the whole warp.
        all.push(format!(
            "{shfl} %r4|%p0, %r0, %r1, %r2, -1; selp.u32 %r5, 1, 0, %p0; mov.b64 %d, {{%r4, %r5}};"
        ));
        for (lanes, clamp) in [(1, 0x1F), (5, 0x1F), (16, 0x101F), (31, 0x181F), (3, 0)] {
            all.push(format!("{shfl} %rd, %r0, {lanes}, {clamp}, -1;"));
        }
    }
    for mode in ["all", "any", "uni"] {
        for test in ["lt", "ne"] {
            all.push(format!(
                "setp.{test}.s32 %p0, %r0, 0; vote.sync.{mode}.pred %pd, %p0, -1;"
            ));
        }
    }
    all.push("setp.lt.s32 %p0, %r0, %r1; vote.sync.ballot.b32 %rd, %p0, -1;".to_owned());
    for few in [0, 1, 3] {
        all.push(format!(
            "and.b32 %r4, %r0, {few}; match.any.sync.b32 %rd, %r4, -1;"
        ));
        all.push(format!(
            "and.b64 %x0, %a0, {few}; match.any.sync.b64 %rd, %x0, -1;"
        ));
        all.push(format!(
            "and.b32 %r4, %r0, {few}; match.all.sync.b32 %rd|%p0, %r4, -1; @%p0 xor.b32 %rd, %rd, 0x1111;"
        ));
    }
    for (opcode, types) in [
        ("add", &["u32", "s32"][..]),
        ("min", &["u32", "s32"]),
        ("max", &["u32", "s32"]),
        ("and", &["b32"]),
        ("or", &["b32"]),
        ("xor", &["b32"]),
    ] {
        all.extend(
            types
                .iter()
                .map(|ty| format!("redux.sync.{opcode}.{ty} %rd, %r0, -1;")),
        );
    }
    all.push("activemask.b32 %rd;".to_owned());
}
