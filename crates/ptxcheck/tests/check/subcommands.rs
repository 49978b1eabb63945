//! `explain`, `rules`, `floors`, `cfg`, `resources`.

use super::*;

const KERNEL: &str = "\
.version 8.0
.target sm_80
.address_size 64

.const .f32 factor[4];
.extern .shared .b32 tail[];

.visible .entry scale(.param .u32 n, .param .u64 .ptr .global p)
.maxntid 128, 2
.minnctapersm 4
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<4>;
	.shared .f32 tile[128];
	.local .b8 scratch[12];

	ld.param.u32 %r1, [n];
	ld.param.u64 %rd1, [p];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r2, 0;
LOOP:
	mul.wide.u32 %rd3, %r2, 4;
	ld.const.f32 %f1, [factor];
	st.shared.f32 [tile], %f1;
	bar.sync 1;
	st.local.f32 [scratch], %f1;
	mov.u32 %r3, tail;
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, %r1;
	@%p1 bra LOOP;
	ret;
}
";

fn json(ran: &Ran) -> serde_json::Value {
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn every_code_is_listed_and_explained() {
    let here = Path::new(".");
    let rules = json(&ptxcheck(here, &["rules", "--output-format", "json"]));
    let rules = rules.as_array().unwrap();
    for code in ["E0101", "W0001", "W0103", "D0202"] {
        let rule = rules.iter().find(|rule| rule["code"] == code).unwrap();
        let name = rule["name"].as_str().unwrap();
        let by_code = ptxcheck(here, &["rule", code]);
        assert!(
            by_code.out.starts_with(&format!("# {code} {name}\n")),
            "{}",
            by_code.out
        );
        assert!(by_code.out.contains("```ptx\n"));
        if !code.starts_with('E') {
            assert_eq!(ptxcheck(here, &["rule", name]).out, by_code.out);
        }
    }
    let text = ptxcheck(here, &["rules"]).out;
    assert_eq!(text.lines().count(), rules.len());
    assert_eq!(ptxcheck(here, &["explain", "X0001"]).status, Some(2));
}

#[test]
fn floors_say_what_forces_them() {
    let folder = folder(&[("k.ptx", &KERNEL.replace("8.0", "9.0"))]);
    let ran = ptxcheck(folder.path(), &["floors", "k.ptx"]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.out.starts_with("k.ptx\n  .version "), "{}", ran.out);
    let floors = json(&ptxcheck(
        folder.path(),
        &["floors", "k.ptx", "--format", "json"],
    ));
    assert_eq!(floors[0]["says"]["version"], "9.0");
    assert!(floors[0]["version_forced_by"]["line"].is_u64(), "{floors}");
}

#[test]
fn errors_in_the_ptx_are_shown_and_status_1() {
    let wrong_name = KERNEL.replace("[n]", "[m]");
    let folder = folder(&[("syntax.ptx", BAD), ("name.ptx", &wrong_name)]);
    for command in ["floors", "resources", "cfg"] {
        for (file, code) in [("syntax.ptx", "E0101"), ("name.ptx", "E0201")] {
            let ran = ptxcheck(folder.path(), &[command, file]);
            assert_eq!(
                (ran.status, ran.out.as_str()),
                (Some(1), ""),
                "{command} {file}: {}",
                ran.err
            );
            assert!(
                ran.err.starts_with(&format!("error[{code}]: ")),
                "{}",
                ran.err
            );
            assert!(ran.err.contains(&format!("--> {file}:")), "{}", ran.err);
        }
        let ran = ptxcheck(folder.path(), &[command, "none.ptx"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{command}");
    }
}

#[test]
fn resources_are_those_of_the_text() {
    let folder = folder(&[("k.ptx", KERNEL)]);
    let all = json(&ptxcheck(
        folder.path(),
        &["resources", "k.ptx", "--format", "json"],
    ));
    let kernel = &all[0];
    assert_eq!(kernel["kernel"], "scale");
    assert_eq!(kernel["parameter_bytes"], 16);
    assert_eq!(kernel["parameters"][1]["offset"], 8);
    assert_eq!(kernel["parameters"][1]["pointer"], true);
    assert_eq!(kernel["shared_bytes"], 512);
    assert_eq!(kernel["dynamic_shared"], true);
    assert_eq!(kernel["local_bytes"], 12);
    assert_eq!(kernel["uses_local"], true);
    assert_eq!(kernel["constant_bytes"], 16);
    assert_eq!(
        kernel["registers"],
        serde_json::json!({ "b32": 5, "b64": 4, "f32": 3, "pred": 2 })
    );
    assert_eq!(kernel["barriers"]["numbers"], serde_json::json!([1]));
    assert_eq!(
        kernel["launch_bounds"]["maxntid"],
        serde_json::json!([128, 2])
    );
    assert_eq!(kernel["instructions"]["total"], 14);
    assert_eq!(kernel["instructions"]["by_opcode"]["bar"], 1);
    let text = ptxcheck(folder.path(), &["resources", "k.ptx"]).out;
    for words in [
        "scale (k.ptx:8)",
        "512 bytes, plus dynamic shared memory",
        ".maxntid 128, 2",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let ran = ptxcheck(folder.path(), &["resources", "k.ptx", "--kernel", "scael"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("did you mean `scale`?"), "{}", ran.err);
}

#[test]
fn graphs_are_for_graphviz_and_browsers() {
    let folder = folder(&[("k.ptx", KERNEL)]);
    let dot = ptxcheck(folder.path(), &["cfg", "k.ptx", "--kernel", "scale"]);
    assert_eq!(dot.status, Some(0), "{}", dot.err);
    for words in [
        "digraph \"scale\" {",
        "LOOP:\\l",
        "label=\"%p1\"",
        "label=\"!%p1\"",
        "color=\"blue\"",
    ] {
        assert!(dot.out.contains(words), "`{words}` is not in:\n{}", dot.out);
    }
    let svg = ptxcheck(folder.path(), &["cfg", "k.ptx", "--format", "svg"]);
    assert!(
        svg.out.contains("<svg") && svg.out.contains("LOOP:"),
        "{}",
        svg.err
    );
    let ran = ptxcheck(folder.path(), &["cfg", "k.ptx", "--output", "k.svg"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), ""));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("k.svg")).unwrap(),
        svg.out
    );
    let ran = ptxcheck(folder.path(), &["cfg", "k.ptx", "--output", "k.png"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains(".png") && ran.err.contains("--output-format"),
        "{}",
        ran.err
    );
    assert!(!folder.path().join("k.png").exists());
    let ran = ptxcheck(folder.path(), &["cfg", "k.ptx", "--kernel", "none"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("has no kernel `none`"), "{}", ran.err);
}
