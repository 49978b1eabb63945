//! The codes of sequences of driver calls, which `answers.txt` records from a GPU. Each section
//! of the file runs in a child process, as some leave a process without a usable device.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use ptxkit::driver::Device;
use ptxkit::driver::api::{self, Api};

use crate::support::{device, is_gpu};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/driver/answers.txt");
/// The section that a child process runs.
const SECTION: &str = "PTXKIT_TEST_SECTION";
/// Set by `scripts/driver-answers --record`.
const RECORD: &str = "PTXKIT_TEST_RECORD";
const TEST: &str = "answers::the_device_answers_as_an_h200";

/// Every entry takes integers and pointers, which the C calling convention passes alike. It
/// ignores those past the last parameter.
type Entry =
    unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> c_int;

macro_rules! find {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) = $base:literal $since:literal;)*) => {
        fn find(api: &Api, name: &str) -> Option<*const c_void> {
            match name {
                $(stringify!($name) => api.$name.map(|entry| entry as *const c_void),)*
                _ => None,
            }
        }
    };
}
api::driver_entries!(find);

/// The variables by name: each is 64 bits that the driver writes too.
fn variable(name: &str) -> &'static AtomicU64 {
    static VARIABLES: Mutex<BTreeMap<String, &'static AtomicU64>> = Mutex::new(BTreeMap::new());
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    variables
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(Box::default()))
}

fn set(name: &str, value: u64) {
    variable(name).store(value, Ordering::SeqCst);
}

fn value(word: &str) -> u64 {
    if let Some(name) = word.strip_prefix('&') {
        return variable(name).as_ptr().expose_provenance() as u64;
    }
    if let Some((name, offset)) = word.split_once('+') {
        return value(name) + value(offset);
    }
    if let Some((low, high)) = word.split_once(':') {
        return value(low) & u64::from(u32::MAX) | value(high) << 32;
    }
    match word.parse::<i64>() {
        Ok(number) => number.cast_unsigned(),
        Err(_) => variable(word).load(Ordering::SeqCst),
    }
}

/// Sets `name` to the address of a text, and `#name` to its length.
fn define(name: &str, escaped: &str) {
    let mut bytes = Vec::new();
    let mut rest = escaped;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend(before.bytes());
        rest = match after.strip_prefix('x') {
            Some(digits) => {
                bytes.push(u8::from_str_radix(&digits[..2], 16).expect("\\x and two digits"));
                &digits[2..]
            }
            None => {
                bytes.push(b'\n');
                after.strip_prefix('n').expect("\\n or \\x")
            }
        };
    }
    bytes.extend(rest.bytes());
    set(&format!("#{name}"), bytes.len() as u64 + 1);
    let text = CString::new(bytes).expect("a text without NUL").into_raw();
    set(name, text.expose_provenance() as u64);
}

/// Makes one call; its answer, if it has one.
fn call(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (&name, arguments) = words.split_first().expect("a call");
    let flag = |holds: bool| Some(u8::from(holds).to_string());
    match (name, arguments) {
        ("~", _) => {
            call(&text[1 + text.find('~')?..]);
            None
        }
        ("thread", _) => in_second_thread(arguments.join(" ")),
        ("let", [name, word]) => {
            set(name, value(word));
            None
        }
        ("array", [name, words @ ..]) => {
            let values: Vec<u64> = words.iter().map(|word| value(word)).collect();
            // The driver may write it.
            set(name, values.leak().as_mut_ptr().expose_provenance() as u64);
            None
        }
        ("show", [word]) => Some((value(word) as i32).to_string()),
        ("given", [word]) => flag(value(word) != 0),
        ("same", [one, other]) => flag(value(one) == value(other)),
        _ => {
            static DEVICE: OnceLock<Device> = OnceLock::new();
            let driver = DEVICE.get_or_init(device).driver();
            let Some(entry) = find(driver.api(), name) else {
                return Some("absent".to_owned());
            };
            let mut values = arguments.iter().map(|word| value(word));
            let v: [u64; 12] = std::array::from_fn(|_| values.next().unwrap_or(0));
            assert!(values.next().is_none(), "too many arguments: {text}");
            // SAFETY: the pointer is the entry's, which reads its own parameters alone. The rows
            // pass addresses of leaked memory that is large enough.
            let code = unsafe {
                let entry = std::mem::transmute::<*const c_void, Entry>(entry);
                entry(
                    v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11],
                )
            };
            Some(code.to_string())
        }
    }
}

fn in_second_thread(text: String) -> Option<String> {
    type Job = (String, mpsc::Sender<Option<String>>);
    static THREAD: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::spawn(move || {
            for (text, answer) in jobs {
                let _ = answer.send(call(&text)); // the row that waits for it may have failed
            }
        });
        sender
    });
    let (sender, answer) = mpsc::channel();
    thread.send((text, sender)).expect("the thread runs");
    answer.recv().expect("the thread answers")
}

