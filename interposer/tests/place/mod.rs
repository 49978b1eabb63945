//! Programs with the library in front of the CPU device.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A folder with the PTX, and the library as `libcuda.so.1`.
pub struct Place {
    pub folder: tempfile::TempDir,
    program: PathBuf,
}

/// The folder of the libraries: cargo puts them beside the test.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// The C program of this test binary, compiled once.
fn compiled(source: &str) -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let stem = source.trim_end_matches(".c");
        let program = built().join(format!("interposed-{stem}-{}", std::process::id()));
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(source);
        let mut compiler = Command::new("cc");
        compiler
            .args(["-w", "-std=gnu11"])
            .arg(source)
            .args(["-ldl", "-o"])
            .arg(&program);
        assert!(compiler.status().unwrap().success());
        program
    });
    program.clone()
}

impl Place {
    pub fn new(source: &str, ptx: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let library = built().join("libptxkit_interposer.so");
        std::os::unix::fs::symlink(library, folder.path().join("libcuda.so.1")).unwrap();
        std::fs::write(folder.path().join("k.ptx"), ptx).unwrap();
        Place {
            folder,
            program: compiled(source),
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&self.program, arguments)
    }

    /// The same for another program.
    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let path = self.folder.path();
        let mut command = Command::new(program);
        command
            .arg(path.join("k.ptx"))
            .args(arguments)
            .env("LD_LIBRARY_PATH", path)
            .env("PTXKIT_REAL_LIBCUDA", built().join("libcuda.so"))
            .env("PTXKIT_REPORT", "stderr")
            .env("CUDA_CACHE_PATH", path.join("cache"))
            .env_remove("CUDA_CACHE_DISABLE")
            .env_remove("PTXKIT_LIBCUDA");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
