//! `ptxkit inspect`, `explain`, `extract` and `assemble`, run as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::bomb::bomb;
use super::cuobjdump;
use super::fixtures::fixture;

/// Runs `ptxkit` in a folder that has a fixture; packed tests find it by the environment.
pub fn ptxkit(folder: &Path, arguments: &[&str]) -> Output {
    let program = std::env::var_os("PTXKIT_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxkit").into());
    let mut command = Command::new(program);
    for name in [
        "CUDA_FORCE_PTX_JIT",
        "CUDA_FORCE_JIT",
        "CUDA_DISABLE_PTX_JIT",
        "CUDA_DISABLE_JIT",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .current_dir(folder)
        .env("CUDA_CACHE_PATH", folder.join("cache"))
        .output()
        .unwrap()
}

pub fn with_fixture(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), fixture(name)).unwrap();
    folder
}

pub fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn inspect_gives_every_image_its_facts() {
    let folder = with_fixture("kernels.fatbin");
    let output = ptxkit(
        folder.path(),
        &["inspect", "kernels.fatbin", "--format", "json"],
    );
    let images: Vec<Value> = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(images.len(), 4);
    for (index, image) in images.iter().enumerate() {
        for key in [
            "index",
            "kind",
            "arch",
            "ptx_version",
            "size",
            "compression",
            "kernels",
        ] {
            assert!(image.get(key).is_some(), "{key} of {image}");
        }
        assert_eq!(image["index"], index);
        let kernels = image["kernels"].as_array().unwrap();
        assert_eq!(kernels.len(), 5);
        let large = kernels
            .iter()
            .find(|kernel| kernel["name"] == "_Z5large5LargeiPc")
            .unwrap();
        let sizes: Vec<_> = large["params"]
            .as_array()
            .unwrap()
            .iter()
            .map(|param| {
                (
                    param["offset"].as_u64().unwrap(),
                    param["size"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(sizes, [(0, 8000), (8000, 4), (8008, 8)]);
        let is_ptx = image["kind"] == "ptx";
        assert_eq!(large["registers"].is_null(), is_ptx);
        assert_eq!(image["ptx_version"].is_null(), !is_ptx);
    }
    assert_eq!(images[3]["arch"], "sm_100f");
    assert_eq!(images[3]["compression"], "zstd");
    let text = text(&ptxkit(folder.path(), &["inspect", "kernels.fatbin"]));
    assert!(
        text.contains("_Z5large5LargeiPc: ") && text.contains("at most 256x1x1 threads"),
        "{text}"
    );
    assert!(text.contains("parameters 0+8 8+20 28+4"), "{text}");
}

#[test]
fn explain_says_which_and_why_not_the_others() {
    let folder = with_fixture("kernels.fatbin");
    let explain = |more: &[&str]| {
        ptxkit(
            folder.path(),
            &[&["explain", "kernels.fatbin"], more].concat(),
        )
    };
    assert_eq!(
        text(&explain(&["--target", "sm_86"])),
        "image 0  cubin for sm_80: the only image that fits\n  \
         not 1: cubin for sm_90 does not run on sm_86\n  \
         not 2: cubin for sm_100f does not run on sm_86\n  \
         not 3: PTX for sm_100f needs a newer device than sm_86\n"
    );
    assert!(text(&explain(&["--target", "sm_103"])).starts_with("image 2  cubin for sm_100f"));
    let nothing = explain(&["--target", "sm_120"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stdout).starts_with("none  no image runs on sm_120"));

    let folder = with_fixture("every-zstd.fatbin");
    let forced =
        Command::new(std::env::var_os("PTXKIT_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxkit").into()))
            .args([
                "explain",
                "every-zstd.fatbin",
                "--target",
                "sm_90",
                "--driver",
                "12.4",
            ])
            .current_dir(folder.path())
            .env("CUDA_FORCE_PTX_JIT", "1")
            .output()
            .unwrap();
    let forced = text(&forced);
    assert!(
        forced.contains("PTX for sm_90a: the closest match"),
        "{forced}"
    );
    assert!(
        forced.contains("CUDA 12.4 reads: ptxkit lowers it"),
        "{forced}"
    );
    assert!(forced.contains("CUDA_FORCE_PTX_JIT is set"), "{forced}");
}

#[test]
fn extract_writes_what_cuobjdump_writes() {
    let folder = with_fixture("blocks-named.fatbin");
    let output = ptxkit(
        folder.path(),
        &[
            "extract",
            "blocks-named.fatbin",
            "--kind",
            "ptx",
            "-o",
            "out",
        ],
    );
    assert_eq!(text(&output).lines().count(), 3);
    let theirs = &cuobjdump::recorded()["blocks-named.fatbin"].ptx;
    for (index, target) in ["sm_75", "sm_80", "sm_90"].iter().enumerate() {
        let name = format!("out/blocks-named.{index}.{target}.ptx");
        let ours = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(&ours, &theirs[index]);
    }
    let output = ptxkit(
        folder.path(),
        &["extract", "blocks-named.fatbin", "--arch", "sm_35"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no such image"));
    let output = ptxkit(
        folder.path(),
        &["extract", "blocks-named.fatbin", "--kind", "sass"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("possible values: ptx, cubin"));
}

/// A stand-in for ptxas that writes how it was called, and fails where a file is gone.
#[cfg(unix)]
fn stand_in(folder: &Path) -> PathBuf {
    let (text, path) = (folder.join("ptxas.sh"), folder.join("ptxas"));
    let script = "#!/bin/sh\n\
        if [ \"$1\" = --version ]; then echo Build stand-in.1; exit; fi\n\
        [ -e working ] || { echo 'ptxas fatal: gone' >&2; exit 255; }\n\
        for last; do :; done\n\
        while [ \"$1\" != -o ]; do all=\"$all $1\"; shift; done\n\
        echo \"code$all\" > \"$2\"\n";
    std::fs::write(&text, script).unwrap();
    // Not written here: what another test starts meanwhile inherits the open file,
    // and no system executes a file that is open for writing.
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755"]).args([&text, &path]).status();
    assert!(installed.unwrap().success());
    path
}

#[cfg(unix)]
#[test]
fn assemble_asks_the_compiler_once() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    std::fs::write(folder.path().join("k.ptx"), ptx).unwrap();
    std::fs::write(folder.path().join("working"), "").unwrap();
    let ptxas = stand_in(folder.path());
    // Who names a ptxas need not say that it is the compiler.
    let assemble = |more: &[&str]| {
        let ptxas = ptxas.to_str().unwrap();
        let first = [
            "assemble", "k.ptx", "--target", "sm_90", "-o", "k.cubin", "--ptxas", ptxas,
        ];
        ptxkit(folder.path(), &[&first, more].concat())
    };
    let options = ["-O2", "--maxrregcount", "32", "--lineinfo"];
    assert!(text(&assemble(&options)).contains("cache    miss"));
    let code = || std::fs::read_to_string(folder.path().join("k.cubin")).unwrap();
    assert_eq!(
        code(),
        "code -arch=sm_90 -O2 --maxrregcount=32 -lineinfo -v\n"
    );
    std::fs::remove_file(folder.path().join("working")).unwrap();
    std::fs::remove_file(folder.path().join("k.cubin")).unwrap();
    assert!(text(&assemble(&options)).contains("cache    hit"));
    assert!(code().starts_with("code -arch=sm_90"));
    // Other options are other code, and the compiler is gone.
    let failed = assemble(&[]);
    assert_eq!(failed.status.code(), Some(2));
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(
        said.contains("k.ptx does not compile") && said.contains("gone"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_read_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("some"), "hello").unwrap();
    for command in [
        &["inspect", "some"][..],
        &["extract", "some"],
        &["explain", "some", "--target", "sm_90"],
        &["assemble", "some", "--target", "sm_90", "-o", "out"],
    ] {
        let output = ptxkit(folder.path(), command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.starts_with("error: some: it is text, but not PTX"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Needs a CUDA toolkit, whose folder `CUDA_HOME` names.
#[test]
#[ignore = "needs a CUDA toolkit"]
fn assemble_with_a_toolkit() {
    for (compiler, target) in [
        ("nvjitlink", "sm_90"),
        ("nvjitlink", "sm_100a"),
        ("ptxas", "sm_90a"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
        std::fs::write(folder.path().join("k.ptx"), ptx).unwrap();
        let arguments = [
            "assemble",
            "k.ptx",
            "--target",
            target,
            "-o",
            "k.cubin",
            "--compiler",
            compiler,
            "-O3",
        ];
        for state in ["cache    miss", "cache    hit"] {
            let said = text(&ptxkit(folder.path(), &arguments));
            assert!(said.contains(state), "{said}");
            let listed = text(&ptxkit(folder.path(), &["inspect", "k.cubin"]));
            assert!(
                listed.contains("cubin    ") && listed.contains("k: "),
                "{listed}"
            );
        }
        let wrong = ptx.replace("ret", "rot");
        std::fs::write(folder.path().join("k.ptx"), wrong).unwrap();
        let failed = ptxkit(folder.path(), &arguments);
        assert_eq!(failed.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&failed.stderr).contains("line 4"));
    }
}

#[test]
fn images_beyond_the_limit_of_a_file_are_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.fatbin"), bomb(3, 30 << 20)).unwrap();
    let output = ptxkit(
        folder.path(),
        &["inspect", "--kernels", "--format", "json", "b.fatbin"],
    );
    assert_eq!(output.status.code(), Some(1));
    let images: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(images[1]["kernels"][0]["name"], "k");
    assert!(images[2]["kernels"].is_null());
    let error = images[2]["error"].as_str().unwrap();
    assert!(error.contains("67108864 bytes in total"), "{error}");
    assert!(error.contains("ptxkit extract --index"), "{error}");

    let extract = |index| ptxkit(folder.path(), &["extract", "b.fatbin", "--index", index]);
    let all = extract("0,1,2");
    assert_eq!(all.status.code(), Some(1));
    let said = String::from_utf8_lossy(&all.stderr);
    assert!(
        said.contains("image 2: ") && said.contains("in total"),
        "{said}"
    );
    let path = folder.path().join("b.2.sm_80.ptx");
    assert!(!path.exists());
    text(&extract("2"));
    assert_eq!(std::fs::metadata(path).unwrap().len(), 30 << 20);
}

#[test]
fn a_damaged_image_is_status_1() {
    let folder = with_fixture("every-lz4.fatbin");
    let mut bytes = fixture("every-lz4.fatbin").to_vec();
    let size = u64::from_le_bytes(bytes[72..80].try_into().unwrap());
    bytes[72..80].copy_from_slice(&(size + 1).to_le_bytes());
    std::fs::write(folder.path().join("bad.fatbin"), bytes).unwrap();
    let inspect = |file| ptxkit(folder.path(), &["inspect", "--kernels", file]);
    assert_eq!(inspect("every-lz4.fatbin").status.code(), Some(0));
    let bad = inspect("bad.fatbin");
    assert_eq!(bad.status.code(), Some(1));
    let said = String::from_utf8_lossy(&bad.stdout);
    assert!(said.contains("cannot be unpacked"), "{said}");
}

#[test]
fn inspect_takes_files_and_folders() {
    let folder = with_fixture("kernels.fatbin");
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("library.so"), fixture("library.so")).unwrap();
    std::fs::write(inner.join("notes.txt"), "no image").unwrap();
    let listed = text(&ptxkit(
        folder.path(),
        &["inspect", "kernels.fatbin", "inner"],
    ));
    let heads: Vec<&str> = listed.lines().filter(|line| line.ends_with(':')).collect();
    assert_eq!(heads, ["kernels.fatbin:", "inner/library.so:"], "{listed}");
    let json = text(&ptxkit(
        folder.path(),
        &["inspect", ".", "--format", "json"],
    ));
    let images: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(images[0]["file"], "inner/library.so");
    assert_eq!(images.last().unwrap()["file"], "kernels.fatbin");

    let missing = ptxkit(folder.path(), &["inspect", "none.cubin", "kernels.fatbin"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("none.cubin: "));
    assert!(String::from_utf8_lossy(&missing.stdout).contains("kernels.fatbin:"));
    std::fs::write(folder.path().join("only.txt"), "no image").unwrap();
    std::fs::remove_dir_all(&inner).unwrap();
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(
        ptxkit(folder.path(), &["inspect", "inner"]).status.code(),
        Some(2)
    );
}

/// The only kernel stands in each image of a fatbin.
#[test]
fn run_needs_no_name_for_the_only_kernel_of_a_fatbin() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("two.fatbin"), bomb(2, 1000)).unwrap();
    let ran = text(&ptxkit(
        folder.path(),
        &["run", "two.fatbin", "--device", "cpu"],
    ));
    assert!(ran.contains("not checked"), "{ran}");
}

#[test]
fn occupancy_of_a_cubin_is_of_its_registers() {
    let folder = with_fixture("kernels.fatbin");
    let json = |arguments: &[&str]| -> Vec<Value> {
        let all = [arguments, &["--format", "json"]].concat();
        serde_json::from_str(&text(&ptxkit(folder.path(), &all))).unwrap()
    };
    let images = json(&["inspect", "kernels.fatbin"]);
    let mut cubins = images.iter().filter(|image| image["kind"] == "cubin");
    let cubin = cubins.next().unwrap();
    let arch = cubin["arch"].as_str().unwrap();
    let kernels = json(&["occupancy", "kernels.fatbin", "--target", arch]);
    let described = cubin["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), described.len());
    for (kernel, described) in kernels.iter().zip(described) {
        assert_eq!(kernel["kernel"], described["name"]);
        assert_eq!(kernel["block"]["registers"], described["registers"]);
        assert_eq!(kernel["registers_from"], "cubin");
        assert_eq!(kernel["target"], arch);
        assert!(kernel["resident"]["blocks"].as_u64().unwrap() > 0);
    }
    // Without a target, all images.
    assert!(json(&["occupancy", "kernels.fatbin"]).len() > kernels.len());
}

#[test]
fn occupancy_of_a_blob_is_that_of_its_cubin() {
    let folder = with_fixture("kernels.fatbin");
    let contents = ptxkit::image::contents(fixture("kernels.fatbin")).unwrap();
    let is_cubin = |entry: &ptxkit::image::Entry<'_>| entry.kind == ptxkit::image::EntryKind::Elf;
    let entry = contents.entries().find(is_cubin).unwrap();
    let policy = ptxkit::cache::Policy::disabled()
        .with_enabled(true)
        .with_path(folder.path().join("cache"));
    let cache = ptxkit::cache::Cache::new(policy);
    let key = ptxkit::cache::Key::from_bytes([7; 32]);
    let ptxkit::cache::Lookup::Miss(lock) = cache.lookup(&key) else {
        panic!("the cache is new");
    };
    // SAFETY: nothing loads it.
    unsafe {
        lock.put(
            &ptxkit::cache::Provenance::default(),
            &entry.unpack().unwrap(),
        )
    };
    drop(cache);
    let output = ptxkit(
        folder.path(),
        &["occupancy", "--blob", "070707", "--format", "json"],
    );
    let kernels: Vec<Value> = serde_json::from_str(&text(&output)).unwrap();
    assert!(!kernels.is_empty());
    assert!(
        kernels
            .iter()
            .all(|kernel| kernel["registers_from"] == "cubin")
    );
    assert_eq!(kernels[0]["place"], "blob 070707070707");
}
