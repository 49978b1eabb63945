//! Clients that do what they should not, and edits of any kind.

use super::*;

const URI: &str = "untitled:k.ptx";

const REQUESTS: [&str; 12] = [
    "textDocument/hover",
    "textDocument/completion",
    "textDocument/definition",
    "textDocument/references",
    "textDocument/documentHighlight",
    "textDocument/prepareRename",
    "textDocument/rename",
    "textDocument/formatting",
    "textDocument/codeAction",
    "textDocument/documentSymbol",
    "textDocument/foldingRange",
    "textDocument/inlayHint",
];

/// What every request takes from it.
fn params(uri: &str, position: &Value) -> Value {
    json!({
        "textDocument": {"uri": uri},
        "position": position,
        "range": {"start": position, "end": {"line": u32::MAX, "character": u32::MAX}},
        "context": {"diagnostics": [], "includeDeclaration": true, "triggerKind": 1},
        "newName": "new",
        "options": {"tabSize": 8, "insertSpaces": false},
    })
}

#[test]
fn a_client_that_is_gone_ends_the_server() {
    let mut client = Client::start(&mut program());
    client.open(URI, GOOD);
    client.diagnostics(URI, 1);
    assert_eq!(client.gone(), Some(2));
    // Before the first word, within a message, and with `exit` alone.
    assert_eq!(Client::silent(&mut program()).gone(), Some(2));
    let mut client = Client::start(&mut program());
    client.write(b"Content-Length: 100\r\n\r\n{\"jsonrpc\"");
    assert_eq!(client.gone(), Some(2));
    let mut client = Client::start(&mut program());
    client.write(b"nonsense\r\n\r\n");
    assert_eq!(client.gone(), Some(2));
}

