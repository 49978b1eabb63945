//! Traversal of folders.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output::Escaped;

/// The files of a folder and its subfolders, sorted by name. Hidden ones are skipped.
pub fn files(folder: &Path) -> impl Iterator<Item = Result<PathBuf, Failure>> {
    let visible = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".")
    };
    walkdir::WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(visible)
        .filter_map(|entry| match entry {
            Ok(entry) if entry.file_type().is_file() => Some(Ok(clean(entry.into_path()))),
            Ok(_) => None,
            Err(error) => Some(Err(Failure::new(Escaped::new(error)))),
        })
}

/// Strips `./` from paths in the current folder.
fn clean(path: PathBuf) -> PathBuf {
    path.strip_prefix("./").map(Path::to_owned).unwrap_or(path)
}

/// Whether a file name has the extension of PTX.
pub fn is_ptx(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ptx"))
}
