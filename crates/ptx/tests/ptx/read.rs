//! The reader, checker and printer on whole modules, and on broken ones.

use ptxkit_ptx::ast::{Item, Module, Statement};
use ptxkit_ptx::printer::print;
use ptxkit_ptx::{check, diagnostic, read, signature, version};

#[path = "../conformance/archive.rs"]
#[allow(dead_code, reason = "only the reading is used")]
mod archive;

/// A module with something of everything.
const EVERYTHING: &str = r#"//
// by hand
//
.version 8.5
.target sm_90, debug
.address_size 64
.file 1 "everything.cu"
.func (.param .b32 result) twice (.param .b32 value);

.visible .const .align 4 .f32 weights[2][2] = {{1.0, 0f40000000}, {-0.5, 0d3FF0000000000000}};
.global .align 8 .u64 table[3] = {generic(weights)+4, twice, 0xFF00(generic(weights))};
.global .attribute(.managed) .u32 counter = 0x7FFFFFFF;
.extern .shared .align 16 .b8 dynamic[];
.extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 values);

.func (.param .b32 result) twice (.param .b32 value)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [value];
	shl.b32 %r2, %r1, 1;
	st.param.b32 [result], %r2;
	ret;
}

.visible .entry kernel (
	.param .u64 .ptr .global .align 16 out,
	.param .align 8 .b8 options[24],
	.param .u32 n
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.reg .pred %p<4>;
	.reg .b16 %h<2>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<6>;
	.reg .f32 %f<5>;
	.reg .v4 .f32 %v;
	.local .align 16 .b8 stack[64];
	.loc 1 12 3
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [options+4];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r2, %tid.x;
	mov.u64 %rd3, stack+8;
	mov.b64 {%r3, _}, %rd3;
	setp.lt.and.s32 %p1|%p2, %r1, -4, !%p3;
	@!%p1 bra $L__done;
	ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2+-16];
	fma.rn.ftz.f32 %f1, %f2, 0f3F800000, %f3;
	shfl.sync.bfly.b32 %r4|%p1, %r3, 16, 31, -1;
	vmad.s32.u32.s32 %r5, %r1.b0, -%r2.h1, %r3;
	mov.f32 %f1, %v.x;
	prmt.b32 %r6, %r5, WARP_SZ, 0x3210U;
{
	.param .b32 argument;
	.param .b32 returned;
	st.param.b32 [argument], %r6;
	call.uni (returned), twice, (argument);
	ld.param.b32 %r7, [returned];
}
	mov.u64 %rd4, twice;
prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
	call (%r8), %rd4, (%r7), prototype;
targets: .branchtargets $L__done, $L__more;
	brx.idx %r8, targets;
$L__more:
	atom.global.add.u32 _, [counter], 1;
	st.shared.u32 [dynamic], 9223372036854775807;
	bar.sync 0, 64;
	.pragma "nounroll";
$L__done:
	ret;
}
.section .debug_str { title: .b8 65, 0 }
"#;

fn mistakes(source: &str) -> Vec<String> {
    let reading = read(source);
    let found = check(&reading.module, source);
    let lines = diagnostic::LineIndex::new(source);
    reading
        .diagnostics
        .iter()
        .chain(&found)
        .map(|d| format!("{} {} {}", lines.locate(d.span.start), d.code, d.message))
        .collect()
}

/// `body` as a kernel with some registers; its first line is line 4.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 p) {{ .reg .f32 %f<4>; \
         .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .b32 s;\n{body}\n}}\n"
    )
}

#[test]
fn a_good_module_has_no_mistakes() {
    assert_eq!(mistakes(EVERYTHING), [""; 0]);
}

#[test]
fn printing_and_reading_again_gives_the_same_module() {
    let printed = print(&read(EVERYTHING).module);
    assert_eq!(mistakes(&printed), [""; 0], "{printed}");
    // Spans differ, so the trees are compared by their printed form.
    assert_eq!(print(&read(&printed).module), printed);
    let (before, after) = (read(EVERYTHING), read(&printed));
    assert_eq!(before.module.items.len(), after.module.items.len());
    // Lines differ too.
    let params = |module, text| {
        let mut params = signature::signatures(module, text).remove(0).params;
        params.iter_mut().for_each(|param| param.line = 0);
        params
    };
    assert_eq!(
        params(&before.module, EVERYTHING),
        params(&after.module, &printed)
    );
    assert_eq!(
        version::needed(&before.module, EVERYTHING).map(|n| (n.version, n.target)),
        version::needed(&after.module, &printed).map(|n| (n.version, n.target))
    );
}

