//! `ptxkit top`. A change of the output that is meant is taken over by
//! `INSTA_UPDATE=always cargo test -p ptxkit-cli --test cli top`. The view of terminals is tested
//! with `--features ptxkit-cli/top`.

use super::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;

/// A cache with two samples, of which one was hit.
fn prepared() -> tempfile::TempDir {
    let cache = tempfile::tempdir().unwrap();
    for name in ["vecadd.toml", "saxpy.toml", "vecadd.toml"] {
        let output = ptxkit(cache.path(), &["run", &sample(name), "--device", "cpu"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    cache
}

#[track_caller]
fn top(cache: &Path, args: &[&str]) -> String {
    let output = ptxkit(cache, &[&["top"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

#[track_caller]
fn message(args: &[&str]) -> String {
    let cache = tempfile::tempdir().unwrap();
    let output = ptxkit(cache.path(), &[&["top"], args].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert_eq!(stdout(&output), "");
    stderr(&output)
}

/// Without keys, sizes, ages, paths and the processor's name, which differ from run to run.
fn masked(text: &str) -> String {
    let word = |word: &str| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        let is_key = word.len() == 12 && word.bytes().all(|b| b.is_ascii_hexdigit());
        match word {
            _ if is_key => "KEY".to_owned(),
            _ if is_number => "N".to_owned(),
            _ if word.starts_with("cpu-") => "cpu".to_owned(),
            _ => word.rsplit('/').next().unwrap_or_default().to_owned(),
        }
    };
    let line = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        // `0 s`, the age of a blob.
        words.join(" ").replace(" 1 s ", " 0 s ")
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[track_caller]
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/top"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn once_is_a_table_and_json() {
    let cache = prepared();
    // Standard output is no terminal here, so `--once` is not needed.
    let text = top(cache.path(), &[]);
    snapshot("once", &masked(&text));
    assert_eq!(masked(&top(cache.path(), &["--once"])), masked(&text));

    let json = top(cache.path(), &["--once", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let values = &json["values"];
    assert_eq!(
        (&values["blobs"], &values["kernels"]),
        (&2.into(), &2.into())
    );
    assert_eq!(
        (&values["hits"], &values["in_compilation"]),
        (&1.into(), &0.into())
    );
    let modules = json["modules"].as_array().unwrap();
    let of = |name: &str| {
        let all: Vec<&Value> = modules.iter().map(|module| &module[name]).collect();
        all
    };
    assert_eq!(of("kernels"), ["vecadd", "saxpy"]);
    assert_eq!(of("hits"), [1, 0]);
    let bytes: u64 = of("bytes").iter().filter_map(|bytes| bytes.as_u64()).sum();
    assert_eq!(values["size"], bytes);
    assert_eq!(json["limit"], 1_u64 << 30);
}

#[test]
fn another_folder_and_another_order() {
    let cache = prepared();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = cache.path().display().to_string();
    let text = top(elsewhere.path(), &["--cache", &path, "--sort", "new"]);
    assert!(text.starts_with(&format!("source   {path}/")), "{text}");
    assert!(text.contains("vecadd") && text.contains("saxpy"), "{text}");
    // The folder of the blobs itself.
    let inner = top(elsewhere.path(), &["--cache", &format!("{path}/ptxkit-v1")]);
    assert!(inner.contains("vecadd"), "{inner}");
}

#[test]
fn an_empty_cache_is_said() {
    let cache = tempfile::tempdir().unwrap();
    let text = top(cache.path(), &["--once"]);
    assert!(
        text.ends_with("modules  none: nothing is cached there yet\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2);
    let json: Value = serde_json::from_str(&top(cache.path(), &["--format", "json"])).unwrap();
    assert_eq!(json["values"]["blobs"], 0);
    assert_eq!(json["modules"], Value::Array(Vec::new()));
}

/// Answers each request with the next of these texts, and then with the last; the address.
fn service(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        let mut last = String::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                request.push(byte[0]);
            }
            last = answers.next().unwrap_or(last);
            stream.write_all(last.as_bytes()).unwrap();
        }
    });
    format!("http://{address}/metrics")
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// What `Loader::counters().prometheus()` prints, in part.
const COUNTERS: &str = "\
# HELP ptxkit_loads_total Loads.
# TYPE ptxkit_loads_total counter
ptxkit_loads_total 42
# HELP ptxkit_modules Shared modules that are in use now.
# TYPE ptxkit_modules gauge
ptxkit_modules 7
# HELP ptxkit_cache_hits_total Lookups that found a blob.
# TYPE ptxkit_cache_hits_total counter
ptxkit_cache_hits_total 30
# HELP ptxkit_cache_misses_total Lookups that found no blob.
# TYPE ptxkit_cache_misses_total counter
ptxkit_cache_misses_total 12
# HELP ptxkit_compile_seconds_total Time that compilations took, summed over threads.
# TYPE ptxkit_compile_seconds_total counter
ptxkit_compile_seconds_total 1.500001
# HELP ptxkit_cache_written_bytes_total Bytes of the blobs stored.
# TYPE ptxkit_cache_written_bytes_total counter
ptxkit_cache_written_bytes_total 2048
process_open_fds 9
";

#[test]
fn a_service_answers_with_its_counters() {
    let cache = tempfile::tempdir().unwrap();
    let url = service(vec![answer("200 OK", COUNTERS)]);
    let text = top(cache.path(), &[&url]);
    let text = text.replace(&url, "http://localhost/metrics");
    snapshot("service", &text);
    let json: Value =
        serde_json::from_str(&top(cache.path(), &[&url, "--format", "json"])).unwrap();
    assert_eq!(json["values"]["misses"], 12);
    assert_eq!(json["values"]["compiling"], 1.500_001);
    assert_eq!(json["modules"], Value::Null);
}

#[test]
fn wrong_input() {
    assert!(message(&["--cache", "/nowhere"]).contains("/nowhere: there is no cache"));
    assert!(message(&["https://localhost/metrics"]).contains("forward a port"));
    assert!(message(&["localhost:1"]).contains("no address of counters"));
    for wrong in [
        "http://localhost:99999/",
        "http://localhost:port/",
        "http://:1/",
        "http://[::1/",
    ] {
        assert!(message(&[wrong]).starts_with("error: http://"), "{wrong}");
    }
    assert!(message(&["--interval", "0"]).contains("--interval"));
    assert!(message(&["http://localhost:1/", "--cache", "."]).contains("--cache"));
    // Nobody listens there: the port was given back.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}/metrics", listener.local_addr().unwrap());
    drop(listener);
    assert!(message(&[&closed]).contains("Loader::counters"));
    for (status, body, words) in [
        ("404 Not Found", "", "it answers 404 Not Found"),
        (
            "200 OK",
            "go_threads 3\n",
            "the answer has no counter ptxkit_",
        ),
        ("200 OK", "\u{0}\u{ff}", "the answer has no counter"),
    ] {
        let said = message(&[&service(vec![answer(status, body)])]);
        assert!(said.contains(words), "{said}");
    }
    let said = message(&[&service(vec!["nonsense\r\n\r\n".to_owned()])]);
    assert!(said.starts_with("error: http://127.0.0.1"), "{said}");
}

#[test]
fn a_disabled_cache_is_no_source() {
    let cache = prepared();
    let variables = [("CUDA_CACHE_DISABLE", Path::new("1"))];
    let output = ptxkit_with(cache.path(), &variables, &["top"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("CUDA_CACHE_DISABLE"),
        "{}",
        stderr(&output)
    );
    let path = cache.path().display().to_string();
    let output = ptxkit_with(cache.path(), &variables, &["top", "--cache", &path]);
    assert!(stdout(&output).contains("vecadd"), "{}", stderr(&output));
}

/// `ptxkit top` in a terminal of its own.
#[cfg(feature = "top")]
mod in_a_terminal {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
    use std::fs::File;
    use std::process::{Child, Command, ExitStatus};

    struct Pty {
        keys: File,
        /// The side of the program.
        terminal: File,
        program: Child,
        shown: String,
    }

    impl Pty {
        fn start(cache: &Path, args: &[&str]) -> Pty {
            let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&keys).unwrap();
            unlockpt(&keys).unwrap();
            let name = ptsname(&keys, Vec::new()).unwrap();
            let terminal = File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap();
            let size = Winsize {
                ws_row: 24,
                ws_col: 100,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            tcsetwinsize(&keys, size).unwrap();
            let side = || terminal.try_clone().unwrap();
            let program = Command::new(program())
                .arg("top")
                .args(args)
                .env("CUDA_CACHE_PATH", cache)
                .env("TERM", "xterm-256color")
                .env_remove("CUDA_CACHE_DISABLE")
                .stdin(side())
                .stdout(side())
                .stderr(side())
                .spawn()
                .unwrap();
            Pty {
                keys: File::from(keys),
                terminal,
                program,
                shown: String::new(),
            }
        }

        /// Reads until this is shown. A program that ends closes its side, but ours stays open:
        /// what never comes would be waited for, so the test has a limit of bytes.
        fn until(&mut self, words: &str) {
            let mut bytes = [0; 4096];
            while !self.shown.contains(words) {
                let count = self.keys.read(&mut bytes).unwrap();
                self.shown += &String::from_utf8_lossy(&bytes[..count]);
                assert!(self.shown.len() < 1 << 20, "no {words}: {}", self.shown);
            }
        }

        fn is_raw(&self) -> bool {
            let modes = tcgetattr(&self.terminal).unwrap().local_modes;
            !modes.contains(LocalModes::ICANON)
        }

        fn press(&mut self, keys: &[u8]) {
            self.keys.write_all(keys).unwrap();
        }

        fn end(mut self) -> (ExitStatus, String) {
            self.until("\u{1b}[?1049l");
            let status = self.program.wait().unwrap();
            assert!(!self.is_raw(), "the terminal is as it was");
            (status, self.shown)
        }
    }

    #[test]
    fn keys_end_it_and_the_terminal_is_restored() {
        let cache = prepared();
        for keys in [&b"q"[..], b"\x03"] {
            let mut pty = Pty::start(cache.path(), &[]);
            pty.until("saxpy");
            assert!(pty.is_raw() && pty.shown.contains("\u{1b}[?1049h"));
            pty.press(b"s");
            pty.until("USED");
            pty.press(keys);
            let (status, shown) = pty.end();
            assert!(status.success(), "{shown}");
        }
    }

    #[test]
    fn a_signal_ends_it_and_the_terminal_is_restored() {
        let cache = prepared();
        let mut pty = Pty::start(cache.path(), &[]);
        pty.until("saxpy");
        let program = rustix::process::Pid::from_child(&pty.program);
        rustix::process::kill_process(program, rustix::process::Signal::TERM).unwrap();
        let (status, shown) = pty.end();
        assert!(status.success(), "{shown}");
    }

    #[test]
    fn readings_follow_one_another() {
        let cache = tempfile::tempdir().unwrap();
        let more = COUNTERS.replace("hits_total 30", "hits_total 41");
        let answers = [COUNTERS, &more].map(|body| answer("200 OK", body));
        let failing = answer("503 Service Unavailable", "");
        let url = service([&answers[..], &[failing]].concat());
        let mut pty = Pty::start(cache.path(), &[&url, "--interval", "1"]);
        pty.until("30");
        pty.until("41");
        // A service that fails is asked again, and what it said stays.
        pty.until("503");
        pty.press(b"q");
        let (status, shown) = pty.end();
        assert!(status.success(), "{shown}");
    }

    #[test]
    fn what_fails_at_once_leaves_the_terminal_alone() {
        let cache = tempfile::tempdir().unwrap();
        let mut pty = Pty::start(cache.path(), &["--cache", "/nowhere"]);
        pty.until("there is no cache");
        assert_eq!(pty.program.wait().unwrap().code(), Some(2));
        assert!(!pty.is_raw() && !pty.shown.contains("\u{1b}[?1049h"));
    }
}
