//! `ptxkit occupancy`. A change of the output that is meant is taken over by
//! `INSTA_UPDATE=always cargo test -p ptxkit-cli --test cli occupancy`.

use super::*;
use serde_json::Value;

fn occupancy(args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    ptxkit(cache.path(), &[&["occupancy"], args].concat())
}

#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = occupancy(args);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let text = printed(&[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap()
}

/// Two kernels with launch bounds, barriers and a function.
const KERNELS: &str = "\
.version 8.0
.target sm_90
.address_size 64
.shared .align 4 .b8 tile[4096];
.func helper()
{
	bar.sync 5;
	ret;
}
.visible .entry first(.param .u64 out) .maxntid 128, 2, 1
{
	.reg .b64 p;
	.reg .b32 a, b;
	ld.param.u64 p, [out];
	ld.global.u32 a, [p];
	ld.global.u32 b, [p+4];
	add.u32 a, a, b;
	st.shared.u32 [tile], a;
	bar.sync 0;
	call helper, ();
	st.global.u32 [p], a;
	ret;
}
.visible .entry second(.param .u32 n) .reqntid 64 .maxnreg 24
{
	.reg .b32 p;
	ld.param.u32 p, [n];
	barrier.sync p;
	bar.warp.sync -1;
	ret;
}
";

