//! The samples: each must give what it says, on the device that `PTXKIT_DEVICE` names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptxkit::ptx;
use ptxkit_cli::formula::FUNCTIONS;
use ptxkit_cli::sample::{ArgKind, Sample};
use serde_json::Value;

/// The folder of the samples; packed tests find it by the environment.
fn samples() -> PathBuf {
    std::env::var_os("PTXKIT_SAMPLES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ptx-samples")),
        PathBuf::from,
    )
}

/// The names of the files with this ending, without it.
fn names(ending: &str) -> BTreeSet<String> {
    std::fs::read_dir(samples())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// What `ptxkit run` says of a sample, whole or in slices, and its exit status.
fn run(sample: &Path, sliced: &str) -> (Value, i32) {
    let program =
        std::env::var("PTXKIT_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ptxkit").to_owned());
    let device = std::env::var("PTXKIT_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    let cache = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .arg("run")
        .arg(sample)
        .args(["--device", &device, "--format", "json"])
        .env("CUDA_CACHE_PATH", cache.path())
        .env("PTXKIT_SLICED", sliced)
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{}: {error}\n{}{}",
            sample.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (report, output.status.code().unwrap())
}

fn verify(name: &str) {
    for sliced in ["never", "always"] {
        let (report, status) = run(&samples().join(format!("{name}.toml")), sliced);
        assert_eq!(report["verified"], true, "{sliced}: {report:#}");
        assert_eq!(report["mismatches"], 0, "{sliced}: {report:#}");
        assert_eq!(status, 0);
    }
}

/// One test a sample, so that each is named where it fails.
macro_rules! samples {
    ($($name:ident)*) => {
        mod sample {
            $(#[test] fn $name() { super::verify(super::plain(stringify!($name))); })*
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

samples! {
    approximations assert atomics axpy_f64 barrier_reduce bf16 bf16_sm90 bits branch_table
    cas_double_add collatz conversions cube_root_f64 device_function dynamic_shared f16 grayscale
    heap histogram local_array r#match matmul matmul_shared matmul_wgmma module_variables param_struct
    partial_writes pitched
    printf reduction rounding saxpy scan simd_video spin_lock stencil tensor_tiles transpose vecadd vote
    warp_reduce wide_arithmetic
}

/// The product of Blackwell's tensor cores, which most GPUs and no other sample need.
#[test]
fn a_product_of_sm_100a() {
    let device = std::env::var("PTXKIT_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    match device.as_str() {
        "cpu" => verify("sm_100a/matmul_tcgen05"),
        other => eprintln!("left out: {other} may have no tensor memory"),
    }
}

/// A name without the mark that lets a keyword be one.
fn plain(name: &str) -> &str {
    name.trim_start_matches("r#")
}

#[test]
fn every_sample_has_both_files_and_a_test() {
    let tested: BTreeSet<String> = NAMES.iter().map(|name| plain(name).to_owned()).collect();
    assert_eq!(names("toml"), tested);
    assert_eq!(names("ptx"), tested);
}

#[test]
fn every_sample_expects_something() {
    for name in names("toml") {
        let path = samples().join(format!("{name}.toml"));
        let sample = Sample::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(sample.expects(), "{name}");
    }
}

/// The example in the documentation is a sample, and every function stands in its table.
#[test]
fn the_documentation_is_of_this_language() {
    let text = include_str!("../../../docs/samples.md");
    let block = |kind: &str| {
        let (_, block) = text.split_once(&format!("```{kind}\n")).unwrap();
        block.split_once("```").unwrap().0
    };
    let sample = Sample::parse(block("toml"), Path::new("example.toml")).unwrap();
    assert!(sample.expects());
    for function in FUNCTIONS {
        let call = format!("`{}(", function.name);
        assert!(text.contains(&call), "{} is not described", function.name);
    }
    let formula = block("text");
    let sample = format!(
        "grid = 1\nblock = 1\nargs = [
         {{ name = 'data', buffer = 'u8', init = [1, 1, 7] }},
         {{ name = 'n', scalar = 'u32', value = 3 }},
         {{ name = 'out', buffer = 'u32', count = 3, expect = '''{formula}''' }}]"
    );
    let sample = Sample::parse(&sample, Path::new("example.toml")).unwrap();
    let ArgKind::Buffer(buffer) = &sample.args[2].kind else {
        panic!("{sample:?}");
    };
    let expected = &buffer.expected.as_ref().unwrap().bytes;
    assert_eq!(
        expected,
        &[[0, 0, 0, 0], [3, 0, 0, 0], [7, 0, 0, 0]].concat()
    );
}

/// The assembler inside drivers takes nothing else.
#[test]
fn every_sample_is_plain_ascii() {
    for name in names("ptx") {
        let text = std::fs::read(samples().join(format!("{name}.ptx"))).unwrap();
        assert!(text.is_ascii(), "{name}");
    }
}

#[test]
fn the_front_end_finds_nothing_wrong() {
    for name in names("ptx") {
        let source = std::fs::read_to_string(samples().join(format!("{name}.ptx"))).unwrap();
        let reading = ptx::read(&source);
        let found = ptx::check(&reading.module, &source);
        assert_eq!(reading.diagnostics, [], "{name}");
        assert_eq!(found, [], "{name}");
    }
}

/// Runs the sample `name` with `from` in its text replaced by `to`: what is then expected is wrong.
fn run_planted(name: &str, from: &str, to: &str) -> (Value, i32) {
    let text = std::fs::read_to_string(samples().join(format!("{name}.toml"))).unwrap();
    assert!(text.contains(from), "{name} has no `{from}`");
    let ptx = samples().join(format!("{name}.ptx"));
    let ptx = ptx.to_str().unwrap();
    let text = format!(
        "ptx = '{ptx}'\nkernel = '{name}'\n{}",
        text.replace(from, to)
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("planted.toml");
    std::fs::write(&path, text).unwrap();
    run(&path, "auto")
}

#[test]
fn one_wrong_element_is_found() {
    let (report, status) = run_planted(
        "vecadd",
        "a[i] + b[i]",
        "a[i] + b[i] + if i == n - 1 { 1 } else { 0 }",
    );
    assert_eq!(report["verified"], false, "{report:#}");
    assert_eq!(report["mismatches"], 1, "{report:#}");
    assert_eq!(status, 1);
}

#[test]
fn a_kernel_that_writes_nothing_is_found() {
    // No thread is below n = 0, so that the memory stays as it was.
    let (report, status) = run_planted("vecadd", "value = 100000", "value = 0");
    assert_eq!(report["verified"], false, "{report:#}");
    assert_eq!(report["mismatches"], 100_000, "{report:#}");
    assert_eq!(status, 1);
}

#[test]
fn a_wrong_variable_of_the_module_is_found() {
    let (report, _) = run_planted("module_variables", r#"expect = "110""#, r#"expect = "111""#);
    assert_eq!(report["verified"], false, "{report:#}");
    assert_eq!(report["mismatches"], 1, "{report:#}");
}

#[test]
fn another_error_than_the_expected_is_found() {
    let (report, status) = run_planted("assert", "CUDA_ERROR_ASSERT", "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(report["verified"], false, "{report:#}");
    assert_eq!(status, 1);
}

#[test]
fn an_error_that_does_not_come_is_found() {
    let (report, status) = run_planted("assert", "5, 0, 7", "5, 6, 7");
    assert_eq!(report["verified"], false, "{report:#}");
    assert_eq!(status, 1);
}

#[test]
fn other_printed_text_is_found() {
    let (report, status) = run_planted("printf", "1.250 odd", "1.251 odd");
    assert_eq!(report["verified"], false, "{report:#}");
    assert_eq!(status, 1);
}
