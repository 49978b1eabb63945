//! The list of the PTX that a program loads, with its options, so that it can be compiled before the program starts:
//! `PTXKIT_SAVE_COMPILES`, and `ptxkit cache warm --from`.
//!
//! The file has a line of JSON for each module that is loaded, and one for each kernel of a module that is compiled
//! kernel by kernel. Several processes may append to it.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

use ptxkit::cache::Key;
use ptxkit::jit::{CacheMode, JitOptions};
use ptxkit::ptx::Digest;
use serde::{Deserialize, Serialize};

/// The variable with the file.
pub const VARIABLE: &str = "PTXKIT_SAVE_COMPILES";

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Module {
        digest: Cow<'a, str>,
        #[serde(flatten)]
        options: Options,
        /// Whether it is compiled kernel by kernel.
        sliced: bool,
        ptx: Cow<'a, str>,
    },
    /// A kernel or variable that was used of such a module.
    Used {
        digest: Cow<'a, str>,
        #[serde(flatten)]
        options: Options,
        name: Cow<'a, str>,
    },
}

/// The options that a program can give with a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    optimization: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_registers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    l1: Option<bool>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    line_info: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    debug: bool,
}

impl Options {
    fn of(options: &JitOptions) -> Options {
        Options {
            optimization: options.optimization,
            max_registers: options.max_registers,
            l1: options.cache_mode.map(|mode| mode == CacheMode::L1),
            line_info: options.line_info,
            debug: options.debug,
        }
    }

    fn jit(self) -> JitOptions {
        JitOptions {
            optimization: self.optimization,
            max_registers: self.max_registers,
            cache_mode: self
                .l1
                .map(|l1| if l1 { CacheMode::L1 } else { CacheMode::L2Only }),
            line_info: self.line_info,
            debug: self.debug,
            ..JitOptions::default()
        }
    }
}

/// A module that a program loads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Module {
    pub ptx: String,
    pub options: JitOptions,
    /// The kernels and variables that the program uses, of a module that is compiled kernel by kernel.
    pub used: Option<Vec<String>>,
}

/// A module in a file, to which its kernels are added as they are used.
///
/// ```
/// use ptxkit::jit::JitOptions;
/// use ptxkit_compiles::{Saved, read};
///
/// # let folder = std::env::temp_dir().join(format!("ptxkit-compiles-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("compiles.jsonl");
/// let ptx = ".version 8.0 .target sm_80 .entry k() { ret; }";
/// let saved = Saved::module(&file, ptx, &JitOptions::default(), true)?;
/// saved.used("k")?;
/// let modules = read(&file)?;
/// assert_eq!(modules[0].used.as_deref(), Some(&["k".to_owned()][..]));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Saved {
    file: PathBuf,
    digest: String,
    options: Options,
}

impl Saved {
    /// Appends a module to a file. `sliced` if it is compiled kernel by kernel.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn module(file: &Path, ptx: &str, options: &JitOptions, sliced: bool) -> Result<Saved> {
        let digest = Digest::of(ptx.as_bytes());
        let saved = Saved {
            file: file.to_owned(),
            digest: Key::from_bytes(*digest.as_bytes()).to_string(),
            options: Options::of(options),
        };
        saved.append(&Line::Module {
            digest: saved.digest.as_str().into(),
            options: saved.options,
            sliced,
            ptx: ptx.into(),
        })?;
        Ok(saved)
    }

    /// Appends a kernel or variable that is used.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn used(&self, name: &str) -> Result<()> {
        self.append(&Line::Used {
            digest: self.digest.as_str().into(),
            options: self.options,
            name: name.into(),
        })
    }

    fn append(&self, line: &Line<'_>) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // One write, so that the lines of processes do not mix.
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.file);
        file?.write_all(&text)
    }
}

/// Reads a file. Modules that were loaded several times are there once.
///
/// # Errors
/// The file cannot be read, or a line is none of those that this crate writes.
pub fn read(file: &Path) -> Result<Vec<Module>> {
    let mut modules: BTreeMap<(String, Options), (usize, Module)> = BTreeMap::new();
    let mut used: Vec<((String, Options), String)> = Vec::new();
    let reader = std::io::BufReader::new(std::fs::File::open(file)?);
    for (number, line) in reader.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let line = serde_json::from_str(&line).map_err(|error| {
            let text = format!("line {}: {error}", number + 1);
            Error::new(ErrorKind::InvalidData, text)
        })?;
        match line {
            Line::Module {
                digest,
                options,
                sliced,
                ptx,
            } => {
                let order = modules.len();
                let entry = modules.entry((digest.into_owned(), options));
                let (_, module) = entry.or_insert_with(|| {
                    let module = Module {
                        ptx: ptx.into_owned(),
                        options: options.jit(),
                        used: None,
                    };
                    (order, module)
                });
                if sliced {
                    module.used.get_or_insert_default();
                }
            }
            Line::Used {
                digest,
                options,
                name,
            } => used.push(((digest.into_owned(), options), name.into_owned())),
        }
    }
    for (module, name) in used {
        if let Some((_, module)) = modules.get_mut(&module) {
            let names = module.used.get_or_insert_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mut modules: Vec<_> = modules.into_values().collect();
    modules.sort_by_key(|(order, _)| *order);
    Ok(modules.into_iter().map(|(_, module)| module).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_there_once_for_each_choice_of_options() {
        let folder =
            std::env::temp_dir().join(format!("ptxkit-compiles-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("list");
        let plain = JitOptions::default();
        let other = JitOptions {
            max_registers: Some(32),
            cache_mode: Some(CacheMode::L2Only),
            line_info: true,
            ..plain
        };
        for _ in 0..2 {
            Saved::module(&file, "b \"\n", &plain, false).unwrap();
            let saved = Saved::module(&file, "a", &other, true).unwrap();
            saved.used("k").unwrap();
            saved.used("l").unwrap();
        }
        let module = |ptx: &str, options, used| Module {
            ptx: ptx.to_owned(),
            options,
            used,
        };
        let used = Some(vec!["k".to_owned(), "l".to_owned()]);
        let expected = [module("b \"\n", plain, None), module("a", other, used)];
        assert_eq!(read(&file).unwrap(), expected);
        std::fs::write(&file, "{}\n").unwrap();
        assert!(read(&file).unwrap_err().to_string().starts_with("line 1: "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
