//! `ptxkit nvptxcompiler`, with a static library that the tests make, and with NVIDIA's where `NVCC` is in a
//! toolkit that has it.

use super::*;

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

/// Gives the PTX back as code, and refuses PTX with the word `rot`.
const LIBRARY: &str = r#"
#include <stdlib.h>
#include <string.h>
typedef struct { char *text; const char *log; } State;
int nvPTXCompilerGetVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = 7; return 0; }
int nvPTXCompilerGetNumSupportedVersions(int *count) { *count = 2; return 0; }
int nvPTXCompilerGetSupportedVersions(int (*all)[2]) {
    all[0][0] = 9; all[0][1] = 7; all[1][0] = 8; all[1][1] = 0; return 0;
}
int nvPTXCompilerCreate(State **state, size_t length, const char *text) {
    *state = malloc(sizeof(State)); (*state)->text = strndup(text, length); (*state)->log = ""; return 0;
}
int nvPTXCompilerCompile(State *state, int count, const char *const *options) {
    if (!strstr(state->text, "rot")) return 0;
    state->log = "ptxas application ptx input, line 4; error   : Not a name of any known instruction: 'rot'";
    return 3;
}
int nvPTXCompilerGetCompiledProgramSize(State *state, size_t *size) { *size = strlen(state->text); return 0; }
int nvPTXCompilerGetCompiledProgram(State *state, char *code) {
    memcpy(code, state->text, strlen(state->text)); return 0;
}
int nvPTXCompilerGetErrorLogSize(State *state, size_t *size) { *size = strlen(state->log); return 0; }
int nvPTXCompilerGetErrorLog(State *state, char *log) { strcpy(log, state->log); return 0; }
int nvPTXCompilerGetInfoLogSize(State *state, size_t *size) { *size = 0; return 0; }
int nvPTXCompilerGetInfoLog(State *state, char *log) { *log = 0; return 0; }
int nvPTXCompilerDestroy(State **state) { free((*state)->text); free(*state); return 0; }
"#;

/// A folder with a static library of the code.
fn archive(code: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lib = folder.path().join("nvidia/cu13/lib");
    std::fs::create_dir_all(&lib).unwrap();
    std::fs::write(lib.join("library.c"), code).unwrap();
    for command in [
        &["cc", "-fPIC", "-c", "library.c", "-o", "library.o"][..],
        &["ar", "rc", "libnvptxcompiler_static.a", "library.o"],
    ] {
        let mut compiler = Command::new(command[0]);
        let status = compiler.args(&command[1..]).current_dir(&lib).status();
        assert!(status.unwrap().success());
    }
    folder
}

/// Runs the program with a data folder.
fn with_data(data: &Path, args: &[&str]) -> Output {
    let cache = data.join("cache");
    let variables = [
        ("XDG_DATA_HOME", data),
        ("PTXKIT_NVPTXCOMPILER", Path::new("")),
    ];
    ptxkit_with(&cache, &variables, args)
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_library_is_built_listed_used_and_removed() {
    let (data, from) = (tempfile::tempdir().unwrap(), archive(LIBRARY));
    let data = data.path();
    let none = with_data(data, &["nvptxcompiler", "list"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stdout(&none).contains("`ptxkit nvptxcompiler build` makes one"));

    let built = with_data(
        data,
        &["nvptxcompiler", "build", "--from", shown(from.path())],
    );
    assert_eq!(stderr(&built), "");
    assert!(
        stdout(&built).contains("nvptxcompiler 13.7"),
        "{}",
        stdout(&built)
    );
    let folder = data.join("ptxkit/nvptxcompiler");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
    let [file] = &files[..] else {
        panic!("{files:?}")
    };
    let name = file.file_name().into_string().unwrap();
    assert!(name.starts_with("libnvptxcompiler-13.7-"), "{name}");

    let listed = with_data(data, &["nvptxcompiler", "list"]);
    assert_eq!(listed.status.code(), Some(0));
    assert!(stdout(&listed).contains("nvptxcompiler 13.7"));
    assert!(stdout(&listed).contains("PTX up to 9.7"));

    let ptx = data.join("k.ptx");
    let code = data.join("k.cubin");
    for (text, status) in [(PTX.to_owned(), 0), (PTX.replace("ret", "rot"), 2)] {
        std::fs::write(&ptx, &text).unwrap();
        let args = [
            "assemble",
            "--compiler",
            "nvptxcompiler",
            "--target",
            "sm_90",
            "-o",
            shown(&code),
        ];
        let made = with_data(data, &[&args[..], &[shown(&ptx)]].concat());
        assert_eq!(made.status.code(), Some(status), "{}", stderr(&made));
        if status == 0 {
            assert_eq!(std::fs::read_to_string(&code).unwrap(), text);
        }
    }

    let removed = with_data(data, &["nvptxcompiler", "remove"]);
    assert!(stdout(&removed).contains(&name));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn what_is_no_such_library_is_refused() {
    let (data, other) = (
        tempfile::tempdir().unwrap(),
        archive("int f(void) { return 0; }"),
    );
    let empty = tempfile::tempdir().unwrap();
    let text = data.path().join("a.txt");
    std::fs::write(&text, "text").unwrap();
    for (from, words) in [
        (other.path(), "nvPTXCompilerGetVersion"),
        (empty.path(), "does not have libnvptxcompiler_static.a"),
        (&text, "is not a static library"),
        (&data.path().join("absent"), "No such file"),
    ] {
        let built = with_data(
            data.path(),
            &["nvptxcompiler", "build", "--from", shown(from)],
        );
        assert_eq!(built.status.code(), Some(2));
        let message = stderr(&built);
        assert!(
            message.starts_with("error: ") && message.contains(words),
            "{message}"
        );
    }
    // Nothing is left of a library that was linked and is another.
    let folder = data.path().join("ptxkit/nvptxcompiler");
    assert_eq!(std::fs::read_dir(folder).map_or(0, Iterator::count), 0);
}

#[test]
fn the_library_of_nvidia_compiles_what_its_ptxas_does() {
    let Some(nvcc) = std::env::var_os("NVCC").map(PathBuf::from) else {
        return;
    };
    let toolkit = nvcc.ancestors().nth(2).unwrap();
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let built = with_data(data, &["nvptxcompiler", "build", "--from", shown(toolkit)]);
    assert_eq!(built.status.code(), Some(0), "{}", stderr(&built));
    let ptx = data.join("k.ptx");
    std::fs::write(&ptx, PTX).unwrap();
    let ptxas = toolkit.join("bin/ptxas");
    let codes = [["--compiler", "nvptxcompiler"], ["--ptxas", shown(&ptxas)]].map(|compiler| {
        let code = data.join("k.cubin");
        let args = [
            "assemble",
            "--target",
            "sm_90",
            "-o",
            shown(&code),
            shown(&ptx),
        ];
        let made = with_data(data, &[&args[..], &compiler].concat());
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        std::fs::read(&code).unwrap()
    });
    // They name themselves in a note of the code.
    assert_eq!(codes[0].len(), codes[1].len());
}
