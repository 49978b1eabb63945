//! Everything of a module that is not an instruction, as ptxas 13.5 answers: what
//! it takes has no finding, what it rejects has one of this code.

use ptxkit_ptx::{CheckOptions, Level, check_with, diagnostic::Code, read};

/// The first finding of a module.
fn first(source: &str, level: Level) -> Option<Code> {
    let reading = read(source);
    let options = CheckOptions {
        level,
        ..CheckOptions::default()
    };
    let found = check_with(&reading.module, source, &options);
    let mut all: Vec<_> = reading.diagnostics.iter().chain(&found).collect();
    all.sort_by_key(|diagnostic| diagnostic.span.start);
    all.first().map(|diagnostic| diagnostic.code)
}

/// Each line is judged alone, after the head of a module.
fn judged(head: &str, level: Level, rows: &[(&str, Option<Code>)]) {
    for (text, expected) in rows {
        assert_eq!(
            first(&format!("{head}{text}\n"), level),
            *expected,
            "{text}"
        );
    }
}

const HEAD: &str = ".version 9.5\n.target sm_90\n.address_size 64\n";

#[test]
fn heads() {
    judged(
        "",
        Level::Language,
        &[
            (".version 9.5\n.target sm_90", None),
            (".version 9.5\n.target sm_90, sm_80\n.target sm_70", None),
            (".version 9.5\n.target compute_90, texmode_unified", None),
            (".version 3.5\n.target sm_30", Some(Code::UnknownVersion)),
            (".version 9.6\n.target sm_90", Some(Code::UnknownVersion)),
            (".version 9\n.target sm_90", Some(Code::Syntax)),
            (".target sm_90", Some(Code::MissingVersion)),
            (".version 9.5", Some(Code::MissingTarget)),
            (
                ".version 9.5\n.target debug, sm_90",
                Some(Code::UnknownTarget),
            ),
            (
                ".version 9.5\n.target sm_90, debug",
                Some(Code::UnknownTarget),
            ),
            (".version 9.5\n.target sm_90, debug\n.section .d {}", None),
            (
                ".version 9.5\n.target sm_13, map_f64_to_f32",
                Some(Code::UnknownTarget),
            ),
            (".version 9.5\n.target sm_12, map_f64_to_f32", None),
            (
                ".version 9.5\n.target sm_80\n.address_size 16",
                Some(Code::Range),
            ),
            (
                ".version 9.5\n.target sm_80\n.global .u32 a;\n.target sm_80",
                Some(Code::Syntax),
            ),
            (
                ".version 7.7\n.target sm_90\n.entry k { ret; }",
                Some(Code::VersionFloor),
            ),
            (".version 7.7\n.target sm_90", None),
        ],
    );
}

#[test]
fn variables() {
    judged(
        HEAD,
        Level::Language,
        &[
            (
                ".align 8 .global .align 4 .v2 .u32 a[2][3], b = {1, 2};",
                None,
            ),
            (".global .u32;", None),
            (".global .u32 .align 4 a;", Some(Code::Syntax)),
            (".global .v8 .u32 a;", Some(Code::Syntax)),
            (".global .v4 .f64 a;", Some(Code::Range)),
            (".global .shared .u32 a;", Some(Code::UnknownDirective)),
            (".u32 a;", Some(Code::UnknownDirective)),
            (".global .align 3 .u32 a;", Some(Code::Range)),
            (".global .pred a;", Some(Code::OperandType)),
            (".global .bf16 a;", Some(Code::OperandType)),
            (".global .e4m3 a;", Some(Code::OperandType)),
            (".global .e4m3 a[2];", None),
            (".global .samplerref a;", Some(Code::StateSpace)),
            (".shared .texref a;", Some(Code::StateSpace)),
            (".reg .u32 a;", Some(Code::StateSpace)),
            (".global .u32 a[];", Some(Code::Range)),
            (".global .u32 a[0];", Some(Code::Range)),
            (".extern .shared .u32 a[];", None),
            (".extern .global .u32 a[2][];", Some(Code::Syntax)),
            (".common .shared .u32 a;", Some(Code::StateSpace)),
            (
                ".visible .weak .global .u32 a;",
                Some(Code::UnknownDirective),
            ),
            (".global .attribute(.managed) .u32 a;", None),
            (
                ".shared .attribute(.managed) .u32 a;",
                Some(Code::UnknownDirective),
            ),
            (".entry k() { .reg .u32 %r<3>, %r3, %s<2>; ret; }", None),
            (
                ".entry k() { .reg .u32 %r<3>, %r2; ret; }",
                Some(Code::Duplicate),
            ),
            (
                ".entry k() { .reg .u32 a[3]; ret; }",
                Some(Code::StateSpace),
            ),
            (
                ".entry k() { .weak .global .u32 a; ret; }",
                Some(Code::UnknownDirective),
            ),
            (".entry k() { .align 4 .local .u32 a; ret; }", None),
        ],
    );
}

