//! The fast path gives the same result as the parsers of tokens.

use crate::parse::read;
use crate::{CheckOptions, check, is_surely_valid};

/// The same text with a blank that the fast path does not support after the first words of
/// statements.
fn with_form_feeds(text: &str) -> String {
    let text = text.replace(".b8 ", ".b8\u{c}");
    let text = text.replace(".loc\t", ".loc\u{c}");
    text.replace("\n//", "\u{c}//")
}

#[test]
fn places_and_data_are_read_as_anything_else() {
    let ends = [
        "\n", ",\n", "\n,", "\n.", "U\n", " \n", "\n}", "\n//\n", ";\n", "\n$",
    ];
    for place in [
        "1 2 3",
        "1 2",
        "1 2 3 4",
        "1 4294967296 0",
        "1 010 0",
        "1 2\n3",
        "1 2-3",
    ] {
        for end in ends {
            for next in [
                "",
                "ret;",
                ".loc\t1 2 3\n",
                ", function_name $L, inlined_at 1 2 3\n",
            ] {
                let text = format!(".entry k() {{\n\t.loc\t{place}{end}{next}\n}}\n// the end\n");
                assert_eq!(read(&text), read(&with_form_feeds(&text)), "{text}");
            }
        }
    }
    for label in [
        "$L",
        "$",
        "$L_1$2",
        "$L.",
        "L",
        "_",
        "_L",
        "Lx",
        "$function_name",
    ] {
        for next in [
            "ret;",
            ".reg .b32 %r;",
            ".calltargets f;",
            ".callprototype _ ();",
            "// a comment\nret;",
            "// a comment\n.branchtargets $L;",
            "{ ret; }",
            ".branchtargets $L;",
            ".loc\t1 2 3\n",
            "}",
            "\"",
            "$M:\nret;",
            "",
        ] {
            let text = format!(".entry k() {{\n{label}:\n\n{next}\n}}\n// the end\n");
            let slow = text.replace(":\n\n", ":\u{c}\n");
            assert_eq!(read(&text), read(&slow), "{text}");
        }
    }
    for place in [
        "1",
        "4294967296",
        "-1",
        "1,2",
        "a",
        "$L_1",
        "a+1",
        "a-b",
        ".debug_x",
        "07",
    ] {
        for end in ends {
            for (width, next) in [
                (".b32 ", ""),
                (".b64 ", ".b64 7\n"),
                (".b16 ", "a: .b8 1\n"),
            ] {
                let text =
                    format!(".section .debug_x {{\n{width}{place}{end}{next}}}\n// the end\n");
                let (fast, slow) = (read(&text), text.replace(".b64 ", ".b64\u{c}"));
                let slow = slow.replace(".b32 ", ".b32\u{c}");
                let slow = read(&slow);
                assert_eq!(fast.diagnostics, slow.diagnostics, "{text}");
                assert_eq!(fast.module.items.len(), slow.module.items.len());
            }
        }
    }
    for data in [
        "1", "255", "256", "-1", "1,2, 3", "1,,2", "1,", "012", "0x1", "a", "1+1", "1.5",
    ] {
        for end in ends {
            for next in ["", ".b8 7\n", ".b32 a+1\n", "a: .b8 1\n"] {
                let text = format!(".section .debug_x {{\n.b8 {data}{end}{next}}}\n// the end\n");
                let (fast, slow) = (read(&text), with_form_feeds(&text));
                let slow = read(&slow);
                assert_eq!(fast.diagnostics, slow.diagnostics, "{text}");
                assert_eq!(fast.module.items.len(), slow.module.items.len());
            }
        }
    }
}

