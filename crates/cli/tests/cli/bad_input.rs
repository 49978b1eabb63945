//! Each wrong input: one clear message, exit status 2, never a panic.

use super::*;

/// Runs what must fail; gives what it said.
fn refused(args: &[&str]) -> String {
    let cache = tempfile::tempdir().unwrap();
    let output = ptxkit(cache.path(), args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    said
}

/// The same for vecadd with flags.
fn refused_vecadd(more: &[&str]) -> String {
    let (ptx, device) = (sample("vecadd.ptx"), device());
    refused(&[&["run", &ptx, "--device", &device], more].concat())
}

#[track_caller]
fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "`{word}` is not in:\n{said}");
    }
}

#[test]
fn a_missing_file() {
    for name in ["none.toml", "none.ptx"] {
        let said = refused(&["run", name]);
        says(
            &said,
            &["error: none.", "No such file", "help: give a sample"],
        );
    }
}

#[test]
fn a_sample_whose_ptx_is_missing() {
    let (_folder, path) = file("alone.toml", "grid = 1\nblock = 1\n");
    says(&refused(&["run", &path]), &["alone.ptx", "No such file"]);
}

#[test]
fn what_is_not_ptx() {
    for (content, words) in [
        ("", "it is empty"),
        ("__global__ void k() {}", "nvcc -ptx"),
        ("hello", "PTX starts with .version"),
    ] {
        let (_folder, path) = file("x.ptx", content);
        says(&refused(&["run", &path]), &["error: ", words, "help: "]);
    }
}

#[test]
fn an_unknown_key_of_a_sample() {
    let (_folder, path) = file("x.toml", "grid = 1\nblock = 1\nblok = 2\n");
    let said = refused(&["run", &path]);
    says(&said, &["blok", "`block`", "3 |", "help: "]);
}

#[test]
fn a_syntax_error_is_shown_with_its_line_and_column() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
                .visible .entry k()\n{\n  .reg .b32 %r<3>;\n  foo.u32 %r1, %r2;\n  ret;\n}\n";
    let (_folder, path) = file("bad.ptx", text);
    let said = refused(&["run", &path, "--kernel", "k", "--device", "cpu"]);
    says(
        &said,
        &["error[E0101]", "bad.ptx:7:3", "foo.u32 %r1, %r2;", "^^^"],
    );
}

#[test]
fn an_unknown_kernel() {
    let said = refused_vecadd(&["--kernel", "vecsub"]);
    says(&said, &["no kernel `vecsub`", "help: ", "`vecadd`"]);
    let said = refused_vecadd(&["--kernel", "vecad"]);
    says(&said, &["did you mean `vecadd`"]);
}

#[test]
fn the_wrong_number_of_arguments() {
    let said = refused_vecadd(&["--grid", "4", "--block", "256"]);
    says(
        &said,
        &[
            "takes 4 arguments, found 0",
            "help: it is declared as vecadd(",
            ".u32 ",
        ],
    );
}

#[test]
fn an_argument_of_the_wrong_type() {
    let buffer = ["--arg", "buf:f32:4"].repeat(3);
    let said = refused_vecadd(&[&buffer[..], &["--arg", "f32:1"]].concat());
    says(&said, &["argument 4", ".u32 ", "found a scalar f32"]);
    let said = refused_vecadd(&[&["--arg", "u32:4"], &buffer[..]].concat());
    says(&said, &["argument 1", ".u64 ", "found a scalar u32"]);
}

#[test]
fn an_argument_that_cannot_be_read() {
    for (arg, words) in [
        ("7", "u32:1024"),
        ("int:7", "unknown element type `int`"),
        ("u32:x", "`x` is not a number"),
        ("in:f32:@none.bin", "none.bin"),
    ] {
        says(&refused_vecadd(&["--arg", arg]), &[arg, words]);
    }
}

#[test]
fn flags_beside_a_sample() {
    let said = refused(&["run", &sample("vecadd.toml"), "--grid", "4"]);
    says(&said, &["--grid cannot be used with a sample"]);
}

#[test]
fn a_file_that_is_to_be_read_must_be_there() {
    let said = refused_vecadd(&["--arg", "in:f32:@none.bin"]);
    says(
        &said,
        &[
            "none.bin: No such file",
            "help: `@none.bin` is read",
            "buf:TYPE:COUNT",
        ],
    );
}

#[test]
fn formulas_that_would_not_end() {
    for (formula, words) in [
        ("sleep(1000)", "no function `sleep`"),
        (
            "dot(arg0, 0, 0, arg0, 0, 0, 1000000000000)",
            "limit of 4000000000 steps",
        ),
        ("for k in 0..10 { let x = [1, 2]; } 0", "expected `[`"),
    ] {
        let arg = format!("buf:f32:4={formula}");
        let said = refused_vecadd(&["--arg", "buf:f32:4", "--arg", &arg]);
        says(&said, &[words]);
    }
}

