//! CUDA C++ to PTX by nvcc, in a build script.
//!
//! ```no_run
//! // build.rs; ptxkit-nvcc is among the build-dependencies
//! fn main() -> Result<(), ptxkit_nvcc::Error> {
//!     ptxkit_nvcc::compile("src/vector.cu")?;
//!     ptxkit_nvcc::Nvcc::new()
//!         .architecture("compute_90a")
//!         .argument("-O3")
//!         .compile("src/matrix.cu")?;
//!     Ok(())
//! }
//! ```
//!
//! `ptxkit::kernels!` finds the PTX by the name of its source: `pub mod vector source =
//! "vector.cu";` in `src/main.rs`. The package is built again when a file that nvcc read has
//! changed.
//!
//! nvcc is the one that `NVCC` names, or else the first in `PATH`, `CUDA_PATH/bin`,
//! `CUDA_HOME/bin` and `/usr/local/cuda/bin`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

pub use error::Error;

/// What the place of nvcc depends on.
const VARIABLES: [&str; 4] = ["NVCC", "PATH", "CUDA_PATH", "CUDA_HOME"];

/// Compiles a CUDA C++ file, whose path is relative to the package, for nvcc's default
/// architecture. Returns the path of the PTX, in `OUT_DIR`.
pub fn compile(source: impl AsRef<Path>) -> Result<PathBuf, Error> {
    Nvcc::new().compile(source)
}

/// How nvcc is called.
#[derive(Clone, Debug, Default)]
pub struct Nvcc {
    arguments: Vec<OsString>,
}

impl Nvcc {
    /// With its defaults.
    pub fn new() -> Nvcc {
        Nvcc::default()
    }

    /// The virtual architecture: `compute_90a`. It is the oldest GPU that can load the PTX;
    /// by default it is the oldest that nvcc knows.
    #[must_use]
    pub fn architecture(self, name: &str) -> Nvcc {
        self.argument(format!("-arch={name}"))
    }

