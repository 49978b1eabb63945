//! `ptxkit trace`. A change of the output that is meant is taken over by
//! `INSTA_UPDATE=always cargo test -p ptxkit-cli --test cli trace`.

use super::*;
use serde_json::Value;

/// Thread `i` of those below `n` writes three times the sum of the numbers up to `i`.
const SUMS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 out) triple(.param .b32 in)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [in];
	mul.lo.s32 %r2, %r1, 3;
	st.param.b32 [out], %r2;
	ret;
}
.func unused() { ret; }
.visible .entry sums(.param .u64 values, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .f32 %f<2>;
	.reg .b64 %rd<4>;
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [n];
	setp.ge.u32 %p1, %r1, %r2;
	@%p1 bra DONE;
	ld.param.u64 %rd1, [values];
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.b32 %r3, 0;
	mov.b32 %r4, 0;
LOOP:
	add.s32 %r3, %r3, %r4;
	add.s32 %r4, %r4, 1;
	setp.le.s32 %p2, %r4, %r1;
	@%p2 bra LOOP;
	{
	.param .b32 in; .param .b32 out;
	st.param.b32 [in], %r3; call (out), triple, (in);
	ld.param.b32 %r5, [out];
	}
	cvt.rn.f32.s32 %f1, %r5;
	@!%p1 st.global.f32 [%rd3], %f1;
DONE:
	ret;
}
";

fn trace(args: &[&str]) -> Output {
    let (folder, ptx) = file("sums.ptx", SUMS);
    let device = device();
    let launch = ["trace", &ptx, "--kernel", "sums", "--device", &device];
    ptxkit(folder.path(), &[&launch, args].concat())
}

/// 40 of 64 threads, which fill a warp and a part of the second.
const LAUNCH: [&str; 6] = [
    "--block",
    "64",
    "--arg",
    "buf:f32:40=zeros",
    "--arg",
    "u32:40",
];