#[test]
fn an_extent_that_is_none() {
    for wrong in ["0", "1,2,3,4", "x"] {
        says(&refused_vecadd(&["--grid", wrong]), &["--grid", "16,16,1"]);
    }
}

#[test]
fn an_unknown_device() {
    let said = refused(&["run", &sample("vecadd.toml"), "--device", "gpu"]);
    says(&said, &["`gpu` names no device", "nvidia:N"]);
}

#[test]
fn a_gpu_that_is_not_there() {
    let said = refused(&["run", &sample("vecadd.toml"), "--device", "nvidia:77"]);
    says(&said, &["error: ", "help: ", "--device cpu"]);
}

/// A driver that has a device and little else.
const OLD_DRIVER: &str = "
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 11000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
";

#[test]
fn a_driver_too_old_for_an_entry() {
    let (folder, source) = file("old.c", OLD_DRIVER);
    let library = folder.path().join("libold.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", &source, "-o"])
        .arg(&library)
        .status();
    // A machine that runs packed tests may have no C compiler.
    if !built.is_ok_and(|status| status.success()) {
        return;
    }
    let output = Command::new(program())
        .args(["run", &sample("vecadd.toml"), "--device", "nvidia"])
        .env("PTXKIT_LIBCUDA", &library)
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    says(
        &said,
        &["NVIDIA driver (CUDA 11.0) has no cu", "help: update"],
    );
}

#[test]
fn a_block_over_the_limit() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    let (_folder, path) = file("k.ptx", ptx);
    let block = |size| refused(&["run", &path, "--block", size, "--device", &device()]);
    says(&block("2048"), &["2048 x 1 x 1", "1024 threads", "help: "]);
    says(&block("32,32,2"), &["32 x 32 x 2", "1024 threads"]);
}

#[test]
fn too_much_shared_memory() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    let (_folder, path) = file("k.ptx", ptx);
    let said = refused(&["run", &path, "--shared", "99999999", "--device", &device()]);
    says(&said, &["shared memory", "99999999", "--shared"]);
}

#[test]
fn ptx_newer_than_the_driver() {
    let ptx = ".version 99.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    let (_folder, path) = file("k.ptx", ptx);
    let said = refused(&["run", &path, "--kernel", "k", "--device", &device()]);
    says(
        &said,
        &["PTX version 99.0", "newest known version", "help: "],
    );
}

#[test]
fn the_cpu_device_reads_the_ptx_that_it_says_it_reads() {
    let kernel = |version: &str| {
        let ptx = format!(
            ".version {version}\n.target sm_80\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
        );
        file("k.ptx", &ptx)
    };
    let (_folder, path) = kernel("99.0");
    let said = refused(&["run", &path, "--device", "cpu"]);
    says(
        &said,
        &["the newest known version is 9.5", "write `.version 9.5`"],
    );
    let (folder, path) = kernel("9.5");
    let taken = ptxkit(folder.path(), &["run", &path, "--device", "cpu"]);
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
}

#[test]
fn what_the_cpu_device_cannot_run_is_named_with_its_line() {
    let ptx = ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\
               \x20 multimem.red.relaxed.sys.global.add.u32 [0], 1;\n  ret;\n}\n";
    let (_folder, path) = file("k.ptx", ptx);
    let said = refused(&["run", &path, "--device", "cpu"]);
    says(
        &said,
        &[
            "k.ptx:6",
            "6 |   multimem.red.relaxed.sys.global.add.u32 [0], 1;",
        ],
    );
}

#[test]
fn an_access_out_of_bounds_names_its_place() {
    if on_gpu() {
        return;
    }
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
               .visible .entry stray()\n{\n  .reg .b64 %rd<2>;\n  .reg .b32 %r<2>;\n\
               \x20 mov.u64 %rd1, 4096;\n  ld.global.u32 %r1, [%rd1];\n\
               \x20 st.global.u32 [%rd1], %r1;\n  ret;\n}\n";
    let (_folder, path) = file("stray.ptx", ptx);
    let said = refused(&["run", &path, "--device", "cpu"]);
    says(
        &said,
        &[
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "stray",
            "thread",
            "0x1000",
            "line 9",
        ],
    );
    // What a C program sees of it, which prints no more than the error's number.
    let reported = |said: &str| {
        let mut lines = said.lines();
        lines
            .any(|line| line.starts_with("CUDA_ERROR_ILLEGAL_ADDRESS: ") && line.contains("0x1000"))
    };
    assert!(!reported(&said), "{said}");
    let cache = tempfile::tempdir().unwrap();
    let report = ("PTXKIT_CPU_REPORT", Path::new("stderr"));
    let output = ptxkit_with(cache.path(), &[report], &["run", &path, "--device", "cpu"]);
    let said = stderr(&output);
    assert!(reported(&said), "{said}");
    let report = ("PTXKIT_CPU_REPORT", Path::new("log.txt"));
    let output = ptxkit_with(cache.path(), &[report], &["run", &path, "--device", "cpu"]);
    says(
        &stderr(&output),
        &["PTXKIT_CPU_REPORT=log.txt is not stderr"],
    );
}
