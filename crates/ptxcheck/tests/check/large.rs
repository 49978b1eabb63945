//! Files as large as the largest in libraries: all of their findings, and memory in proportion.
//!
//! The text is a kernel of the samples again and again, each time with another name.
//! `PTXKIT_CHECK_MEGABYTES` says how large it is.

use super::server::client::Client;
use super::*;

use serde_json::{Value, json};

const SAMPLE: &str = include_str!("../../../../ptx-samples/matmul_shared.ptx");

/// So many bytes of memory for each byte of the text, and some for the program. Seen at 100 MB are
/// 6.3 on the command line and 12 in a server, which keeps the message with the text for a while.
const ON_COMMAND_LINE: usize = 8;
const IN_SERVER: usize = 16;
const OF_PROGRAM: usize = 128 << 20;

/// The text of a server from which on it shows errors alone.
const ERRORS_ALONE: usize = 16 << 20;

struct Large {
    text: String,
    /// The line of a store that has lost the barrier before it, in the kernel in the middle.
    race: usize,
    /// The line of a mistake in the last kernel.
    error: usize,
}

fn large() -> Large {
    let megabytes: usize = match std::env::var("PTXKIT_CHECK_MEGABYTES") {
        Ok(megabytes) => megabytes.parse().unwrap(),
        Err(_) => 2,
    };
    let (head, kernel) = SAMPLE.split_at(SAMPLE.find(".visible").unwrap());
    let (until, store) = kernel.split_at(kernel.find("st.shared.f32   [%store_b]").unwrap());
    let (of_race, of_error) = (until.lines().count() - 1, kernel.lines().count() - 2);
    let barrier = store.rfind("bar.sync").unwrap();
    let racy = format!("{until}{}// {}", &store[..barrier], &store[barrier..]);
    let wrong = kernel.replace("ret;", "rte;");
    let count = megabytes * 1_000_000 / kernel.len();
    let mut text = head.to_string();
    let mut lines = head.lines().count() + 1;
    let (mut race, mut error) = (0, 0);
    for number in 0..count {
        let content = match number {
            _ if number == count / 2 => {
                race = lines + of_race;
                &racy
            }
            _ if number == count - 1 => {
                error = lines + of_error;
                &wrong
            }
            _ => kernel,
        };
        text += &content.replace("matmul_shared", &format!("matmul_{number}"));
        lines += content.lines().count();
    }
    Large { text, race, error }
}

#[test]
fn a_large_file_on_the_command_line() {
    let Large { text, race, error } = large();
    let folder = folder(&[("large.ptx", &text)]);
    let args = ["large.ptx", "--jobs", "1", "--format", "json"];
    let program = program();
    let mut command = if cfg!(target_os = "linux") {
        // The kernel gives it no more.
        let kilobytes = (text.len() * ON_COMMAND_LINE + OF_PROGRAM) >> 10;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {kilobytes} && exec \"$@\""), "sh"]);
        shell.arg(program.get_program());
        shell
    } else {
        program
    };
    let ran: Ran = command
        .args(args)
        .current_dir(folder.path())
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    let found = found.as_array().unwrap();
    let places: Vec<_> = found
        .iter()
        .map(|one| {
            (
                one["code"].as_str().unwrap(),
                one["line"].as_u64().unwrap() as usize,
            )
        })
        .collect();
    assert_eq!(places, [("W0303", race), ("E0101", error)]);
}

#[test]
fn a_large_file_in_the_server() {
    const URI: &str = "untitled:large.ptx";
    let Large { text, race, error } = large();
    let mut client = Client::start(&mut program());
    client.open(URI, &text);
    let lines_of = |found: &[Value]| -> Vec<(String, u64)> {
        let place = |one: &Value| {
            let code = one["code"].as_str().unwrap_or("note").to_string();
            (code, one["range"]["start"]["line"].as_u64().unwrap() + 1)
        };
        found.iter().map(place).collect()
    };
    let expected = |more: usize| {
        let of = |code: &str, line: usize| (code.to_string(), (line + more) as u64);
        if text.len() <= ERRORS_ALONE {
            vec![of("W0303", race), of("E0101", error)]
        } else {
            vec![of("E0101", error), ("note".to_string(), 1)]
        }
    };
    let found = client.diagnostics(URI, 1);
    assert_eq!(lines_of(&found), expected(0));
    // Somebody types a line at its start, and asks for what stands there.
    let start = json!({"line": 0, "character": 0});
    let range = json!({"start": start, "end": start});
    client.change(URI, 2, &[(range, "// more\n")]);
    let found = client.diagnostics(URI, 2);
    assert_eq!(lines_of(&found), expected(1));
    let place = json!({"line": race, "character": 6});
    let params = json!({"textDocument": {"uri": URI}, "position": place});
    let hover = client.request("textDocument/hover", params).unwrap();
    assert!(
        hover["contents"].to_string().contains("st.shared"),
        "{hover}"
    );
    if cfg!(target_os = "linux") {
        let status = format!("/proc/{}/status", client.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let mut words = status.split_ascii_whitespace();
        words.find(|word| *word == "VmHWM:").unwrap();
        let most = words.next().unwrap().parse::<usize>().unwrap() << 10;
        let allowed = text.len() * IN_SERVER + OF_PROGRAM;
        assert!(most <= allowed, "{most} bytes of {allowed}");
    }
    assert_eq!(client.end(), Some(0));
}
