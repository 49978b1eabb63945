//! `ptxkit bench`. Times are of the machine: what is checked are counts, and what follows from
//! them.

use super::*;
use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let device = device();
    let few = ["--samples", "5", "--seconds", "1", "--device", &device];
    ptxkit(folder.path(), &[&["bench"], args, &few].concat())
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = bench(&[args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn work_is_counted() {
    let report = json(&[&sample("matmul_shared.toml")]);
    let version = &report["versions"][0];
    // c of 96 by 96 from a and b: an fma for each of 96 products.
    let n = 96;
    assert_eq!(version["work"]["f32"], 2 * n * n * n);
    assert_eq!(version["operations"], 2 * n * n * n);
    assert_eq!(version["kernel"], "matmul_shared");
    assert_eq!(version["buffer_bytes"], 3 * 4 * n * n);
    assert_eq!(version["work"]["stored"], 4 * n * n);
    let seconds = &version["seconds"];
    let of = |name: &str| seconds[name].as_f64().unwrap();
    assert!(0.0 < of("least") && of("least") <= of("median"));
    assert!(of("median") <= seconds["quartiles"][1].as_f64().unwrap());
    assert!(version["launches"].as_u64().unwrap() >= 1);
    assert_eq!(report["ratio"], Value::Null);
}

#[test]
fn versions_have_a_ratio() {
    let ptx = sample("vecadd.ptx");
    let report = json(&[&sample("vecadd.toml"), "--against", &ptx]);
    let [one, other] = [0, 1].map(|index| &report["versions"][index]);
    assert_eq!(one["work"], other["work"]);
    assert_eq!(one["samples"], other["samples"]);
    assert!(report["ratio"]["median"].as_f64().unwrap() > 0.0);
}

/// Two kernels, each with the launch of its own sample.
#[test]
fn samples_are_paired() {
    let other = sample("matmul.toml");
    let report = json(&[&sample("matmul_shared.toml"), "--against", &other]);
    let of = |index: usize, name: &str| report["versions"][index][name].clone();
    assert_eq!(of(0, "kernel"), "matmul_shared");
    assert_eq!(of(1, "kernel"), "matmul");
    assert_eq!(of(0, "operations"), 2 * 96 * 96 * 96);
    assert_eq!(of(1, "operations"), 2 * 70 * 70 * 70);
    assert_eq!(of(1, "buffer_bytes"), 3 * 4 * 70 * 70);
    assert!(report["ratio"]["median"].as_f64().unwrap() > 0.0);
    let text = stdout(&bench(&[
        &sample("matmul_shared.toml"),
        "--against",
        &other,
    ]));
    assert!(
        text.starts_with("kernel   matmul_shared and matmul on "),
        "{text}"
    );
}

#[test]
fn the_report_and_the_roofline() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("roof.svg").display().to_string();
    let sample = sample("saxpy.toml");
    let output = bench(&[&sample, "--roofline", &picture, "--peak", "1000"]);
    let text = stdout(&output);
    for line in [
        "kernel ", "time ", "samples ", "buffers ", "threads ", "flop ",
    ] {
        assert!(text.lines().any(|one| one.starts_with(line)), "{text}");
    }
    let picture = std::fs::read_to_string(&picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("saxpy.ptx</text>"), "{picture}");
}

/// Numbers of a machine as `#`, and the device as such.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let line = match line.strip_prefix("kernel ") {
            Some(_) => line.split_once(" on ").map_or(line, |(kernel, _)| kernel),
            None => line,
        };
        let is_measured = ["time", "samples", "ratio"]
            .iter()
            .any(|it| line.starts_with(it));
        // Of the others the rates alone, and what they are of.
        let words = line.split(' ').collect::<Vec<_>>();
        let words = words.iter().enumerate().map(|(at, word)| {
            let is_rate = ["GB/s", "GB/s)", "GB/s),", "GFLOP/s", "%"];
            let next = words.get(at + 1).unwrap_or(&"");
            let number = word.contains(|c: char| c.is_ascii_digit());
            match number && (is_measured || is_rate.iter().any(|unit| next.starts_with(unit))) {
                true if word.starts_with('(') => "(#",
                true => "#",
                false => word,
            }
        });
        masked.push_str(&words.collect::<Vec<_>>().join(" "));
        masked.push('\n');
    }
    masked
}

#[test]
fn the_report() {
    let text = stdout(&bench(&[&sample("saxpy.toml")]));
    // Times are in ns or us, as the machine is.
    let text = masked(&text).replace("# ns", "# us");
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/bench"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("report", text);
    });
}

/// Known at once: nothing is measured for it, and no report printed.
#[test]
fn a_picture_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("none/roof.svg").display().to_string();
    let output = bench(&[&sample("saxpy.toml"), "--roofline", &picture]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    let message = stderr(&output);
    assert!(message.contains("none/roof.svg: No such file"), "{message}");
}

#[test]
fn wrong_input() {
    let vecadd = sample("vecadd.toml");
    let output = bench(&[&sample("histogram.toml"), "--roofline", "none.svg"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--operations"),
        "{}",
        stderr(&output)
    );
    let output = bench(&[&vecadd, "--against", "none.ptx"]);
    assert!(stderr(&output).contains("none.ptx"), "{}", stderr(&output));
    let output = bench(&[&vecadd, "--against", "none.toml"]);
    assert!(stderr(&output).contains("none.toml"), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    let output = ptxkit(folder.path(), &["bench", &vecadd, "--samples", "1"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn peaks_are_above_what_is_measured() {
    let report = json(&[&sample("saxpy.toml")]);
    let peaks = &report["peaks"];
    if !on_gpu() {
        assert_eq!(*peaks, Value::Null);
        return;
    }
    let copy = report["copy_bytes_per_second"].as_f64().unwrap();
    let memory = peaks["bytes_per_second"].as_f64().unwrap();
    assert!(copy < memory && memory < 4.0 * copy, "{copy} of {memory}");
    let version = &report["versions"][0];
    let operations = version["operations"].as_f64().unwrap();
    let rate = operations / version["seconds"]["least"].as_f64().unwrap();
    assert!(rate < peaks["flops"]["f32"].as_f64().unwrap());
}
