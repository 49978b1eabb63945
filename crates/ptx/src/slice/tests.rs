use super::*;
use crate::{check, read};

const HEAD: &str = ".version 8.3\n.target sm_90\n.address_size 64\n";

/// Anything is cut.
const ANY: Limits = Limits {
    kernels: 0,
    text: 0,
    slice: 100,
    copies: 4 << 20,
    steps: 1 << 20,
    access: HostAccess::Writes,
};

/// A module of these lines, cut. `K(a): …` is a kernel and `F(f): …` a function, with
/// registers to use.
fn module(lines: &str) -> String {
    let mut source = HEAD.to_owned();
    for line in lines.lines() {
        let line = line.trim();
        let (head, body) = line.split_once(": ").unwrap_or(("", line));
        let function = match (head.strip_prefix("K("), head.strip_prefix("F(")) {
            (Some(name), _) => Some((".visible .entry", name)),
            (_, Some(name)) => Some((".func", name)),
            _ => None,
        };
        match function {
            Some((kind, name)) => {
                let name = name.trim_end_matches(')');
                source += &format!(
                    "{kind} {name}()\n{{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<3>;\n\
                     {body}\nret;\n}}\n"
                );
            }
            None => {
                source += line;
                source.push('\n');
            }
        }
    }
    source
}

fn cut_all(source: &str) -> Slices {
    let reading = read(source);
    assert_eq!(reading.diagnostics, [], "{source}");
    assert_eq!(check(&reading.module, source), [], "{source}");
    let slices = cut_within(source, &reading.module, &ANY);
    for slice in slices.slices() {
        let text = slice.text(source);
        let reading = read(&text);
        assert_eq!(reading.diagnostics, [], "{text}");
        assert_eq!(check(&reading.module, &text), [], "{text}");
    }
    slices
}

/// The names that each slice declares, the slices separated by `|`; or why it is whole.
fn names(lines: &str) -> String {
    let source = module(lines);
    let slices = cut_all(&source);
    if let Some(whole) = slices.whole() {
        return format!("whole: {whole}");
    }
    let slices = slices.slices().iter().map(|slice| {
        let text = slice.text(&source);
        let module = read(&text).module;
        let names = module.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable.name.text.to_owned()),
            Item::Function(function) => Some(function.name.text.to_owned()),
            Item::Directive(_) => None,
        });
        names.collect::<Vec<_>>().join(" ")
    });
    slices.collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_slice_has_what_its_kernel_reaches() {
    let found = names(
        ".extern .func (.param .b64 r) malloc(.param .b64 n);
         .func g();
         .const .u32 table[2] = {1, 2};
         .shared .u32 tile[32];
         .extern .shared .u32 dynamic[];
         F(f): call g;
         F(g): st.shared.u32 [tile], 1;
         F(unused): call f;
         K(a): call f;
         K(b): ld.const.u32 %r1, [table];
         K(c): st.shared.u32 [dynamic], 1;
         K(d): bar.sync 0;",
    );
    assert_eq!(found, "g tile f g a | table b | dynamic c | d");
}

#[test]
fn variables_that_are_written_keep_kernels_together() {
    let found = names(
        ".global .u32 counter;
         .global .u32 twice[2];
         .global .u32 alone;
         F(count): atom.global.add.u32 %r1, [counter], 1;
         K(a): call count;
         K(b): ld.global.u32 %r1, [counter];
         K(c): st.global.u32 [twice+4], 1;
         K(d): bar.sync 0;
         K(e): ld.global.u32 %r1, [twice];
         K(f): red.global.add.u32 [alone], 1;",
    );
    assert_eq!(found, "counter count a b | twice c e | d | alone f");
}

#[test]
fn variables_that_are_only_read_are_copied() {
    let found = names(
        ".global .u32 direct[2] = {1, 2};
         .global .u32 indexed[2] = {1, 2};
         .global .align 1 .b8 text[3] = {37, 100, 0};
         .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
         K(a): ld.global.u32 %r1, [direct];
         K(b): ld.global.nc.u32 %r1, [direct+4];
         K(c): mov.u64 %rd1, indexed; cvta.global.u64 %rd2, %rd1; add.s64 %rd3, %rd2, %rd4; ld.u32 %r1, [%rd3];
         K(d): mov.u64 %rd1, indexed; setp.eq.u64 %p1, %rd1, 0; @%p1 ld.global.u32 %r1, [%rd1];
         K(e): mov.u64 %rd1, text; { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %rd1; st.param.b64 [q], 0; call.uni (r), vprintf, (p, q); }
         .func takes(.param .b64 a) { ret; }
         K(f): mov.u64 %rd1, text; { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %rd1; st.param.b64 [q], 0; call.uni (r), vprintf, (p, q); } { .param .b64 p; st.param.b64 [p], %rd5; call takes, (p); }",
    );
    assert_eq!(
        found,
        "direct a | direct b | indexed c | indexed d | text vprintf e | text vprintf takes f"
    );
}

