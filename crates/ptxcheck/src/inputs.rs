//! The files to check, and the PTX in them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::{Configs, Settings};
use super::contents::Contents;
use image::{self, PtxFound};
use input::ShowName as _;
use ptx::Ptx;
use terminal::failure::Failure;
use terminal::walk::{self, is_ptx};

/// A file to check.
#[derive(Debug)]
pub struct Input {
    pub place: Place,
    /// Found in a folder, and not named .ptx, so it may not contain PTX.
    pub found: bool,
    pub settings: Arc<Settings>,
}

/// The origin of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    File(PathBuf),
    /// Standard input, and the file name for it.
    StandardInput(PathBuf),
}

impl Place {
    /// `-` is standard input.
    pub fn new(path: &Path, stdin_name: &Path) -> Place {
        if path.as_os_str() == "-" {
            Place::StandardInput(stdin_name.to_owned())
        } else {
            Place::File(path.to_owned())
        }
    }

    pub fn path(&self) -> &Path {
        let (Place::File(path) | Place::StandardInput(path)) = self;
        path
    }

    /// The path in machine-readable output.
    pub fn name(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    /// # Errors
    /// It does not exist, or cannot be read.
    pub fn read(&self) -> Result<Contents, Failure> {
        match self {
            Place::File(path) => Contents::read(path),
            Place::StandardInput(_) => input::standard_input().map(Contents::Heap),
        }
        .map_err(|error| unreadable(self.path(), &error))
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("{}: {error}", path.shown()));
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            failure.help("give PTX files, or folders with some; `-` reads standard input")
        }
        _ => failure,
    }
}

/// All files in the order of the command line, those of a folder by name, and the errors of those
/// that cannot be read.
///
/// # Errors
/// A `ptxcheck.toml` cannot be used.
pub fn collect(
    paths: &[PathBuf],
    stdin_name: &Path,
    configs: &mut Configs<'_>,
) -> Result<(Vec<Input>, Vec<Failure>), Failure> {
    let (mut inputs, mut failures) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for path in paths {
        let place = Place::new(path, stdin_name);
        if !path.is_dir() || matches!(place, Place::StandardInput(_)) {
            let settings = configs.of_folder(parent(place.path()))?;
            let excluded = settings.force_exclude && settings.excludes(place.path());
            if !excluded && seen.insert(place.clone()) {
                inputs.push(Input {
                    place,
                    found: false,
                    settings,
                });
            }
            continue;
        }
        let mut held = false;
        for file in walk::files(path) {
            let file = match file {
                Ok(file) => file,
                Err(failure) => {
                    failures.push(failure);
                    continue;
                }
            };
            if !may_hold_ptx(&file) {
                continue;
            }
            held = true;
            let settings = configs.of_folder(parent(&file))?;
            let found = !is_ptx(&file);
            let place = Place::File(file);
            if !settings.excludes(place.path()) && seen.insert(place.clone()) {
                inputs.push(Input {
                    place,
                    found,
                    settings,
                });
            }
        }
        if !held && failures.is_empty() {
            failures.push(without_ptx(format!(
                "{}: no file in this folder contains PTX",
                path.shown()
            )));
        }
    }
    Ok((inputs, failures))
}

/// The error where there is no PTX to check.
pub fn without_ptx(message: String) -> Failure {
    Failure::new(message).help("PTX files end in .ptx; `nvcc -ptx` or `--keep` writes them")
}

/// The error where no file has any.
pub fn nowhere_ptx() -> Failure {
    without_ptx("there is no PTX in any of these files".to_owned())
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Whether a file may contain PTX, by its name or its first bytes. Those of a Python pickle do not
/// tell: numba names its own so.
fn may_hold_ptx(path: &Path) -> bool {
    if is_ptx(path) || path.extension().is_some_and(|extension| extension == "nbc") {
        return true;
    }
    let start = input::read_start(path, 4).unwrap_or_default();
    CONTAINERS.iter().any(|magic| *start == *magic)
}

/// The magic numbers of fatbins, ELF files and archives.
const CONTAINERS: [[u8; 4]; 3] = [[0x50, 0xed, 0x55, 0xba], *b"\x7fELF", *b"!<ar"];

/// One PTX module of a file.
#[derive(Debug)]
pub struct Text<'f> {
    /// The file, and the part of it.
    pub name: String,
    /// The bytes of the file where they are text.
    pub source: Cow<'f, str>,
    /// The file consists only of this text, so that fixes can be written back.
    pub whole: bool,
}

/// Calls back for the PTX texts of a file one after the other, so that only one is in memory. A
/// damaged part is an error in its place. A file without PTX that was found in a folder has none.
///
/// # Errors
/// The file cannot be read, or is named on the command line and has no PTX.
pub fn each_text(
    input: &Input,
    mut f: impl FnMut(Result<Text<'_>, Failure>),
) -> Result<(), Failure> {
    let name = input.place.name();
    let shown = input.place.path().shown();
    let bytes = input.place.read()?;
    let found = match image::ptx_texts(&bytes) {
        Ok(found) => found,
        Err(_) if input.found => return Ok(()),
        // It may be PTX without `.version` and `.target`.
        Err(error) => {
            let Ok(ptx) = Ptx::from_bytes(&*bytes, name.as_str()) else {
                return Err(Failure::new(format!("{shown}: {error}")));
            };
            f(Ok(Text {
                whole: std::str::from_utf8(&bytes).is_ok(),
                source: ptx.text().into(),
                name,
            }));
            return Ok(());
        }
    };
    let mut holds_ptx = false;
    for text in found {
        holds_ptx = true;
        f(match text {
            Ok(PtxFound { origin, text, .. }) => Ok(Text {
                // What is borrowed is UTF-8.
                whole: origin.is_empty()
                    && (matches!(text, Cow::Borrowed(_)) || std::str::from_utf8(&bytes).is_ok()),
                name: match origin.as_str() {
                    "" => name.clone(),
                    part => format!("{name} ({part})"),
                },
                source: text,
            }),
            Err(error) => Err(Failure::new(format!("{shown}: {error}"))),
        });
    }
    if !holds_ptx && !input.found {
        return Err(Failure::new(format!("{shown} contains no PTX"))
            .help("compile with -gencode arch=compute_90,code=compute_90 to keep the PTX"));
    }
    Ok(())
}