#[test]
fn the_fast_path_agrees_with_the_parsers_of_tokens() {
    let operands = [
        "",
        "%r1",
        "%r1, %r2",
        "%r1,%r2,%r3",
        "%rd1, [%rd2]",
        "%rd1, [%rd2+8]",
        "%rd1, [%rd2+-8]",
        "%rd1, [%rd2+-0]",
        "%r1, [k_param_0]",
        "%r1, [_]",
        "%r1, [x+010]",
        "%r1, [WARP_SZ]",
        "%r1, [%tid]",
        "[%rd1], {%f1, %f2, %f3,%f4}",
        "{%f1, %f2}, [%rd1+16], {%r1,%r2}, {1, -1}",
        "{{%f1, %f2}, %f3}, %r1",
        "[%rd1].unified, %r1",
        "[%rd1] .unified, %r1",
        "%r1, 0",
        "%r1, 00",
        "%r1, 07",
        "%r1, 09",
        "%r1, -1",
        "%r1, - 1",
        "%r1, -0",
        "%r1, 0x1F",
        "%r1, 12345678",
        "%r1, 123456789",
        "%r1, 123456789012345",
        "%r1, 1234567890123456",
        "%r1, 18446744073709551615",
        "%r1, 18446744073709551616",
        "%r1, 99999999999999999999",
        "%r1, 10U",
        "%r1, 1+2",
        "%r1, 1f",
        "%r1, 0f3F800000",
        "%r1, 0F3f800000",
        "%r1, 0f3F80000",
        "%r1, 0f3F8000000",
        "%r1, 0f+F800000",
        "%r1, -0f3F800000",
        "%r1, 0d3FF0000000000000",
        "%r1, 0d3FF000000000000",
        "%r1, 1.5",
        "%r1, %tid.x",
        "%r1, %laneid",
        "%r1, %retval",
        "%r1, %r2.b0",
        "%r1, %v2.x",
        "%r1, !%p1",
        "%r1, -%r2",
        "%r1, _",
        "_, %r1",
        "%p1|%p2, %r1",
        "%p1|_, %r1",
        "_|%p1, %r1",
        "a|p, %r1",
        "%r1, %p1|%p2|%p3",
        "%r1, %p1||%p2",
        "%r1, %p1|",
        "%r1, {%r2, %r3}, %r4|%p1, %r5|%p2",
        "%r1|{%r2, %r3}, %r2",
        "%r1|[%r2], %r2",
        "%r1|%tid.x, %r2",
        "%r1|-5, %r2",
        "%r1 | %p1, %r2",
        "%r1, 0xffffffff",
        "%r1, -0x10",
        "%r1, 0x",
        "%r1, 0x1g",
        "%r1, 0x1U",
        "%r1, -0x1U",
        "%r1, 0x1UU",
        "%r1, 0x1U0",
        "[%r1+0x1U], %r2",
        "%r1, 0x7FFFFFFFFFFFFFF",
        "%r1, 0xFFFFFFFFFFFFFFFF",
        "%r1, 0x+1",
        "%r1, 1x2",
        "%r1, 123456789012345678",
        "%r1, 1234567890123456789",
        "%r1, -9223372036854775808",
        "%r1, %lanemask_le",
        "%r1, %tid . x",
        "%r1, %tid.xy",
        "%r1, %tid.",
        "%r1, %tid.x.y",
        "%r1, %ntid.z, %nctaid.y",
        "%r1, %envreg31",
        "{%tid.x, %tid.y}, %r1",
        "%r1, %long_name.x",
        "%r1, %long_name.b0",
        "%r1, x+4",
        "%r1, x[4]",
        "%r1, WARP_SZ",
        "%r1, WARP_SZ1",
        "%r1, $",
        "%r1, $L__BB0_2",
        "$L__BB0_2",
        "_a",
        "a",
        "%",
        "%r1 , %r2",
        "%r1,  %r2",
        "%r1, %r2 ",
        "%r1, /* no */ %r2",
        "%r1,, %r2",
        "%r1 %r2",
        "%register_with_a_long_name, %r12345678, %r1_2, %r$",
        "%r1234567, %r123456",
        "\u{e4}, %r1",
        "%r\u{e4}, %r1",
        "%r1\u{e4}, %r1",
        "{}",
        "{%r1",
        "[%rd1",
        "(%r1), f, (%r2)",
    ];
    let long = "%r1, ".repeat(5000) + "%r1";
    let vector = format!("{{{}%r1}}, %r2", "%r1,".repeat(100));
    let operands = operands.iter().copied().chain([long.as_str(), &vector]);
    for operands in operands {
        for head in [
            "mov.b32",
            "@%p1 mov.b32",
            "@!%p1 mov.b32",
            "call",
            "wrong",
            "mov.wrong",
            "@p mov.b32",
            "@!p mov.b32",
            "@_ mov.b32",
            "@p.x mov.b32",
            "@inlined_at mov.b32",
            "@%long_name mov.b32",
            "ret;",
            "mov.b32; mov.b32",
            "@p ret; mov.b32",
        ] {
            for end in [";", "\nret;", "}"] {
                // The fast path does not support a form feed as a blank.
                let text = |blank| {
                    format!(
                        ".entry k() {{\nmov.b32 %r1, %r2;\n\t{head}{blank}{operands}{end}\n\
                         \tmov.b32\t%r1, %r2;\n}} // the end\n"
                    )
                };
                let (fast, slow) = (text(' '), text('\u{c}'));
                assert_eq!(read(&fast), read(&slow), "{fast}");
            }
        }
    }
}

