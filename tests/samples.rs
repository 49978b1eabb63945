//! The samples: each must give what it says.
#![cfg(feature = "cli")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use ptxkit::cli::sample::Sample;

/// The folder of the samples; packed tests find it by the environment.
fn samples() -> PathBuf {
    std::env::var_os("PTXKIT_SAMPLES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/ptx-samples")),
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

#[test]
fn every_sample_has_both_files() {
    assert!(names("ptx").len() >= 6);
    assert_eq!(names("ptx"), names("toml"));
}

#[test]
fn every_sample_expects_something() {
    for name in names("toml") {
        let path = samples().join(format!("{name}.toml"));
        let sample = Sample::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(sample.expects(), "{name}");
        assert!(sample.ptx.exists(), "{name}");
    }
}