/// The answers of calls in host functions.
static OF_HOST: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A host function: makes the calls of a text.
unsafe extern "C" fn run(calls: *mut c_void) {
    // SAFETY: the rows pass the address of a text of `define`, which is never freed.
    let calls = unsafe { std::ffi::CStr::from_ptr(calls.cast()) };
    let answers = answers_of(&calls.to_string_lossy());
    OF_HOST
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(answers);
}

fn answers_of(calls: &str) -> Vec<String> {
    let calls = calls.split(';').map(str::trim);
    calls
        .filter(|text| !text.is_empty())
        .filter_map(call)
        .collect()
}

/// Runs the calls of a row, once or with each capture mode.
fn answers(calls: &str) -> String {
    let calls = match calls.strip_prefix("capture ") {
        Some(calls) => format!(
            "cuStreamBeginCapture_v2 s *; {calls}; let g 0; cuStreamEndCapture s &g; given g"
        ),
        None => calls.to_owned(),
    };
    let modes = if calls.contains('*') { 3 } else { 1 };
    let each = (0..modes).map(|mode| {
        let mut answers = answers_of(&calls.replace('*', &mode.to_string()));
        answers.append(&mut OF_HOST.lock().unwrap_or_else(PoisonError::into_inner));
        answers.join(" ")
    });
    each.collect::<Vec<_>>().join(" / ")
}

/// Runs a section; prints the line number and the answers of each row.
fn run_section(number: usize) {
    set("run", run as *const c_void as u64);
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for (line, row) in section(number) {
        if let Some((name, text)) = row
            .strip_prefix("text ")
            .and_then(|row| row.split_once(" ="))
        {
            let mut text = text.strip_prefix(' ').unwrap_or(text).to_owned();
            for (name, other) in &texts {
                text = text.replace(&format!("${name}"), other);
            }
            define(name, &text);
            texts.insert(name, text);
        } else if let Some(calls) = row.strip_prefix("calls ") {
            let (name, calls) = calls.split_once(" = ").expect("calls NAME = CALLS");
            define(name, calls);
        } else {
            println!("answer {line} {}", answers(split(row).0));
        }
    }
}

fn split(row: &str) -> (&str, &str) {
    let (calls, answers) = row.rsplit_once('=').expect("CALLS = ANSWERS");
    (calls.trim(), answers.trim())
}

fn table() -> &'static str {
    static TABLE: OnceLock<String> = OnceLock::new();
    TABLE.get_or_init(|| std::fs::read_to_string(FILE).expect("the table can be read"))
}

/// The lines of section `number` with their indices.
fn section(number: usize) -> impl Iterator<Item = (usize, &'static str)> {
    let lines = table().lines().enumerate();
    let after = lines
        .filter(|(_, line)| line.starts_with("##") || !line.starts_with('#') && !line.is_empty());
    let mut current = 0;
    after.filter(move |(_, line)| {
        let is_title = line.starts_with("##");
        current += usize::from(is_title);
        current == number && !is_title
    })
}

fn child(section: usize) -> String {
    let program = std::env::current_exe().expect("the test's own program");
    let output = Command::new(program)
        .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
        .env(SECTION, section.to_string())
        .env_remove("PTXKIT_CHECK")
        .env("PTXKIT_CPU_TARGET", "sm_90")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the test's own program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        text
    } else {
        format!("{text}\n{}", String::from_utf8_lossy(&output.stderr))
    }
}

#[test]
fn the_device_answers_as_an_h200() {
    if let Ok(section) = std::env::var(SECTION) {
        return run_section(section.parse().expect("a number"));
    }
    let mut lines: Vec<String> = table().lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    let sections = table()
        .lines()
        .filter(|line| line.starts_with("##"))
        .count();
    for number in 1..=sections {
        let output = child(number);
        let found: BTreeMap<usize, &str> = output
            .lines()
            // The test harness prints on the first line.
            .filter_map(|line| line.split_once("answer ")?.1.split_once(' '))
            .filter_map(|(line, answers)| Some((line.parse().ok()?, answers.trim())))
            .collect();
        for (line, row) in section(number) {
            if row.starts_with("text ") || row.starts_with("calls ") {
                continue;
            }
            let (calls, answers) = split(row);
            let (expected, of_cpu) = answers.split_once('|').unwrap_or((answers, answers));
            let expected = if is_gpu() { expected } else { of_cpu }.trim();
            match found.get(&line) {
                Some(answers) if expected.is_empty() => {
                    lines[line] = format!("{calls} = {answers}").trim_end().to_owned();
                }
                Some(answers) if *answers == expected => {}
                Some(answers) => wrong.push(format!(
                    "answers.txt:{}: {calls}\n    expected {expected}\n    got      {answers}",
                    line + 1
                )),
                None => {
                    wrong.push(format!(
                        "answers.txt:{}: {calls}: the process ended\n{output}",
                        line + 1
                    ));
                    break;
                }
            }
        }
    }
    if std::env::var_os(RECORD).is_some() {
        std::fs::write(FILE, lines.join("\n") + "\n").expect("the table can be written");
    }
    assert!(
        wrong.is_empty(),
        "{} rows differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