/// Each of the ways by which an address leaves the registers of a function.
#[test]
fn addresses_that_escape_keep_kernels_together() {
    let ways = [
        "st.global.u64 [%rd5], %rd1;",
        "add.s64 %rd2, %rd1, 8; st.global.u32 [%rd2], 1;",
        "cvta.global.u64 %rd2, %rd1; atom.add.u32 %r1, [%rd2], 1;",
        "mov.b64 {%r1, %r2}, %rd1; st.global.u32 [%rd5], %r2;",
        "selp.b64 %rd2, %rd5, %rd1, %p1; st.local.u64 [%rd6], %rd2;",
        "{ .param .b64 p; st.param.b64 [p], %rd1; call takes, (p); }",
        "{ .param .b64 p; .param .b64 r; st.param.b64 [p], %rd1; call (r), malloc, (p); call takes, (p); }",
        "{ .param .b64 p; st.param.b64 [p], %rd1; } { .param .b64 p; st.param.b64 [p], %rd5; call takes, (p); }",
        "exch: mov.b64 %rd3, %rd2; mov.b64 %rd2, %rd1; st.global.u64 [%rd5], %rd3; @%p1 bra exch;",
        "atom.global.exch.b64 %rd2, [%rd5], %rd1;",
        "cp.async.bulk.prefetch.L2.global [%rd1], %r1;",
    ];
    for way in ways {
        let found = names(&format!(
            ".global .u32 x[4] = {{1}};
             .func takes(.param .b64 a);
             .func takes(.param .b64 a) {{ ret; }}
             .extern .func (.param .b64 r) malloc(.param .b64 n);
             K(a): mov.u64 %rd1, x; {way}
             K(b): ld.global.u32 %r1, [x];
             K(c): bar.sync 0;"
        ));
        assert!(
            found.ends_with("a b | c") && !found.contains("| x"),
            "{way}: {found}"
        );
    }
}

#[test]
fn a_result_that_is_an_address_escapes() {
    let found = names(
        ".global .u32 x[4] = {1};
         .func (.param .b64 r) get() { .reg .b64 %rd<2>; mov.u64 %rd1, x; st.param.b64 [r], %rd1; ret; }
         K(a): { .param .b64 q; call (q), get; }
         K(b): ld.global.u32 %r1, [x];
         K(c): bar.sync 0;",
    );
    assert_eq!(found, "x get a b | c");
}

#[test]
fn variables_of_the_host_are_in_one_slice_and_constants_in_each() {
    let source = module(
        ".visible .global .u32 seen;
         .weak .global .u32 weak;
         .global .attribute(.managed) .u32 managed;
         .visible .const .u32 factor[1];
         .visible .const .u32 other[1];
         .visible .global .u32 unused;
         .const .u32 private[1];
         K(a): ld.global.u32 %r1, [seen]; ld.const.u32 %r2, [factor];
         K(b): ld.const.u32 %r2, [factor]; ld.const.u32 %r3, [private];
         K(c): ld.global.u32 %r1, [seen];
         K(d): ld.global.u32 %r1, [weak];
         K(e): ld.global.u32 %r1, [managed];
         K(f): ld.global.u32 %r1, [weak]; ld.global.u32 %r2, [managed];",
    );
    let slices = cut_all(&source);
    let kernels: Vec<_> = slices.slices().iter().map(Slice::kernels).collect();
    assert_eq!(kernels, [&["a", "c"][..], &["b"], &["d", "e", "f"], &[]]);
    assert_eq!(slices.variable("seen"), Some(Placement::Single(0)));
    assert_eq!(slices.variable("weak"), Some(Placement::Single(2)));
    assert_eq!(slices.variable("factor"), Some(Placement::Copies(&[0, 1])));
    assert_eq!(slices.variable("other"), Some(Placement::Copies(&[3])));
    assert_eq!(slices.variable("unused"), Some(Placement::Single(3)));
    assert_eq!(slices.variable("private"), Some(Placement::Copies(&[1])));
    let names: Vec<_> = slices.kernel_names().collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(slices.kernel("f"), Some(2));
    assert_eq!(slices.kernel("g"), None);
}