fn kernels() -> (tempfile::TempDir, String) {
    file("kernels.ptx", KERNELS)
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/occupancy"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

const DESCRIBED: [&str; 8] = [
    "--target",
    "sm_90",
    "--block",
    "256",
    "--registers",
    "34",
    "--shared",
    "20K",
];

#[test]
fn text_json_and_picture() {
    snapshot("text", &printed(&DESCRIBED));
    let pretty = serde_json::to_string_pretty(&json(&DESCRIBED)).unwrap();
    snapshot("json", &pretty);
    let svg = printed(&[&DESCRIBED[..], &["--format", "svg"]].concat());
    snapshot("svg", &svg);
}

#[test]
fn a_file_gets_the_format_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (name, start) in [("k.svg", "<svg "), ("k.json", "[{"), ("k.txt", "kernel on")] {
        let output = occupancy(&[&DESCRIBED[..], &["-o", &path(name)]].concat());
        assert!(output.status.success() && output.stdout.is_empty());
        let written = std::fs::read_to_string(path(name)).unwrap();
        assert!(written.starts_with(start), "{written}");
    }
    let output = occupancy(&[&DESCRIBED[..], &["-o", &path("k.png")]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(".svg"), "{}", stderr(&output));
}

#[test]
fn ptx_has_launch_bounds_barriers_and_shared_memory() {
    let (_folder, path) = kernels();
    let all = json(&[&path]);
    let [first, second] = all.as_array().unwrap().as_slice() else {
        panic!("{all}");
    };
    let text = |value: &Value| value.to_string();
    assert_eq!(first["kernel"], "first");
    assert!(first["place"].as_str().unwrap().ends_with("kernels.ptx:10"));
    assert_eq!(
        (&first["target"], &first["threads_from"]),
        (&"sm_90".into(), &".maxntid".into())
    );
    assert_eq!(first["block"]["threads"], 256);
    // Of the variable of the module, and of the function that is called.
    assert_eq!(first["block"]["shared"], 4096);
    assert_eq!(first["block"]["barriers"], 6, "{}", text(first));
    assert_eq!(first["registers_from"], "estimate");
    // One that is in a register may be any.
    assert_eq!(second["block"]["barriers"], 16);
    assert_eq!(
        (&second["block"]["threads"], &second["threads_from"]),
        (&64.into(), &".reqntid".into())
    );
    assert_eq!(
        (&second["limited_by"][0], &second["resident"]["blocks"]),
        (&"barriers".into(), &4.into())
    );

    let one = json(&[
        &path,
        "--kernel",
        "second",
        "--target",
        "sm_120",
        "--block",
        "4,8",
        "--dynamic-shared",
        "1K",
    ]);
    let one = one.as_array().unwrap();
    assert_eq!((one.len(), &one[0]["target"]), (1, &"sm_120".into()));
    assert_eq!(
        (&one[0]["block"]["threads"], &one[0]["dynamic_shared"]),
        (&32.into(), &1024.into())
    );
    assert_eq!(one[0]["resident"]["blocks"], 1);
}

#[test]
fn what_is_known_better_replaces_the_estimate() {
    let (_folder, path) = kernels();
    let all = json(&[
        &path,
        "--registers",
        "100",
        "--shared",
        "0",
        "--barriers",
        "0",
    ]);
    for kernel in all.as_array().unwrap() {
        assert_eq!(kernel["registers_from"], "given");
        assert_eq!(
            (&kernel["block"]["registers"], &kernel["block"]["shared"]),
            (&100.into(), &0.into())
        );
        assert_eq!(kernel["blocks_by"]["barriers"], Value::Null);
    }
}

#[test]
fn a_carveout_that_is_in_the_way_is_told() {
    let text = printed(&[
        "--target",
        "sm_90",
        "--block",
        "64",
        "--registers",
        "32",
        "--shared",
        "8K",
        "--carveout",
        "25",
    ]);
    assert!(text.contains("resident      7 blocks"), "{text}");
    assert!(text.contains("no carveout: 25 blocks"), "{text}");
}

/// Each wrong input: one clear message, exit status 2.
#[test]
fn wrong_input_is_told() {
    let (_folder, path) = kernels();
    let (_other, broken) = file(
        "broken.ptx",
        ".version 8.0\n.target sm_80\n.entry k() { rte; }",
    );
    for (args, words) in [
        (
            &[][..],
            &["nothing to calculate from", "--target sm_90"][..],
        ),
        (
            &["--registers", "40"],
            &["depend on the architecture", "--target"],
        ),
        (
            &["--target", "sm_107", "--registers", "40"],
            &["sm_107 are not published", "sm_110"],
        ),
        (
            &["--target", "sm_90", "--block", "32,32,2"],
            &["2048 threads", "--block"],
        ),
        (
            &["--target", "sm_90", "--registers", "256"],
            &["--registers", "255"],
        ),
        (&["--target", "sm_90", "--registers", "0"], &["--registers"]),
        (
            &["--target", "sm_90", "--barriers", "17"],
            &["--barriers", "16"],
        ),
        (
            &["--target", "sm_90", "--carveout", "101"],
            &["--carveout", "100"],
        ),
        (
            &["--target", "sm_90", "--shared", "much"],
            &["--shared", "a size is expected"],
        ),
        (&["--target", "hopper"], &["--target"]),
        (&["none.ptx"], &["none.ptx", "No such file"]),
        (
            &[&path, "--kernel", "frist"],
            &["no kernel `frist`", "did you mean `first`?"],
        ),
        (&[&broken], &["broken.ptx:3", "did you mean `ret`?"]),
        (&[&path, "--blob", "12"], &["--blob"]),
        (&["--blob", "zz"], &["zz", "ptxkit cache list"]),
        (
            &["--blob", "123456"],
            &["no blob has a key that starts with 123456"],
        ),
    ] {
        let output = occupancy(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
        for word in words {
            assert!(said.contains(word), "{args:?}: `{word}` is not in:\n{said}");
        }
    }
}

#[test]
fn a_blob_of_the_cpu_device_has_no_registers() {
    let cache = tempfile::tempdir().unwrap();
    let ran = ptxkit(
        cache.path(),
        &["run", &sample("vecadd.toml"), "--device", "cpu"],
    );
    assert!(ran.status.success(), "{}", stderr(&ran));
    let list = ptxkit(cache.path(), &["cache", "list", "--format", "json"]);
    let list: Value = serde_json::from_str(&stdout(&list)).unwrap();
    let key = list[0]["key"].as_str().unwrap();
    let output = ptxkit(cache.path(), &["occupancy", "--blob", &key[..16]]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("is no cubin") && said.contains("--target"),
        "{said}"
    );
}

/// What a running program loaded on a GPU.
#[test]
#[allow(unsafe_code, reason = "nothing of it is loaded")]
fn a_blob_with_a_cubin_has_its_numbers() {
    use ptxkit::cache::{Cache, Environment, Key, Lookup, Policy, Provenance};
    use ptxkit::image::{self, EntryKind, Image, Unpacker};

    let fatbin = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/reduction.fatbin"
    );
    let bytes = std::fs::read(fatbin).unwrap();
    let Image::Fatbin(file) = image::open(&bytes).unwrap() else {
        panic!("it is a fatbin")
    };
    let entry = file
        .entries
        .iter()
        .find(|entry| entry.kind == EntryKind::Elf);
    let mut unpacker = Unpacker::default();
    let cubin = unpacker.unpack(entry.unwrap()).unwrap();

    let here = tempfile::tempdir().unwrap();
    let variables = [("CUDA_CACHE_PATH", here.path())];
    let cache = Cache::new(Policy::from_environment(&Environment::of(variables)));
    let key = Key::parse(&"5e".repeat(32)).unwrap();
    let Lookup::Miss(lock) = cache.lookup(&key) else {
        panic!("nobody has put it")
    };
    // SAFETY: it is not loaded.
    unsafe { lock.put(&Provenance::default(), cubin) };

    let output = ptxkit(
        here.path(),
        &["occupancy", "--blob", "5e5e5e5e", "--format", "json"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let of_blob: Value = serde_json::from_slice(&output.stdout).unwrap();
    let target = of_blob[0]["target"].as_str().unwrap();
    let of_file = json(&[fatbin, "--target", target]);
    for name in [
        "kernel",
        "registers_from",
        "block",
        "resident",
        "static_shared",
    ] {
        assert_eq!(of_blob[0][name], of_file[0][name], "{name}");
    }
    assert_eq!(of_blob[0]["registers_from"], "cubin");
}

#[test]
fn a_picture_has_a_row_for_each_kernel() {
    let (_folder, path) = kernels();
    let svg = printed(&[&path, "--format", "svg"]);
    assert_eq!(svg.matches("<text class=\"name\"").count(), 2);
}

/// The driver of an H100 with these GPCs gives the same numbers.
#[test]
fn clusters_are_of_the_gpcs_that_are_given() {
    let with = |args: &[&str]| {
        let described = ["--target", "sm_90", "--block", "512", "--registers", "64"];
        let text = printed(&[&described[..], args].concat());
        let line = text.lines().find(|line| line.starts_with("  clusters"));
        line.map(|line| line["  clusters".len()..].trim().to_owned())
    };
    let gpcs = "2x18,5x16,8,4x2";
    let eight = with(&["--cluster", "8", "--gpcs", gpcs]).unwrap();
    assert_eq!(
        eight,
        "30 of 8 blocks on 132 multiprocessors; 8 of these are in GPCs of fewer than 8"
    );
    let sixteen = with(&["--cluster", "16", "--gpcs", gpcs]).unwrap();
    assert!(sixteen.starts_with("14 of 16 blocks on 132"), "{sixteen}");
    assert!(
        sixteen.contains("NON_PORTABLE_CLUSTER_SIZE_ALLOWED"),
        "{sixteen}"
    );
    let one = with(&["--cluster", "4"]).unwrap();
    assert!(one.starts_with("8 of 4 blocks in a GPC of 16"), "{one}");
    assert_eq!(with(&[]), None);

    let small = [
        "--target",
        "sm_90",
        "--block",
        "32",
        "--cluster",
        "3",
        "--gpcs",
        gpcs,
    ];
    let clusters = &json(&small)[0]["clusters"];
    assert_eq!(clusters["resident"], 327);
    assert_eq!(clusters["is_capped"], true);
    assert_eq!(clusters["in_smaller_gpcs"], 8);
}

#[test]
fn what_cannot_be_a_cluster_is_refused() {
    let described = ["--block", "64", "--target"];
    for (args, words) in [
        (
            &["sm_86", "--cluster", "2"][..],
            &["sm_86 has no clusters", "sm_90"][..],
        ),
        (&["sm_90", "--cluster", "17"], &["17", "--cluster"]),
        (&["sm_90", "--gpcs", "16"], &["--cluster"]),
        (
            &["sm_90", "--cluster", "2", "--gpcs", "2*18"],
            &["2x18,5x16,8"],
        ),
        (
            &["sm_90", "--cluster", "2", "--gpcs", "0x18"],
            &["at least one"],
        ),
        (
            &["sm_90", "--cluster", "2", "--gpcs", "4294967295x4294967295"],
            &["at most 4096"],
        ),
        (
            &["sm_90", "--cluster", "2", "--gpcs", "16,"],
            &["2x18,5x16,8"],
        ),
    ] {
        let output = occupancy(&[&described[..], args].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{args:?}: `{word}` is not in:\n{said}");
        }
    }
}
