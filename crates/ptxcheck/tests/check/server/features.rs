//! What the server answers.

use super::*;

const KERNEL: &str = "\
.version 8.0
.target sm_80
.address_size 64

.global .u32 table[4];

.visible .entry k(.param .u64 p)
{
	.reg .pred %p;
	.reg .b32 %r<4>;
	.reg .b32 %x;
	.reg .b64 %rd<2>;

	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.gt.u32 %p, %r1, 7;
	@%p bra DONE;
	mov.b32 %x, 1;
	{
		.reg .b32 %x;
		mov.b32 %x, 2;
		st.global.u32 [%rd1], %x;
	}
	st.global.u32 [%rd1], %x;
DONE:
	ret;
}
";

/// The kernel with a mark in the n-th `at`, behind its first letter.
fn at(place: &str, number: usize) -> String {
    let found = KERNEL.match_indices(place).nth(number);
    let (start, _) = found.unwrap_or_else(|| panic!("no {number}. {place}"));
    format!("{}‸{}", &KERNEL[..=start], &KERNEL[start + 1..])
}

fn hover(text: &str) -> String {
    let answer = ask("textDocument/hover", text, json!({})).unwrap();
    answer["contents"]["value"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn ranges(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|item| shown(&item["range"])).collect()
}

#[test]
fn diagnostics_follow_the_text() {
    let mut client = Client::start(&mut program());
    let uri = "file:///nowhere/k.ptx";
    client.open(uri, BAD);
    let found = client.diagnostics(uri, 1);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["code"], "E0101");
    assert_eq!(found[0]["severity"], 1);
    assert_eq!(found[0]["source"], "ptxcheck");
    assert_eq!(shown(&found[0]["range"]), "6:1-6:4");
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.ends_with("help: did you mean `ret`?"), "{message}");
    // `rte` becomes `ret` in two changes of one message.
    let place = |from: u32, to: u32| json!({"start": {"line": 6, "character": from}, "end": {"line": 6, "character": to}});
    client.change(uri, 2, &[(place(2, 3), ""), (place(3, 3), "t")]);
    assert_eq!(client.diagnostics(uri, 2), [] as [Value; 0]);
    // Columns count UTF-16 code units.
    client.change(
        uri,
        3,
        &[(Value::Null, &BAD.replace("\trte", "/* 😀 */ rte"))],
    );
    let found = client.diagnostics(uri, 3);
    assert_eq!(shown(&found.last().unwrap()["range"]), "6:9-6:12");
    let document = json!({"textDocument": {"uri": uri}});
    client.notify("textDocument/didClose", document);
    let last = client.next(|message| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["version"].is_null()
    });
    assert_eq!(last["params"]["diagnostics"], json!([]));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_settings_are_those_of_the_command_line() {
    let folder = folder(&[
        (
            "ptxcheck.toml",
            "deny = [\"W0202\"]\nexclude = [\"out/*\"]\n",
        ),
        ("k.ptx", DOUBTFUL),
        ("out/k.ptx", BAD),
    ]);
    let uri = |name: &str| format!("file://{}/{name}", folder.path().display());
    let mut client = Client::start(&mut program());
    let asked = client.next(|message| message["method"] == "client/registerCapability");
    let watched = &asked["params"]["registrations"][0];
    assert_eq!(watched["method"], "workspace/didChangeWatchedFiles");
    client.open(&uri("k.ptx"), DOUBTFUL);
    let found = client.diagnostics(&uri("k.ptx"), 1);
    assert_eq!(
        (&found[0]["code"], &found[0]["severity"]),
        (&json!("W0202"), &json!(1))
    );
    client.open(&uri("out/k.ptx"), BAD);
    assert_eq!(client.diagnostics(&uri("out/k.ptx"), 1), [] as [Value; 0]);

    let file = folder.path().join("ptxcheck.toml");
    std::fs::write(&file, "ignore = [\"W\"]\n").unwrap();
    let changes = json!({"changes": [{"uri": uri("ptxcheck.toml"), "type": 2}]});
    client.notify("workspace/didChangeWatchedFiles", changes.clone());
    assert_eq!(client.diagnostics(&uri("k.ptx"), 1), [] as [Value; 0]);
    assert_eq!(client.diagnostics(&uri("out/k.ptx"), 1).len(), 1);

    // A mistake in it is shown, and the documents are checked without it.
    std::fs::write(&file, "ignore = [\"W9\"]\n").unwrap();
    client.notify("workspace/didChangeWatchedFiles", changes);
    let shown = client.next(|message| message["method"] == "window/showMessage");
    let message = shown["params"]["message"].as_str().unwrap();
    assert!(message.contains("no code begins with `W9`"), "{message}");
    client.diagnostics(&uri("k.ptx"), 1);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn hover_on_instructions() {
    let text = hover(&at("setp", 0));
    assert!(text.starts_with("**setp**: compares"), "{text}");
    assert!(text.contains("since the beginning"), "{text}");
    let text = hover(&at("ld.param", 0));
    assert!(text.starts_with("**ld**: loads from memory"), "{text}");
    let text = hover(&at("%tid.x", 0));
    assert!(
        text.starts_with("**%tid.x**: the index of the thread"),
        "{text}"
    );
    let text =
        hover(".version 9.0\n.target sm_90\n.entry k() { .reg .b32 a; activema‸sk.b32 a; ret; }");
    assert!(
        text.contains("`activemask.b32` since PTX ISA 6.2, sm_30 or higher"),
        "{text}"
    );
}

#[test]
fn hover_on_names() {
    assert_eq!(
        hover(&at("%r1", 1)),
        "```ptx\n.reg .b32 %r<4>\n```\nwritten in line 15; here it differs between threads\n"
    );
    assert_eq!(
        hover(&at("%p bra", 0)),
        "```ptx\n.reg .pred %p\n```\nwritten in line 16; here it differs between threads\n"
    );
    // The outer `%x`, not the one of the block.
    assert!(hover(&at("%x", 5)).contains("written in line 18;"));
    assert!(hover(&at("%x", 3)).contains("written in line 21;"));
    assert_eq!(hover(&at("DONE", 0)), "```ptx\nDONE:\n```\n");
    assert_eq!(hover(&at("p];", 0)), "```ptx\n.param .u64 p\n```\n");
    let text = hover(&at("k(", 0));
    assert!(
        text.contains(".visible .entry k(.param .u64 p)\n```"),
        "{text}"
    );
    assert_eq!(hover(&format!("‸{KERNEL}")), "");
}

#[test]
fn definition_and_references() {
    let definition = |text: &str| {
        let answer = ask("textDocument/definition", text, json!({})).unwrap();
        shown(&answer["range"])
    };
    assert_eq!(definition(&at("DONE", 0)), "24:0-24:4");
    assert_eq!(definition(&at("%r1", 1)), "9:11-9:13");
    assert_eq!(definition(&at("%x", 3)), "19:12-19:14");
    assert_eq!(definition(&at("%x", 5)), "10:11-10:13");
    let references = |text: &str, declaration: bool| {
        let context = json!({"context": {"includeDeclaration": declaration}});
        ranges(&ask("textDocument/references", text, context).unwrap())
    };
    let outer = ["10:11-10:13", "17:9-17:11", "23:23-23:25"];
    assert_eq!(references(&at("%x", 1), true), outer);
    assert_eq!(references(&at("%x", 1), false), outer[1..]);
    // One register of a range, and all of it.
    assert_eq!(references(&at("%rd1", 0), false).len(), 3);
    assert_eq!(references(&at("%rd<", 0), false).len(), 3);
    assert_eq!(references(&at("%r1", 0), false).len(), 2);
    let highlights = ask("textDocument/documentHighlight", &at("DONE", 1), json!({})).unwrap();
    assert_eq!(ranges(&highlights), ["16:9-16:13", "24:0-24:4"]);
    let nothing = ask("textDocument/definition", &at("ret", 0), json!({})).unwrap();
    assert_eq!(nothing, Value::Null);
}

#[test]
fn functions_are_found_across_the_file() {
    let text = "\
.version 8.0
.target sm_80
.func f();
.entry k() { call f, (); ret; }
.func f() { ret; }
.entry l() { call ‸f, (); ret; }
";
    let definition = ask("textDocument/definition", text, json!({})).unwrap();
    assert_eq!(shown(&definition["range"]), "4:6-4:7");
    let context = json!({"context": {"includeDeclaration": true}});
    let found = ask("textDocument/references", text, context).unwrap();
    assert_eq!(
        ranges(&found),
        ["2:6-2:7", "3:18-3:19", "4:6-4:7", "5:18-5:19"]
    );
}

fn rename(text: &str, name: &str) -> Result<String, String> {
    let answer = ask("textDocument/rename", text, json!({"newName": name}));
    let message = |error: Value| error["message"].as_str().unwrap().to_owned();
    let edits = &answer.map_err(message)?["documentChanges"][0]["edits"];
    Ok(edited(&text.replace('‸', ""), edits))
}

#[test]
fn rename_keeps_to_scopes() {
    let outer = rename(&at("%x", 1), "%outer").unwrap();
    assert_eq!(outer.matches("%outer").count(), 3);
    assert!(
        outer.contains("\tmov.b32 %outer, 1;\n\t{\n\t\t.reg .b32 %x;"),
        "{outer}"
    );
    let inner = rename(&at("%x", 3), "%inner").unwrap();
    assert_eq!(inner.matches("%inner").count(), 3);
    let label = rename(&at("DONE", 0), "$end").unwrap();
    assert!(
        label.contains("bra $end;") && label.contains("\n$end:\n"),
        "{label}"
    );
    let parameter = rename(&at("p)", 0), "pointer").unwrap();
    assert!(parameter.contains("(.param .u64 pointer)") && parameter.contains("[pointer];"));
}

#[test]
fn what_is_not_renamed() {
    for (place, name, why) in [
        (
            at("%r1", 0),
            "%new",
            "`%r1` is declared by `%r<4>` together with others",
        ),
        (
            at("%r<", 0),
            "%new",
            "`%r` is declared by `%r<4>` together with others",
        ),
        (at("k(", 0), "new", "`k` is known outside of this file"),
        (at("table", 0), "new", "`table` belongs to the module"),
        (at("DONE", 0), "1st", "`1st` is no name of PTX"),
        (at("DONE", 0), "%tid", "`%tid` has a meaning of its own"),
        (at("DONE", 0), "p", "`p` is declared here already"),
        (at("%x", 3), "%rd1", "`%rd1` is declared here already"),
        (at("ret", 0), "new", "there is no name here"),
    ] {
        let refused = rename(&place, name).unwrap_err();
        assert!(refused.starts_with(why), "{refused}");
    }
    let refused = ask("textDocument/prepareRename", &at("%r1", 0), json!({})).unwrap_err();
    assert_eq!(refused["code"], -32803);
    let place = ask("textDocument/prepareRename", &at("%x", 0), json!({})).unwrap();
    assert_eq!(shown(&place), "10:11-10:13");
}

fn completed(text: &str) -> Vec<(String, String)> {
    let answer = ask("textDocument/completion", text, json!({})).unwrap();
    let items = answer.as_array().unwrap().iter().map(|item| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&item["label"]), text(&item["detail"]))
    });
    items.collect()
}

