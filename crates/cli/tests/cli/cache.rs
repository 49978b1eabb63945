//! `ptxkit cache`, and many processes on one cache.

use super::*;

/// Runs `ptxkit cache …`, which must succeed, and reads its JSON.
fn json(cache: &Path, args: &[&str]) -> serde_json::Value {
    json_with(cache, &[], args)
}

fn json_with(cache: &Path, variables: &[(&str, &Path)], args: &[&str]) -> serde_json::Value {
    let args = [&["cache"], args, &["--format", "json"]].concat();
    let output = ptxkit_with(cache, variables, &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Warms a cache with two samples' PTX.
fn warmed(cache: &Path) -> serde_json::Value {
    let files = [sample("vecadd.ptx"), sample("matmul_shared.ptx")];
    json(
        cache,
        &["warm", &files[0], &files[1], "--target", &device()],
    )
}

/// The files of the blobs in a cache.
fn blobs(cache: &Path) -> Vec<PathBuf> {
    let list = json(cache, &["list"]);
    let list = list.as_array().unwrap();
    list.iter()
        .map(|blob| PathBuf::from(blob["path"].as_str().unwrap()))
        .collect()
}

#[test]
fn stats_count_what_runs_put_and_clear_removes_it() {
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(json(cache.path(), &["stats"])["blobs"], 0);
    for name in ["vecadd.toml", "matmul.toml"] {
        ptxkit(cache.path(), &["run", &sample(name), "--device", &device()]);
    }
    let stats = json(cache.path(), &["stats"]);
    assert_eq!(stats["blobs"], 2);
    assert_eq!(stats["kernels"], 2);
    let folder = json(cache.path(), &["path"])["path"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(Path::new(&folder).starts_with(cache.path()));
    assert_eq!(json(cache.path(), &["rebuild"])["blobs"], 2);
    assert_eq!(json(cache.path(), &["clear"])["blobs"], 2);
    assert_eq!(json(cache.path(), &["stats"])["blobs"], 0);
}

#[test]
fn blobs_are_listed_and_shown() {
    let cache = tempfile::tempdir().unwrap();
    let warmed = warmed(cache.path());
    let key = warmed[0]["key"].as_str().unwrap();
    assert_eq!(warmed[0]["result"], "compiled");
    assert!(warmed[0]["compile_ms"].as_f64().unwrap() > 0.0);

    let list = json(cache.path(), &["list", "--kernel", "vecad"]);
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["key"], key);
    assert_eq!(list[0]["kernels"][0], "vecadd");
    let text = stdout(&ptxkit(cache.path(), &["cache", "list"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("KEY "), "{text}");
    assert!(
        text.contains(&key[..12]) && text.contains("vecadd.ptx"),
        "{text}"
    );

    let shown = json(cache.path(), &["show", &key[..10]]);
    assert_eq!(shown["key"], key);
    let text = stdout(&ptxkit(cache.path(), &["cache", "show", key]));
    assert!(text.contains("kernels  vecadd\n"), "{text}");
}

/// Optimized code goes with the module whose kernel it is of.
#[test]
#[allow(unsafe_code, reason = "nothing of it is loaded")]
fn hot_kernels_are_listed_and_exported_with_their_module() {
    use ptxkit::cache::{Cache, Environment, Key, Lookup, Policy, Provenance};

    let here = tempfile::tempdir().unwrap();
    let warmed = warmed(here.path());
    let module = warmed[0]["key"].as_str().unwrap();
    let variables = [("CUDA_CACHE_PATH", here.path())];
    let cache = Cache::new(Policy::from_environment(&Environment::of(variables)));
    let key = Key::parse(module).unwrap();
    let hot = key.of_part(b"hot");
    let Lookup::Miss(lock) = cache.lookup(&hot) else {
        panic!("nobody has put it")
    };
    let provenance = Provenance {
        kernels: vec!["vecadd".into()],
        module: Some(key),
        ..Provenance::default()
    };
    // SAFETY: it is not loaded.
    unsafe { lock.put(&provenance, b"code") };

    let list = stdout(&ptxkit(here.path(), &["cache", "list"]));
    assert_eq!(list.lines().count(), 3, "{list}");
    let row = list.lines().find(|line| line.starts_with(&module[..12]));
    assert!(row.unwrap().ends_with("vecadd (1 hot)"), "{list}");
    let list = stdout(&ptxkit(
        here.path(),
        &["cache", "list", "--kernel", "vecadd"],
    ));
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains("vecadd (hot)"), "{list}");
    let shown = stdout(&ptxkit(here.path(), &["cache", "show", &hot.to_string()]));
    let words = format!("a kernel of {}", &module[..12]);
    assert!(shown.contains(&words), "{shown}");
    let stats = json(here.path(), &["stats"]);
    assert_eq!((&stats["blobs"], &stats["kernels"]), (&3.into(), &2.into()));
    assert_eq!(json(here.path(), &["verify"])["good"], 3);

    let archive = here.path().join("one.tar").display().to_string();
    assert_eq!(json(here.path(), &["export", &archive, module])["blobs"], 2);
    let there = tempfile::tempdir().unwrap();
    assert_eq!(json(there.path(), &["import", &archive])["blobs"], 2);
    assert_eq!(
        json(there.path(), &["show", &hot.to_string()])["module"],
        module
    );
    // Without its module it has a line of its own.
    let lost = json(there.path(), &["show", module]);
    std::fs::remove_file(lost["path"].as_str().unwrap()).unwrap();
    let list = stdout(&ptxkit(there.path(), &["cache", "list"]));
    assert!(
        list.lines().nth(1).unwrap().ends_with("vecadd (hot)"),
        "{list}"
    );
}

#[test]
fn the_help_names_every_variable() {
    let cache = tempfile::tempdir().unwrap();
    let help = stdout(&ptxkit(cache.path(), &["cache", "--help"]));
    for name in [
        "CUDA_CACHE_PATH",
        "CUDA_CACHE_MAXSIZE",
        "CUDA_CACHE_DISABLE",
        "PTXKIT_CACHE_READONLY",
    ] {
        assert!(help.contains(name), "{help}");
    }
}

#[test]
fn keys_that_mean_no_blob_or_several_are_refused() {
    let cache = tempfile::tempdir().unwrap();
    warmed(cache.path());
    for (key, words) in [
        ("xyz", "hexadecimal"),
        ("", "hexadecimal"),
        (&"0".repeat(64), "no blob has a key that starts with 000"),
    ] {
        let output = ptxkit(cache.path(), &["cache", "show", key]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(stderr(&output).contains("ptxkit cache list"));
    }
}

#[test]
fn wrong_inputs_are_messages() {
    let cache = tempfile::tempdir().unwrap();
    let missing = cache.path().join("missing").display().to_string();
    let packed = cache.path().join("warm.tar.gz").display().to_string();
    let (_folder, text) = file("text.txt", "no cache");
    let sample = sample("vecadd.ptx");
    for (args, words) in [
        (&["prune", "--max-size", "big"][..], "a size is expected"),
        (&["prune", "--older-than", "5"], "an age is expected"),
        (&["import", &missing], "ptxkit cache export"),
        (&["import", &text], "ptxkit cache export"),
        (&["import", &packed], "unpack it first"),
        (&["export", &packed], "use a .tar or a folder"),
        (&["warm"], "<FILES>"),
        (&["warm", &sample, "--target", "hopper"], "neither a device"),
        (&["warm", &missing, "--target", "cpu"], "cannot be read"),
        (&["warm", &text, "--target", "cpu"], "give a PTX file"),
    ] {
        let output = ptxkit(cache.path(), &[&["cache"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains(words),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("panicked"));
    }
}

#[test]
fn what_is_warmed_is_hit_and_what_fails_is_said() {
    let cache = tempfile::tempdir().unwrap();
    let (_folder, wrong) = file(
        "wrong.ptx",
        ".version 8.0\n.target sm_50\n.address_size 64\n.visible .entry k() { rot; }\n",
    );
    let good = sample("vecadd.ptx");
    let args = ["cache", "warm", &wrong, &good, "--target", &device()];
    let output = ptxkit(cache.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("wrong.ptx:4"),
        "{}",
        stderr(&output)
    );
    let text = stdout(&output);
    assert!(text.lines().next().unwrap().ends_with("failed"), "{text}");
    assert!(
        text.lines().nth(1).unwrap().contains("compiled in"),
        "{text}"
    );
    assert_eq!(
        json(cache.path(), &["warm", &good, "--target", &device()])[0]["result"],
        "hit"
    );

    let args = [
        "run",
        &sample("vecadd.toml"),
        "--device",
        &device(),
        "--format",
        "json",
    ];
    let run: serde_json::Value =
        serde_json::from_slice(&ptxkit(cache.path(), &args).stdout).unwrap();
    assert_eq!(run["cache"], "hit");
}

#[test]
fn a_cache_that_is_too_small_for_all_is_not_called_warm() {
    let [room, tight] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    warmed(room.path());
    let bytes = json(room.path(), &["stats"])["bytes"].as_u64().unwrap();
    // A blob has its compile time in digits, so its size varies by a few bytes.
    let limit = (bytes - 64).to_string();
    let limit = [("CUDA_CACHE_MAXSIZE", Path::new(&limit))];
    let files = [sample("vecadd.ptx"), sample("matmul_shared.ptx")];
    let device = device();
    let warm = ["warm", &files[0], &files[1], "--target", &device];
    let warm = [&["cache"], &warm[..], &["--format", "json"]].concat();
    let output = ptxkit_with(tight.path(), &limit, &warm);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut results = [&rows[0]["result"], &rows[1]["result"]].map(|one| one.as_str().unwrap());
    results.sort_unstable();
    assert_eq!(results, ["compiled", "evicted"]);
}

#[test]
fn a_cache_that_is_off_is_not_warmed() {
    let cache = tempfile::tempdir().unwrap();
    let off = [("CUDA_CACHE_DISABLE", Path::new("1"))];
    for args in [
        &["cache", "warm", &sample("vecadd.ptx"), "--target", "cpu"][..],
        &["cache", "import", "."],
    ] {
        let output = ptxkit_with(cache.path(), &off, args);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains("CUDA_CACHE_DISABLE"),
            "{}",
            stderr(&output)
        );
    }
    let stats = ptxkit_with(cache.path(), &off, &["cache", "stats"]);
    assert!(
        stdout(&stats).starts_with("state    off"),
        "{}",
        stdout(&stats)
    );
    assert_eq!(json_with(cache.path(), &off, &["stats"])["enabled"], false);
    assert_eq!(json(cache.path(), &["stats"])["enabled"], true);
}

#[test]
fn damage_is_found_and_set_aside() {
    let cache = tempfile::tempdir().unwrap();
    warmed(cache.path());
    assert_eq!(json(cache.path(), &["verify"])["good"], 2);
    let path = &blobs(cache.path())[0];
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
    let output = ptxkit(cache.path(), &["cache", "verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("1 blob whole, 1 damaged"),
        "{}",
        stdout(&output)
    );
    let stats = json(cache.path(), &["stats"]);
    assert_eq!((&stats["blobs"], &stats["bad"]), (&1.into(), &1.into()));
    json(cache.path(), &["prune"]);
    let stats = json(cache.path(), &["stats"]);
    assert_eq!((&stats["blobs"], &stats["bad"]), (&1.into(), &0.into()));
}

#[test]
fn pruning_removes_what_is_asked() {
    let cache = tempfile::tempdir().unwrap();
    warmed(cache.path());
    let prune = |args: &[&str]| json(cache.path(), &[&["prune"], args].concat())["blobs"].clone();
    assert_eq!(prune(&[]), 0);
    assert_eq!(prune(&["--older-than", "1d", "--max-size", "1G"]), 0);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 86400);
    let path = &blobs(cache.path())[0];
    let blob = std::fs::File::options().write(true).open(path).unwrap();
    blob.set_modified(old).unwrap();
    assert_eq!(prune(&["--older-than", "2d"]), 1);
    assert!(!path.exists());
    assert_eq!(prune(&["--max-size", "1K"]), 1);
}

/// As a container image ships it.
#[test]
fn an_exported_cache_serves_read_only() {
    let built = tempfile::tempdir().unwrap();
    let image = tempfile::tempdir().unwrap();
    let service = tempfile::tempdir().unwrap();
    let warmed = warmed(built.path());
    let folder = image.path().display().to_string();
    assert_eq!(json(built.path(), &["export", &folder])["blobs"], 2);
    let again = json(built.path(), &["export", &folder]);
    assert_eq!((&again["blobs"], &again["skipped"]), (&0.into(), &2.into()));

    let lower = [("PTXKIT_CACHE_READONLY", image.path())];
    let args = [
        "run",
        &sample("vecadd.toml"),
        "--device",
        &device(),
        "--format",
        "json",
    ];
    let output = ptxkit_with(service.path(), &lower, &args);
    let run: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(run["cache"], "hit");
    assert_eq!(run["key"], warmed[0]["key"]);
    // Nothing was copied, and nothing written there.
    let stats = json_with(service.path(), &lower, &["stats"]);
    assert_eq!(stats["blobs"], 0);
    assert_eq!(stats["read_only"][0]["blobs"], 2);
    let list = json_with(service.path(), &lower, &["list"]);
    assert!(list[0]["read_only"].is_string(), "{list}");
    // Without it, the program compiles.
    let run: serde_json::Value =
        serde_json::from_slice(&ptxkit(service.path(), &args).stdout).unwrap();
    assert_eq!(run["cache"], "miss");
}

#[test]
fn an_archive_is_taken_in_elsewhere() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    let warmed = warmed(here.path());
    let archive = here.path().join("warm.tar").display().to_string();
    let key = warmed[1]["key"].as_str().unwrap();
    assert_eq!(
        json(here.path(), &["export", &archive, &key[..12]])["blobs"],
        1
    );
    let moved = json(there.path(), &["import", &archive]);
    assert_eq!((&moved["blobs"], &moved["skipped"]), (&1.into(), &0.into()));
    assert_eq!(json(there.path(), &["import", &archive])["skipped"], 1);
    assert_eq!(json(there.path(), &["list"])[0]["key"], key);
    let file = sample("matmul_shared.ptx");
    let hit = json(there.path(), &["warm", &file, "--target", &device()]);
    assert_eq!(hit[0]["result"], "hit");
}

/// A module of three kernels that share nothing, each of which stores its number.
fn three_kernels() -> (tempfile::TempDir, String) {
    let kernels = ["one", "two", "three"]
        .iter()
        .zip(1..)
        .map(|(name, number)| {
            format!(
                ".visible .entry {name}(.param .u64 out) {{\n\
             .reg .b64 %rd; ld.param.u64 %rd, [out]; cvta.to.global.u64 %rd, %rd;\n\
             st.global.u32 [%rd], {number}; ret;\n}}\n"
            )
        });
    let kernels: String = kernels.collect();
    file(
        "three.ptx",
        &format!(".version 6.3\n.target sm_50\n.address_size 64\n{kernels}"),
    )
}

#[test]
fn a_module_is_warmed_listed_and_exported_with_its_slices() {
    let here = tempfile::tempdir().unwrap();
    let (_folder, path) = three_kernels();
    let device = device();
    let warm = ["warm", &path, "--target", &device, "--sliced", "always"];
    let warmed = json(here.path(), &warm);
    assert_eq!(warmed[0]["result"], "compiled");
    assert_eq!(warmed[0]["slices"], 3);
    assert_eq!(warmed[0]["compiled_slices"], 3);
    assert_eq!(json(here.path(), &warm)[0]["result"], "hit");

    let run = |cache: &Path, sliced: &str| -> serde_json::Value {
        let args = [
            "run",
            &path,
            "--kernel",
            "two",
            "--device",
            &device,
            "--arg",
            "buf:u32:1=zeros",
        ];
        let args = [&args[..], &["--sliced", sliced, "--format", "json"]].concat();
        let output = ptxkit(cache, &args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let sliced = run(here.path(), "always");
    assert_eq!(sliced["cache"], "hit");
    let image = sliced["image"].as_str().unwrap();
    assert!(image.ends_with(", cut into 3 slices"), "{image}");
    // So small a module is whole by default.
    assert_eq!(run(here.path(), "auto")["cache"], "miss");
    assert_eq!(run(here.path(), "never")["cache"], "hit");

    let key = warmed[0]["key"].as_str().unwrap();
    let list = stdout(&ptxkit(here.path(), &["cache", "list"]));
    // The head, the module in slices and the whole one.
    assert_eq!(list.lines().count(), 3, "{list}");
    let row = list
        .lines()
        .find(|line| line.starts_with(&key[..12]))
        .unwrap();
    assert!(row.ends_with("one three two (3 slices)"), "{row}");
    let of_two = json(here.path(), &["list", "--kernel", "two"]);
    assert_eq!(of_two.as_array().unwrap().len(), 3);
    assert_eq!(json(here.path(), &["verify"])["good"], 5);

    let archive = here.path().join("three.tar").display().to_string();
    assert_eq!(json(here.path(), &["export", &archive, key])["blobs"], 4);
    let there = tempfile::tempdir().unwrap();
    assert_eq!(json(there.path(), &["import", &archive])["blobs"], 4);
    assert_eq!(run(there.path(), "always")["cache"], "hit");

    let slice = json(there.path(), &["show", sliced["key"].as_str().unwrap()]);
    assert_eq!(slice["kernels"], serde_json::json!(["two"]));
    std::fs::remove_file(slice["path"].as_str().unwrap()).unwrap();
    let list = stdout(&ptxkit(there.path(), &["cache", "list"]));
    assert!(list.contains("(2 of 3 slices)"), "{list}");
    let shown = stdout(&ptxkit(there.path(), &["cache", "show", key]));
    assert!(
        shown.contains("not there: compiled when it is needed"),
        "{shown}"
    );
    assert_eq!(run(there.path(), "always")["cache"], "miss");
    assert_eq!(
        json(there.path(), &warm)[0]["compiled_slices"],
        serde_json::Value::from(0)
    );
}

#[test]
fn a_word_for_slicing_that_is_none_is_an_error() {
    let cache = tempfile::tempdir().unwrap();
    let path = sample("vecadd.ptx");
    let output = ptxkit(cache.path(), &["run", &path, "--sliced", "sometimes"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("auto, always and never"), "{said}");
}

/// What an import of `from` says, and its exit status.
fn imported(from: &Path) -> (Option<i32>, String) {
    let cache = tempfile::tempdir().unwrap();
    let output = ptxkit(
        cache.path(),
        &["cache", "import", &from.display().to_string()],
    );
    (output.status.code(), stdout(&output) + &stderr(&output))
}

#[test]
fn an_import_of_what_is_damaged_or_empty_is_status_1() {
    let here = tempfile::tempdir().unwrap();
    warmed(here.path());
    let archive = here.path().join("warm.tar");
    let name = archive.display().to_string();
    json(here.path(), &["export", &name]);
    assert_eq!(imported(&archive).0, Some(0));
    let whole = std::fs::read(&archive).unwrap();

    // A byte in the content of the last blob; the archive itself is as before.
    let mut bytes = whole.clone();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 0x55;
    std::fs::write(&archive, &bytes).unwrap();
    let (status, said) = imported(&archive);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("1 blob imported") && said.contains("damaged: 1"),
        "{said}"
    );

    // The first header, and the end.
    let mut bytes = whole.clone();
    bytes[10] ^= 0x55;
    std::fs::write(&archive, &bytes).unwrap();
    assert_eq!(imported(&archive).0, Some(1));
    std::fs::write(&archive, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(imported(&archive).0, Some(1));

    std::fs::write(&archive, vec![0; 1 << 20]).unwrap();
    let (status, said) = imported(&archive);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("holds no blob"), "{said}");
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(imported(empty.path()).0, Some(1));
}

/// File systems take any bytes for a name, and JSON does not.
#[cfg(unix)]
#[test]
fn paths_that_are_no_text_are_told_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = |name: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(name));
    let (cache, image, ptx) = (odd(b"c\xff"), odd(b"i\xff"), odd(b"k\xff.ptx"));
    std::fs::copy(sample("vecadd.ptx"), &ptx).unwrap();
    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(program())
            .arg("cache")
            .args(arguments)
            .args(["--format", "json"])
            .env("CUDA_CACHE_PATH", &cache)
            .env("PTXKIT_CACHE_READONLY", &image)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let word = std::ffi::OsStr::new;
    let device = device();
    let warmed = run(&[
        word("warm"),
        ptx.as_os_str(),
        word("--target"),
        word(&device),
    ]);
    let key = warmed[0]["key"].as_str().unwrap().to_owned();
    assert_eq!(run(&[word("export"), image.as_os_str()])["blobs"], 1);
    assert_eq!(run(&[word("import"), image.as_os_str()])["skipped"], 1);
    assert_eq!(run(&[word("stats")])["read_only"][0]["blobs"], 1);
    assert_eq!(run(&[word("list")]).as_array().unwrap().len(), 2);
    for told in [run(&[word("path")]), run(&[word("show"), word(&key)])] {
        let path = told["path"].as_str().unwrap();
        assert!(path.contains("/c\u{fffd}/"), "{path}");
    }
}

#[test]
fn processes_that_start_together_compile_once() {
    let cache = tempfile::tempdir().unwrap();
    let path = sample("vecadd.toml");
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let device = device();
                    let args = ["run", &path, "--device", &device, "--format", "json"];
                    ptxkit(cache.path(), &args)
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let mut misses = 0;
    for output in outputs {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", stderr(&output)));
        assert_eq!(json["verified"], true);
        misses += u32::from(json["cache"] == "miss");
    }
    assert_eq!(misses, 1);
}

/// The list that `ptxkit exec --save-compiles` writes.
#[test]
fn warm_compiles_what_a_program_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, list) = (folder.path().join("cache"), folder.path().join("list"));
    let many = (0..40).fold(
        ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned(),
        |ptx, n| ptx + &format!(".entry k{n}() {{ {} ret; }}\n", "bar.sync 0;".repeat(300)),
    );
    let options = ptxkit::jit::JitOptions::default();
    let saved = compiles::Saved::module(&list, &many, &options, true).unwrap();
    saved.used("k3").unwrap();
    saved.used("k9").unwrap();
    let small = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n";
    compiles::Saved::module(&list, small, &options, false).unwrap();
    let list = list.to_str().unwrap();
    let warm = ["warm", "--from", list, "--target", "cpu"];
    for compiled in [3, 0] {
        let warmed = json(&cache, &warm);
        assert_eq!(warmed[0]["modules"], 2, "{warmed}");
        assert_eq!(warmed[0]["slices"], 3, "{warmed}");
        assert_eq!(warmed[0]["compiled"], compiled, "{warmed}");
    }
    // Two slices, the index of the module, and the small module.
    assert_eq!(json(&cache, &["stats"])["blobs"], 4);
    std::fs::write(list, "{\n").unwrap();
    let failed = ptxkit(&cache, &["cache", "warm", "--from", list]);
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(
        error.contains("line 1: ") && error.contains("--save-compiles"),
        "{error}"
    );
}
