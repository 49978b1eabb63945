//! The CPU device under odd settings and small limits.

use super::*;

/// `ptxkit devices` with a variable of the environment.
fn devices(variable: &str, value: &str) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let variables = [(variable, Path::new(value))];
    ptxkit_with(cache.path(), &variables, &["devices"])
}

#[test]
fn a_number_that_cannot_be_is_an_error_that_names_it() {
    for (variable, value, range) in [
        ("PTXKIT_CPU_THREADS", "abc", "1 to 1024"),
        ("PTXKIT_CPU_THREADS", "0", "1 to 1024"),
        ("PTXKIT_CPU_DEVICES", "9", "1 to 8"),
    ] {
        let output = devices(variable, value);
        assert_eq!(output.status.code(), Some(2), "{variable}={value}");
        let said = stderr(&output);
        assert!(said.contains(&format!("{variable}={value}")), "{said}");
        assert!(said.contains(range), "{said}");
    }
    let output = devices("PTXKIT_CPU_THREADS", "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_report_has_what_works_and_what_does_not() {
    let cache = tempfile::tempdir().unwrap();
    let variables = [("PTXKIT_CPU_DEVICES", Path::new("2"))];
    let run = |args: &[&str]| {
        let report = [&["devices"], args].concat();
        let output = ptxkit_with(cache.path(), &variables, &report);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let text = run(&["--report"]);
    assert!(run(&["--verbose"]).contains("PTXKIT_CPU_DEVICES=2\n"));
    let line = |start: &str| text.lines().find(|line| line.starts_with(start));
    assert!(
        line("has ").unwrap().contains("cooperative launches"),
        "{text}"
    );
    assert_eq!(
        line("lacks    ECC"),
        Some("lacks    ECC: the device has none")
    );
    assert!(text.contains("reaches the memory of 1\n"), "{text}");
    assert_eq!(line("PTXKIT_CPU_DEVICES"), Some("PTXKIT_CPU_DEVICES=2"));
    let json: serde_json::Value =
        serde_json::from_str(&run(&["--report", "--format", "json"])).unwrap();
    let drivers = json["drivers"].as_array().unwrap();
    let cpu = drivers.last().unwrap();
    let missing = cpu["missing_entries"].as_array().unwrap();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(cpu["devices"][1]["peers"], serde_json::json!([0]));
    assert_eq!(json["variables"]["PTXKIT_CPU_DEVICES"], "2");
}

/// It goes into bug reports: with what is wrong, and without what is secret.
#[test]
fn a_report_tells_of_a_wrong_number_and_of_no_password() {
    let cache = tempfile::tempdir().unwrap();
    let variables = [
        ("PTXKIT_CPU_DEVICES", Path::new("many")),
        ("PTXKIT_REMOTE", Path::new("redis://me:secret@localhost")),
    ];
    for format in ["text", "json"] {
        let arguments = ["devices", "--report", "--format", format];
        let output = ptxkit_with(cache.path(), &variables, &arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("PTXKIT_CPU_DEVICES=many is not"), "{text}");
        assert!(text.contains("PTXKIT_REMOTE"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn one_thread_is_one() {
    let text = stdout(&devices("PTXKIT_CPU_THREADS", "1"));
    assert!(text.contains(", 1 thread,"), "{text}");
    let text = stdout(&devices("PTXKIT_CPU_THREADS", "2"));
    assert!(text.contains(", 2 threads,"), "{text}");
}

/// Reverses numbers through shared memory; `barrier` stands between its write and its read.
fn reverse(barrier: &str) -> String {
    format!(
        ".version 7.0
.target sm_70
.address_size 64
.visible .entry reverse(.param .u64 out)
{{
    .reg .b64 %rd<4>;
    .reg .b32 %r<8>;
    .shared .align 4 .b8 s[1024];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    {barrier}
    xor.b32 %r5, %r2, 1020;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
    ret;
}}
"
    )
}

#[test]
fn races_and_unwritten_memory_are_found_where_they_are_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |barrier: &str, threads: &str, check: &str| {
        let file = folder.path().join("reverse.ptx");
        std::fs::write(&file, reverse(barrier)).unwrap();
        let file = file.to_string_lossy().into_owned();
        let arguments = ["run", &file, "--device", "cpu", "--block", threads];
        let memory = ["--grid", "2", "--arg", "buf:u32:256=zeros"];
        let variables = [("PTXKIT_CPU_CHECK", Path::new(check))];
        let cache = folder.path().join("cache");
        let output = ptxkit_with(&cache, &variables, &[&arguments[..], &memory].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, said) = run("", "256", "race");
    assert_eq!(code, Some(2), "{said}");
    let found = "block (0,0,0), thread (128,0,0): write of 4 bytes at ";
    let other = " races with the read by thread (127,0,0) at PTX line 18; PTX line 14";
    assert!(said.contains(found) && said.contains(other), "{said}");

    let (code, said) = run("", "256", "memory,init");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("thread (0,0,0): read of 4 bytes at "),
        "{said}"
    );
    assert!(
        said.contains("that nothing has written; PTX line 18"),
        "{said}"
    );

    // A barrier of all threads, and one of the warps that are there.
    for barrier in ["bar.sync 0;", "barrier.sync 3, 256;"] {
        assert_eq!(run(barrier, "256", "race,init").0, Some(0), "{barrier}");
    }
    // Each warp waits for itself: enough for 32 threads of one block, not for more.
    let (code, said) = run("bar.warp.sync 0xffffffff;", "256", "race");
    assert_eq!(code, Some(2), "{said}");
    // Nothing is looked for unless asked for, also with what a checked run has cached.
    assert_eq!(run("", "256", "memory").0, Some(0));
}

/// As batch systems and shells set it.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_addresses_leaves_a_smaller_device() {
    let cache = tempfile::tempdir().unwrap();
    for kibibytes in [8_000_000, 2_000_000] {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -v {kibibytes} && exec \"$0\" \"$@\""))
            .arg(program())
            .args(["run", &sample("vecadd.toml"), "--device", "cpu"])
            .env("CUDA_CACHE_PATH", cache.path())
            .env("PTXKIT_CPU_THREADS", "2")
            .env_remove("PTXKIT_CPU_MEMORY")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

/// Each kernel makes one mistake, in line 100 of its source; `race` has its other access in
/// line 90, `freed` its allocation in line 80 and the end of that in line 90.
const MISTAKES: &str = r#".version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 pointer);
.visible .entry shared(.param .u64 out)
{
    .reg .b32 %r<4>;
    .shared .align 4 .b8 s[1024];
    .loc 1 100 1
    .loc 2 80 1, function_name $L__info_string0, inlined_at 1 100 1
    ld.shared.u32 %r1, [s];
    ret;
}
.visible .entry local(.param .u64 out)
{
    .reg .b32 %r<4>;
    .local .align 4 .b8 l[16];
    .loc 1 100 1
    ld.local.u32 %r1, [l+8];
    ret;
}
.visible .entry race(.param .u64 out)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p, %r1, 0;
    ld.param.u64 %rd1, [out];
    .loc 2 90 1
    @%p st.global.u32 [%rd1], 1;
    .loc 1 100 1
    ld.global.u32 %r2, [%rd1];
    ret;
}
.visible .entry barriers(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p, %r1, 32;
    .loc 1 100 1
    @%p bar.sync 0;
    .loc 1 101 1
    @!%p bar.sync 1;
    ret;
}
.visible .entry misaligned(.param .u64 out)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [out];
    .loc 1 100 1
    ld.global.u32 %r1, [%rd1+2];
    ret;
}
.visible .entry freed(.param .u64 out)
{
    .reg .b64 %rd<4>;
    .param .b64 size;
    .param .b64 pointer;
    st.param.b64 [size], 64;
    .loc 2 80 1
    call (pointer), malloc, (size);
    ld.param.b64 %rd1, [pointer];
    st.param.b64 [size], %rd1;
    .loc 2 90 1
    call free, (size);
    .loc 1 100 1
    st.u32 [%rd1], 1;
    ret;
}
.file 1 "mistakes.cu"
.file 2 "helpers.cuh"
.section .debug_str
{
$L__info_string0:
    .b8 103,101,116,0
}
"#;

#[test]
fn each_mistake_has_its_line_in_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mistakes.ptx");
    std::fs::write(&file, MISTAKES).unwrap();
    let cache = folder.path().join("cache");
    let run = |kernel: &str| {
        let file = file.to_string_lossy();
        let variables = [("PTXKIT_CPU_CHECK", Path::new("memory,init,race"))];
        let arguments = ["run", &*file, "--kernel", kernel, "--device", "cpu"];
        let launch = ["--block", "64", "--arg", "buf:u32:16=zeros"];
        let output = ptxkit_with(&cache, &variables, &[&arguments[..], &launch].concat());
        assert_eq!(output.status.code(), Some(2), "{kernel}");
        stderr(&output)
    };
    let mistakes: [(&str, &[&str]); 6] = [
        (
            "shared",
            &["that nothing has written; PTX line 12 (helpers.cuh:80, inlined at mistakes.cu:100)"],
        ),
        (
            "local",
            &["that nothing has written; PTX line 20 (mistakes.cu:100)"],
        ),
        (
            "race",
            &[
                "thread (1,0,0): read of 4 bytes",
                " races with the write by thread (0,0,0) at PTX line 32 (helpers.cuh:90); PTX line 34 (mistakes.cu:100)",
            ],
        ),
        (
            "barriers",
            &[
                "32 threads wait at barrier 0 in line 44 (mistakes.cu:100)",
                "32 threads wait at barrier 1 in line 46 (mistakes.cu:101)",
            ],
        ),
        (
            "misaligned",
            &[
                "misaligned read of 4 bytes",
                "; PTX line 55 (mistakes.cu:100)",
            ],
        ),
        (
            "freed",
            &[
                "; allocated by kernel freed, block (0,0,0), thread (0,0,0) at PTX line 65 (helpers.cuh:80)",
                "; freed by kernel freed, block (0,0,0), thread (0,0,0) at PTX line 69 (helpers.cuh:90)",
                "; PTX line 71 (mistakes.cu:100)",
            ],
        ),
    ];
    for (kernel, parts) in mistakes {
        // The second time the binary is in the cache.
        for said in [run(kernel), run(kernel)] {
            for part in parts {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
    }
}

/// Each thread adds 1 to the number after its own. The last one reads past the buffer.
const NEXT: &str = ".version 7.0
.target sm_70
.address_size 64
.visible .entry next(.param .u64 a)
{
    .reg .b64 %a, %i; .reg .b32 %t, %v;
    ld.param.u64 %a, [a];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %i, %t, 4;
    add.u64 %a, %a, %i;
    ld.global.u32 %v, [%a+4];
    add.u32 %v, %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
";

/// Runs `NEXT` twice with a variable of the environment.
fn run_next(variable: &str, value: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("next.ptx");
    std::fs::write(&file, NEXT).unwrap();
    let file = file.to_string_lossy();
    let arguments = ["run", &*file, "--device", "cpu", "--block", "64"];
    let launch = ["--launches", "2", "--arg", "buf:u32:64=zeros"];
    let variables = [(variable, Path::new(value))];
    let cache = folder.path().join("cache");
    ptxkit_with(&cache, &variables, &[&arguments[..], &launch].concat())
}

#[test]
fn a_read_past_an_allocation_is_reported_once_or_a_fault() {
    let output = run_next("PTXKIT_CPU_READ_PAST", "report");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let warning = "warning: kernel next, PTX line 11: a read of 4 bytes at ";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    let place = "just past the end of the 256-byte allocation at ";
    assert!(said.contains(place), "{said}");

    let output = run_next("PTXKIT_CPU_READ_PAST", "fault");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("out-of-bounds read of 4 bytes"), "{said}");
}

#[test]
fn stages_of_the_compilation_are_printed() {
    for (stage, part) in [
        ("ir", "ld.global.u32 %r3, [%rd4+4]"),
        ("passes:next", "; live_ranges\nkernel next (line 4)"),
        ("clif", "\nfunction u0:0("),
        ("asm:next", "; next: "),
    ] {
        let output = run_next("PTXKIT_CPU_DUMP", stage);
        let said = stderr(&output);
        // The last thread reads past the buffer.
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{stage}: {said}");
    }
    for other in ["ir:other", "bogus"] {
        let said = stderr(&run_next("PTXKIT_CPU_DUMP", other));
        assert!(!said.contains("kernel next (line 4)"), "{said}");
    }
    let said = stderr(&run_next("PTXKIT_CPU_DUMP", "bogus"));
    assert!(said.contains("use ir, passes, simd, clif or asm"), "{said}");
}