/// Drivers find private variables too. Since CUDA 13, nvcc makes all variables private.
#[test]
fn variables_whose_address_the_host_has_are_in_one_slice() {
    let source = module(
        ".global .u32 table[4] = {1};
         .const .u32 factor[1];
         .global .u32 $str$1 = 2;
         .global .u32 __cudart_sin_cos_coeffs[4] = {1};
         .global .u32 unused;
         K(a): ld.global.u32 %r1, [table]; ld.global.u32 %r1, [$str$1];
         K(b): ld.global.u32 %r1, [table];
         K(c): ld.const.u32 %r1, [factor]; ld.global.u32 %r1, [$str$1];
         K(d): ld.const.u32 %r1, [factor];
         K(e): ld.global.u32 %r1, [__cudart_sin_cos_coeffs]; ld.global.u32 %r1, [$str$1];
         K(f): ld.global.u32 %r1, [__cudart_sin_cos_coeffs];",
    );
    let reading = read(&source);
    let slices = cut_always_for(&source, &reading.module, HostAccess::Addresses);
    let kernels: Vec<_> = slices.slices().iter().map(Slice::kernels).collect();
    assert_eq!(kernels, [&["a", "b"][..], &["c", "d"], &["e"], &["f"], &[]]);
    assert_eq!(slices.variable("table"), Some(Placement::Single(0)));
    assert_eq!(slices.variable("factor"), Some(Placement::Single(1)));
    assert_eq!(slices.variable("unused"), Some(Placement::Single(4)));
    assert_eq!(slices.variable("$str$1"), None);
    // A host that writes through the loader has a copy in each slice.
    let slices = cut_all(&source);
    assert_eq!(slices.variable("table"), Some(Placement::Copies(&[0, 1])));
    assert_eq!(slices.variable("factor"), Some(Placement::Copies(&[2, 3])));
}

#[test]
fn addresses_of_functions_keep_kernels_together() {
    let found = names(
        "F(f): bar.sync 0;
         F(g): bar.sync 1;
         .global .u64 functions[1] = {f};
         K(a): mov.u64 %rd1, f;
         K(b): p: .callprototype _ (); call %rd1, (), p;
         K(c): t: .calltargets g; call %rd1, (), t;
         K(d): ld.global.u64 %rd1, [functions];
         K(e): call f;
         K(h): call g;",
    );
    assert_eq!(found, "f g functions a b c d | f e | g h");
}

#[test]
fn initializers_that_take_addresses_keep_kernels_together() {
    let found = names(
        ".global .u32 x[2] = {1, 2};
         .const .u64 pointer = generic(x);
         K(a): ld.const.u64 %rd1, [pointer];
         K(b): ld.global.u32 %r1, [x];
         K(c): ld.const.u64 %rd1, [pointer];
         K(d): bar.sync 0;",
    );
    assert_eq!(found, "x pointer a b c | d");
}

#[test]
fn an_alias_comes_with_its_function() {
    let source = module(
        ".func f() { ret; }
         .func g();
         .alias g, f;
         K(a): call g;
         K(b): bar.sync 0;",
    );
    let slices = cut_all(&source);
    let text = slices.slices()[0].text(&source);
    assert!(
        text.contains(".func f() { ret; }\n.func g();\n.alias g, f;\n"),
        "{text}"
    );
    assert!(!slices.slices()[1].text(&source).contains(".alias"));
}

/// A variable of a function lives as long as the module.
#[test]
fn a_static_variable_of_a_function_keeps_kernels_together() {
    let found = names(
        ".func next() { .global .u32 n; .reg .b32 %r1; atom.global.add.u32 %r1, [n], 1; ret; }
         K(a): call next;
         K(b): call next;
         K(c): bar.sync 0;",
    );
    assert_eq!(found, "next a b | c");
}