#[test]
fn declarations_are_read_as_anything_else() {
    for head in [
        ".reg .b32",
        ".reg .pred",
        ".param .b64",
        ".param .align 8 .b8",
        ".shared .align 010 .b8",
        ".local .align 4 .b8",
        ".reg .v2 .b32",
        ".reg",
        ".b32",
        ".reg .b33",
        ".reg .b32 .b32",
        ".global .align 4294967296 .b8",
        ".param .align 8U .b8",
        ".reg .reg .b32",
    ] {
        for names in [
            "",
            "%r",
            "%temp",
            "%",
            "%r<9>",
            "%r<2147483648>",
            "%r<2147483649>",
            "%r<07>",
            "%r <9>",
            "%r<9",
            "r<9>",
            "a",
            "a, b",
            "a,b<3>,%c",
            "a,, b",
            "a[16]",
            "a[4][2]",
            "a[]",
            "a[4",
            "a=4",
            "a [4]",
            "_",
            "WARP_SZ",
            "inlined_at",
            "$a",
            "$",
            "a.x",
            "%a$b_c",
            "%r1, %r2, ",
            "%\u{e4}",
            "a\u{e4}",
        ] {
            for end in [";", " ;", "", "\nret;"] {
                let text = |blank| {
                    format!(
                        ".entry k() {{\n\tret;\n\t{head}{blank}{names}{end}\nret; }}\n// the end\n"
                    )
                };
                let (fast, slow) = (text(' '), text('\u{c}'));
                assert_eq!(read(&fast), read(&slow), "{fast}");
            }
        }
    }
}

#[test]
fn calls_are_read_as_anything_else() {
    let lines = [
        "call.uni f;",
        "call.uni (retval0), \nf, \n(\nparam0, \nparam1\n);",
        "call f, ();",
        "call (), f;",
        "call (%r1), f, (%r2, 3, %tid), $L;",
        "call (a b), f;",
        "call f, (a;",
        "call f, (a)",
        "call (a), (b);",
        "call %rd1, (_), p;",
        "call (a.x), f;",
        "call f, ({a, b});",
        "call f,\n;",
        "call f, (a|b);",
        "call f\n(a);",
        "call (a,), f;",
        "call (0f3F800000), f, (1.5);",
        "call f, (a+4);",
        "call [f];",
        "call {f};",
        "call f, // it\n(a);",
    ];
    for line in lines {
        for before in ["", "@%p1 ", "{\n", "}\n", "{ // begin\n"] {
            let text = |blank: &str| {
                let line = line.replacen(' ', blank, 1);
                format!(
                    ".entry k() {{\ncall f;\ncall.uni f; {before}{line}\n\
                     {{ mov.b32 %r1, %r2; }}\n}}\nret; }}\n// the end\n"
                )
            };
            let (fast, slow) = (text(" "), text("\u{c}"));
            assert_eq!(read(&fast), read(&slow), "{fast}");
        }
    }
}

#[test]
fn comments_are_read_as_anything_else() {
    for comment in [
        "// it\n",
        "//\n",
        "//",
        "/",
        "/ /\n",
        "// \u{e4} \0 // }\n",
        "// it\n// again\n",
        "/* // */",
        "/*\n*/",
        "///* \n",
    ] {
        for next in ["ret;", "}", ".loc 1 2 3\n", "$L:", ".reg .b32 a;", "{ }"] {
            let text = |blank| {
                format!(".entry k() {{\nret;\n\t{blank}{comment}{next}\nret; }}\n// the end\n")
            };
            // Comments replace nothing.
            let (fast, slow) = (text(' '), text('\u{c}'));
            assert_eq!(read(&fast), read(&slow), "{fast}");
        }
    }
}

#[test]
fn lists_of_numbers_are_read_as_anything_else() {
    for list in [
        "1, 2,3",
        "-1, 0",
        "- 1, 0",
        "0xFF, 0X1f",
        "010, 8",
        "09",
        "1U, 2",
        "1.5, 2",
        "0f3F800000, 0d3FF0000000000000",
        "0f3F80000, 1",
        "1 , 2",
        "1,\n\t2\n",
        "{1, 2}, {3, 4}",
        "1, {2}",
        "1, name",
        "1,",
        "",
        "1+1, 2",
        "1;2",
        "1 2",
        "99999999999999999999",
        "9223372036854775807, 18446744073709551615",
        "0xFFFFFFFFFFFFFFFF",
        "1, // one\n2",
    ] {
        let text = format!(".global .b32 x[] = {{{list}}};\n.global .b32 y = 1;\n");
        // A comment is none of the usual blanks.
        let (blanks, comments) = (text.replace('{', "{    "), text.replace('{', "{/**/"));
        assert_eq!(read(&blanks), read(&comments), "{text}");
    }
}