#[test]
fn initial_values() {
    let head = format!("{HEAD}.global .u32 g; .shared .u32 s; .func f() {{ ret; }}\n");
    judged(
        &head,
        Level::Language,
        &[
            (".global .u8 a = 256;", None),
            (".global .u32 a[3] = {g, f, -1};", None),
            (".global .u64 a = generic(g)+4*2;", None),
            (".global .u64 a = g-4;", Some(Code::Semicolon)),
            (".global .u8 a = 0xFF00(generic(g)+4);", None),
            (".global .u8 a = 0xF0(g);", Some(Code::Range)),
            (".global .b64 a = g;", Some(Code::OperandType)),
            (".global .u32 a = 1.0;", Some(Code::OperandType)),
            (".global .f32 a = 1;", Some(Code::OperandType)),
            (".global .b32 a = 1.0;", None),
            (".global .f16 a = 1;", Some(Code::OperandType)),
            (".global .u32 a[2] = {1, 2, 3};", Some(Code::Range)),
            (".global .u32 a[2][2] = {1, 2};", Some(Code::OperandType)),
            (".global .v2 .u32 a = {1};", Some(Code::Range)),
            (".global .u64 a = s;", Some(Code::StateSpace)),
            (".global .u64 a = f+4;", Some(Code::OperandType)),
            (".global .u64 a = later;", Some(Code::Undeclared)),
            (".global .u64 a = a;", None),
            (".shared .u32 a = 1;", Some(Code::StateSpace)),
            (".extern .global .u32 a = 1;", Some(Code::UnknownDirective)),
            (
                ".global .texref t = {filter_mode = linear, width = 3};",
                None,
            ),
            (
                ".global .surfref t = {filter_mode = linear};",
                Some(Code::Undeclared),
            ),
            (
                ".global .texref t = {addr_mode_0 = cubic};",
                Some(Code::Undeclared),
            ),
        ],
    );
}

#[test]
fn declarations_of_one_name() {
    judged(
        HEAD,
        Level::Language,
        &[
            (
                ".extern .global .u32 a[]; .visible .global .u32 a[4];",
                None,
            ),
            (
                ".extern .global .u32 a; .global .u32 a;",
                Some(Code::Duplicate),
            ),
            (
                ".extern .global .u32 a; .weak .global .s32 a;",
                Some(Code::Duplicate),
            ),
            (
                ".weak .global .u32 a; .weak .global .u32 a;",
                Some(Code::Duplicate),
            ),
            (".func f(); .func f() { ret; }", None),
            (".func f() .func g() { call f; ret; }", None),
            (".visible .func f(); .func f() { ret; }", None),
            (
                ".func f(); .visible .func f() { ret; }",
                Some(Code::Duplicate),
            ),
            (".func f() { ret; } .func f();", Some(Code::Duplicate)),
            (
                ".extern .func f(); .func f() { ret; }",
                Some(Code::Duplicate),
            ),
            (
                ".func f(.param .u32 a); .func f(.param .s32 a) { ret; }",
                Some(Code::Duplicate),
            ),
            (
                ".func f .noreturn; .func f() { ret; }",
                Some(Code::Duplicate),
            ),
            (".visible .func g(); .func f() { ret; } .alias g, f;", None),
            (
                ".visible .func g(); .extern .func f(); .alias g, f;",
                Some(Code::Duplicate),
            ),
            (
                ".entry k { ret; } .func f() { ret; } .alias k, f;",
                Some(Code::OperandKind),
            ),
        ],
    );
}

#[test]
fn heads_of_functions() {
    judged(
        HEAD,
        Level::Language,
        &[
            (
                ".entry k(.param .u64 .ptr .global .align 8 a, .param .b8 b[3]) { ret; }",
                None,
            ),
            (".entry k(.param .u32 a[2][2]) { ret; }", Some(Code::Syntax)),
            (
                ".entry k(.param .v2 .u32 a) { ret; }",
                Some(Code::OperandType),
            ),
            (".entry k(.param .b8 a[]) { ret; }", Some(Code::Range)),
            (".func k(.param .u32 a, .param .b8 b[]) { ret; }", None),
            (
                ".func k(.param .b8 b[], .param .u32 a) { ret; }",
                Some(Code::Range),
            ),
            (".entry k(.param .b8 a[32765]) { ret; }", Some(Code::Limit)),
            (
                ".func (.param .u32 a, .param .u32 b) k() { ret; }",
                Some(Code::UnknownDirective),
            ),
            (".func (.reg .u32 a, .reg .u32 b) k() { ret; }", None),
            (".func k(.param .u32 _) { ret; }", Some(Code::Duplicate)),
            (
                ".entry k .maxntid 1, 2 .pragma \"x\"; .maxnreg 3 { ret; }",
                None,
            ),
            (
                ".entry k .maxntid 1 .reqntid 1 { ret; }",
                Some(Code::UnknownDirective),
            ),
            (".entry k .maxntid 0 { ret; }", Some(Code::UnknownDirective)),
            (".entry k .noreturn { ret; }", Some(Code::Syntax)),
            (
                ".entry k .blocksareclusters { ret; }",
                Some(Code::UnknownDirective),
            ),
            (
                ".entry k .maxnctapersm 1 { ret; }",
                Some(Code::UnknownDirective),
            ),
            (
                ".func k .abi_preserve 3 .noreturn { ret; }",
                Some(Code::Syntax),
            ),
            (
                ".entry k .pragma \"frequency 3\"; { ret; }",
                Some(Code::UnknownDirective),
            ),
            (".entry k { .pragma \"frequency 3\"; ret; }", None),
        ],
    );
}