fn labels(text: &str) -> Vec<String> {
    completed(text)
        .into_iter()
        .map(|(label, _)| label)
        .collect()
}

#[test]
fn completion_by_the_tables() {
    let of_kernel = |line: &str| KERNEL.replace("\tret;\n", &format!("\t{line}\n\tret;\n"));
    let words = completed(&of_kernel("redux.sync.add.‸"));
    let texts: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!(texts[..2], ["u32", "s32"], "{words:?}");
    assert!(
        words[0].1.contains("PTX ISA 7.0, sm_80 or higher"),
        "{words:?}"
    );
    assert_eq!(labels(&of_kernel("cp.async.bulk.com‸"))[0], "commit_group");
    assert!(labels(&of_kernel("@%p ad‸")).contains(&"addc".to_owned()));
    let names = labels(&of_kernel("add.u32 %r1, %‸"));
    for name in ["%r<4>", "%x", "%tid.x", "p", "table", "DONE"] {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    // sm_80 has no clusters.
    assert!(!names.contains(&"%clusterid".to_owned()));
    assert!(labels(&of_kernel(".‸")).contains(&".shared".to_owned()));
    assert!(labels(&of_kernel(".reg .‸")).contains(&".b32".to_owned()));
    assert!(labels(".target ‸").contains(&"sm_90a".to_owned()));
    assert!(labels(".version 8.0\n.entry k() .m‸").contains(&".maxntid".to_owned()));
    assert_eq!(
        ask("textDocument/completion", "// ad‸", json!({})).unwrap(),
        Value::Null
    );
}

#[test]
fn formatting() {
    let options = json!({"options": {"tabSize": 4, "insertSpaces": true}});
    let kernel = KERNEL.replace("k(.param .u64 p)", "k(\n\t.param .u64 p\n)");
    let untidy = kernel.replace("\tmov.b32 %x, 1;", "mov.b32   %x,1 ; // one");
    let edits = ask(
        "textDocument/formatting",
        &format!("‸{untidy}"),
        options.clone(),
    )
    .unwrap();
    let tidy = kernel.replace("\tmov.b32 %x, 1;", "\tmov.b32 %x, 1; // one");
    assert_eq!(edited(&untidy, &edits), tidy);
    assert_eq!(ranges(&edits), ["19:0-20:0"], "one line is changed");
    let same = ask(
        "textDocument/formatting",
        &format!("‸{kernel}"),
        options.clone(),
    )
    .unwrap();
    assert_eq!(same, json!([]));
    let broken = ask("textDocument/formatting", "‸.entry k( {", options).unwrap();
    assert_eq!(broken, Value::Null);
}

#[test]
fn actions_fix_and_suppress() {
    let text = GOOD.replace(".version 5.1", ".version 9.0");
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}});
    let folder = folder(&[("ptxcheck.toml", "select = [\"D0202\"]\n")]);
    let uri = format!("file://{}/k.ptx", folder.path().display());
    let mut client = Client::start(&mut program());
    client.open(&uri, &text);
    let mut actions = |context: Value| {
        let params = json!({"textDocument": {"uri": uri}, "range": range, "context": context});
        client.request("textDocument/codeAction", params).unwrap()
    };
    let found = actions(json!({"diagnostics": []}));
    let titles: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|action| action["title"].as_str().unwrap())
        .collect();
    assert_eq!(
        titles,
        [
            "Fix D0202 newer-version-than-needed",
            "Suppress D0202 in this line"
        ]
    );
    let applied = |action: &Value| edited(&text, &action["edit"]["documentChanges"][0]["edits"]);
    assert!(
        applied(&found[0]).starts_with(".version 5.1\n")
            || applied(&found[0]).starts_with(".version 6.0\n")
    );
    assert!(applied(&found[1]).starts_with(".version 9.0  // ptxcheck: disable=D0202\n"));
    let all = actions(json!({"diagnostics": [], "only": ["source.fixAll"]}));
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert_eq!(all[0]["kind"], "source.fixAll.ptxcheck");
    assert_eq!(applied(&all[0]), applied(&found[0]));
}