#[test]
fn modules_that_cannot_be_cut() {
    let kernels = "\nK(a): bar.sync 0;\nK(b): bar.sync 0;";
    let whole = |lines: &str| {
        let source = module(&format!("{lines}{kernels}"));
        let module = read(&source).module;
        let slices = cut_within(&source, &module, &ANY);
        assert_eq!(
            slices.slices().len(),
            1 + usize::from(slices.whole().is_none())
        );
        if slices.whole().is_some() {
            assert_eq!(slices.slices()[0].text(&source), source);
            assert_eq!(slices.slices()[0].original_line(&source, 7), Some(7));
        }
        slices.whole().cloned()
    };
    assert_eq!(whole(""), None);
    let named = |name: &str| name.to_owned();
    assert_eq!(
        whole(".global .texref image;"),
        Some(Whole::References(named("image")))
    );
    assert_eq!(
        whole(".visible .entry t(.param .surfref s) { ret; }"),
        Some(Whole::References(named("s")))
    );
    assert_eq!(
        whole(".extern .func f();\nK(x): call f;"),
        Some(Whole::Unresolved(named("f")))
    );
    assert_eq!(
        whole(".extern .global .u32 x;\nK(x1): ld.global.u32 %r1, [x];"),
        Some(Whole::Unresolved(named("x")))
    );
    // Nothing calls it.
    assert_eq!(whole(".extern .func f();"), None);
    assert_eq!(
        whole("K(child): bar.sync 0;\nK(x): mov.u64 %rd1, child;"),
        Some(Whole::DeviceLaunch(named("child")))
    );
    assert_eq!(whole(".section .debug_info { .b8 1 }"), Some(Whole::Debug));
    assert_eq!(whole("K(x): nonsense;"), Some(Whole::Broken));
    assert_eq!(whole(".reg .b32 r;"), Some(Whole::ModuleRegisters));
}

#[test]
fn small_modules_stay_whole() {
    let source = module("K(a): bar.sync 0;\nK(b): bar.sync 0;");
    let module = read(&source).module;
    let whole = |limits: Limits| cut_within(&source, &module, &limits).whole().cloned();
    assert_eq!(
        whole(Limits { kernels: 3, ..ANY }),
        Some(Whole::FewKernels(2))
    );
    assert_eq!(whole(Limits { text: 1000, ..ANY }), Some(Whole::Small));
    assert_eq!(whole(Limits { slice: 40, ..ANY }), Some(Whole::OneSlice));
    assert_eq!(whole(Limits { steps: 1, ..ANY }), Some(Whole::Entangled));
    assert_eq!(whole(ANY), None);
}

/// What costs most is shared first.
#[test]
fn copies_have_a_limit() {
    let source = module(
        ".global .align 4 .b8 large[100000];
         .global .align 4 .b8 small[50000];
         K(a): ld.global.u32 %r1, [large];
         K(b): ld.global.u32 %r1, [large]; ld.global.u32 %r1, [small];
         K(c): ld.global.u32 %r1, [small];",
    );
    let module = read(&source).module;
    let kernels = |copies: u64| {
        let slices = cut_within(&source, &module, &Limits { copies, ..ANY });
        let kernels = slices
            .slices()
            .iter()
            .map(|slice| slice.kernels().join(" "));
        kernels.collect::<Vec<_>>().join(" | ")
    };
    // Up to 131,071 and 65,535 bytes.
    assert_eq!(kernels(196_606), "a | b | c");
    assert_eq!(kernels(196_605), "a b | c");
    assert_eq!(kernels(65_535), "a b | c");
    assert_eq!(kernels(65_534), "a b c");
}

/// Above the limit, too, a new kernel leaves most others as they are grouped.
#[test]
fn copies_above_the_limit_are_chosen_alike() {
    const TABLES: [&str; 2] = ["even", "odd"];
    let mut lines = TABLES
        .map(|table| format!(".global .align 4 .b8 {table}[1000];\n"))
        .concat();
    // Which tables are copied.
    let mut before = Vec::new();
    let mut changes = 0;
    for count in 0..80 {
        let table = TABLES[count % 2];
        lines += &format!("K(k{count}): ld.global.u32 %r1, [{table}];\n");
        let source = module(&lines);
        let limits = Limits {
            copies: 20_000,
            ..ANY
        };
        let slices = cut_within(&source, &read(&source).module, &limits);
        let is_alone = |kernel: &str| {
            let slice = slices.kernel(kernel).unwrap();
            slices.slices()[slice].kernels().len() == 1
        };
        let now = vec![is_alone("k0"), count == 0 || is_alone("k1")];
        changes += usize::from(count > 0 && now != before);
        before = now;
    }
    assert_eq!(before, [false, false]);
    // The costlier of the two alone would be another one with each kernel.
    assert!(changes <= 6, "{changes}");
}

