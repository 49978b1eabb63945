//! Where the code goes.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::written;
use input::ShowName as _;
use ptxkit::image::Target;
use terminal::failure::Failure;
use terminal::output::print_bytes;

/// The destination of the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    File(PathBuf),
    Standard,
}

pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Output {
    /// The destinations of the code of each file for each target. `output` is the user's choice: a
    /// file, or a folder if it is one or there are several destinations.
    ///
    /// # Errors
    /// Code would replace PTX or other code, or go to a terminal.
    pub fn of_all(
        output: Option<&Path>,
        jobs: &[(&Path, Target)],
        several_targets: bool,
    ) -> Result<Vec<Output>, Failure> {
        let is_folder = output.is_some_and(|output| jobs.len() > 1 || output.is_dir());
        if let Some(folder) = output.filter(|_| is_folder) {
            if is_standard(folder) {
                return Err(Failure::new(format!(
                    "standard output takes the code of one file for one target, and there are {}",
                    jobs.len()
                ))
                .help("name a folder with --output"));
            }
            if folder.exists() && !folder.is_dir() {
                return Err(Failure::new(format!(
                    "{} is a file, and there are {} results",
                    folder.shown(),
                    jobs.len()
                ))
                .help("name a folder with --output"));
            }
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::new(format!("{}: {error}", folder.shown())))?;
        }
        let mut taken = HashMap::new();
        let mut outputs = Vec::new();
        for (file, target) in jobs {
            let extension = if several_targets {
                format!("{target}.cubin")
            } else {
                "cubin".to_owned()
            };
            let beside = if is_standard(file) && (is_folder || several_targets) {
                Path::new("stdin").with_extension(&extension)
            } else if is_standard(file) {
                file.to_path_buf()
            } else {
                file.with_extension(&extension)
            };
            let path = match output {
                Some(folder) if is_folder => folder.join(beside.file_name().unwrap_or_default()),
                Some(file) => file.to_owned(),
                None => beside,
            };
            let output = Output::at(path)?;
            if let Some(source) = jobs.iter().find(|(source, _)| output.is(source)) {
                return Err(Failure::new(format!(
                    "{}: the code would replace the PTX",
                    source.0.shown()
                ))
                .help("name another file with --output"));
            }
            if let Some(other) = taken.insert(output.place(), *file) {
                return Err(Failure::new(format!(
                    "{} and {} would both be written to {}",
                    other.shown(),
                    file.shown(),
                    output.name()
                ))
                .help("assemble them separately, with other names in --output"));
            }
            outputs.push(output);
        }
        Ok(outputs)
    }

    fn at(path: PathBuf) -> Result<Output, Failure> {
        if !is_standard(&path) {
            return Ok(Output::File(path));
        }
        if std::io::stdout().is_terminal() {
            Err(
                Failure::new("the code is binary, and standard output is a terminal")
                    .help("name a file with --output, or redirect standard output"),
            )
        } else {
            Ok(Output::Standard)
        }
    }

    /// The file without links; `None` for standard output.
    fn place(&self) -> Option<PathBuf> {
        match self {
            Output::File(path) => Some(written::place(path)),
            Output::Standard => None,
        }
    }

    /// Whether it is this file.
    pub fn is(&self, file: &Path) -> bool {
        match self {
            Output::File(path) => !is_standard(file) && written::is_same(path, file),
            Output::Standard => false,
        }
    }

    pub fn name(&self) -> String {
        match self {
            Output::File(path) => path.shown().to_string(),
            Output::Standard => "<stdout>".to_owned(),
        }
    }

    /// Writes the code.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, code: &[u8]) -> Result<(), Failure> {
        match self {
            Output::File(path) => written::replace(path, code)
                .map_err(|error| Failure::new(format!("{}: {error}", path.shown()))),
            Output::Standard => {
                print_bytes(code);
                Ok(())
            }
        }
    }
}
