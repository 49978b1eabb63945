//! Texts made to take much memory, time or stack: all are read and checked, and
//! where there is a limit, the finding says so.

use ptxkit_ptx::diagnostic::Code;
use ptxkit_ptx::{NotPtx, Ptx, check, read, text_of};

/// The codes of what is wrong with a kernel of this body.
fn codes(body: &str) -> Vec<Code> {
    let source = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.entry k()\n{{\n\
         .reg .b32 %r<9>; .reg .pred %p<3>;\n{body}\nret;\n}}\n"
    );
    let reading = read(&source);
    let mut found = reading.diagnostics;
    found.extend(check(&reading.module, &source));
    found.iter().map(|diagnostic| diagnostic.code).collect()
}

fn between(open: &str, middle: &str, close: &str, depth: usize) -> String {
    [&open.repeat(depth), middle, &close.repeat(depth)].concat()
}

#[test]
fn depth_has_limits() {
    let expression = |depth| format!("mov.b32 %r1, {};", between("(", "1", ")", depth));
    assert_eq!(codes(&expression(1000)), []);
    assert_eq!(codes(&expression(1_000_000)), [Code::Limit]);
    let signs = |count| format!("mov.b32 %r1, {}1;", "-".repeat(count));
    assert_eq!(codes(&signs(1000)), []);
    assert_eq!(codes(&signs(1_000_000)), [Code::Limit]);
    let choices = format!("mov.b32 %r1, 1{};", "?1:1".repeat(1_000_000));
    assert_eq!(codes(&choices), [Code::Limit]);

    assert_eq!(codes(&between("{", "", "}", 1600)), []);
    assert_eq!(codes(&between("{", "", "}", 100_000)), [Code::Limit]);
    let vectors = format!("mov.b32 {}, %r1;", between("{", "%r1", "}", 100_000));
    assert!(codes(&vectors).contains(&Code::Limit));
    let initialiser = between("{", "1", "}", 100_000);
    assert!(codes(&format!(".local .b8 x[1] = {initialiser};")).contains(&Code::Limit));
}

#[test]
fn lists_have_limits() {
    let vector = |count| format!("mov.b32 {{{}}}, %r1;", vec!["%r1"; count].join(","));
    assert_eq!(codes(&vector(1_000_000)), [Code::Limit]);
    assert!(!codes(&vector(1000)).contains(&Code::Limit));
    let words = format!("add{} %r1, %r2, %r3;", ".rn".repeat(1_000_000));
    assert_eq!(codes(&words), [Code::Limit]);
}

/// Registers cost nothing until they are used.
#[test]
fn ranges_of_registers_may_be_long() {
    let declared = |count: u64| {
        let last = count.saturating_sub(1);
        codes(&format!(".reg .b32 %x<{count}>; mov.b32 %x{last}, 1;"))
    };
    assert_eq!(declared(100_000_000), []);
    assert_eq!(declared(2_147_483_648), []);
    assert_eq!(declared(4_294_967_295)[0], Code::Limit);
    assert_eq!(declared(99_999_999_999)[0], Code::Number);
    assert_eq!(declared(0), [Code::Undeclared]);
}

#[test]
fn tokens_may_be_long() {
    let name = "a".repeat(3_000_000);
    assert_eq!(codes(&format!(".reg .b32 {name}; mov.b32 {name}, 1;")), []);
    assert_eq!(codes(&format!("mov.b32 {name}, 1;")), [Code::Undeclared]);
    let zeros = "0".repeat(3_000_000);
    assert_eq!(codes(&format!("mov.b32 %r{zeros}1, {zeros}7;")), []);
    assert_eq!(codes(&format!("// {zeros}\n/* {zeros} */")), []);
    let fraction = format!(".reg .f32 f; mov.f32 f, 1.{zeros};");
    assert_eq!(codes(&fraction), []);
}

