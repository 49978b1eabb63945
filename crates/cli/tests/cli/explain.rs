//! `ptxkit explain`.

use super::*;

const PTX: &str = ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

fn explain(args: &[&str]) -> Output {
    let (_folder, path) = file("k.ptx", PTX);
    let cache = tempfile::tempdir().unwrap();
    ptxkit(cache.path(), &[&["explain", &path], args].concat())
}

#[test]
fn a_target_is_written_in_three_ways() {
    let said = stdout(&explain(&["--target", "sm_90"]));
    assert!(said.starts_with("image 0  "), "{said}");
    for target in ["90", "compute_90"] {
        assert_eq!(stdout(&explain(&["--target", target])), said);
    }
}

#[test]
fn a_driver_is_either_version_that_nvidia_smi_shows() {
    for (driver, said) in [
        ("12.4", "CUDA 12.4 reads its version"),
        ("580.65", "CUDA 13.0 (driver 580.65) reads its version"),
        (
            "12",
            "newer than the 8.0 that CUDA 12.0 (the first of CUDA 12) reads",
        ),
        (
            "535.183.01",
            "newer than the 8.2 that CUDA 12.2 (driver 535.183.01) reads",
        ),
    ] {
        let output = explain(&["--target", "90", "--driver", driver]);
        assert!(stdout(&output).contains(said), "{driver}: {output:?}");
    }
    let output = explain(&["--target", "90", "--driver", "new"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("12.4, or the driver's own, 580.65"));
}