#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = trace(&[&LAUNCH, args].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// Without the folder of the file.
fn snapshot(name: &str, text: &str) {
    let at = text.find("sums.ptx").unwrap_or(0);
    let start = text[..at]
        .rfind([' ', '\n', '>', ':'])
        .map_or(0, |at| at + 1);
    let text = [&text[..start], &text[at..]].concat();
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/trace"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn a_thread_with_its_values() {
    // Addresses differ from run to run.
    let text = printed(&["--thread", "2"]);
    let lines = text.lines().filter(|line| !line.contains("%rd"));
    snapshot("thread", &lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn json_has_the_values_of_each_step() {
    let text = printed(&["--thread", "3", "--format", "json"]);
    let steps: Vec<Value> = serde_json::from_str(&text).unwrap();
    let sums = steps.iter().filter(|step| step["line"] == 29);
    let sums: Vec<_> = sums.map(|step| step["writes"]["%r3"].as_str()).collect();
    assert_eq!(sums, ["0", "1", "3", "6"].map(Some));
    let call = steps.iter().position(|step| step["line"] == 35).unwrap();
    let inside = steps[call..].iter().find(|step| step["line"] == 8).unwrap();
    assert_eq!(inside["reads"]["%r1"], "6");
    assert_eq!(inside["writes"]["%r2"], "18");
    let store = steps.iter().find(|step| step["line"] == 39).unwrap();
    assert_eq!(store["reads"]["%f1"], "18");
    assert_eq!(store["executed"], true);
}

#[test]
fn a_thread_outside_of_the_work() {
    let text = printed(&["--thread", "63"]);
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert!(last[1].contains("bra DONE"), "{text}");
    assert!(last[0].trim_end().ends_with("ret;"), "{text}");
    let text = printed(&["--thread", "39", "--lines", "39"]);
    assert!(
        text.contains("%p1 = false") && !text.contains("skipped"),
        "{text}"
    );
}

#[test]
fn lines_registers_and_a_limit() {
    let lines = |args: &[&str]| printed(args).lines().count() - 1;
    assert_eq!(lines(&["--thread", "9", "--lines", "29"]), 10);
    assert_eq!(
        lines(&["--thread", "9", "--lines", "29", "--lines", "30-30"]),
        20
    );
    assert_eq!(lines(&["--thread", "9", "--register", "%p2"]), 20);
    let output = trace(&[&LAUNCH[..], &["--thread", "9", "--limit", "7"]].concat());
    assert_eq!(stdout(&output).lines().count(), 8);
    assert!(stderr(&output).contains("--limit"), "{}", stderr(&output));
    let whole = trace(&[&LAUNCH[..], &["--thread", "0", "--limit", "40"]].concat());
    assert_eq!(stderr(&whole), "");
}

#[test]
fn a_fault_ends_the_trace() {
    if on_gpu() {
        // A context that has failed unmaps its memory there.
        return;
    }
    let short = [
        "--block",
        "64",
        "--arg",
        "buf:f32:4=zeros",
        "--arg",
        "u32:5",
    ];
    let output = trace(&[&short[..], &["--thread", "4"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("    39  @!%p1 st.global.f32"), "{text}");
    assert!(
        last.contains("stopped here: %p1 = false, %rd3 = 0x"),
        "{text}"
    );
    assert!(last.ends_with("%f1 = 30"), "{text}");
    // The device names the line of the file.
    assert!(
        stderr(&output).contains("PTX line 39"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn coverage() {
    snapshot("coverage", &printed(&["--coverage"]));
    snapshot("lcov", &printed(&["--coverage", "--format", "lcov"]));
    let page = printed(&["--coverage", "--format", "html"]);
    snapshot("page", page.split_once("</style>").unwrap().1);
}

#[test]
fn coverage_of_several_blocks_and_axes() {
    let output = trace(&[
        "--grid",
        "2,3",
        "--block",
        "5,3,3",
        "--arg",
        "buf:f32:64=zeros",
        "--arg",
        "u32:4",
        "--coverage",
        "--format",
        "json",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let functions: Value = serde_json::from_slice(&output.stdout).unwrap();
    let functions = functions.as_array().unwrap();
    let kernel = functions.iter().find(|one| one["name"] == "sums").unwrap();
    let of = |line: u32| {
        let mut lines = kernel["lines"].as_array().unwrap().iter();
        lines.find(|one| one["line"] == line).unwrap().clone()
    };
    // 45 threads in two warps, of which x is below 4 for 36; both warps have the others, too.
    assert_eq!(of(19)["threads"], 270);
    assert_eq!(of(19)["partial_warps"], 0);
    assert_eq!(of(22)["taken"], 54);
    assert_eq!(of(23)["threads"], 216);
    assert_eq!(of(23)["partial_warps"], 12);
    // 1 to 4 times.
    assert_eq!(of(29)["executions"], 6 * 9 * (1 + 2 + 3 + 4));
    assert_eq!(kernel["entered"], 270);
    let unused = functions
        .iter()
        .find(|one| one["name"] == "unused")
        .unwrap();
    assert_eq!(unused["entered"], 0);
}

#[test]
fn wrong_input() {
    let message = |args: &[&str]| {
        let output = trace(&[&LAUNCH, args].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        stderr(&output)
    };
    assert!(message(&["--thread", "64"]).contains("1,1,1 blocks of 64,1,1 threads"));
    assert!(message(&["--thread", "1,2,3,4"]).contains("one to three numbers"));
    assert!(message(&["--lines", "9-3"]).contains("12-30"));
    assert!(message(&["--lines", "1-3"]).contains("none of these lines"));
    assert!(message(&["--register", "%r77"]).contains("register `%r77`"));
    assert!(message(&["--coverage", "--limit", "3"]).contains("--limit"));
    assert!(message(&["--format", "lcov"]).contains("--coverage"));
    assert!(message(&["--grid", "60000,60000", "--coverage"]).contains("--grid"));
    let (folder, path) = file("broken.ptx", &SUMS.replace("mul.wide.u32", "mul.wide.f32"));
    let output = ptxkit(folder.path(), &["trace", &path, "--kernel", "sums"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("broken.ptx:24"),
        "{}",
        stderr(&output)
    );
}

/// A kernel of a second and a half, in a terminal.
#[test]
fn a_long_launch_has_a_clock() {
    let ptx = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry slow()
{
	.reg .pred %p;
	.reg .b32 %r;
	mov.b32 %r, 0;
LOOP:
	nanosleep.u32 1000000;
	add.s32 %r, %r, 1;
	setp.lt.s32 %p, %r, 1500;
	@%p bra LOOP;
	ret;
}
";
    let (folder, path) = file("slow.ptx", ptx);
    let program = program();
    let command = format!(
        "'{}' trace '{path}' --kernel slow --coverage --device {}",
        program.display(),
        device()
    );
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("CUDA_CACHE_PATH", folder.path())
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("running slow"), "{text}");
    // It is gone at the end, and not in what a program reads.
    let read = ptxkit(
        folder.path(),
        &[
            "trace",
            &path,
            "--kernel",
            "slow",
            "--coverage",
            "--device",
            &device(),
        ],
    );
    assert!(read.status.success(), "{}", stderr(&read));
    assert_eq!(stderr(&read), "");
}
