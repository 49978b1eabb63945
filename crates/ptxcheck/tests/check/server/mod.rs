//! `ptxcheck server`, with a client at its pipes.

mod bad_input;
pub mod client;
mod features;

use serde_json::{Value, json};

use super::*;
use client::Client;

/// Where a mark stands in a text, and the text without it.
fn marked(text: &str) -> (String, Value) {
    let at = text.find('‸').expect("a mark");
    let before = &text[..at];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
    let position = json!({"line": line, "character": column});
    (text.replacen('‸', "", 1), position)
}

/// The answer to a request about the place of the mark.
fn ask(method: &str, text: &str, more: Value) -> Result<Value, Value> {
    const URI: &str = "untitled:k.ptx";
    let (text, position) = marked(text);
    let mut client = Client::start(&mut program());
    client.open(URI, &text);
    let mut params = json!({"textDocument": {"uri": URI}, "position": position});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let answer = client.request(method, params);
    assert_eq!(client.end(), Some(0));
    answer
}

/// A range as `line:column-line:column`.
fn shown(range: &Value) -> String {
    let place = |place: &Value| format!("{}:{}", place["line"], place["character"]);
    format!("{}-{}", place(&range["start"]), place(&range["end"]))
}

/// The text after edits of the protocol, which do not overlap.
fn edited(text: &str, edits: &Value) -> String {
    let offset = |place: &Value| {
        let line = place["line"].as_u64().unwrap() as usize;
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let units = place["character"].as_u64().unwrap() as usize;
        let mut rest = text[start..].char_indices();
        let mut seen = 0;
        while seen < units {
            seen += rest.next().unwrap().1.len_utf16();
        }
        start + rest.next().map_or(text.len() - start, |(at, _)| at)
    };
    let mut edits: Vec<_> = edits
        .as_array()
        .unwrap()
        .iter()
        .map(|edit| {
            let range = &edit["range"];
            let span = offset(&range["start"])..offset(&range["end"]);
            (span, edit["newText"].as_str().unwrap())
        })
        .collect();
    edits.sort_by_key(|(span, _)| span.start);
    let mut text = text.to_owned();
    for (span, new) in edits.into_iter().rev() {
        text.replace_range(span, new);
    }
    text
}