/// A look at a name costs the same in the thousandth block as in the first.
#[test]
fn blocks_and_names_may_be_many() {
    let inner = "mov.b32 %r7, %r8;\n".repeat(1000);
    let blocks = between("{ .reg .b32 %r<2>, x;\n", &inner, "}", 1600);
    assert_eq!(codes(&blocks), []);
    let labels: String = (0..21_000)
        .map(|n| format!("L{n}: @%p1 bra L{};\n", n / 2))
        .collect();
    assert_eq!(codes(&labels), []);
    let prefixes: String = (0..21_000)
        .map(|n| format!(".reg .b32 q{n}_<2>; mov.b32 q{n}_1, 1;\n"))
        .collect();
    assert_eq!(codes(&prefixes), []);
}

#[test]
fn findings_and_suggestions_are_bounded() {
    for wrong in ["foo.b32 %r1;\n", "add.foo %r1;\n", "mov.b32 %r1, nil;\n"] {
        let numbered: String = (0..21_000)
            .map(|n| {
                wrong
                    .replace("foo", &format!("foo{n}"))
                    .replace("nil", &format!("nil{n}"))
            })
            .collect();
        assert_eq!(codes(&numbered).len(), 20_000, "{wrong}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let ptx = |bytes: &[u8]| Ptx::from_bytes(bytes, "x").map(|_| ());
    let text: &[u8] = b".version 9.0\n.target sm_90\n";
    assert_eq!(ptx(&[text, &[0, 0]].concat()), Ok(()));
    let nul = ptx(&[text, b"\0.entry k() { ret; }"].concat());
    assert!(matches!(nul, Err(NotPtx::Nul { line: 3, .. })), "{nul:?}");
    let latin = ptx(b"\x93quoted\x94");
    assert!(
        matches!(latin, Err(NotPtx::Encoding { offset: 0, .. })),
        "{latin:?}"
    );
    assert_eq!(codes("\0"), [Code::Character]);
    assert_eq!(codes("mov.b32 %r1, \u{a0}%r2;"), [Code::Character]);
    assert_eq!(codes("// \u{a0}\n"), []);
}

/// To ptxas too: bytes of any kind may stand in comments, and nowhere else.
#[test]
fn bytes_of_comments_are_not_looked_at() {
    let found = |body: &[u8]| {
        let head = b".version 9.0\n.target sm_90\n.entry k() {\n";
        let bytes = [head, body, b"\n}"].concat();
        let text = text_of(&bytes);
        assert_eq!(text.len(), bytes.len());
        let reading = read(&text);
        let places = reading.diagnostics.iter().map(|d| (d.code, d.span.start));
        places.collect::<Vec<_>>()
    };
    assert_eq!(found(b"// \xe9\xff\n/* \x80 \xc3\xa9\xc3 */ ret;"), []);
    let begin = 40;
    assert_eq!(found(b"ret;\xe9"), [(Code::Character, begin + 4)]);
    assert_eq!(
        found(b".pragma \"/* \xe9 */\";"),
        [(Code::Character, begin + 12)]
    );
    assert_eq!(
        found(b"# 1 \"\xe9.cu\"\nret;"),
        [(Code::Character, begin + 5)]
    );
    let ptx = Ptx::from_bytes(b".version 8.0 // d\xe9but\n.target sm_80\n\0", "x").unwrap();
    assert_eq!((ptx.target(), ptx.text().len()), (Some("sm_80"), 36));
}

/// What was read of a statement in error once became a part of the next list,
/// which then held itself.
#[test]
fn a_statement_in_error_leaves_nothing_to_the_next() {
    let source = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n\
        .reg .b32 %r<9>; .reg .b64 %rd<9>;\n\
        mov.b64 %rd1, {%r1, {%r2, %r3}, {%r4}, [;\n\
        mov.b64 %rd1, {%r1, %r2};\nret;\n}\n";
    let reading = ptxkit_ptx::read(source);
    assert!(!reading.diagnostics.is_empty());
    let found = ptxkit_ptx::check(&reading.module, source);
    assert!(found.is_empty(), "{found:?}");
}
