//! `ptxkit-ptxas-cache`, in front of a script in the place of ptxas, and of NVIDIA's where `NVCC` is
//! in a toolkit.
#![cfg(unix)]

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ptxkit::cache::{Cache, Policy};

use super::{program, stderr, stdout};

/// Adds a line to `calls` for each assembly, and writes what the options and the text ask for.
const FAKE: &str = r#"#!/bin/sh
here=$(dirname "$0")
[ "$1" = --version ] && { echo "Build fake"; exit 0; }
[ -n "$PTXKIT_PTXAS_CACHE_RUNNING" ] || echo "not marked" >&2
out=elf.o options=
all=$*
while [ $# -gt 0 ]; do
    case $1 in
    -o) out=$2; shift ;;
    -o=*) out=${1#-o=} ;;
    -arch) options="$options -arch=$2"; shift ;;
    -*) options="$options $1" ;;
    *) in=$1 ;;
    esac
    shift
done
echo "$all" >> "$here/calls"
[ -r "$in" ] || { echo "ptxas fatal   : Input file '$in' could not be opened" >&2; exit 255; }
has() { grep -q "$1" "$in"; }
has out && echo "on standard output"
has warning && echo "ptxas $in, line 3; warning : in $in" >&2
has slow && sleep 0.3
has nul && printf 'a\0b\n' >&2
has base && echo "ptxas ${in##*/}" >&2
has fail && { echo "ptxas $in, line 1; error   : it fails" >&2; exit 7; }
has killed && kill -9 $$
has nothing && exit 0
has side && echo side > "$(dirname "$out")/side"
[ -d "$(dirname "$out")" ] || {
    echo "ptxas fatal   : Output file '$out' could not be opened" >&2; exit 255; }
{ echo "code:$options"; cat "$in"; if has names; then echo "$in"; fi; } > "$out"
"#;

/// The program; packed tests find it beside `ptxkit`.
fn cached_ptxas() -> PathBuf {
    if std::env::var_os("PTXKIT_BIN").is_some() {
        return Path::new(&program()).with_file_name("ptxkit-ptxas-cache");
    }
    env!("CARGO_BIN_EXE_ptxkit-ptxas-cache").into()
}

/// A folder with a ptxas, a cache and an input `k.ptx`.
struct Bench {
    folder: tempfile::TempDir,
    real: PathBuf,
}

