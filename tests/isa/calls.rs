//! Calls that are not inlined: of functions that call themselves, and through registers.

use ptxkit::driver::{
    Context, ContextFlags, CudaError, DeviceBuffer, DriverKind, Error, LaunchConfig, Limit, Module,
    Stream,
};

use crate::kernels::device;
use crate::parts::Parts;

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

/// What `body` leaves in `%v` for each thread of a block; `%t` is the number of the thread.
fn run(functions: &str, body: &str, threads: u32) -> Result<Vec<u32>, Error> {
    // A context of its own: a fault ends it.
    let context = Context::create(&device(), ContextFlags::default())?;
    // A GPU's threads have 1 KiB each.
    context.set_limit(Limit::STACK_SIZE, 16 << 10)?;
    let text = format!(
        "{HEAD}{functions}\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .b32 %t, %v, %w; .reg .b64 %out, %at, %f; .reg .pred %p;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n{body}\n\
         mul.wide.u32 %at, %t, 4;\nadd.u64 %at, %at, %out;\nst.global.u32 [%at], %v;\nret;\n}}\n"
    );
    let stream = Stream::new(&context)?;
    let kernel = Module::load(&context, text.as_bytes())?.kernel("k")?;
    let mut out = DeviceBuffer::<u32>::zeroed(&context, threads as usize)?;
    let config = LaunchConfig::for_elements(threads, threads);
    // SAFETY: the kernel stores a number for each thread.
    unsafe { kernel.launch(config, &stream, (&mut out,)) }?;
    stream.synchronize()?;
    out.to_vec()
}

#[track_caller]
fn check(functions: &str, body: &str, expected: impl Fn(u32) -> u32) {
    let found = run(functions, body, 70).unwrap_or_else(|error| panic!("{error}"));
    let expected: Vec<u32> = (0..70).map(expected).collect();
    assert_eq!(found, expected);
}

/// `call` with one number in, one out.
fn call(callee: &str, argument: &str, result: &str, prototype: &str) -> String {
    format!(
        "{{ .param .b32 x; .param .b32 y; st.param.b32 [x], {argument};\n\
         call (y), {callee}, (x){prototype};\nld.param.b32 {result}, [y]; }}\n"
    )
}

fn fibonacci() -> String {
    format!(
        ".func (.param .b32 r) fib(.param .b32 n)\n{{\n.reg .pred p; .reg .b32 m, a, b, t;\n\
         ld.param.u32 m, [n];\nsetp.lt.u32 p, m, 2;\n@p bra base;\nsub.u32 t, m, 1;\n{}\
         sub.u32 t, m, 2;\n{}add.u32 m, a, b;\nbase:\nst.param.b32 [r], m;\nret;\n}}",
        call("fib", "t", "a", ""),
        call("fib", "t", "b", "")
    )
}

