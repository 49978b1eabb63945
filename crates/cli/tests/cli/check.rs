//! `ptxkit trace --race`, `--memcheck` and `--initcheck`, on the CPU device. A change of the output
//! that is meant is taken over by `INSTA_UPDATE=always cargo test -p ptxkit-cli --test cli check`.

use super::*;
use serde_json::{Value, json};

/// Reverses numbers through shared memory; `barrier` stands between its write and its read.
fn reverse(barrier: &str) -> String {
    format!(
        "\
.version 7.0
.target sm_70
.address_size 64
.file 1 \"src/reverse.cu\"
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
	.loc 1 5 2
	st.shared.u32 [%r4], %r1;
	{barrier}
	xor.b32 %r5, %r2, 1020;
	add.u32 %r6, %r3, %r5;
	.loc 1 7 2
	ld.shared.u32 %r7, [%r6];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
	.loc 1 8 2
	st.global.u32 [%rd3], %r7;
	ret;
}}
"
    )
}

/// Reads from the heap after `free`, or frees twice.
fn heap(last: &str) -> String {
    format!(
        "\
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 pointer) malloc(.param .b64 size);
.extern .func free(.param .b64 pointer);
.visible .entry reuse(.param .u64 out)
{{
	.reg .b64 %rd<3>;
	.reg .b32 %r<2>;
	{{
	.param .b64 size; .param .b64 pointer;
	st.param.b64 [size], 64;
	call (pointer), malloc, (size);
	ld.param.b64 %rd1, [pointer];
	}}
	st.u32 [%rd1], 7;
	{{
	.param .b64 pointer;
	st.param.b64 [pointer], %rd1;
	call free, (pointer);
	{last}
	}}
	ld.param.u64 %rd2, [out];
	st.u32 [%rd2], %r1;
	ret;
}}
"
    )
}

fn check(text: &str, flags: &[&str]) -> Output {
    let (folder, ptx) = file("checked.ptx", text);
    ptxkit(folder.path(), &[&["trace", &ptx], flags].concat())
}

const BLOCK: [&str; 4] = ["--block", "256", "--arg", "buf:u32:256=zeros"];

/// What was found, without the folder and addresses.
#[track_caller]
fn found(text: &str, flags: &[&str]) -> String {
    let output = check(text, flags);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    let (_, text) = text.split_once("checked.ptx, ").unwrap();
    let mut parts = text.split("0x7");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        text + "ADDRESS" + rest
    })
}

#[track_caller]
fn finding(text: &str, flags: &[&str]) -> Value {
    let output = check(text, &[flags, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1);
    findings[0].clone()
}

#[track_caller]
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/check"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn a_race_has_both_threads_and_lines() {
    let flags = [&BLOCK[..], &["--race"]].concat();
    snapshot("race", &found(&reverse(""), &flags));
    let finding = finding(&reverse(""), &flags);
    assert_eq!(finding["kind"], "data race");
    assert_eq!(finding["thread"], json!([128, 0, 0]));
    assert_eq!(finding["line"], 16);
    assert_eq!(
        finding["source"],
        json!({ "file": "src/reverse.cu", "line": 5 })
    );
    assert_eq!(
        finding["access"],
        json!({ "bytes": 4, "writes": true, "atomic": false, "shared_offset": 512 })
    );
    let other = &finding["races_with"];
    assert_eq!(other["thread"], json!([127, 0, 0]));
    assert_eq!(
        (&other["line"], &other["writes"]),
        (&json!(21), &json!(false))
    );
    assert_eq!(other["source"]["line"], 7);
    assert_eq!(finding["allocation"], Value::Null);
}

#[test]
fn a_clean_kernel_has_no_findings() {
    let all = ["--race", "--memcheck", "--initcheck"];
    let output = check(&reverse("bar.sync 0;"), &[&BLOCK[..], &all].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.ends_with("checked.ptx, reverse: nothing found (checked: memory, race, init)\n"),
        "{text}"
    );
    let json = [&BLOCK[..], &["--race", "--format", "json"]].concat();
    let output = check(&reverse("bar.sync 0;"), &json);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["checks"], json!(["memory", "race"]));
    // Races are found where they are looked for.
    let output = check(&reverse(""), &[&BLOCK[..], &["--memcheck"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn an_access_out_of_bounds_has_its_buffer() {
    let short = ["--block", "256", "--arg", "buf:u32:100=zeros", "--memcheck"];
    snapshot("out_of_bounds", &found(&reverse("bar.sync 0;"), &short));
    let finding = finding(&reverse("bar.sync 0;"), &short);
    assert_eq!(finding["kind"], "out of bounds");
    assert_eq!(finding["thread"], json!([100, 0, 0]));
    let allocation = &finding["allocation"];
    assert_eq!(allocation["buffer"], "arg0");
    assert_eq!(
        (&allocation["bytes"], &allocation["freed"]),
        (&json!(400), &json!(false))
    );
    let [address, start] = [&finding["address"], &allocation["address"]];
    assert_eq!(address.as_u64().unwrap() - start.as_u64().unwrap(), 400);
}

#[test]
fn a_use_after_free_has_its_history() {
    let out = ["--arg", "buf:u32:1=zeros", "--memcheck"];
    let text = heap("ld.u32 %r1, [%rd1+8];");
    snapshot("use_after_free", &found(&text, &out));
    let finding = finding(&text, &out);
    let allocation = &finding["allocation"];
    assert_eq!(
        (&allocation["freed"], &allocation["bytes"]),
        (&json!(true), &json!(64))
    );
    assert_eq!(allocation["allocated_by"]["line"], 13);
    assert_eq!(allocation["freed_by"]["line"], 20);
    assert_eq!(allocation["freed_by"]["kernel"], "reuse");

    let twice = heap("call free, (pointer);");
    snapshot("double_free", &found(&twice, &out));
}

#[test]
fn a_read_of_unwritten_memory() {
    let text = reverse("bar.sync 0;").replace("st.shared.u32 [%r4], %r1;", "");
    let flags = [&BLOCK[..], &["--initcheck"]].concat();
    snapshot("unwritten", &found(&text, &flags));
    let output = check(&text, &[&BLOCK[..], &["--race"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_sample_names_its_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let vecadd = sample("vecadd.toml");
    let all = ["--race", "--memcheck", "--initcheck"];
    let output = ptxkit(folder.path(), &[&["trace", &vecadd], &all[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains(": nothing found"));
}

#[test]
fn wrong_input() {
    let message = |flags: &[&str]| {
        let output = check(&reverse(""), &[&BLOCK[..], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(output.stdout.is_empty());
        stderr(&output)
    };
    assert!(message(&["--race", "--device", "nvidia"]).contains("on the CPU device alone"));
    assert!(message(&["--race", "--coverage"]).contains("--coverage"));
    assert!(message(&["--memcheck", "--thread", "1"]).contains("--thread"));
    assert!(message(&["--race", "--format", "lcov"]).contains("text or JSON"));
    let output = check(
        &reverse(""),
        &["--race", "--block", "5000", "--arg", BLOCK[3]],
    );
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
}