#[test]
fn every_mistake_is_found_once() {
    let source = kernel(
        "add.f23 %r1, %r2, 1;\n\
         ad.s32 %r1, %r2, 1;\n\
         add.s32 %r1, %r2;\n\
         add.s32 %r1, %rx, 1;\n\
         add.s32 %r1, %f2, 1;\n\
         div.f32 %f1, %f2, %f3;\n\
         @%r1 ret;\n\
         ret;\n\
         ld.global.u32 %r1, [s];\n\
         add.u32 %r1, %tid.x, 1;\n\
         mov.f32 %f1, 1;\n\
         st.const.u32 [%rd1], %r1;\n\
         bar.sync 16;\n\
         cp.async.cg.shared.global [%r1], [%rd1], 8;\n\
         elect.sync _|%p1, -1;\n\
         .reg .b32 %r2;\n\
         mul.lo.sat.s32 %r1, %r1, %r1;\n\
         call missing, (%r1);\n\
         shl.b32 %r1, %r1 1;\n\
         xor.b32 %r1, %r1, 2\n\
         ret;",
    );
    assert_eq!(
        mistakes(&source),
        [
            "4:4 E0102 unknown modifier `.f23`",
            "5:1 E0101 unknown instruction `ad`",
            "22:18 E0004 expected `,` or `;`, found `1`",
            "24:1 E0005 expected `;` before this",
            "6:1 E0301 `add.s32` takes 3 operands, found 2",
            "7:14 E0201 `%rx` is not declared",
            "8:14 E0303 `%f2` is `.f32`, expected `.s32`",
            "9:1 E0104 `div` of `.f32` needs `.approx`, `.rn`, `.rz`, `.rm` or `.rp`",
            "10:2 E0304 the guard `%r1` is not a `.pred` register",
            "12:21 E0305 `s` is in `.shared` memory, the instruction accesses `.global`",
            "13:14 E0302 only `mov` reads special registers such as `%tid.x`",
            "14:14 E0303 an integer, expected `.f32`",
            "15:4 E0103 `st` of `.u32` does not take `.const`",
            "16:10 E0307 this constant must be 0 to 15",
            "17:42 E0307 this constant must be 16",
            "18:1 E0402 `elect.sync` needs sm_90 or higher, the target is sm_80",
            "19:11 E0202 `%r2` is already declared in this scope",
            "20:8 E0103 `mul.lo` of `.s32` does not take `.sat`",
            "21:6 E0201 `missing` is not declared",
        ]
    );
}

#[test]
fn calls_are_checked_against_declarations() {
    let source = ".version 8.0\n.target sm_90\n\
         .func (.param .b32 r) f (.param .b32 x) { ret; }\n.entry k() {\n\
         .param .b32 a; .param .b64 w; .reg .b32 x; .reg .b64 p; .reg .f32 y;\n\
         call (a), f, (a, a);\n call f;\n call (x), f, (5);\n call (w), f, (x);\n\
         call (a), g, (a);\n call (a), p, (a);\n proto: .callprototype _ (.param .f32 _);\n\
         call p, (y), proto;\n call p, (a), proto;\n call p, (1), proto;\n call k;\n}";
    assert_eq!(
        mistakes(source),
        [
            "6:15 E0306 `f` has 1 parameters, found 2",
            "7:7 E0306 `f` has 1 parameters, found 0",
            "9:8 E0306 `w` has another type than the result at this position",
            "10:11 E0201 `g` is not declared",
            "11:12 E0306 `p` is a register: the call needs a prototype or a table of functions",
            "15:11 E0306 a call cannot pass this operand",
            "16:7 E0306 `k` is not a function that can be called",
        ]
    );
}

#[test]
fn the_head_is_checked() {
    assert_eq!(
        mistakes(".target sm_9x\n.entry k() { ret; }"),
        [
            "1:9 E0012 unknown target `sm_9x`",
            "2:1 E0010 the module has no `.version`",
        ]
    );
    assert_eq!(
        mistakes(".version 7.0\n.target sm_90\n.entry k() { ret; }"),
        ["2:9 E0401 `sm_90` needs `.version 7.8` or later"]
    );
}

#[test]
fn labels_and_registers_live_in_their_block() {
    let source =
        kernel("{ .reg .b32 x; mov.u32 x, 1; bra L; L: }\n{ L: bra L; }\nmov.u32 x, 1;\nbra L;");
    assert_eq!(
        mistakes(&source),
        [
            "6:9 E0201 `x` is not declared",
            "7:5 E0201 `L` is not declared"
        ]
    );
}

#[test]
fn no_truncation_panics() {
    for end in 0..EVERYTHING.len() {
        let source = &EVERYTHING[..end];
        let reading = read(source);
        let found = check(&reading.module, source);
        print(&reading.module);
        for diagnostic in reading.diagnostics.iter().chain(&found).take(3) {
            diagnostic::render(source, "x.ptx", diagnostic);
        }
    }
}

/// Without any one of its words the module reads, with few reports: a mistake
/// must not bring many more after it.
#[test]
fn no_missing_word_panics() {
    let words: Vec<_> = EVERYTHING.split_inclusive(char::is_whitespace).collect();
    for missing in 0..words.len() {
        let source: String = words
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != missing)
            .map(|(_, word)| *word)
            .collect();
        let reading = read(&source);
        assert!(
            reading.diagnostics.len() <= 4,
            "without `{}`: {:#?}",
            words[missing],
            reading.diagnostics
        );
        check(&reading.module, &source);
    }
}