/// A fix that may change what the code does says so, and no editor applies it unasked.
#[test]
fn an_unsafe_fix_is_named_and_not_preferred() {
    let text = ".version 6.0\n.target sm_60\n.address_size 64\n.entry k()\n{\n\t.reg .b32 r;\n\
                \tshfl.down.b32 r, r, 1, 31;\n\tret;\n}\n";
    let range = json!({"start": {"line": 6, "character": 0}, "end": {"line": 6, "character": 9}});
    let folder = folder(&[("ptxcheck.toml", "select = [\"D0101\"]\n")]);
    let uri = format!("file://{}/k.ptx", folder.path().display());
    let mut client = Client::start(&mut program());
    client.open(&uri, text);
    let mut actions = |context: Value| {
        let params = json!({"textDocument": {"uri": uri}, "range": range, "context": context});
        client.request("textDocument/codeAction", params).unwrap()
    };
    let found = actions(json!({"diagnostics": []}));
    assert_eq!(
        found[0]["title"],
        "Fix D0101 unsynchronized-warp-operation (unsafe)"
    );
    assert!(found[0]["isPreferred"].is_null(), "{found}");
    let all = actions(json!({"diagnostics": [], "only": ["source.fixAll"]}));
    assert_eq!(all, json!([]));
}

#[test]
fn outline_and_folding() {
    let symbols = ask(
        "textDocument/documentSymbol",
        &format!("‸{KERNEL}"),
        json!({}),
    )
    .unwrap();
    let name = |symbol: &Value| {
        format!(
            "{} {}",
            symbol["name"].as_str().unwrap(),
            symbol["detail"].as_str().unwrap()
        )
    };
    let names: Vec<String> = symbols.as_array().unwrap().iter().map(name).collect();
    assert_eq!(names, ["table .global .u32", "k .entry"]);
    let parts: Vec<String> = symbols[1]["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    assert_eq!(parts, ["DONE "]);
    let text = format!("‸/* two\nlines */\n{KERNEL}");
    let folds = ask("textDocument/foldingRange", &text, json!({})).unwrap();
    let lines: Vec<String> = folds
        .as_array()
        .unwrap()
        .iter()
        .map(|fold| format!("{}-{}", fold["startLine"], fold["endLine"]))
        .collect();
    assert_eq!(lines, ["8-28", "20-24", "0-1"]);
    assert_eq!(folds[2]["kind"], "comment");
}

#[test]
fn hints_say_what_the_file_needs() {
    let whole = json!({"range": {
        "start": {"line": 0, "character": 0},
        "end": {"line": 99, "character": 0},
    }});
    let text = "‸.version 9.0\n.target sm_90\n.entry k() { .reg .b32 a; activemask.b32 a; ret; }\n";
    let hints = ask("textDocument/inlayHint", text, whole.clone()).unwrap();
    let labels: Vec<String> = hints
        .as_array()
        .unwrap()
        .iter()
        .map(|hint| {
            format!(
                "{}:{} {}",
                hint["position"]["line"],
                hint["position"]["character"],
                hint["label"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(labels, ["0:12 needs 6.2", "1:13 needs sm_30"]);
    let why = hints[0]["tooltip"].as_str().unwrap();
    assert!(
        why.starts_with("line 3: ") && why.contains("activemask"),
        "{why}"
    );
    let exact =
        "‸.version 6.2\n.target sm_30\n.entry k() { .reg .b32 a; activemask.b32 a; ret; }\n";
    assert_eq!(
        ask("textDocument/inlayHint", exact, whole).unwrap(),
        json!([])
    );
}