#[test]
fn the_text_of_a_slice() {
    let source = "// made by a compiler\n.version 8.3\n.target sm_90,\n  texmode_independent\n\
        .address_size 64\n\n.pragma \"nounroll\";\n\
        .global .align 1 .b8 $str[2] = {65, 0}; .global .align 1 .b8 $str$1[2] = {66, 0};\n\
        .visible .const .u32 one = 1, two = 2, three;\n\
        .visible .entry other() { ret; }\n\
        .visible .entry k(\n  .param .u64 k_param_0 /* where\n to */\n)\n.maxntid 32\n{\n\
        \t.local .b8 __local_depot7[8];\n\t.reg .b64 \t%rd<3>; // two\n\n\
        $L__BB7_1: // loop\n\tmov.u64 %rd1, $str$1;\n\t.pragma \"nounroll\";\n\
        \tld.const.u32 %rd2, [two];\n\tbra.uni $L__BB7_1;\n}\n";
    let slices = cut_all(source);
    let slice = &slices.slices()[slices.kernel("k").unwrap()];
    let text = slice.text(source);
    assert_eq!(
        text,
        ".version 8.3\n.target sm_90, texmode_independent\n.address_size 64\n\
         .pragma \"nounroll\";\n\
         .global .align 1 .b8 $str0[2] = {66, 0};\n\
         .visible .const .u32 two = 2;\n\
         .visible .entry k(\n.param .u64 k_param_0\n)\n.maxntid 32\n{\n\
         .local .b8 __local_depot0[8];\n.reg .b64 %rd<3>;\n\
         $L__BB0_1:\nmov.u64 %rd1, $str0;\n.pragma \"nounroll\";\n\
         ld.const.u32 %rd2, [two];\nbra.uni $L__BB0_1;\n}\n"
    );
    // Each line with the one it is from.
    for (index, line) in text.lines().enumerate() {
        let original = slice.original_line(source, index as u32 + 1).unwrap();
        let original = source.lines().nth(original as usize - 1).unwrap();
        let word = |line: &str| {
            line.trim()
                .split([' ', '\t', '$'])
                .next()
                .map(str::to_owned)
        };
        if !line.starts_with(".visible .const") {
            assert_eq!(word(line), word(original), "{line}");
        }
    }
    let end = text.lines().count() as u32;
    assert_eq!(slice.original_line(source, end + 1), None);
    assert_eq!(slice.original_line(source, 0), None);
}

#[test]
fn lines_of_the_source_keep_their_files_and_functions() {
    let source = ".version 8.3\n.target sm_90\n.address_size 64\n\
        .visible .entry a() {\n.loc 1 5 2\nret;\n}\n\
        .visible .entry b() {\n.loc 3 20 5\n.loc 2 8 5, function_name $L__info_string4, inlined_at 3 20 5\nret;\n}\n\
        .file 1 \"a.cu\"\n.file 2 \"b.h\", 12, 34\n.file 3 \"b.cu\"\n\
        .section .debug_str\n{\n$L__info_string3:\n.b8 65,0\n$L__info_string4:\n.b8 66\n.b8 67,0\n}\n";
    let slices = cut_all(source);
    let texts: Vec<_> = slices
        .slices()
        .iter()
        .map(|slice| slice.text(source))
        .collect();
    assert_eq!(
        texts[0],
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry a() {\n.loc 1 5 2\nret;\n}\n\
         .file 1 \"a.cu\"\n"
    );
    assert_eq!(
        texts[1],
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry b() {\n.loc 1 20 5\n\
         .loc 2 8 5, function_name $L__info_string0, inlined_at 1 20 5\nret;\n}\n\
         .section .debug_str\n{\n$L__info_string0:\n.b8 66\n.b8 67,0\n}\n\
         .file 1 \"b.cu\"\n.file 2 \"b.h\", 12, 34\n"
    );
}

/// What the host or a range of registers names keeps its number, and so do all names of
/// its shape in the slice.
#[test]
fn names_that_others_know_are_not_numbered_anew() {
    let source = module(
        ".visible .global .u32 __unnamed_5;
         .global .u32 __unnamed_7 = 1;
         K(BB4): BB3_1: bra BB3_1;
         K(b): ld.global.u32 %r1, [__unnamed_5]; ld.global.u32 %r1, [__unnamed_7];
         K(c): ld.global.u32 %r1, [__unnamed_7];
         K(d): .reg .b32 BB<9>; mov.u32 BB7, 1; LBB7: bra LBB7;",
    );
    let slices = cut_all(&source);
    let has = |kernel: &str, text: &str| {
        let slice = &slices.slices()[slices.kernel(kernel).unwrap()];
        slice.text(&source).contains(text)
    };
    assert!(has("BB4", "bra BB3_1;"));
    assert!(has("b", "[__unnamed_5]") && has("b", "[__unnamed_7]"));
    assert!(has("c", "[__unnamed_0]"));
    assert!(has("d", "mov.u32 BB7, 1;") && has("d", "bra LBB0;"));
}