/// Whether a text is right, and that a check that passes over instructions and tables says so.
fn is_right(source: &str) -> bool {
    let reading = read(source);
    let right = reading.diagnostics.is_empty() && check(&reading.module, source).is_empty();
    let surely = is_surely_valid(source, &CheckOptions::default());
    assert!(right || !surely, "{source}");
    surely
}

/// Of two instructions alike, the second one is passed over. These differ in what matters.
#[test]
fn instructions_like_others_are_right_only_if_they_are() {
    let declarations = ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n\
        .reg .b32 t, %laneid_;\n";
    let known = "add.s32 %r1, %r2, %r3; mov.b64 %rd1, {%r1, %r2}; mov.b64 {%r1, %r2}, %rd1;\n\
        ld.global.b32 %r1, [%rd1]; ld.param.b32 %r1, [f_param_0]; mov.f32 %f1, 0f00000000;\n\
        shl.b32 %r1, %r2, 3; mov.u32 %r1, %tid.x; mov.b32 %r1, %r2;\n";
    let source = |body: &str| {
        format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n\
             .entry f(.param .b32 f_param_0)\n{{\n{declarations}{known}ret;\n}}\n\
             .entry k(.param .b32 k_param_0, .param .b64 k_param_1)\n\
             {{\n{declarations}add.s32 %r1, %r2, %r3;\n{body}ret;\n}}\n"
        )
    };
    for (right, body) in [
        (true, ""),
        (true, "add.s32 %r1, %r2, %r8;"),
        (false, "add.s32 %r1, %r2, %r9;"),
        (true, "add.s32 %r1, %r2, %r08;"),
        (false, "add.s32 %r1, %r2, %f3;"),
        (false, "add.s32 %r1, %r2, %rd3;"),
        (false, "add.s32 %r1, %r2, %r3"),
        (false, "add.s32 %r1, %r2, %r3, %r4;"),
        (false, "add.s32 %r1, %r2, %r3 %r4;"),
        (false, "add.s32 %r1, %r2, %r3_;"),
        (false, "add.s32 %r1, %r2, %r3a;"),
        (false, "add.s32 %r1, %r2, %r3$;"),
        (false, "add.s32 %r1, %r2, %;"),
        (false, "add.s32 %r1, %r2, ,%r3;"),
        (true, "@%p1 add.s32 %r1, %r2, %r3;"),
        (false, "@%r1 add.s32 %r1, %r2, %r3;"),
        (false, "@%p3 add.s32 %r1, %r2, %r3;"),
        (true, "add.s32 %r1, %r2, t;"),
        (false, "add.s32 %r1, %r2, u;"),
        // Numbers.
        (true, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, -123;"),
        (true, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 0xFF;"),
        (true, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 0xFFU;"),
        (false, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 08;"),
        (
            true,
            "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 9223372036854775807;",
        ),
        (
            false,
            "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 99999999999999999999;",
        ),
        (false, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 5a;"),
        (false, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 0f00000000;"),
        (false, "add.s32 %r1, %r2, 5; add.s32 %r1, %r2, 1.5;"),
        (true, "mov.f32 %f1, 0f3F800000; mov.f32 %f1, 0f00000000;"),
        (false, "mov.f32 %f1, 0f3F800000; mov.f32 %f1, 0f0000000;"),
        // Lists.
        (true, "mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd1, {%r3,%r4};"),
        (true, "mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd1, {%r3, %f4};"),
        (
            false,
            "mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd1, {%r3, %rd4};",
        ),
        (
            false,
            "mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd1, {%r3, %r4, %r5};",
        ),
        (false, "mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd1, {%r3, %r4;"),
        // Addresses.
        (
            true,
            "ld.global.b32 %r1, [%rd1]; ld.global.b32 %r1, [%rd2];",
        ),
        (
            true,
            "ld.global.b32 %r1, [%rd1+4]; ld.global.b32 %r1, [%rd2+-8];",
        ),
        (
            false,
            "ld.global.b32 %r1, [%rd1+4]; ld.global.b32 %r1, [%rd2+08];",
        ),
        (
            false,
            "ld.global.b32 %r1, [%rd1]; ld.global.b32 %r1, [%f1];",
        ),
        (false, "ld.global.b32 %r1, [%rd1]; ld.global.b32 %r1, %rd1;"),
        (false, "ld.global.b32 %r1, [%rd1]; ld.global.b32 %r1, [];"),
        // Parameters.
        (
            true,
            "ld.param.b32 %r1, [k_param_0]; ld.param.b32 %r1, [k_param_1+4];",
        ),
        (
            false,
            "ld.param.b32 %r1, [k_param_0]; ld.param.b32 %r1, [k_param_2];",
        ),
        (
            false,
            "ld.param.b32 %r1, [k_param_0]; ld.param.b32 %r1, [f_param_0];",
        ),
        (
            false,
            "ld.param.b32 %r1, [k_param_0]; ld.param.b32 %r1, [];",
        ),
        (
            false,
            "{ .shared .b32 k_param_0; ld.param.b32 %r1, [k_param_0]; }",
        ),
        // Names that hide others.
        (false, "{ .reg .f32 %r<9>; add.s32 %r1, %r2, %r3; }"),
        (false, "{ .reg .f32 %r3; add.s32 %r1, %r2, %r3; }"),
        (true, "{ .reg .f32 %r<9>; } add.s32 %r1, %r2, %r3;"),
        (
            true,
            "{ .reg .b32 u; add.s32 %r1, %r2, u; } { .reg .b32 u; add.s32 %r1, %r2, u; }",
        ),
        (
            false,
            "{ .reg .b32 u; add.s32 %r1, %r2, u; } add.s32 %r1, %r2, u;",
        ),
        (false, "{ .shared .b32 t; add.s32 %r1, %r2, t; }"),
        (false, "{ .shared .b32 %r3; add.s32 %r1, %r2, %r3; }"),
        (false, "{ add.s32 %r1, %r2, t; t: mov.b32 %r1, %r2; }"),
        (false, ".reg .b32 %laneid; add.s32 %r1, %r2, %laneid;"),
        (false, ".reg .b32 %pm<3>; add.s32 %r1, %r2, %pm1;"),
        // Operands whose value matters, and instructions that are not known by their key.
        (false, "shl.b32 %r1, %r2, 3; bar.sync 1; bar.sync 99;"),
        (false, "call f; call g;"),
    ] {
        assert_eq!(is_right(&source(body)), right, "{body}");
    }
}

#[test]
fn tables_that_are_passed_over_fit_their_arrays() {
    for (right, table) in [
        (true, ".b8 x[3] = {1, 2, 3}"),
        (true, ".b8 x[3] = {1,\n2,-3}"),
        (true, ".b64 x[3] = {9223372036854775807, 0xFF, 12345678}"),
        (true, ".b8 x[4] = {1, 2, 3}"),
        (true, ".b8 x[] = {1, 2, 3}"),
        (true, ".b8 x[2][2] = {{1, 2}, {3, 4}}"),
        (true, ".f32 x[1] = {0f3F800000}"),
        (true, ".b8 x[9] = {1, 20, 3,4, 0, 255, 7, 8, 9}"),
        (false, ".b8 x[8] = {1, 20, 3,4, 0, 255, 7, 8, 9}"),
        (false, ".b8 x[9] = {1, 20, 3,4, 0, 255, 7, 08, 9}"),
        (false, ".b8 x[2] = {1, 2, 3}"),
        (false, ".b8 x[3] = {1, 2, 08}"),
        (false, ".b8 x[3] = {1, 2, 3a}"),
        (false, ".b8 x[3] = {1, 2, 3"),
        (false, ".b8 x[3] = {1, 2,}"),
        (false, ".b8 x[3] = {1 2}"),
        (false, ".f32 x[3] = {1, 2, 3}"),
        (false, ".f16 x[3] = {1, 2, 3}"),
        (false, ".v2 .b8 x[3] = {1, 2, 3}"),
        (false, ".b8 x = {1, 2, 3}"),
        (false, ".b8 x[2][2] = {1, 2, 3}"),
    ] {
        let source = format!(".version 8.0\n.target sm_90\n.address_size 64\n.global {table};\n");
        assert_eq!(is_right(&source), right, "{source}");
    }
    let source = ".version 8.0\n.target sm_90\n.extern .global .b8 x[3] = {1, 2, 3};\n";
    assert!(!is_right(source));
}