/// Without any one of its marks, the same.
#[test]
fn no_missing_mark_panics() {
    let marks = EVERYTHING
        .match_indices(|c: char| c.is_ascii_punctuation() && !"_$%".contains(c))
        .map(|(at, _)| at);
    for at in marks {
        let source = format!("{}{}", &EVERYTHING[..at], &EVERYTHING[at + 1..]);
        let reading = read(&source);
        assert!(
            reading.diagnostics.len() <= 4,
            "without byte {at}, before `{}`: {:#?}",
            EVERYTHING[at..].lines().next().unwrap_or(""),
            reading.diagnostics
        );
        check(&reading.module, &source);
    }
}

/// A character of several bytes before every byte.
#[test]
fn spans_are_at_character_boundaries() {
    for at in 0..EVERYTHING.len() {
        let source = format!("{}\u{20ac}{}", &EVERYTHING[..at], &EVERYTHING[at..]);
        let reading = read(&source);
        for found in reading
            .diagnostics
            .iter()
            .chain(&check(&reading.module, &source))
        {
            let place = found.span.start as usize..found.span.end as usize;
            assert!(source.get(place).is_some(), "{at}: {found:?}");
        }
    }
}

/// Every byte exchanged for one that means something else.
#[test]
fn no_changed_byte_panics() {
    let others = b"\0{}(\";.%9/";
    for at in 0..EVERYTHING.len() {
        let mut bytes = EVERYTHING.as_bytes().to_vec();
        bytes[at] = others[at % others.len()];
        let source = String::from_utf8(bytes).expect("ASCII stays ASCII");
        let reading = read(&source);
        check(&reading.module, &source);
    }
}

#[test]
fn a_register_past_its_range_names_the_range() {
    let source = ".version 8.0\n.target sm_80\n.entry k() { .reg .b32 %r<4>; mov.b32 %r4, 1; }";
    let found = check(&read(source).module, source);
    assert_eq!(
        found[0].help.as_deref(),
        Some("`%r<4>` declares that many registers, numbered from 0")
    );
}

/// The text with form feeds for blanks, in which nothing is as compilers write
/// it.
fn with_other_blanks(text: &str) -> String {
    let (mut quoted, mut comment, mut before) = (false, false, ' ');
    let other = |c: char| {
        match c {
            '"' if !comment => quoted = !quoted,
            '/' if !quoted && before == '/' => comment = true,
            '\n' => comment = false,
            _ => {}
        }
        before = c;
        match c {
            ' ' | '\t' if !quoted && !comment => '\u{c}',
            c => c,
        }
    };
    text.chars().map(other).collect()
}

#[test]
fn what_compilers_write_is_read_as_the_same_with_other_blanks() {
    let bodies = |module: &Module<'_>| -> Vec<_> {
        let functions = module.items.iter().filter_map(|item| match item {
            Item::Function(function) => function.body.clone(),
            _ => None,
        });
        functions
            .map(|mut body| {
                // Their text has the blanks.
                let directive = |s: &Statement<'_>| matches!(s, Statement::Directive(_));
                body.statements.retain(|s| !directive(s));
                format!("{body:?}")
            })
            .collect()
    };
    let mut compared = 0;
    for entry in archive::entries(&archive::read("corpus")).iter().step_by(9) {
        let other = with_other_blanks(&entry.text);
        let (usual, other) = (read(&entry.text), read(&other));
        assert_eq!(usual.diagnostics, other.diagnostics, "{}", entry.name);
        let (usual, other) = (bodies(&usual.module), bodies(&other.module));
        assert!(usual == other, "{}", entry.name);
        compared += usual.len();
    }
    assert!(compared > 100, "{compared}");
}

/// Many words are one letter away from another: the instruction's own is named.
#[test]
fn what_was_meant_is_a_word_of_the_instruction() {
    let help = |wrong: &str| {
        let source = format!(".version 8.0\n.target sm_80\n.entry k() {{ {wrong} r, r, r; }}");
        read(&source).diagnostics[0].help.clone().unwrap()
    };
    assert_eq!(help("add.rn.g32"), "did you mean `f32`?");
    assert_eq!(help("and.g32"), "did you mean `b32`?");
    assert_eq!(help("mul.w1de.u16"), "did you mean `wide`?");
    let source = kernel("mov.u32 %r1, %tidx;");
    let found = check(&read(&source).module, &source);
    assert_eq!(found[0].help.as_deref(), Some("did you mean `%tid.x`?"));
}

#[test]
fn a_suffix_of_c_is_reported_once() {
    assert_eq!(
        mistakes(&kernel("mov.f32 %f1, 1.0f;")),
        ["4:14 E0003 invalid number"]
    );
}