#[test]
fn floors() {
    let rows = [
        (
            "1.3",
            "sm_10",
            ".entry k(.param .u32 a) { exit; }",
            Some(Code::VersionFloor),
        ),
        ("1.4", "sm_10", ".entry k(.param .u32 a) { exit; }", None),
        ("2.9", "sm_20", ".reg .u32 a;", Some(Code::UnknownVersion)),
        ("2.3", "sm_20", ".reg .u32 a;", None),
        (
            "3.0",
            "sm_10",
            ".weak .global .u32 a;",
            Some(Code::VersionFloor),
        ),
        ("8.2", "sm_70", ".global .b128 a;", Some(Code::VersionFloor)),
        ("8.3", "sm_62", ".global .b128 a;", Some(Code::TargetFloor)),
        ("8.3", "sm_70", ".global .b128 a;", None),
        (
            "7.8",
            "sm_80",
            ".entry k .explicitcluster { ret; }",
            Some(Code::TargetFloor),
        ),
        (
            "8.0",
            "sm_70",
            ".entry k(.param .b8 a[4353]) { ret; }",
            Some(Code::VersionFloor),
        ),
        (
            "1.4",
            "sm_10",
            "@@DWARF .byte 1, 2\n.entry k { exit; }",
            None,
        ),
        (
            "2.0",
            "sm_10",
            "@@DWARF .byte 1, 2\n.entry k { exit; }",
            Some(Code::UnknownDirective),
        ),
    ];
    for (version, target, text, expected) in rows {
        let source = format!(".version {version}\n.target {target}\n{text}\n");
        assert_eq!(first(&source, Level::Language), expected, "{source}");
    }
}

#[test]
fn names_are_declared_before() {
    judged(
        HEAD,
        Level::Language,
        &[
            (
                ".entry k { call f; ret; } .func f() { ret; }",
                Some(Code::Undeclared),
            ),
            (
                ".entry k { .func f(); call f; ret; } .func f() { ret; }",
                None,
            ),
            (".func f() { call f; ret; }", None),
            (".entry k { bra L; L: ret; }", None),
            (".entry k { bra L; { L: } ret; }", Some(Code::Undeclared)),
            (".entry k { t: .branchtargets L; L: ret; }", None),
            (
                ".entry k { t: .calltargets f; ret; }",
                Some(Code::Undeclared),
            ),
            (
                ".file 1 \"a\" .entry k { .loc 1 1 1 .loc 1 2 3, function_name L, inlined_at 1 1 1 ret; }",
                None,
            ),
            (
                ".entry k { .loc 1 2 3, function_name L, inlined_at 1 1 1 ret; }",
                Some(Code::Undeclared),
            ),
            (".file 1 \"a\" .file 1 \"b\"", Some(Code::Duplicate)),
            (
                ".section .d { L: .b8 -128, 255 .b32 L+4, }",
                Some(Code::Syntax),
            ),
            (".section .d { L: .b8 256 }", Some(Code::Range)),
            (".section .d { L: .b64 .other M: .b32 M-L }", None),
        ],
    );
}

#[test]
fn what_is_found_when_code_is_made() {
    let extern_f = ".extern .func f();\n";
    let rows = [
        (format!("{extern_f}.entry k {{ ret; }}"), None),
        (
            format!("{extern_f}.entry k {{ call f; ret; }}"),
            Some(Code::Unresolved),
        ),
        (
            ".func f(); .entry k { ret; }".to_owned(),
            Some(Code::Unresolved),
        ),
        (
            ".extern .func free(.reg .u64 p); .entry k { .reg .u64 p; call free, (p); ret; }"
                .to_owned(),
            None,
        ),
        (".shared .b8 s[49153]; .entry k { ret; }".to_owned(), None),
        (".entry k { .shared .b8 s[49152]; ret; }".to_owned(), None),
        (
            ".entry k { .shared .b8 s[49153]; ret; }".to_owned(),
            Some(Code::TooMuchMemory),
        ),
        (".const .b8 c[65536];".to_owned(), None),
        (
            ".const .b8 c[65535]; .const .u16 d;".to_owned(),
            Some(Code::TooMuchMemory),
        ),
    ];
    for (text, expected) in rows {
        let source = format!("{HEAD}{text}\n");
        assert_eq!(first(&source, Level::Codegen), expected, "{text}");
        assert_eq!(first(&source, Level::Language), None, "{text}");
    }
}
