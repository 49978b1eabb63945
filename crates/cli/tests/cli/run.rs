//! `ptxkit run`: results, report, cache.

use super::*;

fn run(cache: &Path, sample_name: &str, more: &[&str]) -> Output {
    let path = sample(sample_name);
    let device = device();
    let args = [&["run", &path, "--device", &device], more].concat();
    ptxkit(cache, &args)
}

/// The words of the line that starts with `name`.
fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.first() == Some(&name))
        .unwrap_or_else(|| panic!("no line `{name}` in:\n{text}"))
}

#[test]
fn the_second_run_is_a_hit_of_the_same_key() {
    let cache = tempfile::tempdir().unwrap();
    let first = run(cache.path(), "vecadd.toml", &[]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let first = stdout(&first);
    let second = stdout(&run(cache.path(), "vecadd.toml", &[]));
    let (miss, hit) = (line(&first, "cache"), line(&second, "cache"));
    assert_eq!((miss[1], hit[1]), ("miss", "hit"));
    assert_eq!(miss[2], hit[2]);
    assert_eq!(miss[2].len(), 12);
    assert_eq!(line(&second, "compile")[1], "0.000");
    assert_eq!(line(&second, "results")[1], "verified");
    for name in ["device", "image", "load", "launch"] {
        assert!(line(&second, name).len() > 1);
    }
}

#[test]
fn json_has_its_keys_and_nothing_else_is_printed() {
    let cache = tempfile::tempdir().unwrap();
    let output = run(cache.path(), "vecadd.toml", &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    let mut wanted = [
        "device",
        "image",
        "cache",
        "key",
        "compile_ms",
        "load_ms",
        "launch_ms",
        "verified",
        "mismatches",
    ];
    wanted.sort_unstable();
    assert_eq!(keys, wanted);
    assert_eq!(json["cache"], "miss");
    assert_eq!(json["verified"], true);
    assert_eq!(json["mismatches"], 0);
    assert_eq!(json["key"].as_str().unwrap().len(), 64);
    assert!(json["launch_ms"].as_f64().unwrap() >= 0.0);
}

#[test]
fn without_a_cache_it_is_off_and_still_runs() {
    let path = sample("vecadd.toml");
    let output = Command::new(program())
        .args(["run", &path, "--device", &device()])
        .env("CUDA_CACHE_DISABLE", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(line(&stdout(&output), "cache")[1], "off");
}

#[test]
fn a_cache_that_cannot_be_written_is_one_warning() {
    let (_folder, path) = file("occupied", "");
    let output = run(Path::new(&path), "vecadd.toml", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let warnings = stderr(&output);
    assert_eq!(warnings.matches("WARN").count(), 1, "{warnings}");
    assert!(warnings.contains("CUDA_CACHE_PATH"), "{warnings}");
}

#[test]
fn printed_text_is_checked_and_shown() {
    let cache = tempfile::tempdir().unwrap();
    let output = run(cache.path(), "printf.toml", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("block 1 thread  2:   2.500 even"), "{text}");
    let json = run(cache.path(), "printf.toml", &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["verified"], true);
}

#[test]
fn a_failing_assertion_is_verified_where_it_is_expected() {
    let cache = tempfile::tempdir().unwrap();
    let output = run(cache.path(), "assert.toml", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("Assertion `value > 0` failed"));
}

#[test]
fn wrong_results_are_counted_and_shown_and_the_status_is_1() {
    let ptx = std::fs::read_to_string(sample("vecadd.ptx")).unwrap();
    let (folder, _) = file("vecadd.ptx", &ptx.replace("add.rn.f32", "sub.rn.f32"));
    let toml = folder.path().join("vecadd.toml");
    std::fs::copy(sample("vecadd.toml"), &toml).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let toml = toml.display().to_string();
    let output = ptxkit(cache.path(), &["run", &toml, "--device", &device()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(line(&text, "results")[1], "WRONG:", "{text}");
    assert!(text.contains("expected") && text.contains("c["), "{text}");
}

#[test]
fn buffers_are_read_from_files_and_written_to_files() {
    let (folder, input) = file("a.bin", "");
    let output = folder.path().join("c.bin").display().to_string();
    let floats = |numbers: &[f32]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    std::fs::write(&input, floats(&[1.0, 2.0, 3.0, 4.0])).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let (from, to) = (format!("in:f32:@{input}"), format!("out:f32:4@{output}"));
    let ran = run(
        cache.path(),
        "vecadd.ptx",
        &[
            "--block",
            "4",
            "--arg",
            &from,
            "--arg",
            "buf:f32:4=10*i",
            "--arg",
            &to,
            "--arg",
            "u32:4",
        ],
    );
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert!(stdout(&ran).contains("not checked"));
    assert_eq!(
        std::fs::read(&output).unwrap(),
        floats(&[1.0, 12.0, 23.0, 34.0])
    );
}

#[test]
fn auto_says_which_device_and_why() {
    let cache = tempfile::tempdir().unwrap();
    let path = sample("vecadd.toml");
    let output = ptxkit(cache.path(), &["run", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        line(&text, "device").join(" ").contains("(auto: "),
        "{text}"
    );
}

#[test]
fn traces_go_to_standard_error_and_more_flags_tell_more() {
    let cache = tempfile::tempdir().unwrap();
    let traces = |flag: &str| {
        let output = run(cache.path(), "vecadd.toml", &[flag]);
        assert!(!stdout(&output).contains("selected"));
        stderr(&output)
    };
    let folder = cache.path().display().to_string();
    // A line for each step; with two flags the files, too.
    for (flag, steps, has_paths) in [
        ("-v", ["selected PTX", "cache miss", "compiled"], false),
        ("-vv", ["selected PTX", "cache hit", "module loaded"], true),
        ("-v", ["selected PTX", "cache hit", ""], false),
    ] {
        let text = traces(flag);
        assert!(
            steps.iter().all(|step| text.contains(step)),
            "{flag}: {text}"
        );
        assert_eq!(text.contains(&folder), has_paths, "{flag}: {text}");
    }
}
