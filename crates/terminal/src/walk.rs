//! The files of a folder.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The files of a folder and the folders in it, by name. Hidden ones are left out: tools keep
/// their own files there.
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
            Err(error) => Some(Err(Failure::new(error))),
        })
}

/// `./a.ptx` of the current folder is called `a.ptx`.
fn clean(path: PathBuf) -> PathBuf {
    path.strip_prefix("./").map(Path::to_owned).unwrap_or(path)
}

/// Whether a file is PTX by its name.
pub fn is_ptx(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ptx"))
}