#[test]
fn a_function_calls_itself_to_another_depth_in_each_thread() {
    let fib = |n: u32| (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
    let body = format!("and.b32 %w, %t, 15;\n{}", call("fib", "%w", "%v", ""));
    check(&fibonacci(), &body, |thread| fib(thread & 15));
    // Some threads do not call.
    let guarded = format!(
        "mov.u32 %v, 5; setp.lt.u32 %p, %t, 9; @!%p bra none;\n{}none:",
        call("fib", "%t", "%v", "")
    );
    check(&fibonacci(), &guarded, |thread| {
        if thread < 9 { fib(thread) } else { 5 }
    });
}

#[test]
fn functions_call_each_other() {
    let declared = ".func (.param .b32 r) odd(.param .b32 n);\n";
    let function = |name: &str, other: &str, none: u32| {
        format!(
            ".func (.param .b32 r) {name}(.param .b32 n)\n{{\n.reg .pred p; .reg .b32 m;\n\
             ld.param.u32 m, [n];\nsetp.eq.u32 p, m, 0;\n@p mov.u32 m, {none};\n@p bra end;\n\
             sub.u32 m, m, 1;\n{}end: st.param.b32 [r], m;\nret;\n}}\n",
            call(other, "m", "m", "")
        )
    };
    let functions = [
        declared,
        &function("even", "odd", 1),
        &function("odd", "even", 0),
    ]
    .concat();
    check(&functions, &call("even", "%t", "%v", ""), |thread| {
        1 - thread % 2
    });
}

/// Variables, predicates and parameters that are registers.
#[test]
fn each_activation_has_its_own_variables() {
    let walk = ".func (.reg .b32 r) walk(.reg .b32 n)\n{\n.local .align 4 .b8 mine[8];\n\
        .reg .pred p, even; .reg .b32 a, b; .reg .b64 at; .reg .b16 h;\n\
        mov.u64 at, mine;\nst.local.u32 [at+4], n;\nand.b32 b, n, 1;\n\
        setp.eq.u32 even, b, 0;\ncvt.u16.u32 h, n;\nmov.u32 r, 0;\n\
        setp.eq.u32 p, n, 0;\n@p ret;\nsub.u32 b, n, 1;\ncall (b), walk, (b);\n\
        ld.local.u32 a, [mine+4];\n@even add.u32 a, a, 100;\nadd.u32 r, a, b;\n\
        cvt.u32.u16 a, h;\nadd.u32 r, r, a;\nret;\n}";
    let expected = |n: u32| {
        (1..=n)
            .map(|i| 2 * i + if i % 2 == 0 { 100 } else { 0 })
            .sum()
    };
    check(walk, "call (%v), walk, (%t);", expected);
}

const ONE_NUMBER: &str = "one: .callprototype (.param .b32 _) _ (.param .b32 _);\n";

fn operation(name: &str, instruction: &str) -> String {
    format!(
        ".func (.param .b32 r) {name}(.param .b32 n)\n{{\n.reg .b32 a;\nld.param.u32 a, [n];\n\
         {instruction}\nst.param.b32 [r], a;\nret;\n}}\n"
    )
}

fn operations() -> String {
    [
        operation("twice", "add.u32 a, a, a;"),
        operation("square", "mul.lo.u32 a, a, a;"),
        operation("negated", "neg.s32 a, a;"),
    ]
    .concat()
}

fn applied(number: u32, thread: u32) -> u32 {
    match number % 3 {
        0 => 2 * thread,
        1 => thread * thread,
        _ => thread.wrapping_neg(),
    }
}

#[test]
fn threads_call_different_functions_of_a_table() {
    let functions = operations() + ".global .align 8 .u64 table[3] = {twice, square, negated};\n";
    let body = format!(
        "rem.u32 %w, %t, 3;\nmul.wide.u32 %at, %w, 8;\nmov.u64 %f, table;\n\
         add.u64 %f, %f, %at;\nld.global.u64 %f, [%f];\n{ONE_NUMBER}{}",
        call("%f", "%t", "%v", ", one")
    );
    check(&functions, &body, |thread| applied(thread, thread));
}

#[test]
fn a_call_names_the_functions_that_it_may_reach() {
    let body = format!(
        "setp.lt.u32 %p, %t, 32;\nmov.u64 %f, square;\n@%p mov.u64 %f, twice;\n\
         list: .calltargets twice, square;\n{}",
        call("%f", "%t", "%v", ", list")
    );
    check(&operations(), &body, |thread| {
        applied(u32::from(thread >= 32), thread)
    });
}

/// A function calls its argument, which may be itself.
#[test]
fn functions_are_arguments() {
    let apply = format!(
        ".func (.param .b32 r) apply(.param .b64 f, .param .b32 n)\n{{\n\
         .reg .b32 a, b; .reg .b64 g;\nld.param.u64 g, [f];\nld.param.u32 a, [n];\n{ONE_NUMBER}\
         {}{}add.u32 a, a, b;\nst.param.b32 [r], a;\nret;\n}}\n",
        call("g", "a", "b", ", one"),
        call("g", "b", "b", ", one"),
    );
    let body = "rem.u32 %w, %t, 2;\nsetp.eq.u32 %p, %w, 0;\nmov.u64 %f, square;\n\
         @%p mov.u64 %f, negated;\n\
         { .param .b64 g; .param .b32 x; .param .b32 y; st.param.b64 [g], %f;\n\
         st.param.b32 [x], %t; call (y), apply, (g, x); ld.param.b32 %v, [y]; }";
    let expected = |thread: u32| match thread % 2 {
        0 => 2 * thread,
        _ => thread + thread.pow(4),
    };
    check(&(operations() + &apply), body, expected);
    let recursive = fibonacci() + "\n" + &apply;
    let body = "mov.u64 %f, fib;\nand.b32 %w, %t, 3;\n\
         { .param .b64 g; .param .b32 x; .param .b32 y; st.param.b64 [g], %f;\n\
         st.param.b32 [x], %w; call (y), apply, (g, x); ld.param.b32 %v, [y]; }";
    check(&recursive, body, |thread| [0, 2, 3, 4][thread as usize & 3]);
}

/// In a function, `ld.param` of an address is that of its own parameter.
#[test]
fn functions_take_addresses_of_their_parameters() {
    let element = ".func (.param .b32 r) element(.param .align 8 .b8 s[16], .param .b32 n)\n\
         {\n.reg .b32 a; .reg .b64 at, by; .reg .pred p;\nmov.u64 at, s;\nld.param.u32 a, [n];\n\
         mul.wide.u32 by, a, 4;\nadd.u64 at, at, by;\nld.param.u32 a, [at];\nst.param.b32 [r], a;\nret;\n}\n";
    let recursive = ".func (.param .b32 r) element(.param .align 8 .b8 s[16], .param .b32 n)\n\
         {\n.reg .b32 a, b; .reg .b64 at, c; .reg .pred p;\nmov.u64 at, s;\nld.param.u32 a, [n];\n\
         setp.eq.u32 p, a, 0;\n@p bra found;\nsub.u32 a, a, 1;\n\
         { .param .align 8 .b8 t[16]; .param .b32 m; .param .b32 q;\n\
         ld.param.u32 b, [at+4]; st.param.u32 [t], b; ld.param.u64 c, [at+8]; st.param.u32 [t+4], c;\n\
         shr.u64 c, c, 32; st.param.u32 [t+8], c; st.param.u32 [t+12], 0; st.param.b32 [m], a;\n\
         call (q), element, (t, m); ld.param.b32 a, [q]; }\nbra end;\n\
         found: ld.param.u32 a, [at];\nend: st.param.b32 [r], a;\nret;\n}\n";
    let call = |callee: &str, prototype: &str| {
        format!(
            "and.b32 %w, %t, 3;\n\
             {{ .param .align 8 .b8 s[16]; .param .b32 n; .param .b32 r;\n{prototype}\n\
             st.param.v4.u32 [s], {{5, %t, 7, 8}}; st.param.b32 [n], %w;\n\
             call (r), {callee}; ld.param.b32 %v, [r]; }}"
        )
    };
    let expected = |thread: u32| [5, thread, 7, 8][thread as usize & 3];
    check(element, &call("element, (s, n)", ""), expected);
    check(recursive, &call("element, (s, n)", ""), expected);
    let prototype = "mov.u64 %f, element;\n\
         p: .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16], .param .b32 _);";
    check(element, &call("%f, (s, n), p", prototype), expected);
}

/// As PTX says. NVIDIA's compiler for sm_90 of driver 580 loses the upper halves.
#[test]
fn values_of_128_bits_are_passed_and_returned() {
    if device().driver().kind() != DriverKind::Cpu {
        return;
    }
    let same = ".func (.param .b128 r) f(.param .b128 a)\n{\n.reg .b128 q;\n\
         ld.param.b128 q, [a];\nst.param.b128 [r], q;\nret;\n}\n";
    let recursive = ".func (.param .b128 r) f(.param .b128 a)\n{\n.reg .b128 q; .reg .pred p; .reg .b64 x, y;\n\
         ld.param.b128 q, [a];\nmov.b128 {x, y}, q;\nsetp.eq.u64 p, x, 0;\n@p bra end;\n\
         sub.u64 x, x, 1;\nadd.u64 y, y, 0x100000000;\nmov.b128 q, {x, y};\n\
         { .param .b128 b; .param .b128 s; st.param.b128 [b], q; call (s), f, (b); ld.param.b128 q, [s]; }\n\
         end: st.param.b128 [r], q;\nret;\n}\n";
    let body = "{ .param .b128 b; .param .b128 s; .reg .b128 q; .reg .b64 x, y;\n\
         and.b32 %w, %t, 7; cvt.u64.u32 x, %w; mov.u64 y, 0x3000000000; mov.b128 q, {x, y};\n\
         st.param.b128 [b], q; call (s), f, (b); ld.param.b128 q, [s]; mov.b128 {x, y}, q;\n\
         shr.u64 y, y, 32; cvt.u32.u64 %v, y; cvt.u32.u64 %w, x; mad.lo.u32 %v, %w, 1000, %v; }";
    check(same, body, |thread| 48 + 1000 * (thread & 7));
    check(recursive, body, |thread| 48 + (thread & 7));
}

#[test]
fn a_register_hides_a_function_of_its_name() {
    let body = format!(
        "{{ .reg .b64 twice; mov.u64 twice, square; {ONE_NUMBER}{} }}",
        call("twice", "%t", "%v", ", one")
    );
    check(&operations(), &body, |thread| applied(1, thread));
}

#[test]
fn local_variables_are_aligned_in_each_thread() {
    let body = "{ .local .align 128 .b8 wide[256]; .local .b8 odd[4]; .reg .b64 at;\n\
         mov.u64 at, wide; cvta.local.u64 at, at; or.b64 at, at, 64; st.u32 [at], %t;\n\
         st.local.u8 [odd], %t; ld.local.u32 %v, [wide+64]; }";
    check("", body, |thread| thread);
}

#[test]
fn structures_are_passed_and_returned() {
    let swap = ".func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 s[16], .param .b32 n)\n\
         {\n.reg .b32 a, b, c; .reg .b64 d;\nld.param.v2.u32 {a, b}, [s];\nld.param.u64 d, [s+8];\n\
         ld.param.u32 c, [n];\nadd.u32 b, b, c;\nst.param.b64 [r], d;\n\
         st.param.v2.u32 [r+8], {b, a};\nret;\n}\n";
    let body = "mov.u64 %f, swap;\ncvt.u64.u32 %at, %t;\n\
         { .param .align 8 .b8 s[16]; .param .b32 n; .param .align 8 .b8 r[16];\n\
         two: .callprototype (.param .align 8 .b8 _[16]) _ (.param .align 8 .b8 _[16], .param .b32 _);\n\
         st.param.u32 [s], 1; st.param.u32 [s+4], %t; st.param.u64 [s+8], %at;\n\
         st.param.u32 [n], 1000; call (r), %f, (s, n), two;\n\
         ld.param.u32 %v, [r]; ld.param.u32 %w, [r+8]; add.u32 %v, %v, %w;\n\
         ld.param.u32 %w, [r+12]; mad.lo.u32 %v, %w, 100000, %v; }";
    check(swap, body, |thread| 2 * thread + 1000 + 100_000);
}

/// All threads of the block meet in a function that each reaches through a register.
#[test]
fn threads_meet_in_a_function_that_is_called_through_a_register() {
    let meet = ".shared .align 4 .b8 met[512];\n\
         .func (.param .b32 r) meet(.param .b32 n)\n{\n.reg .b32 a, b, m;\nld.param.u32 a, [n];\n\
         mov.u32 m, met;\nmad.lo.u32 b, a, 4, m;\nst.shared.u32 [b], a;\nbar.sync 0;\n\
         sub.u32 a, 69, a;\nmad.lo.u32 b, a, 4, m;\nld.shared.u32 a, [b];\n\
         st.param.b32 [r], a;\nret;\n}\n";
    let body = format!(
        "mov.u64 %f, meet;\n{ONE_NUMBER}{}",
        call("%f", "%t", "%v", ", one")
    );
    check(meet, &body, |thread| 69 - thread);
}

/// The error of a launch. On the CPU device alone: a GPU's ends all that the process has there,
/// so other tests would fail.
#[track_caller]
fn check_fault(functions: &str, body: &str, code: CudaError, parts: &[&str]) {
    if device().driver().kind() != DriverKind::Cpu {
        return;
    }
    let error = run(functions, body, 70).unwrap_err();
    assert_eq!(error.code(), Some(code), "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn an_address_that_is_no_function_is_a_fault() {
    let functions =
        operations() + ".func other(.param .b64 n) { ret; }\n.global .align 8 .u64 it = other;\n";
    let start = "mov.u64 %f, twice;\nsetp.eq.u32 %p, %t, 3;";
    let call = call("%f", "%t", "%v", ", one");
    let body = |wrong: &str| format!("{start}\n@%p {wrong}\n{ONE_NUMBER}{call}");
    let lines_before = HEAD.lines().count() + functions.lines().count();
    // An empty line, five of the start of the kernel, four before the call, and its second.
    let line = lines_before + 1 + 5 + 4 + 2;
    let place = [
        "kernel k, block (0,0,0), thread (3,0,0): call of 0x",
        &format!("PTX line {line}"),
    ];
    let wrong = [
        "mov.u64 %f, 64;",
        "mov.u64 %f, 0;",
        "mov.u64 %f, %out;",
        "add.u64 %f, %f, 4096;",
        "sub.u64 %f, %f, 1;",
        // It takes another parameter.
        "mov.u64 %f, other;",
    ];
    let mut parts = Parts::of("calls::an_address_that_is_no_function_is_a_fault");
    for wrong in wrong {
        parts.run(|| check_fault(&functions, &body(wrong), CudaError(718), &place));
    }
}

#[test]
fn calls_that_are_nested_too_deeply_are_a_fault() {
    let body = "mov.u32 %w, 3;\nsetp.eq.u32 %p, %t, 5;\n@%p mov.u32 %w, 0xffffff;\n";
    let deep = format!(
        ".func (.param .b32 r) deep(.param .b32 n)\n{{\n.reg .pred p; .reg .b32 m;\n\
         ld.param.u32 m, [n];\nsetp.eq.u32 p, m, 0;\n@p bra end;\nsub.u32 m, m, 1;\n{}\
         add.u32 m, m, 1;\nend: st.param.b32 [r], m;\nret;\n}}\n",
        call("deep", "m", "m", "")
    );
    let body = format!("{body}{}", call("deep", "%w", "%v", ""));
    let parts = [
        "kernel k, block (0,0,0), thread (5,0,0): calls are nested too deeply",
        "PTX line 4",
    ];
    Parts::of("calls::calls_that_are_nested_too_deeply_are_a_fault")
        .run(|| check_fault(&deep, &body, CudaError(714), &parts));
}

/// Functions with parameters of vectors and of 128 bits. One of them is recursive.
#[test]
fn parameters_in_several_registers() {
    let sum = ".func (.reg .v2 .b32 r) sum(.reg .v2 .b32 a)\n\
         { add.u32 r.x, a.x, a.y; mov.b32 r.y, a.x; ret; }\n";
    let pair = ".reg .v2 .b32 v; mov.b32 v.x, %t; mov.b32 v.y, 5;\n";
    let both = "mad.lo.u32 %v, v.x, 100, v.y;";
    check(sum, &format!("{pair}call (v), sum, (v);\n{both}"), |t| {
        (t + 5) * 100 + t
    });

    let down = ".func (.reg .v2 .b32 r) down(.reg .v2 .b32 a, .reg .b32 n)\n\
         { .reg .pred p; .reg .b32 m; .reg .v2 .b32 b;\n\
         setp.eq.u32 p, n, 0; @p bra base;\n\
         add.u32 b.x, a.x, 1; mov.b32 b.y, a.x; sub.u32 m, n, 1;\n\
         call (r), down, (b, m); ret;\nbase: mov.b32 r.x, a.x; mov.b32 r.y, a.y; ret; }\n";
    check(
        down,
        &format!("{pair}call (v), down, (v, 3);\n{both}"),
        |t| (t + 3) * 100 + t + 2,
    );

    // Driver 580 loses the upper half of a parameter of 128 bits.
    if device().driver().kind() != DriverKind::Cpu {
        return;
    }
    let same = ".func (.reg .b128 r) same(.reg .b128 a) { mov.b128 r, a; ret; }\n";
    let wide = ".reg .b128 w; .reg .b64 a, b; cvt.u64.u32 a, %t; mov.b64 b, 7;\n\
         mov.b128 w, {a, b}; call (w), same, (w); mov.b128 {b, a}, w;\n\
         cvt.u32.u64 %v, a; cvt.u32.u64 %w, b; mad.lo.u32 %v, %v, 100, %w;";
    check(same, wide, |t| 700 + t);
}