impl Bench {
    fn new(ptx: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("ptxas");
        install(&real, FAKE);
        std::fs::write(folder.path().join("k.ptx"), ptx).unwrap();
        Bench { folder, real }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("PTXKIT_REAL_PTXAS", &self.real)
            .env("CUDA_CACHE_PATH", self.path("cache"))
            .env("XDG_CONFIG_HOME", self.folder.path());
        for name in [
            "CUDA_CACHE_DISABLE",
            "CUDA_CACHE_MAXSIZE",
            "PTXKIT_CACHE_READONLY",
            "PTXKIT_REMOTE",
            "PTXKIT_REPORT",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(cached_ptxas(), args).output().unwrap()
    }

    /// What the real ptxas does for the same command line.
    fn run_real(&self, args: &[&str]) -> Output {
        self.command(&self.real, args)
            .env("PTXKIT_PTXAS_CACHE_RUNNING", "1")
            .output()
            .unwrap()
    }

    /// The command lines of the assemblies so far.
    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
}

/// Writes a script beside its place first: one that is being written cannot be run.
fn install(path: &Path, script: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, script).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[test]
fn a_hit_gives_the_bytes_of_the_real_ptxas() {
    for ptx in ["plain", "warning", "out", "out warning"] {
        let bench = Bench::new(ptx);
        std::fs::create_dir(bench.path("other")).unwrap();
        std::fs::copy(bench.path("k.ptx"), bench.path("other/a b.x")).unwrap();
        let full = bench.path("k.ptx").display().to_string();
        for (n, input) in ["k.ptx", "k.ptx", "./k.ptx", "other/a b.x", &full]
            .iter()
            .enumerate()
        {
            let real = bench.run_real(&["-v", "-arch=sm_80", input, "-o", "real"]);
            let ours = bench.run(&["-v", "-arch=sm_80", input, "-o", "ours"]);
            assert_eq!(ours, real, "{ptx} {input}");
            assert_eq!(bench.read("ours"), bench.read("real"), "{ptx} {input}");
            // One assembly of ours, and those of the real one.
            assert_eq!(bench.calls().len(), n + 2, "{ptx} {input}");
        }
        assert_eq!(ours_has_text(&bench), ptx != "plain");
    }
}

fn ours_has_text(bench: &Bench) -> bool {
    let ran = bench.run(&["-v", "-arch=sm_80", "k.ptx", "-o", "ours"]);
    !(ran.stdout.is_empty() && ran.stderr.is_empty())
}

#[test]
fn texts_of_both_streams_in_one_file_stay_in_order() {
    let bench = Bench::new("out warning");
    for count in 1..=2 {
        let text = bench.path("text");
        let file = std::fs::File::create(&text).unwrap();
        let mut command = bench.command(cached_ptxas(), &["k.ptx"]);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        assert!(command.status().unwrap().success());
        let text = std::fs::read_to_string(text).unwrap();
        assert_eq!(
            text,
            "on standard output\nptxas k.ptx, line 3; warning : in k.ptx\n"
        );
        // Assembled in the private folder, and again by the real ptxas.
        assert_eq!(bench.calls().len(), 2 * count);
    }
}

#[test]
fn failures_are_not_cached() {
    let bench = Bench::new("fail");
    std::fs::write(bench.path("out"), "old").unwrap();
    for count in 1..=2 {
        let ran = bench.run(&["k.ptx", "-o", "out"]);
        assert_eq!(ran.status.code(), Some(7));
        assert_eq!(stderr(&ran), "ptxas k.ptx, line 1; error   : it fails\n");
        assert_eq!(bench.calls().len(), count);
        assert_eq!(bench.read("out"), b"old");
    }
    let missing = bench.run(&["none.ptx"]);
    assert_eq!(missing.status.code(), Some(255));
    assert_eq!(
        stderr(&missing),
        "ptxas fatal   : Input file 'none.ptx' could not be opened\n"
    );
}

#[test]
fn a_signal_that_ends_ptxas_ends_the_program() {
    let bench = Bench::new("killed");
    let ran = bench.run(&["k.ptx"]);
    assert_eq!(ran.status.signal(), Some(9));
}

#[test]
fn what_is_not_understood_goes_to_the_real_ptxas_as_it_is() {
    let bench = Bench::new("plain");
    let lines = [
        &["--new-option", "k.ptx", "-o", "out"][..],
        &["-g", "k.ptx", "-o", "out"],
        &["-optf", "file", "k.ptx"],
        &["-arch=compute_90", "k.ptx"],
        &["k.ptx", "k.ptx"],
        &["-jobserver", "k.ptx"],
    ];
    for line in lines {
        for _ in 0..2 {
            assert!(bench.run(line).status.success(), "{line:?}");
            assert_eq!(bench.calls().pop().unwrap(), line.join(" "));
        }
    }
    assert_eq!(bench.calls().len(), 2 * lines.len());
    assert!(!bench.path("cache").exists());
    assert_eq!(stdout(&bench.run(&["--version"])), "Build fake\n");
}

#[test]
fn results_that_depend_on_names_or_have_more_files_are_not_cached() {
    for ptx in ["names", "side", "base", "nul", "nothing"] {
        let bench = Bench::new(ptx);
        for count in 1..=2 {
            let ours = bench.run(&["k.ptx", "-o", "out"]);
            let calls = bench.calls();
            assert_eq!(calls.len(), 2 * count, "{ptx}");
            assert_eq!(calls.last().unwrap(), "k.ptx -o out", "{ptx}");
            assert_eq!(ours.status.code(), Some(0), "{ptx}");
            assert_eq!(bench.path("side").exists(), ptx == "side");
            assert_eq!(bench.path("out").exists(), ptx != "nothing");
        }
    }
}

#[test]
fn options_and_text_make_the_key() {
    let bench = Bench::new("plain");
    let lines = [
        &["k.ptx"][..],
        &["-arch=sm_80", "k.ptx"],
        &["-arch=sm_90", "k.ptx"],
        &["-arch=sm_80", "-v", "k.ptx"],
        &["-v", "-arch=sm_80", "k.ptx"],
        &["-arch=sm_80", "-O2", "k.ptx"],
        &["-arch=sm_80", "-lineinfo", "k.ptx"],
    ];
    for (n, line) in lines.iter().enumerate() {
        bench.run(line);
        assert_eq!(bench.calls().len(), n + 1, "{line:?}");
    }
    bench.run(&["k.ptx", "-arch", "sm_80", "-o=elsewhere"]);
    assert_eq!(bench.calls().len(), lines.len());
    std::fs::write(bench.path("k.ptx"), "plaiN").unwrap();
    bench.run(lines[0]);
    assert_eq!(bench.calls().len(), lines.len() + 1);
}

#[test]
fn another_ptxas_has_another_key() {
    let bench = Bench::new("plain");
    let run = |calls: usize| {
        bench.run(&["k.ptx"]);
        assert_eq!(bench.calls().len(), calls);
    };
    run(1);
    // The same build in another place.
    install(&bench.real, FAKE);
    run(1);
    install(&bench.real, &format!("{FAKE}# another\n"));
    run(2);
    // A large file is not read again until it is another.
    let large = |text: &str| format!("{FAKE}exit 0\n{}", text.repeat(1 << 20));
    install(&bench.real, &large("#1"));
    run(3);
    run(3);
    install(&bench.real, &large("#2"));
    run(4);
    install(&bench.real, &large("#1"));
    run(4);
}

#[test]
fn processes_that_want_the_same_compile_once() {
    let bench = Bench::new("slow warning");
    let running: Vec<_> = (0..6)
        .map(|n| {
            let output = format!("out{n}");
            bench
                .command(cached_ptxas(), &["k.ptx", "-o", &output])
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (n, process) in running.into_iter().enumerate() {
        let ran = process.wait_with_output().unwrap();
        assert!(ran.status.success());
        assert_eq!(
            stderr(&ran),
            "ptxas k.ptx, line 3; warning : in k.ptx\n",
            "{n}"
        );
        assert_eq!(bench.read(&format!("out{n}")), bench.read("out0"));
    }
    assert_eq!(bench.calls().len(), 1);
}

#[test]
fn outputs_are_written_as_ptxas_writes_them() {
    let bench = Bench::new("warning");
    for _ in 0..2 {
        assert!(bench.run(&["k.ptx"]).status.success());
        assert_eq!(bench.read("elf.o"), b"code:\nwarning");
        assert!(bench.run(&["k.ptx", "-o", "/dev/null"]).status.success());
        std::fs::remove_file(bench.path("elf.o")).unwrap();
    }
    assert_eq!(bench.calls().len(), 1);
    // Through a link, and over what was there.
    std::fs::write(bench.path("file"), "longer than what is written").unwrap();
    symlink("file", bench.path("link")).unwrap();
    bench.run(&["k.ptx", "-o", "link"]);
    assert_eq!(bench.read("file"), b"code:\nwarning");
    let ran = bench.run(&["k.ptx", "-o", "none/out"]);
    assert_eq!(ran.status.code(), Some(255));
    assert_eq!(
        stderr(&ran),
        "ptxas k.ptx, line 3; warning : in k.ptx\n\
         ptxas fatal   : Output file 'none/out' could not be opened\n"
    );
}

#[test]
fn without_a_cache_the_real_ptxas_runs() {
    let bench = Bench::new("warning");
    for (name, value) in [
        ("CUDA_CACHE_DISABLE", "1"),
        ("CUDA_CACHE_PATH", "/dev/null"),
    ] {
        let before = bench.calls().len();
        for count in 1..=2 {
            let mut command = bench.command(cached_ptxas(), &["k.ptx"]);
            let ran = command.env(name, value).output().unwrap();
            assert!(ran.status.success());
            // Nothing but the text of ptxas.
            assert_eq!(stderr(&ran), "ptxas k.ptx, line 3; warning : in k.ptx\n");
            assert_eq!(bench.calls().len(), before + count);
            assert_eq!(bench.calls().pop().unwrap(), "k.ptx");
        }
    }
}

#[test]
fn the_program_does_not_run_itself() {
    let bench = Bench::new("plain");
    let itself = bench.path("bin");
    std::fs::create_dir(&itself).unwrap();
    symlink(cached_ptxas(), itself.join("ptxas")).unwrap();
    let refused = |command: &mut Command, words: &str| {
        let ran = command.output().unwrap();
        assert_eq!(ran.status.code(), Some(255));
        let message = stderr(&ran);
        assert!(message.starts_with("ptxas fatal   : "), "{message}");
        assert!(message.contains(words), "{message}");
        assert!(message.contains("PTXKIT_REAL_PTXAS"), "{message}");
    };
    let command = || bench.command(itself.join("ptxas"), &["k.ptx"]);
    refused(
        command().env("PTXKIT_REAL_PTXAS", itself.join("ptxas")),
        "is ptxkit-ptxas-cache itself",
    );
    refused(
        command().env("PTXKIT_REAL_PTXAS", bench.path("none")),
        "No such file",
    );
    // A toolkit of this machine would be found too.
    if !Path::new("/usr/local/cuda/bin/ptxas").exists() && !Path::new("/opt/cuda").exists() {
        refused(
            command()
                .env_remove("PTXKIT_REAL_PTXAS")
                .env_remove("CUDA_HOME")
                .env_remove("CUDA_PATH")
                .env("PATH", &itself),
            "the only ptxas in PATH is ptxkit-ptxas-cache itself",
        );
    }
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", cached_ptxas().display());
    install(&bench.path("wrapper"), &script);
    refused(
        command().env("PTXKIT_REAL_PTXAS", bench.path("wrapper")),
        "was started by",
    );
    // Behind itself in PATH is the real one.
    let mut path = OsString::from(&itself);
    path.push(":");
    path.push(bench.folder.path());
    path.push(":/usr/bin:/bin");
    let mut command = command();
    command.env_remove("PTXKIT_REAL_PTXAS").env("PATH", path);
    assert!(command.status().unwrap().success());
    assert_eq!(bench.calls().len(), 1);
}

#[test]
fn a_report_says_what_was_done() {
    let bench = Bench::new("plain");
    let report = bench.path("report");
    for line in [&["k.ptx"][..], &["k.ptx"], &["-g", "k.ptx"]] {
        let mut command = bench.command(cached_ptxas(), line);
        assert!(
            command
                .env("PTXKIT_REPORT", &report)
                .status()
                .unwrap()
                .success()
        );
    }
    let text = std::fs::read_to_string(report).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("ptxkit: ptxas: k.ptx: compiled in "));
    assert!(lines[1].starts_with("ptxkit: ptxas: k.ptx: from the cache in "));
    assert_eq!(lines[2], "ptxkit: ptxas: forwarded: -g is not cached");
}

#[test]
fn the_ptx_of_a_cubin_is_found() {
    let bench = Bench::new("plain");
    let policy = Policy::disabled().with_enabled(true);
    let cache = || Cache::new(policy.clone().with_path(bench.path("cache")));
    assert!(cache().source_of(b"code:\nplain").is_none());
    for _ in 0..2 {
        bench.run(&["k.ptx", "-o", "out"]);
        let source = cache().source_of(&bench.read("out")).unwrap();
        assert_eq!(*source, *b"plain");
        assert_eq!(source.provenance().source, "k.ptx");
        // A hit stores it again, if it was evicted.
        let source = source_file(&bench);
        std::fs::remove_file(source).unwrap();
        bench.run(&["k.ptx", "-o", "out"]);
        assert!(cache().source_of(&bench.read("out")).is_some());
    }
    assert_eq!(bench.calls().len(), 1);
}

fn source_file(bench: &Bench) -> PathBuf {
    let digest = ptxkit::cache::Digest::of(&bench.read("out"));
    let key = ptxkit::cache::Record::Source.key(digest).to_string();
    let (shard, name) = key.split_at(2);
    let folder = bench.path("cache/ptxkit-v1").join(shard);
    folder.join(format!("{name}.blob"))
}

/// With `-v` the real ptxas prints a time, which no two runs have in common.
fn without_times(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.contains("Compile time"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_ptxas_of_nvidia_is_cached() {
    let Some(nvcc) = std::env::var_os("NVCC").map(PathBuf::from) else {
        return;
    };
    let mut bench = Bench::new("");
    bench.real = nvcc.with_file_name("ptxas");
    std::fs::create_dir(bench.path("other")).unwrap();
    for sample in ["saxpy", "axpy_f64", "reduction", "scan", "none"] {
        let ptx = match sample {
            "none" => "this is no PTX".into(),
            _ => std::fs::read_to_string(super::sample(&format!("{sample}.ptx"))).unwrap(),
        };
        for name in ["k.ptx", "other/l.ptx"] {
            std::fs::write(bench.path(name), &ptx).unwrap();
        }
        for options in [
            &["-arch=sm_80"][..],
            &["--gpu-name=sm_90", "-lineinfo", "-v"],
            &["-arch=sm_90", "-warn-double-usage", "-O1", "--compile-only"],
            &["-arch=sm_90", "-g"],
        ] {
            // A miss, a hit, a hit under other names.
            for input in ["k.ptx", "k.ptx", "other/l.ptx"] {
                let args = [options, &[input, "-o", "code"]].concat();
                let mut runs = [Bench::run_real, Bench::run].map(|run| {
                    let _ = std::fs::remove_file(bench.path("code"));
                    let ran = run(&bench, &args);
                    (ran, std::fs::read(bench.path("code")).ok())
                });
                for (ran, _) in &mut runs {
                    ran.stderr = without_times(&ran.stderr).into_bytes();
                }
                let [real, ours] = runs;
                assert_eq!(ours, real, "{sample} {args:?}");
                assert_eq!(ours.1.is_some(), sample != "none", "{sample} {args:?}");
            }
        }
    }
    // Three of four lines of options for each of four samples.
    let cache = Cache::new(
        Policy::disabled()
            .with_enabled(true)
            .with_path(bench.path("cache")),
    );
    let entries = cache.entries().unwrap();
    let results = entries
        .iter()
        .filter(|entry| !entry.provenance.target.is_empty());
    assert_eq!(results.count(), 12);
}

#[cfg(feature = "remote")]
#[test]
fn results_reach_other_machines_through_the_remote_store() {
    let bench = Bench::new("warning");
    let (key, store) = (bench.path("key"), bench.path("store"));
    std::fs::create_dir(&store).unwrap();
    let key = key.display().to_string();
    let made = super::ptxkit(&bench.path("builder"), &["cache", "remote", "keygen", &key]);
    assert!(made.status.success(), "{}", stderr(&made));
    let trust = stdout(&made).trim().to_owned();
    let run = |machine: &str| {
        let mut command = bench.command(cached_ptxas(), &["k.ptx", "-o", machine]);
        command
            .env(
                "CUDA_CACHE_PATH",
                bench.path(&format!("cache of {machine}")),
            )
            .env("PTXKIT_REMOTE", format!("file://{}", store.display()))
            .env("PTXKIT_REMOTE_TRUST", &trust);
        if machine == "builder" {
            command.env("PTXKIT_REMOTE_SIGN", &key);
        }
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{}", stderr(&ran));
        assert_eq!(stderr(&ran), "ptxas k.ptx, line 3; warning : in k.ptx\n");
        bench.read(machine)
    };
    let built = run("builder");
    // Another file of the same build.
    install(&bench.real, FAKE);
    assert_eq!(run("reader"), built);
    assert_eq!(bench.calls().len(), 1);
    // The reader has the PTX too.
    let policy = Policy::disabled().with_enabled(true);
    let cache = Cache::new(policy.with_path(bench.path("cache of reader")));
    assert_eq!(*cache.source_of(&built).unwrap(), *b"warning");
}
