//! `report`: what is in the page. `src/report/page/test_page.py` looks at it in a browser.

use serde_json::json;

use super::*;

/// A branch that parts the threads of a warp, a loop, and a finding with a fix.
const KERNEL: &str = "\
.version 8.0
.target sm_80
.address_size 64
.file 1 \"/home/user/scale.cu\"

.visible .entry _Z5scaleIfEvPT_(.param .u64 .ptr .global .align 4 p)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b32 first;

	.loc 1 12 3
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u32 %r4, 0;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra REST;
	st.shared.b32 [first], 7;
	bar.sync 0;
REST:
	ld.shared.b32 %r2, [first];
	shl.b32 %r3, %r2, 40;
	st.global.b32 [%rd3], %r3;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p2, %r4, 9;
	@%p2 bra REST;
	ret;
}
";

/// The data of a page.
fn data(page: &str) -> serde_json::Value {
    let (_, after) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = after.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

fn page_of(folder: &Path, args: &[&str]) -> String {
    let all: Vec<&str> = ["report", "-o", "-", "--exit-zero"]
        .into_iter()
        .chain(args.iter().copied())
        .collect();
    let ran = ptxcheck(folder, &all);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    ran.out
}

#[test]
fn the_page_holds_findings_control_flow_registers_and_resources() {
    let folder = folder(&[("k.ptx", KERNEL)]);
    let page = page_of(folder.path(), &["k.ptx"]);
    assert_eq!(
        page,
        page_of(folder.path(), &["k.ptx"]),
        "each time the same"
    );
    assert_eq!(
        page.matches("mul.wide.u32 ").count(),
        1,
        "the text is in it once"
    );
    let data = data(&page);
    let rules = data["rules"].as_array().unwrap();
    let explained: Vec<&str> = rules
        .iter()
        .map(|rule| rule["explanation"].as_str().unwrap())
        .map(|text| text.lines().next().unwrap())
        .collect();
    assert_eq!(
        explained,
        ["# W0103 shift-beyond-width", "# W0301 divergent-barrier"]
    );

    let text = &data["texts"][0];
    assert_eq!(text["source"], KERNEL);
    assert_eq!(text["files"], json!(["/home/user/scale.cu"]));
    assert_eq!(text["locations"], json!([[13, 0, 12, 3]]));
    let barrier = &text["findings"][0];
    assert_eq!(barrier["code"], "W0301");
    assert_eq!(barrier["line"], 22);
    assert_eq!(barrier["from"], "/home/user/scale.cu:12:3");
    let at = |name: &str| barrier[name].as_u64().unwrap() as usize;
    assert_eq!(&KERNEL[at("start")..at("end")], "bar.sync");

    let kernel = &text["functions"][0];
    assert_eq!(kernel["demangled"], "void scale<float>(float*)");
    let flow = &kernel["flow"];
    let blocks = flow["blocks"].as_array().unwrap();
    let edges: Vec<_> = blocks.iter().map(|block| &block["edges"]).collect();
    assert_eq!(
        json!(edges),
        json!([
            [[1, "!%p1", false], [2, "%p1", false]],
            [[2, null, false]],
            [[2, "%p2", true], [3, "!%p2", false]],
            [],
        ])
    );
    assert_eq!(blocks[2]["labels"], json!(["REST"]));
    assert_eq!(
        flow["branches"],
        json!([{
            "block": 0, "line": 20, "parts": "thread", "meets": 2,
            "path": [["%p1", 19], ["%r1", 15], ["%tid.x", 15]],
        }])
    );
    let registers = kernel["registers"].as_array().unwrap();
    let register = |name: &str| registers.iter().find(|row| row[0] == name).unwrap();
    let of = |name: &str| &text["kinds"][register(name)[1].as_u64().unwrap() as usize];
    assert_eq!(
        *of("%rd3"),
        json!({"type": "b64", "same": "thread", "on": "lane, warp", "how": "4 × %tid.x + base"})
    );
    assert_eq!(of("%r4")["same"], "grid");
    assert_eq!(
        register("%r4")[3],
        json!([18, 27]),
        "the lines that write it"
    );
    let printed = ptxcheck(folder.path(), &["resources", "k.ptx", "--format", "json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(kernel["resources"], printed[0]);
}

/// Compilers put labels for debuggers between instructions.
#[test]
fn blocks_that_only_follow_one_another_are_one() {
    let parted = KERNEL.replace("\tmov.u32 %r4, 0;\n", "$tmp0:\n\tmov.u32 %r4, 0;\n$tmp1:\n");
    let folder = folder(&[("k.ptx", KERNEL), ("parted.ptx", &parted)]);
    let data = data(&page_of(folder.path(), &["k.ptx", "parted.ptx"]));
    let count = |text: usize| &data["texts"][text]["functions"][0]["flow"]["block_count"];
    assert_eq!((count(0), count(1)), (&json!(4), &json!(4)));
}

#[test]
fn nothing_in_a_text_becomes_markup() {
    let evil = "</script><script>hacked()</script><!--<img src=x onerror=hacked()>";
    let source =
        format!("// {evil}\n.file 1 \"{evil}\"\n{BAD}").replace("rte;", &format!("{evil};"));
    let folder = folder(&[("a</title><b>.ptx", source.as_str())]);
    let page = page_of(folder.path(), &["a</title><b>.ptx"]);
    assert_eq!(data(&page)["texts"][0]["source"], source.as_str());
    assert!(!page.contains("<img") && !page.contains("<b>"));
    for tag in ["<script", "</script", "</title"] {
        let expected = if tag == "</title" { 1 } else { 2 };
        assert_eq!(page.matches(tag).count(), expected, "{tag}");
    }
    assert!(page.contains("<title>a&lt;/title>&lt;b>.ptx: ptxcheck</title>"));
}

#[test]
fn the_page_asks_for_nothing_from_outside() {
    let folder = folder(&[("k.ptx", GOOD)]);
    let page = page_of(folder.path(), &["k.ptx"]);
    assert!(page.contains("default-src 'none'"));
    for word in [
        "src=",
        "@import",
        "url(",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ] {
        let outside = page.matches(word).count()
            - page.matches("url(#").count() * usize::from(word == "url(");
        assert_eq!(outside, 0, "{word}");
    }
    // The namespace of SVG is a name.
    assert_eq!(page.matches("http").count(), 2, "one is http-equiv");
}

#[test]
fn exit_statuses_and_options_are_those_of_a_check() {
    let folder = folder(&[
        ("good.ptx", GOOD),
        ("bad.ptx", BAD),
        ("doubtful.ptx", DOUBTFUL),
        ("ptxcheck.toml", "ignore = [\"W0202\"]"),
    ]);
    let run = |args: &[&str]| {
        let all: Vec<&str> = std::iter::once("report")
            .chain(args.iter().copied())
            .collect();
        ptxcheck(folder.path(), &all)
    };
    let ran = run(&["good.ptx"]);
    assert_eq!(
        (ran.status, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "", "report.html: no findings\n")
    );
    assert!(folder.path().join("report.html").is_file());
    let ran = run(&["bad.ptx", "-o", "x.html"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(1), "x.html: 1 error\n")
    );
    assert_eq!(run(&["bad.ptx", "-o", "x.html", "-e", "-q"]).err, "");
    assert_eq!(run(&["bad.ptx", "--ignore", "E"]).status, Some(0));
    assert_eq!(
        run(&["doubtful.ptx"]).status,
        Some(0),
        "its code is ignored"
    );
    let ran = run(&["doubtful.ptx", "--isolated"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(
        run(&["doubtful.ptx", "--isolated", "--max-warnings", "1"]).status,
        Some(0)
    );

    let ran = run(&["none.ptx", "-o", "none.html"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("none.ptx"), "{}", ran.err);
    assert!(!folder.path().join("none.html").exists());
    let ran = run(&["good.ptx", "none.ptx", "-o", "y.html"]);
    assert_eq!(ran.status, Some(2));
    let page = std::fs::read_to_string(folder.path().join("y.html")).unwrap();
    let data = data(&page);
    assert_eq!(data["texts"].as_array().unwrap().len(), 1);
    assert!(data["failures"][0].as_str().unwrap().contains("none.ptx"));
    let ran = run(&["good.ptx", "-o", "no/folder/x.html"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("no/folder/x.html"), "{}", ran.err);
    let page = ptxcheck_on(
        BAD,
        &["report", "-", "-o", "-", "--stdin-filename", "in.ptx"],
    );
    assert_eq!(page.status, Some(1));
    assert!(page.out.contains("\"name\":\"in.ptx\""));
}

/// So many blocks, each with its label.
fn blocks(count: usize) -> String {
    let mut body = String::new();
    for index in 0..count / 2 {
        body += &format!(
            "\tsetp.ne.u32 %p1, %r1, {index};\n\t@%p1 bra L{index};\n\tst.shared.b32 [first], {index};\nL{index}:\n"
        );
    }
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n\
         \t.reg .pred %p<2>;\n\t.reg .b32 %r<2>;\n\t.shared .align 4 .b32 first;\n\
         \tmov.u32 %r1, %tid.x;\n{body}\tret;\n}}\n"
    )
}

#[test]
fn a_huge_graph_is_left_out_and_its_branches_are_not() {
    let folder = folder(&[("k.ptx", &blocks(4000)), ("small.ptx", &blocks(100))]);
    let data = data(&page_of(folder.path(), &["k.ptx", "small.ptx"]));
    let flow = |text: usize| data["texts"][text]["functions"][0]["flow"].clone();
    let (huge, small) = (flow(0), flow(1));
    assert_eq!(huge["block_count"], 4001);
    assert_eq!(huge["blocks"].as_array().unwrap().len(), 0);
    assert_eq!(huge["branches"].as_array().unwrap().len(), 2000);
    assert_eq!(small["blocks"].as_array().unwrap().len(), 101);
}

#[test]
fn a_large_text_makes_a_page_of_about_its_size() {
    let kernel = KERNEL.split_once(".visible").unwrap().1;
    let mut source = KERNEL.to_owned();
    for index in 0..600 {
        source += ".visible";
        source += &kernel.replace("_Z5scaleIfEvPT_", &format!("kernel_{index}"));
    }
    let folder = folder(&[("k.ptx", &source)]);
    let page = page_of(folder.path(), &["k.ptx", "--ignore", "W"]);
    assert!(
        page.len() < 5 * source.len(),
        "{} of {}",
        page.len(),
        source.len()
    );
}