/// No memory is taken for what is announced, and a long path is not searched for settings.
#[test]
fn lengths_are_limited() {
    for length in [
        "99999999999999",
        "1073741824",
        "-1",
        "99999999999999999999999",
    ] {
        let mut client = Client::start(&mut program());
        client.write(format!("Content-Length: {length}\r\n\r\n{{}}").as_bytes());
        assert_eq!(client.gone(), Some(2), "{length}");
    }
    let mut client = Client::start(&mut program());
    let uri = format!("file://{}/k.ptx", "/a".repeat(20_000));
    client.open(&uri, GOOD);
    client.diagnostics(&uri, 1);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn requests_that_have_no_answer() {
    let mut client = Client::start(&mut program());
    let start = json!({"line": 0, "character": 0});
    for method in REQUESTS {
        let refused = client
            .request(method, params("file:///no.ptx", &start))
            .unwrap_err();
        assert_eq!(refused["message"], "file:///no.ptx is not open", "{method}");
    }
    client.open(URI, GOOD);
    let refused = client.request("textDocument/hover", json!({})).unwrap_err();
    assert_eq!(refused["code"], -32602);
    let wrong = json!({"textDocument": {"uri": URI}, "position": "here"});
    let refused = client.request("textDocument/hover", wrong).unwrap_err();
    assert_eq!(refused["code"], -32602);
    let refused = client
        .request("textDocument/colour", json!({}))
        .unwrap_err();
    assert_eq!(refused["code"], -32601);
    // Notifications that make no sense are passed over.
    client.notify("textDocument/didChange", json!({}));
    client.notify(
        "textDocument/didChange",
        json!({"textDocument": {"uri": "a:b", "version": 2}, "contentChanges": []}),
    );
    client.notify(
        "textDocument/didClose",
        json!({"textDocument": {"uri": "a:b"}}),
    );
    client.notify("$/whatever", Value::Null);
    client.change(URI, 2, &[(Value::Null, BAD)]);
    assert_eq!(client.diagnostics(URI, 2).len(), 1);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn positions_that_are_none() {
    let mut client = Client::start(&mut program());
    client.open(URI, "// 😀\r\n.version");
    let far = u32::MAX;
    for (line, character) in [(0, far), (far, 0), (far, far), (0, 4), (1, 9), (2, 0)] {
        let position = json!({"line": line, "character": character});
        for method in REQUESTS {
            let answer = client.request(method, params(URI, &position));
            let refused = answer.err().map(|error| error["code"].as_i64());
            assert!(
                matches!(refused, None | Some(Some(-32803))),
                "{method} {position}"
            );
        }
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn what_is_cancelled_is_answered_all_the_same() {
    let mut client = Client::start(&mut program());
    client.open(URI, GOOD);
    let start = json!({"line": 0, "character": 0});
    let ids: Vec<i64> = REQUESTS
        .iter()
        .map(|method| client.ask(method, params(URI, &start)))
        .collect();
    for id in &ids {
        client.notify("$/cancelRequest", json!({"id": id}));
    }
    for id in ids {
        let answer = client.answer(id);
        let cancelled = answer.err().map(|error| error["code"].clone());
        assert!(cancelled.is_none_or(|code| code == -32800 || code == -32803));
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn of_much_the_first_is_shown() {
    let many = BAD.replace("\trte;\n", &"\trte;\n".repeat(3000));
    let mut client = Client::start(&mut program());
    client.open(URI, &many);
    let found = client.diagnostics(URI, 1);
    assert_eq!(found.len(), 1001);
    let note = found[1000]["message"].as_str().unwrap();
    assert_eq!(
        note,
        "2000 more findings are not shown; `ptxcheck` lists them"
    );

    let megabytes = match std::env::var("PTXKIT_SERVER_MEGABYTES") {
        Ok(megabytes) => megabytes.parse().unwrap(),
        Err(_) => 17,
    };
    let code = "\tbar.sync 0;\n";
    let body = BAD.rfind('}').expect("a body");
    let lines = code.repeat((megabytes << 20) / code.len());
    let large = format!("{}{lines}{}", &BAD[..body], &BAD[body..]);
    client.change(URI, 2, &[(Value::Null, &large)]);
    let start = json!({"line": 6, "character": 2});
    for method in REQUESTS {
        let answer = client.request(method, params(URI, &start));
        let refused = answer.err().map(|error| error["code"].as_i64());
        assert!(matches!(refused, None | Some(Some(-32803))), "{method}");
    }
    let found = client.diagnostics(URI, 2);
    assert_eq!(found[0]["code"], "E0101");
    let note = found[1]["message"].as_str().unwrap();
    let said = format!("of a text of {megabytes} MB only errors are shown");
    assert!(note.starts_with(&said), "{note}");
    assert_eq!(client.end(), Some(0));
}

/// Edits at random: what the server says of the text is what it says of a new document
/// with that text, and every request has an answer in between.
#[test]
fn edits_at_random_against_the_whole_text() {
    const PIECES: [&str; 16] = [
        "",
        " ",
        "\n",
        "\r\n",
        "\r",
        ";",
        "{",
        "}",
        "add.",
        "%r1",
        "/*",
        "*/",
        "\"",
        "😀",
        "\tmov.b32 %r1, 1;\n",
        ".entry l() { ret; }",
    ];
    let seeds = match std::env::var("PTXKIT_SERVER_EDITS") {
        Ok(seeds) => seeds.parse().unwrap(),
        Err(_) => 3,
    };
    for seed in 1..=seeds {
        let mut state: u64 = seed;
        let mut random = move |below: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut client = Client::start(&mut program());
        let mut text = include_str!("../cases/mistakes.ptx").replace("add", "é\tadd");
        client.open(URI, &text);
        let mut version = 1;
        for round in 0..60 {
            let lines = text.lines().count() + 2;
            let mut changes = Vec::new();
            for _ in 0..=random(3) {
                let mut place = || json!({"line": random(lines), "character": random(12)});
                let (one, other) = (place(), place());
                let order = |place: &Value| (place["line"].as_u64(), place["character"].as_u64());
                let (start, end) = if order(&one) <= order(&other) {
                    (one, other)
                } else {
                    (other, one)
                };
                // Mostly small ones, so that something is left.
                let end = if random(8) == 0 { end } else { start.clone() };
                let piece = PIECES[random(PIECES.len())];
                text = replaced(&text, &start, &end, piece);
                changes.push((json!({"start": start, "end": end}), piece));
            }
            version += 1;
            client.change(URI, version, &changes);
            let position = json!({"line": random(lines), "character": random(12)});
            let method = REQUESTS[random(REQUESTS.len())];
            let id = client.ask(method, params(URI, &position));
            let answer = client.answer(id);
            let refused = answer.err().map(|error| error["code"].as_i64());
            assert!(
                matches!(refused, None | Some(Some(-32803))),
                "{method}: {refused:?}"
            );
            if round % 6 == 0 {
                let fresh = format!("untitled:{round}.ptx");
                let found = client.diagnostics(URI, version);
                client.open(&fresh, &text);
                assert_eq!(found, client.diagnostics(&fresh, 1), "seed {seed}:\n{text}");
            }
        }
        assert_eq!(client.end(), Some(0));
    }
}

/// The text after an edit, by the letter of the protocol: lines end with `\n`, `\r\n` or
/// `\r`, columns count UTF-16 code units, what lies behind a line or the text is its end.
fn replaced(text: &str, start: &Value, end: &Value, with: &str) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    let offset = |place: &Value| {
        let (mut line, mut at) = (0, 0);
        while line < place["line"].as_u64().unwrap() {
            let Some(unit) = units.get(at) else {
                return units.len();
            };
            let next = units.get(at + 1);
            at += 1;
            if *unit == 13 && next == Some(&10) {
                at += 1;
            }
            line += u64::from(*unit == 10 || *unit == 13);
        }
        let mut left = place["character"].as_u64().unwrap();
        while left > 0 && units.get(at).is_some_and(|unit| *unit != 10 && *unit != 13) {
            left -= 1;
            at += 1;
        }
        // Not within a pair.
        let low = |unit: &u16| (0xDC00..0xE000).contains(unit);
        at - usize::from(units.get(at).is_some_and(low))
    };
    let (start, end) = (offset(start), offset(end));
    let with: Vec<u16> = with.encode_utf16().collect();
    String::from_utf16(&[&units[..start], &with, &units[end.max(start)..]].concat()).unwrap()
}
