//! Programs that would reach memory that is not theirs, and do not compile: one file
//! for each way, in `fail`. `//~ E0133` ends a line that has this error and no other, `//~ error` one
//! whose error has no code.
//! `//@ aux: NAME` is a line of a program that needs the crate `aux/NAME.rs`.
//! Those in `pass` compile: the library that is found is the right one. Of those in
//! `messages`, all that the compiler says is compared.
//!
//! The compiler is called here, with the library that this test was linked with. Cargo
//! in its place compiles all dependencies once more, which takes minutes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line and the code of an error there.
type Errors = BTreeSet<(usize, String)>;

#[test]
fn no_program_without_unsafe_reaches_memory_of_others() {
    for program in programs("fail") {
        let source = std::fs::read_to_string(&program).unwrap();
        let expected: Errors = source
            .lines()
            .zip(1..)
            .filter_map(|(line, number)| Some((number, line.split_once("//~ ")?.1)))
            .flat_map(|(number, codes)| {
                let codes = codes.split(' ');
                codes.map(move |code| (number, code.to_owned()))
            })
            .collect();
        assert!(!expected.is_empty(), "{}", program.display());
        let (found, said) = compile(&program);
        assert_eq!(found, expected, "{}:\n{said}", program.display());
    }
}

#[test]
fn programs_without_unsafe_launch_typed_kernels() {
    for program in programs("pass") {
        let (found, said) = compile(&program);
        assert_eq!(found, Errors::new(), "{}:\n{said}", program.display());
    }
}

/// What `kernels!` and `DeviceRepr` say of declarations that are wrong, and the types of the
/// builder of code.
#[test]
fn errors_of_macros_and_types_say_what_is_wrong_and_where() {
    for program in programs("messages") {
        let (is_right, said) = run_compiler(&program);
        assert!(!is_right, "{}", program.display());
        let name = program.file_stem().unwrap().to_string_lossy().into_owned();
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "messages" }, {
            insta::assert_snapshot!(name, said);
        });
    }
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/unsound")
        .join(folder);
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let programs: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    assert!(!programs.is_empty());
    programs
}

/// The errors of a program, and all that the compiler says.
fn compile(program: &Path) -> (Errors, String) {
    let (is_right, said) = run_compiler(program);
    // `main.rs:10:13: error[E0133]: …`
    let errors: Errors = said
        .lines()
        .filter_map(|line| {
            let (place, error) = line.split_once(": error")?;
            let (number, _column) = place.rsplit_once(':')?;
            let number = number.rsplit_once(':')?.1.parse().ok()?;
            let code = error
                .strip_prefix('[')
                .and_then(|code| code.split_once(']'));
            Some((number, code.map_or("error", |(code, _)| code).to_owned()))
        })
        .collect();
    assert_eq!(is_right, errors.is_empty(), "{said}");
    (errors, said)
}

/// Whether a program compiles, and all that the compiler says.
fn run_compiler(program: &Path) -> (bool, String) {
    let out = tempfile::tempdir().unwrap();
    let mut command = compiler(program, out.path());
    command.args(["--emit=metadata", "--error-format=short"]);
    let source = std::fs::read_to_string(program).unwrap();
    for name in source
        .lines()
        .filter_map(|line| line.strip_prefix("//@ aux: "))
    {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unsound/aux");
        let built = compiler(&folder.join(format!("{name}.rs")), out.path()).status();
        assert!(built.unwrap().success(), "{name}");
        let mut files = std::fs::read_dir(out.path()).unwrap();
        let library = files.find_map(|file| {
            let path = file.unwrap().path();
            let stem = path.file_stem()?.to_str()?.strip_prefix("lib")?;
            (stem == name).then_some(path)
        });
        command.arg("--extern");
        command.arg(format!("{name}={}", library.unwrap().display()));
    }
    let output = command.output().unwrap();
    // Whether the compiler writes the path of a name depends on which features the library has.
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said.replace("ptxkit::ptxkit_build::", "");
    (output.status.success(), said)
}

/// The compiler with a program of ours and the library.
fn compiler(program: &Path, out: &Path) -> Command {
    let (library, folder) = library();
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    command
        .arg("--edition=2024")
        .arg("--extern")
        .arg(format!("ptxkit={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", folder.display()))
        .arg("--out-dir")
        .arg(out)
        // Paths in messages are then those of no machine.
        .current_dir(program.parent().unwrap())
        .arg(program.file_name().unwrap())
        .env_remove("OUT_DIR");
    command
}

/// The library that lies beside this test, and their folder. Of several, which differ in
/// their features, that of the last build.
fn library() -> (PathBuf, PathBuf) {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let files = std::fs::read_dir(folder).unwrap();
    let libraries = files.map(|file| file.unwrap()).filter(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libptxkit-") && name.ends_with(".rlib")
    });
    let library = libraries.max_by_key(|file| file.metadata().unwrap().modified().unwrap());
    (library.unwrap().path(), folder.to_owned())
}
