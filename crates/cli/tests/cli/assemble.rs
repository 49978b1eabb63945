//! `ptxkit assemble`, with a compiler that the tests make.

use std::io::Write;
use std::process::Stdio;

use super::*;

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

/// A ptxas that runs `commands` to compile `$source` to `$code`.
fn ptxas(folder: &Path, commands: &str) -> String {
    let (text, path) = (folder.join("ptxas.sh"), folder.join("ptxas"));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo ptxas of the tests; exit 0; }}\n\
         while [ $# -gt 1 ]; do [ \"$1\" = -o ] && code=$2; shift; done\nsource=$1\n{commands}\n"
    );
    std::fs::write(&text, script).unwrap();
    // Not written here: what another test starts meanwhile inherits the open file,
    // and no system executes a file that is open for writing.
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755"]).args([&text, &path]).status();
    assert!(installed.unwrap().success());
    path.display().to_string()
}

/// The code is what the compiler was given.
const COPIES: &str = "cp \"$source\" \"$code\"";

fn assemble(commands: &str, args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let ptxas = ptxas(cache.path(), commands);
    ptxkit(
        &cache.path().join("cache"),
        &[&["assemble", "--ptxas", &ptxas], args].concat(),
    )
}

#[test]
fn a_compiler_that_fails_is_told_from_one_that_crashes() {
    let (_folder, path) = file("k.ptx", PTX);
    for (commands, words) in [
        (
            "echo half a word; kill -SEGV $$",
            &[
                "k.ptx is not compiled",
                "ptxas crashed with signal 11 (SIGSEGV)",
                "half a word",
            ][..],
        ),
        (
            "kill -ABRT $$",
            &["ptxas crashed with signal 6 (SIGABRT)", "help: "],
        ),
        (
            "exit 3",
            &["does not compile", "without a message, exit status: 3"],
        ),
        (
            "echo line 7: no; exit 255",
            &["does not compile: ptxas reports\nline 7: no"],
        ),
    ] {
        let output = assemble(commands, &[&path, "--target", "sm_90"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in:\n{said}");
        }
    }
}

#[test]
fn the_code_goes_beside_the_ptx() {
    let (folder, path) = file("k.ptx", PTX);
    for target in ["90", "sm_90", "compute_90"] {
        let output = assemble(COPIES, &[&path, "--target", target]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stdout(&output);
        assert!(
            said.contains("k.cubin, ") && said.contains("target   sm_90\n"),
            "{said}"
        );
        let code = folder.path().join("k.cubin");
        assert_eq!(std::fs::read_to_string(&code).unwrap(), PTX);
        std::fs::remove_file(code).unwrap();
    }
    let output = assemble(COPIES, &[&path, "--target", "hopper"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("`hopper` is not a target: write sm_90"),
        "{said}"
    );
}

#[test]
fn the_code_does_not_replace_the_ptx() {
    let (_folder, path) = file("k.ptx", PTX);
    let output = assemble(COPIES, &[&path, "--target", "90", "--output", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("would replace the PTX"));
    let (_folder, path) = file("k.cubin", PTX);
    let output = assemble(COPIES, &[&path, "--target", "90"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn standard_input_and_output_are_dashes() {
    let folder = tempfile::tempdir().unwrap();
    let ptxas = ptxas(folder.path(), COPIES);
    for more in [&[][..], &["--output", "-"]] {
        let mut child = Command::new(program())
            .args(["assemble", "-", "--target", "sm_90", "--ptxas", &ptxas])
            .args(more)
            .env("CUDA_CACHE_PATH", folder.path().join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(PTX.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output), PTX, "{}", stderr(&output));
        assert!(stderr(&output).starts_with("output   <stdout>, "));
    }
}

/// A ptxas with the code that ptxas 13.5 made of `ptx-samples/reduction.ptx` for each target, in a
/// folder for `PATH`. Other files give a cubin for sm_80 whose kernel spills.
pub fn recorded_ptxas(folder: &Path) -> PathBuf {
    let fatbin = include_bytes!("../images/fixtures/every-lz4.fatbin");
    let contents = ptxkit::image::contents(fatbin).unwrap();
    let mut targets = Vec::new();
    for entry in contents.entries() {
        if entry.kind == ptxkit::image::EntryKind::Elf {
            let target = entry.target.to_string();
            std::fs::write(folder.join(&target), entry.unpack().unwrap()).unwrap();
            targets.push(format!("'{target}'"));
        }
    }
    std::fs::write(folder.join("spills"), include_bytes!("spills/spills.cubin")).unwrap();
    let (text, path) = (folder.join("ptxas.sh"), folder.join("bin/ptxas"));
    let here = folder.display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo Build cuda_13.5.r13.5/compiler.39125733_0; exit 0; }}\n\
         [ \"$1\" = --help ] && {{ echo \"Allowed values: {}\"; exit 0; }}\n\
         while [ $# -gt 1 ]; do\n\
         case $1 in -o) code=$2; shift ;; -arch=*) arch=${{1#-arch=}} ;; -c) echo relocatable ;; esac\n\
         shift\ndone\n\
         grep -q reduction \"$1\" || arch=spills\n\
         exec cp \"{here}/$arch\" \"$code\"\n",
        targets.join(",")
    );
    std::fs::write(&text, script).unwrap();
    let mut install = Command::new("install");
    let installed = install.args(["-D", "-m", "755"]).args([&text, &path]);
    assert!(installed.status().unwrap().success());
    path
}

/// Files with the sample and with a kernel that spills, and a ptxas for them.
struct Recorded {
    folder: tempfile::TempDir,
    ptxas: String,
}

impl Recorded {
    fn new() -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let ptxas = recorded_ptxas(folder.path()).display().to_string();
        let reduction = include_str!("../../../../ptx-samples/reduction.ptx");
        std::fs::write(folder.path().join("reduction.ptx"), reduction).unwrap();
        std::fs::write(
            folder.path().join("spills.ptx"),
            include_str!("spills/spills.ptx"),
        )
        .unwrap();
        Recorded { folder, ptxas }
    }

    fn assemble(&self, arguments: &[&str]) -> Output {
        Command::new(program())
            .args(["assemble", "--ptxas", &self.ptxas])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("CUDA_CACHE_PATH", self.folder.path().join("cache"))
            .output()
            .unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let output = self.assemble(&[arguments, &["--format", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn several_files_and_targets_in_one_call() {
    let recorded = Recorded::new();
    let both = [
        "reduction.ptx",
        "spills.ptx",
        "--arch",
        "sm_80,sm_90",
        "-o",
        "out",
    ];
    let made = recorded.json(&both);
    let names = [
        "reduction.sm_80.cubin",
        "reduction.sm_90.cubin",
        "spills.sm_80.cubin",
        "spills.sm_90.cubin",
    ];
    assert_eq!(recorded.files("out"), names);
    let outputs: Vec<&str> = made
        .iter()
        .map(|made| made["output"].as_str().unwrap())
        .collect();
    assert_eq!(outputs, names.map(|name| format!("out/{name}")));
    assert!(made.iter().all(|made| made["cache"] == "miss"), "{made:?}");
    let reduction = &made[1]["kernels"][0];
    assert_eq!(reduction["name"], "reduction");
    assert_eq!(
        (&reduction["registers"], &reduction["spills"]),
        (&15.into(), &0.into())
    );
    // As `inspect` reads them.
    let cubin = recorded
        .folder
        .path()
        .join(outputs[1])
        .display()
        .to_string();
    let inspect = ptxkit(
        recorded.folder.path(),
        &["inspect", &cubin, "--format", "json"],
    );
    let inspected: serde_json::Value = serde_json::from_str(&stdout(&inspect)).unwrap();
    for key in ["registers", "shared", "stack", "local"] {
        assert_eq!(reduction[key], inspected[0]["kernels"][0][key], "{key}");
    }
    let table = stdout(&recorded.assemble(&both));
    let row = "spills.ptx  sm_80     spills            24";
    assert!(
        table.contains(row) && table.contains("cache hit"),
        "{table}"
    );
    // One that does not compile does not keep the others from it.
    std::fs::write(recorded.folder.path().join("bad.ptx"), PTX).unwrap();
    std::fs::remove_file(recorded.folder.path().join("spills")).unwrap();
    let mixed = recorded.assemble(&["bad.ptx", "reduction.ptx", "--arch", "sm_86"]);
    assert_eq!(mixed.status.code(), Some(2));
    assert!(
        stderr(&mixed).contains("bad.ptx does not compile"),
        "{}",
        stderr(&mixed)
    );
    assert!(
        stdout(&mixed).contains("reduction.cubin, "),
        "{}",
        stdout(&mixed)
    );
}

#[test]
fn all_targets_are_those_of_the_compiler_on_which_the_ptx_runs() {
    let recorded = Recorded::new();
    let targets = |file, arch| -> Vec<String> {
        let made = recorded.json(&[file, "--arch", arch, "-o", "out"]);
        made.iter()
            .map(|made| made["target"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = targets("reduction.ptx", "all");
    assert_eq!(all.len(), 13, "{all:?}");
    assert!(
        all.iter().all(|target| !target.ends_with(['a', 'f'])),
        "{all:?}"
    );
    let major = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120"];
    assert_eq!(targets("reduction.ptx", "all-major"), major);
    // Nothing older than the PTX.
    assert_eq!(targets("spills.ptx", "all-major"), major[1..]);
    assert_eq!(targets("spills.ptx", "sm_80,sm_80,all-major"), major[1..]);
    let text = PTX.replace("sm_80", "sm_90a");
    std::fs::write(recorded.folder.path().join("a.ptx"), text).unwrap();
    assert_eq!(targets("a.ptx", "all"), ["sm_90a"]);
    let text = PTX.replace("sm_80", "sm_150");
    std::fs::write(recorded.folder.path().join("new.ptx"), text).unwrap();
    let failed = recorded.assemble(&["new.ptx", "--arch", "all"]);
    assert_eq!(failed.status.code(), Some(2));
    let said = stderr(&failed);
    assert!(
        said.contains("new.ptx: the compiler has no target for PTX for sm_150"),
        "{said}"
    );
}

#[test]
fn spills_can_be_denied() {
    let recorded = Recorded::new();
    let deny = |file| recorded.assemble(&[file, "--arch", "sm_80", "--deny", "spills"]);
    assert_eq!(deny("reduction.ptx").status.code(), Some(0));
    let output = deny("spills.ptx");
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.starts_with("error: spills.ptx for sm_80: `spills`: "),
        "{said}"
    );
    assert!(said.contains(" spills, which --deny rejects"), "{said}");
    // The code is written all the same, for whoever looks at it.
    assert!(recorded.folder.path().join("spills.cubin").exists());
    let allowed = recorded.assemble(&["spills.ptx", "--arch", "sm_80"]);
    assert_eq!(allowed.status.code(), Some(0));

    // Code of CUDA 12.5, which does not mark them.
    let path = recorded.folder.path().join("spills");
    let mut code = std::fs::read(&path).unwrap();
    let toolkit = [4, 0x37, 4, 0, 135, 0, 0, 0];
    let at = code.windows(8).position(|bytes| bytes == toolkit).unwrap();
    code[at + 4] = 125;
    std::fs::write(&path, code).unwrap();
    let arguments = ["spills.ptx", "--arch", "sm_80", "-O1", "--deny", "spills"];
    let unknown = recorded.assemble(&arguments);
    assert_eq!(unknown.status.code(), Some(2));
    let said = stderr(&unknown);
    assert!(
        said.contains("spills.ptx for sm_80: `spills`: whether it spills is not known"),
        "{said}"
    );
    assert!(
        stdout(&unknown).contains("spills         24          ?"),
        "{}",
        stdout(&unknown)
    );
}

#[test]
fn resources_are_compared_with_a_baseline() {
    let recorded = Recorded::new();
    let files = ["reduction.ptx", "spills.ptx", "--arch", "sm_80,sm_90"];
    let run = |more: &[&str]| recorded.assemble(&[&files[..], more].concat());
    assert_eq!(run(&["--save", "resources.json"]).status.code(), Some(0));
    let path = recorded.folder.path().join("resources.json");
    let saved = std::fs::read_to_string(&path).unwrap();
    let same = run(&["--against", "resources.json"]);
    assert_eq!(
        (same.status.code(), stderr(&same)),
        (Some(0), String::new())
    );
    // Paths may be written differently, and JSON of the report is a baseline too.
    let plain = recorded.assemble(&[
        "./reduction.ptx",
        "--arch",
        "80",
        "--against",
        "resources.json",
    ]);
    assert_eq!(
        (plain.status.code(), stderr(&plain)),
        (Some(0), String::new())
    );
    let json = stdout(&run(&["--format", "json"]));
    std::fs::write(recorded.folder.path().join("report.json"), json).unwrap();
    assert_eq!(run(&["--against", "report.json"]).status.code(), Some(0));

    std::fs::write(
        &path,
        saved.replace("\"registers\": 15,", "\"registers\": 12,"),
    )
    .unwrap();
    let grew = run(&["--against", "resources.json"]);
    assert_eq!(grew.status.code(), Some(1));
    let said = stderr(&grew);
    let words = "error: reduction.ptx for sm_90: `reduction`: registers grew from 12 to 15";
    assert!(said.contains(words), "{said}");
    let made = run(&["--against", "resources.json", "--format", "json"]);
    let made: Vec<serde_json::Value> = serde_json::from_str(&stdout(&made)).unwrap();
    let finding = &made[1]["findings"][0];
    assert_eq!(
        (&finding["resource"], &finding["baseline"]),
        (&"registers".into(), &12.into())
    );

    std::fs::write(
        &path,
        saved.replace("\"registers\": 15,", "\"registers\": 18,"),
    )
    .unwrap();
    let fell = run(&["--against", "resources.json"]);
    assert_eq!(fell.status.code(), Some(0));
    assert!(
        stderr(&fell)
            .contains("note: reduction.ptx for sm_90: `reduction`: registers fell from 18 to 15")
    );
    std::fs::write(
        &path,
        saved.replace("\"name\": \"reduction\"", "\"name\": \"sum\""),
    )
    .unwrap();
    let renamed = stderr(&run(&["--against", "resources.json"]));
    assert!(
        renamed.contains("`reduction` is not in resources.json"),
        "{renamed}"
    );
    assert!(
        renamed.contains("`sum` is only in resources.json"),
        "{renamed}"
    );

    // A comparison with nothing is no success.
    let other = recorded.assemble(&[
        "reduction.ptx",
        "--arch",
        "sm_86",
        "--against",
        "resources.json",
    ]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("has none of these files and targets"));
    for (content, words) in [
        ("{}", "is not a file of resources"),
        ("[", "is not a file of resources"),
    ] {
        std::fs::write(&path, content).unwrap();
        let bad = run(&["--against", "resources.json"]);
        assert_eq!(bad.status.code(), Some(2));
        assert!(stderr(&bad).contains(words), "{}", stderr(&bad));
    }
}

#[test]
fn relocatable_code_is_for_ptxas_and_has_its_own_key() {
    let (folder, path) = file("k.ptx", PTX);
    let cache = folder.path().join("cache");
    let ptxas = ptxas(
        folder.path(),
        "case \"$all\" in *\" -c \"*) echo linked >\"$code\" ;; *) cp \"$source\" \"$code\" ;; esac",
    );
    let text = std::fs::read_to_string(&ptxas).unwrap();
    let with_all = text.replacen("while [", "all=\" $* \"\nwhile [", 1);
    std::fs::write(folder.path().join("all.sh"), with_all).unwrap();
    let mut install = Command::new("install");
    let installed = install
        .args(["-m", "755", "all.sh", "ptxas"])
        .current_dir(folder.path());
    assert!(installed.status().unwrap().success());
    let run = |more: &[&str]| {
        let all = [
            &["assemble", &path, "--arch", "sm_90", "--ptxas", &ptxas],
            more,
        ]
        .concat();
        let output = ptxkit(&cache, &all);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        std::fs::read_to_string(folder.path().join("k.cubin")).unwrap()
    };
    assert_eq!(run(&[]), PTX);
    assert_eq!(run(&["--relocatable"]), "linked\n");
    assert_eq!(run(&[]), PTX);
}

#[test]
fn outputs_that_collide_are_an_error() {
    let recorded = Recorded::new();
    std::fs::create_dir(recorded.folder.path().join("b")).unwrap();
    let text = include_str!("spills/spills.ptx");
    std::fs::write(recorded.folder.path().join("b/reduction.ptx"), text).unwrap();
    let arguments = ["reduction.ptx", "b/reduction.ptx", "--arch", "sm_80"];
    let output = recorded.assemble(&[&arguments[..], &["-o", "out"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    let words = "reduction.ptx and b/reduction.ptx would both be written to out/reduction.cubin";
    assert!(said.contains(words), "{said}");
    assert_eq!(recorded.assemble(&arguments).status.code(), Some(0));
    let standard = recorded.assemble(&[&arguments[..], &["-o", "-"]].concat());
    assert!(stderr(&standard).contains("standard output takes the code of one file"));
    // A folder also takes a single output.
    let single = recorded.assemble(&["reduction.ptx", "--arch", "sm_80", "-o", "out"]);
    assert!(
        stdout(&single).contains("output   out/reduction.cubin, 6248 bytes"),
        "{}",
        stdout(&single)
    );
}

/// Sources, code and baselines are never one file.
#[test]
fn outputs_do_not_replace_inputs() {
    let cache = tempfile::tempdir().unwrap();
    let ptxas = ptxas(cache.path(), COPIES);
    let run = |args: &[&str]| {
        let mut command = Command::new(program());
        command
            .current_dir(cache.path())
            .args(["assemble", "--ptxas", &ptxas, "--arch", "sm_90"])
            .args(args)
            .env("CUDA_CACHE_PATH", cache.path().join("cache"));
        command.output().unwrap()
    };
    let path = cache.path().join("k.ptx");
    std::fs::write(&path, PTX).unwrap();
    std::os::unix::fs::symlink("k.ptx", cache.path().join("link.ptx")).unwrap();
    for args in [
        &["k.ptx", "-o", "./k.ptx"][..],
        &["k.ptx", "-o", "link.ptx"],
        &["k.ptx", "--save", "./k.ptx"],
        &["k.ptx", "-o", "k.cubin", "--save", "k.cubin"],
        &["k.ptx", "./k.ptx", "-o", "build"],
    ] {
        let ran = run(args);
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {}", stderr(&ran));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), PTX, "{args:?}");
    }
    let ran = run(&["k.ptx", "link.ptx", "-o", "k.ptx"]);
    assert!(
        stderr(&ran).contains("is a file, and there are 2 results"),
        "{}",
        stderr(&ran)
    );
}