    /// Another argument: `-O3`, `-Iinclude`, `--use_fast_math`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Nvcc {
        self.arguments.push(argument.into());
        self
    }

    /// Compiles a file, whose path is relative to the package. Returns the path of the PTX, in
    /// `OUT_DIR`.
    pub fn compile(&self, source: impl AsRef<Path>) -> Result<PathBuf, Error> {
        for variable in VARIABLES {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let build = Build::from_environment(std::env::var_os)?;
        let (ptx, read) = build.compile(source.as_ref(), &self.arguments)?;
        for file in read {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        Ok(ptx)
    }
}

/// What the environment of a build script tells.
#[derive(Debug)]
struct Build {
    package: PathBuf,
    out: PathBuf,
    /// Where nvcc may be.
    compilers: Vec<PathBuf>,
}

impl Build {
    fn from_environment(
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Build, Error> {
        let folder = |name| {
            variable(name)
                .map(PathBuf::from)
                .ok_or(Error::NoBuildScript { name })
        };
        let compilers = match variable("NVCC") {
            Some(nvcc) => vec![PathBuf::from(nvcc)],
            None => {
                let path = variable("PATH").unwrap_or_default();
                let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(&variable);
                let toolkits = toolkits.chain([OsString::from("/usr/local/cuda")]);
                let toolkits = toolkits.map(|toolkit| Path::new(&toolkit).join("bin"));
                let folders = std::env::split_paths(&path).chain(toolkits);
                folders.map(|folder| folder.join("nvcc")).collect()
            }
        };
        Ok(Build {
            package: folder("CARGO_MANIFEST_DIR")?,
            out: folder("OUT_DIR")?,
            compilers,
        })
    }

    /// The PTX, and the files that were read for it.
    fn compile(
        &self,
        source: &Path,
        arguments: &[OsString],
    ) -> Result<(PathBuf, Vec<PathBuf>), Error> {
        // The name by which the macro finds it.
        let is_within = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !source.components().all(is_within) {
            return Err(Error::Outside {
                source: source.to_owned(),
            });
        }
        let within: PathBuf = source
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        let ptx = self.out.join(&within).with_extension("ptx");
        let dependencies = ptx.with_extension("d");
        let source = self.package.join(within);
        if !source.is_file() {
            return Err(Error::NoSource { source });
        }
        let files = |error| Error::Files {
            folder: self.out.clone(),
            error,
        };
        ptx.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .map_err(files)?;

        let Some(nvcc) = self.compilers.iter().find(|nvcc| nvcc.is_file()) else {
            return Err(Error::NoNvcc {
                source,
                tried: self.compilers.clone(),
            });
        };
        let output = Command::new(nvcc)
            .args(["-ptx", "-MMD", "-MF"])
            .arg(&dependencies)
            .args(arguments)
            .arg("-o")
            .args([&ptx, &source])
            .current_dir(&self.package)
            .output()
            .map_err(|error| Error::Start {
                nvcc: nvcc.clone(),
                error,
            })?;
        if !output.status.success() {
            // It writes what is wrong to either.
            let said = [output.stdout, output.stderr].concat();
            return Err(Error::Refused {
                source,
                status: output.status,
                said: String::from_utf8_lossy(&said).into_owned(),
            });
        }
        let mut read = vec![source];
        let listed = std::fs::read_to_string(dependencies).map_err(files)?;
        read.extend(listed_files(&listed).map(|file| self.package.join(file)));
        Ok((ptx, read))
    }
}

/// The files that a rule of make names: `vector.ptx : vector.cu \ include/vector.h`.
fn listed_files(rule: &str) -> impl Iterator<Item = PathBuf> {
    let files = rule.split_once(": ").map_or("", |(_, files)| files);
    // A blank in a name has a backslash before it.
    let files = files.replace("\\\n", " ").replace("\\ ", "\0");
    let files: Vec<_> = files
        .split_whitespace()
        .map(|file| file.replace('\0', " "))
        .collect();
    files.into_iter().map(PathBuf::from)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;

    /// A package with one source, and an nvcc that runs `script`.
    fn build(folder: &Path, script: &str) -> Build {
        fs::create_dir_all(folder.join("package/src")).unwrap();
        fs::write(folder.join("package/src/a b.cu"), "").unwrap();
        let text = folder.join("nvcc.sh");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Not written here: what another test starts meanwhile inherits the open file,
        // and no system executes a file that is open for writing.
        let mut install = Command::new("install");
        install
            .args(["-m", "700"])
            .args([text, folder.join("nvcc")]);
        assert!(install.status().unwrap().success());
        let folder = folder.to_owned();
        Build::from_environment(move |name| match name {
            "NVCC" => Some(folder.join("nvcc").into()),
            "CARGO_MANIFEST_DIR" => Some(folder.join("package").into()),
            "OUT_DIR" => Some(folder.join("out").into()),
            _ => None,
        })
        .unwrap()
    }

    #[test]
    fn the_ptx_lies_where_its_source_does() {
        let folder = tempfile::tempdir().unwrap();
        // -ptx -MMD -MF dependencies -O3 -o ptx source
        let build = build(
            folder.path(),
            r#"echo "$5" > "$7"; printf 'x.ptx : src/a\\ b.cu \\\n   include/c.h\n' > "$4""#,
        );
        let (ptx, read) = build
            .compile(Path::new("./src/a b.cu"), &["-O3".into()])
            .unwrap();
        assert_eq!(ptx, folder.path().join("out/src/a b.ptx"));
        assert_eq!(fs::read_to_string(ptx).unwrap(), "-O3\n");
        let package = folder.path().join("package");
        let files = ["src/a b.cu", "src/a b.cu", "include/c.h"].map(|file| package.join(file));
        assert_eq!(read, files);
    }

    #[test]
    fn what_nvcc_says_is_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let build = build(folder.path(), "echo 'a.cu(1): error: what is x?'; exit 2");
        let error = build.compile(Path::new("src/a b.cu"), &[]).unwrap_err();
        let message = format!("{error:?}");
        assert!(message.contains("a.cu(1): error: what is x?"), "{message}");
    }

    #[test]
    fn without_nvcc_the_error_says_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let build = build(folder.path(), "");
        fs::remove_file(folder.path().join("nvcc")).unwrap();
        let error = build.compile(Path::new("src/a b.cu"), &[]).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("no nvcc is installed"), "{message}");
        assert!(message.contains(folder.path().join("nvcc").to_str().unwrap()));
        for (path, expected) in [("src/none.cu", "no such file"), ("../a.cu", "outside")] {
            let error = build.compile(Path::new(path), &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn nvcc_is_looked_for_in_the_path_and_the_toolkits() {
        let build = Build::from_environment(|name| match name {
            "PATH" => Some("/a:/b".into()),
            "CUDA_HOME" => Some("/c".into()),
            "NVCC" | "CUDA_PATH" => None,
            _ => Some("/".into()),
        })
        .unwrap();
        let expected = [
            "/a/nvcc",
            "/b/nvcc",
            "/c/bin/nvcc",
            "/usr/local/cuda/bin/nvcc",
        ];
        assert_eq!(build.compilers, expected.map(PathBuf::from));
        let error = Build::from_environment(|_| None).unwrap_err();
        assert!(matches!(error, Error::NoBuildScript { .. }));
    }
}
